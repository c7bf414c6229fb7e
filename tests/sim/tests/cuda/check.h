/* What the programs beside it share: a check that ends the program, and a context to begin with. */
#ifndef CHECK_H
#define CHECK_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The call must answer this. */
#define GIVES(expected, call)                                                                                          \
    do {                                                                                                               \
        CUresult given = (call);                                                                                       \
        if (given != (expected)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s answers %d and not %d\n", __FILE__, __LINE__, #call, (int)given,                \
                    (int)(expected));                                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) GIVES(CUDA_SUCCESS, call)

/* The primary context of device 0, current. */
static inline CUcontext begin(void) {
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return context;
}

#endif
