/* The pointer query: who owns an address. */
#include "check.h"

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu"), *owner = NULL;
    xd_tensor *tensor = check_numbers(cpu, 100);
    xd_tensor_info info;
    xd_pointer_info found;
    int local = 0;
    OK(xd_tensor_describe(tensor, &info));
    OK(xd_pointer_query(runtime, info.data + 40, &found, &owner));
    CHECK(found.kind != XD_MEMORY_UNOWNED && found.kind == info.memory_kind);
    CHECK(found.base.word == info.data && found.size >= 400 && found.allocation_id != 0);
    CHECK(xd_device_equal(owner, cpu));
    xd_device_free(owner);
    OK(xd_pointer_query(runtime, info.data, &found, NULL));
    /* Nobody's: an answer, not an error. */
    owner = cpu;
    OK(xd_pointer_query(runtime, (uint64_t)(uintptr_t)&local, &found, &owner));
    CHECK(found.kind == XD_MEMORY_UNOWNED && !owner);
    OK(xd_pointer_query(runtime, 0, &found, NULL));
    CHECK(found.kind == XD_MEMORY_UNOWNED);
    xd_tensor_free(tensor);
    OK(xd_pointer_query(runtime, info.data, &found, NULL));
    CHECK(found.kind == XD_MEMORY_UNOWNED);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
