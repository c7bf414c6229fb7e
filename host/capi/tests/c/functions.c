/* Functions of the host that scripts call, lists and dictionaries, and programs that are loaded again. */
#include "check.h"

#include <unistd.h>

static const xd_value nothing = {XD_VALUE_NONE, 0, 0, 0, NULL, 0, NULL, NULL};

static xd_value text(const char *content) {
    xd_value value = nothing;
    value.kind = XD_VALUE_TEXT;
    value.data = content;
    value.size = strlen(content);
    return value;
}

static xd_value integer(int64_t number) {
    xd_value value = nothing;
    value.kind = XD_VALUE_INT;
    value.integer = number;
    return value;
}

static xd_value collection(xd_value_kind kind, const xd_value *items, uint64_t size) {
    xd_value value = nothing;
    value.kind = kind;
    value.items = items;
    value.size = size;
    return value;
}

static void run(const xd_session *session, const char *program) {
    OK(xd_session_run_text(session, program, "script.py", NULL));
}

static void collections(const xd_session *session) {
    xd_value items[3], pairs[4], deep[65], value, answer = nothing;
    uint64_t at;
    items[0] = integer(1);
    items[1] = text("two");
    items[2] = collection(XD_VALUE_LIST, NULL, 0);
    pairs[0] = text("items");
    pairs[1] = collection(XD_VALUE_LIST, items, 3);
    pairs[2] = integer(5);
    pairs[3] = nothing;
    value = collection(XD_VALUE_DICT, pairs, 2);
    OK(xd_session_set(session, "d", &value));
    run(session, "assert d == {'items': [1, 'two', []], 5: None}, d");
    OK(xd_session_get(session, "d", &answer));
    CHECK(answer.kind == XD_VALUE_DICT && answer.size == 2);
    CHECK(answer.items[1].kind == XD_VALUE_LIST && answer.items[1].size == 3);
    CHECK(!strcmp(answer.items[1].items[1].data, "two") && answer.items[2].integer == 5);
    xd_value_clear(&answer);
    CHECK(answer.kind == XD_VALUE_NONE && !answer.items);

    deep[0] = nothing;
    for (at = 1; at < 65; at++) deep[at] = collection(XD_VALUE_LIST, &deep[at - 1], 1);
    OK(xd_session_set(session, "deep", &deep[64]));
    OK(xd_session_get(session, "deep", &answer));
    xd_value_clear(&answer);
    value = collection(XD_VALUE_LIST, &deep[64], 1);
    REFUSED_FOR("64 times", xd_session_set(session, "deep", &value));
    value = collection(XD_VALUE_LIST, NULL, 2);
    REFUSED_FOR("items", xd_session_set(session, "x", &value));
    value = collection(XD_VALUE_DICT, pairs, UINT64_MAX);
    REFUSED_FOR("too many", xd_session_set(session, "x", &value));
    value.kind = 77;
    REFUSED_FOR("unknown kind", xd_session_set(session, "x", &value));
}

typedef struct host {
    const xd_session *session;
    int calls;
    int releases;
} host;

static void release(void *word) { ((host *)word)->releases++; }

/* sum(1, 2, by=3): the sum of its arguments. */
static xd_error *sum(void *word, const xd_arguments *arguments, const xd_answer *answer) {
    host *self = (host *)word;
    xd_value total = integer(0);
    uint64_t at;
    self->calls++;
    CHECK(arguments->struct_size == sizeof *arguments);
    for (at = 0; at < arguments->count; at++) {
        if (arguments->values[at].kind != XD_VALUE_INT) {
            return xd_error_create(XD_INVALID, "add numbers", "one is none", "give numbers");
        }
        total.integer += arguments->values[at].integer;
    }
    for (at = 0; at < arguments->named_count; at++) {
        CHECK(!strcmp(arguments->names[at], "by"));
        total.integer *= arguments->named_values[at].integer;
    }
    OK(xd_answer_set(answer, &nothing));
    return xd_answer_set(answer, &total);
}

/* Comes back into the library from where a script waits for it. */
static xd_error *reenter(void *word, const xd_arguments *arguments, const xd_answer *answer) {
    host *self = (host *)word;
    xd_value value = nothing;
    xd_session_state state;
    (void)answer;
    CHECK(arguments->count == 0);
    OK(xd_session_describe(self->session, &state));
    CHECK(state.kind == XD_SESSION_RUNNING);
    FAILS(XD_ERROR_SCRIPT_BUSY, XD_CONFLICT, xd_session_get(self->session, "x", &value));
    FAILS(XD_ERROR_SCRIPT_BUSY, XD_CONFLICT, xd_session_reload(self->session, NULL));
    FAILS(XD_ERROR_SCRIPT_BUSY, XD_CONFLICT,
          xd_session_define(self->session, "x", sum, self, release));
    CHECK(self->releases == 1);
    self->releases = 0;
    REFUSED_FOR("value", xd_answer_set(answer, NULL));
    return NULL;
}

static xd_error *fail(void *word, const xd_arguments *arguments, const xd_answer *answer) {
    (void)word;
    OK(xd_answer_set(answer, &nothing));
    return xd_error_create(arguments->count ? XD_OOM_HOST : XD_OK, "no room", NULL, NULL);
}

/* Of what outlives its function here: the session has it until its end. */
static host self;

static void functions(const xd_session *session) {
    xd_error *error;
    self.session = session;
    OK(xd_session_define(session, "total", sum, &self, release));
    run(session, "assert total() == 0 and total(1, 2) == 3 and total(4, by=-2) == -8");
    CHECK(self.calls == 3 && self.releases == 0);
    run(session, "try: total('x')\nexcept RuntimeError as e: told = str(e)\n"
                 "assert told == 'add numbers: one is none (give numbers)', told");
    OK(xd_session_define(session, "reenter", reenter, &self, NULL));
    run(session, "assert reenter() is None");
    OK(xd_session_define(session, "fail", fail, NULL, NULL));
    error = xd_session_run_text(session, "fail()", NULL, NULL);
    CHECK(!strcmp(xd_error_exception(error), "RuntimeError"));
    CHECK(strstr(xd_error_traceback(error), "RuntimeError: no room\n"));
    xd_error_free(error);
    error = xd_session_run_text(session, "fail(1)", NULL, NULL);
    CHECK(!strcmp(xd_error_exception(error), "MemoryError"));
    xd_error_free(error);
    /* Defined anew: the first is gone. */
    run(session, "old = total");
    OK(xd_session_define(session, "total", sum, &self, release));
    CHECK(self.releases == 1);
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_run_text(session, "old()", NULL, NULL));
    run(session, "assert total(5) == 5");
    REFUSED_FOR("function", xd_session_define(session, "total", NULL, &self, release));
    REFUSED_FOR("name", xd_session_define(session, NULL, sum, &self, release));
    CHECK(self.releases == 3);
}

static void write_file(const char *path, const char *content) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(content, file) >= 0 && fclose(file) == 0);
}

static void reloads(const xd_session *session) {
    char folder[] = "/tmp/crossdock-XXXXXX", path[64], beside[64];
    xd_value value = nothing;
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/main.py", folder);
    snprintf(beside, sizeof beside, "%s/beside_in_c.py", folder);
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_reload(session, NULL));
    write_file(beside, "x = 1\n");
    write_file(path, "from beside_in_c import x\n");
    OK(xd_session_run_file(session, path, NULL));
    write_file(beside, "x = 2\n");
    OK(xd_session_reload(session, NULL));
    OK(xd_session_get(session, "x", &value));
    CHECK(value.integer == 2);
    write_file(beside, "x =\n");
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_reload(session, NULL));
    OK(xd_session_get(session, "x", &value));
    CHECK(value.integer == 2);
}

/* Frees the session whose call runs it. */
static xd_error *frees(void *word, const xd_arguments *arguments, const xd_answer *answer) {
    xd_session **session = word;
    (void)arguments;
    xd_session_free(*session);
    *session = NULL;
    return xd_answer_set(answer, &(xd_value){XD_VALUE_INT, 0, 7, 0, NULL, 0, NULL, NULL});
}

/* The call goes on until its end, with all that it needs. */
static void frees_within(const xd_script *script) {
    static const char *const programs[] = {
        "def f(): return frees()\n",
        "class M:\n    def __getattr__(self, name): return frees()\nm = M()\n",
    };
    xd_session *session;
    xd_value answer;
    int at;
    for (at = 0; at < 2; at++) {
        OK(xd_session_create(script, NULL, &session));
        OK(xd_session_define(session, "frees", frees, &session, NULL));
        run(session, programs[at]);
        if (at == 0)
            OK(xd_session_call(session, "f", NULL, NULL, &answer));
        else
            OK(xd_session_get(session, "m.attribute", &answer));
        CHECK(!session && answer.kind == XD_VALUE_INT && answer.integer == 7);
    }
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_script *script = NULL;
    xd_session *session = NULL;
    xd_error *error = xd_script_open(runtime, NULL, &script);
    if (error && xd_error_kind(error) == XD_ERROR_NO_PYTHON) {
        printf("skipped: %s\n", xd_error_why(error));
        xd_error_free(error);
        xd_runtime_free(runtime);
        return 0;
    }
    OK(error);
    OK(xd_session_create(script, NULL, &session));
    collections(session);
    functions(session);
    reloads(session);
    self.releases = 0;
    OK(xd_session_define(session, "last", sum, &self, release));
    xd_session_free(session);
    CHECK(self.releases == 2); /* `total` and `last` */
    frees_within(script);
    xd_script_free(script);
    xd_runtime_free(runtime);
    return 0;
}
