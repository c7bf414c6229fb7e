/**
 * \file links.c
 * \brief Copies the same bytes to two devices. Says how much longer the second one took, and then how each link was
 *        used.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

enum { SIZE = 16 << 20 };

/* Milliseconds, as the device's events say. */
static float time_of_a_copy(int ordinal) {
    CUcontext context;
    CUdevice device;
    CUdeviceptr memory;
    CUevent before, after;
    CUstream stream;
    void *pinned;
    float took;
    OK(cuDeviceGet(&device, ordinal));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&after, CU_EVENT_DEFAULT));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemAllocHost(&pinned, SIZE));
    memset(pinned, 1, SIZE);
    OK(cuEventRecord(before, stream));
    OK(cuMemcpyHtoDAsync(memory, pinned, SIZE, stream));
    OK(cuEventRecord(after, stream));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime(&took, before, after));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
    OK(cuEventDestroy(before));
    OK(cuEventDestroy(after));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(device));
    return took;
}

int main(void) {
    OK(cuInit(0));
    {
        const float first = time_of_a_copy(0), second = time_of_a_copy(1);
        static char text[4096];
        long long (*take)(char *, size_t);
        *(void **)&take = dlsym(RTLD_DEFAULT, "crossdock_sim_take_links");
        CHECK(take != NULL);
        /* What does not fit is kept. */
        CHECK(take(text, 1) > 1 && take(text, sizeof text) <= (long long)sizeof text);
        printf("%.1f\n%s", second / first, text);
        CHECK(take(text, sizeof text) == 1);
    }
    return 0;
}
