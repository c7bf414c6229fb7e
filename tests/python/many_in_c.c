/* Many threads ask everything of the scripts of one host, at random, and interrupt each other. Arguments:
 * a Python, how many calls each thread makes, and a number to begin with. */
#include "../../host/capi/tests/c/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define THREADS 6
#define SESSIONS 3

/* What ends well, fails, leaves, never ends, is deaf, prints, starts threads and processes. */
static const char *const PROGRAMS[] = {
    "x = 1",
    "1 / 0",
    "a b",
    "import sys; sys.exit(3)",
    "class E(BaseException): pass\nraise E",
    "while True: pass",
    "import time; time.sleep(60)",
    "try:\n    while True: pass\nexcept BaseException: pass",
    "def f(n): return f(n + 1)\nf(0)",
    "import json; json.loads('[' * 100000)",
    "bytearray(1 << 60)",
    "for i in range(200): print('line', i)",
    "import sys; sys.stdout.write('x' * 100000)",
    "import gc; gc.collect()",
    "import crossdock; kept = [crossdock.zeros((9,)) for _ in range(9)]",
    "import threading as t; a = t.Thread(target=print, args=('t',)); a.start(); a.join()",
    "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)",
    "import subprocess; subprocess.run(['true'])",
};
static const char FUNCTIONS[] = "def same(it): return it";

static xd_runtime *runtime;
static xd_script *script;
static xd_session *sessions[SESSIONS];
static atomic_long lent, heard;
static long calls;

/* Everything may fail, but not by a bug of the host's. */
static int failed(xd_error *error) {
    uint32_t kind;
    if (!error) return 0;
    kind = xd_error_kind(error);
    if (kind < XD_ERROR_SCRIPT || kind > XD_ERROR_SCRIPT_BUSY ||
        strstr(xd_error_text(error), "bug")) {
        fprintf(stderr, "%s\n", xd_error_text(error));
        exit(2);
    }
    xd_error_free(error);
    return 1;
}

static void release(void *owner) {
    CHECK(owner == &lent);
    lent--;
}

static xd_tensor *tensor_of(float *numbers) {
    static const int64_t four = 4;
    xd_memory memory;
    xd_tensor *tensor = NULL;
    memset(&memory, 0, sizeof memory);
    memory.struct_size = sizeof memory;
    memory.device.device_type = kDLCPU;
    memory.data = numbers;
    memory.layout = check_layout(1, &four);
    memory.owner = &lent;
    memory.release = release;
    lent++;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    return tensor;
}

/* On threads of the script: what would wait for it is refused, all else works. */
static void on_write(void *word, const char *bytes, uint64_t size) {
    xd_session *session = sessions[size % SESSIONS];
    long number = heard++;
    CHECK(bytes && !word);
    if (number % 7 == 0) {
        FAILS(XD_ERROR_SCRIPT_BUSY, XD_CONFLICT,
              xd_session_run_text(session, "x = 1", NULL, NULL));
    }
    if (number % 50 == 0) OK(xd_session_interrupt(session, NULL));
}

static void exchange(const xd_session *session, const xd_run_options *options, int by_call) {
    float numbers[4] = {0, 1, 2, 3};
    xd_value value = {XD_VALUE_TENSOR, 0, 0, 0, NULL, 0, NULL, NULL};
    xd_arguments arguments = {sizeof arguments, &value, 1, NULL, NULL, 0};
    xd_tensor *tensor = tensor_of(numbers), *back = NULL;
    value.tensor = tensor;
    if (by_call && !failed(xd_session_call(session, "same", &arguments, options, &value))) {
        xd_value_clear(&value);
    }
    if (!by_call && !failed(xd_session_set_tensor(session, "t", tensor)) &&
        !failed(xd_session_get_tensor(session, "t", NULL, &back))) {
        xd_tensor_free(back);
    }
    failed(xd_session_run_text(session, "t = None", NULL, NULL));
    xd_tensor_free(tensor);
}

static void call(unsigned random, const xd_session *session) {
    const size_t count = sizeof PROGRAMS / sizeof *PROGRAMS;
    xd_run_options options = {sizeof options, 0, 0};
    xd_session_state state;
    options.timeout_ns = 1000000ull * (1 + random % 29);
    options.grace_ns = 1000000ull * (1 + random % 53);
    switch (random / 64 % 8) {
        case 0: OK(xd_session_interrupt(session, NULL)); break;
        case 1: OK(xd_session_describe(session, &state)); break;
        case 2:
        case 3: exchange(session, &options, random / 512 % 2); break;
        default:
            failed(xd_session_run_text(session, PROGRAMS[random / 512 % count], "p.py", &options));
    }
}

static void *work(void *word) {
    unsigned random = (unsigned)(uintptr_t)word * 2654435761u + 1;
    long round;
    for (round = 0; round < calls; round++) {
        xd_session_options options;
        xd_session *own = NULL;
        random = random * 1664525u + 1013904223u;
        memset(&options, 0, sizeof options);
        options.struct_size = sizeof options;
        options.flags = random >> 30 == 1 ? XD_SESSION_FLAG_NEVER_WAITS : 0;
        if (random >> 28 == 0) failed(xd_session_create(script, &options, &own));
        call(random >> 8, own ? own : sessions[random % SESSIONS]);
        xd_session_free(own);
    }
    return NULL;
}

int main(int argc, char **argv) {
    xd_script_options wanted = {sizeof wanted, argv[1]};
    xd_session_options options;
    xd_session *last = NULL;
    pthread_t threads[THREADS];
    int index;
    CHECK(argc == 4);
    calls = atol(argv[2]);
    OK(xd_runtime_default(&runtime));
    OK(xd_script_open(NULL, &wanted, &script));
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.on_stdout = options.on_stderr = on_write;
    for (index = 0; index < SESSIONS; index++) {
        OK(xd_session_create(script, &options, &sessions[index]));
        OK(xd_session_run_text(sessions[index], FUNCTIONS, NULL, NULL));
    }
    for (index = 0; index < THREADS; index++) {
        void *word = (void *)(uintptr_t)(atol(argv[3]) * THREADS + index);
        CHECK(!pthread_create(&threads[index], NULL, work, word));
    }
    for (index = 0; index < THREADS; index++) CHECK(!pthread_join(threads[index], NULL));
    /* None is stuck for ever, and nothing of the host's is left with them. */
    while (failed(xd_session_create(script, NULL, &last))) continue;
    for (index = 0; index < SESSIONS; index++) xd_session_free(sessions[index]);
    OK(xd_session_run_text(last, "import gc; gc.collect()", NULL, NULL));
    CHECK(lent == 0 && heard > 0);
    xd_session_free(last);
    xd_script_free(script);
    xd_runtime_free(runtime);
    return 0;
}
