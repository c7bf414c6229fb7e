//! Every `repr(C)` type of the contract with its C name, its size, its alignment and the places of all its fields.

use std::mem::offset_of;

use crossdock_sdk::abi::*;
use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackExchangeAPI,
    DLPackExchangeAPIHeader, DLPackVersion, DLTensor, DataWord, DeviceType, DtypeCode, Flags,
};

/// One type as it lies in memory.
pub(crate) struct Layout {
    pub(crate) rust_name: &'static str,
    pub(crate) c_name: &'static str,
    pub(crate) size: usize,
    pub(crate) align: usize,
    /// C name and offset.
    pub(crate) fields: Vec<(&'static str, usize)>,
}

/// The destructuring makes a forgotten field an error of the compiler.
macro_rules! layout_of {
    (@c $field:ident) => { stringify!($field) };
    (@c $field:ident $c_field:ident) => { stringify!($c_field) };
    ($ty:ident as $c:ident: $($field:ident $(= $c_field:ident)?),*) => {{
        let _complete = |value: $ty| {
            let $ty { $($field: _),* } = value;
        };
        Layout {
            rust_name: stringify!($ty),
            c_name: stringify!($c),
            size: size_of::<$ty>(),
            align: align_of::<$ty>(),
            fields: vec![$((layout_of!(@c $field $($c_field)?), offset_of!($ty, $field))),*],
        }
    }};
}

/// A type that is one number.
macro_rules! scalar {
    ($ty:ident as $c:ident) => {
        Layout {
            rust_name: stringify!($ty),
            c_name: stringify!($c),
            size: size_of::<$ty>(),
            align: align_of::<$ty>(),
            fields: vec![],
        }
    };
}

/// Numbers and handles of `abi`.
fn scalars() -> Vec<Layout> {
    vec![
        scalar!(Status as xd_status),
        scalar!(PluginHandle as xd_plugin_handle),
        scalar!(StreamHandle as xd_stream_handle),
        scalar!(EventHandle as xd_event_handle),
        scalar!(MemoryKind as xd_memory_kind),
        scalar!(QueryCost as xd_query_cost),
        scalar!(AddressForm as xd_address_form),
        scalar!(ProbeState as xd_probe_state),
        scalar!(DefaultStream as xd_default_stream),
        scalar!(Capabilities as xd_capabilities),
        scalar!(PointerFlags as xd_pointer_flags),
        scalar!(AdoptFlags as xd_adopt_flags),
        scalar!(HostFunction as xd_host_function),
    ]
}

/// Argument, answer and error structs of `abi`.
fn structs() -> Vec<Layout> {
    vec![
        layout_of!(Address as xd_address: word, offset, form, reserved),
        layout_of!(Side as xd_side: address, kind, device),
        layout_of!(AllocateArgs as xd_allocate_args: size, alignment, kind, device),
        layout_of!(CopyArgs as xd_copy_args: dst, src, bytes),
        layout_of!(StridedArgs as xd_strided_args: dst, src, element_bits, rank, shape, dst_strides, src_strides),
        layout_of!(FillArgs as xd_fill_args: dst, bytes, pattern, pattern_bytes, reserved),
        layout_of!(ProbeInfo as xd_probe_info: state, device_count, detail, driver_version),
        layout_of!(DeviceInfo as xd_device_info: dl_type, dl_id, uuid, name, pci_bus_id, driver_version, runtime_version, total_memory, capabilities, address_form, pinned_dl_type, managed_dl_type, reserved),
        layout_of!(MemoryInfo as xd_memory_info: free, total),
        layout_of!(MemoryUsage as xd_memory_usage: reserved, used, peak_reserved, peak_used),
        layout_of!(PointerInfo as xd_pointer_info: kind, device, base, size, allocation_id, host_pointer, device_pointer, context, flags, reserved),
        layout_of!(HostServices as xd_host_services: struct_size, log_level, context, log),
        layout_of!(Text as xd_text: ptr, len),
        layout_of!(RawError as xd_plugin_error: status, reserved, native_code, operation, native_name, message),
    ]
}

/// The table and the groups of `abi`.
fn tables() -> Vec<Layout> {
    vec![
        layout_of!(PluginTable as xd_plugin_table: struct_size, abi_major, abi_minor, query_cost, reserved, description, error_free, probe, open, device_count, device_info, memory_info, allocate, free, copy, pointer_query, retire, at_fork_child, at_exit, close, streams, wrap, host_events, host_calls, timing, strided, fill, register = register_, adopt, map, async_memory, attributes, pool, peer),
        layout_of!(StreamHooks as xd_stream_hooks: stream_create, stream_default, stream_native, stream_destroy, stream_synchronize, stream_query, stream_wait_event, event_create, event_record, event_query, event_synchronize, event_destroy),
        layout_of!(WrapHooks as xd_wrap_hooks: stream_wrap),
        layout_of!(HostEventHooks as xd_host_event_hooks: event_create_host, event_complete),
        layout_of!(HostCallHooks as xd_host_call_hooks: stream_host_call),
        layout_of!(TimingHooks as xd_timing_hooks: event_elapsed),
        layout_of!(StridedHooks as xd_strided_hooks: copy_strided),
        layout_of!(FillHooks as xd_fill_hooks: fill),
        layout_of!(RegisterHooks as xd_register_hooks: register_host, unregister_host),
        layout_of!(AdoptHooks as xd_adopt_hooks: adopt, release_adopted),
        layout_of!(MapHooks as xd_map_hooks: map, unmap),
        layout_of!(AsyncMemoryHooks as xd_async_memory_hooks: allocate_async, free_async),
        layout_of!(AttributeHooks as xd_attribute_hooks: device_attribute),
        layout_of!(PoolHooks as xd_pool_hooks: memory_trim, memory_usage, memory_reset_peaks),
        layout_of!(PeerHooks as xd_peer_hooks: peer_can_access, peer_enable, peer_disable),
    ]
}

/// The public structs of `dlpack`.
fn dlpack() -> Vec<Layout> {
    vec![
        layout_of!(DLPackVersion as DLPackVersion: major, minor),
        layout_of!(DLDevice as DLDevice: device_type, device_id),
        layout_of!(DLDataType as DLDataType: code, bits, lanes),
        layout_of!(DLTensor as DLTensor: data, device, ndim, dtype, shape, strides, byte_offset),
        layout_of!(DLManagedTensor as DLManagedTensor: dl_tensor, manager_ctx, deleter),
        layout_of!(DLManagedTensorVersioned as DLManagedTensorVersioned: version, manager_ctx, deleter, flags, dl_tensor),
        layout_of!(DLPackExchangeAPIHeader as DLPackExchangeAPIHeader: version, prev_api),
        layout_of!(DLPackExchangeAPI as DLPackExchangeAPI: header, managed_tensor_allocator, managed_tensor_from_py_object_no_sync, managed_tensor_to_py_object_no_sync, dltensor_from_py_object_no_sync, current_work_stream),
        scalar!(DeviceType as DLDeviceType),
        scalar!(DtypeCode as DLDataTypeCode),
        scalar!(DataWord as data),
        scalar!(Flags as flags),
    ]
}

/// Every type, with the module it stands in.
pub(crate) fn all() -> Vec<(&'static str, Layout)> {
    let abi = [scalars(), structs(), tables()].into_iter().flatten();
    let abi = abi.map(|layout| ("abi", layout));
    abi.chain(dlpack().into_iter().map(|layout| ("dlpack", layout)))
        .collect()
}
