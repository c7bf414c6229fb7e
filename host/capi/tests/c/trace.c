/* A trace of the process, started and stopped by the program. */
#include "check.h"

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_tensor *tensor;
    char path[] = "/tmp/crossdock-trace-XXXXXX", text[4096];
    int descriptor = mkstemp(path);
    FILE *file;
    size_t length;
    CHECK(descriptor >= 0);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_trace_stop());
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_trace_start("/nowhere/trace.json"));
    OK(xd_trace_start(path));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_trace_start(path));
    tensor = check_numbers(cpu, 4);
    check_has_numbers(tensor, 4);
    xd_tensor_free(tensor);
    OK(xd_trace_stop());
    file = fdopen(descriptor, "r");
    CHECK(file);
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    CHECK(strstr(text, "allocate") && strstr(text, "copy"));
    fclose(file);
    remove(path);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
