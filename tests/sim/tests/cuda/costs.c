/**
 * \file costs.c
 * \brief What calls cost on this machine, a line for each kind: its name and nanoseconds. `scripts/bench checker`
 *        compares them with and without the simulator's checker.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

enum { LARGE = 1 << 20, SMALL = 256, ROWS = 1024, CALLS = 200, REPEATS = 20 };

struct place {
    CUdeviceptr memory, other;
    CUstream stream, waiting;
    CUevent event;
    unsigned char *pinned;
};

static void large_copy(struct place *at, int call) {
    (void)call;
    OK(cuMemcpyHtoDAsync(at->memory, at->pinned, LARGE, at->stream));
}

static void small_copy(struct place *at, int call) {
    const size_t offset = (size_t)call * SMALL;
    OK(cuMemcpyDtoDAsync(at->other + offset, at->memory + offset, SMALL, at->stream));
}

static void small_fill(struct place *at, int call) {
    OK(cuMemsetD8Async(at->memory + (size_t)call * SMALL, 1, SMALL, at->stream));
}

/* 1024 rows of 64 bytes with gaps between them. */
static void copy_of_rows(struct place *at, int call) {
    CUDA_MEMCPY2D rows;
    (void)call;
    memset(&rows, 0, sizeof rows);
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = at->memory;
    rows.dstDevice = at->other;
    rows.srcPitch = rows.dstPitch = LARGE / ROWS;
    rows.WidthInBytes = 64;
    rows.Height = ROWS;
    OK(cuMemcpy2DAsync(&rows, at->stream));
}

/* The other stream waits for the first one's work, and reads it. */
static void handed_over(struct place *at, int call) {
    small_fill(at, call);
    OK(cuEventRecord(at->event, at->stream));
    OK(cuStreamWaitEvent(at->waiting, at->event, 0));
    OK(cuMemcpyDtoDAsync(at->other, at->memory + (size_t)call * SMALL, SMALL, at->waiting));
}

static void allocated_in_order(struct place *at, int call) {
    CUdeviceptr memory;
    (void)call;
    OK(cuMemAllocAsync(&memory, SMALL, at->stream));
    OK(cuMemsetD8Async(memory, 1, SMALL, at->stream));
    OK(cuMemFreeAsync(memory, at->stream));
}

static double seconds(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The shortest of some repetitions, for each call. */
static void time_of(const char *name, void (*call)(struct place *, int), struct place *at) {
    double best = 1e9;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        const double start = seconds();
        for (int number = 0; number < CALLS; ++number) {
            call(at, number);
        }
        OK(cuStreamSynchronize(at->stream));
        OK(cuStreamSynchronize(at->waiting));
        const double took = seconds() - start;
        best = took < best ? took : best;
    }
    printf("%s\t%.0f\n", name, best / CALLS * 1e9);
}

int main(void) {
    struct place at;
    const CUcontext context = begin();
    CHECK(context != NULL);
    OK(cuMemAlloc(&at.memory, LARGE));
    OK(cuMemAlloc(&at.other, LARGE));
    OK(cuMemAllocHost((void **)&at.pinned, LARGE));
    memset(at.pinned, 1, LARGE);
    OK(cuStreamCreate(&at.stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&at.waiting, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&at.event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemsetD8(at.memory, 0, LARGE));
    OK(cuMemsetD8(at.other, 0, LARGE));
    OK(cuCtxSynchronize());
    time_of("copy of 1 MiB, pinned", large_copy, &at);
    time_of("copy of 256 bytes", small_copy, &at);
    time_of("fill of 256 bytes", small_fill, &at);
    time_of("copy of 1024 rows", copy_of_rows, &at);
    time_of("fill, wait of another stream, copy", handed_over, &at);
    time_of("allocate, fill, free in order", allocated_in_order, &at);
    return 0;
}
