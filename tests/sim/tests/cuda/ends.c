/**
 * \file ends.c
 * \brief What ends with its context or its thread: registered ranges, and default streams of threads.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

enum { SIZE = 4096, THREADS = 100 };

static CUcontext context;
static CUdeviceptr memory;

static long long leaks(void) {
    long long (*count)(void);
    *(void **)&count = dlsym(RTLD_DEFAULT, "crossdock_sim_leaks");
    CHECK(count != NULL);
    return count();
}

/* API, cuCtxDestroy: "Destroys and cleans up all resources associated with the context." */
static void a_registration_ends_with_its_context(void) {
    static unsigned char bytes[SIZE];
    CUcontext own;
    CUmemorytype type;
    const long long before = leaks();
    for (int time = 0; time < 2; ++time) {
        OK(cuCtxCreate(&own, 0, 0));
        OK(cuMemHostRegister(bytes, SIZE, 0));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)bytes));
        CHECK(type == CU_MEMORYTYPE_HOST);
        CHECK(leaks() > before);
        OK(cuCtxDestroy(own));
        CHECK(leaks() == before);
        GIVES(CUDA_ERROR_INVALID_VALUE,
              cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)bytes));
    }
    OK(cuCtxSetCurrent(context));
    OK(cuMemHostRegister(bytes, SIZE, 0));
    OK(cuMemHostUnregister(bytes));
}

static void *uses_its_own_stream(void *value) {
    OK(cuCtxSetCurrent(context));
    OK(cuMemsetD8Async(memory, *(unsigned char *)value, SIZE, CU_STREAM_PER_THREAD));
    return NULL;
}

/* Stream synchronization behavior: "The legacy default stream is an implicit stream which synchronizes with all other
   streams in the same CUcontext except for non-blocking streams", also with those of threads that are gone. */
static void the_default_streams_of_a_thread_end_with_it(void) {
    const long long before = leaks();
    for (unsigned char value = 0; value < THREADS; ++value) {
        pthread_t thread;
        unsigned char back;
        CHECK(pthread_create(&thread, NULL, uses_its_own_stream, &value) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        OK(cuMemcpyDtoH(&back, memory + SIZE - 1, 1));
        CHECK(back == value);
    }
    /* The legacy default stream may be one more. */
    CHECK(leaks() <= before + 1);
}

/* The same of a stream that the program destroys. */
static void the_legacy_stream_comes_behind_streams_that_were_destroyed(void) {
    const long long before = leaks();
    for (unsigned char value = 0; value < THREADS; ++value) {
        CUstream stream;
        unsigned char back;
        OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        OK(cuMemsetD8Async(memory, value, SIZE, stream));
        OK(cuStreamDestroy(stream));
        OK(cuMemcpyDtoH(&back, memory, 1));
        CHECK(back == value);
    }
    CHECK(leaks() <= before);
    /* Without a use of the legacy default stream, what is known to be over is not kept. */
    for (int time = 0; time < THREADS; ++time) {
        CUstream stream;
        OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        OK(cuMemsetD8Async(memory, 1, SIZE, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuStreamDestroy(stream));
        OK(cuCtxSynchronize());
        CHECK(leaks() <= before + 1);
    }
}

int main(void) {
    context = begin();
    OK(cuMemAlloc(&memory, SIZE));
    a_registration_ends_with_its_context();
    the_default_streams_of_a_thread_end_with_it();
    the_legacy_stream_comes_behind_streams_that_were_destroyed();
    OK(cuMemFree(memory));
    return 0;
}
