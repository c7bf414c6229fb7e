/**
 * \file with_driver.c
 * \brief The plugin of `ext_dev.c` as one that starts a driver: it counts how often that is looked for and
 * started. Its name and the types of its devices are given to the compiler, as in
 * `-DNAME="one" -DTYPES="ext_dev,vpi" -DNUMBERS=12,9`. ABSENT: the driver is not there. BROKEN: it does
 * not work. SAYS_EXIT: it says so when it is told of the exit. WANTS_GIL: it needs Python's lock to be opened.
 * A test can hold it while it is opened, or while it counts its devices.
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
#ifdef WANTS_GIL
#include <dlfcn.h>
#endif
#include <stdio.h>

XD_EXPORT const xd_plugin_table *crossdock_plugin(void);
/** How often the driver was called: looked for, started, asked whose an address is. */
XD_EXPORT unsigned driver_calls(void);
/** How often it was retired. */
XD_EXPORT unsigned driver_retires(void);
/** The most threads that were probing or opening it at once. */
XD_EXPORT unsigned driver_most_at_once(void);
/** Holds the next thread that opens it, until ::driver_let_go. */
XD_EXPORT void driver_hold_in_open(void);
/** The same of the next one that counts its devices, which then fails. */
XD_EXPORT void driver_hold_in_device_count(void);
/** Waits until a thread is held. */
XD_EXPORT void driver_wait_until_held(void);
/** Lets that thread go on. */
XD_EXPORT void driver_let_go(void);

/** Where a test can hold a thread. */
enum { NOWHERE, IN_OPEN, IN_DEVICE_COUNT };

static const int32_t types[] = {NUMBERS};
static atomic_uint calls, retires, inside, most_at_once;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
/* Guarded by `gate`. */
static unsigned hold_at, is_held;

unsigned driver_calls(void) { return calls; }

unsigned driver_retires(void) { return retires; }

unsigned driver_most_at_once(void) { return most_at_once; }

static void hold(unsigned place) {
    pthread_mutex_lock(&gate);
    hold_at = place;
    pthread_mutex_unlock(&gate);
}

void driver_hold_in_open(void) { hold(IN_OPEN); }

void driver_hold_in_device_count(void) { hold(IN_DEVICE_COUNT); }

void driver_wait_until_held(void) {
    pthread_mutex_lock(&gate);
    while (!is_held) {
        pthread_cond_wait(&gate_moved, &gate);
    }
    pthread_mutex_unlock(&gate);
}

void driver_let_go(void) {
    pthread_mutex_lock(&gate);
    is_held = 0;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate);
}

/** Whether the thread was held here. */
static int come_to(unsigned place) {
    pthread_mutex_lock(&gate);
    int was_held = hold_at == place;
    if (was_held) {
        hold_at = NOWHERE;
        is_held = 1;
        pthread_cond_broadcast(&gate_moved);
        while (is_held) {
            pthread_cond_wait(&gate_moved, &gate);
        }
    }
    pthread_mutex_unlock(&gate);
    return was_held;
}

static void enter(void) {
    unsigned now = ++inside;
    if (now > most_at_once) {
        most_at_once = now;
    }
}

static void leave(void) { inside--; }

static xd_status driver_probe(xd_probe_info *out, xd_plugin_error **error) {
    calls++;
    enter();
    leave();
#if defined(BROKEN)
    (void)error;
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_BROKEN;
    return XD_OK;
#elif defined(ABSENT)
    (void)error;
    memset(out, 0, sizeof *out);
    out->state = XD_PROBE_ABSENT;
    memcpy(out->detail, "looked for lib" NAME ".so.1", sizeof "looked for lib" NAME ".so.1");
    return XD_OK;
#else
    return ext_probe(out, error);
#endif
}

#ifdef WANTS_GIL
/** As a driver that calls Python back: it waits for a thread that waits for the interpreter. */
static void *take_gil(void *python) {
    int (*ensure)(void);
    void (*release)(int);
    *(void **)&ensure = dlsym(python, "PyGILState_Ensure");
    *(void **)&release = dlsym(python, "PyGILState_Release");
    if (ensure && release) {
        release(ensure());
    }
    return NULL;
}

static void call_python(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, take_gil, dlopen(NULL, RTLD_NOW)) == 0) {
        pthread_join(thread, NULL);
    }
}
#endif

static xd_status driver_open(const xd_host_services *host, xd_plugin_handle *out,
                             xd_plugin_error **error) {
    calls++;
    enter();
    come_to(IN_OPEN);
#ifdef WANTS_GIL
    call_python();
#endif
    xd_status status = ext_open(host, out, error);
    leave();
    return status;
}

static xd_status driver_device_count(xd_plugin_handle plugin, uint32_t *out,
                                     xd_plugin_error **error) {
    (void)plugin;
    if (come_to(IN_DEVICE_COUNT)) {
        return xd_plugin_fail(XD_DEVICE_LOST, "device_count", "the device is lost", error);
    }
    *out = sizeof types / sizeof *types;
    return XD_OK;
}

static xd_status driver_retire(xd_plugin_handle plugin, uint64_t deadline_ns,
                               xd_plugin_error **error) {
    retires++;
    return ext_retire(plugin, deadline_ns, error);
}

static void driver_at_exit(xd_plugin_handle plugin) {
#ifdef SAYS_EXIT
    fputs("with_driver: told of the exit\n", stderr);
#endif
    ext_at_exit(plugin);
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
    table.retire = driver_retire;
    table.at_exit = driver_at_exit;
    return &table;
}
