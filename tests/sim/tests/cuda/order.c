/**
 * \file order.c
 * \brief What waits for what: calls for streams, streams for events and words, threads for nothing. It runs unchanged
 *        on NVIDIA's library. "API" is the CUDA Driver API reference, by function; "SYNC" its section on
 *        synchronization behaviour, "STREAM" that on stream synchronization behaviour.
 */
#include "gate.h"

enum { SIZE = 1 << 16 };

static CUcontext primary;
static CUstream stream;
static CUevent event, timed;
static CUdeviceptr memory;
static unsigned char *pinned, pageable[SIZE];

/* API, cuStreamQuery: "CUDA_SUCCESS if all operations in the stream specified by hStream have completed, or
 * CUDA_ERROR_NOT_READY if not"; cuEventQuery the same of an event; cuEventElapsedTime of events "if either event has
 * not yet been completed". */
static void what_is_under_way_is_not_ready(void) {
    struct gate gate = GATE;
    CUevent never;
    float took;
    OK(cuEventCreate(&never, CU_EVENT_DEFAULT));
    OK(cuEventRecord(timed, stream));
    close_stream(&gate, stream);
    OK(cuEventRecord(event, stream));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    GIVES(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuEventRecord(never, stream));
    GIVES(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&took, timed, never));
    /* A later record does not count for the wait before it, and an event may be destroyed before it happens: "If the
       event has been recorded but has not yet been completed when cuEventDestroy() is called, the function will return
       immediately". */
    OK(cuEventDestroy(never));
    WAITS_FOR(&gate, CUDA_SUCCESS, cuEventSynchronize(event));
    OK(cuEventQuery(event));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
    /* "If cuEventRecord() has not been called on either event then CUDA_ERROR_INVALID_HANDLE is returned." */
    OK(cuEventCreate(&never, CU_EVENT_DEFAULT));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&took, timed, never));
    OK(cuEventRecord(never, stream));
    OK(cuEventSynchronize(never));
    OK(cuEventElapsedTime(&took, timed, never));
    CHECK(took >= 0);
    OK(cuEventDestroy(never));
}

/* API, cuStreamSynchronize: "Waits until the device has completed all operations in the stream"; cuCtxSynchronize:
 * "Blocks until the current context has completed all preceding requested tasks". */
static void waits_wait(void) {
    struct gate gate = GATE;
    close_stream(&gate, stream);
    WAITS_FOR(&gate, CUDA_SUCCESS, cuStreamSynchronize(stream));
    close_stream(&gate, stream);
    WAITS_FOR(&gate, CUDA_SUCCESS, cuCtxSynchronize());
}

/* SYNC: "For transfers from device memory to pageable host memory, the function will return only once the copy has
 * completed", of cuMemcpyDtoHAsync; with pinned memory the call does not wait. */
static void copies_to_pageable_memory_wait_for_their_stream(void) {
    struct gate gate = GATE;
    OK(cuMemsetD8Async(memory, 3, SIZE, stream));
    close_stream(&gate, stream);
    WAITS_FOR(&gate, CUDA_SUCCESS, cuMemcpyDtoHAsync(pageable, memory, SIZE, stream));
    CHECK(pageable[0] == 3 && pageable[SIZE - 1] == 3);
    close_stream(&gate, stream);
    OK(cuMemcpyDtoHAsync(pinned, memory, SIZE, stream));
    OK(cuMemcpyHtoDAsync(memory, pinned, SIZE, stream));
    CHECK(!is_open(&gate));
    open_gate(&gate);
    OK(cuStreamSynchronize(stream));
    CHECK(pinned[0] == 3 && pinned[SIZE - 1] == 3);
}

/* SYNC: from pageable memory the function returns "once the pageable buffer has been copied to the staging memory", or
 * later: the buffer may be used again. */
static void copies_from_pageable_memory_are_done_with_it(void) {
    memset(pageable, 5, SIZE);
    OK(cuMemcpyHtoDAsync(memory, pageable, SIZE, stream));
    memset(pageable, 6, SIZE);
    OK(cuMemcpyDtoHAsync(pageable, memory, SIZE, stream));
    CHECK(pageable[0] == 5 && pageable[SIZE - 1] == 5);
}

/* API, cuStreamDestroy: "In case the device is still doing work in the stream hStream when cuStreamDestroy() is called,
 * the function will return immediately". */
static void a_stream_ends_behind_its_work(void) {
    struct gate gate = GATE;
    CUstream short_lived;
    OK(cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    close_stream(&gate, short_lived);
    OK(cuMemsetD8Async(memory, 8, SIZE, short_lived));
    OK(cuStreamDestroy(short_lived));
    CHECK(!is_open(&gate));
    WAITS_FOR(&gate, CUDA_SUCCESS, cuCtxSynchronize());
    OK(cuMemcpyDtoH(pageable, memory, SIZE));
    CHECK(pageable[0] == 8 && pageable[SIZE - 1] == 8);
}

/* API, CUstreamWaitValue_flags. GEQ is "a cyclic comparison which ignores wraparound"; the host may write the word. */
static void words_are_compared(void) {
    static const struct {
        unsigned flags, value;
        uint32_t too_early, there;
    } cases[] = {
        {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 9},
        {CU_STREAM_WAIT_VALUE_GEQ, 0xFFFFFFF0u, 0xFFFFFFEFu, 3},
        {CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
        {CU_STREAM_WAIT_VALUE_AND, 6, 1, 4},
    };
    uint32_t *word = (uint32_t *)pinned;
    uint64_t *wide = (uint64_t *)(pinned + 8);
    for (size_t at = 0; at < sizeof cases / sizeof *cases; ++at) {
        __atomic_store_n(word, cases[at].too_early, __ATOMIC_SEQ_CST);
        OK(cuStreamWaitValue32(stream, (CUdeviceptr)word, cases[at].value, cases[at].flags));
        GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
        __atomic_store_n(word, cases[at].there, __ATOMIC_SEQ_CST);
        OK(cuStreamSynchronize(stream));
    }
    __atomic_store_n(wide, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamWaitValue64(stream, (CUdeviceptr)wide, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    __atomic_store_n(wide, 1ull << 40, __ATOMIC_SEQ_CST);
    OK(cuStreamWriteValue64(stream, (CUdeviceptr)wide, 1ull << 41, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamSynchronize(stream));
    CHECK(__atomic_load_n(wide, __ATOMIC_SEQ_CST) == 1ull << 41);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, (CUdeviceptr)word, 1, 77));
}

/* Streams share hardware queues, of which CUDA_DEVICE_MAX_CONNECTIONS says how many there are, and a wait holds up what is
 * behind it there. So no wait is submitted before the work that ends it. */
static void waits_behind_their_ends_hold_up_nothing(void) {
    enum { STREAMS = 64, ROUNDS = 4 };
    CUstream streams[STREAMS];
    uint32_t *word = (uint32_t *)pinned;
    *word = 0;
    for (int at = 0; at < STREAMS; ++at) {
        OK(cuStreamCreate(&streams[at], CU_STREAM_NON_BLOCKING));
    }
    for (uint32_t round = 1; round <= ROUNDS; ++round) {
        OK(cuStreamWriteValue32(streams[round], (CUdeviceptr)word, round, 0));
        for (int at = 0; at < STREAMS; ++at) {
            OK(cuStreamWaitValue32(streams[at], (CUdeviceptr)word, round, CU_STREAM_WAIT_VALUE_GEQ));
            OK(cuMemsetD8Async(memory + at, (unsigned char)round, 1, streams[at]));
        }
    }
    for (int at = 0; at < STREAMS; ++at) {
        OK(cuStreamSynchronize(streams[at]));
        OK(cuStreamDestroy(streams[at]));
    }
    OK(cuMemcpyDtoH(pageable, memory, STREAMS));
    CHECK(pageable[0] == ROUNDS && pageable[STREAMS - 1] == ROUNDS);
}

/* What one thread's default stream has is not ordered against another's. */
static void *on_its_own_stream(void *unused) {
    CUstream there;
    (void)unused;
    OK(cuCtxSetCurrent(primary));
    /* STREAM: "The per-thread default stream is an implicit stream local to both the thread and the CUcontext, and
       which does not synchronize with other streams". */
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuStreamDestroy(there));
    return NULL;
}

static void each_thread_has_a_default_stream(void) {
    struct gate gate = GATE;
    pthread_t thread;
    close_stream(&gate, CU_STREAM_PER_THREAD);
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    CHECK(!pthread_create(&thread, NULL, on_its_own_stream, NULL));
    CHECK(!pthread_join(thread, NULL));
    CHECK(!is_open(&gate));
    /* "The per-thread default stream is not a non-blocking stream and will synchronize with the legacy default stream
       if both are used in a program." */
    WAITS_FOR(&gate, CUDA_SUCCESS, cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
}

static int is_over;

static void *fills_without_a_stream(void *unused) {
    CUdeviceptr own;
    (void)unused;
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc(&own, SIZE));
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        OK(cuMemsetD8(own, 1, 1));
    }
    OK(cuMemFree(own));
    return NULL;
}

/* STREAM: "When an action is taken in the legacy stream such as a kernel launch or cudaStreamWaitEvent(), the legacy
 * stream first waits on all blocking streams": whichever thread takes it, and whatever others do there. */
static void the_legacy_stream_waits_for_work_of_all_threads(void) {
    enum { ROUNDS = 300 };
    pthread_t thread;
    CUstream blocking;
    unsigned char arrived[64];
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CHECK(!pthread_create(&thread, NULL, fills_without_a_stream, NULL));
    for (int round = 0; round < ROUNDS; ++round) {
        OK(cuMemsetD8Async(memory, (unsigned char)round, sizeof arrived, blocking));
        OK(cuMemcpyDtoH(arrived, memory, sizeof arrived));
        CHECK(arrived[0] == (unsigned char)round && arrived[63] == (unsigned char)round);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    CHECK(!pthread_join(thread, NULL));
    OK(cuStreamDestroy(blocking));
}

/* API, cuStreamGetCtx: the context that it was made in, whatever is current. */
static void streams_and_events_are_of_their_context(void) {
    CUcontext own, of;
    CUstream there;
    CUevent here;
    OK(cuCtxCreate(&own, 0, 0));
    OK(cuStreamGetCtx(stream, &of));
    CHECK(of == primary);
    OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&here, CU_EVENT_DISABLE_TIMING));
    /* Work goes to a stream of another context than the current one. */
    OK(cuMemsetD8Async(memory, 4, SIZE, stream));
    OK(cuEventRecord(event, stream));
    /* API, cuEventRecord: "hEvent and hStream must be from the same context"; a wait may cross. */
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, there));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(here, stream));
    OK(cuStreamWaitEvent(there, event, 0));
    OK(cuMemcpyDtoHAsync(pinned, memory, SIZE, there));
    OK(cuStreamSynchronize(there));
    CHECK(pinned[0] == 4 && pinned[SIZE - 1] == 4);
    OK(cuCtxPopCurrent(&of));
    CHECK(of == own);
    OK(cuCtxGetCurrent(&of));
    CHECK(of == primary);
    OK(cuCtxDestroy(own));
}

struct other_thread {
    CUcontext context;
    pthread_barrier_t both;
};

static void *keeps_a_context(void *data) {
    struct other_thread *told = data;
    CUdeviceptr there;
    OK(cuCtxSetCurrent(told->context));
    pthread_barrier_wait(&told->both);
    pthread_barrier_wait(&told->both);
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&there, SIZE));
    return NULL;
}

/* API, cuCtxDestroy: "If ctx is current to other threads, then ctx will remain current to those threads, and attempting
 * to access ctx from those threads will result in the error CUDA_ERROR_CONTEXT_IS_DESTROYED." */
static void a_destroyed_context_stays_current_elsewhere(void) {
    struct other_thread told;
    pthread_t thread;
    CUcontext current;
    OK(cuCtxCreate(&told.context, 0, 0));
    CHECK(!pthread_barrier_init(&told.both, NULL, 2));
    CHECK(!pthread_create(&thread, NULL, keeps_a_context, &told));
    pthread_barrier_wait(&told.both);
    OK(cuCtxDestroy(told.context));
    pthread_barrier_wait(&told.both);
    CHECK(!pthread_join(thread, NULL));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == primary);
}

/* A driver that goes says so, and nothing else happens: CUDA_ERROR_DEINITIALIZED "indicates that the CUDA driver is in
 * the process of shutting down". */
static void calls_at_the_exit(void) {
    size_t some, all;
    const CUresult given = cuMemGetInfo(&some, &all);
    if (given != CUDA_SUCCESS && given != CUDA_ERROR_DEINITIALIZED) {
        fprintf(stderr, "at the exit cuMemGetInfo answers %d\n", (int)given);
        _exit(1);
    }
}

int main(void) {
    /* Behind the driver's own end, and before it. */
    atexit(calls_at_the_exit);
    primary = begin();
    atexit(calls_at_the_exit);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    what_is_under_way_is_not_ready();
    waits_wait();
    copies_to_pageable_memory_wait_for_their_stream();
    copies_from_pageable_memory_are_done_with_it();
    a_stream_ends_behind_its_work();
    words_are_compared();
    waits_behind_their_ends_hold_up_nothing();
    each_thread_has_a_default_stream();
    the_legacy_stream_waits_for_work_of_all_threads();
    streams_and_events_are_of_their_context();
    a_destroyed_context_stays_current_elsewhere();
    OK(cuStreamSynchronize(stream));
    return 0;
}
