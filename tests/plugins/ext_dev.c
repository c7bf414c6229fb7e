/**
 * \file ext_dev.c
 * \brief A plugin in C: host memory as one device of DLPack's type `ext_dev`, mandatory hooks only.
 *
 *     cc -std=c99 -O2 -fPIC -shared -fvisibility=hidden -I sdk/include tests/plugins/ext_dev.c -o libext_dev.so -pthread
 *
 * Without streams every copy is done when it returns. The plugin keeps its own table of
 * allocations; an allocation's id is never reused.
 */
#define _POSIX_C_SOURCE 200112L

#include <crossdock/plugin_support.h>

#include <pthread.h>

enum { EXT_DEV = 12, MOST_ALLOCATIONS = 4096, LEAST_ALIGNMENT = 256 };
static const uint64_t TOTAL_BYTES = UINT64_C(1) << 30;

#ifndef DESCRIBED_ELSEWHERE
XD_PLUGIN_DESCRIBE("name=ext_dev", "vendor=crossdock", "version=1.0.0", "devices=ext_dev");
#endif

/** One allocation; `base` of 0 is an empty place. */
typedef struct allocation {
    uint64_t base, size, id;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by `lock`. */
static allocation allocations[MOST_ALLOCATIONS];
static uint64_t next_id = 1, used_bytes;
static xd_status refused; /* `XD_OK`, or why there is no new work. */
static int is_open;       /* There is one state, so it is open once at a time. */

static xd_status ext_probe(xd_probe_info *out, xd_plugin_error **error) {
    if (!out) {
        return xd_plugin_fail(XD_INVALID, "probe", "the out parameter is NULL", error);
    }
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_READY;
    out->device_count = 1;
    return XD_OK;
}

static xd_status ext_open(const xd_host_services *host, xd_plugin_handle *out,
                          xd_plugin_error **error) {
    (void)host;
    if (!out) {
        return xd_plugin_fail(XD_INVALID, "open", "the out parameter is NULL", error);
    }
    pthread_mutex_lock(&lock);
    int was_open = is_open;
    is_open = 1;
    refused = was_open ? refused : XD_OK;
    pthread_mutex_unlock(&lock);
    if (was_open) {
        return xd_plugin_fail(XD_CONFLICT, "open", "it is open already, and has one state", error);
    }
    *out = 1;
    return XD_OK;
}

static xd_status ext_device_count(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error) {
    (void)plugin;
    if (!out) {
        return xd_plugin_fail(XD_INVALID, "device_count", "the out parameter is NULL", error);
    }
    *out = 1;
    return XD_OK;
}

static xd_status ext_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                 xd_plugin_error **error) {
    (void)plugin;
    if (!out || device != 0) {
        return xd_plugin_fail(XD_INVALID, "device_info", "there is one device, with index 0",
                              error);
    }
    memset(out, 0, sizeof *out);
    out->dl_type = EXT_DEV;
    xd_plugin_copy_text(out->name, sizeof out->name, "Host memory as ext_dev");
    out->total_memory = TOTAL_BYTES;
    out->capabilities = XD_CAP_HOST_ACCESSIBLE;
    out->address_form = XD_ADDRESS_POINTER;
    return XD_OK;
}

static xd_status ext_memory_info(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                                 xd_plugin_error **error) {
    (void)plugin;
    if (!out || device != 0) {
        return xd_plugin_fail(XD_INVALID, "memory_info", "there is one device, with index 0",
                              error);
    }
    pthread_mutex_lock(&lock);
    out->free = TOTAL_BYTES - used_bytes;
    pthread_mutex_unlock(&lock);
    out->total = TOTAL_BYTES;
    return XD_OK;
}

/** The allocation with `address` inside it, or NULL. The caller holds `lock`. */
static allocation *find(uint64_t address) {
    for (size_t i = 0; i < MOST_ALLOCATIONS; i++) {
        allocation *at = &allocations[i];
        if (at->base && address >= at->base && address - at->base < at->size) {
            return at;
        }
    }
    return NULL;
}

/** Puts a new allocation into an empty place. The caller holds `lock`. */
static int record(uint64_t base, uint64_t size) {
    for (size_t i = 0; i < MOST_ALLOCATIONS; i++) {
        if (!allocations[i].base) {
            allocations[i].base = base;
            allocations[i].size = size;
            allocations[i].id = next_id++;
            used_bytes += size;
            return 1;
        }
    }
    return 0;
}

static xd_status ext_allocate(xd_plugin_handle plugin, const xd_allocate_args *args,
                              xd_address *out, xd_plugin_error **error) {
    (void)plugin;
    if (!args || !out || args->device != 0 || args->size == 0 ||
        (args->alignment & (args->alignment - 1)) != 0) {
        return xd_plugin_fail(XD_INVALID, "allocate", "no such device, size or alignment", error);
    }
    if (args->kind != XD_MEMORY_DEVICE) {
        return xd_plugin_fail(XD_UNSUPPORTED, "allocate", "only device memory is offered", error);
    }
    uint64_t alignment = args->alignment < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : args->alignment;
    void *memory = NULL;
    xd_status status = XD_OK;
    pthread_mutex_lock(&lock);
    if (refused != XD_OK) {
        status = refused;
    } else if (args->size > TOTAL_BYTES - used_bytes ||
               posix_memalign(&memory, (size_t)alignment, (size_t)args->size) != 0) {
        status = XD_OOM_DEVICE;
    } else if (!record((uint64_t)(uintptr_t)memory, args->size)) {
        free(memory);
        status = XD_OOM_DEVICE;
    }
    pthread_mutex_unlock(&lock);
    if (status != XD_OK) {
        return xd_plugin_fail(status, "allocate", "no memory is left, or no new work is taken",
                              error);
    }
    memset(out, 0, sizeof *out);
    out->word = (uint64_t)(uintptr_t)memory;
    out->form = XD_ADDRESS_POINTER;
    return XD_OK;
}

static xd_status ext_free(xd_plugin_handle plugin, const xd_address *address, xd_memory_kind kind,
                          xd_plugin_error **error) {
    (void)plugin;
    if (!address) {
        return xd_plugin_fail(XD_INVALID, "free", "the address is NULL", error);
    }
    uint64_t base = xd_plugin_pointer(address);
    pthread_mutex_lock(&lock);
    allocation *at = kind == XD_MEMORY_DEVICE ? find(base) : NULL;
    int mine = at && at->base == base;
    if (mine) {
        used_bytes -= at->size;
        memset(at, 0, sizeof *at);
    }
    pthread_mutex_unlock(&lock);
    if (!mine) {
        return xd_plugin_fail(XD_NOT_OWNER, "free", "not the base of an allocation of this plugin",
                              error);
    }
    free((void *)(uintptr_t)base);
    return XD_OK;
}

/** Whether the plugin can reach `bytes` of a side: its own memory to the end, host memory on trust. */
static xd_status reach(const xd_side *side, uint64_t bytes) {
    if (side->address.form != XD_ADDRESS_POINTER) {
        return XD_UNSUPPORTED;
    }
    if (side->kind == XD_MEMORY_HOST) {
        return XD_OK;
    }
    if (side->device != 0) {
        return XD_INVALID;
    }
    if (side->kind != XD_MEMORY_DEVICE) {
        return XD_UNSUPPORTED;
    }
    uint64_t start = xd_plugin_pointer(&side->address);
    xd_status status = XD_NOT_OWNER;
    pthread_mutex_lock(&lock);
    const allocation *at = find(start);
    if (refused != XD_OK) {
        status = refused;
    } else if (at) {
        status = xd_plugin_inside(start - at->base, bytes, at->size) ? XD_OK : XD_INVALID;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static xd_status ext_copy(xd_plugin_handle plugin, const xd_copy_args *args,
                          xd_stream_handle stream, xd_plugin_error **error) {
    (void)plugin;
    if (!args || stream != XD_STREAM_NONE) {
        return xd_plugin_fail(XD_INVALID, "copy", "the arguments are NULL, or there is a stream",
                              error);
    }
    xd_status status = reach(&args->dst, args->bytes);
    if (status == XD_OK) {
        status = reach(&args->src, args->bytes);
    }
    if (status != XD_OK) {
        return xd_plugin_fail(status, "copy",
                              "a side is out of this plugin's reach, or no new work is taken", error);
    }
    uint64_t dst = xd_plugin_pointer(&args->dst.address), src = xd_plugin_pointer(&args->src.address);
    if (xd_plugin_overlap(dst, src, args->bytes)) {
        return xd_plugin_fail(XD_INVALID, "copy", "the sides overlap", error);
    }
    memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, (size_t)args->bytes);
    return XD_OK;
}

static xd_status ext_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                   xd_pointer_info *out, xd_plugin_error **error) {
    (void)plugin;
    if (!address || !out) {
        return xd_plugin_fail(XD_INVALID, "pointer_query", "an argument is NULL", error);
    }
    memset(out, 0, sizeof *out);
    uint64_t asked = xd_plugin_pointer(address);
    pthread_mutex_lock(&lock);
    const allocation *at = find(asked);
    if (at) {
        out->kind = XD_MEMORY_DEVICE;
        out->base.word = at->base;
        out->size = at->size;
        out->allocation_id = at->id;
        out->host_pointer = out->device_pointer = asked;
        out->flags = XD_POINTER_HOST_ACCESSIBLE;
    }
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

static xd_status ext_retire(xd_plugin_handle plugin, uint64_t deadline_ns, xd_plugin_error **error) {
    (void)plugin, (void)deadline_ns, (void)error;
    pthread_mutex_lock(&lock);
    refused = XD_RETIRED;
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

/**
 * A thread that the child does not have may have held the lock. What the parent allocated is forgotten
 * and never freed, and the plugin can be opened anew.
 */
static void ext_at_fork_child(xd_plugin_handle plugin) {
    (void)plugin;
    pthread_mutex_init(&lock, NULL);
    memset(allocations, 0, sizeof allocations);
    used_bytes = 0;
    is_open = 0;
}

/* The plugin has no thread of its own to stop. */
static void ext_at_exit(xd_plugin_handle plugin) { (void)plugin; }

static xd_status ext_close(xd_plugin_handle plugin, xd_plugin_error **error) {
    (void)plugin, (void)error;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST_ALLOCATIONS; i++) {
        free((void *)(uintptr_t)allocations[i].base);
    }
    memset(allocations, 0, sizeof allocations);
    used_bytes = 0;
    is_open = 0;
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static const xd_plugin_table table = {
        .struct_size = sizeof(xd_plugin_table),
        .abi_major = XD_ABI_MAJOR,
        .abi_minor = XD_ABI_MINOR,
        .query_cost = XD_QUERY_TABLE,
        .description = (const uint8_t *)crossdock_description,
        .error_free = xd_plugin_error_free,
        .probe = ext_probe,
        .open = ext_open,
        .device_count = ext_device_count,
        .device_info = ext_device_info,
        .memory_info = ext_memory_info,
        .allocate = ext_allocate,
        .free = ext_free,
        .copy = ext_copy,
        .pointer_query = ext_pointer_query,
        .retire = ext_retire,
        .at_fork_child = ext_at_fork_child,
        .at_exit = ext_at_exit,
        .close = ext_close,
    };
    return &table;
}
