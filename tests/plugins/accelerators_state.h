/**
 * \file accelerators_state.h
 * \brief What the plugin `accelerators` knows, its log, and the switches that tests have.
 *
 * Included by `accelerators.c` alone. The exported functions are for tests, by `ctypes`.
 */
#include <crossdock/plugin_support.h>

#include <pthread.h>

enum { CUDA = 2, CUDA_HOST = 3, ROCM = 10, ROCM_HOST = 11, CUDA_MANAGED = 13 };
enum { DEVICES = 5, MOST = 4096, LEAST_ALIGNMENT = 256, LOG_BYTES = 1 << 20 };
enum { FIRST_NATIVE = 0x1000 };
static const uint64_t TOTAL_BYTES = UINT64_C(1) << 30;
static const struct {
    int32_t type, id;
} claimed[DEVICES] = {{CUDA, 0}, {CUDA, 1}, {CUDA, 2}, {ROCM, 0}, {ROCM, 1}};

/** An allocation; `base` of 0 is an empty place. */
typedef struct allocation {
    uint64_t base, size, id;
    uint32_t device;
    xd_memory_kind kind;
} allocation;

/** A stream; its handle is its place plus one. The first two of each device are its defaults. */
typedef struct stream {
    int used;
    uint32_t device;
    uint64_t native;
    /** The latest event that was recorded on it, or that it waits for: over once it is. */
    uint64_t behind;
} stream;

/** An event; its handle is its place plus one. `at` is when it was recorded, 0 for never. */
typedef struct event {
    uint64_t number, at;
} event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* All that follows is guarded by `lock`. */
static allocation allocations[MOST];
static stream streams[MOST];
static event events[MOST];
static uint64_t next_id = 1, next_native = FIRST_NATIVE, now = 1, done = UINT64_MAX;
static xd_status refused;
static int lies, captures, fails, of_others;
static char text[LOG_BYTES];
static size_t written;

/** One line of the log; a full log takes no more. The caller holds `lock`. */
static void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + written, LOG_BYTES - written, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < LOG_BYTES - written) {
        written += (size_t)length;
    }
    text[written] = 0;
}

/** `cuda:0`, in one of a few places that are used in turn. The caller holds `lock`. */
static const char *name_of(uint32_t device, xd_memory_kind kind) {
    static char names[4][32];
    static unsigned turn;
    char *name = names[turn++ % 4];
    if (kind == XD_MEMORY_HOST || device >= DEVICES) {
        return "host";
    }
    snprintf(name, sizeof names[0], "%s%s:%d", claimed[device].type == CUDA ? "cuda" : "rocm",
             kind == XD_MEMORY_PINNED ? "_host" : kind == XD_MEMORY_MANAGED ? "_managed" : "",
             claimed[device].id);
    return name;
}

/** The allocation with `address` inside it, or NULL. The caller holds `lock`. */
static allocation *find(uint64_t address) {
    for (size_t i = 0; i < MOST; i++) {
        allocation *at = &allocations[i];
        if (at->base && address >= at->base && address - at->base < at->size) {
            return at;
        }
    }
    return NULL;
}

/** The stream of a handle, or NULL. The caller holds `lock`. */
static stream *stream_of(xd_stream_handle handle) {
    return handle && handle <= MOST && streams[handle - 1].used ? &streams[handle - 1] : NULL;
}

/** The event of a handle, or NULL. The caller holds `lock`. */
static event *event_of(xd_event_handle handle) {
    return handle && handle <= MOST && events[handle - 1].number ? &events[handle - 1] : NULL;
}

/** Memory of a device, or 0. */
static uint64_t make(uint32_t device, xd_memory_kind kind, uint64_t size, uint64_t alignment) {
    void *memory = NULL;
    size_t i = 0;
    if (posix_memalign(&memory, alignment < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : alignment, size)) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    while (i < MOST && allocations[i].base) {
        i++;
    }
    if (i < MOST) {
        allocations[i] = (allocation){(uint64_t)(uintptr_t)memory, size, next_id++, device, kind};
        note("allocate %s %llu\n", name_of(device, kind), (unsigned long long)size);
    }
    pthread_mutex_unlock(&lock);
    if (i == MOST) {
        free(memory);
        return 0;
    }
    return (uint64_t)(uintptr_t)memory;
}

/** Memory for a test: the address, or 0. */
XD_EXPORT uint64_t accel_make(uint32_t device, xd_memory_kind kind, uint64_t size) {
    return make(device, kind, size, LEAST_ALIGNMENT);
}

/** Moves the log into `into`, and empties it; how many bytes it had. */
XD_EXPORT size_t accel_take_log(char *into, size_t room) {
    pthread_mutex_lock(&lock);
    size_t length = written < room ? written : room;
    memcpy(into, text, length);
    written = 0;
    pthread_mutex_unlock(&lock);
    return length;
}

/** Whether what is recorded from now on stays pending until somebody synchronizes. */
XD_EXPORT void accel_hold(int on) {
    pthread_mutex_lock(&lock);
    done = on ? now - 1 : UINT64_MAX;
    pthread_mutex_unlock(&lock);
}

/** Whether pointer queries name the next device of the type. */
XD_EXPORT void accel_lie(int on) { lies = on; }

/** Whether pointer queries say that others in the process have the memory from the driver. */
XD_EXPORT void accel_of_others(int on) { of_others = on; }

/** Whether streams are being captured: no wait, record or synchronize is allowed. */
XD_EXPORT void accel_capture(int on) { captures = on; }

/** Whether work on all streams has failed: events say so each time, and a stream until it has told. */
XD_EXPORT void accel_fail(int on) { fails = on; }

/** How many streams there are, the defaults among them. */
XD_EXPORT uint32_t accel_streams(void) {
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MOST; i++) {
        count += streams[i].used != 0;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
