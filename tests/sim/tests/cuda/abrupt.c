/**
 * \file abrupt.c
 * \brief A program that races and then ends in some way: `abrupt WAY`.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 4096 };

static CUstream one, other;
static CUdeviceptr memory;

static void submit(CUhostFn before) {
    begin();
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, SIZE));
    if (before) {
        OK(cuLaunchHostFunc(one, before, NULL));
    }
    OK(cuMemsetD8Async(memory, 1, SIZE, one));
    OK(cuMemsetD8Async(memory, 2, SIZE, other));
}

static void race(void) {
    submit(NULL);
    OK(cuStreamSynchronize(one));
    OK(cuStreamSynchronize(other));
}

/* Races, takes the report, and so has none. */
static void race_and_take(void) {
    static char text[1 << 16];
    long long (*take)(char *, size_t);
    race();
    *(void **)&take = dlsym(RTLD_DEFAULT, "crossdock_sim_take_reports");
    CHECK(take(text, sizeof text) > 1);
}

static void CUDA_CB prints(void *unused) {
    (void)unused;
    puts("called");
}

int main(int count, char **words) {
    CHECK(count == 2);
    const char *way = words[1];
    if (!strcmp(way, "exit")) {
        race();
    } else if (!strcmp(way, "_exit")) {
        race();
        _exit(0);
    } else if (!strcmp(way, "signal") || !strcmp(way, "child")) {
        const pid_t child = fork();
        int status;
        if (!child) {
            race();
            if (!strcmp(way, "child")) {
                _exit(0);
            }
            raise(SIGKILL);
        }
        CHECK(waitpid(child, &status, 0) == child);
    } else if (!strcmp(way, "exec")) {
        race();
        execlp("true", "true", (char *)NULL);
    } else if (!strcmp(way, "exec_itself")) {
        race();
        execl(words[0], words[0], "nothing", (char *)NULL);
    } else if (!strcmp(way, "nothing")) {
        begin();
    } else if (!strcmp(way, "taken")) {
        race_and_take();
        _exit(0);
    } else if (!strcmp(way, "pending")) {
        submit(NULL);
    } else if (!strcmp(way, "pending_behind_a_function")) {
        submit(prints);
    } else {
        fprintf(stderr, "there is no %s\n", way);
        return 2;
    }
    return 0;
}
