/**
 * \file other_version.c
 * \brief The plugin of `ext_dev.c` as another version of the contract would have built it.
 *
 * OTHER_MAJOR: its major version is one higher. SHORT_TABLE: from before the optional groups, so
 * that reading one of them would leave the table; with CLAIMS_GROUP its device claims one of them.
 * LONG_TABLE: with hooks, capabilities and words that no host knows yet. Of today, RESERVED: with a word
 * that is to be zero, and LONG_TODAY: with a size that no table of today has.
 */
#define crossdock_plugin crossdock_plugin_today
#include "ext_dev.c"
#undef crossdock_plugin

#include <stddef.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

static struct {
    xd_plugin_table table;
    uint64_t future[8];
} other;

/** As a plugin that claims what its table has no group for. */
static xd_status other_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                   xd_plugin_error **error) {
    xd_status status = ext_device_info(plugin, device, out, error);
    if (status == XD_OK) {
#if defined(CLAIMS_GROUP)
        out->capabilities |= XD_CAP_FILL;
#elif defined(LONG_TABLE)
        out->capabilities |= UINT64_C(1) << 63;
#endif
    }
    return status;
}

const xd_plugin_table *crossdock_plugin(void) {
    other.table = *crossdock_plugin_today();
    other.table.device_info = other_device_info;
#if defined(OTHER_MAJOR)
    other.table.abi_major = XD_ABI_MAJOR + 1;
#elif defined(SHORT_TABLE)
    other.table.struct_size = offsetof(xd_plugin_table, streams);
    memset((char *)&other.table + offsetof(xd_plugin_table, streams), 0xff,
           sizeof(xd_plugin_table) - offsetof(xd_plugin_table, streams));
#elif defined(LONG_TABLE)
    other.table.struct_size = sizeof other;
    other.table.abi_minor = XD_ABI_MINOR + 1;
    other.table.reserved[0] = 7;
    memset(other.future, 0xff, sizeof other.future);
#elif defined(LONG_TODAY)
    other.table.struct_size = sizeof other;
#elif defined(RESERVED)
    other.table.reserved[1] = 1;
#endif
    return &other.table;
}
