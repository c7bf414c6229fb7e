/**
 * \file behaviour.c
 * \brief What plugins and the checker lean on, sentence by sentence, through the public driver API alone. It runs
 *        unchanged on NVIDIA's library. Sources: "API" is the CUDA Driver API reference, by function; "SYNC" its
 *        section on synchronization, "STREAM" that on stream behaviour.
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

/* API, cuInit: "If cuInit() has not been called, any function will return CUDA_ERROR_NOT_INITIALIZED." */
static void nothing_works_before_init(void) {
    int count;
    CUdeviceptr memory;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&memory, 1));
    /* "Currently, the Flags parameter must be 0." */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

/* API, cuGetErrorName: an unknown number gives NULL and CUDA_ERROR_INVALID_VALUE. */
static void errors_have_words(void) {
    const char *text = "";
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(!strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(strlen(text) > 3);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)-5, &text));
    CHECK(!text);
}

/* API, cuDeviceGet: ordinals are 0 to the count less one. */
static void devices_are_counted(void) {
    int count = 0;
    char name[64], pci[32];
    CUdevice device;
    CUuuid uuid, other;
    OK(cuDeviceGetCount(&count));
    CHECK(count > 0);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    for (int at = 0; at < count; ++at) {
        CUdevice found;
        OK(cuDeviceGet(&device, at));
        OK(cuDeviceGetName(name, sizeof name, device));
        CHECK(name[0]);
        OK(cuDeviceGetPCIBusId(pci, sizeof pci, device));
        OK(cuDeviceGetByPCIBusId(&found, pci));
        CHECK(found == device);
        OK(cuDeviceGetUuid(&uuid, device));
        if (at) {
            CHECK(memcmp(&uuid, &other, sizeof uuid));
        }
        other = uuid;
    }
}

/* API, cuDevicePrimaryCtxRetain: there is one primary context a device. cuCtxSetCurrent(NULL) pops. */
static void contexts_are_a_stack(CUcontext primary) {
    CUcontext again, own, popped;
    CUdevice device;
    unsigned flags;
    int is_active;
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    CHECK(again == primary);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    CHECK(is_active);
    OK(cuCtxCreate(&own, 0, 0));
    OK(cuCtxGetCurrent(&again));
    CHECK(again == own && own != primary);
    OK(cuCtxPushCurrent(primary));
    OK(cuCtxPopCurrent(&popped));
    CHECK(popped == primary);
    OK(cuCtxDestroy(own));
    OK(cuCtxGetCurrent(&again));
    CHECK(again == primary);
    OK(cuCtxGetDevice(&device));
    OK(cuCtxSetCurrent(NULL));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
    OK(cuCtxSetCurrent(primary));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent((CUcontext)(uintptr_t)0x40));
}

static void *without_a_context(void *unused) {
    CUdeviceptr memory;
    (void)unused;
    /* API, "Context Management": each thread has a stack of its own, empty at first. */
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 1));
    return NULL;
}

static void threads_have_stacks_of_their_own(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, without_a_context, NULL));
    CHECK(!pthread_join(thread, NULL));
}

/* API, cuMemAlloc: "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE." cuMemGetInfo counts it. */
static void memory_is_allocated_and_freed(void) {
    CUdeviceptr memory, base;
    size_t before, after, all, size;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, SIZE_MAX / 2));
    OK(cuMemGetInfo(&before, &all));
    OK(cuMemAlloc(&memory, SIZE));
    /* API, cuMemAlloc: "The allocated memory is suitably aligned for any kind of variable." */
    CHECK(memory % 256 == 0);
    OK(cuMemGetInfo(&after, &all));
    CHECK(after < before && before <= all);
    OK(cuMemGetAddressRange(&base, &size, memory + 100));
    CHECK(base == memory && size == SIZE);
    OK(cuMemFree(memory));
    OK(cuMemFree(0));
}

/* API, cuPointerGetAttribute: CUDA_ERROR_INVALID_VALUE for memory that the driver does not know; of several
   attributes of such memory it gives zeros and CUDA_SUCCESS. */
static void addresses_have_attributes(CUcontext primary) {
    CUdeviceptr memory, managed;
    char *pinned, own = 0;
    unsigned type = 7, is_managed = 7;
    int ordinal = 7;
    CUcontext context;
    void *host;
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 5));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    CHECK(context == primary);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)(pinned + 9)));
    CHECK(host == pinned + 9);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    CHECK(is_managed == 1);
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&own));
    {
        CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void *values[] = {&type, &is_managed, &ordinal};
        OK(cuPointerGetAttributes(3, asked, values, (CUdeviceptr)&own));
        CHECK(type == 0 && is_managed == 0 && ordinal == -2);
        OK(cuPointerGetAttributes(3, asked, values, memory));
        CHECK(type == CU_MEMORYTYPE_DEVICE && is_managed == 0 && ordinal == 0);
    }
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
}

/* API, cuMemHostRegister: the memory is the host's own, and the driver knows it until it is unregistered. */
static void host_memory_is_registered(void) {
    char *own = aligned_alloc(4096, SIZE);
    CUdeviceptr seen;
    unsigned type;
    OK(cuMemHostRegister(own, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)own + 7));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemHostGetDevicePointer(&seen, own, 0));
    CHECK(seen);
    OK(cuMemHostUnregister(own));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)own));
    free(own);
}

/* SYNC: a copy with pageable memory, and one that names no stream, is over when the call returns. */
static void copies_bring_bytes(void) {
    static unsigned char there[SIZE], back[SIZE];
    CUdeviceptr one, other;
    CUstream stream;
    for (size_t at = 0; at < SIZE; ++at) {
        there[at] = (unsigned char)(at * 7 + at / 256);
    }
    OK(cuMemAlloc(&one, SIZE));
    OK(cuMemAlloc(&other, SIZE));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemcpyHtoD(one, there, SIZE));
    OK(cuMemcpyDtoD(other, one, SIZE));
    OK(cuMemcpyDtoH(back, other, SIZE));
    CHECK(!memcmp(there, back, SIZE));
    memset(back, 0, SIZE);
    OK(cuMemcpyDtoHAsync(back, other, SIZE, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(!memcmp(there, back, SIZE));
    {
        /* A part of 30 by 20 bytes, in rows of 256 and of 100. */
        CUDA_MEMCPY2D rows = {0};
        rows.srcMemoryType = CU_MEMORYTYPE_DEVICE, rows.srcDevice = other, rows.srcPitch = 256;
        rows.srcXInBytes = 3, rows.srcY = 2;
        rows.dstMemoryType = CU_MEMORYTYPE_HOST, rows.dstHost = back, rows.dstPitch = 100;
        rows.WidthInBytes = 30, rows.Height = 20;
        memset(back, 0, SIZE);
        OK(cuMemcpy2D(&rows));
        for (size_t y = 0; y < 20; ++y) {
            CHECK(!memcmp(back + y * 100, there + (y + 2) * 256 + 3, 30));
            CHECK(back[y * 100 + 30] == 0);
        }
        rows.srcPitch = 10;
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rows));
    }
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(one));
    OK(cuMemFree(other));
}

/* API, cuMemsetD32: the value is repeated; the address is aligned to it. */
static void fills_repeat_a_value(void) {
    static uint32_t back[64];
    CUdeviceptr memory;
    size_t pitch;
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemsetD32(memory, 0x01020304, 64));
    OK(cuMemsetD8(memory, 9, 1));
    OK(cuMemcpyDtoH(back, memory, sizeof back));
    CHECK(back[0] == 0x01020309 && back[63] == 0x01020304);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory + 1, 0, 1));
    OK(cuMemFree(memory));
    OK(cuMemAllocPitch(&memory, &pitch, 100, 4, 4));
    CHECK(pitch >= 100);
    OK(cuMemsetD2D8(memory, pitch, 5, 100, 4));
    OK(cuMemcpyDtoH(back, memory + 3 * pitch, 100));
    CHECK(back[24] == 0x05050505);
    OK(cuMemFree(memory));
}

/* "API synchronization behavior", Memset: without a stream they are over when they return where the memory is pinned
   memory of the host or managed. */
static void fills_of_host_memory_are_over_at_once(void) {
    unsigned char *pinned;
    CUdeviceptr managed;
    OK(cuMemHostAlloc((void **)&pinned, SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemsetD8((CUdeviceptr)pinned, 7, SIZE));
    CHECK(pinned[0] == 7 && pinned[SIZE - 1] == 7);
    OK(cuMemsetD2D8((CUdeviceptr)pinned, SIZE / 2, 8, 1, 2));
    CHECK(pinned[0] == 8 && pinned[1] == 7 && pinned[SIZE / 2] == 8);
    OK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD32(managed, 0x01020304, 4));
    CHECK(((unsigned char *)managed)[4] == 4 && ((unsigned char *)managed)[7] == 1);
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
    pinned = aligned_alloc(4096, 2 * SIZE);
    OK(cuMemHostRegister(pinned, SIZE, 0));
    OK(cuMemsetD8((CUdeviceptr)pinned, 9, SIZE));
    CHECK(pinned[SIZE - 1] == 9);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8((CUdeviceptr)pinned, 9, SIZE + 1));
    OK(cuMemHostUnregister(pinned));
    free(pinned);
}

/* API, cuStreamWaitEvent: the stream waits for the work that the event captured. cuEventQuery of an event that was
   never recorded is CUDA_SUCCESS. */
static void events_order_streams(void) {
    CUdeviceptr memory;
    CUstream one, other;
    CUevent event, timed;
    unsigned char *pinned, back = 0;
    float milliseconds;
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    OK(cuEventQuery(event));
    OK(cuEventSynchronize(event));
    OK(cuEventRecord(timed, one));
    memset(pinned, 3, SIZE);
    OK(cuMemcpyHtoDAsync(memory, pinned, SIZE, one));
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuMemsetD8Async(memory + SIZE - 1, 4, 1, other));
    OK(cuStreamSynchronize(other));
    /* Its completion was behind the other stream's work, so nothing of that is left. */
    OK(cuEventQuery(event));
    OK(cuMemcpyDtoH(&back, memory + SIZE - 1, 1));
    CHECK(back == 4);
    /* API, cuEventElapsedTime: CUDA_ERROR_INVALID_HANDLE for an event that takes no time. */
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, timed, event));
    OK(cuStreamDestroy(one));
    OK(cuStreamDestroy(other));
    OK(cuEventDestroy(event));
    OK(cuEventDestroy(timed));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
}

/* STREAM: the legacy default stream waits for all blocking streams, and they for it. */
static void the_legacy_stream_is_a_barrier(void) {
    CUdeviceptr memory;
    CUstream one, other;
    unsigned char back[3];
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuStreamCreate(&one, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    OK(cuMemsetD8Async(memory, 2, SIZE - 1, CU_STREAM_LEGACY));
    OK(cuMemsetD8Async(memory, 3, 1, other));
    OK(cuMemcpyDtoHAsync(back, memory, 1, other));
    OK(cuMemcpyDtoH(back + 1, memory + 1, 1));
    OK(cuMemcpyDtoH(back + 2, memory + SIZE - 1, 1));
    CHECK(back[0] == 3 && back[1] == 2 && back[2] == 1);
    OK(cuStreamDestroy(one));
    OK(cuStreamDestroy(other));
    OK(cuMemFree(memory));
}

static void CUDA_CB count(void *counter) { ++*(int *)counter; }

/* API, cuLaunchHostFunc: called once the work before it is over, and the work after it waits. */
static void host_functions_are_in_order(void) {
    CUstream stream;
    int counter = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int at = 0; at < 10; ++at) {
        OK(cuLaunchHostFunc(stream, count, &counter));
    }
    OK(cuStreamSynchronize(stream));
    CHECK(counter == 10);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, NULL));
    OK(cuStreamDestroy(stream));
}

/* API, cuStreamWaitValue32: the stream goes on once the word has the value. */
static void streams_wait_for_words(void) {
    CUstream stream, other;
    uint32_t *word;
    OK(cuMemHostAlloc((void **)&word, 4, 0));
    *word = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)word, 2, 0));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(other, (CUdeviceptr)word, 2, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamSynchronize(other));
    CHECK(*word == 2);
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuMemFreeHost(word));
}

/* API, "Stream Ordered Memory Allocator": the memory is there from that point of the stream on. */
static void pools_give_memory_in_order(void) {
    CUmemoryPool pool, own;
    CUmemPoolProps properties = {0};
    CUdeviceptr memory;
    CUstream stream;
    uint64_t threshold = UINT64_MAX;
    unsigned char back = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    threshold = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(threshold == UINT64_MAX);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemPoolCreate(&own, &properties));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&memory, SIZE, stream));
    OK(cuMemsetD8Async(memory, 6, SIZE, stream));
    OK(cuMemcpyDtoHAsync(&back, memory + 9, 1, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(back == 6);
    OK(cuMemAllocFromPoolAsync(&memory, SIZE, own, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(own, 0));
    OK(cuMemPoolDestroy(own));
    OK(cuStreamDestroy(stream));
}

/* API, cuGetProcAddress: the newest form that the asked version and the driver have. */
static void functions_are_looked_up(void) {
    CUresult (*old)(CUdeviceptr *, size_t) = NULL;
    void *found = &found;
    CUdriverProcAddressQueryResult status;
    CUdeviceptr memory;
    int version;
    OK(cuDriverGetVersion(&version));
    CHECK(version >= 11000);
    OK(cuGetProcAddress("cuMemAlloc", (void **)&old, 12000, 0, &status));
    CHECK(old && status == CU_GET_PROC_ADDRESS_SUCCESS);
    OK(old(&memory, SIZE));
    OK(cuMemFree(memory));
    GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNothing", &found, 12000, 0, &status));
    CHECK(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemAllocAsync", &found, 10000, 0, &status));
    CHECK(!found && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

/* API, cuCtxEnablePeerAccess. */
static void peers_are_enabled_once(CUcontext primary) {
    int count, can;
    CUcontext other;
    OK(cuDeviceGetCount(&count));
    if (count < 2) {
        return;
    }
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    if (can) {
        OK(cuCtxEnablePeerAccess(other, 0));
        GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
        OK(cuCtxDisablePeerAccess(other));
        GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
    }
    {
        /* API, cuEventRecord: the event and the stream are of one context. */
        CUstream there;
        CUevent here;
        OK(cuEventCreate(&here, CU_EVENT_DISABLE_TIMING));
        OK(cuCtxSetCurrent(other));
        OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
        GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(here, there));
        OK(cuStreamDestroy(there));
        OK(cuCtxSetCurrent(primary));
        OK(cuEventDestroy(here));
    }
    OK(cuDevicePrimaryCtxRelease(1));
}

/* API, cuInit in a forked child: a driver that was started before is of no use there. */
static void a_forked_child_has_no_driver(void) {
    int ended;
    pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
}

int main(void) {
    CUcontext primary;
    nothing_works_before_init();
    errors_have_words();
    primary = begin();
    devices_are_counted();
    contexts_are_a_stack(primary);
    threads_have_stacks_of_their_own();
    memory_is_allocated_and_freed();
    addresses_have_attributes(primary);
    host_memory_is_registered();
    copies_bring_bytes();
    fills_repeat_a_value();
    fills_of_host_memory_are_over_at_once();
    events_order_streams();
    the_legacy_stream_is_a_barrier();
    host_functions_are_in_order();
    streams_wait_for_words();
    pools_give_memory_in_order();
    functions_are_looked_up();
    peers_are_enabled_once(primary);
    a_forked_child_has_no_driver();
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
