/* A host in C that shares its tensors with scripts. Arguments: a Python, a library that was linked with
 * libcrossdock, and a word where that Python has PyTorch. */
#include "../../host/capi/tests/c/check.h"

#include <pthread.h>

static int released;

static void release(void *owner) {
    CHECK(owner == &released);
    released++;
}

/* Four numbers of this program's own. */
static xd_tensor *lent(const xd_runtime *runtime, float *numbers) {
    static const int64_t four = 4;
    xd_memory memory;
    xd_tensor *tensor = NULL;
    memset(&memory, 0, sizeof memory);
    memory.struct_size = sizeof memory;
    memory.device.device_type = kDLCPU;
    memory.data = numbers;
    memory.layout = check_layout(1, &four);
    memory.owner = &released;
    memory.release = release;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    return tensor;
}

static void run(const xd_session *session, const char *program) {
    OK(xd_session_run_text(session, program, "script.py", NULL));
}

static uint64_t address(const xd_tensor *tensor) {
    xd_tensor_info info;
    OK(xd_tensor_describe(tensor, &info));
    return info.data;
}

static void set_number(const xd_session *session, const char *name, const void *pointer) {
    xd_value value = {XD_VALUE_INT, 0, 0, 0, NULL, 0, NULL, NULL};
    value.integer = (int64_t)(uintptr_t)pointer;
    OK(xd_session_set(session, name, &value));
}

/* Host, module and an extension that is linked with libcrossdock have one runtime. */
static void one_runtime(const xd_session *session, const xd_runtime *runtime, const char *library) {
    xd_value path = {XD_VALUE_TEXT, 0, 0, 0, NULL, 0, NULL, NULL};
    path.data = library;
    path.size = strlen(library);
    set_number(session, "table", xd_get_api());
    set_number(session, "runtime", runtime);
    OK(xd_session_set(session, "library", &path));
    run(session,
        "import ctypes, _crossdock_host, crossdock\n"
        "get = ctypes.pythonapi.PyCapsule_GetPointer\n"
        "get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]\n"
        "assert get(_crossdock_host.host_api, b'_crossdock_host.host_api') == table\n"
        "extension = ctypes.CDLL(library)\n"
        "extension.seen_runtime.restype = ctypes.c_void_p\n"
        "assert extension.seen_runtime() == runtime\n"
        "maps = {line.split()[-1] for line in open('/proc/self/maps')}\n"
        "assert sum('libcrossdock.so.1' in name for name in maps) == 1, maps\n");
}

static void same_memory(const xd_session *session, const xd_runtime *runtime) {
    float numbers[4] = {0, 1, 2, 3};
    xd_tensor *tensor = lent(runtime, numbers), *back = NULL;
    xd_value value = {XD_VALUE_TENSOR, 0, 0, 0, NULL, 0, NULL, NULL};
    xd_arguments arguments = {sizeof arguments, &value, 1, NULL, NULL, 0};
    OK(xd_session_set_tensor(session, "t", tensor));
    run(session, "assert type(t) is crossdock.Tensor and t.tolist() == [0, 1, 2, 3]\nt[0] = 9.0");
    CHECK(numbers[0] == 9);
    OK(xd_session_get_tensor(session, "t", NULL, &back));
    CHECK(address(back) == address(tensor));
    xd_tensor_free(back);
    run(session, "def half(x): return x[2:]\ndef keep(x): global kept; kept = x");
    value.tensor = tensor;
    OK(xd_session_call(session, "half", &arguments, NULL, &value));
    CHECK(value.kind == XD_VALUE_TENSOR && address(value.tensor) == address(tensor) + 8);
    xd_value_clear(&value);
    /* What fails gives back what it was given. */
    value.kind = XD_VALUE_TENSOR;
    value.tensor = tensor;
    FAILS(XD_ERROR_SCRIPT, XD_INVALID,
          xd_session_call(session, "missing", &arguments, NULL, &value));
    FAILS(XD_ERROR_SCRIPT, XD_INVALID, xd_session_get_tensor(session, "half", NULL, &back));
    run(session, "del t");
    xd_tensor_free(tensor);
    run(session, "import gc; gc.collect()");
    CHECK(released == 1);
}

/* The host's handle, the session and the script may go: what is viewed stays, and is freed once. */
static void views(const xd_script *script, const xd_runtime *runtime) {
    float numbers[4] = {0, 1, 2, 3};
    xd_session *session = NULL, *other = NULL;
    xd_tensor *tensor = lent(runtime, numbers), *array = NULL;
    OK(xd_session_create(script, NULL, &session));
    OK(xd_session_create(script, NULL, &other));
    OK(xd_session_set_tensor(session, "t", tensor));
    run(session, "import builtins, numpy, weakref\nbuiltins.view = numpy.from_dlpack(t)\n"
                 "a = numpy.arange(4, dtype='float32')\nbuiltins.alive = weakref.ref(a)");
    OK(xd_session_get_tensor(session, "a", NULL, &array));
    xd_session_free(session);
    xd_tensor_free(tensor);
    CHECK(released == 1);
    run(other, "import builtins, gc\ngc.collect()\nassert view.tolist() == [0, 1, 2, 3]\n"
               "assert alive() is not None\ndel builtins.view\ngc.collect()");
    CHECK(released == 2);
    check_has_numbers(array, 4);
    xd_tensor_free(array);
    run(other, "assert alive() is None");
    xd_session_free(other);
}

/* A model of PyTorch works in the host's memory, and its answer comes back as the model's own. */
static void model(const xd_script *script, const xd_runtime *runtime) {
    float numbers[4] = {0, 1, 2, 3};
    xd_session *session = NULL;
    xd_tensor *tensor = lent(runtime, numbers), *answer = NULL;
    xd_value value = {XD_VALUE_TENSOR, 0, 0, 0, NULL, 0, NULL, NULL};
    xd_arguments arguments = {sizeof arguments, &value, 1, NULL, NULL, 0};
    int before = released;
    OK(xd_session_create(script, NULL, &session));
    run(session, "import torch\nmodel = torch.nn.Linear(4, 4)\n"
                 "with torch.no_grad():\n    model.weight.copy_(torch.eye(4)); model.bias.zero_()\n"
                 "def twice(x): return torch.from_dlpack(x).mul_(2)\n"
                 "def answer(x): return model(torch.from_dlpack(x)).detach()\n"
                 "kept = None\ndef keep(x):\n"
                 "    global kept; kept = answer(x); return kept.data_ptr()");
    value.tensor = tensor;
    OK(xd_session_call(session, "twice", &arguments, NULL, &value));
    CHECK(numbers[3] == 6 && address(value.tensor) == (uint64_t)(uintptr_t)numbers);
    xd_value_clear(&value);
    value.kind = XD_VALUE_TENSOR;
    value.tensor = tensor;
    OK(xd_session_call(session, "keep", &arguments, NULL, &value));
    OK(xd_session_get_tensor(session, "kept", NULL, &answer));
    CHECK(address(answer) == (uint64_t)value.integer);
    xd_session_free(session);
    xd_tensor_free(tensor);
    numbers[1] = 100;
    OK(xd_tensor_read(answer, numbers, sizeof numbers));
    CHECK(numbers[1] == 2 && numbers[3] == 6);
    xd_tensor_free(answer);
    OK(xd_session_create(script, NULL, &session));
    run(session, "import gc; gc.collect()");
    CHECK(released == before + 1);
    xd_session_free(session);
}

/* What a script prints makes the host ask for devices, while another thread does. */
static void on_stdout(void *word, const char *bytes, uint64_t size) {
    xd_device *cpu = check_device((const xd_runtime *)word, "cpu");
    xd_memory_info memory;
    OK(xd_device_memory(cpu, &memory));
    xd_device_free(cpu);
    CHECK(bytes && size);
}

static void *ask(void *runtime) {
    int round;
    for (round = 0; round < 300; round++) on_stdout(runtime, "", 1);
    return NULL;
}

static void no_lock_is_held(const xd_script *script, xd_runtime *runtime) {
    xd_session_options options;
    xd_session *session = NULL;
    pthread_t thread;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.on_stdout = on_stdout;
    options.word = runtime;
    OK(xd_session_create(script, &options, &session));
    CHECK(!pthread_create(&thread, NULL, ask, runtime));
    run(session, "import crossdock\nfor _ in range(300): print(crossdock.devices())");
    CHECK(!pthread_join(thread, NULL));
    xd_session_free(session);
}

static void nothing_is_left(const xd_session *session, const xd_runtime *runtime) {
    float numbers[4] = {0, 1, 2, 3};
    int round, before = released;
    for (round = 0; round < 500; round++) {
        xd_tensor *tensor = lent(runtime, numbers), *back = NULL;
        OK(xd_session_set_tensor(session, "t", tensor));
        xd_tensor_free(tensor);
        OK(xd_session_get_tensor(session, "t", NULL, &back));
        xd_tensor_free(back);
    }
    run(session, "del t; import gc; gc.collect()");
    CHECK(released == before + 500);
}

int main(int argc, char **argv) {
    xd_script_options options = {sizeof options, argv[1]};
    xd_runtime *runtime = NULL;
    xd_script *script = NULL;
    xd_session *session = NULL;
    int has_numpy;
    xd_error *error;
    CHECK(argc >= 3);
    OK(xd_runtime_default(&runtime));
    OK(xd_script_open(NULL, &options, &script));
    OK(xd_session_create(script, NULL, &session));
    one_runtime(session, runtime, argv[2]);
    same_memory(session, runtime);
    error = xd_session_run_text(session, "import numpy", NULL, NULL);
    has_numpy = !error;
    xd_error_free(error);
    if (has_numpy) views(script, runtime);
    if (argc > 3) model(script, runtime);
    no_lock_is_held(script, runtime);
    nothing_is_left(session, runtime);
    xd_session_free(session);
    xd_script_free(script);
    xd_runtime_free(runtime);
    puts(has_numpy ? "all" : "without NumPy");
    return 0;
}
