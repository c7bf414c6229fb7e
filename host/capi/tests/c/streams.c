/* Streams and events: ordered by each other, by the host, and across plugins. */
#include "check.h"

static void a_stream_waits_for_the_host(const xd_device *device, const xd_device *other) {
    xd_stream *stream = NULL, *same;
    xd_event *host_event = NULL, *end = NULL;
    xd_tensor *tensor = check_numbers(device, 16), *target = check_numbers(device, 16);
    float zero = 0;
    int32_t done = 7, idle = 7;
    uint32_t how = 99;
    OK(xd_stream_create(device, &stream));
    same = xd_stream_retain(stream);
    CHECK(same == stream);
    xd_stream_free(same);
    OK(xd_tensor_fill(target, &zero, sizeof zero, NULL));
    OK(xd_event_create_host(other, &host_event));
    OK(xd_stream_wait(stream, host_event, &how));
    CHECK(how <= XD_WAIT_HOST_THREAD);
    OK(xd_tensor_copy_from(target, tensor, stream));
    OK(xd_stream_record(stream, &end));
    OK(xd_event_is_done(end, &done));
    OK(xd_stream_is_idle(stream, &idle));
    CHECK(!done && !idle);
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_event_synchronize(end, 1000000));
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_stream_synchronize(stream, 1000000));
    OK(xd_event_complete(host_event, XD_OK));
    FAILS(XD_ERROR_HOOK, XD_INVALID, xd_event_complete(host_event, XD_OK));
    OK(xd_event_synchronize(end, XD_NO_LIMIT));
    OK(xd_stream_synchronize(stream, XD_NO_LIMIT));
    OK(xd_event_is_done(end, &done));
    OK(xd_stream_is_idle(stream, &idle));
    CHECK(done == 1 && idle == 1);
    check_has_numbers(target, 16);
    xd_tensor_free(tensor);
    xd_tensor_free(target);
    xd_event_free(end);
    xd_event_free(host_event);
    xd_stream_free(stream);
}

/* `crossdock doctor` knows nothing of a wrong call, and nobody knows whose failure this was. */
static void errors_say_whose_failure_it_is(const xd_device *device) {
    xd_stream *stream = NULL;
    xd_event *host_event = NULL;
    xd_error *error;
    OK(xd_stream_create(device, &stream));
    OK(xd_event_create_host(device, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    OK(xd_event_complete(host_event, XD_VENDOR));
    error = xd_stream_synchronize(stream, XD_NO_LIMIT);
    CHECK(error && strstr(xd_error_why(error), "another plugin's work, or the host, completed"));
    CHECK(strstr(xd_error_why(error), "VENDOR") && !strstr(xd_error_hint(error), "doctor"));
    xd_error_free(error);
    error = xd_event_complete(host_event, XD_OK);
    CHECK(error && !strstr(xd_error_hint(error), "doctor"));
    xd_error_free(error);
    xd_event_free(host_event);
    xd_stream_free(stream);
}

static void a_device_waits_for_all_its_streams(const xd_device *device) {
    xd_stream *stream = NULL;
    xd_event *host_event = NULL;
    xd_tensor *tensor = check_numbers(device, 16), *target = check_numbers(device, 16);
    OK(xd_stream_create(device, &stream));
    OK(xd_event_create_host(device, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    OK(xd_tensor_copy_from(target, tensor, stream));
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_device_synchronize(device, 1000000));
    OK(xd_event_complete(host_event, XD_OK));
    OK(xd_device_synchronize(device, XD_NO_LIMIT));
    check_has_numbers(target, 16);
    xd_tensor_free(tensor);
    xd_tensor_free(target);
    xd_event_free(host_event);
    xd_stream_free(stream);
}

static void a_tensor_knows_its_last_write(const xd_device *device) {
    xd_stream *stream = NULL, *reader = NULL;
    xd_event *host_event = NULL, *ready = NULL;
    xd_tensor *tensor = check_numbers(device, 16), *copy = check_numbers(device, 16);
    DLManagedTensorVersioned *managed = NULL;
    float zero = 0, numbers[16];
    OK(xd_tensor_try_export(tensor, &managed));
    CHECK(managed && managed->dl_tensor.ndim == 1);
    managed->deleter(managed);
    OK(xd_tensor_ready(tensor, &ready));
    CHECK(!ready);
    OK(xd_stream_create(device, &stream));
    OK(xd_stream_create(device, &reader));
    OK(xd_event_create_host(device, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    OK(xd_tensor_wait_to_write(tensor, stream));
    OK(xd_tensor_fill(tensor, &zero, sizeof zero, stream));
    OK(xd_tensor_written_on(tensor, stream));
    OK(xd_tensor_ready(tensor, &ready));
    CHECK(ready);
    OK(xd_tensor_try_export(tensor, &managed));
    CHECK(!managed);
    OK(xd_tensor_wait_to_read(tensor, reader));
    OK(xd_tensor_copy_from(copy, tensor, reader));
    OK(xd_tensor_used_on(tensor, reader));
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_tensor_synchronize(copy, 1000000));
    OK(xd_event_complete(host_event, XD_OK));
    OK(xd_tensor_synchronize(copy, XD_NO_LIMIT));
    OK(xd_tensor_read(copy, numbers, sizeof numbers));
    CHECK(numbers[1] == 0 && numbers[15] == 0);
    OK(xd_tensor_synchronize(tensor, XD_NO_LIMIT));
    OK(xd_tensor_try_export(tensor, &managed));
    CHECK(managed);
    managed->deleter(managed);
    xd_event_free(ready);
    xd_event_free(host_event);
    xd_stream_free(stream);
    xd_stream_free(reader);
    xd_tensor_free(tensor);
    xd_tensor_free(copy);
}

static int released;

static void count_release(DLManagedTensorVersioned *self) {
    (void)self;
    released++;
}

/* Memory of a producer that is freed while it is copied, and behind readiness only. */
static void releases_can_be_waited_for(const xd_runtime *runtime, const xd_device *device) {
    static float numbers[16] = {1, 2, 3};
    static int64_t shape[1] = {16}, strides[1] = {1};
    DLManagedTensorVersioned lent = {0};
    xd_stream *stream = NULL;
    xd_event *host_event = NULL;
    xd_tensor *tensor = NULL, *copy = check_numbers(device, 16);
    lent.version.major = 1;
    lent.deleter = count_release;
    lent.dl_tensor.data = numbers;
    lent.dl_tensor.device.device_type = 1;
    lent.dl_tensor.ndim = 1;
    lent.dl_tensor.dtype.code = 2;
    lent.dl_tensor.dtype.bits = 32;
    lent.dl_tensor.dtype.lanes = 1;
    lent.dl_tensor.shape = shape;
    lent.dl_tensor.strides = strides;
    OK(xd_stream_create(device, &stream));
    OK(xd_event_create_host(device, &host_event));
    OK(xd_stream_wait(stream, host_event, NULL));
    OK(xd_tensor_import(runtime, &lent, NULL, &tensor));
    OK(xd_tensor_ready_on(tensor, stream));
    xd_tensor_free(tensor);
    CHECK(released == 1);
    OK(xd_tensor_import(runtime, &lent, NULL, &tensor));
    OK(xd_tensor_copy_from(copy, tensor, stream));
    xd_tensor_free(tensor);
    FAILS(XD_ERROR_HOOK, XD_TIMEOUT, xd_runtime_wait_for_releases(runtime, 1000000));
    CHECK(released == 1);
    OK(xd_event_complete(host_event, XD_OK));
    OK(xd_runtime_wait_for_releases(runtime, XD_NO_LIMIT));
    CHECK(released == 2);
    xd_tensor_free(copy);
    xd_event_free(host_event);
    xd_stream_free(stream);
}

static void streams_and_events_know_their_device(const xd_device *device) {
    xd_stream *stream = NULL, *again = NULL, *wrapped = NULL;
    xd_event *event = NULL, *later = NULL, *same;
    xd_device *found = NULL;
    uint64_t native = 0, elapsed = 0;
    xd_error *error;
    OK(xd_stream_default(device, &stream));
    OK(xd_stream_default(device, &again));
    CHECK(xd_stream_equal(stream, again) == 1);
    xd_stream_free(again);
    OK(xd_stream_create(device, &again));
    CHECK(xd_stream_equal(stream, again) == 0);
    xd_stream_free(again);
    OK(xd_stream_device(stream, &found));
    CHECK(xd_device_equal(found, device));
    xd_device_free(found);
    OK(xd_stream_record(stream, &event));
    OK(xd_stream_record(stream, &later));
    OK(xd_event_device(event, &found));
    CHECK(xd_device_equal(found, device));
    xd_device_free(found);
    OK(xd_event_synchronize(event, XD_NO_LIMIT));
    OK(xd_event_synchronize(later, XD_NO_LIMIT));
    same = xd_event_retain(event);
    CHECK(same == event);
    xd_event_free(same);
    error = xd_event_elapsed(later, event, &elapsed);
    if (error) CHECK(xd_error_status(error) == XD_UNSUPPORTED);
    CHECK(elapsed < UINT64_C(60000000000));
    xd_error_free(error);
    error = xd_stream_native_handle(stream, &native);
    if (error) {
        CHECK(xd_error_status(error) == XD_UNSUPPORTED);
    } else {
        OK(xd_stream_wrap(device, native, &wrapped));
        OK(xd_stream_synchronize(wrapped, XD_NO_LIMIT));
        OK(xd_stream_find(device, native, &again));
        CHECK(xd_stream_equal(wrapped, stream) && xd_stream_equal(again, stream));
        xd_stream_free(again);
        OK(xd_stream_find(device, ~native, &again));
        CHECK(!again);
    }
    xd_error_free(error);
    xd_stream_free(wrapped);
    xd_event_free(event);
    xd_event_free(later);
    xd_stream_free(stream);
}

static void the_cpu_has_no_streams_of_others(xd_device *cpu) {
    xd_stream *stream = NULL;
    xd_error *error = xd_stream_wrap(cpu, 1, &stream);
    CHECK(error && !stream && xd_error_kind(error) == XD_ERROR_MISUSE);
    CHECK(strstr(xd_error_why(error), "`cpu:0` has no streams of other libraries"));
    xd_error_free(error);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_device *opencl = check_opencl(runtime);
    a_stream_waits_for_the_host(cpu, cpu);
    errors_say_whose_failure_it_is(cpu);
    a_device_waits_for_all_its_streams(cpu);
    a_tensor_knows_its_last_write(cpu);
    releases_can_be_waited_for(runtime, cpu);
    streams_and_events_know_their_device(cpu);
    the_cpu_has_no_streams_of_others(cpu);
    if (opencl) {
        a_stream_waits_for_the_host(opencl, cpu);
        a_stream_waits_for_the_host(cpu, opencl);
        errors_say_whose_failure_it_is(opencl);
        a_device_waits_for_all_its_streams(opencl);
        a_tensor_knows_its_last_write(opencl);
        streams_and_events_know_their_device(opencl);
    }
    xd_device_free(opencl);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
