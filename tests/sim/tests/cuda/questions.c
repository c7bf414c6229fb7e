/**
 * \file questions.c
 * \brief What NVIDIA's documents leave open, asked of the driver: a line for each question with its answer, separated by
 *        a tab. The words are those of the table in docs/gpu.md, which says what the simulator answers. Each question
 *        is asked in a process of its own, so that one that crashes or hangs leaves the others.
 */
#include "gate.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { SIZE = 1 << 16, STREAMS = 64, SECONDS = 20 };

static CUcontext context;
static CUstream stream, other;
static CUdeviceptr memory;
static unsigned char *pinned, pageable[SIZE];

static const char *name_of(CUresult code) {
    const char *name = "an unknown number";
    cuGetErrorName(code, &name);
    return name;
}

static const char *whether(int is, const char *yes, const char *no) { return is ? yes : no; }

/* Whether it becomes so within two seconds; where the GPU does nothing that takes as long. */
#define SOON(condition)                                                                                                \
    ({                                                                                                                 \
        int rounds = 0;                                                                                                \
        while (!(condition) && rounds++ < 200) {                                                                       \
            usleep(10000);                                                                                             \
        }                                                                                                              \
        rounds <= 200;                                                                                                 \
    })

/* Whether a call comes back only behind another stream's work. The gate is opened late by a thread. */
#define IS_HELD(gate, call)                                                                                            \
    ({                                                                                                                 \
        close_stream(&(gate), other);                                                                                  \
        CHECK(!pthread_create(&(gate).opener, NULL, opens_late, &(gate)));                                             \
        OK(call);                                                                                                      \
        int held = is_open(&(gate));                                                                                   \
        CHECK(!pthread_join((gate).opener, NULL));                                                                     \
        OK(cuStreamSynchronize(other));                                                                                \
        held;                                                                                                          \
    })

static const char *a_function_that_is_not_there(void) {
    void *found;
    CUdriverProcAddressQueryResult why;
    return name_of(cuGetProcAddress("cuNoSuchFunction", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &why));
}

static const char *frees_beside_work(void) {
    struct gate gate = GATE;
    CUdeviceptr more;
    void *locked;
    OK(cuMemAlloc(&more, SIZE));
    OK(cuMemHostAlloc(&locked, SIZE, 0));
    int waits = IS_HELD(gate, cuMemFree(more));
    waits |= IS_HELD(gate, cuMemFreeHost(locked)) << 1;
    const char *answers[] = {"neither waits for other streams", "cuMemFree waits for the whole device",
                             "cuMemFreeHost waits for the whole device", "both wait for the whole device"};
    return answers[waits];
}

static const char *uploads_of_pageable_memory(void) {
    struct gate gate = GATE;
    close_stream(&gate, stream);
    CHECK(!pthread_create(&gate.opener, NULL, opens_late, &gate));
    OK(cuMemcpyHtoDAsync(memory, pageable, SIZE, stream));
    int held = is_open(&gate);
    CHECK(!pthread_join(gate.opener, NULL));
    return whether(held, "behind the stream's earlier work", "before the stream's earlier work is over");
}

static const char *the_legacy_stream_is_asked(void) {
    struct gate gate = GATE;
    CUstream blocking;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    close_stream(&gate, blocking);
    CUresult answer = cuStreamQuery(CU_STREAM_LEGACY);
    open_gate(&gate);
    OK(cuStreamSynchronize(blocking));
    return whether(answer == CUDA_ERROR_NOT_READY, "it does", "it does not");
}

static const char *managed_memory_is_asked(void) {
    CUdeviceptr managed;
    CUmemorytype type = 0;
    OK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed));
    return whether(type == CU_MEMORYTYPE_DEVICE, "device",
                   whether(type == CU_MEMORYTYPE_HOST, "host", "neither host nor device"));
}

static const char *nothing_is_allocated_on_a_stream(void) {
    CUdeviceptr nothing;
    return name_of(cuMemAllocAsync(&nothing, 0, stream));
}

static const char *registrations_overlap(void) {
    char *page = aligned_alloc(4096, 8 * 4096);
    OK(cuMemHostRegister(page, 4 * 4096, 0));
    return name_of(cuMemHostRegister(page + 2 * 4096, 4 * 4096, 0));
}

static const char *a_full_context_is_destroyed(void) {
    CUcontext made;
    CUdeviceptr inside;
    CUdevice device;
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&made, 0, device));
    OK(cuMemAlloc(&inside, SIZE));
    return whether(!cuCtxDestroy(made), "it ends them", "it is an error");
}

static const char *a_waiting_stream_is_asked(void) {
    CUdeviceptr word;
    *(volatile uint32_t *)pinned = 0;
    OK(cuMemHostGetDevicePointer(&word, pinned, 0));
    OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    CUresult answer = cuStreamQuery(stream);
    *(volatile uint32_t *)pinned = 1;
    OK(cuStreamSynchronize(stream));
    return whether(answer == CUDA_ERROR_NOT_READY, "it is", "it is not");
}

static const char *a_child_calls(void) {
    int answers[2], told = -1;
    CHECK(!pipe(answers));
    if (!fork()) {
        CUdeviceptr more;
        int answer = cuMemAlloc(&more, SIZE);
        _exit(write(answers[1], &answer, sizeof answer) != sizeof answer);
    }
    close(answers[1]);
    CHECK(read(answers[0], &told, sizeof told) == sizeof told);
    return name_of(told);
}

static const char *a_forbidden_call_in_a_capture(void) {
    CUdeviceptr more;
    CUstreamCaptureStatus status;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUresult answer = cuMemAlloc(&more, SIZE);
    OK(cuStreamIsCapturing(stream, &status));
    if (!answer) {
        return "allocation is not forbidden";
    }
    return whether(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED, "it does", "it does not");
}

static const char *a_capture_waits_for_no_record(void) {
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult answer = cuStreamWaitEvent(stream, event, 0);
    return answer ? name_of(answer) : "it may, and waits for nothing";
}

static const char *a_captured_event_is_awaited(void) {
    CUevent event;
    CUgraph graph;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return name_of(cuStreamWaitEvent(other, event, 0));
}

static const char *a_stream_joined_and_did_nothing(void) {
    CUevent event;
    CUgraph graph;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    return whether(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "it has to",
                   "it has not to");
}

static const char *a_handle_is_opened_where_it_was_made(void) {
    CUipcMemHandle handle;
    CUdeviceptr opened;
    OK(cuIpcGetMemHandle(&handle, memory));
    return name_of(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static const char *a_handle_of_an_inside(void) {
    CUipcMemHandle handle;
    CUresult answer = cuIpcGetMemHandle(&handle, memory + 512);
    return answer ? name_of(answer) : "it does, for the whole allocation";
}

static const char *the_context_of_a_pools_memory(void) {
    CUdeviceptr pooled;
    CUcontext told = NULL;
    OK(cuMemAllocAsync(&pooled, SIZE, stream));
    CUresult answer = cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, pooled);
    return answer ? name_of(answer) : whether(told == context, "the primary one", whether(!told, "none", "another"));
}

static const char *memory_that_a_pool_keeps(void) {
    enum { LARGE = 256 << 20 };
    CUmemoryPool pool;
    CUdeviceptr large;
    CUdevice device;
    cuuint64_t all = UINT64_MAX;
    size_t before, after, total;
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemGetInfo(&before, &total));
    OK(cuMemAllocAsync(&large, LARGE, stream));
    OK(cuMemFreeAsync(large, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo(&after, &total));
    return whether(before - after >= LARGE, "it is not", "it is");
}

static CUresult in_a_host_function[2];
static void CUDA_CB call_the_driver(void *unused) {
    size_t unwritten, total;
    (void)unused;
    in_a_host_function[0] = cuMemGetInfo(&unwritten, &total);
    in_a_host_function[1] = cuStreamQuery(other);
}

static const char *host_functions_call_the_driver(void) {
    static char answers[2 * 64];
    OK(cuLaunchHostFunc(stream, call_the_driver, NULL));
    OK(cuStreamSynchronize(stream));
    snprintf(answers, sizeof answers, "%s of memory, %s of a stream", name_of(in_a_host_function[0]),
             name_of(in_a_host_function[1]));
    return answers;
}

static const char *flags_of_registered_memory(void) {
    char *page = aligned_alloc(4096, 4096);
    unsigned flags;
    OK(cuMemHostRegister(page, 4096, 0));
    CUresult answer = cuMemHostGetFlags(&flags, page);
    return answer ? name_of(answer) : "its flags; the documents have it fail";
}

static void CUDA_CB set(void *word) { __atomic_store_n((int *)word, 1, __ATOMIC_SEQ_CST); }

/* One stream stands in a host function that waits. */
static const char *host_functions_beside_one_that_waits(void) {
    struct gate gate = GATE;
    static int was_called;
    close_stream(&gate, stream);
    OK(cuLaunchHostFunc(other, set, &was_called));
    int beside = SOON(__atomic_load_n(&was_called, __ATOMIC_SEQ_CST));
    open_gate(&gate);
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(stream));
    return whether(beside, "it does", "it does not: host functions of a device take turns");
}

static int are_done(const CUstream *streams, int count) {
    int done = 0;
    for (int at = 0; at < count; ++at) {
        done += !cuStreamQuery(streams[at]);
    }
    return done;
}

/* One stream waits for a word; each of the others fills a byte. */
static const char *streams_beside_one_that_waits(void) {
    static char answer[64];
    CUstream streams[STREAMS];
    CUdeviceptr word;
    int done = 0, at;
    *(volatile uint32_t *)pinned = 0;
    OK(cuMemHostGetDevicePointer(&word, pinned, 0));
    for (at = 0; at < STREAMS; ++at) {
        OK(cuStreamCreate(&streams[at], CU_STREAM_NON_BLOCKING));
    }
    OK(cuStreamWaitValue32(streams[0], word, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (at = 1; at < STREAMS; ++at) {
        OK(cuMemsetD8Async(memory + at, 7, 1, streams[at]));
    }
    (void)SOON((done = are_done(streams + 1, STREAMS - 1)) == STREAMS - 1);
    *(volatile uint32_t *)pinned = 1;
    for (at = 0; at < STREAMS; ++at) {
        OK(cuStreamSynchronize(streams[at]));
    }
    snprintf(answer, sizeof answer, "%d of %d", done, STREAMS - 1);
    return answer;
}

/* The word is written by another stream, to which the write was given later: as ROCm/rocm-systems PR 9249 has it. */
static const char *a_word_is_written_by_later_work(void) {
    static char answer[64];
    CUstream streams[STREAMS];
    CUdeviceptr word;
    int passed = 0, at;
    OK(cuMemHostGetDevicePointer(&word, pinned, 0));
    for (at = 0; at < STREAMS; ++at) {
        OK(cuStreamCreate(&streams[at], CU_STREAM_NON_BLOCKING));
    }
    for (at = 1; at < STREAMS; ++at) {
        *(volatile uint32_t *)pinned = 0;
        OK(cuStreamWaitValue32(streams[0], word, 1, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuStreamWriteValue32(streams[at], word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        if (!SOON(!cuStreamQuery(streams[0]))) {
            *(volatile uint32_t *)pinned = 1;
            break;
        }
        ++passed;
    }
    snprintf(answer, sizeof answer, "by %d streams of %d before one stands still", passed, STREAMS - 1);
    return passed == STREAMS - 1 ? "by each of 63 streams" : answer;
}

static const char *a_word_is_written_without_a_barrier(void) {
    return name_of(cuStreamWriteValue32(stream, memory, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
}

static const char *a_stream_of_a_context_that_is_not_current(void) {
    CUcontext made;
    CUdevice device;
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&made, 0, device));
    static int was_called;
    return name_of(cuLaunchHostFunc(stream, set, &was_called));
}

static const struct {
    const char *question;
    const char *(*ask)(void);
} QUESTIONS[] = {
    {"what `cuGetProcAddress_v2` returns where `symbolStatus` says why a function was not found",
     a_function_that_is_not_there},
    {"whether `cuMemFree` (\"may perform implicit synchronization\") and `cuMemFreeHost` wait for other streams",
     frees_beside_work},
    {"when a pageable `cuMemcpyHtoDAsync` returns", uploads_of_pageable_memory},
    {"whether `cuStreamQuery` of the legacy default stream counts the blocking streams that it would wait for",
     the_legacy_stream_is_asked},
    {"what `cuPointerGetAttribute` says of memory type for managed memory", managed_memory_is_asked},
    {"what a 0 byte `cuMemAllocAsync` answers", nothing_is_allocated_on_a_stream},
    {"what a registered range says that overlaps a registered one", registrations_overlap},
    {"whether destroying a context with live objects is an error", a_full_context_is_destroyed},
    {"whether a stream that waits for an unwritten word is not ready for `cuStreamQuery`", a_waiting_stream_is_asked},
    {"what calls answer in a child of a fork", a_child_calls},
    {"whether a forbidden call ends the captures that forbid it", a_forbidden_call_in_a_capture},
    {"whether a capturing stream may wait for an event that was never recorded", a_capture_waits_for_no_record},
    {"what a wait for a captured event answers once its capture has ended", a_captured_event_is_awaited},
    {"whether a stream that joined a capture and got no work has to be joined back", a_stream_joined_and_did_nothing},
    {"what opening an IPC handle answers in the process that made it", a_handle_is_opened_where_it_was_made},
    {"whether `cuIpcGetMemHandle` takes an address inside of an allocation", a_handle_of_an_inside},
    {"what context `cuPointerGetAttribute` says of a pool's memory", the_context_of_a_pools_memory},
    {"whether memory that a pool keeps is free for `cuMemGetInfo`", memory_that_a_pool_keeps},
    {"what calls answer in a host function (\"not required\")", host_functions_call_the_driver},
    {"what `cuLaunchHostFunc` answers for a stream of a context that is not current",
     a_stream_of_a_context_that_is_not_current},
    {"what `cuMemHostGetFlags` answers for registered memory", flags_of_registered_memory},
    {"whether a host function runs while one of another stream waits", host_functions_beside_one_that_waits},
    {"how many of 63 streams go on while one waits for a word", streams_beside_one_that_waits},
    {"whether a word that a stream waits for can be written by another stream's later work",
     a_word_is_written_by_later_work},
    {"what `cuStreamWriteValue32` answers to NO_MEMORY_BARRIER (\"not supported in the v2 API\")",
     a_word_is_written_without_a_barrier},
};

static void ask(int at) {
    context = begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, SIZE));
    OK(cuMemHostAlloc((void **)&pinned, SIZE, CU_MEMHOSTALLOC_DEVICEMAP));
    printf("%s\t%s\n", QUESTIONS[at].question, QUESTIONS[at].ask());
    fflush(stdout);
    /* Some leave a capture or a context behind, which nobody needs to see the end of. */
    _exit(0);
}

int main(void) {
    for (size_t at = 0; at < sizeof QUESTIONS / sizeof *QUESTIONS; ++at) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            alarm(SECONDS);
            ask((int)at);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status) || WEXITSTATUS(status)) {
            int is_late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
            printf("%s\t%s\n", QUESTIONS[at].question, is_late ? "it hangs" : "the program that asks fails");
            fflush(stdout);
        }
    }
    return 0;
}
