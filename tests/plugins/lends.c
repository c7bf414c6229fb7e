/**
 * \file lends.c
 * \brief The plugin of `ext_dev.c` with memory that the host sees by mapping it alone, and which adopts the
 * host's.
 */
#define crossdock_plugin crossdock_plugin_plain
#include "ext_dev.c"
#undef crossdock_plugin

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

enum { MOST_ADOPTED = 64 };
/* Guarded by `lock`. One entry an adoption, so what was adopted twice is there twice. */
static allocation adopted[MOST_ADOPTED];

/** An adoption of these bytes, or NULL; none at 0 are those of an empty place. The caller holds `lock`. */
static allocation *find_adopted(uint64_t address, uint64_t bytes) {
    for (size_t i = 0; i < MOST_ADOPTED; i++) {
        allocation *at = &adopted[i];
        if (address >= at->base && address - at->base <= at->size &&
            bytes <= at->size - (address - at->base)) {
            return at;
        }
    }
    return NULL;
}

static xd_status lends_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                   xd_plugin_error **error) {
    xd_status status = ext_device_info(plugin, device, out, error);
    if (status == XD_OK) {
        out->capabilities = XD_CAP_ADOPT_HOST;
    }
    return status;
}

static xd_status lends_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                     xd_pointer_info *out, xd_plugin_error **error) {
    xd_status status = ext_pointer_query(plugin, address, out, error);
    if (status != XD_OK) {
        return status;
    }
    out->host_pointer = 0;
    out->flags = 0;
    uint64_t asked = address->word + address->offset;
    pthread_mutex_lock(&lock);
    const allocation *at = address->form == XD_ADDRESS_POINTER ? find_adopted(asked, 1) : NULL;
    if (at) {
        out->kind = XD_MEMORY_DEVICE;
        out->base.word = at->base;
        out->size = at->size;
        out->allocation_id = at->id;
        out->device_pointer = asked;
        out->flags = XD_POINTER_FOREIGN;
    }
    pthread_mutex_unlock(&lock);
    return XD_OK;
}

/** A side in adopted memory is host memory to the copies of `ext_dev.c`. */
static xd_side as_host(xd_side side, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    if (side.device == 0 && find_adopted(side.address.word + side.address.offset, bytes)) {
        side.kind = XD_MEMORY_HOST;
    }
    pthread_mutex_unlock(&lock);
    return side;
}

static xd_status lends_copy(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                            xd_plugin_error **error) {
    if (!args) {
        return ext_copy(plugin, args, stream, error);
    }
    xd_copy_args seen = *args;
    seen.dst = as_host(args->dst, args->bytes);
    seen.src = as_host(args->src, args->bytes);
    return ext_copy(plugin, &seen, stream, error);
}

static xd_status lends_adopt(xd_plugin_handle plugin, uint32_t device, const xd_address *foreign,
                             xd_memory_kind kind, uint64_t size, xd_adopt_flags flags, xd_address *out,
                             xd_plugin_error **error) {
    (void)plugin, (void)flags;
    if (!foreign || !out || device != 0 || size == 0) {
        return xd_plugin_fail(XD_INVALID, "adopt", "no such device, or an argument is NULL", error);
    }
    if (kind != XD_MEMORY_HOST || foreign->form != XD_ADDRESS_POINTER) {
        return xd_plugin_fail(XD_UNSUPPORTED, "adopt", "it is no host memory", error);
    }
    pthread_mutex_lock(&lock);
    allocation *at = refused == XD_OK ? find_adopted(0, 0) : NULL;
    if (at) {
        at->base = foreign->word + foreign->offset;
        at->size = size;
        at->id = next_id++;
    }
    pthread_mutex_unlock(&lock);
    if (!at) {
        return xd_plugin_fail(XD_OOM_HOST, "adopt", "no place is left, or no new work is taken", error);
    }
    memset(out, 0, sizeof *out);
    out->word = foreign->word + foreign->offset;
    out->form = XD_ADDRESS_POINTER;
    return XD_OK;
}

static xd_status lends_release_adopted(xd_plugin_handle plugin, uint32_t device,
                                       const xd_address *address, xd_plugin_error **error) {
    (void)plugin;
    uint64_t base = address && device == 0 ? address->word + address->offset : 0;
    pthread_mutex_lock(&lock);
    allocation *at = base ? find_adopted(base, 1) : NULL;
    int mine = at && at->base == base;
    if (mine) {
        memset(at, 0, sizeof *at);
    }
    pthread_mutex_unlock(&lock);
    return mine ? XD_OK : xd_plugin_fail(XD_NOT_OWNER, "release_adopted", "it was not adopted", error);
}

static xd_status lends_map(xd_plugin_handle plugin, uint32_t device, const xd_address *address,
                           uint64_t size, void **out, xd_plugin_error **error) {
    (void)plugin;
    if (!address || !out || device != 0 || size == 0) {
        return xd_plugin_fail(XD_INVALID, "map", "no such device, or an argument is NULL", error);
    }
    uint64_t first = address->word + address->offset;
    pthread_mutex_lock(&lock);
    const allocation *at = find(first);
    int mine = find_adopted(first, size) || (at && size <= at->size - (first - at->base));
    pthread_mutex_unlock(&lock);
    if (!mine) {
        return xd_plugin_fail(XD_NOT_OWNER, "map", "it is not memory of this plugin", error);
    }
    *out = (void *)(uintptr_t)first;
    return XD_OK;
}

static xd_status lends_unmap(xd_plugin_handle plugin, uint32_t device, const xd_address *address,
                             void *pointer, xd_plugin_error **error) {
    (void)plugin;
    uint64_t first = address ? address->word + address->offset : 0;
    if (device != 0 || !first || first != (uint64_t)(uintptr_t)pointer) {
        return xd_plugin_fail(XD_NOT_OWNER, "unmap", "it is not a mapping of this address", error);
    }
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static const xd_adopt_hooks adopt = {.adopt = lends_adopt,
                                         .release_adopted = lends_release_adopted};
    static const xd_map_hooks map = {.map = lends_map, .unmap = lends_unmap};
    static xd_plugin_table table;
    table = *crossdock_plugin_plain();
    table.device_info = lends_device_info;
    table.pointer_query = lends_pointer_query;
    table.copy = lends_copy;
    table.adopt = &adopt;
    table.map = &map;
    return &table;
}
