//! The suite on plugins whose pinned and managed memory has one fault each.
#![expect(
    unsafe_code,
    reason = "a faulty hook calls the hook that it stands for"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

#[path = "faulty/table.rs"]
mod faulty;

use crossdock_conformance::{Level, Subject, run};
use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, DeviceInfo, MemoryKind, PluginHandle,
    PluginTable, PointerFlags, PointerInfo, Status,
};

use faulty::{ErrorOut, open, sound};

/// Whether device memory that is called pinned and managed passes for such memory.
fn passes(change: impl FnOnce(&mut PluginTable)) -> bool {
    let mut hooks = open(|table| {
        table.device_info = Some(offers_both);
        table.allocate = Some(of_any_kind);
        change(table);
    });
    let subject = Subject::new(&hooks, 0).unwrap();
    let cases = [
        "pinned_memory_has_a_host_address",
        "managed_memory_has_a_host_address",
    ];
    let passed = cases.map(|case| {
        let report = run(&subject, Level::Full, Some(case));
        assert_eq!(
            (report.cases.len(), report.passed()),
            (1, report.failures().count() == 0)
        );
        report.passed()
    });
    assert_eq!(passed[0], passed[1]);
    hooks.close().unwrap();
    passed[0]
}

unsafe extern "C" fn offers_both(
    plugin: PluginHandle,
    device: u32,
    out: *mut DeviceInfo,
    error: ErrorOut,
) -> Status {
    let device_info = sound().device_info.unwrap();
    // SAFETY: the caller's arguments.
    let status = unsafe { device_info(plugin, device, out, error) };
    if status.is_ok() {
        // SAFETY: the hook succeeded, so `out` holds a description.
        let info = unsafe { &mut *out };
        let more = Capabilities::PINNED.with(Capabilities::MANAGED);
        info.capabilities = info.capabilities.with(more);
    }
    status
}

unsafe extern "C" fn of_any_kind(
    plugin: PluginHandle,
    args: *const AllocateArgs,
    out: *mut Address,
    error: ErrorOut,
) -> Status {
    // SAFETY: the caller's arguments.
    let mut args = unsafe { args.read() };
    args.kind = MemoryKind::DEVICE;
    let allocate = sound().allocate.unwrap();
    // SAFETY: the caller's arguments, for memory of another kind.
    unsafe { allocate(plugin, &raw const args, out, error) }
}

#[test]
fn memory_that_the_host_reaches_at_its_address_passes() {
    assert!(passes(|_| {}));
}

#[test]
fn a_handle_of_pinned_or_managed_memory_is_found() {
    unsafe extern "C" fn handle(
        plugin: PluginHandle,
        args: *const AllocateArgs,
        out: *mut Address,
        error: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's arguments.
        let status = unsafe { of_any_kind(plugin, args, out, error) };
        if status.is_ok() {
            // SAFETY: the hook succeeded, so `out` holds an address.
            unsafe { (*out).form = AddressForm::HANDLE };
        }
        status
    }
    assert!(!passes(|table| table.allocate = Some(handle)));
}

/// The sound answer with another flag or host address.
fn answered(
    plugin: PluginHandle,
    address: *const Address,
    (out, error): (*mut PointerInfo, ErrorOut),
    change: impl FnOnce(&mut PointerInfo),
) -> Status {
    let query = sound().pointer_query.unwrap();
    // SAFETY: the arguments of the caller of a hook.
    let status = unsafe { query(plugin, address, out, error) };
    if status.is_ok() {
        // SAFETY: the hook succeeded, so `out` holds an answer.
        change(unsafe { &mut *out });
    }
    status
}

#[test]
fn pinned_or_managed_memory_that_the_host_does_not_reach_is_found() {
    unsafe extern "C" fn hidden(
        plugin: PluginHandle,
        address: *const Address,
        out: *mut PointerInfo,
        error: ErrorOut,
    ) -> Status {
        answered(plugin, address, (out, error), |info| {
            info.flags = PointerFlags::empty();
        })
    }
    assert!(!passes(|table| table.pointer_query = Some(hidden)));
}

#[test]
fn pinned_or_managed_memory_that_the_host_reaches_elsewhere_is_found() {
    unsafe extern "C" fn elsewhere(
        plugin: PluginHandle,
        address: *const Address,
        out: *mut PointerInfo,
        error: ErrorOut,
    ) -> Status {
        answered(plugin, address, (out, error), |info| info.host_pointer += 1)
    }
    assert!(!passes(|table| table.pointer_query = Some(elsewhere)));
}
