//! The table as Rust calls it, which a binding does: mostly without `unsafe`, and at the cost of one
//! allocation a handle.
#![expect(
    clippy::unwrap_used,
    unsafe_code,
    reason = "every function of this file is part of a test; imports vouch for their tensor"
)]

#[path = "../../../sdk/tests/counting/allocator.rs"]
mod counting;

use std::ptr::NonNull;

use crossdock::{Runtime, Tensor};
use crossdock_api::{
    DLDevice, DLManagedTensorVersioned, ErrorKind, Failure, NameText, Out, Owned, Ref, RouteKind,
    Status, Text, XdDevice, XdLayout, XdMoveOptions, XdRoute, XdRuntime, XdRuntimeOptions,
    XdTensor,
};
use crossdock_capi::api;
use crossdock_sdk::dlpack::{DataWord, Device, Dtype, Flags, Layout, Received, TensorView, export};

use counting::counted;

fn worked(failure: Failure) {
    let text = (api().error_text)(failure.lend());
    assert!(failure.is_null(), "{text:?}");
}

fn runtime() -> Owned<XdRuntime> {
    let mut options = XdRuntimeOptions::new(&[], &[]);
    options.flags = crossdock_api::RuntimeFlags::NO_SEARCH;
    let mut runtime = Owned::NULL;
    worked((api().runtime_open)(
        Ref::from(&options),
        Out::from(&mut runtime),
    ));
    runtime
}

fn cpu(runtime: &Owned<XdRuntime>) -> Owned<XdDevice> {
    let mut device = Owned::NULL;
    let name = Text::new(c"cpu:0");
    worked((api().runtime_device_named)(
        runtime.lend(),
        name,
        Out::from(&mut device),
    ));
    device
}

#[test]
fn a_binding_calls_the_table_without_unsafe() {
    let api = api();
    let runtime = runtime();
    let cpu = cpu(&runtime);
    let dtype = Dtype::FLOAT32.to_raw();
    let (layout, options) = (XdLayout::compact(dtype, &[2, 3]), XdMoveOptions::new());
    let mut tensor: Owned<XdTensor> = Owned::NULL;
    worked((api.tensor_empty)(
        cpu.lend(),
        Ref::from(&layout),
        Ref::NULL,
        Out::from(&mut tensor),
    ));
    let (mut moved, mut route): (Owned<XdTensor>, Owned<XdRoute>) = (Owned::NULL, Owned::NULL);
    worked((api.tensor_to)(
        tensor.lend(),
        cpu.lend(),
        Ref::from(&options),
        Out::from(&mut moved),
        Out::from(&mut route),
    ));
    assert_eq!((api.route_kind)(route.lend()), RouteKind::ALIAS);
    let mut name = NameText::EMPTY;
    worked((api.dtype_text)(dtype, Out::from(&mut name)));
    assert_eq!(name.to_c_str(), c"float32");
    let missing = DLDevice {
        device_type: 2,
        device_id: 0,
    };
    let mut none = Owned::NULL;
    let failure = (api.runtime_device)(runtime.lend(), missing, Out::from(&mut none));
    assert_eq!((api.error_kind)(failure.lend()), ErrorKind::UNKNOWN_DEVICE);
    assert_eq!((api.error_status)(failure.lend()), Status::NO_DEVICE);
    assert!(none.is_null());
    (api.error_free)(failure);
    (api.route_free)(route);
    (api.tensor_free)(moved);
    (api.tensor_free)(tensor);
    (api.device_free)(cpu);
    (api.runtime_free)(runtime);
}

fn foreign(numbers: &[f32; 4]) -> NonNull<DLManagedTensorVersioned> {
    let layout = Layout::compact(Dtype::FLOAT32, &[4]).unwrap();
    let data = DataWord::from_ptr(numbers.as_ptr().cast_mut().cast());
    let view = TensorView::new(layout, data, 0, Device::CPU, Flags::READ_ONLY).unwrap();
    export((), &view).unwrap()
}

#[test]
fn a_handle_and_an_export_cost_no_allocation_beyond_the_runtimes() {
    static NUMBERS: [f32; 4] = [0.0; 4];
    let handle = runtime();
    let rust = Runtime::builder().search(false).open().unwrap();
    let mut counts = Vec::new();
    for _warm in 0..2 {
        let managed = foreign(&NUMBERS);
        let (direct, direct_in) = counted(|| {
            // SAFETY: a live tensor over static memory that nobody else owns.
            let received = unsafe { Received::from_versioned(managed) }.unwrap();
            Tensor::import(&rust, received).unwrap()
        });
        let (direct_export, direct_out) = counted(|| direct.export().unwrap());
        let managed = foreign(&NUMBERS).as_ptr();
        let mut tensor = Owned::NULL;
        let (failure, table_in) = counted(|| {
            // SAFETY: as above.
            unsafe {
                (api().tensor_import)(handle.lend(), managed, Ref::NULL, Out::from(&mut tensor))
            }
        });
        worked(failure);
        let mut exported = std::ptr::null_mut();
        let (failure, table_out) =
            counted(|| (api().tensor_export)(tensor.lend(), Ref::NULL, Out::from(&mut exported)));
        worked(failure);
        // SAFETY: an export that this test owns, taken over here.
        drop(unsafe { Received::from_versioned(NonNull::new(exported).unwrap()) });
        (api().tensor_free)(tensor);
        drop(direct_export);
        counts = vec![table_in, direct_in, table_out, direct_out];
    }
    (api().runtime_free)(handle);
    assert_eq!(counts[0], counts[1], "import: {counts:?}");
    assert_eq!(counts[2], counts[3], "export: {counts:?}");
}
