/**
 * \file pools.c
 * \brief Memory in stream order and the pools that it comes from. It runs unchanged on NVIDIA's library. "API" is the
 *        CUDA Driver API reference, by function.
 */
#include "gate.h"

enum { SIZE = 64 << 20 };

static CUmemoryPool pool;
static CUstream stream;

static uint64_t asked(CUmemPool_attribute attribute) {
    uint64_t value = 7;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUmemoryPool make(int device) {
    CUmemPoolProps properties = {0};
    CUmemoryPool made;
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    OK(cuMemPoolCreate(&made, &properties));
    return made;
}

/* API, cuDeviceGetMemPool, cuDeviceSetMemPool: "The memory pool must be local to the specified device"; cuMemPoolDestroy:
 * "Destroying the current mempool of a device sets the default mempool of that device as the current mempool", and "a
 * device's default memory pool cannot be destroyed". */
static void a_device_has_a_current_pool(void) {
    CUmemoryPool first, current, own = make(0);
    OK(cuDeviceGetDefaultMemPool(&first, 0));
    OK(cuDeviceGetMemPool(&current, 0));
    CHECK(first == current && own != first);
    OK(cuDeviceSetMemPool(0, own));
    OK(cuDeviceGetMemPool(&current, 0));
    CHECK(current == own);
    OK(cuMemPoolDestroy(own));
    OK(cuDeviceGetMemPool(&current, 0));
    CHECK(current == first);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(first));
}

/* API, cuMemPoolSetAttribute: the defaults, and what is set. */
static void attributes_are_kept(void) {
    static const CUmemPool_attribute reuse[] = {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                                                CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                                CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};
    uint64_t threshold = 1 << 20;
    for (size_t at = 0; at < 3; ++at) {
        int value = 0;
        OK(cuMemPoolGetAttribute(pool, reuse[at], &value));
        CHECK(value == 1);
        value = 0;
        OK(cuMemPoolSetAttribute(pool, reuse[at], &value));
        OK(cuMemPoolGetAttribute(pool, reuse[at], &value));
        CHECK(value == 0);
        value = 1;
        OK(cuMemPoolSetAttribute(pool, reuse[at], &value));
    }
    CHECK(asked(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(asked(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == threshold);
    threshold = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

/* API, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: "When more than the release threshold bytes of memory are held by the memory
 * pool, the allocator will try to release memory back to the OS on the next call to stream, event or context
 * synchronize." */
static void memory_is_kept_up_to_the_threshold(void) {
    uint64_t all = UINT64_MAX, none = 0;
    CUdeviceptr memory, plain;
    OK(cuMemAlloc(&plain, SIZE));
    CHECK(asked(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 && asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&memory, SIZE, pool, stream));
    CHECK(asked(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= SIZE);
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(asked(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0 && asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
    /* API, CU_MEMPOOL_ATTR_USED_MEM_HIGH: "High watermark of the amount of memory from the pool that was in use by the
       application since the last time it was reset. High watermark can only be reset to zero." */
    CHECK(asked(CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= SIZE);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    CHECK(asked(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0 && asked(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= SIZE);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &all));
    /* API, cuMemPoolTrimTo: "If the pool has less than minBytesToKeep reserved, the TrimTo operation is a no-op.
       Otherwise the pool will be guaranteed to have at least minBytesToKeep bytes reserved after the operation." */
    OK(cuMemPoolTrimTo(pool, SIZE));
    CHECK(asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    /* "The allocator cannot release OS allocations that back outstanding asynchronous allocations." */
    OK(cuMemAllocFromPoolAsync(&memory, SIZE, pool, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(asked(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cuMemFree(plain));
}

/* API, cuMemAllocAsync: "The allocation comes from the memory pool current to the stream's device", and attribute
 * CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE says which. */
static void memory_says_its_pool(void) {
    CUmemoryPool first, of;
    CUdeviceptr memory;
    OK(cuDeviceGetDefaultMemPool(&first, 0));
    for (int which = 0; which < 3; ++which) {
        OK(cuDeviceSetMemPool(0, which == 1 ? pool : first));
        if (which == 2) {
            OK(cuMemAllocFromPoolAsync(&memory, 100, pool, stream));
        } else {
            OK(cuMemAllocAsync(&memory, 100, stream));
        }
        OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory + 99));
        CHECK(of == (which ? pool : first));
        OK(cuMemFreeAsync(memory, stream));
    }
    OK(cuMemAlloc(&memory, 100));
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
    CHECK(!of);
    OK(cuMemFree(memory));
}

/* API, cuMemFree: "This API will not perform any implicit synchronization when the pointer was allocated with
 * cuMemAllocAsync or cuMemAllocFromPoolAsync"; cuMemFreeAsync waits for nothing either. */
static void frees_of_pools_memory_do_not_wait(void) {
    struct gate gate = GATE;
    CUdeviceptr memory, other, late;
    OK(cuMemAllocAsync(&memory, 100, stream));
    OK(cuMemAllocAsync(&other, 100, stream));
    OK(cuStreamSynchronize(stream));
    close_stream(&gate, stream);
    OK(cuMemFree(memory));
    OK(cuMemAllocAsync(&late, 100, stream));
    OK(cuMemsetD8Async(late, 1, 100, stream));
    OK(cuMemFreeAsync(late, stream));
    OK(cuMemFreeAsync(other, stream));
    CHECK(!is_open(&gate));
    open_gate(&gate);
    OK(cuStreamSynchronize(stream));
}

/* API, cuMemAllocFromPoolAsync: "The specified memory pool may be from a device different than that of the specified
 * hStream", and the memory is that pool's; cuMemPoolGetAccess: other devices reach it where that was set. */
static void a_pool_may_be_another_devices(void) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation there = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccess_flags flags;
    CUmemoryPool other;
    CUdeviceptr memory;
    int count, ordinal, can;
    unsigned char bytes[100];
    OK(cuMemPoolGetAccess(&flags, pool, &there));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuDeviceGetCount(&count));
    if (count < 2) {
        return;
    }
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    other = make(1);
    OK(cuMemPoolGetAccess(&flags, other, &there));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    if (can) {
        OK(cuMemPoolSetAccess(other, &access, 1));
        OK(cuMemPoolGetAccess(&flags, other, &there));
        CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuMemAllocFromPoolAsync(&memory, 100, other, stream));
        OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
        CHECK(ordinal == 1);
        OK(cuMemsetD8Async(memory, 9, 100, stream));
        OK(cuMemcpyDtoHAsync(bytes, memory, 100, stream));
        CHECK(bytes[0] == 9 && bytes[99] == 9);
        OK(cuMemFreeAsync(memory, stream));
        OK(cuStreamSynchronize(stream));
    }
    OK(cuMemPoolDestroy(other));
}

/* API, cuMemPoolDestroy: "If any pointers obtained from this pool haven't been freed ... the resources associated with
 * the pool will be released automatically once there are no more outstanding allocations." */
static void a_pool_ends_behind_its_memory(void) {
    CUmemoryPool short_lived = make(0);
    CUdeviceptr memory;
    OK(cuMemAllocFromPoolAsync(&memory, 100, short_lived, stream));
    OK(cuMemPoolDestroy(short_lived));
    OK(cuMemsetD8Async(memory, 1, 100, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
}

/* API, cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY. */
static void too_much_is_refused(void) {
    CUdeviceptr memory;
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&memory, SIZE_MAX / 2, stream));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&memory, SIZE_MAX / 2, pool, stream));
}

int main(void) {
    CUmemoryPool first;
    begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pool = make(0);
    a_device_has_a_current_pool();
    attributes_are_kept();
    memory_is_kept_up_to_the_threshold();
    memory_says_its_pool();
    frees_of_pools_memory_do_not_wait();
    a_pool_may_be_another_devices();
    a_pool_ends_behind_its_memory();
    too_much_is_refused();
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceGetDefaultMemPool(&first, 0));
    OK(cuDeviceSetMemPool(0, first));
    OK(cuMemPoolDestroy(pool));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
