//! The function table `xd_api`: size and version, then every function.

use std::ffi::c_void;

use crossdock_sdk::abi::{
    DeviceInfo, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, ProbeState, Status,
};
use crossdock_sdk::dlpack::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned};

use crate::answers::{NameText, XdAxisSlice, XdTensorInfo};
use crate::callbacks::{LogFunction, ReleaseGate, ScriptFunction, WordRelease};
use crate::handles::{
    Failure, Out, Owned, Ref, XdAnswer, XdDevice, XdError, XdEvent, XdPlugin, XdRegistration,
    XdRoute, XdRuntime, XdScript, XdSession, XdStream, XdTensor,
};
use crate::lists::{XdDeviceList, XdErrorList, XdPluginList};
use crate::numbers::{ErrorKind, MemoryFlags, RouteKind, StopOutcome, WaitKind};
use crate::options::{
    XdEmptyOptions, XdExportOptions, XdImportOptions, XdLayout, XdMemory, XdMoveOptions,
    XdRuntimeOptions,
};
use crate::script::{
    XdArguments, XdRunOptions, XdScriptInfo, XdScriptOptions, XdSessionOptions, XdSessionState,
    XdValue,
};
use crate::table_macro::table;
use crate::text::Text;

/// The table's major version: another one cannot be used.
pub const API_MAJOR: u32 = 1;

/// The table's minor version: it is raised when functions are added.
pub const API_MINOR: u32 = 0;

table! {
    /// The version of the table: major in the upper half, minor in the lower.
    abi_version: extern "C" fn() -> u32;
    /// The library's version, as in `1.0.0`.
    version: extern "C" fn() -> Text<'static>;
    /// 1 once the process has begun to exit: from then on frees become counted leaks.
    exiting: extern "C" fn() -> i32;
    /// How many things were leaked and not given back: because the process was exiting, because it is
    /// a fork, because nobody could say whether work still used them, or because a plugin did not let
    /// go of them.
    counted_leaks: extern "C" fn() -> u64;
    /// Calls the deleters of others through a function.
    release_through: unsafe extern "C" fn(ReleaseGate) -> Failure;
    /// Sends the log to a function, or nowhere (NULL), up to a level from 0 (off) to 5 (trace).
    log_set: unsafe extern "C" fn(LogFunction, word: *mut c_void, level: u32) -> Failure;
    /// Starts a trace of hooks, copies and routes into a file.
    trace_start: extern "C" fn(Text<'_>) -> Failure;
    /// Ends the trace and closes its file.
    trace_stop: extern "C" fn() -> Failure;

    /// Makes an error, for what the library calls. Why and hint may be NULL.
    error_create: extern "C" fn(
        Status,
        message: Text<'_>,
        why: Text<'_>,
        hint: Text<'_>,
    ) -> Failure;
    /// What kind of failure it is.
    error_kind: extern "C" fn(Ref<'_, XdError>) -> ErrorKind;
    /// The status number.
    error_status: extern "C" fn(Ref<'_, XdError>) -> Status;
    /// The operation that failed: the vendor's call where there is one.
    error_operation: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The plugin in which it failed, or empty.
    error_plugin: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The device it was about, as `cuda:0`, or empty.
    error_device: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The vendor's number, or 0.
    error_native_code: extern "C" fn(Ref<'_, XdError>) -> i64;
    /// The vendor's name of that number, or empty.
    error_native_name: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// What failed, one fragment.
    error_message: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// Why, one sentence.
    error_why: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// What to do.
    error_hint: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// What, why and what to do, on three lines.
    error_text: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The class of a script's exception with its module, as in `numpy.linalg.LinAlgError`.
    error_exception: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The traceback of a script's exception, as Python prints it; else empty.
    error_traceback: extern "C" fn(Ref<'_, XdError>) -> Text<'_>;
    /// The code with which a script asked to end; else 0.
    error_exit_code: extern "C" fn(Ref<'_, XdError>) -> i32;
    /// Frees an error.
    error_free: extern "C" fn(Owned<XdError>);

    /// The name of a status, as in `OOM_DEVICE`; empty for an unknown one.
    status_name: extern "C" fn(Status) -> Text<'static>;
    /// A dtype's name, as in `float32` or `int8x4`.
    dtype_text: extern "C" fn(DLDataType, Out<'_, NameText>) -> Failure;
    /// The dtype with this name.
    dtype_from_text: extern "C" fn(Text<'_>, Out<'_, DLDataType>) -> Failure;
    /// A device's name, as in `opencl:0`.
    dl_device_text: extern "C" fn(DLDevice, Out<'_, NameText>) -> Failure;
    /// The device with this name; a type alone means id 0.
    dl_device_from_text: extern "C" fn(Text<'_>, Out<'_, DLDevice>) -> Failure;

    /// Opens a runtime of its own. NULL options: the standard search.
    runtime_open:
        extern "C" fn(Ref<'_, XdRuntimeOptions<'_>>, Out<'_, Owned<XdRuntime>>) -> Failure;
    /// The process's runtime, opened with the standard search where there is none.
    runtime_default: extern "C" fn(Out<'_, Owned<XdRuntime>>) -> Failure;
    /// Makes a runtime the process's; a conflict where another one is.
    runtime_make_default: extern "C" fn(Ref<'_, XdRuntime>) -> Failure;
    /// The same runtime once more.
    runtime_retain: extern "C" fn(Ref<'_, XdRuntime>) -> Owned<XdRuntime>;
    /// Gives a runtime back.
    runtime_free: extern "C" fn(Owned<XdRuntime>);
    /// The plugins that are registered now.
    runtime_plugins: extern "C" fn(Ref<'_, XdRuntime>, Out<'_, Owned<XdPluginList>>) -> Failure;

    /// Gives a list back.
    plugin_list_free: extern "C" fn(Owned<XdPluginList>);

    /// Why files that the search found could not be loaded.
    runtime_refused: extern "C" fn(Ref<'_, XdRuntime>, Out<'_, Owned<XdErrorList>>) -> Failure;

    /// Gives a list back.
    error_list_free: extern "C" fn(Owned<XdErrorList>);

    /// Loads a plugin file beside those that are here.
    runtime_load_plugin:
        extern "C" fn(Ref<'_, XdRuntime>, Text<'_>, Out<'_, Owned<XdPlugin>>) -> Failure;
    /// Removes a plugin; tensors on it can still be freed.
    runtime_retire_plugin: extern "C" fn(Ref<'_, XdRuntime>, Ref<'_, XdPlugin>) -> Failure;
    /// Blocks until memory that was dropped while it was in use is given back.
    runtime_wait_for_releases: extern "C" fn(Ref<'_, XdRuntime>, limit_ns: u64) -> Failure;
    /// 1 while a question for devices may start drivers, which takes its time.
    runtime_may_start_drivers: extern "C" fn(Ref<'_, XdRuntime>) -> i32;
    /// The devices that are registered now.
    runtime_devices: extern "C" fn(Ref<'_, XdRuntime>, Out<'_, Owned<XdDeviceList>>) -> Failure;

    /// Gives a list back.
    device_list_free: extern "C" fn(Owned<XdDeviceList>);

    /// The device with a DLPack pair.
    runtime_device:
        extern "C" fn(Ref<'_, XdRuntime>, DLDevice, Out<'_, Owned<XdDevice>>) -> Failure;
    /// The device with a name, as in `opencl:0`.
    runtime_device_named:
        extern "C" fn(Ref<'_, XdRuntime>, Text<'_>, Out<'_, Owned<XdDevice>>) -> Failure;
    /// The device and the kind of memory that a target's name means, as in `cuda_host:1`.
    runtime_target_named: extern "C" fn(
        Ref<'_, XdRuntime>,
        Text<'_>,
        Out<'_, Owned<XdDevice>>,
        Out<'_, MemoryKind>,
    ) -> Failure;
    /// The first device with this uuid of 16 bytes.
    runtime_device_by_uuid:
        unsafe extern "C" fn(Ref<'_, XdRuntime>, *const u8, Out<'_, Owned<XdDevice>>) -> Failure;
    /// The first device at this place of the PCI bus.
    runtime_device_by_pci:
        extern "C" fn(Ref<'_, XdRuntime>, Text<'_>, Out<'_, Owned<XdDevice>>) -> Failure;

    /// The plugin's name.
    plugin_name: extern "C" fn(Ref<'_, XdPlugin>) -> Text<'_>;
    /// Who made it.
    plugin_vendor: extern "C" fn(Ref<'_, XdPlugin>) -> Text<'_>;
    /// Its own version.
    plugin_version: extern "C" fn(Ref<'_, XdPlugin>) -> Text<'_>;
    /// Its file; empty for the plugin that is linked in.
    plugin_path: extern "C" fn(Ref<'_, XdPlugin>) -> Text<'_>;
    /// What its probe found.
    plugin_state: extern "C" fn(Ref<'_, XdPlugin>) -> ProbeState;
    /// What was looked for (absent) or why it does not work (broken); else empty.
    plugin_detail: extern "C" fn(Ref<'_, XdPlugin>) -> Text<'_>;
    /// The same plugin once more.
    plugin_retain: extern "C" fn(Ref<'_, XdPlugin>) -> Owned<XdPlugin>;
    /// Gives a plugin back; it stays registered.
    plugin_free: extern "C" fn(Owned<XdPlugin>);

    /// What a device is, with the DLPack pair under which it is registered here.
    device_describe: extern "C" fn(Ref<'_, XdDevice>, Out<'_, DeviceInfo>) -> Failure;
    /// Its memory now.
    device_memory: extern "C" fn(Ref<'_, XdDevice>, Out<'_, MemoryInfo>) -> Failure;
    /// What its plugin has of its memory; `u64::MAX` for what is not known.
    device_memory_usage: extern "C" fn(Ref<'_, XdDevice>, Out<'_, MemoryUsage>) -> Failure;
    /// Begins the peaks of its memory's usage anew.
    device_reset_peaks: extern "C" fn(Ref<'_, XdDevice>) -> Failure;
    /// Gives cached memory back, until at most so many bytes of it are left.
    device_trim: extern "C" fn(Ref<'_, XdDevice>, keep_bytes: u64) -> Failure;
    /// The plugin that offers it.
    device_plugin: extern "C" fn(Ref<'_, XdDevice>, Out<'_, Owned<XdPlugin>>) -> Failure;
    /// 1 where both are the same device; 0 where one is NULL.
    device_equal: extern "C" fn(Ref<'_, XdDevice>, Ref<'_, XdDevice>) -> i32;
    /// The same number for every handle of one device, in this process.
    device_hash: extern "C" fn(Ref<'_, XdDevice>) -> u64;
    /// Waits until the work on all its streams is done; a limit in nanoseconds.
    device_synchronize: extern "C" fn(Ref<'_, XdDevice>, limit_ns: u64) -> Failure;
    /// The same device once more.
    device_retain: extern "C" fn(Ref<'_, XdDevice>) -> Owned<XdDevice>;
    /// Gives a device back.
    device_free: extern "C" fn(Owned<XdDevice>);

    /// Allocates a compact tensor; its content is undefined, and strides are ignored.
    tensor_empty: extern "C" fn(
        Ref<'_, XdDevice>,
        Ref<'_, XdLayout<'_>>,
        Ref<'_, XdEmptyOptions<'_>>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Takes memory with an owner; the owner is released also when it fails.
    tensor_from_memory: unsafe extern "C" fn(
        Ref<'_, XdRuntime>,
        Ref<'_, XdMemory<'_>>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Takes a native memory object of others (a `cl_mem`); the owner is released also when it
    /// fails.
    tensor_adopt_native: unsafe extern "C" fn(
        Ref<'_, XdRuntime>,
        Ref<'_, XdMemory<'_>>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Takes a tensor of DLPack 1.x; its deleter runs also when it fails.
    tensor_import: unsafe extern "C" fn(
        Ref<'_, XdRuntime>,
        *mut DLManagedTensorVersioned,
        Ref<'_, XdImportOptions<'_>>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Takes a tensor of DLPack 0.x; its deleter runs also when it fails.
    tensor_import_legacy: unsafe extern "C" fn(
        Ref<'_, XdRuntime>,
        *mut DLManagedTensor,
        Ref<'_, XdImportOptions<'_>>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Hands the tensor out as DLPack 1.3. The consumer calls its deleter once.
    tensor_export: extern "C" fn(
        Ref<'_, XdTensor>,
        Ref<'_, XdExportOptions<'_>>,
        Out<'_, *mut DLManagedTensorVersioned>,
    ) -> Failure;
    /// Hands the tensor out as DLPack 1.3 if that needs no wait; else writes NULL.
    tensor_try_export:
        extern "C" fn(Ref<'_, XdTensor>, Out<'_, *mut DLManagedTensorVersioned>) -> Failure;
    /// Hands the tensor out as DLPack 0.x, which cannot say that a tensor is read-only.
    tensor_export_legacy: extern "C" fn(
        Ref<'_, XdTensor>,
        Ref<'_, XdExportOptions<'_>>,
        Out<'_, *mut DLManagedTensor>,
    ) -> Failure;
    /// What the tensor is.
    tensor_describe: extern "C" fn(Ref<'_, XdTensor>, Out<'_, XdTensorInfo>) -> Failure;
    /// The device that holds it.
    tensor_device: extern "C" fn(Ref<'_, XdTensor>, Out<'_, Owned<XdDevice>>) -> Failure;
    /// The same tensor once more.
    tensor_retain: extern "C" fn(Ref<'_, XdTensor>) -> Owned<XdTensor>;
    /// Gives a tensor back.
    tensor_free: extern "C" fn(Owned<XdTensor>);
    /// A view of a part: one slice an axis.
    tensor_slice: unsafe extern "C" fn(
        Ref<'_, XdTensor>,
        u32,
        *const XdAxisSlice,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// A view with its axes in another order.
    tensor_permute: unsafe extern "C" fn(
        Ref<'_, XdTensor>,
        u32,
        *const u32,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// A view with another shape; an error where that needs a copy.
    tensor_reshape: unsafe extern "C" fn(
        Ref<'_, XdTensor>,
        u32,
        *const i64,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// A view of the tensor's bytes as other elements, from a byte offset on; read-only by a flag.
    tensor_reinterpret: extern "C" fn(
        Ref<'_, XdTensor>,
        byte_offset: i64,
        Ref<'_, XdLayout<'_>>,
        MemoryFlags,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Reads the elements as compact bytes, as many as `nbytes`.
    tensor_read: unsafe extern "C" fn(Ref<'_, XdTensor>, *mut c_void, u64) -> Failure;
    /// Replaces the elements by compact bytes, as many as `nbytes`.
    tensor_write: unsafe extern "C" fn(Ref<'_, XdTensor>, *const c_void, u64) -> Failure;
    /// Replaces the elements by those of another tensor, in the order of a stream if one is given.
    tensor_copy_from:
        extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;
    /// Repeats the bytes of one element, in the order of a stream if one is given.
    tensor_fill:
        unsafe extern "C" fn(Ref<'_, XdTensor>, *const c_void, u64, Ref<'_, XdStream>) -> Failure;
    /// The same values on a device, and the route that was taken (which may be unwanted: NULL).
    tensor_to: extern "C" fn(
        Ref<'_, XdTensor>,
        Ref<'_, XdDevice>,
        Ref<'_, XdMoveOptions<'_>>,
        Out<'_, Owned<XdTensor>>,
        Out<'_, Owned<XdRoute>>,
    ) -> Failure;
    /// Locks the host memory that the tensor is a view of for a device.
    tensor_register: extern "C" fn(
        Ref<'_, XdTensor>,
        Ref<'_, XdDevice>,
        Out<'_, Owned<XdRegistration>>,
    ) -> Failure;
    /// Ends a registration, behind the work that uses the memory.
    registration_free: extern "C" fn(Owned<XdRegistration>);
    /// Waits until the last work that wrote it is done; a limit in nanoseconds.
    tensor_synchronize: extern "C" fn(Ref<'_, XdTensor>, limit_ns: u64) -> Failure;
    /// The event of the last work that wrote it; NULL where none is pending.
    tensor_ready: extern "C" fn(Ref<'_, XdTensor>, Out<'_, Owned<XdEvent>>) -> Failure;
    /// Makes a stream wait for what wrote it, before work of others that reads it.
    tensor_wait_to_read: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;
    /// Makes a stream wait for all work on it, before work of others that writes it.
    tensor_wait_to_write: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;
    /// Says that work of others that is on a stream reads it.
    tensor_used_on: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;
    /// Says that work of others that is on a stream writes it.
    tensor_written_on: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;
    /// Says that work of the producer on a stream makes the content ready.
    tensor_ready_on: extern "C" fn(Ref<'_, XdTensor>, Ref<'_, XdStream>) -> Failure;

    /// Creates a stream on a device.
    stream_create: extern "C" fn(Ref<'_, XdDevice>, Out<'_, Owned<XdStream>>) -> Failure;
    /// The device's default stream.
    stream_default: extern "C" fn(Ref<'_, XdDevice>, Out<'_, Owned<XdStream>>) -> Failure;
    /// A stream of the integer that the vendor's API uses; it is never destroyed here.
    stream_wrap:
        unsafe extern "C" fn(Ref<'_, XdDevice>, native: u64, Out<'_, Owned<XdStream>>) -> Failure;
    /// The stream with a native integer among those of a device that are alive here; NULL where
    /// there is none.
    stream_find: extern "C" fn(Ref<'_, XdDevice>, native: u64, Out<'_, Owned<XdStream>>) -> Failure;
    /// The device whose work it orders.
    stream_device: extern "C" fn(Ref<'_, XdStream>, Out<'_, Owned<XdDevice>>) -> Failure;
    /// The integer that the vendor's API uses for it.
    stream_native_handle: extern "C" fn(Ref<'_, XdStream>, Out<'_, u64>) -> Failure;
    /// An event at its present end.
    stream_record: extern "C" fn(Ref<'_, XdStream>, Out<'_, Owned<XdEvent>>) -> Failure;
    /// Makes what comes later wait for an event of any plugin, and says how (may be NULL).
    stream_wait:
        extern "C" fn(Ref<'_, XdStream>, Ref<'_, XdEvent>, Out<'_, WaitKind>) -> Failure;
    /// Waits until its work is done; a limit in nanoseconds.
    stream_synchronize: extern "C" fn(Ref<'_, XdStream>, limit_ns: u64) -> Failure;
    /// Whether its work is done: 1 or 0.
    stream_is_idle: extern "C" fn(Ref<'_, XdStream>, Out<'_, i32>) -> Failure;
    /// 1 where both are the same stream; 0 where one is NULL.
    stream_equal: extern "C" fn(Ref<'_, XdStream>, Ref<'_, XdStream>) -> i32;
    /// The same stream once more.
    stream_retain: extern "C" fn(Ref<'_, XdStream>) -> Owned<XdStream>;
    /// Gives a stream back; what is on it completes all the same.
    stream_free: extern "C" fn(Owned<XdStream>);

    /// An event that is pending until it is completed by `event_complete`.
    event_create_host: extern "C" fn(Ref<'_, XdDevice>, Out<'_, Owned<XdEvent>>) -> Failure;
    /// Completes such an event: `OK`, or a failure that its waiters see (`VENDOR` for all but three).
    event_complete: extern "C" fn(Ref<'_, XdEvent>, Status) -> Failure;
    /// The device whose event it is.
    event_device: extern "C" fn(Ref<'_, XdEvent>, Out<'_, Owned<XdDevice>>) -> Failure;
    /// Whether it happened: 1 or 0.
    event_is_done: extern "C" fn(Ref<'_, XdEvent>, Out<'_, i32>) -> Failure;
    /// Waits for it; a limit in nanoseconds.
    event_synchronize: extern "C" fn(Ref<'_, XdEvent>, limit_ns: u64) -> Failure;
    /// Nanoseconds from the second event to the first, as the device measured them.
    event_elapsed: extern "C" fn(Ref<'_, XdEvent>, Ref<'_, XdEvent>, Out<'_, u64>) -> Failure;
    /// The same event once more.
    event_retain: extern "C" fn(Ref<'_, XdEvent>) -> Owned<XdEvent>;
    /// Gives an event back.
    event_free: extern "C" fn(Owned<XdEvent>);

    /// Who owns an address, and the device (NULL where nobody does; may be unwanted: NULL).
    pointer_query: extern "C" fn(
        Ref<'_, XdRuntime>,
        address: u64,
        Out<'_, PointerInfo>,
        Out<'_, Owned<XdDevice>>,
    ) -> Failure;

    /// What moving a tensor of this layout between two devices would do, and why.
    route_explain: extern "C" fn(
        Ref<'_, XdDevice>,
        Ref<'_, XdDevice>,
        Ref<'_, XdLayout<'_>>,
        Ref<'_, XdMoveOptions<'_>>,
        Out<'_, Owned<XdRoute>>,
    ) -> Failure;

    /// What moving this very tensor would do, and why.
    tensor_explain: extern "C" fn(
        Ref<'_, XdTensor>,
        Ref<'_, XdDevice>,
        Ref<'_, XdMoveOptions<'_>>,
        Out<'_, Owned<XdRoute>>,
    ) -> Failure;

    /// The kind of the route.
    route_kind: extern "C" fn(Ref<'_, XdRoute>) -> RouteKind;
    /// Bytes that are copied; 0 for an alias.
    route_bytes_copied: extern "C" fn(Ref<'_, XdRoute>) -> u64;
    /// Nanoseconds that it is expected to take, where that is known.
    route_cost_ns: extern "C" fn(Ref<'_, XdRoute>) -> u64;
    /// The whole explanation.
    route_text: extern "C" fn(Ref<'_, XdRoute>) -> Text<'_>;
    /// What is done, step by step; NULL behind the last one.
    route_step: extern "C" fn(Ref<'_, XdRoute>, u64) -> Text<'_>;
    /// The routes that do not work, each with its reason; NULL behind the last one.
    route_refused: extern "C" fn(Ref<'_, XdRoute>, u64) -> Text<'_>;
    /// The routes that could be taken instead, and what they cost; NULL behind the last one.
    route_instead: extern "C" fn(Ref<'_, XdRoute>, u64) -> Text<'_>;
    /// Frees a route.
    route_free: extern "C" fn(Owned<XdRoute>);

    /// Finds Python and starts it, once a process. NULL runtime: the process's.
    script_open: extern "C" fn(
        Ref<'_, XdRuntime>,
        Ref<'_, XdScriptOptions<'_>>,
        Out<'_, Owned<XdScript>>,
    ) -> Failure;
    /// Which Python would be chosen, and why not the others: a text. Starts nothing.
    script_explain: extern "C" fn(Ref<'_, XdScriptOptions<'_>>, Out<'_, XdValue>) -> Failure;
    /// Which Python it is.
    script_describe: extern "C" fn(Ref<'_, XdScript>, Out<'_, XdScriptInfo>) -> Failure;
    /// Gives the handle back; Python stays until the process ends.
    script_free: extern "C" fn(Owned<XdScript>);

    /// A namespace to run scripts in.
    session_create: unsafe extern "C" fn(
        Ref<'_, XdScript>,
        Ref<'_, XdSessionOptions<'_>>,
        Out<'_, Owned<XdSession>>,
    ) -> Failure;
    /// Runs a program's text; the name is the file that tracebacks show.
    session_run_text: extern "C" fn(
        Ref<'_, XdSession>,
        program: Text<'_>,
        name: Text<'_>,
        Ref<'_, XdRunOptions>,
    ) -> Failure;
    /// Runs a file.
    session_run_file:
        extern "C" fn(Ref<'_, XdSession>, Text<'_>, Ref<'_, XdRunOptions>) -> Failure;
    /// Runs a module, as `python -m` does.
    session_run_module:
        extern "C" fn(Ref<'_, XdSession>, Text<'_>, Ref<'_, XdRunOptions>) -> Failure;
    /// Sets a variable.
    session_set:
        unsafe extern "C" fn(Ref<'_, XdSession>, Text<'_>, Ref<'_, XdValue>) -> Failure;
    /// Reads a variable, an attribute of one, or one of a module.
    session_get: extern "C" fn(Ref<'_, XdSession>, Text<'_>, Out<'_, XdValue>) -> Failure;
    /// Sets a variable to a tensor, which the script shares.
    session_set_tensor:
        extern "C" fn(Ref<'_, XdSession>, Text<'_>, Ref<'_, XdTensor>) -> Failure;
    /// Reads what is a tensor in any protocol, moved to a device if one is given.
    session_get_tensor: extern "C" fn(
        Ref<'_, XdSession>,
        Text<'_>,
        Ref<'_, XdDevice>,
        Out<'_, Owned<XdTensor>>,
    ) -> Failure;
    /// Calls a function of the script or of a module.
    session_call: unsafe extern "C" fn(
        Ref<'_, XdSession>,
        Text<'_>,
        Ref<'_, XdArguments<'_>>,
        Ref<'_, XdRunOptions>,
        Out<'_, XdValue>,
    ) -> Failure;
    /// Runs the file or module that ran last again, as it is now.
    session_reload: extern "C" fn(Ref<'_, XdSession>, Ref<'_, XdRunOptions>) -> Failure;
    /// Sets a variable to a function of the host's. The word is given back once, whatever the result.
    session_define: unsafe extern "C" fn(
        Ref<'_, XdSession>,
        Text<'_>,
        ScriptFunction,
        word: *mut c_void,
        release: WordRelease,
    ) -> Failure;
    /// Sets what a function that a script called answers with.
    answer_set: unsafe extern "C" fn(Ref<'_, XdAnswer>, Ref<'_, XdValue>) -> Failure;
    /// Stops what the session runs (the outcome may be unwanted: NULL).
    session_interrupt: extern "C" fn(Ref<'_, XdSession>, Out<'_, StopOutcome>) -> Failure;
    /// What the session does now.
    session_describe: extern "C" fn(Ref<'_, XdSession>, Out<'_, XdSessionState>) -> Failure;
    /// Forgets a session.
    session_free: extern "C" fn(Owned<XdSession>);
    /// Frees what a value of an answer holds, and makes it `None`.
    value_clear: unsafe extern "C" fn(*mut XdValue);
}
