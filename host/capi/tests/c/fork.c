/* A child of a fork: its parent's devices are of no use, it has a runtime of its own, and inherited
 * host memory is memory of others there. Both processes end by the end of `main`. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static int released;

static void release(void *owner) {
    (void)owner;
    released++;
}

static xd_tensor *lent(const xd_runtime *runtime, float *numbers, int64_t count) {
    xd_memory memory = {.struct_size = sizeof memory};
    xd_tensor *tensor = NULL;
    memory.device = (xd_dl_device){1, 0};
    memory.data = numbers;
    memory.layout = check_layout(1, &count);
    memory.owner = numbers;
    memory.release = release;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    return tensor;
}

/* Reads, moves, exports and writes a tensor of the parent's. */
static void use(const xd_runtime *runtime, xd_device *cpu, const xd_tensor *tensor) {
    static const float more[4] = {4, 5, 6, 7};
    static const float numbers[4] = {0, 1, 2, 3};
    DLManagedTensorVersioned *managed = NULL;
    xd_device *device = NULL;
    xd_tensor *moved = NULL;
    OK(xd_tensor_device(tensor, &device));
    CHECK(xd_device_equal(device, cpu));
    check_has_numbers(tensor, 4);
    OK(xd_tensor_to(tensor, cpu, NULL, &moved, NULL));
    check_has_numbers(moved, 4);
    xd_tensor_free(moved);
    OK(xd_tensor_export(tensor, NULL, &managed));
    OK(xd_tensor_import(runtime, managed, NULL, &moved));
    OK(xd_tensor_write(moved, more, sizeof more));
    OK(xd_tensor_write(tensor, numbers, sizeof numbers));
    check_has_numbers(moved, 4);
    xd_tensor_free(moved);
    xd_device_free(device);
}

/* A stream of the parent's, also where there is nothing to wait for. */
static void refuses(const xd_stream *stream, xd_device *cpu, const xd_tensor *tensor) {
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_IF_NEEDED, 0, 0, stream};
    xd_tensor *moved = NULL;
    xd_route *route = NULL;
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_wait_to_read(tensor, stream));
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_wait_to_write(tensor, stream));
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_to(tensor, cpu, &options, &moved, NULL));
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_explain(tensor, cpu, &options, &route));
}

static void child(xd_runtime *inherited, xd_device *device, xd_tensor *tensors[2],
                  const xd_stream *stream) {
    static const int64_t count = 4;
    xd_layout layout = check_layout(1, &count);
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    xd_tensor *made = NULL;
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_empty(device, &layout, NULL, &made));
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_tensor_to(tensors[0], device, NULL, &made, NULL));
    FAILS(XD_ERROR_HOOK, XD_FORKED, xd_device_trim(device, 0));
    OK(xd_runtime_default(&runtime));
    CHECK(runtime != inherited);
    cpu = check_device(runtime, "cpu");
    made = check_numbers(cpu, count);
    check_has_numbers(made, count);
    refuses(stream, cpu, tensors[0]);
    use(runtime, cpu, tensors[0]);
    use(runtime, cpu, tensors[1]);
    xd_tensor_free(made);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
}

static void free_all(xd_runtime *runtime, xd_device *device, xd_tensor *tensors[2]) {
    xd_tensor_free(tensors[0]);
    xd_tensor_free(tensors[1]);
    xd_device_free(device);
    xd_runtime_free(runtime);
}

int main(void) {
    static float numbers[4] = {0, 1, 2, 3};
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    xd_tensor *tensors[2];
    xd_stream *stream = NULL;
    int status = 1;
    pid_t process;
    OK(xd_runtime_default(&runtime));
    cpu = check_device(runtime, "cpu");
    tensors[0] = check_numbers(cpu, 4);
    tensors[1] = lent(runtime, numbers, 4);
    OK(xd_stream_create(cpu, &stream));
    process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        child(runtime, cpu, tensors, stream);
        xd_stream_free(stream);
        free_all(runtime, cpu, tensors);
        CHECK(released == 0);
        return 0;
    }
    CHECK(waitpid(process, &status, 0) == process && status == 0);
    check_has_numbers(tensors[0], 4);
    check_has_numbers(tensors[1], 4);
    xd_stream_free(stream);
    free_all(runtime, cpu, tensors);
    CHECK(released == 1);
    return 0;
}
