/**
 * \file with_driver.c
 * \brief The plugin of `ext_dev.c` as one that starts a driver: it counts how often that is looked for and
 * started. Its name and the types of its devices are given to the compiler, as in
 * `-DNAME="one" -DTYPES="ext_dev,vpi" -DNUMBERS=12,9`. ABSENT: the driver is not there.
 */
#define _POSIX_C_SOURCE 200112L
#include <crossdock/plugin.h>

XD_PLUGIN_DESCRIBE_DRIVER("name=" NAME, "vendor=crossdock", "version=1.0.0", "devices=" TYPES,
                          "driver=lib" NAME ".so.1");

#define DESCRIBED_ELSEWHERE
#define crossdock_plugin crossdock_plugin_without_driver
#include "ext_dev.c"
#undef crossdock_plugin

#include <stdatomic.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
/** How often the driver was called: looked for, started, asked whose an address is. */
XD_EXPORT unsigned driver_calls(void);

static const int32_t types[] = {NUMBERS};
static atomic_uint calls;

unsigned driver_calls(void) { return calls; }

static xd_status driver_probe(xd_probe_info *out, xd_plugin_error **error) {
    calls++;
#ifdef ABSENT
    (void)error;
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_ABSENT;
    return XD_OK;
#else
    return ext_probe(out, error);
#endif
}

static xd_status driver_open(const xd_host_services *host, xd_plugin_handle *out,
                             xd_plugin_error **error) {
    calls++;
    return ext_open(host, out, error);
}

static xd_status driver_device_count(xd_plugin_handle plugin, uint32_t *out,
                                     xd_plugin_error **error) {
    (void)plugin;
    (void)error;
    *out = sizeof types / sizeof *types;
    return XD_OK;
}

static xd_status driver_device_info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                                    xd_plugin_error **error) {
    xd_status status = ext_device_info(plugin, 0, out, error);
    if (status == XD_OK) {
        out->dl_type = types[device];
        out->uuid[0] = (uint8_t)(NAME[0] + device);
    }
    return status;
}

static xd_status driver_pointer_query(xd_plugin_handle plugin, const xd_address *address,
                                      xd_pointer_info *out, xd_plugin_error **error) {
    calls++;
    return ext_pointer_query(plugin, address, out, error);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_without_driver();
    table.query_cost = XD_QUERY_DRIVER;
    table.probe = driver_probe;
    table.open = driver_open;
    table.device_count = driver_device_count;
    table.device_info = driver_device_info;
    table.pointer_query = driver_pointer_query;
    return &table;
}
