/**
 * \file faulty.c
 * \brief The plugin of `ext_dev.c` with one fault, chosen by a macro.
 *
 * At the entry: ENTRY_NULL. In the table: NULL_HOOK, EMPTY_GROUP. In a hook: PROBE_FAILS,
 * PROBE_GARBAGE, PROBE_SILENT (writes nothing), OPEN_FAILS, OPEN_FAILS_ONCE (then it says "already
 * open"), OPEN_FAILS_AT_FIRST (twice, and then no more), OPEN_ZERO (no handle), TOO_OLD, COUNT_FAILS,
 * COUNT=N (so many devices), INFO_FAILS, PANICS (the copy). REENTERS calls what its symbol
 * `on_open` was set to, while it is opened.
 */
#define crossdock_plugin crossdock_plugin_good
#include "ext_dev.c"
#undef crossdock_plugin

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

#ifdef REENTERS
XD_EXPORT void (*on_open)(void);
#endif

#if defined(PROBE_SILENT)
static xd_status probe(xd_probe_info *out, xd_plugin_error **error) {
    (void)out, (void)error;
    return XD_OK;
}
#elif defined(PROBE_FAILS) || defined(PROBE_GARBAGE)
static xd_status probe(xd_probe_info *out, xd_plugin_error **error) {
    memset(out, 0x7f, sizeof *out);
#ifdef PROBE_FAILS
    return xd_plugin_fail(XD_PANIC, "probe", "the probe panicked", error);
#else
    (void)error;
    return XD_OK;
#endif
}
#endif

static xd_status faulty_open(const xd_host_services *host, xd_plugin_handle *out,
                             xd_plugin_error **error) {
#if defined(OPEN_FAILS)
    (void)host, (void)out;
    return xd_plugin_fail(XD_VENDOR, "open", "the driver said no", error);
#elif defined(OPEN_FAILS_ONCE)
    static int tries;
    (void)host, (void)out;
    return tries++ ? xd_plugin_fail(XD_CONFLICT, "open", "already exists", error)
                   : xd_plugin_fail(XD_VENDOR, "open", "the driver said no", error);
#elif defined(OPEN_FAILS_AT_FIRST)
    static int tries;
    return tries++ < 2 ? xd_plugin_fail(XD_VENDOR, "open", "the driver said no", error)
                       : ext_open(host, out, error);
#elif defined(TOO_OLD)
    (void)host, (void)out;
    return xd_plugin_fail(XD_DRIVER_TOO_OLD, "open", "the driver is version 11, and 12 is needed",
                          error);
#elif defined(OPEN_ZERO)
    (void)host, (void)error;
    *out = 0;
    return XD_OK;
#elif defined(REENTERS)
    if (on_open) {
        on_open();
    }
    return ext_open(host, out, error);
#else
    return ext_open(host, out, error);
#endif
}

#if defined(COUNT)
static xd_status count(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error) {
    (void)plugin, (void)error;
    *out = COUNT;
    return XD_OK;
}
#elif defined(COUNT_FAILS)
static xd_status count(xd_plugin_handle plugin, uint32_t *out, xd_plugin_error **error) {
    (void)plugin, (void)out;
    return xd_plugin_fail(XD_VENDOR, "device_count", "the driver cannot count", error);
}
#endif

#ifdef INFO_FAILS
static xd_status info(xd_plugin_handle plugin, uint32_t device, xd_device_info *out,
                      xd_plugin_error **error) {
    (void)plugin, (void)device, (void)out;
    return xd_plugin_fail(XD_DEVICE_LOST, "device_info", "the device is gone", error);
}
#endif

#ifdef PANICS
static xd_status copy(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                      xd_plugin_error **error) {
    (void)plugin, (void)args, (void)stream;
    return xd_plugin_fail(XD_PANIC, "copy", "the copy panicked", error);
}
#endif

const xd_plugin_table *crossdock_plugin(void) {
#ifdef ENTRY_NULL
    (void)faulty_open;
    return NULL;
#else
    static xd_plugin_table table;
    table = *crossdock_plugin_good();
    table.open = faulty_open;
#if defined(NULL_HOOK)
    table.free = NULL;
#elif defined(EMPTY_GROUP)
    static const xd_fill_hooks nothing;
    table.fill = &nothing;
#elif defined(PROBE_FAILS) || defined(PROBE_GARBAGE) || defined(PROBE_SILENT)
    table.probe = probe;
#elif defined(COUNT_FAILS) || defined(COUNT)
    table.device_count = count;
#elif defined(INFO_FAILS)
    table.device_info = info;
#elif defined(PANICS)
    table.copy = copy;
#endif
    return &table;
#endif
}
