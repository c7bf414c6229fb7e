/**
 * \file hip.h
 * \brief The part of HIP 6 and 7 that the programs beside it use, declared here: AMD's header comes with ROCm alone.
 *        Results are integers. And checks that end the program.
 */
#ifndef HIP_H
#define HIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *hipStream_t, *hipEvent_t, *hipMemPool_t;
typedef void (*hipHostFn_t)(void *);

enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorNotInitialized = 3,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidHandle = 400,
    hipErrorNotReady = 600,
    hipErrorPeerAccessAlreadyEnabled = 704,
    hipErrorPeerAccessNotEnabled = 705,
    hipErrorContextIsDestroyed = 709,
    hipErrorHostMemoryNotRegistered = 713,
};

/* From HIP 6 on. */
enum { hipMemoryTypeUnregistered = 0, hipMemoryTypeHost = 1, hipMemoryTypeDevice = 2, hipMemoryTypeManaged = 3 };
enum { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3, hipMemcpyDefault = 4 };
enum { hipStreamDefault = 0, hipStreamNonBlocking = 1, hipEventDisableTiming = 2, hipMemAttachGlobal = 1 };
enum { hipStreamWaitValueGte = 0, hipStreamWaitValueEq = 1, hipMallocSignalMemory = 2 };
enum { hipMemPoolAttrReleaseThreshold = 4, HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12 };

typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

typedef struct {
    void *ptr;
    size_t pitch, xsize, ysize;
} hipPitchedPtr;

typedef struct {
    void *srcArray;
    size_t srcPos[3];
    hipPitchedPtr srcPtr;
    void *dstArray;
    size_t dstPos[3];
    hipPitchedPtr dstPtr;
    size_t extent[3];
    int kind;
} hipMemcpy3DParms;

typedef struct {
    int allocType, handleTypes, locationType, locationId;
    void *security;
    unsigned char rest[64];
} hipMemPoolProps;

int hipInit(unsigned), hipRuntimeGetVersion(int *), hipGetLastError(void), hipPeekAtLastError(void);
const char *hipGetErrorName(int), *hipGetErrorString(int);
int hipDrvGetErrorName(int, const char **);
int hipGetDeviceCount(int *), hipSetDevice(int), hipGetDevice(int *), hipDeviceSynchronize(void);
int hipDeviceGetName(char *, int, int), hipDeviceGetUuid(void *, int), hipDeviceGetPCIBusId(char *, int, int);
int hipDeviceReset(void);
int hipDeviceGetByPCIBusId(int *, const char *), hipDeviceGetAttribute(int *, int, int);
int hipGetDeviceProperties(void *, int), hipGetDevicePropertiesR0600(void *, int);
int hipDeviceCanAccessPeer(int *, int, int), hipDeviceEnablePeerAccess(int, unsigned), hipDeviceDisablePeerAccess(int);
int hipGetProcAddress(const char *, void **, int, uint64_t, int *);
int hipMemGetInfo(size_t *, size_t *), hipMalloc(void **, size_t), hipFree(void *);
int hipExtMallocWithFlags(void **, size_t, unsigned), hipMallocManaged(void **, size_t, unsigned);
int hipHostMalloc(void **, size_t, unsigned), hipHostFree(void *);
int hipHostRegister(void *, size_t, unsigned), hipHostUnregister(void *), hipHostGetDevicePointer(void **, void *, unsigned);
int hipPointerGetAttributes(hipPointerAttribute_t *, const void *), hipMemGetAddressRange(void **, size_t *, void *);
int hipDrvPointerGetAttributes(unsigned, int *, void **, void *);
int hipMemcpy(void *, const void *, size_t, int), hipMemcpyAsync(void *, const void *, size_t, int, hipStream_t);
int hipMemcpyPeer(void *, int, const void *, int, size_t);
int hipMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int), hipMemcpy3D(const hipMemcpy3DParms *);
int hipMemset(void *, int, size_t), hipMemsetAsync(void *, int, size_t, hipStream_t);
int hipMemsetD32(void *, int, size_t), hipMemset2D(void *, size_t, int, size_t, size_t);
int hipStreamCreate(hipStream_t *), hipStreamCreateWithFlags(hipStream_t *, unsigned), hipStreamDestroy(hipStream_t);
int hipStreamSynchronize(hipStream_t), hipStreamQuery(hipStream_t), hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned);
int hipStreamGetDevice(hipStream_t, int *), hipGetStreamDeviceId(hipStream_t), hipStreamIsCapturing(hipStream_t, int *);
int hipLaunchHostFunc(hipStream_t, hipHostFn_t, void *);
int hipStreamWaitValue32(hipStream_t, void *, uint32_t, unsigned, uint32_t);
int hipStreamWriteValue32(hipStream_t, void *, uint32_t, unsigned);
int hipEventCreate(hipEvent_t *), hipEventCreateWithFlags(hipEvent_t *, unsigned), hipEventDestroy(hipEvent_t);
int hipEventRecord(hipEvent_t, hipStream_t), hipEventQuery(hipEvent_t), hipEventSynchronize(hipEvent_t);
int hipEventElapsedTime(float *, hipEvent_t, hipEvent_t);
int hipMallocAsync(void **, size_t, hipStream_t), hipFreeAsync(void *, hipStream_t);
int hipMallocFromPoolAsync(void **, size_t, hipMemPool_t, hipStream_t), hipDeviceGetDefaultMemPool(hipMemPool_t *, int);
int hipMemPoolCreate(hipMemPool_t *, const hipMemPoolProps *), hipMemPoolDestroy(hipMemPool_t);
int hipMemPoolTrimTo(hipMemPool_t, size_t);
int hipMemPoolSetAttribute(hipMemPool_t, int, void *), hipMemPoolGetAttribute(hipMemPool_t, int, void *);

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
        int given = (call);                                                                                            \
        if (given != (expected)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s answers %d and not %d\n", __FILE__, __LINE__, #call, given, (int)(expected));   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) GIVES(hipSuccess, call)

#endif
