/* Gives exports back on a thread of its own, while the interpreter ends. */
#include <Python.h>
#include <pthread.h>

typedef struct Managed Managed;
struct Managed {
    uint32_t version[2];
    void *context;
    void (*deleter)(Managed *);
};

extern int _Py_IsFinalizing(void);

static int when_it_ends;

static void *release(void *managed) {
    while (when_it_ends && !_Py_IsFinalizing()) sched_yield();
    ((Managed *)managed)->deleter(managed);
    return NULL;
}

/* At once, and not back before it is done: the caller holds no lock of Python's. */
void release_now(Managed *managed) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, release, managed)) pthread_join(thread, NULL);
}

/* Once the interpreter ends. */
void release_at_the_end(Managed *managed) {
    pthread_t thread;
    when_it_ends = 1;
    if (!pthread_create(&thread, NULL, release, managed)) pthread_detach(thread);
}
