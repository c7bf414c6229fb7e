/**
 * \file accelerators.c
 * \brief A plugin in C that claims CUDA and ROCm devices over host memory, and notes every wait.
 *
 *     cc -std=c99 -O2 -fPIC -shared -fvisibility=hidden -I sdk/include \
 *         tests/plugins/accelerators.c -o libaccelerators.so -pthread
 *
 * For tests of the rules that concern streams, device ids and memory kinds. Devices: `cuda:0` to
 * `cuda:2`, with pinned and managed memory, and `rocm:0` and `rocm:1`, with pinned memory. The host
 * does not get at device memory through the plugin, but a test may look at its addresses.
 *
 * Work is done at once. Events are pending while a test holds them (`accel_hold`), until somebody
 * synchronizes. The log has one line for each call, streams by their native integers, events by
 * numbers that are never used again:
 *
 *     record cuda:0/0 e1         wait cuda:0/7 e1            synchronize cuda:0/7
 *     copy cuda:0>host 64 cuda:0/0                           synchronize e1
 *     copy host>cuda:0 64 now    allocate cuda:0 256         free cuda:0 256
 */
#define _POSIX_C_SOURCE 200112L

#include "accelerators_state.h"

XD_PLUGIN_DESCRIBE_DRIVER("name=accelerators", "vendor=crossdock", "version=1.0.0",
                          "devices=cuda,cuda_host,cuda_managed,rocm,rocm_host",
                          "driver=libaccelerators.so.1");

static xd_status accel_probe(xd_probe_info *out, xd_plugin_error **error) {
    (void)error;
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_READY;
    out->device_count = DEVICES;
    return XD_OK;
}

static xd_status accel_open(const xd_host_services *host, xd_plugin_handle *out,
                            xd_plugin_error **error) {
    (void)host, (void)error;
    pthread_mutex_lock(&lock);
    refused = XD_OK;
    memset(streams, 0, sizeof streams);
    for (uint32_t device = 0; device < DEVICES; device++) {
        stream *defaults = &streams[2 * device];
        defaults[0] = (stream){1, device, 0, 0};
        defaults[1] = (stream){1, device, 2, 0};
    }
    pthread_mutex_unlock(&lock);
    *out = 1;
    return XD_OK;
}

static xd_status accel_device_count(xd_plugin_handle plugin, uint32_t *out,
                                    xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = DEVICES;
    return XD_OK;
}

static xd_status accel_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                   xd_plugin_error **error) {
    (void)plugin;
    if (device >= DEVICES) {
        return xd_plugin_fail(XD_INVALID, "device_info", "there is no such device", error);
    }
    int is_cuda = claimed[device].type == CUDA;
    memset(out, 0, sizeof *out);
    out->dl_type = claimed[device].type;
    out->dl_id = claimed[device].id;
    xd_plugin_copy_text(out->name, sizeof out->name, "Host memory that claims to be an accelerator");
    out->total_memory = TOTAL_BYTES;
    out->capabilities = XD_CAP_ASYNC_COPY | XD_CAP_TIMING | XD_CAP_PINNED;
    out->capabilities |= is_cuda ? XD_CAP_MANAGED : 0;
    out->address_form = XD_ADDRESS_POINTER;
    out->pinned_dl_type = is_cuda ? CUDA_HOST : ROCM_HOST;
    out->managed_dl_type = is_cuda ? CUDA_MANAGED : 0;
    return XD_OK;
}

static xd_status accel_memory_info(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                                   xd_plugin_error **error) {
    (void)plugin, (void)device, (void)error;
    out->free = UINT64_MAX;
    out->total = TOTAL_BYTES;
    return XD_OK;
}

static xd_status accel_allocate(xd_plugin_handle plugin, const xd_allocate_args *args,
                                xd_address *out, xd_plugin_error **error) {
    (void)plugin;
    if (refused != XD_OK) {
        return xd_plugin_fail(refused, "allocate", "no new work is taken", error);
    }
    if (args->kind == XD_MEMORY_MANAGED && claimed[args->device].type != CUDA) {
        return xd_plugin_fail(XD_UNSUPPORTED, "allocate", "there is no managed memory", error);
    }
    memset(out, 0, sizeof *out);
    out->word = args->size > TOTAL_BYTES ? 0 : make(args->device, args->kind, args->size,
                                                    args->alignment);
    out->form = XD_ADDRESS_POINTER;
    return out->word ? XD_OK : xd_plugin_fail(XD_OOM_DEVICE, "allocate", "no memory is left",
                                              error);
}

static xd_status accel_free(xd_plugin_handle plugin, const xd_address *address, xd_memory_kind kind,
                            xd_plugin_error **error) {
    (void)plugin;
    uint64_t base = xd_plugin_pointer(address);
    pthread_mutex_lock(&lock);
    allocation *at = find(base);
    int mine = at && at->base == base && at->kind == kind;
    if (mine) {
        note("free %s %llu\n", name_of(at->device, kind), (unsigned long long)at->size);
        at->base = 0;
    }
    pthread_mutex_unlock(&lock);
    if (!mine) {
        return xd_plugin_fail(XD_NOT_OWNER, "free", "not the base of an allocation of this plugin",
                              error);
    }
    free((void *)(uintptr_t)base);
    return XD_OK;
}

/** Whether a side is in reach: `bytes` of an allocation, or host memory on trust. */
static xd_status reach(const xd_side *side, uint64_t bytes) {
    if (side->kind == XD_MEMORY_HOST) {
        return XD_OK;
    }
    uint64_t start = xd_plugin_pointer(&side->address);
    const allocation *at = find(start);
    if (!at) {
        return XD_NOT_OWNER;
    }
    return xd_plugin_inside(start - at->base, bytes, at->size) ? XD_OK : XD_INVALID;
}

static xd_status accel_copy(xd_plugin_handle plugin, const xd_copy_args *args,
                            xd_stream_handle handle, xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    const stream *on = stream_of(handle);
    xd_status status = refused != XD_OK ? refused : handle && !on ? XD_STALE : XD_OK;
    uint64_t dst = xd_plugin_pointer(&args->dst.address), src = xd_plugin_pointer(&args->src.address);
    status = status == XD_OK ? reach(&args->dst, args->bytes) : status;
    status = status == XD_OK ? reach(&args->src, args->bytes) : status;
    if (status == XD_OK && xd_plugin_overlap(dst, src, args->bytes)) {
        status = XD_INVALID;
    }
    if (status == XD_OK) {
        note("copy %s>%s %llu ", name_of(args->src.device, args->src.kind),
             name_of(args->dst.device, args->dst.kind), (unsigned long long)args->bytes);
        if (on) {
            note("%s/%llu\n", name_of(on->device, XD_MEMORY_DEVICE),
                 (unsigned long long)on->native);
            now++;
        } else {
            note("now\n");
        }
        memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, (size_t)args->bytes);
    }
    pthread_mutex_unlock(&lock);
    return status == XD_OK ? XD_OK : xd_plugin_fail(status, "copy",
                                                    "no such stream or memory, or not so much of it",
                                                    error);
}

static xd_status accel_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                     xd_pointer_info *out, xd_plugin_error **error) {
    (void)plugin, (void)error;
    memset(out, 0, sizeof *out);
    uint64_t asked = xd_plugin_pointer(address);
    pthread_mutex_lock(&lock);
    const allocation *at = find(asked);
    if (at) {
        int is_cuda = claimed[at->device].type == CUDA;
        out->kind = at->kind;
        out->device = !lies ? at->device : is_cuda ? (at->device + 1) % 3 : 7 - at->device;
        out->base.word = at->base;
        out->size = at->size;
        out->allocation_id = at->id;
        out->device_pointer = asked;
        out->context = 0xC000 + at->device;
        if (at->kind != XD_MEMORY_DEVICE) {
            out->host_pointer = asked;
            out->flags = XD_POINTER_HOST_ACCESSIBLE |
                         (at->kind == XD_MEMORY_MANAGED ? XD_POINTER_MANAGED : 0);
        }
        out->flags |= of_others ? XD_POINTER_FOREIGN : 0;
    }
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

/** A new stream with a native integer. */
static xd_status add_stream(uint32_t device, uint64_t native, xd_stream_handle *out,
                            xd_plugin_error **error) {
    pthread_mutex_lock(&lock);
    size_t i = 2 * DEVICES;
    while (i < MOST && streams[i].used) {
        i++;
    }
    if (i < MOST) {
        streams[i] = (stream){1, device, native, 0};
    }
    pthread_mutex_unlock(&lock);
    *out = i + 1;
    return i < MOST ? XD_OK : xd_plugin_fail(XD_OOM_HOST, "stream", "there are too many streams",
                                             error);
}

static xd_status accel_stream_create(xd_plugin_handle plugin, uint32_t device,
                                     xd_stream_handle *out,
                                     xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    uint64_t native = next_native++;
    pthread_mutex_unlock(&lock);
    return add_stream(device, native, out, error);
}

static xd_status accel_stream_wrap(xd_plugin_handle plugin, uint32_t device, uint64_t native,
                                   xd_stream_handle *out, xd_plugin_error **error) {
    (void)plugin;
    return add_stream(device, native, out, error);
}

static xd_status accel_stream_default(xd_plugin_handle plugin, uint32_t device,
                                      xd_default_stream which,
                                      xd_stream_handle *out, xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = 2 * device + (which == XD_DEFAULT_STREAM_PER_THREAD) + 1;
    return XD_OK;
}

static xd_status accel_stream_native(xd_plugin_handle plugin, xd_stream_handle handle,
                                     uint64_t *out,
                                     xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    const stream *on = stream_of(handle);
    *out = on ? on->native : *out;
    pthread_mutex_unlock(&lock);
    return on ? XD_OK : xd_plugin_fail(XD_STALE, "stream_native", "no such stream", error);
}

static xd_status accel_stream_destroy(xd_plugin_handle plugin, xd_stream_handle handle,
                                      xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    stream *on = handle > 2 * DEVICES ? stream_of(handle) : NULL;
    if (on) {
        on->used = 0;
    }
    pthread_mutex_unlock(&lock);
    return on ? XD_OK : xd_plugin_fail(XD_STALE, "stream_destroy", "no such stream", error);
}

/** What a stream does to an event, if any: a line, and a moment. */
static xd_status act(const char *what, xd_stream_handle handle, xd_event_handle of,
                     xd_plugin_error **error) {
    pthread_mutex_lock(&lock);
    stream *on = stream_of(handle);
    event *at = event_of(of);
    xd_status status = captures ? XD_CAPTURING : on && (at || !of) ? XD_OK : XD_STALE;
    if (status == XD_OK) {
        note("%s %s/%llu", what, name_of(on->device, XD_MEMORY_DEVICE),
             (unsigned long long)on->native);
        if (at) {
            note(" e%llu\n", (unsigned long long)at->number);
            at->at = what[0] == 'r' ? now++ : at->at;
            on->behind = at->at > on->behind ? at->at : on->behind;
        } else {
            note("\n");
            done = on->behind > done ? on->behind : done;
        }
    }
    pthread_mutex_unlock(&lock);
    return status == XD_OK ? XD_OK : xd_plugin_fail(status, what,
                                                    "no such stream or event, or a capture", error);
}

static xd_status accel_stream_synchronize(xd_plugin_handle plugin, xd_stream_handle handle,
                                          uint64_t timeout_ns, xd_plugin_error **error) {
    (void)plugin, (void)timeout_ns;
    xd_status status = act("synchronize", handle, 0, error);
    if (status != XD_OK || !fails) {
        return status;
    }
    fails = 0;
    return xd_plugin_fail(XD_VENDOR, "stream_synchronize", "work on the stream failed", error);
}

static xd_status accel_stream_query(xd_plugin_handle plugin, xd_stream_handle handle,
                                    xd_plugin_error **error) {
    (void)plugin, (void)handle, (void)error;
    pthread_mutex_lock(&lock);
    int pending = done < now - 1;
    pthread_mutex_unlock(&lock);
    return pending ? XD_NOT_READY : XD_OK;
}

static xd_status accel_stream_wait_event(xd_plugin_handle plugin, xd_stream_handle handle,
                                         xd_event_handle of, xd_plugin_error **error) {
    (void)plugin;
    return act("wait", handle, of, error);
}

static xd_status accel_event_record(xd_plugin_handle plugin, xd_event_handle of,
                                    xd_stream_handle handle, xd_plugin_error **error) {
    (void)plugin;
    return act("record", handle, of, error);
}

static xd_status accel_event_create(xd_plugin_handle plugin, uint32_t device, xd_event_handle *out,
                                    xd_plugin_error **error) {
    (void)plugin, (void)device;
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < MOST && events[i].number) {
        i++;
    }
    if (i < MOST) {
        events[i] = (event){next_id++, 0};
    }
    pthread_mutex_unlock(&lock);
    *out = i + 1;
    return i < MOST ? XD_OK : xd_plugin_fail(XD_OOM_HOST, "event_create",
                                             "there are too many events", error);
}

static xd_status accel_event_query(xd_plugin_handle plugin, xd_event_handle of,
                                   xd_plugin_error **error) {
    (void)plugin, (void)error;
    pthread_mutex_lock(&lock);
    const event *at = event_of(of);
    int pending = at && at->at > done;
    pthread_mutex_unlock(&lock);
    return pending ? XD_NOT_READY : XD_OK;
}

static xd_status accel_event_synchronize(xd_plugin_handle plugin, xd_event_handle of,
                                         uint64_t timeout_ns, xd_plugin_error **error) {
    (void)plugin, (void)timeout_ns;
    pthread_mutex_lock(&lock);
    const event *at = event_of(of);
    if (at) {
        note("synchronize e%llu\n", (unsigned long long)at->number);
        done = at->at > done ? at->at : done;
    }
    pthread_mutex_unlock(&lock);
    return fails ? xd_plugin_fail(XD_VENDOR, "event_synchronize", "work before the event failed",
                                  error)
                 : XD_OK;
}

static xd_status accel_event_destroy(xd_plugin_handle plugin, xd_event_handle of,
                                     xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    event *at = event_of(of);
    if (at) {
        at->number = 0;
    }
    pthread_mutex_unlock(&lock);
    return at ? XD_OK : xd_plugin_fail(XD_STALE, "event_destroy", "no such event", error);
}

/** A microsecond passes from one record to the next. */
static xd_status accel_event_elapsed(xd_plugin_handle plugin, xd_event_handle start,
                                     xd_event_handle end,
                                     uint64_t *out, xd_plugin_error **error) {
    (void)plugin;
    pthread_mutex_lock(&lock);
    const event *from = event_of(start), *to = event_of(end);
    int known = from && to && from->at && to->at && to->at >= from->at;
    *out = known ? 1000 * (to->at - from->at) : *out;
    pthread_mutex_unlock(&lock);
    const char *why = from && to && from->at && to->at ? "the second happened before the first"
                                                       : "one was never recorded";
    return known ? XD_OK : xd_plugin_fail(XD_INVALID, "event_elapsed", why, error);
}

static xd_status accel_retire(xd_plugin_handle plugin, uint64_t deadline_ns,
                              xd_plugin_error **error) {
    (void)plugin, (void)deadline_ns, (void)error;
    pthread_mutex_lock(&lock);
    refused = XD_RETIRED;
    done = UINT64_MAX;
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

/** A thread that the child does not have may have held the lock. */
static void accel_at_fork_child(xd_plugin_handle plugin) {
    (void)plugin;
    pthread_mutex_init(&lock, NULL);
    refused = XD_FORKED;
}

/* The plugin has no thread of its own to stop, and its memory may outlive it. */
static void accel_at_exit(xd_plugin_handle plugin) { (void)plugin; }
static xd_status accel_close(xd_plugin_handle plugin, xd_plugin_error **error) {
    (void)plugin, (void)error;
    return XD_OK;
}

static const xd_stream_hooks stream_hooks = {
    .stream_create = accel_stream_create,
    .stream_default = accel_stream_default,
    .stream_native = accel_stream_native,
    .stream_destroy = accel_stream_destroy,
    .stream_synchronize = accel_stream_synchronize,
    .stream_query = accel_stream_query,
    .stream_wait_event = accel_stream_wait_event,
    .event_create = accel_event_create,
    .event_record = accel_event_record,
    .event_query = accel_event_query,
    .event_synchronize = accel_event_synchronize,
    .event_destroy = accel_event_destroy,
};
static const xd_wrap_hooks wrap_hooks = {.stream_wrap = accel_stream_wrap};
static const xd_timing_hooks timing_hooks = {.event_elapsed = accel_event_elapsed};

const xd_plugin_table *crossdock_plugin(void) {
    static const xd_plugin_table table = {
        .struct_size = sizeof(xd_plugin_table),
        .abi_major = XD_ABI_MAJOR,
        .abi_minor = XD_ABI_MINOR,
        .query_cost = XD_QUERY_TABLE,
        .description = (const uint8_t *)crossdock_description,
        .error_free = xd_plugin_error_free,
        .probe = accel_probe,
        .open = accel_open,
        .device_count = accel_device_count,
        .device_info = accel_device_info,
        .memory_info = accel_memory_info,
        .allocate = accel_allocate,
        .free = accel_free,
        .copy = accel_copy,
        .pointer_query = accel_pointer_query,
        .retire = accel_retire,
        .at_fork_child = accel_at_fork_child,
        .at_exit = accel_at_exit,
        .close = accel_close,
        .streams = &stream_hooks,
        .wrap = &wrap_hooks,
        .timing = &timing_hooks,
    };
    return &table;
}
