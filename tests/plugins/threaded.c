/**
 * \file threaded.c
 * \brief The plugin of `ext_dev.c` with a thread that outlives it and ends through its code.
 *
 * The thread begins when the plugin is opened, waits until `may_end` is set, and sets `has_ended` in
 * the destructor of its thread-local value.
 */
#define crossdock_plugin crossdock_plugin_alone
#include "ext_dev.c"
#undef crossdock_plugin

#include <sched.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
XD_EXPORT extern int may_end, has_ended;

int may_end, has_ended;
static pthread_key_t key;

static void end(void *value) {
    (void)value;
    __atomic_store_n(&has_ended, 1, __ATOMIC_SEQ_CST);
}

static void *wait_for_the_end(void *nothing) {
    (void)nothing;
    pthread_setspecific(key, &key);
    while (!__atomic_load_n(&may_end, __ATOMIC_SEQ_CST)) {
        sched_yield();
    }
    return NULL;
}

static xd_status open_with_thread(const xd_host_services *host, xd_plugin_handle *out,
                                  xd_plugin_error **error) {
    pthread_t thread;
    pthread_key_create(&key, end);
    if (pthread_create(&thread, NULL, wait_for_the_end, NULL) == 0) {
        pthread_detach(thread);
    }
    return ext_open(host, out, error);
}

const xd_plugin_table *crossdock_plugin(void) {
    static xd_plugin_table table;
    table = *crossdock_plugin_alone();
    table.open = open_with_thread;
    return &table;
}
