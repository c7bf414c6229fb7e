/**
 * \file asks_driver.c
 * \brief The plugin of `ext_dev.c` as one that has to ask its driver who owns an address: it counts how
 * often it is asked, and a test says which bytes are memory of its device.
 */
#define crossdock_plugin crossdock_plugin_with_table
#include "ext_dev.c"
#undef crossdock_plugin

#include <stdatomic.h>

/** What memory the test says that it is. */
enum { DEVICE_ALONE, HOST_TOO, LOST };

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
/** How many pointer queries there were. */
XD_EXPORT unsigned asks_driver_count(void);
/** Makes `size` bytes from `base` on memory of the device: that the host does not reach (0), that it
 * reaches too (1), or of which the driver cannot tell any more (2). */
XD_EXPORT void asks_driver_own(uint64_t base, uint64_t size, unsigned what);

static atomic_uint asked;
static _Atomic uint64_t own_base, own_size;
static atomic_uint own_what;

unsigned asks_driver_count(void) { return asked; }

void asks_driver_own(uint64_t base, uint64_t size, unsigned what) {
    own_base = base;
    own_size = size;
    own_what = what;
}

static xd_status counted_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                       xd_pointer_info *out, xd_plugin_error **error) {
    if (!address || !out) {
        return xd_plugin_fail(XD_INVALID, "pointer_query", "an argument is NULL", error);
    }
    asked++;
    if (address->form != XD_ADDRESS_POINTER || address->word - own_base >= own_size) {
        return ext_pointer_query(plugin, address, out, error);
    }
    if (own_what == LOST) {
        return xd_plugin_fail(XD_DEVICE_LOST, "pointer_query", "the device is lost", error);
    }
    memset(out, 0, sizeof *out);
    out->kind = own_what == HOST_TOO ? XD_MEMORY_PINNED : XD_MEMORY_DEVICE;
    out->base.word = own_base;
    out->size = own_size;
    out->allocation_id = 1;
    out->device_pointer = address->word;
    if (own_what == HOST_TOO) {
        out->host_pointer = address->word;
        out->flags = XD_POINTER_HOST_ACCESSIBLE;
    }
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_with_table();
    table.query_cost = XD_QUERY_DRIVER;
    table.pointer_query = counted_pointer_query;
    return &table;
}
