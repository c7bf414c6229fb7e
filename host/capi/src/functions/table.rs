//! The table itself: every exported function in its place.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock_api::{API_MAJOR, API_MINOR, XdApi};
use crossdock_sdk::fence::fence;

use crate::crossing::error_object::*;
use crate::functions::device::*;
use crate::functions::event::*;
use crate::functions::library::*;
use crate::functions::lists::*;
use crate::functions::log_function::*;
use crate::functions::names::*;
use crate::functions::plugin::*;
use crate::functions::pointer::*;
use crate::functions::registration::*;
use crate::functions::route::*;
use crate::functions::runtime::*;
use crate::functions::scripts::function::*;
use crate::functions::scripts::script::*;
use crate::functions::scripts::session::*;
use crate::functions::scripts::value::*;
use crate::functions::stream::*;
use crate::functions::tensors::data::*;
use crate::functions::tensors::exchange::*;
use crate::functions::tensors::order::*;
use crate::functions::tensors::tensor::*;
use crate::functions::tensors::views::*;
use crate::functions::trace::*;

static API: XdApi = XdApi {
    struct_size: size_of::<XdApi>() as u64,
    abi_major: API_MAJOR,
    abi_minor: API_MINOR,
    abi_version: xd_abi_version,
    version: xd_version,
    exiting: xd_exiting,
    counted_leaks: xd_counted_leaks,
    release_through: xd_release_through,
    log_set: xd_log_set,
    trace_start: xd_trace_start,
    trace_stop: xd_trace_stop,
    error_create: xd_error_create,
    error_kind: xd_error_kind,
    error_status: xd_error_status,
    error_operation: xd_error_operation,
    error_plugin: xd_error_plugin,
    error_device: xd_error_device,
    error_native_code: xd_error_native_code,
    error_native_name: xd_error_native_name,
    error_message: xd_error_message,
    error_why: xd_error_why,
    error_hint: xd_error_hint,
    error_text: xd_error_text,
    error_exception: xd_error_exception,
    error_traceback: xd_error_traceback,
    error_exit_code: xd_error_exit_code,
    error_free: xd_error_free,
    status_name: xd_status_name,
    dtype_text: xd_dtype_text,
    dtype_from_text: xd_dtype_from_text,
    dl_device_text: xd_dl_device_text,
    dl_device_from_text: xd_dl_device_from_text,
    runtime_open: xd_runtime_open,
    runtime_default: xd_runtime_default,
    runtime_make_default: xd_runtime_make_default,
    runtime_retain: xd_runtime_retain,
    runtime_free: xd_runtime_free,
    runtime_plugins: xd_runtime_plugins,
    plugin_list_free: xd_plugin_list_free,
    runtime_refused: xd_runtime_refused,
    error_list_free: xd_error_list_free,
    runtime_load_plugin: xd_runtime_load_plugin,
    runtime_retire_plugin: xd_runtime_retire_plugin,
    runtime_wait_for_releases: xd_runtime_wait_for_releases,
    runtime_may_start_drivers: xd_runtime_may_start_drivers,
    runtime_devices: xd_runtime_devices,
    device_list_free: xd_device_list_free,
    runtime_device: xd_runtime_device,
    runtime_device_named: xd_runtime_device_named,
    runtime_target_named: xd_runtime_target_named,
    runtime_device_by_uuid: xd_runtime_device_by_uuid,
    runtime_device_by_pci: xd_runtime_device_by_pci,
    plugin_name: xd_plugin_name,
    plugin_vendor: xd_plugin_vendor,
    plugin_version: xd_plugin_version,
    plugin_path: xd_plugin_path,
    plugin_state: xd_plugin_state,
    plugin_detail: xd_plugin_detail,
    plugin_retain: xd_plugin_retain,
    plugin_free: xd_plugin_free,
    device_describe: xd_device_describe,
    device_memory: xd_device_memory,
    device_memory_usage: xd_device_memory_usage,
    device_reset_peaks: xd_device_reset_peaks,
    device_trim: xd_device_trim,
    device_plugin: xd_device_plugin,
    device_equal: xd_device_equal,
    device_hash: xd_device_hash,
    device_synchronize: xd_device_synchronize,
    device_retain: xd_device_retain,
    device_free: xd_device_free,
    tensor_empty: xd_tensor_empty,
    tensor_from_memory: xd_tensor_from_memory,
    tensor_adopt_native: xd_tensor_adopt_native,
    tensor_import: xd_tensor_import,
    tensor_import_legacy: xd_tensor_import_legacy,
    tensor_export: xd_tensor_export,
    tensor_try_export: xd_tensor_try_export,
    tensor_export_legacy: xd_tensor_export_legacy,
    tensor_describe: xd_tensor_describe,
    tensor_device: xd_tensor_device,
    tensor_retain: xd_tensor_retain,
    tensor_free: xd_tensor_free,
    tensor_slice: xd_tensor_slice,
    tensor_permute: xd_tensor_permute,
    tensor_reshape: xd_tensor_reshape,
    tensor_reinterpret: xd_tensor_reinterpret,
    tensor_read: xd_tensor_read,
    tensor_write: xd_tensor_write,
    tensor_copy_from: xd_tensor_copy_from,
    tensor_fill: xd_tensor_fill,
    tensor_to: xd_tensor_to,
    tensor_register: xd_tensor_register,
    registration_free: xd_registration_free,
    tensor_synchronize: xd_tensor_synchronize,
    tensor_ready: xd_tensor_ready,
    tensor_wait_to_read: xd_tensor_wait_to_read,
    tensor_wait_to_write: xd_tensor_wait_to_write,
    tensor_used_on: xd_tensor_used_on,
    tensor_written_on: xd_tensor_written_on,
    tensor_ready_on: xd_tensor_ready_on,
    stream_create: xd_stream_create,
    stream_default: xd_stream_default,
    stream_wrap: xd_stream_wrap,
    stream_find: xd_stream_find,
    stream_device: xd_stream_device,
    stream_native_handle: xd_stream_native_handle,
    stream_record: xd_stream_record,
    stream_wait: xd_stream_wait,
    stream_synchronize: xd_stream_synchronize,
    stream_is_idle: xd_stream_is_idle,
    stream_equal: xd_stream_equal,
    stream_retain: xd_stream_retain,
    stream_free: xd_stream_free,
    event_create_host: xd_event_create_host,
    event_complete: xd_event_complete,
    event_device: xd_event_device,
    event_is_done: xd_event_is_done,
    event_synchronize: xd_event_synchronize,
    event_elapsed: xd_event_elapsed,
    event_retain: xd_event_retain,
    event_free: xd_event_free,
    pointer_query: xd_pointer_query,
    route_explain: xd_route_explain,
    tensor_explain: xd_tensor_explain,
    route_kind: xd_route_kind,
    route_bytes_copied: xd_route_bytes_copied,
    route_cost_ns: xd_route_cost_ns,
    route_text: xd_route_text,
    route_step: xd_route_step,
    route_refused: xd_route_refused,
    route_instead: xd_route_instead,
    route_free: xd_route_free,
    script_open: xd_script_open,
    script_explain: xd_script_explain,
    script_describe: xd_script_describe,
    script_free: xd_script_free,
    session_create: xd_session_create,
    session_run_text: xd_session_run_text,
    session_run_file: xd_session_run_file,
    session_run_module: xd_session_run_module,
    session_set: xd_session_set,
    session_get: xd_session_get,
    session_set_tensor: xd_session_set_tensor,
    session_get_tensor: xd_session_get_tensor,
    session_call: xd_session_call,
    session_reload: xd_session_reload,
    session_define: xd_session_define,
    answer_set: xd_answer_set,
    session_interrupt: xd_session_interrupt,
    session_describe: xd_session_describe,
    session_free: xd_session_free,
    value_clear: xd_value_clear,
};

/// The table of this copy of the library.
#[must_use]
pub const fn api() -> &'static XdApi {
    &API
}

/// The same for C: never NULL, and valid until the process ends.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_get_api() -> *const XdApi {
    // Python's import holds its lock here, so none of its threads forks meanwhile.
    let _caught = fence(crossdock::watch_process);
    std::ptr::from_ref(&API)
}
