/**
 * \file runs_on.c
 * \brief The plugin of `ext_dev.c` with a stream whose thread calls functions of the host: also once the
 * process exits, unless `STOPS` is defined.
 *
 * Only what a test of the exit needs works: copies are done at the call, and events are done.
 */
#define crossdock_plugin crossdock_plugin_alone
#include "ext_dev.c"
#undef crossdock_plugin

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);

enum { MOST_CALLS = 16 };
typedef struct call {
    xd_host_function function;
    void *word;
} call;

static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* Guarded by `calls_lock`. */
static call calls[MOST_CALLS];
static unsigned submitted, taken;
static int has_thread, is_stopped;

static void *serve(void *nothing) {
    (void)nothing;
    pthread_mutex_lock(&calls_lock);
    for (;;) {
        while (taken == submitted && !is_stopped) {
            pthread_cond_wait(&changed, &calls_lock);
        }
        if (is_stopped) {
            break;
        }
        call next = calls[taken++ % MOST_CALLS];
        pthread_mutex_unlock(&calls_lock);
        next.function(next.word);
        pthread_mutex_lock(&calls_lock);
    }
    pthread_mutex_unlock(&calls_lock);
    return NULL;
}

static xd_status on_stream(xd_plugin_handle plugin, xd_stream_handle stream,
                           xd_host_function function, void *word, xd_plugin_error **error) {
    (void)plugin, (void)stream;
    pthread_t thread;
    pthread_mutex_lock(&calls_lock);
    if (!has_thread && pthread_create(&thread, NULL, serve, NULL) == 0) {
        pthread_detach(thread);
        has_thread = 1;
    }
    int has_room = has_thread && submitted - taken < MOST_CALLS;
    if (has_room) {
        calls[submitted++ % MOST_CALLS] = (call){function, word};
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&calls_lock);
    return has_room ? XD_OK : xd_plugin_fail(XD_OOM_HOST, "stream_host_call", "no room", error);
}

static void at_exit(xd_plugin_handle plugin) {
    (void)plugin;
#ifdef STOPS
    pthread_mutex_lock(&calls_lock);
    is_stopped = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&calls_lock);
#endif
}

static xd_status copy_now(xd_plugin_handle plugin, const xd_copy_args *args, xd_stream_handle stream,
                          xd_plugin_error **error) {
    (void)stream;
    return ext_copy(plugin, args, XD_STREAM_NONE, error);
}

/* Handles are 1: there is one stream, and no event is looked at. */
static xd_status make(xd_plugin_handle plugin, uint32_t device, uint64_t *out,
                      xd_plugin_error **error) {
    (void)plugin, (void)device, (void)error;
    *out = 1;
    return XD_OK;
}
static xd_status default_stream(xd_plugin_handle plugin, uint32_t device, xd_default_stream which,
                                xd_stream_handle *out, xd_plugin_error **error) {
    (void)plugin, (void)device, (void)which, (void)out, (void)error;
    return XD_UNSUPPORTED;
}
static xd_status native(xd_plugin_handle plugin, xd_stream_handle stream, uint64_t *out,
                        xd_plugin_error **error) {
    (void)plugin, (void)stream, (void)out, (void)error;
    return XD_UNSUPPORTED;
}
static xd_status one(xd_plugin_handle plugin, uint64_t handle, xd_plugin_error **error) {
    (void)plugin, (void)handle, (void)error;
    return XD_OK;
}
static xd_status both(xd_plugin_handle plugin, uint64_t one, uint64_t other, xd_plugin_error **error) {
    (void)plugin, (void)one, (void)other, (void)error;
    return XD_OK;
}

const xd_plugin_table *crossdock_plugin(void) {
    static const xd_stream_hooks streams = {.stream_create = make,
                                            .stream_default = default_stream,
                                            .stream_native = native,
                                            .stream_destroy = one,
                                            .stream_synchronize = both,
                                            .stream_query = one,
                                            .stream_wait_event = both,
                                            .event_create = make,
                                            .event_record = both,
                                            .event_query = one,
                                            .event_synchronize = both,
                                            .event_destroy = one};
    static const xd_host_call_hooks host_calls = {.stream_host_call = on_stream};
    static xd_plugin_table table;
    table = *crossdock_plugin_alone();
    table.copy = copy_now;
    table.at_exit = at_exit;
    table.streams = &streams;
    table.host_calls = &host_calls;
    return &table;
}
