/**
 * \file capture.c
 * \brief Streams whose work is captured: what the documents say that they do, and what they forbid. It runs unchanged
 *        on NVIDIA's library. "API" is the CUDA Driver API reference, by function.
 */
#include "check.h"

#include <pthread.h>

enum { SIZE = 4096 };

static CUstream stream, other;
static CUevent event;
static CUdeviceptr memory;

static void status_is(CUstream of, CUstreamCaptureStatus expected) {
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(of, &status));
    CHECK(status == expected);
}

/* Ends a capture, which answers this. A graph is there only where that is success. */
static size_t end(CUresult expected) {
    CUgraph graph = (CUgraph)&graph;
    size_t nodes = 0;
    GIVES(expected, cuStreamEndCapture(stream, &graph));
    CHECK(!graph == (expected != CUDA_SUCCESS));
    if (graph) {
        OK(cuGraphGetNodes(graph, NULL, &nodes));
        OK(cuGraphDestroy(graph));
    }
    status_is(stream, CU_STREAM_CAPTURE_STATUS_NONE);
    return nodes;
}

static void begin_capture(CUstreamCaptureMode mode) { OK(cuStreamBeginCapture(stream, mode)); }

/* API, cuStreamBeginCapture: "operations pushed into the stream will not be executed, but will instead be captured
 * into a graph". */
static void captured_work_is_not_done(void) {
    unsigned char bytes[SIZE];
    OK(cuMemsetD8(memory, 1, SIZE));
    OK(cuCtxSynchronize());
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    status_is(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    status_is(other, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuMemsetD8Async(memory, 2, SIZE, stream));
    OK(cuMemsetD8Async(memory, 3, SIZE, stream));
    CHECK(end(CUDA_SUCCESS) == 2);
    OK(cuMemcpyDtoH(bytes, memory, SIZE));
    CHECK(bytes[0] == 1 && bytes[SIZE - 1] == 1);
    /* "it may only be initiated if the stream is not already in capture mode"; not "if stream is CU_STREAM_LEGACY". */
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(end(CUDA_SUCCESS) == 0);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* API, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "the operation is not permitted when the stream is capturing"; after it
 * cuStreamEndCapture gives no graph. */
static void what_waits_for_a_capture_ends_it(void) {
    for (int which = 0; which < 2; ++which) {
        begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuMemsetD8Async(memory, 2, SIZE, stream));
        GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, which ? cuStreamSynchronize(stream) : cuStreamQuery(stream));
        status_is(stream, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(memory, 2, SIZE, stream));
        end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

/* API, CUDA_ERROR_CAPTURED_EVENT: "not permitted on an event which was last recorded in a capturing stream". */
static void captured_events_are_not_asked(void) {
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuEventRecord(event, stream));
    /* cuThreadExchangeStreamCaptureMode: RELAXED does not permit it either. */
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(event));
    CHECK(end(CUDA_SUCCESS) == 0);
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
}

/* API, cuStreamWaitEvent with an event of a capture brings the waiting stream into it; it has to be joined. */
static void streams_join_a_capture(void) {
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    status_is(other, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemsetD8Async(memory, 2, SIZE, other));
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(stream, event, 0));
    CHECK(end(CUDA_SUCCESS) == 1);
    status_is(other, CU_STREAM_CAPTURE_STATUS_NONE);
    for (int has_work = 0; has_work < 2; ++has_work) {
        begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuEventRecord(event, stream));
        OK(cuStreamWaitEvent(other, event, 0));
        OK(cuEventRecord(event, other));
        OK(cuStreamWaitEvent(stream, event, 0));
        if (has_work) {
            OK(cuMemsetD8Async(memory, 2, SIZE, other));
        }
        end(has_work ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS);
    }
    {
        /* CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: "the capture was not initiated in this stream". */
        CUgraph graph;
        begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuEventRecord(event, stream));
        OK(cuStreamWaitEvent(other, event, 0));
        GIVES(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(other, &graph));
        OK(cuEventRecord(event, other));
        OK(cuStreamWaitEvent(stream, event, 0));
        end(CUDA_SUCCESS);
    }
}

/* CUDA_ERROR_STREAM_CAPTURE_ISOLATION: a dependency "which crosses the capture sequence boundary". ..._MERGE: "would
 * have resulted in a merge of two independent capture sequences". */
static void captures_stay_apart(void) {
    CUgraph graph;
    OK(cuEventRecord(event, other));
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, event, 0));
    end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(event, other));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(stream, event, 0));
    end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(other, &graph));
}

/* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: "a disallowed implicit dependency on a current capture sequence from
 * cudaStreamLegacy", which blocking streams alone have. */
static void the_legacy_stream_cannot_wait_for_a_capture(void) {
    CUstream blocking;
    CUgraph graph;
    CUstreamCaptureStatus status;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemsetD8Async(memory, 4, SIZE, CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    end(CUDA_SUCCESS);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    /* API, cuStreamIsCapturing: asking does not end the capture. */
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
    status_is(blocking, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(memory, 5, SIZE, CU_STREAM_LEGACY));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &graph));
    OK(cuStreamDestroy(blocking));
}

/* What another thread does while this one captures. */
struct elsewhere {
    CUcontext context;
    CUstreamCaptureMode mode;
    CUresult allocated, ended;
};

static void *run_elsewhere(void *data) {
    struct elsewhere *told = data;
    CUdeviceptr there = 0;
    CUgraph graph;
    CUstreamCaptureMode mode = told->mode;
    OK(cuCtxSetCurrent(told->context));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    told->allocated = cuMemAlloc(&there, SIZE);
    if (there) {
        OK(cuMemFree(there));
    }
    told->ended = cuStreamEndCapture(stream, &graph);
    return NULL;
}

static struct elsewhere in_a_thread(CUcontext context, CUstreamCaptureMode mode) {
    struct elsewhere told = {context, mode, CUDA_SUCCESS, CUDA_SUCCESS};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, run_elsewhere, &told));
    CHECK(!pthread_join(thread, NULL));
    return told;
}

/* API, cuThreadExchangeStreamCaptureMode: which threads are "prohibited from potentially unsafe API calls", of which
 * an allocation is named. CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: not ended by the thread that began. */
static void unsafe_calls_are_forbidden(CUcontext context) {
    const CUresult no = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUdeviceptr own;
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; ++mode) {
        const int is_free = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        struct elsewhere told;
        begin_capture(mode);
        if (is_free) {
            OK(cuMemAlloc(&own, SIZE));
            OK(cuMemFree(own));
        } else {
            GIVES(no, cuMemAlloc(&own, SIZE));
        }
        end(is_free ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        for (int theirs = CU_STREAM_CAPTURE_MODE_GLOBAL; theirs <= CU_STREAM_CAPTURE_MODE_RELAXED; ++theirs) {
            const int is_hit = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && theirs == CU_STREAM_CAPTURE_MODE_GLOBAL;
            begin_capture(mode);
            told = in_a_thread(context, theirs);
            CHECK(told.allocated == (is_hit ? no : CUDA_SUCCESS));
            CHECK(told.ended == (is_free ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
            if (!is_free) {
                end(is_hit ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
            }
        }
    }
    {
        /* The thread's own mode: RELAXED permits them, and the capture goes on. */
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        begin_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        OK(cuMemAlloc(&own, SIZE));
        OK(cuMemFree(own));
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
        end(CUDA_SUCCESS);
    }
}

int main(void) {
    CUcontext primary = begin();
    CUgraph graph;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&memory, SIZE));
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    captured_work_is_not_done();
    what_waits_for_a_capture_ends_it();
    captured_events_are_not_asked();
    streams_join_a_capture();
    captures_stay_apart();
    the_legacy_stream_cannot_wait_for_a_capture();
    unsafe_calls_are_forbidden(primary);
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(memory));
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(other));
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}
