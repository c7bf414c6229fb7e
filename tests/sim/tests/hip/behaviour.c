/**
 * \file behaviour.c
 * \brief What the plugin and the checker lean on, through HIP's public functions alone. It runs unchanged on AMD's
 *        library, of HIP 6 or 7. Sources: "API" is the HIP runtime API reference, by function; "7.0" what changed with
 *        that version, as its notes say.
 */
#include "hip.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

static int version;

/* API, hipRuntimeGetVersion: major * 10000000 + minor * 100000 + patch. It needs no device. */
static void the_version_is_known(void) {
    OK(hipRuntimeGetVersion(&version));
    CHECK(version / 10000000 == 6 || version / 10000000 == 7);
    OK(hipInit(0));
    GIVES(hipErrorInvalidValue, hipInit(1));
}

/* API, hipGetLastError: the last error of the thread, which is forgotten. 7.0: a call that succeeds leaves it. */
static void errors_stay_with_the_thread(void) {
    const char *text = "";
    int device;
    CHECK(!strcmp(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory"));
    CHECK(strlen(hipGetErrorString(hipErrorOutOfMemory)) > 3);
    OK(hipDrvGetErrorName(hipErrorNotReady, &text));
    CHECK(!strcmp(text, "hipErrorNotReady"));
    (void)hipGetLastError();
    GIVES(hipErrorInvalidDevice, hipSetDevice(-1));
    GIVES(hipErrorInvalidDevice, hipPeekAtLastError());
    OK(hipGetDevice(&device));
    GIVES(version >= 70000000 ? hipErrorInvalidDevice : hipSuccess, hipGetLastError());
    OK(hipGetLastError());
}

/* API, "Device Management". */
static void devices_are_counted(void) {
    int count = 0, found;
    char name[64], pci[32], uuid[16], other[16];
    OK(hipGetDeviceCount(&count));
    CHECK(count > 0);
    GIVES(hipErrorInvalidDevice, hipSetDevice(count));
    for (int at = 0; at < count; ++at) {
        OK(hipDeviceGetName(name, sizeof name, at));
        CHECK(name[0]);
        OK(hipDeviceGetPCIBusId(pci, sizeof pci, at));
        OK(hipDeviceGetByPCIBusId(&found, pci));
        CHECK(found == at);
        OK(hipDeviceGetUuid(uuid, at));
        CHECK(!at || memcmp(uuid, other, sizeof uuid));
        memcpy(other, uuid, sizeof uuid);
    }
}

/* API, hipGetDeviceProperties: of HIP 5 under that name, and of HIP 6 under R0600, where the name is followed by the
   uuid. The sizes are those of the headers. */
static void properties_have_two_layouts(void) {
    unsigned char old[792 + 8], new[1472 + 8], uuid[16];
    size_t memory[2];
    memset(old, 0xAB, sizeof old);
    memset(new, 0xAB, sizeof new);
    OK(hipGetDeviceProperties(old, 0));
    OK(hipGetDevicePropertiesR0600(new, 0));
    for (int at = 0; at < 8; ++at) {
        CHECK(old[792 + at] == 0xAB && new[1472 + at] == 0xAB);
    }
    CHECK(old[0] && !strcmp((char *)old, (char *)new));
    memcpy(&memory[0], old + 256, sizeof(size_t));
    memcpy(&memory[1], new + 288, sizeof(size_t));
    CHECK(memory[0] == memory[1] && memory[0] > SIZE);
    OK(hipDeviceGetUuid(uuid, 0));
    CHECK(!memcmp(uuid, new + 256, 16));
    {
        void (*found)(void) = NULL, (*linked)(void) = (void (*)(void))hipGetDevicePropertiesR0600;
        int status = 7;
        OK(hipGetProcAddress("hipGetDeviceProperties", (void **)&found, 600, 0, &status));
        CHECK(status == 0 && found == linked);
        GIVES(hipErrorInvalidValue, hipGetProcAddress("hipNothing", (void **)&found, 600, 0, &status));
        CHECK(!found && status == 1);
    }
}

static void *of_another_thread(void *unused) {
    int device = -1;
    (void)unused;
    OK(hipGetDevice(&device));
    CHECK(device == 0);
    return NULL;
}

/* API, hipSetDevice: each thread has a device, 0 at first. */
static void threads_have_devices_of_their_own(void) {
    int count, device;
    pthread_t thread;
    OK(hipGetDeviceCount(&count));
    OK(hipSetDevice(count - 1));
    OK(hipGetDevice(&device));
    CHECK(device == count - 1);
    CHECK(!pthread_create(&thread, NULL, of_another_thread, NULL));
    CHECK(!pthread_join(thread, NULL));
    OK(hipSetDevice(0));
}

/* API, hipMalloc: "If size is 0, no memory is allocated, ptr return value is nullptr, and hipSuccess is returned." */
static void memory_is_allocated_and_freed(void) {
    void *memory = &memory, *base, *pinned;
    size_t before, after, all, size;
    OK(hipMalloc(&memory, 0));
    CHECK(!memory);
    OK(hipHostMalloc(&memory, 0, 0));
    CHECK(!memory);
    GIVES(hipErrorOutOfMemory, hipMalloc(&memory, SIZE_MAX / 2));
    OK(hipMemGetInfo(&before, &all));
    OK(hipMalloc(&memory, SIZE));
    CHECK((uintptr_t)memory % 256 == 0);
    OK(hipMemGetInfo(&after, &all));
    CHECK(after < before && before <= all);
    OK(hipMemGetAddressRange(&base, &size, (char *)memory + 100));
    CHECK(base == memory && size == SIZE);
    OK(hipFree(memory));
    OK(hipFree(NULL));
    OK(hipHostMalloc(&pinned, SIZE, 0));
    GIVES(hipErrorInvalidValue, hipFree(pinned));
    OK(hipHostFree(pinned));
}

/* API, hipPointerGetAttributes: what memory it is. Memory of nobody's is unregistered, and no error. */
static void addresses_have_attributes(void) {
    void *memory, *managed;
    char *pinned, own = 0;
    hipPointerAttribute_t told;
    OK(hipMalloc(&memory, SIZE));
    OK(hipHostMalloc((void **)&pinned, SIZE, 0));
    OK(hipMallocManaged(&managed, SIZE, hipMemAttachGlobal));
    OK(hipPointerGetAttributes(&told, (char *)memory + 5));
    CHECK(told.type == hipMemoryTypeDevice && told.device == 0 && told.devicePointer == (char *)memory + 5);
    CHECK(!told.isManaged);
    OK(hipPointerGetAttributes(&told, pinned + 9));
    CHECK(told.type == hipMemoryTypeHost && told.hostPointer == pinned + 9);
    OK(hipPointerGetAttributes(&told, managed));
    CHECK(told.type == hipMemoryTypeManaged && told.isManaged == 1);
    OK(hipPointerGetAttributes(&told, &own));
    CHECK(told.type == hipMemoryTypeUnregistered && told.device == -2);
    GIVES(hipErrorInvalidValue, hipPointerGetAttributes(&told, NULL));
    {
        /* A size has 32 bits here; an address of nobody's is zeros and success, and NULL is refused. */
        uint32_t size[2] = {7, 7};
        int asked[] = {HIP_POINTER_ATTRIBUTE_RANGE_SIZE};
        void *values[] = {size};
        OK(hipDrvPointerGetAttributes(1, asked, values, memory));
        CHECK(size[0] == SIZE && size[1] == 7);
        OK(hipDrvPointerGetAttributes(1, asked, values, &own));
        CHECK(size[0] == 0 && size[1] == 7);
        GIVES(hipErrorInvalidValue, hipDrvPointerGetAttributes(1, asked, values, NULL));
    }
    OK(hipFree(managed));
    OK(hipHostFree(pinned));
    OK(hipFree(memory));
}

/* API, hipHostRegister. */
static void host_memory_is_registered(void) {
    char *own = aligned_alloc(4096, SIZE);
    void *seen;
    hipPointerAttribute_t told;
    OK(hipHostRegister(own, SIZE, 0));
    /* Where there is no memory, none is registered. */
    GIVES(hipErrorInvalidValue, hipHostRegister((void *)8, 8, 0));
    OK(hipPointerGetAttributes(&told, own + 7));
    CHECK(told.type == hipMemoryTypeHost);
    OK(hipHostGetDevicePointer(&seen, own, 0));
    CHECK(seen);
    OK(hipHostUnregister(own));
    OK(hipPointerGetAttributes(&told, own));
    CHECK(told.type == hipMemoryTypeUnregistered);
    free(own);
}

/* API, hipMemcpy and its kin: over when the call returns. */
static void copies_bring_bytes(void) {
    static unsigned char there[SIZE], back[SIZE];
    void *one, *other;
    hipStream_t stream;
    for (size_t at = 0; at < SIZE; ++at) {
        there[at] = (unsigned char)(at * 7 + at / 256);
    }
    OK(hipMalloc(&one, SIZE));
    OK(hipMalloc(&other, SIZE));
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipMemcpy(one, there, SIZE, hipMemcpyHostToDevice));
    OK(hipMemcpy(other, one, SIZE, hipMemcpyDeviceToDevice));
    OK(hipMemcpy(back, other, SIZE, hipMemcpyDefault));
    CHECK(!memcmp(there, back, SIZE));
    GIVES(hipErrorInvalidMemcpyDirection, hipMemcpy(back, other, SIZE, 9));
    memset(back, 0, SIZE);
    OK(hipMemcpyAsync(back, other, SIZE, hipMemcpyDeviceToHost, stream));
    OK(hipStreamSynchronize(stream));
    CHECK(!memcmp(there, back, SIZE));
    /* A part of 30 by 20 bytes, in rows of 256 and of 100. */
    memset(back, 0, SIZE);
    OK(hipMemcpy2D(back, 100, (char *)other + 2 * 256 + 3, 256, 30, 20, hipMemcpyDeviceToHost));
    for (size_t y = 0; y < 20; ++y) {
        CHECK(!memcmp(back + y * 100, there + (y + 2) * 256 + 3, 30));
        CHECK(back[y * 100 + 30] == 0);
    }
    {
        /* Two planes of it, in planes of 32 and of 20 rows. */
        hipMemcpy3DParms planes = {0};
        planes.srcPtr = (hipPitchedPtr){other, 256, 256, 32};
        planes.srcPos[0] = 3, planes.srcPos[1] = 2;
        planes.dstPtr = (hipPitchedPtr){back, 100, 100, 20};
        planes.extent[0] = 30, planes.extent[1] = 20, planes.extent[2] = 2;
        planes.kind = hipMemcpyDeviceToHost;
        memset(back, 0, SIZE);
        OK(hipMemcpy3D(&planes));
        CHECK(!memcmp(back + 19 * 100, there + 21 * 256 + 3, 30));
        CHECK(!memcmp(back + (20 + 5) * 100, there + (32 + 7) * 256 + 3, 30));
    }
    OK(hipStreamDestroy(stream));
    OK(hipFree(one));
    OK(hipFree(other));
}

/* API, hipMemset and its kin. */
static void fills_repeat_a_value(void) {
    static uint32_t back[64];
    char *memory;
    OK(hipMalloc((void **)&memory, SIZE));
    OK(hipMemsetD32(memory, 0x01020304, 64));
    OK(hipMemset(memory, 9, 1));
    OK(hipMemcpy(back, memory, sizeof back, hipMemcpyDeviceToHost));
    CHECK(back[0] == 0x01020309 && back[63] == 0x01020304);
    OK(hipMemset2D(memory, 16, 5, 1, 4));
    OK(hipMemcpy(back, memory, sizeof back, hipMemcpyDeviceToHost));
    CHECK(back[4] == 0x01020305 && back[5] == 0x01020304 && back[16] == 0x01020304);
    OK(hipFree(memory));
}

/* API, hipStreamWaitEvent, hipEventQuery, hipEventElapsedTime. */
static void events_order_streams(void) {
    char *memory, *pinned, back = 0;
    hipStream_t one, other;
    hipEvent_t event, timed;
    float milliseconds;
    OK(hipMalloc((void **)&memory, SIZE));
    OK(hipHostMalloc((void **)&pinned, SIZE, 0));
    OK(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    OK(hipEventCreate(&timed));
    OK(hipEventRecord(timed, one));
    memset(pinned, 3, SIZE);
    OK(hipMemcpyAsync(memory, pinned, SIZE, hipMemcpyHostToDevice, one));
    OK(hipEventRecord(event, one));
    OK(hipStreamWaitEvent(other, event, 0));
    OK(hipMemsetAsync(memory + SIZE - 1, 4, 1, other));
    OK(hipStreamSynchronize(other));
    OK(hipEventQuery(event));
    OK(hipMemcpy(&back, memory + SIZE - 1, 1, hipMemcpyDeviceToHost));
    CHECK(back == 4);
    GIVES(hipErrorInvalidHandle, hipEventElapsedTime(&milliseconds, timed, event));
    OK(hipStreamDestroy(one));
    OK(hipStreamDestroy(other));
    OK(hipEventDestroy(event));
    OK(hipEventDestroy(timed));
    OK(hipHostFree(pinned));
    OK(hipFree(memory));
}

/* API, "Stream Management": the null stream (0) waits for all blocking streams, and they for it. */
static void the_null_stream_is_a_barrier(void) {
    char *memory, back[3];
    hipStream_t one, other;
    OK(hipMalloc((void **)&memory, SIZE));
    OK(hipStreamCreate(&one));
    OK(hipStreamCreate(&other));
    OK(hipMemsetAsync(memory, 1, SIZE, one));
    OK(hipMemsetAsync(memory, 2, SIZE - 1, NULL));
    OK(hipMemsetAsync(memory, 3, 1, other));
    OK(hipMemcpyAsync(back, memory, 1, hipMemcpyDeviceToHost, other));
    OK(hipMemcpy(back + 1, memory + 1, 1, hipMemcpyDeviceToHost));
    OK(hipMemcpy(back + 2, memory + SIZE - 1, 1, hipMemcpyDeviceToHost));
    CHECK(back[0] == 3 && back[1] == 2 && back[2] == 1);
    OK(hipStreamDestroy(one));
    OK(hipStreamDestroy(other));
    OK(hipFree(memory));
}

static void count(void *counter) { ++*(int *)counter; }

/* API, hipLaunchHostFunc. */
static void host_functions_are_in_order(void) {
    hipStream_t stream;
    int counter = 0;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (int at = 0; at < 10; ++at) {
        OK(hipLaunchHostFunc(stream, count, &counter));
    }
    OK(hipStreamSynchronize(stream));
    CHECK(counter == 10);
    GIVES(hipErrorInvalidValue, hipLaunchHostFunc(stream, NULL, NULL));
    OK(hipStreamDestroy(stream));
}

/* API, hipStreamWaitValue32: for pinned memory, and for signal memory of 8 bytes. */
static void streams_wait_for_words(void) {
    hipStream_t stream, other;
    uint32_t *word, *signal, *memory, *back;
    OK(hipHostMalloc((void **)&word, 4, 0));
    *word = 0;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipStreamWaitValue32(stream, word, 1, hipStreamWaitValueEq, UINT32_MAX));
    /* 7.0: pending work is no error. */
    GIVES(hipErrorInvalidDevice, hipSetDevice(-1));
    GIVES(hipErrorNotReady, hipStreamQuery(stream));
    GIVES(version >= 70000000 ? hipErrorInvalidDevice : hipErrorNotReady, hipGetLastError());
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(stream));
    OK(hipStreamWriteValue32(stream, word, 2, 0));
    OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    OK(hipStreamWaitValue32(other, word, 2, hipStreamWaitValueGte, UINT32_MAX));
    OK(hipStreamSynchronize(other));
    CHECK(*word == 2);
    /* Also one that a stream wrote before, to the same value: what the host waited for until then comes before. */
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    OK(hipMalloc((void **)&memory, 4));
    OK(hipHostMalloc((void **)&back, 4, 0));
    OK(hipMemsetAsync(memory, 7, 4, stream));
    OK(hipStreamWaitValue32(other, word, 2, hipStreamWaitValueEq, UINT32_MAX));
    OK(hipMemcpyAsync(back, memory, 4, hipMemcpyDeviceToHost, other));
    OK(hipStreamSynchronize(stream));
    __atomic_store_n(word, 2, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(other));
    CHECK(*back == 0x07070707);
    OK(hipFree(memory));
    OK(hipHostFree(back));
    GIVES(hipErrorInvalidValue, hipExtMallocWithFlags((void **)&signal, 16, hipMallocSignalMemory));
    OK(hipExtMallocWithFlags((void **)&signal, 8, hipMallocSignalMemory));
    OK(hipStreamWriteValue32(stream, signal, 5, 0));
    OK(hipStreamWaitValue32(stream, signal, 5, hipStreamWaitValueGte, UINT32_MAX));
    OK(hipStreamSynchronize(stream));
    OK(hipStreamDestroy(stream));
    OK(hipStreamDestroy(other));
    OK(hipFree(signal));
    OK(hipHostFree(word));
}

/* API, "Stream Ordered Memory Allocator". */
static void pools_give_memory_in_order(void) {
    hipMemPool_t pool, own;
    hipMemPoolProps properties = {.allocType = 1, .locationType = 1};
    char *memory, back = 0;
    hipStream_t stream;
    uint64_t threshold = UINT64_MAX;
    OK(hipDeviceGetDefaultMemPool(&pool, 0));
    OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
    threshold = 0;
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
    CHECK(threshold == UINT64_MAX);
    OK(hipMemPoolCreate(&own, &properties));
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipMallocAsync((void **)&memory, SIZE, stream));
    OK(hipMemsetAsync(memory, 6, SIZE, stream));
    OK(hipMemcpyAsync(&back, memory + 9, 1, hipMemcpyDeviceToHost, stream));
    OK(hipFreeAsync(memory, stream));
    OK(hipStreamSynchronize(stream));
    CHECK(back == 6);
    OK(hipMallocFromPoolAsync((void **)&memory, SIZE, own, stream));
    OK(hipFreeAsync(memory, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipMemPoolTrimTo(own, 0));
    OK(hipMemPoolDestroy(own));
    OK(hipStreamDestroy(stream));
}

/* API, "Peer to Peer Device Memory Access"; hipStreamGetDevice; an event is of its device's streams. */
static void devices_are_apart(void) {
    int count, can, device;
    hipStream_t there;
    hipEvent_t here;
    OK(hipGetDeviceCount(&count));
    if (count < 2) {
        return;
    }
    GIVES(hipErrorInvalidDevice, hipDeviceEnablePeerAccess(0, 0));
    OK(hipDeviceCanAccessPeer(&can, 0, 1));
    if (can) {
        OK(hipDeviceEnablePeerAccess(1, 0));
        GIVES(hipErrorPeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1, 0));
        OK(hipDeviceDisablePeerAccess(1));
        GIVES(hipErrorPeerAccessNotEnabled, hipDeviceDisablePeerAccess(1));
    }
    OK(hipEventCreateWithFlags(&here, hipEventDisableTiming));
    OK(hipSetDevice(1));
    OK(hipStreamCreateWithFlags(&there, hipStreamNonBlocking));
    OK(hipSetDevice(0));
    OK(hipStreamGetDevice(there, &device));
    CHECK(device == 1 && hipGetStreamDeviceId(there) == 1);
    GIVES(hipErrorInvalidHandle, hipEventRecord(here, there));
    OK(hipStreamDestroy(there));
    OK(hipEventDestroy(here));
}

/* Whoever was forked off has no runtime. */
static void a_forked_child_has_no_runtime(void) {
    int ended;
    pid_t child = fork();
    if (child == 0) {
        int count;
        _exit(hipGetDeviceCount(&count) == hipErrorNotInitialized ? 0 : 1);
    }
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
}

int main(void) {
    the_version_is_known();
    errors_stay_with_the_thread();
    devices_are_counted();
    properties_have_two_layouts();
    threads_have_devices_of_their_own();
    memory_is_allocated_and_freed();
    addresses_have_attributes();
    host_memory_is_registered();
    copies_bring_bytes();
    fills_repeat_a_value();
    events_order_streams();
    the_null_stream_is_a_barrier();
    host_functions_are_in_order();
    streams_wait_for_words();
    pools_give_memory_in_order();
    devices_are_apart();
    a_forked_child_has_no_runtime();
    return 0;
}
