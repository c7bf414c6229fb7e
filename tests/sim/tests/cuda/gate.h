/* Work that stands still until the program lets it go on: a host function that waits. */
#ifndef GATE_H
#define GATE_H

#include "check.h"

#include <pthread.h>
#include <unistd.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_open;
    pthread_t opener;
};

#define GATE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}

static inline void CUDA_CB wait_at(void *gate_) {
    struct gate *gate = gate_;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static inline void open_gate(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static inline int is_open(struct gate *gate) {
    int open;
    pthread_mutex_lock(&gate->lock);
    open = gate->is_open;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

/* All that follows on the stream waits. */
static inline void close_stream(struct gate *gate, CUstream stream) {
    gate->is_open = 0;
    OK(cuLaunchHostFunc(stream, wait_at, gate));
}

static inline void *opens_late(void *gate) {
    usleep(20000);
    open_gate(gate);
    return NULL;
}

/* The call answers this, and no earlier than another thread has opened the gate. */
#define WAITS_FOR(gate, expected, call)                                                                                \
    do {                                                                                                               \
        CHECK(!pthread_create(&(gate)->opener, NULL, opens_late, (gate)));                                             \
        GIVES(expected, call);                                                                                         \
        CHECK(is_open(gate));                                                                                          \
        CHECK(!pthread_join((gate)->opener, NULL));                                                                    \
    } while (0)

#endif
