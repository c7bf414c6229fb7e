/* NULL everywhere: an error or an answer, never a crash, and nothing is written. */
#include "check.h"

#define REFUSED(call) FAILS(XD_ERROR_MISUSE, XD_INVALID, call)

static void frees(void) {
    xd_error_free(NULL);
    xd_runtime_free(NULL);
    xd_plugin_list_free(NULL);
    xd_error_list_free(NULL);
    xd_device_list_free(NULL);
    xd_plugin_free(NULL);
    xd_device_free(NULL);
    xd_tensor_free(NULL);
    xd_stream_free(NULL);
    xd_event_free(NULL);
    xd_registration_free(NULL);
    xd_route_free(NULL);
    xd_script_free(NULL);
    xd_session_free(NULL);
    xd_value_clear(NULL);
}

static void retains(void) {
    CHECK(!xd_runtime_retain(NULL) && !xd_plugin_retain(NULL) && !xd_device_retain(NULL));
    CHECK(!xd_tensor_retain(NULL) && !xd_stream_retain(NULL) && !xd_event_retain(NULL));
}

static void accessors(void) {
    CHECK(xd_device_equal(NULL, NULL) == 0);
    CHECK(xd_runtime_may_start_drivers(NULL) == 0);
    CHECK(xd_device_hash(NULL) == 0 && xd_stream_equal(NULL, NULL) == 0);
    CHECK(!*xd_plugin_name(NULL) && !*xd_plugin_vendor(NULL) && !*xd_plugin_version(NULL));
    CHECK(!*xd_plugin_path(NULL) && !*xd_plugin_detail(NULL));
    CHECK(xd_plugin_state(NULL) == XD_PROBE_BROKEN);
    CHECK(xd_route_kind(NULL) == XD_ROUTE_REFUSED && xd_route_bytes_copied(NULL) == 0);
    CHECK(!*xd_route_text(NULL) && !xd_route_step(NULL, 0) && !xd_route_refused(NULL, 0));
    CHECK(!*xd_error_traceback(NULL) && !*xd_error_exception(NULL) && !xd_error_exit_code(NULL));
    CHECK(!xd_route_instead(NULL, 0) && xd_route_cost_ns(NULL) == XD_COST_UNKNOWN);
}

static void handles(xd_runtime *runtime, xd_device *device, xd_tensor *tensor) {
    xd_dl_device pair = {kDLCPU, 0};
    xd_layout layout = check_layout(0, NULL);
    xd_device *out = NULL;
    xd_tensor *made = NULL;
    xd_memory_kind kind = 0;
    REFUSED(xd_trace_start(NULL));
    REFUSED(xd_release_through(NULL));
    REFUSED(xd_runtime_make_default(NULL));
    REFUSED(xd_runtime_plugins(NULL, (xd_plugin_list **)&out));
    REFUSED(xd_runtime_refused(NULL, (xd_error_list **)&out));
    REFUSED(xd_runtime_load_plugin(runtime, NULL, (xd_plugin **)&out));
    REFUSED(xd_runtime_retire_plugin(runtime, NULL));
    REFUSED(xd_runtime_wait_for_releases(NULL, 0));
    REFUSED(xd_runtime_devices(NULL, (xd_device_list **)&out));
    REFUSED(xd_runtime_device(NULL, pair, &out));
    REFUSED(xd_runtime_device_named(runtime, NULL, &out));
    REFUSED(xd_runtime_target_named(runtime, NULL, &out, &kind));
    REFUSED(xd_runtime_target_named(NULL, "cpu", &out, &kind));
    REFUSED(xd_runtime_device_by_uuid(runtime, NULL, &out));
    REFUSED(xd_runtime_device_by_pci(runtime, NULL, &out));
    REFUSED(xd_device_plugin(NULL, (xd_plugin **)&out));
    REFUSED(xd_device_synchronize(NULL, 0));
    REFUSED(xd_device_trim(NULL, 0));
    REFUSED(xd_device_reset_peaks(NULL));
    REFUSED(xd_tensor_empty(NULL, &layout, NULL, &made));
    REFUSED(xd_tensor_empty(device, NULL, NULL, &made));
    REFUSED(xd_tensor_import(runtime, NULL, NULL, &made));
    REFUSED(xd_tensor_import_legacy(runtime, NULL, NULL, &made));
    REFUSED(xd_tensor_export(NULL, NULL, (DLManagedTensorVersioned **)&out));
    REFUSED(xd_tensor_try_export(NULL, (DLManagedTensorVersioned **)&out));
    REFUSED(xd_tensor_export_legacy(NULL, NULL, (DLManagedTensor **)&out));
    REFUSED(xd_tensor_device(NULL, &out));
    REFUSED(xd_tensor_slice(tensor, 1, NULL, &made));
    REFUSED(xd_tensor_permute(tensor, 1, NULL, &made));
    REFUSED(xd_tensor_reshape(tensor, 1, NULL, &made));
    REFUSED(xd_tensor_reinterpret(NULL, 0, &layout, 0, &made));
    REFUSED(xd_tensor_reinterpret(tensor, 0, NULL, 0, &made));
    REFUSED(xd_tensor_write(tensor, NULL, 16));
    REFUSED(xd_tensor_copy_from(tensor, NULL, NULL));
    REFUSED(xd_tensor_fill(tensor, NULL, 4, NULL));
    REFUSED(xd_tensor_to(NULL, device, NULL, &made, NULL));
    REFUSED(xd_tensor_to(tensor, NULL, NULL, &made, NULL));
    REFUSED(xd_tensor_register(NULL, device, (xd_registration **)&out));
    REFUSED(xd_tensor_register(tensor, NULL, (xd_registration **)&out));
    REFUSED(xd_tensor_synchronize(NULL, 0));
    REFUSED(xd_tensor_wait_to_read(tensor, NULL));
    REFUSED(xd_tensor_wait_to_write(tensor, NULL));
    REFUSED(xd_tensor_used_on(tensor, NULL));
    REFUSED(xd_tensor_written_on(tensor, NULL));
    REFUSED(xd_tensor_ready_on(NULL, NULL));
    REFUSED(xd_tensor_ready_on(tensor, NULL));
    REFUSED(xd_stream_create(NULL, (xd_stream **)&out));
    REFUSED(xd_stream_default(NULL, (xd_stream **)&out));
    REFUSED(xd_stream_wrap(NULL, 0, (xd_stream **)&out));
    REFUSED(xd_stream_device(NULL, &out));
    REFUSED(xd_stream_record(NULL, (xd_event **)&out));
    REFUSED(xd_stream_wait(NULL, NULL, NULL));
    REFUSED(xd_stream_synchronize(NULL, 0));
    REFUSED(xd_event_create_host(NULL, (xd_event **)&out));
    REFUSED(xd_event_complete(NULL, XD_OK));
    REFUSED(xd_event_device(NULL, &out));
    REFUSED(xd_event_synchronize(NULL, 0));
    REFUSED(xd_route_explain(device, NULL, &layout, NULL, (xd_route **)&out));
    REFUSED(xd_route_explain(device, device, NULL, NULL, (xd_route **)&out));
    REFUSED(xd_stream_find(NULL, 1, (xd_stream **)&out));
    REFUSED(xd_tensor_explain(NULL, device, NULL, (xd_route **)&out));
    REFUSED(xd_tensor_explain(tensor, NULL, NULL, (xd_route **)&out));
    CHECK(!out && !made);
}

static xd_error *no_answer(void *word, const xd_arguments *arguments, const xd_answer *answer) {
    (void)word, (void)arguments, (void)answer;
    return NULL;
}

static void count(void *word) { ++*(int *)word; }

static void scripts(void) {
    int released = 0;
    xd_value value = {XD_VALUE_NONE, 0, 0, 0, NULL, 0, NULL, NULL};
    xd_script_info info;
    xd_session_state state;
    xd_session *session = NULL;
    xd_tensor *tensor = NULL;
    REFUSED(xd_script_open(NULL, NULL, NULL));
    REFUSED(xd_script_explain(NULL, NULL));
    REFUSED(xd_script_describe(NULL, &info));
    REFUSED(xd_session_create(NULL, NULL, &session));
    REFUSED(xd_session_run_text(NULL, "", NULL, NULL));
    REFUSED(xd_session_run_file(NULL, "", NULL));
    REFUSED(xd_session_run_module(NULL, "", NULL));
    REFUSED(xd_session_set(NULL, "x", &value));
    REFUSED(xd_session_get(NULL, "x", &value));
    REFUSED(xd_session_set_tensor(NULL, "x", NULL));
    REFUSED(xd_session_get_tensor(NULL, "x", NULL, &tensor));
    REFUSED(xd_session_call(NULL, "f", NULL, NULL, &value));
    REFUSED(xd_session_reload(NULL, NULL));
    REFUSED(xd_session_define(NULL, "f", no_answer, &released, count));
    CHECK(released == 1);
    REFUSED(xd_session_define(NULL, NULL, NULL, NULL, NULL));
    REFUSED(xd_answer_set(NULL, &value));
    REFUSED(xd_session_interrupt(NULL, NULL));
    REFUSED(xd_session_describe(NULL, &state));
    CHECK(!session && !tensor);
}

static void outs(xd_runtime *runtime, xd_device *device, xd_tensor *tensor) {
    xd_dl_device pair = {kDLCPU, 0};
    xd_layout layout = check_layout(0, NULL);
    xd_stream *stream = NULL;
    xd_event *event = NULL;
    OK(xd_stream_create(device, &stream));
    OK(xd_stream_record(stream, &event));
    REFUSED(xd_dtype_text(layout.dtype, NULL));
    REFUSED(xd_dtype_from_text("int8", NULL));
    REFUSED(xd_dl_device_text(pair, NULL));
    REFUSED(xd_dl_device_from_text("cpu", NULL));
    REFUSED(xd_runtime_open(NULL, NULL));
    REFUSED(xd_runtime_default(NULL));
    REFUSED(xd_runtime_plugins(runtime, NULL));
    REFUSED(xd_runtime_refused(runtime, NULL));
    REFUSED(xd_runtime_devices(runtime, NULL));
    REFUSED(xd_runtime_device(runtime, pair, NULL));
    REFUSED(xd_runtime_device_named(runtime, "cpu", NULL));
    REFUSED(xd_runtime_target_named(runtime, "cpu", NULL, NULL));
    REFUSED(xd_device_describe(device, NULL));
    REFUSED(xd_device_memory(device, NULL));
    REFUSED(xd_device_memory_usage(device, NULL));
    REFUSED(xd_device_plugin(device, NULL));
    REFUSED(xd_tensor_empty(device, &layout, NULL, NULL));
    REFUSED(xd_tensor_export(tensor, NULL, NULL));
    REFUSED(xd_tensor_try_export(tensor, NULL));
    REFUSED(xd_tensor_export_legacy(tensor, NULL, NULL));
    REFUSED(xd_tensor_describe(tensor, NULL));
    REFUSED(xd_tensor_device(tensor, NULL));
    REFUSED(xd_tensor_slice(tensor, 0, NULL, NULL));
    REFUSED(xd_tensor_permute(tensor, 0, NULL, NULL));
    REFUSED(xd_tensor_reshape(tensor, 0, NULL, NULL));
    REFUSED(xd_tensor_reinterpret(tensor, 0, &layout, 0, NULL));
    REFUSED(xd_tensor_read(tensor, NULL, 16));
    REFUSED(xd_tensor_to(tensor, device, NULL, NULL, NULL));
    REFUSED(xd_tensor_register(tensor, device, NULL));
    REFUSED(xd_tensor_ready(tensor, NULL));
    REFUSED(xd_stream_create(device, NULL));
    REFUSED(xd_stream_native_handle(stream, NULL));
    REFUSED(xd_stream_record(stream, NULL));
    REFUSED(xd_stream_is_idle(stream, NULL));
    REFUSED(xd_event_create_host(device, NULL));
    REFUSED(xd_event_is_done(event, NULL));
    REFUSED(xd_event_elapsed(event, event, NULL));
    REFUSED(xd_pointer_query(runtime, 1, NULL, NULL));
    REFUSED(xd_route_explain(device, device, &layout, NULL, NULL));
    REFUSED(xd_stream_find(device, 1, NULL));
    REFUSED(xd_tensor_explain(tensor, device, NULL, NULL));
    xd_event_free(event);
    xd_stream_free(stream);
}

int main(int argc, char **argv) {
    xd_runtime *runtime = check_runtime(argc, argv);
    xd_device *cpu = check_device(runtime, "cpu");
    xd_tensor *tensor = check_numbers(cpu, 4);
    frees();
    retains();
    accessors();
    handles(runtime, cpu, tensor);
    outs(runtime, cpu, tensor);
    scripts();
    xd_tensor_free(tensor);
    xd_device_free(cpu);
    xd_runtime_free(runtime);
    return 0;
}
