/**
 * \file fast_math.c
 * \brief The plugin of `ext_dev.c` as one that changes the floating-point mode of the process that loads it: when the file is
 *        loaded, as code built with `-ffast-math` does, and again when it is opened, as a driver's library may.
 */
#define crossdock_plugin crossdock_plugin_exact
#include "ext_dev.c"
#undef crossdock_plugin

#include <fenv.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

static void flush_subnormals(void) {
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#endif
}

__attribute__((constructor)) static void at_load(void) {
    flush_subnormals();
    fesetround(FE_UPWARD);
}

static xd_status open_and_flush(const xd_host_services *host, xd_plugin_handle *out,
                                xd_plugin_error **error) {
    flush_subnormals();
    fesetround(FE_DOWNWARD);
    return ext_open(host, out, error);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_exact();
    table.open = open_and_flush;
    return &table;
}
