/* The program ends with live handles; some are given back while it exits. The second argument says
 * in which order they were made and are left behind. */
#include "check.h"

static xd_tensor *late;
static DLManagedTensorVersioned *exported;
static float numbers[4];
static xd_registration *locked;

static void at_exit(void) {
    uint64_t before = xd_counted_leaks();
    if (!xd_exiting()) _Exit(2);
    xd_tensor_free(late);
    exported->deleter(exported);
    xd_registration_free(locked);
    if (xd_counted_leaks() != before + 3) _Exit(3);
}

int main(int argc, char **argv) {
    int backwards = argc > 2 && !strcmp(argv[2], "backwards");
    xd_runtime *runtime;
    xd_device *cpu;
    xd_tensor *tensor, *other, *alias = NULL;
    xd_stream *stream = NULL;
    xd_event *event = NULL;
    xd_route *route = NULL;
    static const int64_t shape[1] = {4};
    xd_memory memory;
    /* Registered before the library's own, so that it runs after that one. */
    CHECK(atexit(at_exit) == 0);
    runtime = check_runtime(argc > 1 && *argv[1] ? 2 : 1, argv);
    cpu = check_device(runtime, "cpu");
    CHECK(!xd_exiting());
    if (backwards) {
        OK(xd_stream_create(cpu, &stream));
        OK(xd_stream_record(stream, &event));
    }
    tensor = check_numbers(cpu, 16);
    OK(xd_tensor_to(tensor, cpu, NULL, &alias, &route));
    late = check_numbers(cpu, 16);
    other = check_numbers(cpu, 16);
    OK(xd_tensor_export(other, NULL, &exported));
    xd_tensor_free(other);
    memset(&memory, 0, sizeof memory);
    memory.struct_size = sizeof memory;
    memory.device.device_type = kDLCPU;
    memory.data = numbers;
    memory.layout = check_layout(1, shape);
    OK(xd_tensor_from_memory(runtime, &memory, &other));
    OK(xd_tensor_register(other, cpu, &locked));
    xd_tensor_free(other);
    if (!backwards) {
        OK(xd_stream_create(cpu, &stream));
        OK(xd_stream_record(stream, &event));
        xd_runtime_free(runtime);
        xd_device_free(cpu);
    }
    return 0;
}
