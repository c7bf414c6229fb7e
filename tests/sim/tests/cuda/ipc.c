/**
 * \file ipc.c
 * \brief Memory between processes, as the documents say it. It runs unchanged on NVIDIA's library. "API" is the CUDA
 *        Driver API reference, by function. The children are made before the driver is initialised, and each
 *        initialises its own.
 */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16, PART = 5000 };

/* Between a child and its parent. */
static int to_child[2], to_parent[2];

static void tell(int to, const void *bytes, size_t size) { CHECK(write(to, bytes, size) == (ssize_t)size); }
static void hear(int from, void *bytes, size_t size) { CHECK(read(from, bytes, size) == (ssize_t)size); }

static void meet(int to, int from) {
    char word = 'x';
    tell(to, &word, 1);
    hear(from, &word, 1);
}

static int all_are(CUdeviceptr memory, unsigned char value) {
    static unsigned char bytes[PART];
    OK(cuMemcpyDtoH(bytes, memory, PART));
    for (int at = 0; at < PART; ++at) {
        if (bytes[at] != value) {
            return 0;
        }
    }
    return 1;
}

/* The other process. */
static void imports(void) {
    CUipcMemHandle handle, other, gone;
    CUdeviceptr memory, again, second, base;
    CUcontext context = begin(), owner;
    size_t size;
    hear(to_child[0], &handle, sizeof handle);
    hear(to_child[0], &other, sizeof other);
    hear(to_child[0], &gone, sizeof gone);
    /* API, cuIpcOpenMemHandle: flags "must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS". */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&memory, handle, 0));
    OK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(all_are(memory, 7));
    /* API, cuMemGetAddressRange: the allocation that an address is in. */
    OK(cuMemGetAddressRange(&base, &size, memory + 10));
    CHECK(base == memory && size >= PART);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    CHECK(owner == context);
    /* "If the memory handle has already been opened by the current context, the reference count on the handle is
       incremented by 1 and the existing device pointer is returned." */
    OK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(again == memory);
    OK(cuIpcOpenMemHandle(&second, other, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(second != memory && all_are(second, 8));
    OK(cuMemsetD8(second, 9, PART));
    OK(cuCtxSynchronize());
    meet(to_parent[1], to_child[0]);
    /* What the other process wrote meanwhile is there: it is the same memory. */
    CHECK(all_are(memory, 10));
    /* API, cuIpcCloseMemHandle: "Decrements the reference count"; "When the reference count reaches 0, this API unmaps
       the memory." */
    OK(cuIpcCloseMemHandle(memory));
    CHECK(all_are(memory, 10));
    OK(cuIpcCloseMemHandle(memory));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(memory));
    /* A handle of memory that was freed opens nothing. */
    CHECK(cuIpcOpenMemHandle(&memory, gone, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    OK(cuMemAlloc(&again, PART));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(again));
    OK(cuMemFree(again));
    /* "The original allocation in the exporting process ... will be unaffected", also where nobody closes. */
    meet(to_parent[1], to_child[0]);
    raise(SIGKILL);
}

/* Exports by API, cuIpcGetMemHandle: of "an existing device memory allocation created with cuMemAlloc". */
static void what_can_be_exported(CUdeviceptr memory) {
    CUipcMemHandle handle;
    CUdeviceptr managed, pooled;
    void *pinned;
    unsigned char can = 7;
    OK(cuPointerGetAttribute(&can, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory));
    CHECK(can == 1);
    OK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, managed));
    OK(cuMemFree(managed));
    OK(cuMemAllocHost(&pinned, SIZE));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, (CUdeviceptr)pinned));
    OK(cuMemFreeHost(pinned));
    OK(cuMemAllocAsync(&pooled, SIZE, CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuPointerGetAttribute(&can, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pooled));
    CHECK(can == 0);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, pooled));
    OK(cuMemFreeAsync(pooled, CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
}

static void exports(pid_t child) {
    CUipcMemHandle handle, again, other, gone;
    CUdeviceptr memory, second, opened, lost;
    int ended;
    begin();
    OK(cuMemAlloc(&memory, PART));
    OK(cuMemAlloc(&second, SIZE));
    OK(cuMemAlloc(&lost, SIZE));
    what_can_be_exported(memory);
    OK(cuMemsetD8(memory, 7, PART));
    OK(cuMemsetD8(second, 8, SIZE));
    OK(cuCtxSynchronize());
    /* "may be called multiple times on an allocation without adverse effects". */
    OK(cuIpcGetMemHandle(&again, memory));
    OK(cuIpcGetMemHandle(&handle, memory));
    OK(cuIpcGetMemHandle(&other, second));
    OK(cuIpcGetMemHandle(&gone, lost));
    CHECK(sizeof handle == 64 && memcmp(&handle, &other, sizeof handle));
    OK(cuMemFree(lost));
    /* "Maps memory exported from another process"; CUDA_ERROR_INVALID_CONTEXT is among its answers. */
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    tell(to_child[1], &handle, sizeof handle);
    tell(to_child[1], &other, sizeof other);
    tell(to_child[1], &gone, sizeof gone);
    {
        char word;
        hear(to_parent[0], &word, 1);
        CHECK(all_are(second, 9) && all_are(memory, 7));
        OK(cuMemsetD8(memory, 10, PART));
        OK(cuCtxSynchronize());
        tell(to_child[1], &word, 1);
    }
    meet(to_child[1], to_parent[0]);
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    CHECK(all_are(second, 9) && all_are(memory, 10));
    OK(cuMemFree(memory));
    /* "a subsequent call to cuMemAlloc returns memory with the same device address, cuIpcGetMemHandle will return a
       unique handle for the new memory". */
    OK(cuMemAlloc(&memory, PART));
    OK(cuIpcGetMemHandle(&again, memory));
    CHECK(memcmp(&again, &handle, sizeof handle));
    OK(cuMemFree(memory));
    OK(cuMemFree(second));
    OK(cuDevicePrimaryCtxRelease(0));
}

int main(void) {
    pid_t child;
    CHECK(!pipe(to_child) && !pipe(to_parent));
    child = fork();
    CHECK(child >= 0);
    if (child) {
        exports(child);
    } else {
        imports();
    }
    return 0;
}
