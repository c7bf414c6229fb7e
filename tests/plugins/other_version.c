/**
 * \file other_version.c
 * \brief The plugin of `ext_dev.c` as another version of the contract would have built it.
 *
 * OTHER_MAJOR: its major version is one higher. SHORT_TABLE: from before the optional groups, so
 * that reading one of them would leave the table. LONG_TABLE: with hooks that no host knows yet.
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

const xd_plugin_table *crossdock_plugin(void) {
    other.table = *crossdock_plugin_today();
#if defined(OTHER_MAJOR)
    other.table.abi_major = XD_ABI_MAJOR + 1;
#elif defined(SHORT_TABLE)
    other.table.struct_size = offsetof(xd_plugin_table, streams);
    memset((char *)&other.table + offsetof(xd_plugin_table, streams), 0xff,
           sizeof(xd_plugin_table) - offsetof(xd_plugin_table, streams));
#elif defined(LONG_TABLE)
    other.table.struct_size = sizeof other;
    other.table.abi_minor = XD_ABI_MINOR + 1;
    memset(other.future, 0xff, sizeof other.future);
#endif
    return &other.table;
}
