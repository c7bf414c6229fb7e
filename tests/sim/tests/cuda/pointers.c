/**
 * \file pointers.c
 * \brief What is known of addresses, copies between devices, sizes that are too much, functions by name. It runs
 *        unchanged on NVIDIA's library. "API" is the CUDA Driver API reference, by function.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>

enum { SIZE = 1 << 16, PAGE = SIZE };

static CUcontext primary;

struct known {
    CUcontext context;
    unsigned type, is_managed;
    int ordinal;
    CUdeviceptr device, start;
    void *host;
    unsigned long long id;
    size_t size;
};

/* All of it in one call. */
static struct known ask(CUdeviceptr at) {
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    struct known known;
    void *values[] = {&known.context, &known.type, &known.is_managed, &known.ordinal, &known.device,
                      &known.start,   &known.host, &known.id,         &known.size};
    memset(&known, 0x55, sizeof known);
    OK(cuPointerGetAttributes(sizeof values / sizeof *values, attributes, values, at));
    return known;
}

/* API, cuPointerGetAttribute, by attribute; cuPointerGetAttributes: "the attributes are assigned default NULL values and
 * CUDA_SUCCESS is returned" where one alone is refused. */
static void each_memory_has_its_attributes(void) {
    CUdeviceptr memory, managed;
    char *pinned, *own = aligned_alloc(4096, SIZE);
    struct known known;
    void *host;
    OK(cuMemAlloc(&memory, SIZE));
    known = ask(memory + 10);
    CHECK(known.context == primary && known.type == CU_MEMORYTYPE_DEVICE && !known.is_managed && known.ordinal == 0);
    CHECK(known.device == memory + 10 && !known.host && known.start == memory && known.size == SIZE);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
    {
        /* CU_POINTER_ATTRIBUTE_BUFFER_ID: "unique for the allocation", also where an address comes again. */
        const unsigned long long id = known.id;
        CHECK(id && ask(memory).id == id);
        OK(cuMemFree(memory));
        OK(cuMemAlloc(&memory, SIZE));
        CHECK(ask(memory).id != id);
    }
    OK(cuMemHostAlloc((void **)&pinned, SIZE, CU_MEMHOSTALLOC_PORTABLE));
    known = ask((CUdeviceptr)(pinned + 10));
    CHECK(known.type == CU_MEMORYTYPE_HOST && !known.is_managed && known.host == pinned + 10);
    CHECK(known.device && known.size >= SIZE && known.context == primary);
    OK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    known = ask(managed);
    CHECK(known.is_managed == 1 && known.host == (void *)managed && known.device == managed);
    OK(cuMemHostRegister(own, SIZE, 0));
    known = ask((CUdeviceptr)(own + 10));
    CHECK(known.type == CU_MEMORYTYPE_HOST && !known.is_managed && known.host == own + 10);
    CHECK(known.context == primary && known.start == (CUdeviceptr)own && known.size == SIZE);
    OK(cuMemHostUnregister(own));
    known = ask((CUdeviceptr)own);
    CHECK(!known.context && !known.type && !known.is_managed && known.ordinal == -2);
    CHECK(!known.device && !known.host && !known.start && !known.id && !known.size);
    /* "CUDA_ERROR_INVALID_VALUE" for an attribute that is none. */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&host, (CUpointer_attribute)777, memory));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
    free(own);
}

/* API, CU_POINTER_ATTRIBUTE_CONTEXT: "the CUcontext in which a pointer was allocated or registered". */
static void memory_is_of_its_context(void) {
    CUcontext own, of;
    CUdeviceptr memory;
    void *pinned, *host = aligned_alloc(4096, SIZE);
    OK(cuCtxCreate(&own, 0, 0));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc(&pinned, SIZE, 0));
    OK(cuMemHostRegister(host, SIZE, 0));
    OK(cuCtxPopCurrent(NULL));
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    CHECK(of == own);
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)pinned));
    CHECK(of == own);
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)host));
    CHECK(of == own);
    OK(cuCtxPushCurrent(own));
    OK(cuMemHostUnregister(host));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(memory));
    OK(cuCtxDestroy(own));
    free(host);
    OK(cuCtxSetCurrent(NULL));
    /* API, cuMemGetInfo: of "the current context". */
    {
        size_t some, all;
        GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&some, &all));
    }
    OK(cuCtxSetCurrent(primary));
}

/* API, cuMemcpyPeer: "Copies from device memory in one context to device memory in another context"; no access has to be
 * enabled. By unified addressing the other copies take such addresses too. */
static void copies_between_devices_need_no_access(void) {
    CUcontext there;
    CUdeviceptr memory, other;
    unsigned char bytes[SIZE];
    int count;
    OK(cuDeviceGetCount(&count));
    if (count < 2) {
        return;
    }
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuCtxPushCurrent(there));
    OK(cuMemAlloc(&other, SIZE));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemsetD8(memory, 1, SIZE));
    OK(cuMemcpyPeer(other, there, memory, primary, SIZE));
    OK(cuMemsetD8(memory, 2, SIZE));
    OK(cuMemcpyPeer(memory, primary, other, there, SIZE / 2));
    OK(cuMemcpyDtoH(bytes, memory, SIZE));
    CHECK(bytes[0] == 1 && bytes[SIZE / 2 - 1] == 1 && bytes[SIZE / 2] == 2);
    OK(cuMemcpyDtoD(other, memory, SIZE));
    OK(cuMemcpy((CUdeviceptr)bytes, other, SIZE));
    CHECK(bytes[0] == 1 && bytes[SIZE - 1] == 2);
    /* API, cuCtxEnablePeerAccess: "Flags - Reserved for future use and must be set to 0"; "CUDA_ERROR_INVALID_DEVICE if
       ... peerContext" is of the same device. */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(there, 1));
    OK(cuCtxPushCurrent(there));
    OK(cuMemFree(other));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemFree(memory));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* Products and sums that are more than a size holds. */
static void sizes_do_not_wrap(void) {
    CUdeviceptr memory, at;
    size_t pitch;
    void *pinned;
    OK(cuMemAlloc(&memory, SIZE));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&at, SIZE_MAX));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocHost(&pinned, SIZE_MAX / 2));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&at, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory, 0, (SIZE_MAX >> 2) + 2));
    {
        CUDA_MEMCPY2D rows = {0};
        rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.srcDevice = rows.dstDevice = memory;
        rows.srcPitch = rows.dstPitch = (size_t)1 << 40;
        rows.WidthInBytes = 16, rows.Height = (size_t)1 << 40;
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rows));
        rows.Height = 1, rows.srcXInBytes = SIZE_MAX;
        GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rows));
    }
    OK(cuMemFree(memory));
}

/* What is called memory of a device and is no memory at all: an answer, and no fault of the host. */
static void no_copy_follows_a_wild_address(void) {
    static const CUdeviceptr wild = (CUdeviceptr)1 << 62;
    CUdeviceptr memory;
    unsigned char bytes[16] = {0};
    CUDA_MEMCPY2D rows = {0};
    OK(cuMemAlloc(&memory, SIZE));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(wild, bytes, sizeof bytes));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, wild, sizeof bytes));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(memory, wild, sizeof bytes));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(wild, memory, sizeof bytes, CU_STREAM_LEGACY));
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = rows.dstDevice = memory;
    rows.WidthInBytes = 16, rows.Height = 1;
    rows.srcXInBytes = (size_t)wild;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rows));
    OK(cuMemFree(memory));
}

/* A pattern of 8 bytes goes as two columns of 4, each a fill of rows. */
static void fills_of_columns_make_wider_patterns(void) {
    CUdeviceptr memory;
    uint32_t back[8];
    OK(cuMemAlloc(&memory, sizeof back));
    OK(cuMemsetD2D32(memory, 8, 1, 1, 4));
    OK(cuMemsetD2D32(memory + 4, 8, 2, 1, 4));
    OK(cuMemcpyDtoH(back, memory, sizeof back));
    for (int at = 0; at < 8; ++at) {
        CHECK(back[at] == 1u + at % 2);
    }
    OK(cuMemFree(memory));
}

static void *found(const char *name, int version, cuuint64_t flags) {
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    OK(cuGetProcAddress(name, &function, version, flags, &status));
    CHECK(function && status == CU_GET_PROC_ADDRESS_SUCCESS);
    return function;
}

/* API, cuGetProcAddress: "CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: This flag will search for all symbols that
 * match the requested driver symbol name, including per-thread versions. If a per-thread version is not found, the API
 * will return the legacy version of the driver function"; the version chooses among the forms that a function had. */
static void functions_have_forms(void) {
    const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                     own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream);
    CUdriverProcAddressQueryResult status;
    CUdeviceptr memory;
    void *function;
    unsigned char back = 0;
    CHECK(found("cuMemcpyAsync", 12000, legacy) == found("cuMemcpyAsync", 12000, CU_GET_PROC_ADDRESS_DEFAULT));
    CHECK(found("cuMemcpyAsync", 12000, own) != found("cuMemcpyAsync", 12000, legacy));
    CHECK(found("cuCtxGetCurrent", 12000, own) == found("cuCtxGetCurrent", 12000, legacy));
    CHECK(found("cuMemAlloc", 3010, legacy) != found("cuMemAlloc", 12000, legacy));
    CHECK(found("cuMemAlloc", 3020, legacy) == found("cuMemAlloc", 12000, legacy));
    CHECK(found("cuGetProcAddress", 11030, legacy) != found("cuGetProcAddress", 12000, legacy));
    CHECK(found("cuStreamGetCaptureInfo", 11030, own) != found("cuStreamGetCaptureInfo", 10010, own));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuMemAlloc", &function, 12000, 1 << 20, &status));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &function, 12000, 0, &status));
    /* What is found works, on the stream of its own kind. */
    *(void **)&fill = found("cuMemsetD8Async", 12000, own);
    OK(cuMemAlloc(&memory, 1));
    OK(fill(memory, 7, 1, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuMemcpyDtoH(&back, memory, 1));
    CHECK(back == 7);
    OK(cuMemFree(memory));
}

/* API, cuMemHostGetDevicePointer: the same address where CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM. */
static void devices_reach_host_memory(void) {
    char *pinned, *own = aligned_alloc(4096, SIZE);
    CUdeviceptr seen;
    int is_same;
    OK(cuDeviceGetAttribute(&is_same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostRegister(own, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&seen, pinned, 0));
    CHECK(seen == (CUdeviceptr)pinned);
    OK(cuMemHostGetDevicePointer(&seen, own, 0));
    CHECK(!is_same || seen == (CUdeviceptr)own);
    OK(cuMemsetD8(seen, 9, SIZE));
    OK(cuCtxSynchronize());
    CHECK(own[0] == 9 && own[SIZE - 1] == 9);
    OK(cuMemHostUnregister(own));
    OK(cuMemFreeHost(pinned));
    free(own);
}

/* API, cuMemHostRegister: "Page-locks the memory range", which takes pages. */
static void what_is_registered_is_there(void) {
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && !munmap(pages + PAGE, PAGE));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages + PAGE, PAGE, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages + PAGE - 8, 16, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(pages, 3 * PAGE, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister((void *)8, 8, 0));
    OK(cuMemHostRegister(pages + PAGE - 8, 8, 0));
    OK(cuMemHostRegister(pages + 2 * PAGE, PAGE, 0));
    OK(cuMemHostUnregister(pages + 2 * PAGE));
    OK(cuMemHostUnregister(pages + PAGE - 8));
    CHECK(!munmap(pages, 3 * PAGE));
}

int main(void) {
    primary = begin();
    each_memory_has_its_attributes();
    memory_is_of_its_context();
    copies_between_devices_need_no_access();
    sizes_do_not_wrap();
    no_copy_follows_a_wild_address();
    fills_of_columns_make_wider_patterns();
    functions_have_forms();
    devices_reach_host_memory();
    what_is_registered_is_there();
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
