//! Misuse of every plugin that is here, behind validation: refused, with both sides named.
#![expect(unsafe_code, reason = "calls hooks with what they must refuse")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail by panicking")]

use std::sync::Mutex;

use crossdock::{Device, Error, Hooks, Layer, Runtime};
use crossdock_e2e::everything_behind;
use crossdock_sdk::abi::{
    Address, AddressForm, AdoptFlags, AllocateArgs, Capabilities, CopyArgs, FillArgs, MemoryKind,
    Side, Status, StreamHandle, StridedArgs,
};

/// Runs a check on each device of a runtime whose plugins are validated.
fn each_device(check: impl Fn(&Device)) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything_behind(folder.path(), &[Layer::Validate]);
    for device in runtime.devices() {
        check(&device);
    }
}

fn hooks(device: &Device) -> &Hooks {
    device.plugin().hooks()
}

fn allocate(device: &Device, kind: MemoryKind, size: u64) -> Result<Address, Error> {
    hooks(device).allocate(AllocateArgs {
        size,
        alignment: 256,
        kind,
        device: device.index(),
    })
}

fn free(device: &Device, address: Address, kind: MemoryKind) -> Result<(), Error> {
    // SAFETY: no work is in flight, and what is used afterwards is refused.
    unsafe { hooks(device).free(address, kind) }
}

/// Copies from `src` into host memory that is large enough.
fn read(device: &Device, src: Side, bytes: u64) -> Result<(), Error> {
    let mut host = vec![0_u8; 1 << 16];
    let args = CopyArgs {
        dst: host_side(&mut host),
        src,
        bytes,
    };
    // SAFETY: `host` is long enough; validation refuses a source that is not.
    unsafe { hooks(device).copy(args, StreamHandle::NONE) }
}

fn host_side(host: &mut [u8]) -> Side {
    Side {
        address: Address::pointer(host.as_mut_ptr().expose_provenance() as u64),
        kind: MemoryKind::HOST,
        device: 0,
    }
}

fn side(device: &Device, address: Address, kind: MemoryKind) -> Side {
    Side {
        address,
        kind,
        device: device.index(),
    }
}

/// Demands a refusal with this status whose text has all these words.
#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, status: Status, words: &[&str]) {
    let error = answer.unwrap_err();
    assert_eq!(error.status(), Some(status), "{error}: {}", error.why());
    for word in words {
        let why = error.why();
        assert!(why.contains(word), "`{word}` is not in: {error}: {why}");
    }
}

#[test]
fn memory_is_freed_once() {
    each_device(|device| {
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        free(device, address, MemoryKind::DEVICE).unwrap();
        let again = free(device, address, MemoryKind::DEVICE);
        refused(again, Status::NOT_OWNER, &["freed before", "1000 bytes"]);
    });
}

#[test]
fn an_address_inside_of_memory_is_not_freed() {
    each_device(|device| {
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        let inside = address.advanced(256).unwrap();
        let answer = free(device, inside, MemoryKind::DEVICE);
        refused(answer, Status::NOT_OWNER, &["inside of", "1000 bytes"]);
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn memory_ends_in_the_way_in_which_it_began() {
    let kinds = [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED];
    each_device(|device| {
        for kind in kinds {
            let Ok(address) = allocate(device, kind, 512) else {
                continue;
            };
            for other in kinds.into_iter().filter(|other| *other != kind) {
                refused(
                    free(device, address, other),
                    Status::NOT_OWNER,
                    &["512 bytes"],
                );
            }
            if hooks(device).table().adopt().is_some() {
                let answer = hooks(device).release_adopted(device.index(), address);
                refused(answer, Status::NOT_OWNER, &["was not adopted"]);
            }
            free(device, address, kind).unwrap();
        }
        if !device.capabilities().contains(Capabilities::ADOPT_HOST) {
            return;
        }
        let host = vec![0_u64; 4096];
        let foreign = Address::pointer(host.as_ptr().expose_provenance() as u64);
        // SAFETY: `host` lives longer than the adoption.
        let adopted = unsafe {
            hooks(device).adopt(
                device.index(),
                foreign,
                MemoryKind::HOST,
                4096,
                AdoptFlags::empty(),
            )
        };
        let Ok(adopted) = adopted else {
            return;
        };
        for kind in kinds {
            refused(
                free(device, adopted, kind),
                Status::NOT_OWNER,
                &["release_adopted"],
            );
        }
        let release = || hooks(device).release_adopted(device.index(), adopted);
        release().unwrap();
        refused(release(), Status::NOT_OWNER, &["is not adopted"]);
    });
}

#[test]
fn a_copy_that_leaves_its_memory_is_refused() {
    each_device(|device| {
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        let src = side(device, address, MemoryKind::DEVICE);
        read(device, src, 1000).unwrap();
        let words = ["`src`", "1001 bytes leave", "1000 bytes"];
        refused(read(device, src, 1001), Status::INVALID, &words);
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn a_strided_copy_that_leaves_its_memory_on_either_end_is_refused() {
    each_device(|device| {
        if hooks(device).table().strided().is_none() {
            return;
        }
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        let mut host = vec![0_u8; 4096];
        for (start, stride) in [(0, 400), (300, -400)] {
            let (shape, compact, apart) = ([4, 100], [100_i64, 1], [stride, 1]);
            let args = StridedArgs {
                dst: host_side(&mut host),
                src: side(device, address.advanced(start).unwrap(), MemoryKind::DEVICE),
                element_bits: 8,
                rank: 2,
                shape: shape.as_ptr(),
                dst_strides: compact.as_ptr(),
                src_strides: apart.as_ptr(),
            };
            // SAFETY: three arrays of two numbers; the side that is too short is refused.
            let answer = unsafe { hooks(device).copy_strided(args, StreamHandle::NONE) };
            refused(answer, Status::INVALID, &["`src`", "leave", "1000 bytes"]);
        }
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn a_fill_that_leaves_its_memory_is_refused() {
    each_device(|device| {
        if !device.capabilities().contains(Capabilities::FILL) {
            return;
        }
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        let args = FillArgs {
            dst: side(device, address, MemoryKind::DEVICE),
            bytes: 1004,
            pattern: [7; 16],
            pattern_bytes: 4,
            reserved: 0,
        };
        // SAFETY: a range that is too short is refused.
        let answer = unsafe { hooks(device).fill(args, StreamHandle::NONE) };
        refused(answer, Status::INVALID, &["`dst`", "1004 bytes leave"]);
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn freed_memory_is_not_copied() {
    each_device(|device| {
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        free(device, address, MemoryKind::DEVICE).unwrap();
        let answer = read(device, side(device, address, MemoryKind::DEVICE), 10);
        refused(answer, Status::STALE, &["`src`", "it was freed"]);
    });
}

#[test]
fn a_side_is_what_it_is_claimed_to_be() {
    let names = [
        (MemoryKind::DEVICE, "DEVICE"),
        (MemoryKind::PINNED, "PINNED"),
        (MemoryKind::MANAGED, "MANAGED"),
        (MemoryKind::HOST, "HOST"),
    ];
    each_device(|device| {
        let host = vec![0_u8; 512];
        for (kind, name) in names {
            let address = match kind {
                MemoryKind::HOST => Ok(Address::pointer(host.as_ptr().expose_provenance() as u64)),
                _ => allocate(device, kind, 512),
            };
            let Ok(address) = address else {
                continue;
            };
            for (claimed, claimed_name) in names {
                let answer = read(device, side(device, address, claimed), 512);
                let by_address = address.form == AddressForm::POINTER;
                let reachable = kind != MemoryKind::DEVICE
                    || device
                        .capabilities()
                        .contains(Capabilities::HOST_ACCESSIBLE);
                if claimed == kind || claimed == MemoryKind::HOST && by_address && reachable {
                    // A copy from host to host is the plugin's to decline.
                    let declined = answer.as_ref().is_err_and(Error::is_unsupported);
                    assert!(
                        answer.is_ok() || declined,
                        "{kind:?}, {claimed:?}: {answer:?}"
                    );
                } else if kind == MemoryKind::HOST {
                    let words = ["claimed", claimed_name, "does not own"];
                    refused(answer, Status::NOT_OWNER, &words);
                } else {
                    refused(answer, Status::NOT_OWNER, &["claimed", claimed_name, name]);
                }
            }
            if kind != MemoryKind::HOST {
                free(device, address, kind).unwrap();
            }
        }
    });
}

#[test]
fn a_copy_onto_itself_is_refused() {
    each_device(|device| {
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        let args = CopyArgs {
            dst: side(device, address.advanced(10).unwrap(), MemoryKind::DEVICE),
            src: side(device, address, MemoryKind::DEVICE),
            bytes: 100,
        };
        // SAFETY: both ranges lie in live memory.
        let answer = unsafe { hooks(device).copy(args, StreamHandle::NONE) };
        refused(answer, Status::INVALID, &["overlap"]);
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn no_byte_and_no_device_never_reach_a_plugin() {
    each_device(|device| {
        refused(
            allocate(device, MemoryKind::DEVICE, 0),
            Status::INVALID,
            &["size 0"],
        );
        let address = allocate(device, MemoryKind::DEVICE, 8).unwrap();
        let src = side(device, address, MemoryKind::DEVICE);
        refused(read(device, src, 0), Status::INVALID, &["size 0"]);
        let count = hooks(device).device_count().unwrap();
        let other = Side {
            device: count,
            ..src
        };
        refused(read(device, other, 8), Status::INVALID, &["which has"]);
        refused(
            hooks(device).device_info(count),
            Status::INVALID,
            &["which has"],
        );
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

#[test]
fn streams_and_events_that_are_gone_or_never_were_are_refused() {
    each_device(|device| {
        let hooks = hooks(device);
        if hooks.table().streams().is_none() {
            return;
        }
        let stream = hooks.stream_create(device.index()).unwrap();
        let event = hooks.event_create(device.index()).unwrap();
        hooks.stream_destroy(stream).unwrap();
        let words = ["stream", "was destroyed"];
        refused(hooks.stream_query(stream), Status::STALE, &words);
        refused(hooks.stream_destroy(stream), Status::STALE, &words);
        refused(hooks.event_record(event, stream), Status::STALE, &words);
        hooks.event_destroy(event).unwrap();
        refused(
            hooks.event_query(event),
            Status::STALE,
            &["event", "was destroyed"],
        );
        let never = StreamHandle::from_raw(u64::MAX);
        refused(hooks.stream_query(never), Status::INVALID, &["never gave"]);
    });
}

#[test]
fn a_mapping_ends_once_and_before_its_memory() {
    each_device(|device| {
        let hooks = hooks(device);
        let address = allocate(device, MemoryKind::DEVICE, 1000).unwrap();
        if let Ok(pointer) = hooks.map(device.index(), address, 1000) {
            let answer = free(device, address, MemoryKind::DEVICE);
            refused(answer, Status::CONFLICT, &["still mapped", "1000 bytes"]);
            // SAFETY: nobody uses the mapping; the second call is refused.
            let unmap = || unsafe { hooks.unmap(device.index(), address, pointer) };
            unmap().unwrap();
            refused(unmap(), Status::NOT_OWNER, &["no live mapping"]);
            let answer = hooks.map(device.index(), address, 1001);
            refused(answer, Status::INVALID, &["1001 bytes leave"]);
        }
        free(device, address, MemoryKind::DEVICE).unwrap();
    });
}

/// The lines that were logged.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collect;

impl log::Log for Collect {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOG.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[test]
fn what_is_live_at_close_is_reported() {
    log::set_logger(&Collect).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let builder = Runtime::builder().search(false);
    let runtime = builder.layers(&[Layer::Validate]).open().unwrap();
    let cpu = runtime.devices().into_iter().next().unwrap();
    let table = *cpu.plugin().hooks().table();
    let mut hooks = Hooks::new("forgetful".to_owned(), table);
    hooks.open().unwrap();
    hooks.wrap(&[Layer::Validate]);
    let args = AllocateArgs {
        size: 12_345,
        alignment: 256,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    hooks.allocate(args).unwrap();
    assert_eq!(hooks.live_objects().unwrap().allocations, 1);
    hooks.close().unwrap();
    assert_eq!(hooks.live_objects(), None);
    let lines = LOG.lock().unwrap();
    let line = lines
        .iter()
        .find(|line| line.contains("`forgetful`"))
        .unwrap();
    assert!(
        line.contains("1 allocations") && line.contains("12345 bytes"),
        "{line}"
    );
}
