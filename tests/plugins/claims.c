/**
 * \file claims.c
 * \brief The plugin of `ext_dev.c`, which says of every pointer that it knows it, or fails.
 *
 * ALLOCATED: as device memory of its own. REGISTERED: as memory of others that it registered.
 * WRONG_DEVICE: as memory of a device that it does not have. ELSEWHERE: as pinned memory that the host
 * has at another address. FAILS: every pointer query fails.
 */
#define crossdock_plugin crossdock_plugin_honest
#include "ext_dev.c"
#undef crossdock_plugin

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

static xd_status claims_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                      xd_pointer_info *out, xd_plugin_error **error) {
    (void)plugin;
    if (!address || !out) {
        return xd_plugin_fail(XD_INVALID, "pointer_query", "an argument is NULL", error);
    }
#if defined(FAILS)
    return xd_plugin_fail(XD_DEVICE_LOST, "pointer_query", "the device is lost", error);
#else
    memset(out, 0, sizeof *out);
    if (address->form != XD_ADDRESS_POINTER) {
        return XD_OK;
    }
    out->kind = XD_MEMORY_DEVICE;
    out->base = *address;
    out->size = 1;
    out->allocation_id = 1;
#if defined(REGISTERED)
    out->flags = XD_POINTER_FOREIGN;
#elif defined(WRONG_DEVICE)
    out->device = 9;
#elif defined(ELSEWHERE)
    out->kind = XD_MEMORY_PINNED;
    out->device_pointer = address->word;
    out->host_pointer = address->word + 4096;
    out->flags = XD_POINTER_HOST_ACCESSIBLE;
#endif
    return XD_OK;
#endif
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_honest();
    table.pointer_query = claims_pointer_query;
    return &table;
}
