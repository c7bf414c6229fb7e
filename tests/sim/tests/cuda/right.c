/**
 * \file right.c
 * \brief Random programs that keep the rules: `right FIRST COUNT` runs those with COUNT seeds from FIRST on. Each
 *        works on buffers by several streams, lets a stream wait for the last work on what it uses, and compares
 *        every byte with what the same steps make of an array.
 */
#include "check.h"

enum { STREAMS = 4, BUFFERS = 5, SIZE = 256, STEPS = 24 };

static uint64_t state;

static unsigned below(unsigned limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % limit;
}

static CUstream streams[STREAMS];
/* The end of the last work on each buffer, and whose it was: its stream, or none of them. */
static CUevent last[BUFFERS];
static int user[BUFFERS];

static void come_behind(int stream, int buffer) {
    if (user[buffer] >= 0 && user[buffer] != stream) {
        OK(cuStreamWaitEvent(streams[stream], last[buffer], 0));
    }
}

static void used(int stream, int buffer) {
    OK(cuEventRecord(last[buffer], streams[stream]));
    user[buffer] = stream;
}

static void program(void) {
    CUdeviceptr memory[BUFFERS];
    unsigned char *pinned, model[BUFFERS][SIZE], wanted[SIZE];
    OK(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    for (int at = 0; at < BUFFERS; ++at) {
        const int stream = (int)below(STREAMS);
        user[at] = -1;
        OK(cuMemAllocAsync(&memory[at], SIZE, streams[stream]));
        OK(cuMemsetD8Async(memory[at], (unsigned char)at, SIZE, streams[stream]));
        memset(model[at], at, SIZE);
        used(stream, at);
    }
    for (int step = 0; step < STEPS; ++step) {
        const int stream = (int)below(STREAMS), to = (int)below(BUFFERS), from = (int)below(BUFFERS);
        const unsigned first = below(SIZE), bytes = below(SIZE - first) + 1;
        come_behind(stream, to);
        switch (below(4)) {
        case 0:
            OK(cuMemsetD8Async(memory[to] + first, (unsigned char)step, bytes, streams[stream]));
            memset(model[to] + first, step, bytes);
            break;
        case 1:
            if (to == from) {
                continue;
            }
            come_behind(stream, from);
            OK(cuMemcpyDtoDAsync(memory[to] + first, memory[from] + first, bytes, streams[stream]));
            memcpy(model[to] + first, model[from] + first, bytes);
            used(stream, from);
            break;
        case 2:
            memset(wanted, step + 100, bytes);
            OK(cuMemcpyHtoDAsync(memory[to] + first, wanted, bytes, streams[stream]));
            memcpy(model[to] + first, wanted, bytes);
            break;
        default:
            OK(cuMemcpyDtoHAsync(pinned, memory[to], SIZE, streams[stream]));
            OK(cuStreamSynchronize(streams[stream]));
            CHECK(!memcmp(pinned, model[to], SIZE));
        }
        used(stream, to);
    }
    for (int at = 0; at < BUFFERS; ++at) {
        const int stream = (int)below(STREAMS);
        come_behind(stream, at);
        OK(cuMemcpyDtoHAsync(wanted, memory[at], SIZE, streams[stream]));
        CHECK(!memcmp(wanted, model[at], SIZE));
        OK(cuMemFreeAsync(memory[at], streams[stream]));
    }
    OK(cuCtxSynchronize());
    OK(cuMemFreeHost(pinned));
}

int main(int count, char **words) {
    CHECK(count == 3);
    begin();
    for (int at = 0; at < STREAMS; ++at) {
        OK(cuStreamCreate(&streams[at], CU_STREAM_NON_BLOCKING));
    }
    for (int at = 0; at < BUFFERS; ++at) {
        OK(cuEventCreate(&last[at], CU_EVENT_DISABLE_TIMING));
    }
    for (int seed = atoi(words[1]); seed < atoi(words[1]) + atoi(words[2]); ++seed) {
        state = (uint64_t)seed * 2654435761u + 1;
        program();
    }
    return 0;
}
