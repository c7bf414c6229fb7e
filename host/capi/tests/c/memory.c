/* Memory with an owner, views of it, and its elements as bytes. */
#include "check.h"

static int released;
static float numbers[6] = {0, 1, 2, 3, 4, 5};

static void release(void *owner) {
    CHECK(owner == numbers);
    released++;
}

static xd_memory memory_of(const int64_t *shape) {
    xd_memory memory;
    memset(&memory, 0, sizeof memory);
    memory.struct_size = sizeof memory;
    memory.device.device_type = kDLCPU;
    memory.data = numbers;
    memory.layout = check_layout(2, shape);
    memory.owner = numbers;
    memory.release = release;
    return memory;
}

static void an_owner_is_released_with_the_last_view(const xd_runtime *runtime) {
    static const int64_t shape[2] = {2, 3}, flat[1] = {6};
    static const uint32_t axes[2] = {1, 0};
    static const xd_axis_slice part[2] = {{1, -1, 2}, {0, 2, 2}};
    xd_memory memory = memory_of(shape);
    xd_tensor *tensor = NULL, *turned = NULL, *sliced = NULL, *line = NULL;
    xd_tensor_info info;
    float read[6];
    released = 0;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    OK(xd_tensor_permute(tensor, 2, axes, &turned));
    OK(xd_tensor_slice(tensor, 2, part, &sliced));
    OK(xd_tensor_reshape(tensor, 1, flat, &line));
    OK(xd_tensor_describe(line, &info));
    CHECK(info.ndim == 1 && info.data == (uint64_t)(uintptr_t)numbers);
    OK(xd_tensor_read(turned, read, sizeof read));
    CHECK(read[0] == 0 && read[1] == 3 && read[2] == 1 && read[5] == 5);
    OK(xd_tensor_read(sliced, read, 4 * sizeof *read));
    CHECK(read[0] == 3 && read[1] == 5 && read[2] == 0 && read[3] == 2);
    read[0] = 10;
    OK(xd_tensor_write(sliced, read, 4 * sizeof *read));
    CHECK(numbers[3] == 10);
    numbers[3] = 3;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reshape(turned, 1, flat, &line));
    xd_tensor_free(tensor);
    xd_tensor_free(turned);
    xd_tensor_free(line);
    CHECK(released == 0);
    xd_tensor_free(sliced);
    CHECK(released == 1);
}

static void an_owner_is_released_once_when_it_is_refused(const xd_runtime *runtime) {
    static const int64_t shape[2] = {2, 3}, negative[2] = {2, -3}, huge[2] = {INT64_MAX, 3};
    static const int64_t strides[2] = {INT64_MAX, 1};
    xd_tensor *tensor = NULL;
    int wrong;
    for (wrong = 0; wrong < 10; wrong++) {
        xd_memory memory = memory_of(shape);
        switch (wrong) {
        case 0: memory.layout.shape = negative; break;
        case 1: memory.layout.shape = huge; break;
        case 2: memory.layout.strides = strides; break;
        case 3: memory.layout.dtype.lanes = 0; break;
        case 4: memory.data = NULL; break;
        case 5: memory.device.device_id = -1; break;
        case 6: memory.byte_offset = UINT64_MAX; break;
        case 7: memory.layout.shape = NULL; break;
        case 8: memory.layout.ndim = 65; break;
        default: memory.flags = 16;
        }
        released = 0;
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, &tensor));
        CHECK(released == 1 && !tensor);
    }
    {
        xd_memory memory = memory_of(shape);
        released = 0;
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(NULL, &memory, &tensor));
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, NULL));
        CHECK(released == 2);
        memory.struct_size = 8;
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, &tensor));
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, NULL, &tensor));
        CHECK(released == 2 && !tensor);
    }
}

static void a_device_that_nobody_names_is_found_by_the_address(const xd_runtime *runtime,
                                                               const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3}, nothing[2] = {0, 3}, beyond[2] = {2, 1 << 20};
    xd_memory memory = memory_of(shape);
    xd_tensor *own = check_numbers(cpu, 6), *tensor = NULL;
    xd_tensor_info info;
    released = 0;
    /* What is named is not looked at: it need be no device. */
    memory.device.device_type = 0;
    memory.flags = XD_MEMORY_FLAG_FIND_DEVICE | XD_MEMORY_FLAG_READ_ONLY;
    FAILS(XD_ERROR_UNKNOWN_DEVICE, XD_NO_DEVICE, xd_tensor_from_memory(runtime, &memory, &tensor));
    CHECK(released == 1 && !tensor);
    OK(xd_tensor_describe(own, &info));
    memory.data = (void *)(uintptr_t)info.data;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.device.device_type == kDLCPU && info.read_only && info.data == (uintptr_t)memory.data);
    check_has_numbers(tensor, 6);
    xd_tensor_free(tensor);
    CHECK(released == 2);
    tensor = NULL;
    memory.layout.shape = beyond;
    FAILS(XD_ERROR_EXCHANGE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, &tensor));
    memory.layout.shape = shape;
    memory.data = NULL;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, &tensor));
    CHECK(released == 4 && !tensor);
    /* Where nothing lies, the device counts, and that has to be one. */
    memory.layout.shape = nothing;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_from_memory(runtime, &memory, &tensor));
    memory.device.device_type = kDLCPU;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    xd_tensor_free(tensor);
    CHECK(released == 6);
    xd_tensor_free(own);
}

static void only_devices_with_handles_adopt_native_objects(const xd_runtime *runtime) {
    static const int64_t shape[2] = {2, 3};
    xd_memory memory = memory_of(shape);
    xd_tensor *tensor = NULL;
    released = 0;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_adopt_native(runtime, &memory, &tensor));
    CHECK(released == 1 && !tensor);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_adopt_native(NULL, &memory, &tensor));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_adopt_native(runtime, &memory, NULL));
    CHECK(released == 3);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_adopt_native(runtime, NULL, &tensor));
    /* A handle is one of the device that is named. */
    memory.flags = XD_MEMORY_FLAG_FIND_DEVICE;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_adopt_native(runtime, &memory, &tensor));
    CHECK(released == 4);
}

static void read_only_memory_is_not_written(const xd_runtime *runtime, const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3};
    xd_memory memory = memory_of(shape);
    xd_tensor *tensor = NULL;
    DLManagedTensorVersioned *managed = NULL;
    xd_stream *stream = NULL;
    float one = 1;
    released = 0;
    OK(xd_stream_create(cpu, &stream));
    memory.flags = XD_MEMORY_FLAG_READ_ONLY;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_fill(tensor, &one, sizeof one, NULL));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_written_on(tensor, stream));
    xd_stream_free(stream);
    OK(xd_tensor_export(tensor, NULL, &managed));
    CHECK(managed->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    xd_tensor_free(tensor);
    CHECK(released == 0);
    managed->deleter(managed);
    CHECK(released == 1);
}

static void a_reinterpretation_shares_memory_and_order(const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3}, bytes[1] = {24}, last[1] = {4}, beyond[1] = {21};
    static const int64_t backwards[1] = {-1};
    xd_layout layout = check_layout(2, shape), view_layout = check_layout(1, bytes);
    xd_tensor *tensor = check_numbers(cpu, 6), *view = NULL, *read_only = NULL, *wide = NULL, *copy = NULL;
    xd_tensor_info info, own;
    xd_stream *stream = NULL;
    xd_event *host = NULL;
    xd_move_options move;
    float one = 1, two = 2, read[6];
    uint8_t reversed[4];
    OK(xd_tensor_fill(tensor, &one, sizeof one, NULL));
    view_layout.dtype.code = kDLUInt;
    view_layout.dtype.bits = 8;
    OK(xd_tensor_reinterpret(tensor, 0, &view_layout, 0, &view));
    OK(xd_tensor_describe(tensor, &own));
    OK(xd_tensor_describe(view, &info));
    CHECK(info.data == own.data && info.nbytes == 24 && !info.read_only);
    /* A write of the tensor waits for the copy of its bytes. */
    OK(xd_stream_create(cpu, &stream));
    OK(xd_event_create_host(cpu, &host));
    OK(xd_stream_wait(stream, host, NULL));
    memset(&move, 0, sizeof move);
    move.struct_size = sizeof move;
    move.copy = XD_COPY_ALWAYS;
    move.stream = stream;
    OK(xd_tensor_to(view, cpu, &move, &copy, NULL));
    OK(xd_tensor_fill(tensor, &two, sizeof two, stream));
    OK(xd_event_complete(host, XD_OK));
    OK(xd_tensor_reinterpret(copy, 0, &layout, 0, &wide));
    OK(xd_tensor_read(wide, read, sizeof read));
    CHECK(read[0] == 1 && read[5] == 1);
    OK(xd_tensor_read(tensor, read, sizeof read));
    CHECK(read[0] == 2 && read[5] == 2);
    xd_tensor_free(wide);
    /* Parts of it, backwards too, without the right to write. */
    view_layout.shape = last;
    view_layout.strides = backwards;
    OK(xd_tensor_reinterpret(tensor, 23, &view_layout, XD_MEMORY_FLAG_READ_ONLY, &read_only));
    OK(xd_tensor_read(read_only, reversed, sizeof reversed));
    CHECK(reversed[0] == 0x40 && reversed[1] == 0);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_write(read_only, reversed, sizeof reversed));
    OK(xd_tensor_reinterpret(read_only, 0, &view_layout, 0, &wide));
    OK(xd_tensor_describe(wide, &info));
    CHECK(info.read_only && info.data == own.data + 23);
    xd_tensor_free(wide);
    wide = NULL;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reinterpret(tensor, 2, &view_layout, 0, &wide));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reinterpret(tensor, 24, &view_layout, 0, &wide));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reinterpret(tensor, INT64_MIN, &view_layout, 0, &wide));
    view_layout.shape = beyond;
    view_layout.strides = NULL;
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reinterpret(tensor, 4, &view_layout, 0, &wide));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reinterpret(tensor, 0, &view_layout, 2, &wide));
    CHECK(!wide);
    xd_event_free(host);
    xd_stream_free(stream);
    xd_tensor_free(read_only);
    xd_tensor_free(copy);
    xd_tensor_free(view);
    xd_tensor_free(tensor);
}

static void elements_that_overlap_are_not_written(const xd_runtime *runtime, const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3}, repeated[2] = {0, 1}, sliding[2] = {1, 1};
    static const int64_t between[2] = {3, 2}, interleaved[2] = {2, 3};
    static const char *const axes[2] = {"axes [0] of", "axes [0, 1] of"};
    const int64_t *const strides[2] = {repeated, sliding};
    xd_layout layout = check_layout(2, shape);
    xd_tensor *source = NULL;
    int wrong;
    OK(xd_tensor_empty(cpu, &layout, NULL, &source));
    for (wrong = 0; wrong < 2; wrong++) {
        xd_memory memory = memory_of(shape);
        xd_tensor *tensor = NULL;
        xd_error *error;
        float values[6] = {9, 9, 9, 9, 9, 9};
        memory.layout.strides = strides[wrong];
        OK(xd_tensor_from_memory(runtime, &memory, &tensor));
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_fill(tensor, values, sizeof *values, NULL));
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_copy_from(tensor, source, NULL));
        FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_copy_from(tensor, tensor, NULL));
        error = xd_tensor_write(tensor, values, sizeof values);
        CHECK(error && strstr(xd_error_why(error), axes[wrong]));
        check_fails(error, XD_ERROR_MISUSE, XD_INVALID, __FILE__, __LINE__);
        OK(xd_tensor_read(tensor, values, sizeof values));
        CHECK(values[0] == 0 && values[2] == 2 && values[3] == (wrong ? 1 : 0));
        xd_tensor_free(tensor);
    }
    xd_tensor_free(source);
    {
        static const float places[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        float room[8], values[6] = {10, 13, 12, 15, 14, 17}, read[6];
        xd_memory memory = memory_of(between);
        xd_tensor *tensor = NULL;
        memcpy(room, places, sizeof room);
        memory.data = room;
        memory.layout.strides = interleaved;
        OK(xd_tensor_from_memory(runtime, &memory, &tensor));
        OK(xd_tensor_write(tensor, values, sizeof values));
        OK(xd_tensor_read(tensor, read, sizeof read));
        CHECK(memcmp(values, read, sizeof read) == 0);
        CHECK(room[0] == 10 && room[1] == 1 && room[2] == 12 && room[3] == 13);
        CHECK(room[4] == 14 && room[5] == 15 && room[6] == 6 && room[7] == 17);
        xd_tensor_free(tensor);
    }
}

static void memory_that_a_stream_writes_is_waited_for(const xd_runtime *runtime,
                                                      const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3};
    xd_memory memory = memory_of(shape);
    xd_tensor *tensor = NULL;
    xd_stream *stream = NULL;
    xd_event *host_event = NULL;
    released = 0;
    OK(xd_stream_create(cpu, &stream));
    OK(xd_event_create_host(cpu, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    memory.stream = stream;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_tensor_synchronize(tensor, 1000000));
    OK(xd_event_complete(host_event, XD_OK));
    OK(xd_tensor_synchronize(tensor, XD_NO_LIMIT));
    xd_tensor_free(tensor);
    OK(xd_stream_synchronize(stream, XD_NO_LIMIT));
    xd_stream_free(stream);
    xd_event_free(host_event);
}

static void wrong_sizes_and_counts_are_refused(const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3};
    static const uint32_t axes[2] = {1, 1}, far[2] = {0, 7};
    static const xd_axis_slice outside[2] = {{0, 1, 2}, {1, 1, 3}};
    static const xd_axis_slice still[2] = {{0, 0, 2}, {0, 1, 1}};
    xd_layout layout = check_layout(2, shape);
    xd_tensor *tensor = NULL, *view = NULL;
    OK(xd_tensor_empty(cpu, &layout, NULL, &tensor));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_write(tensor, numbers, sizeof numbers - 1));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_read(tensor, numbers, UINT64_MAX));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_read(tensor, NULL, sizeof numbers));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_fill(tensor, numbers, 3, NULL));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_fill(tensor, numbers, UINT64_MAX, NULL));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_permute(tensor, 1, axes, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_permute(tensor, 2, axes, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_permute(tensor, 2, far, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_slice(tensor, 2, outside, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_slice(tensor, 2, still, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_slice(tensor, UINT32_MAX, outside, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reshape(tensor, 1, shape, &view));
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_reshape(tensor, UINT32_MAX, shape, &view));
    CHECK(!view);
    xd_tensor_free(tensor);
}

static void tensors_are_filled_and_copied(const xd_device *cpu) {
    xd_tensor *tensor = check_numbers(cpu, 6), *other = check_numbers(cpu, 6);
    float seven = 7, read[6];
    OK(xd_tensor_fill(tensor, &seven, sizeof seven, NULL));
    OK(xd_tensor_read(tensor, read, sizeof read));
    CHECK(read[0] == 7 && read[5] == 7);
    OK(xd_tensor_copy_from(tensor, other, NULL));
    check_has_numbers(tensor, 6);
    xd_tensor_free(tensor);
    tensor = check_numbers(cpu, 5);
    FAILS(XD_ERROR_MISUSE, XD_INVALID, xd_tensor_copy_from(tensor, other, NULL));
    xd_tensor_free(tensor);
    xd_tensor_free(other);
}

static void host_memory_is_registered_until_it_is_freed(const xd_runtime *runtime,
                                                        const xd_device *cpu) {
    static const int64_t shape[2] = {2, 3};
    xd_memory memory = memory_of(shape);
    xd_tensor *tensor = NULL, *own = check_numbers(cpu, 6);
    xd_registration *first = NULL, *second = NULL;
    released = 0;
    OK(xd_tensor_from_memory(runtime, &memory, &tensor));
    OK(xd_tensor_register(tensor, cpu, &first));
    FAILS(XD_ERROR_HOOK, XD_CONFLICT, xd_tensor_register(tensor, cpu, &second));
    xd_registration_free(first);
    OK(xd_tensor_register(tensor, cpu, &second));
    xd_tensor_free(tensor);
    CHECK(released == 0);
    xd_registration_free(second);
    CHECK(released == 1);
    /* What a plugin allocated it knows. */
    FAILS(XD_ERROR_HOOK, XD_CONFLICT, xd_tensor_register(own, cpu, &first));
    xd_tensor_free(own);
}

static void padded_elements_say_so(const xd_device *cpu) {
    static const int64_t shape[1] = {3};
    xd_layout layout = {{kDLInt, 4, 1}, 1, NULL, NULL, 1, 0};
    xd_tensor *tensor = NULL;
    DLManagedTensorVersioned *managed = NULL;
    xd_tensor_info info;
    layout.shape = shape;
    OK(xd_tensor_empty(cpu, &layout, NULL, &tensor));
    OK(xd_tensor_describe(tensor, &info));
    CHECK(info.padded && info.nbytes == 3);
    OK(xd_tensor_export(tensor, NULL, &managed));
    CHECK(managed->flags == DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
    managed->deleter(managed);
    xd_tensor_free(tensor);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    an_owner_is_released_with_the_last_view(runtime);
    a_reinterpretation_shares_memory_and_order(cpu);
    an_owner_is_released_once_when_it_is_refused(runtime);
    a_device_that_nobody_names_is_found_by_the_address(runtime, cpu);
    only_devices_with_handles_adopt_native_objects(runtime);
    read_only_memory_is_not_written(runtime, cpu);
    elements_that_overlap_are_not_written(runtime, cpu);
    memory_that_a_stream_writes_is_waited_for(runtime, cpu);
    wrong_sizes_and_counts_are_refused(cpu);
    tensors_are_filled_and_copied(cpu);
    host_memory_is_registered_until_it_is_freed(runtime, cpu);
    padded_elements_say_so(cpu);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
