//! The suite on plugins that believe what they are told of memory: its end, its kind, its device, and whose it is.
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
#[path = "faulty/suite.rs"]
mod suite;

use std::ffi::c_void;
use std::ptr::null_mut;

use crossdock_sdk::abi::{
    Address, AddressForm, CopyArgs, FillArgs, FillHooks, MemoryKind, PluginHandle, PluginTable,
    RegisterHooks, Side, Status, StreamHandle, StridedArgs, StridedHooks,
};

use faulty::{ErrorOut, group, sound};
use suite::{finds, report_of_case};

fn copy(plugin: PluginHandle, args: &CopyArgs, stream: StreamHandle) -> Status {
    // SAFETY: the arguments of the caller, who is the host, for as many bytes or fewer.
    unsafe { sound().copy.unwrap()(plugin, args, stream, null_mut()) }
}

fn strided(plugin: PluginHandle, args: &StridedArgs, stream: StreamHandle) -> Status {
    // SAFETY: the sound plugin's group is a constant.
    let hooks = unsafe { sound().strided.as_ptr().read() };
    // SAFETY: the arguments of the caller, who is the host, for as many elements or fewer.
    unsafe { hooks.copy_strided.unwrap()(plugin, args, stream, null_mut()) }
}

fn fill(plugin: PluginHandle, args: &FillArgs, stream: StreamHandle) -> Status {
    // SAFETY: the sound plugin's group is a constant.
    let hooks = unsafe { sound().fill.as_ptr().read() };
    // SAFETY: the arguments of the caller, who is the host, for as many bytes or fewer.
    unsafe { hooks.fill.unwrap()(plugin, args, stream, null_mut()) }
}

fn free(plugin: PluginHandle, address: Address, kind: MemoryKind) -> Status {
    // SAFETY: the arguments of the caller, who is the host.
    unsafe { sound().free.unwrap()(plugin, &raw const address, kind, null_mut()) }
}

fn sound_register() -> RegisterHooks {
    // SAFETY: the sound plugin's group is a constant.
    unsafe { sound().register.as_ptr().read() }
}

/// A hook that works with a side: what the sound one answers to its arguments, and the arguments to do
/// something else with.
macro_rules! hook {
    ($name:ident: $args:ident, $fault:expr) => {
        unsafe extern "C" fn $name(
            plugin: PluginHandle,
            args: *const $args,
            stream: StreamHandle,
            _: ErrorOut,
        ) -> Status {
            let fault: fn(PluginHandle, $args, StreamHandle) -> Status = $fault;
            // SAFETY: the caller's arguments.
            fault(plugin, unsafe { args.read() }, stream)
        }
    };
}

/// A shape of one element.
static ONE: [i64; 64] = [1; 64];

fn of_one(args: &StridedArgs) -> StridedArgs {
    StridedArgs {
        shape: ONE.as_ptr(),
        ..*args
    }
}

fn with_fill(table: &mut PluginTable, hooks: FillHooks) {
    table.fill = group(hooks);
}

fn with_strided(table: &mut PluginTable, hooks: StridedHooks) {
    table.strided = group(hooks);
}

type Copies = unsafe extern "C" fn(PluginHandle, *const CopyArgs, StreamHandle, ErrorOut) -> Status;
type Packs =
    unsafe extern "C" fn(PluginHandle, *const StridedArgs, StreamHandle, ErrorOut) -> Status;
type Fills = unsafe extern "C" fn(PluginHandle, *const FillArgs, StreamHandle, ErrorOut) -> Status;

/// Demands that a case finds a faulty `copy`, `copy_strided` and `fill`, each on its own.
fn each_is_found_by(case: &str, (copies, packs, fills): (Copies, Packs, Fills)) {
    let copy = report_of_case(case, |table| table.copy = Some(copies));
    finds(&copy, case);
    let copy_strided = Some(packs);
    let strided = report_of_case(case, |table| {
        with_strided(table, StridedHooks { copy_strided });
    });
    finds(&strided, case);
    let fill = Some(fills);
    let filled = report_of_case(case, |table| with_fill(table, FillHooks { fill }));
    finds(&filled, case);
}

#[test]
fn a_copy_that_does_not_look_where_its_destination_ends_is_found() {
    hook!(cuts: CopyArgs, |plugin, args, stream| {
        match copy(plugin, &args, stream) {
            Status::INVALID if args.dst.kind == MemoryKind::DEVICE => {
                copy(plugin, &CopyArgs { bytes: 1, ..args }, stream)
            }
            status => status,
        }
    });
    let case = "a_copy_that_reaches_past_its_allocation_is_refused";
    finds(&report_of_case(case, |table| table.copy = Some(cuts)), case);
}

#[test]
fn a_fill_that_does_not_look_where_its_memory_ends_is_found() {
    hook!(cuts: FillArgs, |plugin, args, stream| {
        let bytes = args.pattern_bytes.into();
        match fill(plugin, &args, stream) {
            Status::INVALID => fill(plugin, &FillArgs { bytes, ..args }, stream),
            status => status,
        }
    });
    let case = "a_fill_that_reaches_past_its_allocation_is_refused";
    let hooks = FillHooks { fill: Some(cuts) };
    let report = report_of_case(case, |table| with_fill(table, hooks));
    finds(&report, case);
}

#[test]
fn a_strided_copy_that_does_not_look_where_its_memory_ends_or_begins_is_found() {
    hook!(to_the_end: StridedArgs, |plugin, args, stream| {
        match strided(plugin, &args, stream) {
            Status::INVALID => strided(plugin, &of_one(&args), stream),
            status => status,
        }
    });
    hook!(from_before: StridedArgs, |plugin, args, stream| {
        // SAFETY: the caller's array, of one number at least.
        let is_turned = unsafe { args.src_strides.read() } < 0;
        match strided(plugin, &args, stream) {
            Status::INVALID if is_turned => strided(plugin, &of_one(&args), stream),
            status => status,
        }
    });
    hook!(writes: StridedArgs, |plugin, args, stream| {
        match strided(plugin, &args, stream) {
            Status::INVALID if args.dst.kind == MemoryKind::DEVICE => {
                strided(plugin, &of_one(&args), stream)
            }
            status => status,
        }
    });
    let case = "a_strided_copy_that_leaves_its_allocation_is_refused";
    let faults: [Packs; 3] = [to_the_end, from_before, writes];
    for packs in faults {
        let hooks = StridedHooks {
            copy_strided: Some(packs),
        };
        let report = report_of_case(case, |table| with_strided(table, hooks));
        finds(&report, case);
    }
}

/// A side as memory of the host, which is taken on trust.
fn trusted(side: Side) -> Side {
    Side {
        kind: MemoryKind::HOST,
        ..side
    }
}

#[test]
fn memory_of_nobody_that_is_used_as_the_devices_is_found() {
    hook!(copies: CopyArgs, |plugin, args, stream| {
        let (dst, src) = (trusted(args.dst), trusted(args.src));
        match copy(plugin, &args, stream) {
            Status::NOT_OWNER => copy(plugin, &CopyArgs { dst, src, ..args }, stream),
            status => status,
        }
    });
    hook!(packs: StridedArgs, |plugin, args, stream| {
        let (dst, src) = (trusted(args.dst), trusted(args.src));
        match strided(plugin, &args, stream) {
            Status::NOT_OWNER => strided(plugin, &StridedArgs { dst, src, ..args }, stream),
            status => status,
        }
    });
    hook!(fills: FillArgs, |plugin, args, stream| {
        let dst = trusted(args.dst);
        match fill(plugin, &args, stream) {
            Status::NOT_OWNER => fill(plugin, &FillArgs { dst, ..args }, stream),
            status => status,
        }
    });
    let case = "memory_of_nobody_is_neither_copied_nor_filled";
    each_is_found_by(case, (copies, packs, fills));
}

/// A side on the device that is there.
fn on_the_first(side: Side) -> Side {
    Side { device: 0, ..side }
}

#[test]
fn a_device_that_nobody_looks_at_is_found() {
    hook!(copies: CopyArgs, |plugin, args, stream| {
        let (dst, src) = (on_the_first(args.dst), on_the_first(args.src));
        copy(plugin, &CopyArgs { dst, src, ..args }, stream)
    });
    hook!(packs: StridedArgs, |plugin, args, stream| {
        let (dst, src) = (on_the_first(args.dst), on_the_first(args.src));
        strided(plugin, &StridedArgs { dst, src, ..args }, stream)
    });
    hook!(fills: FillArgs, |plugin, args, stream| {
        let dst = on_the_first(args.dst);
        fill(plugin, &FillArgs { dst, ..args }, stream)
    });
    let case = "a_side_on_a_device_that_is_not_there_is_refused";
    each_is_found_by(case, (copies, packs, fills));
}

#[test]
fn a_device_that_host_memory_has_to_name_is_found() {
    hook!(strict: CopyArgs, |plugin, args, stream| {
        if args.dst.device != 0 || args.src.device != 0 {
            return Status::INVALID;
        }
        copy(plugin, &args, stream)
    });
    let case = "the_device_of_a_host_side_is_ignored";
    let report = report_of_case(case, |table| table.copy = Some(strict));
    finds(&report, case);
}

#[test]
fn a_kind_that_is_believed_is_found() {
    // As a plugin that looks for managed memory in a table of its own, and takes what is not there for done.
    hook!(blind: CopyArgs, |plugin, args, stream| {
        if [args.dst.kind, args.src.kind].contains(&MemoryKind::MANAGED) {
            return Status::OK;
        }
        copy(plugin, &args, stream)
    });
    let case = "a_side_of_another_kind_or_device_is_copied_as_what_it_is_or_refused";
    let report = report_of_case(case, |table| table.copy = Some(blind));
    finds(&report, case);
}

#[test]
fn registered_memory_that_is_freed_is_found() {
    unsafe extern "C" fn forgets(
        plugin: PluginHandle,
        address: *const Address,
        kind: MemoryKind,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's address.
        let address = unsafe { address.read() };
        let status = free(plugin, address, kind);
        if status != Status::NOT_OWNER || address.form != AddressForm::POINTER {
            return status;
        }
        let word = usize::try_from(address.word).unwrap();
        let unregister = sound_register().unregister_host.unwrap();
        let pointer = std::ptr::without_provenance_mut(word);
        // SAFETY: the caller's plugin; what is not registered is refused.
        unsafe { unregister(plugin, 0, pointer, null_mut()) }
    }
    let case = "registered_memory_is_not_freed";
    let report = report_of_case(case, |table| table.free = Some(forgets));
    finds(&report, case);
}

#[test]
fn adopted_memory_that_is_freed_is_found() {
    unsafe extern "C" fn forgets(
        plugin: PluginHandle,
        address: *const Address,
        kind: MemoryKind,
        _: ErrorOut,
    ) -> Status {
        // SAFETY: the caller's address.
        let status = free(plugin, unsafe { address.read() }, kind);
        if status != Status::NOT_OWNER {
            return status;
        }
        // SAFETY: the sound plugin's group is a constant.
        let adopt = unsafe { sound().adopt.as_ptr().read() };
        // SAFETY: the caller's arguments; what is not adopted is refused.
        unsafe { adopt.release_adopted.unwrap()(plugin, 0, address, null_mut()) }
    }
    let case = "adopted_memory_is_not_freed";
    let report = report_of_case(case, |table| table.free = Some(forgets));
    finds(&report, case);
}

#[test]
fn the_end_of_a_registration_that_takes_its_memory_from_work_is_found() {
    unsafe extern "C" fn clears(
        plugin: PluginHandle,
        device: u32,
        pointer: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        let unregister = sound_register().unregister_host.unwrap();
        // SAFETY: the caller's arguments.
        let status = unsafe { unregister(plugin, device, pointer, null_mut()) };
        if status.is_ok() {
            // SAFETY: at least a byte of the caller's, which no work uses yet.
            unsafe { pointer.cast::<u8>().write(0) };
        }
        status
    }
    let case = "work_that_is_in_flight_at_the_end_of_its_registration_is_made";
    let report = report_of_case(case, |table| {
        table.register = group(RegisterHooks {
            unregister_host: Some(clears),
            ..sound_register()
        });
    });
    finds(&report, case);
}

#[test]
fn allocated_memory_that_is_unregistered_is_found() {
    unsafe extern "C" fn frees(
        plugin: PluginHandle,
        device: u32,
        pointer: *mut c_void,
        _: ErrorOut,
    ) -> Status {
        let unregister = sound_register().unregister_host.unwrap();
        // SAFETY: the caller's arguments.
        let status = unsafe { unregister(plugin, device, pointer, null_mut()) };
        if status != Status::NOT_OWNER {
            return status;
        }
        free(
            plugin,
            Address::pointer(pointer.addr() as u64),
            MemoryKind::PINNED,
        )
    }
    let case = "memory_that_was_allocated_is_not_unregistered";
    let report = report_of_case(case, |table| {
        table.register = group(RegisterHooks {
            unregister_host: Some(frees),
            ..sound_register()
        });
    });
    finds(&report, case);
}
