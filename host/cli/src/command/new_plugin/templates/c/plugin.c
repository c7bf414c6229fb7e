/**
 * \file plugin.c
 * \brief A plugin for Crossdock: memory of the host, presented as a device of its own.
 *
 * It is whole: `crossdock conform` finds nothing to object to. To make it your device's, replace what
 * `allocate` and `free_memory` call and how `copy` and `fill` move bytes by calls of your vendor's library,
 * look for that library in `probe`, and say in `device_info` what the device is. What each hook has to do
 * stands in `crossdock/plugin.h`.
 */
#define _POSIX_C_SOURCE 200112L

#include <crossdock/plugin_support.h>

#include <pthread.h>

/* What the device says it has, and what the contract asks of every allocation. */
#define TOTAL_BYTES (UINT64_C(1) << 30)
#define LEAST_ALIGNMENT UINT64_C(256)

/* DLPack has no type for devices that it does not know but `ext_dev` (12). Several plugins may claim it: the
 * host gives their devices ids one after another. */
#define DLPACK_EXT_DEV 12

XD_PLUGIN_DESCRIBE("name=__name__", "vendor=__name__", "version=0.1.0", "devices=ext_dev");

/** One allocation. */
typedef struct allocation {
    uint64_t base, size, id;
} allocation;

/** The plugin, once for each time that a host opens it. Any thread may call any hook. */
typedef struct state {
    const xd_host_services *host;
    pthread_mutex_t lock;
    /* Guarded by `lock`: the live allocations, in no order. */
    allocation *allocations;
    size_t count, room;
    uint64_t used_bytes;
    int is_retired;
} state;

static state *state_of(xd_plugin_handle plugin) { return (state *)(uintptr_t)plugin; }

static xd_status no_device(const char *operation, xd_plugin_error **error) {
    return xd_plugin_fail(XD_INVALID, operation, "there is one device, with index 0", error);
}

static xd_status probe(xd_probe_info *out, xd_plugin_error **error) {
    (void)error;
    /* Where the vendor's library is missing: XD_PROBE_ABSENT, and in `detail` what was looked for, where. */
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_READY;
    out->device_count = 1;
    return XD_OK;
}

static xd_status open_plugin(const xd_host_services *host, xd_plugin_handle *out, xd_plugin_error **error) {
    state *made = (state *)calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return xd_plugin_fail(XD_OOM_HOST, "open", "no memory is left", error);
    }
    made->host = host;
    *out = (xd_plugin_handle)(uintptr_t)made;
    xd_plugin_log(host, 4, "__name__", "open");
    return XD_OK;
}

static xd_status device_count(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = 1;
    return XD_OK;
}

static xd_status device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                             xd_plugin_error **error) {
    (void)plugin;
    if (device != 0) {
        return no_device("device_info", error);
    }
    memset(out, 0, sizeof *out);
    out->dl_type = DLPACK_EXT_DEV;
    xd_plugin_copy_text(out->name, sizeof out->name, "Host memory of __name__");
    out->total_memory = TOTAL_BYTES;
    out->capabilities = XD_CAP_HOST_ACCESSIBLE | XD_CAP_FILL;
    out->address_form = XD_ADDRESS_POINTER;
    return XD_OK;
}

static xd_status memory_info(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                             xd_plugin_error **error) {
    state *self = state_of(plugin);
    if (device != 0) {
        return no_device("memory_info", error);
    }
    pthread_mutex_lock(&self->lock);
    out->free = TOTAL_BYTES - self->used_bytes;
    pthread_mutex_unlock(&self->lock);
    out->total = TOTAL_BYTES;
    return XD_OK;
}

/** The allocation with `address` inside it, or NULL. The caller holds the lock. */
static allocation *find(state *self, uint64_t address) {
    for (size_t i = 0; i < self->count; i++) {
        allocation *at = &self->allocations[i];
        if (address >= at->base && address - at->base < at->size) {
            return at;
        }
    }
    return NULL;
}

/** Makes room for one more allocation; 0 where no memory is left. The caller holds the lock. */
static int make_room(state *self) {
    if (self->count < self->room) {
        return 1;
    }
    size_t room = self->room ? self->room * 2 : 64;
    allocation *moved = (allocation *)realloc(self->allocations, room * sizeof *moved);
    if (!moved) {
        return 0;
    }
    self->allocations = moved;
    self->room = room;
    return 1;
}

/** Allocates and enters it. The caller holds the lock. */
static xd_status make(state *self, const xd_allocate_args *args, void **memory) {
    /* Of the process and not of this opening: no number is ever given twice. */
    static uint64_t last_id;
    uint64_t alignment = args->alignment < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : args->alignment;
    if (self->is_retired) {
        return XD_RETIRED;
    }
    if (args->size > TOTAL_BYTES - self->used_bytes ||
        posix_memalign(memory, (size_t)alignment, (size_t)args->size) != 0) {
        return XD_OOM_DEVICE;
    }
    if (!make_room(self)) {
        free(*memory);
        return XD_OOM_HOST;
    }
    allocation *at = &self->allocations[self->count++];
    at->base = (uint64_t)(uintptr_t)*memory;
    at->size = args->size;
    at->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    self->used_bytes += args->size;
    return XD_OK;
}

static xd_status allocate(xd_plugin_handle plugin, const xd_allocate_args *args, xd_address *out,
                          xd_plugin_error **error) {
    state *self = state_of(plugin);
    void *memory = NULL;
    if (args->device != 0) {
        return no_device("allocate", error);
    }
    if (args->size == 0 || args->alignment == 0 || (args->alignment & (args->alignment - 1)) != 0) {
        return xd_plugin_fail(XD_INVALID, "allocate", "no such size or alignment", error);
    }
    if (args->kind != XD_MEMORY_DEVICE) {
        return xd_plugin_fail(XD_UNSUPPORTED, "allocate", "only device memory is offered", error);
    }
    pthread_mutex_lock(&self->lock);
    xd_status status = make(self, args, &memory);
    pthread_mutex_unlock(&self->lock);
    if (status != XD_OK) {
        const char *why = status == XD_RETIRED ? "the plugin was retired" : "no memory is left";
        return xd_plugin_fail(status, "allocate", why, error);
    }
    memset(out, 0, sizeof *out);
    out->word = (uint64_t)(uintptr_t)memory;
    out->form = XD_ADDRESS_POINTER;
    return XD_OK;
}

static xd_status free_memory(xd_plugin_handle plugin, const xd_address *address, xd_memory_kind kind,
                             xd_plugin_error **error) {
    state *self = state_of(plugin);
    uint64_t base = xd_plugin_pointer(address);
    pthread_mutex_lock(&self->lock);
    allocation *at = kind == XD_MEMORY_DEVICE ? find(self, base) : NULL;
    int is_mine = at && at->base == base;
    if (is_mine) {
        self->used_bytes -= at->size;
        *at = self->allocations[--self->count];
    }
    pthread_mutex_unlock(&self->lock);
    if (!is_mine) {
        return xd_plugin_fail(XD_NOT_OWNER, "free", "no allocation of this plugin begins here", error);
    }
    free((void *)(uintptr_t)base);
    return XD_OK;
}

/** Whether a side can be used: an allocation that has all its bytes, or host memory, on trust. */
static xd_status reach(state *self, const xd_side *side, uint64_t bytes) {
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
    pthread_mutex_lock(&self->lock);
    const allocation *at = find(self, start);
    if (self->is_retired) {
        status = XD_RETIRED;
    } else if (at) {
        status = xd_plugin_inside(start - at->base, bytes, at->size) ? XD_OK : XD_INVALID;
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

static xd_status out_of_reach(xd_status status, const char *operation, xd_plugin_error **error) {
    const char *why = "a side is memory that this plugin does not reach";
    switch (status) {
    case XD_RETIRED:
        why = "the plugin was retired";
        break;
    case XD_INVALID:
        why = "a side reaches past its allocation, or is of a device that is not there";
        break;
    case XD_NOT_OWNER:
        why = "a side begins in no allocation of this plugin";
        break;
    default:
        break;
    }
    return xd_plugin_fail(status, operation, why, error);
}

static xd_status copy(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                      xd_plugin_error **error) {
    state *self = state_of(plugin);
    if (stream != XD_STREAM_NONE) {
        return xd_plugin_fail(XD_INVALID, "copy", "this plugin has no streams", error);
    }
    xd_status status = reach(self, &args->dst, args->bytes);
    if (status == XD_OK) {
        status = reach(self, &args->src, args->bytes);
    }
    if (status != XD_OK) {
        return out_of_reach(status, "copy", error);
    }
    uint64_t dst = xd_plugin_pointer(&args->dst.address), src = xd_plugin_pointer(&args->src.address);
    if (xd_plugin_overlap(dst, src, args->bytes)) {
        return xd_plugin_fail(XD_INVALID, "copy", "the sides overlap", error);
    }
    memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, (size_t)args->bytes);
    return XD_OK;
}

static xd_status fill(xd_plugin_handle plugin, const xd_fill_args *args, xd_stream_handle stream,
                      xd_plugin_error **error) {
    uint32_t length = args->pattern_bytes;
    if (stream != XD_STREAM_NONE) {
        return xd_plugin_fail(XD_INVALID, "fill", "this plugin has no streams", error);
    }
    if (length != 1 && length != 2 && length != 4 && length != 8 && length != 16) {
        return xd_plugin_fail(XD_INVALID, "fill", "a pattern has 1, 2, 4, 8 or 16 bytes", error);
    }
    xd_status status = reach(state_of(plugin), &args->dst, args->bytes);
    if (status != XD_OK) {
        return out_of_reach(status, "fill", error);
    }
    uint8_t *to = (uint8_t *)(uintptr_t)xd_plugin_pointer(&args->dst.address);
    for (uint64_t at = 0; at < args->bytes; at++) {
        to[at] = args->pattern[at % length];
    }
    return XD_OK;
}

static xd_status pointer_query(xd_plugin_handle plugin, const xd_address *address, xd_pointer_info *out,
                               xd_plugin_error **error) {
    (void)error;
    state *self = state_of(plugin);
    uint64_t asked = xd_plugin_pointer(address);
    /* All zero says XD_MEMORY_UNOWNED, which is an answer and no error. */
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&self->lock);
    const allocation *at = find(self, asked);
    if (at) {
        out->kind = XD_MEMORY_DEVICE;
        out->base.word = at->base;
        out->size = at->size;
        out->allocation_id = at->id;
        out->host_pointer = out->device_pointer = asked;
        out->flags = XD_POINTER_HOST_ACCESSIBLE;
    }
    pthread_mutex_unlock(&self->lock);
    return XD_OK;
}

static xd_status retire(xd_plugin_handle plugin, uint64_t deadline_ns, xd_plugin_error **error) {
    (void)deadline_ns, (void)error;
    state *self = state_of(plugin);
    /* Every copy is done when it returns, so there is no work to wait for. */
    pthread_mutex_lock(&self->lock);
    self->is_retired = 1;
    pthread_mutex_unlock(&self->lock);
    return XD_OK;
}

/* The handle is dead in the child, its lock with it, and what it allocated stays for what the child inherited.
 * Nothing else is static, so another `open` finds all as it should be. */
static void at_fork_child(xd_plugin_handle plugin) { (void)plugin; }

/* The plugin has no thread of its own to stop. */
static void at_exit(xd_plugin_handle plugin) { (void)plugin; }

static xd_status close_plugin(xd_plugin_handle plugin, xd_plugin_error **error) {
    (void)error;
    state *self = state_of(plugin);
    for (size_t i = 0; i < self->count; i++) {
        free((void *)(uintptr_t)self->allocations[i].base);
    }
    free(self->allocations);
    pthread_mutex_destroy(&self->lock);
    xd_plugin_log(self->host, 4, "__name__", "closed");
    free(self);
    return XD_OK;
}

static const xd_fill_hooks fill_hooks = {.fill = fill};

static const xd_plugin_table table = {
    .struct_size = (uint32_t)sizeof(xd_plugin_table),
    .abi_major = XD_ABI_MAJOR,
    .abi_minor = XD_ABI_MINOR,
    .query_cost = XD_QUERY_TABLE,
    .description = (const uint8_t *)crossdock_description,
    .error_free = xd_plugin_error_free,
    .probe = probe,
    .open = open_plugin,
    .device_count = device_count,
    .device_info = device_info,
    .memory_info = memory_info,
    .allocate = allocate,
    .free = free_memory,
    .copy = copy,
    .pointer_query = pointer_query,
    .retire = retire,
    .at_fork_child = at_fork_child,
    .at_exit = at_exit,
    .close = close_plugin,
    .fill = &fill_hooks,
};

const xd_plugin_table *crossdock_plugin(void) { return &table; }
