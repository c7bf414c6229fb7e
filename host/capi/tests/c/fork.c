/* A child of a fork: its parent's handles are of no use, and it has a runtime of its own. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static void child(xd_runtime *inherited, xd_device *device, xd_tensor *tensor) {
    static const int64_t count = 4;
    xd_layout layout = check_layout(1, &count);
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    xd_tensor *made = NULL;
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_empty(device, &layout, &made));
    OK(xd_runtime_default(&runtime));
    CHECK(runtime != inherited);
    cpu = check_device(runtime, "cpu");
    made = check_numbers(cpu, count);
    check_has_numbers(made, count);
    xd_tensor_free(made);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    xd_tensor_free(tensor);
    xd_device_free(device);
    xd_runtime_free(inherited);
}

int main(void) {
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    xd_tensor *tensor;
    int status = 1;
    pid_t process;
    OK(xd_runtime_default(&runtime));
    cpu = check_device(runtime, "cpu");
    tensor = check_numbers(cpu, 4);
    process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        child(runtime, cpu, tensor);
        _exit(0);
    }
    CHECK(waitpid(process, &status, 0) == process && status == 0);
    check_has_numbers(tensor, 4);
    xd_tensor_free(tensor);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
