/**
 * \file lost.c
 * \brief A device that is lost: the second `cuMemsetD8Async` of this program fails on it with 700, which the simulator
 *        is told to let happen. API, CUDA_ERROR_ILLEGAL_ADDRESS: "This leaves the process in an inconsistent state and
 *        any further CUDA work will return the same error."
 */
#define _GNU_SOURCE
#include "gate.h"

#include <dlfcn.h>
#include <sched.h>

enum { SIZE = 4096 };

static const CUresult LOST = CUDA_ERROR_ILLEGAL_ADDRESS;
static int called;
static volatile int told;

static void CUDA_CB is_called(void *unused) {
    (void)unused;
    ++called;
}

static void CUDA_CB is_told(CUstream stream, CUresult status, void *unused) {
    (void)stream, (void)unused;
    told = (int)status;
}

/* The other device goes on. */
static void the_other_device_works(void) {
    CUcontext there;
    CUstream stream;
    CUdeviceptr memory;
    unsigned char back = 0;
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemsetD8Async(memory, 3, SIZE, stream));
    OK(cuLaunchHostFunc(stream, is_called, NULL));
    OK(cuMemcpyDtoHAsync(&back, memory, 1, stream));
    CHECK(back == 3 && called == 1);
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(1));
}

int main(void) {
    CUstream stream, other;
    CUevent before, behind;
    CUdeviceptr memory;
    void *pinned;
    size_t some, all;
    struct gate gate = GATE;
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc(&pinned, SIZE, 0));
    OK(cuMemsetD8Async(memory, 1, SIZE, stream));
    OK(cuEventRecord(before, stream));
    OK(cuEventSynchronize(before));
    close_stream(&gate, stream);
    OK(cuMemsetD8Async(memory, 2, SIZE, stream));
    /* API, cuLaunchHostFunc: "in contrast to cuStreamAddCallback, the function will not be called in the event of an
       error in the CUDA context"; cuStreamAddCallback: "In the event of a device error, all subsequently executed
       callbacks will receive an appropriate CUresult." */
    OK(cuLaunchHostFunc(stream, is_called, NULL));
    OK(cuStreamAddCallback(stream, is_told, NULL, 0));
    OK(cuEventRecord(behind, stream));
    open_gate(&gate);
    GIVES(LOST, cuStreamSynchronize(stream));
    /* Another thread may run it: the device is lost before that. */
    while (!told)
        sched_yield();
    CHECK(!called && told == (int)LOST);
    GIVES(LOST, cuStreamSynchronize(stream));
    GIVES(LOST, cuStreamQuery(stream));
    GIVES(LOST, cuStreamQuery(other));
    GIVES(LOST, cuEventQuery(behind));
    GIVES(LOST, cuEventSynchronize(behind));
    GIVES(LOST, cuEventQuery(before));
    GIVES(LOST, cuEventRecord(before, other));
    GIVES(LOST, cuStreamWaitEvent(other, behind, 0));
    GIVES(LOST, cuCtxSynchronize());
    GIVES(LOST, cuMemcpyDtoH(pinned, memory, SIZE));
    GIVES(LOST, cuMemcpyDtoHAsync(pinned, memory, SIZE, other));
    GIVES(LOST, cuMemsetD8Async(memory, 2, SIZE, other));
    GIVES(LOST, cuLaunchHostFunc(other, is_called, NULL));
    GIVES(LOST, cuMemAllocAsync(&memory, SIZE, other));
    GIVES(LOST, cuMemAlloc(&memory, SIZE));
    GIVES(LOST, cuMemHostAlloc(&pinned, SIZE, 0));
    GIVES(LOST, cuMemGetInfo(&some, &all));
    GIVES(LOST, cuStreamCreate(&other, 0));
    GIVES(LOST, cuEventCreate(&behind, 0));
    CHECK(!called);
    {
        int count;
        OK(cuDeviceGetCount(&count));
        if (count > 1) {
            the_other_device_works();
        }
    }
    {
        /* Ending its context fails too, and frees all that is in it. */
        long long (*leaks)(void);
        *(void **)&leaks = dlsym(RTLD_DEFAULT, "crossdock_sim_leaks");
        CHECK(leaks != NULL && leaks() > 0);
        GIVES(LOST, cuDevicePrimaryCtxReset(0));
        CHECK(leaks() == 0);
    }
    return 0;
}
