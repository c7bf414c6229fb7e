/* Scripts in sessions: values, calls, streams, and how scripts end. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct heard {
    char out[256];
    char err[256];
} heard;

static void hear(char *to, const char *bytes, uint64_t size) {
    size_t length = strlen(to);
    CHECK(length + size < sizeof(((heard *)0)->out));
    memcpy(to + length, bytes, size);
    to[length + size] = '\0';
}

static void on_stdout(void *word, const char *bytes, uint64_t size) {
    hear(((heard *)word)->out, bytes, size);
}

static void on_stderr(void *word, const char *bytes, uint64_t size) {
    hear(((heard *)word)->err, bytes, size);
}

static xd_value text(const char *text) {
    xd_value value = {XD_VALUE_TEXT, 0, 0, 0, NULL, 0, NULL, NULL};
    value.data = text;
    value.size = strlen(text);
    return value;
}

static xd_value integer(int64_t integer) {
    xd_value value = {XD_VALUE_INT, 0, 0, 0, NULL, 0, NULL, NULL};
    value.integer = integer;
    return value;
}

static void run(const xd_session *session, const char *program) {
    OK(xd_session_run_text(session, program, "script.py", NULL));
}

static int64_t number(const xd_session *session, const char *name) {
    xd_value value;
    OK(xd_session_get(session, name, &value));
    CHECK(value.kind == XD_VALUE_INT);
    return value.integer;
}

static void infos(const xd_script *script) {
    xd_script_options options = {sizeof options, NULL};
    xd_script_info info;
    xd_value why;
    OK(xd_script_describe(script, &info));
    CHECK(info.major == 3 && info.minor >= 11 && *info.version == '3' && !info.of_others);
    CHECK(*info.executable && *info.library && *info.prefix && *info.why);
    options.python = info.executable;
    OK(xd_script_explain(&options, &why));
    CHECK(why.kind == XD_VALUE_TEXT && why.size == strlen(why.data) && why.size > 0);
    xd_value_clear(&why);
    CHECK(why.kind == XD_VALUE_NONE && !why.data);
}

static void values(const xd_session *session) {
    xd_value value = text("gr\xc3\xbc\xc3\x9f");
    const char *names[] = {"scale"};
    xd_value by_place[2], by_name[1];
    xd_arguments arguments = {sizeof arguments, by_place, 2, names, by_name, 1};
    OK(xd_session_set(session, "t", &value));
    run(session, "assert t == 'gr\\xfc\\xdf'\nb = b'\\0\\1'\nn = None\nok = True\nf = 0.5");
    OK(xd_session_get(session, "b", &value));
    CHECK(value.kind == XD_VALUE_BYTES && value.size == 2 && value.data[1] == 1);
    xd_value_clear(&value);
    OK(xd_session_get(session, "n", &value));
    CHECK(value.kind == XD_VALUE_NONE);
    OK(xd_session_get(session, "ok", &value));
    CHECK(value.kind == XD_VALUE_BOOL && value.integer == 1);
    OK(xd_session_get(session, "f", &value));
    CHECK(value.kind == XD_VALUE_FLOAT && value.number == 0.5);
    run(session, "def add(a, b, scale=1): return (a + b) * scale");
    by_place[0] = integer(1);
    by_place[1] = integer(2);
    by_name[0] = integer(10);
    OK(xd_session_call(session, "add", &arguments, NULL, &value));
    CHECK(value.kind == XD_VALUE_INT && value.integer == 30);
    FAILS(XD_ERROR_SCRIPT, XD_INVALID,
          xd_session_call(session, "builtins:object", NULL, NULL, &value));
}

static void failures(const xd_session *session) {
    xd_error *error = xd_session_run_text(session, "def f(): 1 / 0\nf()", "bad.py", NULL);
    xd_value value = {99, 0, 0, 0, NULL, 0, NULL, NULL};
    CHECK(xd_error_kind(error) == XD_ERROR_SCRIPT && xd_error_exit_code(error) == 0);
    CHECK(!strcmp(xd_error_exception(error), "ZeroDivisionError"));
    CHECK(strstr(xd_error_traceback(error), "File \"bad.py\", line 1, in f"));
    CHECK(strstr(xd_error_text(error), "division by zero"));
    xd_error_free(error);
    error = xd_session_run_text(session, "import sys; sys.exit(7)", NULL, NULL);
    CHECK(xd_error_kind(error) == XD_ERROR_SCRIPT_EXIT && xd_error_exit_code(error) == 7);
    xd_error_free(error);
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_run_file(session, "/nowhere.py", NULL));
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_run_module(session, "no.where", NULL));
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_get(session, "missing", &value));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_session_set(session, "x", &value));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_session_set(session, "x", NULL));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_session_get(session, "t", NULL));
    CHECK(value.kind == 99);
}

/* Lets this process have so many bytes more than it has, or as many as there are. */
static void limit_memory(long more) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1 && !fclose(file));
    if (more)
        limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more);
    CHECK(!setrlimit(RLIMIT_AS, &limit));
}

/* One copy is enough, the NUL behind it included; without memory for it there is an error. */
static void large_values(const xd_session *session) {
    const long size = 1l << 27;
    xd_value value = {99, 0, 0, 0, NULL, 0, NULL, NULL};
    /* Valgrind and sanitizers end a program that gets no memory. */
    if (getenv("CROSSDOCK_TEST_RUNNER") || getenv("CROSSDOCK_TEST_FLAGS"))
        return;
    /* Loads what a failure is told with. */
    FAILS(XD_ERROR_SCRIPT, XD_INVALID,
          xd_session_run_text(session, "raise MemoryError", NULL, NULL));
    run(session, "large = bytes(1 << 27)");
    limit_memory(size / 4);
    FAILS(XD_ERROR_OTHER, XD_OOM_HOST, xd_session_get(session, "large", &value));
    limit_memory(size + size / 4);
    OK(xd_session_get(session, "large", &value));
    limit_memory(0);
    CHECK(value.kind == XD_VALUE_BYTES && value.size == (uint64_t)size && !value.data[size]);
    xd_value_clear(&value);
    run(session, "del large");
}

/* As the header says of hosts in C: with the default of `SIGPIPE` this would end the process. */
static void closed_pipes(const xd_session *session) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    CHECK(before != SIG_ERR);
    FAILS(XD_ERROR_SCRIPT, XD_INVALID,
          xd_session_run_text(session, "import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')",
                              NULL, NULL));
    run(session, "try: os.write(w, b'x')\nexcept BrokenPipeError: os.close(w)\nelse: raise OSError");
    CHECK(signal(SIGPIPE, before) != SIG_ERR);
}

static void *interrupt(void *session) {
    xd_session_state state;
    uint32_t outcome = XD_STOP_IDLE;
    /* One that comes before the script began is taken back. */
    while (outcome == XD_STOP_IDLE) {
        OK(xd_session_describe((const xd_session *)session, &state));
        if (state.kind == XD_SESSION_RUNNING) {
            OK(xd_session_interrupt((const xd_session *)session, &outcome));
        }
    }
    return NULL;
}

static void stops(const xd_session *session) {
    xd_run_options options = {sizeof options, 50000000, 10000000000u};
    xd_session_state state;
    uint32_t outcome = 99;
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, interrupt, (void *)session));
    FAILS(XD_ERROR_SCRIPT_INTERRUPTED, XD_TIMEOUT,
          xd_session_run_text(session, "while True: pass", NULL, NULL));
    CHECK(!pthread_join(thread, NULL));
    FAILS(XD_ERROR_SCRIPT_TIMEOUT, XD_TIMEOUT,
          xd_session_run_text(session, "import time\ntime.sleep(60)", NULL, &options));
    OK(xd_session_interrupt(session, &outcome));
    CHECK(outcome == XD_STOP_IDLE);
    OK(xd_session_describe(session, &state));
    CHECK(state.kind == XD_SESSION_IDLE && !*state.place);
    run(session, "x = 5");
    CHECK(number(session, "x") == 5);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    const char *words[] = {"name", "--word"};
    heard heard = {"", ""};
    xd_session_options options = {sizeof options, "filters", words,   2, on_stdout, on_stderr,
                                  NULL,           0,         0,       0, 0};
    xd_script *script = NULL, *again = NULL;
    xd_session *session = NULL;
    xd_error *error = xd_script_open(runtime, NULL, &script);
    if (error && xd_error_kind(error) == XD_ERROR_NO_PYTHON) {
        printf("skipped: %s\n", xd_error_why(error));
        xd_error_free(error);
        xd_runtime_free(runtime);
        return 0;
    }
    OK(error);
    OK(xd_script_open(runtime, NULL, &again));
    xd_script_free(again);
    infos(script);
    options.word = &heard;
    OK(xd_session_create(script, &options, &session));
    run(session, "import sys\nassert sys.argv == ['name', '--word'] and __name__ == '__main__'");
    run(session, "print('hello'); print('there', file=sys.stderr)");
    CHECK(!strcmp(heard.out, "hello\n") && !strcmp(heard.err, "there\n"));
    values(session);
    failures(session);
    large_values(session);
    closed_pipes(session);
    stops(session);
    xd_session_free(session);
    options.flags = 2;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_session_create(script, &options, &session));
    OK(xd_session_create(script, NULL, &session));
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_run_text(session, "t", NULL, NULL));
    /* Handles that are still live when the process exits do no harm. */
    xd_script_free(script);
    xd_runtime_free(runtime);
    return 0;
}
