/**
 * \file reports.c
 * \brief One mistake of each kind, through the public driver API: `reports NAME`. With `mended` behind the name it is
 *        the same program without the mistake.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

enum { SIZE = 4096 };

static CUstream one, other;
static CUevent event;
static CUdeviceptr memory;
static unsigned char *pinned;

static void race(int is_mended) {
    OK(cuMemcpyHtoDAsync(memory, pinned, SIZE, one));
    if (is_mended) {
        OK(cuEventRecord(event, one));
        OK(cuStreamWaitEvent(other, event, 0));
    }
    OK(cuMemsetD8Async(memory + 100, 1, 50, other));
}

/* The event is recorded before the work that it is to cover. */
static void recorded_too_early(int is_mended) {
    if (!is_mended) {
        OK(cuEventRecord(event, one));
    }
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    if (is_mended) {
        OK(cuEventRecord(event, one));
    }
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemcpyDtoHAsync(pinned, memory, SIZE, other));
}

static void use_after_free(int is_mended) {
    CUdeviceptr short_lived;
    OK(cuMemAlloc(&short_lived, SIZE));
    if (is_mended) {
        OK(cuMemsetD8Async(short_lived, 1, SIZE, one));
        OK(cuMemFree(short_lived));
        return;
    }
    OK(cuMemFree(short_lived));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(short_lived, 1, SIZE, one));
}

/* Freed on one stream while another one uses it. */
static void free_in_use(int is_mended) {
    CUdeviceptr short_lived;
    OK(cuMemAllocAsync(&short_lived, SIZE, one));
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemsetD8Async(short_lived, 1, SIZE, other));
    if (is_mended) {
        OK(cuEventRecord(event, other));
        OK(cuStreamWaitEvent(one, event, 0));
    }
    OK(cuMemFreeAsync(short_lived, one));
}

static void use_before_allocation(int is_mended) {
    CUdeviceptr late;
    OK(cuMemAllocAsync(&late, SIZE, one));
    if (is_mended) {
        OK(cuEventRecord(event, one));
        OK(cuStreamWaitEvent(other, event, 0));
    }
    OK(cuMemsetD8Async(late, 1, SIZE, other));
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(one, event, 0));
    OK(cuMemFreeAsync(late, one));
}

static void out_of_bounds(int is_mended) {
    const size_t bytes = is_mended ? SIZE : SIZE + 1;
    GIVES(is_mended ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(memory, 1, bytes, one));
}

/* Rows of which the last one is outside: none is filled. */
static void rows_out_of_bounds(int is_mended) {
    const size_t rows = SIZE / 64 + !is_mended;
    unsigned char first;
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    GIVES(is_mended ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8Async(memory, 64, 2, 32, rows, one));
    OK(cuMemcpyDtoHAsync(&first, memory, 1, one));
    CHECK(first == (is_mended ? 2 : 1));
}

static void double_free(int is_mended) {
    CUdeviceptr short_lived;
    OK(cuMemAlloc(&short_lived, SIZE));
    OK(cuMemFree(short_lived));
    if (!is_mended) {
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(short_lived));
    }
}

static void unrecorded(int is_mended) {
    if (is_mended) {
        OK(cuEventRecord(event, one));
    }
    OK(cuStreamWaitEvent(other, event, 0));
}

static void CUDA_CB calls(void *stream) { cuStreamQuery(stream); }
static void CUDA_CB calls_nothing(void *stream) { (void)stream; }

static void in_host_function(int is_mended) {
    OK(cuLaunchHostFunc(one, is_mended ? calls_nothing : calls, other));
}

/* The host uses pinned memory that work on a stream uses. A driver sees no loads and stores, so the program tells the
 * simulator of its own. */
static void host_race(int is_mended) {
    void (*touch)(uint64_t, uint64_t, int);
    *(void **)&touch = dlsym(RTLD_DEFAULT, "crossdock_sim_touch");
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    OK(cuMemcpyDtoHAsync(pinned, memory, SIZE, one));
    if (is_mended) {
        OK(cuStreamSynchronize(one));
    }
    touch((uint64_t)(uintptr_t)pinned, 10, 0);
}

/* Nobody wrote what is read. */
static void uninitialised(int is_mended) {
    if (is_mended) {
        OK(cuMemsetD8Async(memory, 1, SIZE, one));
    }
    OK(cuMemcpyDtoHAsync(pinned, memory, SIZE, one));
}

static void stale_stream(int is_mended) {
    CUstream short_lived;
    OK(cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    if (is_mended) {
        OK(cuMemsetD8Async(memory, 1, SIZE, short_lived));
    }
    OK(cuStreamDestroy(short_lived));
    if (!is_mended) {
        GIVES(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(memory, 1, SIZE, short_lived));
    }
}

static void stale_event(int is_mended) {
    CUevent short_lived;
    OK(cuEventCreate(&short_lived, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(short_lived, one));
    if (is_mended) {
        OK(cuStreamWaitEvent(other, short_lived, 0));
    }
    OK(cuEventDestroy(short_lived));
    if (!is_mended) {
        GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(other, short_lived, 0));
    }
}

/* All is given back but the memory. */
static void leak(int is_mended) {
    OK(cuStreamDestroy(one));
    OK(cuStreamDestroy(other));
    OK(cuEventDestroy(event));
    OK(cuMemFreeHost(pinned));
    if (is_mended) {
        OK(cuMemFree(memory));
    }
    exit(0);
}

static void registration(int is_mended) {
    OK(cuMemHostRegister(pinned + SIZE, SIZE, 0));
    if (!is_mended) {
        GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pinned + SIZE + 100, 8, 0));
    }
    OK(cuMemHostUnregister(pinned + SIZE));
}

/* Ends the wait after a while, so that the program ends. */
static void *writes_late(void *context) {
    OK(cuCtxSetCurrent(context));
    sleep(4);
    OK(cuStreamWriteValue32(other, memory, 1, 0));
    OK(cuStreamSynchronize(other));
    return NULL;
}

/* A wait for a word that nobody writes. */
static void standstill(int is_mended) {
    CUcontext context;
    pthread_t thread;
    OK(cuCtxGetCurrent(&context));
    OK(cuMemsetD32(memory, 0, 1));
    OK(cuCtxSynchronize());
    if (is_mended) {
        OK(cuStreamWriteValue32(other, memory, 1, 0));
    }
    OK(cuStreamWaitValue32(one, memory, 1, CU_STREAM_WAIT_VALUE_EQ));
    if (!is_mended) {
        CHECK(!pthread_create(&thread, NULL, writes_late, context));
        OK(cuStreamSynchronize(one));
        CHECK(!pthread_join(thread, NULL));
    }
}

/* Host code writes the word that a stream waits for, and does not know yet that the other stream is done. The word is
 * used for the second time. */
static void word_too_early(int is_mended) {
    uint32_t *word = (uint32_t *)pinned;
    *word = 0;
    OK(cuStreamWriteValue32(one, (CUdeviceptr)word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamSynchronize(one));
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    OK(cuStreamWaitValue32(other, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyDtoHAsync(pinned + 8, memory, 8, other));
    if (!is_mended) {
        __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    }
    OK(cuStreamSynchronize(one));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(int);
    } cases[] = {
        {"race", race},
        {"recorded_too_early", recorded_too_early},
        {"use_after_free", use_after_free},
        {"free_in_use", free_in_use},
        {"use_before_allocation", use_before_allocation},
        {"out_of_bounds", out_of_bounds},
        {"rows_out_of_bounds", rows_out_of_bounds},
        {"double_free", double_free},
        {"unrecorded", unrecorded},
        {"in_host_function", in_host_function},
        {"registration", registration},
        {"standstill", standstill},
        {"host_race", host_race},
        {"uninitialised", uninitialised},
        {"stale_stream", stale_stream},
        {"stale_event", stale_event},
        {"leak", leak},
        {"word_too_early", word_too_early},
    };
    unsigned char *own = aligned_alloc(4096, 2 * SIZE);
    CHECK(count > 1 && own);
    begin();
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    memset(pinned, 1, SIZE);
    for (size_t at = 0; at < sizeof cases / sizeof *cases; ++at) {
        if (!strcmp(cases[at].name, words[1])) {
            if (!strcmp(words[1], "registration")) {
                OK(cuMemFreeHost(pinned));
                pinned = own;
            }
            cases[at].run(count > 2);
            OK(cuStreamSynchronize(one));
            OK(cuStreamSynchronize(other));
            return 0;
        }
    }
    fprintf(stderr, "there is no %s\n", words[1]);
    return 2;
}
