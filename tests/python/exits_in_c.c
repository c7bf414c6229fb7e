/* A host in C that ends while scripts run, tensors cross and deleters are called on many threads.
 * Arguments: a Python, after how many microseconds it ends, and how. */
#include "../../host/capi/tests/c/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static const char PROGRAM[] =
    "import crossdock, threading\n"
    "try:\n"
    "    import numpy\n"
    "    def made(n): return numpy.full(n, 1, 'float32')\n"
    "    view = numpy.from_dlpack\n"
    "except ImportError:\n"
    "    import array\n"
    "    def made(n): return crossdock.asarray(array.array('f', [1]) * n)\n"
    "    view = crossdock.from_dlpack\n"
    "kept = [None] * 8\n"
    "def make(n): return made(n)\n"
    "def keep(i, t): kept[i] = view(t); return kept[i - 4] is None\n"
    "def alone():\n"
    "    try:\n"
    "        while True: view(crossdock.from_dlpack(made(64)))\n"
    "    except crossdock.DeviceError as error: assert 'EXITING' in str(error)\n"
    "def begin(): threading.Thread(target=alone, daemon=True).start()\n"
    "def work(): return sum(view(crossdock.asarray(made(64))).tolist())\n";

static const char TENSOR[] = "import crossdock; t = crossdock.zeros((9,))";

/* Tensors on their way from the threads that get them to those that give them back. */
static _Atomic(xd_tensor *) slots[16];
/* What the end of the process finds, and gives back while it goes on. */
static xd_tensor *last;
static const xd_script *script;
static const xd_session *session;
static xd_runtime *runtime;
static atomic_int started;

/* Only the end of the process may keep a call from working. */
static int ended(xd_error *error) {
    uint32_t kind;
    if (!error) return 0;
    kind = xd_error_kind(error);
    if (kind != XD_ERROR_SCRIPT_CLOSED && !xd_exiting()) {
        fprintf(stderr, "%s\n%s", xd_error_text(error), xd_error_traceback(error));
        _exit(3);
    }
    xd_error_free(error);
    return 1;
}

static void *get(void *word) {
    xd_value size = {XD_VALUE_INT, 0, 1000, 0, NULL, 0, NULL, NULL}, made;
    xd_arguments arguments = {sizeof arguments, &size, 1, NULL, NULL, 0};
    unsigned round;
    for (round = 0;; round++) {
        if (ended(xd_session_call(session, "make", &arguments, NULL, &made))) return word;
        xd_tensor_free(atomic_exchange(&slots[round % 16], made.tensor));
        if (!round) started++;
    }
}

static void *give_back(void *word) {
    unsigned round;
    for (round = 0;; round++) xd_tensor_free(atomic_exchange(&slots[round * 7 % 16], NULL));
    return word;
}

static void *lend(void *word) {
    xd_device *cpu = check_device(runtime, "cpu");
    xd_value values[2] = {{XD_VALUE_INT, 0, 0, 0, NULL, 0, NULL, NULL},
                          {XD_VALUE_TENSOR, 0, 0, 0, NULL, 0, NULL, NULL}};
    xd_arguments arguments = {sizeof arguments, values, 2, NULL, NULL, 0};
    xd_value answer;
    const int64_t many = 256;
    xd_layout layout = check_layout(1, &many);
    unsigned round;
    for (round = 0;; round++) {
        values[0].integer = round % 8;
        if (ended(xd_tensor_empty(cpu, &layout, NULL, &values[1].tensor))) return word;
        if (ended(xd_session_call(session, "keep", &arguments, NULL, &answer))) return word;
        xd_tensor_free(values[1].tensor);
        if (!round) started++;
    }
}

static void *open_and_close(void *word) {
    unsigned round;
    for (round = 0;; round++) {
        xd_session *own = NULL;
        if (ended(xd_session_create(script, NULL, &own))) return word;
        if (ended(xd_session_run_text(own, TENSOR, NULL, NULL))) return word;
        xd_session_free(own);
        if (!round) started++;
    }
}

static void *work(void *word) {
    xd_value answer;
    while (!ended(xd_session_call(session, "work", NULL, NULL, &answer))) continue;
    return word;
}

/* As a static object of C++ that was there before Python: destroyed after scripts have ended. */
static void at_exit(void) {
    xd_tensor_free(last);
}

static void *leave(void *word) {
    exit(word != NULL);
}

static void wait_for(long microseconds) {
    struct timespec time = {0, 0};
    time.tv_nsec = microseconds * 1000;
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    static void *(*const functions[])(void *) = {get, give_back, lend, open_and_close, work};
    xd_script_options options = {sizeof options, argv[1]};
    xd_value size = {XD_VALUE_INT, 0, 10, 0, NULL, 0, NULL, NULL}, made;
    xd_arguments arguments = {sizeof arguments, &size, 1, NULL, NULL, 0};
    pthread_t thread;
    size_t index;
    CHECK(argc == 4);
    CHECK(!atexit(at_exit));
    OK(xd_runtime_default(&runtime));
    OK(xd_script_open(NULL, &options, (xd_script **)&script));
    OK(xd_session_create(script, NULL, (xd_session **)&session));
    OK(xd_session_run_text(session, PROGRAM, "program.py", NULL));
    OK(xd_session_call(session, "make", &arguments, NULL, &made));
    last = made.tensor;
    if (strstr(argv[3], "thread")) OK(xd_session_call(session, "begin", NULL, NULL, &made));
    for (index = 0; index < sizeof functions / sizeof *functions; index++) {
        CHECK(!pthread_create(&thread, NULL, functions[index], NULL));
    }
    while (started < 2) wait_for(100);
    wait_for(atol(argv[2]));
    if (strstr(argv[3], "elsewhere")) {
        CHECK(!pthread_create(&thread, NULL, leave, NULL));
        pthread_exit(NULL);
    }
    return 0;
}
