/* A host in C that has a Python of its own, ends it while sessions and a tensor of its scripts are alive,
 * and starts it again. Argument: Python's library. */
#include "../../host/capi/tests/c/check.h"

#include <dlfcn.h>

static void *library;

/* Calls a function of Python's that takes nothing or a number. */
static void *python(const char *name, int number) {
    void *found = dlsym(library, name);
    void *(*function)(int);
    CHECK(found);
    memcpy(&function, &found, sizeof function);
    return function(number);
}

static void restore(void *state) {
    void *found = dlsym(library, "PyEval_RestoreThread");
    void (*function)(void *);
    CHECK(found);
    memcpy(&function, &found, sizeof function);
    function(state);
}

/* Scripts belong to the Python that was there, and nothing waits for one that is gone. */
static void is_over(const xd_script *script, const xd_session *session) {
    xd_session *other = NULL;
    uint32_t outcome = 9;
    FAILS(XD_ERROR_SCRIPT_CLOSED, XD_EXITING,
          xd_session_run_text(session, "x = 2", NULL, NULL));
    FAILS(XD_ERROR_SCRIPT_CLOSED, XD_EXITING, xd_session_create(script, NULL, &other));
    OK(xd_session_interrupt(session, &outcome));
    CHECK(outcome == XD_STOP_IDLE);
}

int main(int argc, char **argv) {
    xd_script *script = NULL;
    xd_session *session = NULL;
    xd_tensor *tensor = NULL;
    void *state;
    CHECK(argc == 2);
    library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    CHECK(library);
    python("Py_InitializeEx", 0);
    state = python("PyEval_SaveThread", 0);
    OK(xd_script_open(NULL, NULL, &script));
    OK(xd_session_create(script, NULL, &session));
    OK(xd_session_run_text(session,
                           "import atexit, crossdock, sys\n"
                           "sys.unraisablehook = lambda what: print(what.exc_type.__name__)\n"
                           "atexit.register(print, 'at exit')\n"
                           "atexit.register(sys.exit, 4)\n"
                           "tensor = crossdock.asarray(bytearray(8))",
                           NULL, NULL));
    OK(xd_session_get_tensor(session, "tensor", NULL, &tensor));
    restore(state);
    CHECK(!python("Py_FinalizeEx", 0));
    is_over(script, session);
    /* Its memory is Python's, which cannot take it back any more. */
    xd_tensor_free(tensor);
    python("Py_InitializeEx", 0);
    state = python("PyEval_SaveThread", 0);
    is_over(script, session);
    restore(state);
    CHECK(!python("Py_FinalizeEx", 0));
    xd_session_free(session);
    xd_script_free(script);
    return 0;
}
