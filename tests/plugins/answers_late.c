/**
 * \file answers_late.c
 * \brief The plugin of `ext_dev.c`, whose `memory_info` from the second call on fails once the plugin was
 *        told that the process exits, and not before.
 *
 * `is_inside` is set while a call waits for that.
 */
#define crossdock_plugin crossdock_plugin_at_once
#include "ext_dev.c"
#undef crossdock_plugin

#include <sched.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
XD_EXPORT extern int is_inside;

int is_inside;
static int calls, was_told;

static xd_status answer_late(xd_plugin_handle plugin, uint32_t device, xd_memory_info *out,
                             xd_plugin_error **error) {
    if (__atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) == 0) {
        return crossdock_plugin_at_once()->memory_info(plugin, device, out, error);
    }
    __atomic_store_n(&is_inside, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&was_told, __ATOMIC_SEQ_CST)) {
        sched_yield();
    }
    return xd_plugin_fail(XD_STALE, "memory_info", "everything here was given up at the exit",
                          error);
}

static void note_exit(xd_plugin_handle plugin) {
    (void)plugin;
    __atomic_store_n(&was_told, 1, __ATOMIC_SEQ_CST);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_at_once();
    table.memory_info = answer_late;
    table.at_exit = note_exit;
    return &table;
}
