/* Many threads at once: the process's runtime, shared tensors, exchanges and moves. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200 };

static float numbers[4] = {0, 1, 2, 3};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int released;

static void release(void *owner) {
    CHECK(owner == numbers);
    pthread_mutex_lock(&lock);
    released++;
    pthread_mutex_unlock(&lock);
}

static void round_of(const xd_tensor *shared) {
    static const int64_t shape[1] = {4};
    xd_runtime *runtime = NULL;
    xd_device *cpu;
    xd_tensor *tensor = NULL, *again = NULL, *copy = NULL, *same = xd_tensor_retain(shared);
    DLManagedTensorVersioned *managed = NULL;
    xd_move_options options = {sizeof options, XD_ROUTE_BEST, XD_COPY_ALWAYS, 0, 0, NULL};
    xd_memory memory;
    memset(&memory, 0, sizeof memory);
    memory.struct_size = sizeof memory;
    memory.device.device_type = kDLCPU;
    memory.data = numbers;
    memory.layout = check_layout(1, shape);
    memory.owner = numbers;
    memory.release = release;
    OK(xd_runtime_default(&runtime));
    cpu = check_device(runtime, "cpu");
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    OK(xd_tensor_export(tensor, NULL, &managed));
    OK(xd_tensor_import(runtime, managed, NULL, &again));
    xd_runtime_free(runtime);
    xd_tensor_free(tensor);
    OK(xd_tensor_to(same, cpu, &options, &copy, NULL));
    xd_device_free(cpu);
    check_has_numbers(again, 4);
    check_has_numbers(copy, 4);
    xd_tensor_free(again);
    xd_tensor_free(copy);
    xd_tensor_free(same);
}

static void *work(void *shared) {
    int round;
    for (round = 0; round < ROUNDS; round++) round_of((const xd_tensor *)shared);
    return NULL;
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_tensor *shared = check_numbers(cpu, 4);
    pthread_t threads[THREADS];
    int index;
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, work, shared) == 0);
    for (index = 0; index < THREADS; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    CHECK(released == THREADS * ROUNDS);
    check_has_numbers(shared, 4);
    xd_tensor_free(shared);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
