//! Memory: whose it is, what the host may touch, and how copies of any shape find their bytes.
#![expect(unsafe_code, reason = "touches memory as programs do, and forks")]

use crossdock_sim_engine::{Config, Engine, Error, MemoryKind, Policy, Site, Strided};

use crate::machine::{LIMIT, Machine, address, address_mut};

fn allocate(machine: &Machine, bytes: u64, kind: MemoryKind) -> Result<u64, Error> {
    machine
        .0
        .allocate(Site::here("allocate"), 0, bytes, 1, kind)
}

#[test]
fn each_address_of_an_allocation_has_its_owner_until_it_is_freed() {
    let config = Config {
        devices: 3,
        idle: None,
        ..Config::default()
    };
    let machine = Machine::with(config);
    for device in 0..3 {
        for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Managed] {
            let at = machine
                .0
                .allocate(Site::here("allocate"), device, 100, 512, kind)
                .unwrap();
            let last = machine.0.owner_of(at + 99).unwrap();
            assert_eq!(
                (last.device, last.kind, last.base, last.bytes),
                (device, kind, at, 100)
            );
            assert_eq!(machine.0.owner_of(at + 100), None);
            machine.0.free(Site::here("free"), at).unwrap();
            assert_eq!(machine.0.owner_of(at), None);
        }
    }
    let host = [0_u8; 10];
    assert_eq!(machine.0.owner_of(address(&host)), None);
    machine
        .0
        .register_host(Site::here("register"), 2, address(&host), 10)
        .unwrap();
    let owner = machine.0.owner_of(address(&host) + 9).unwrap();
    assert_eq!(
        (owner.device, owner.kind, owner.is_registered),
        (2, MemoryKind::Pinned, true)
    );
    machine
        .0
        .unregister_host(Site::here("unregister"), address(&host))
        .unwrap();
    assert_eq!(machine.0.owner_of(address(&host)), None);
}

#[test]
fn vendors_know_their_own_memory_and_what_they_registered_themselves() {
    let config = Config {
        devices: 3,
        vendors: vec![1, 2],
        idle: None,
        ..Config::default()
    };
    assert_eq!([0, 1, 2].map(|device| config.vendor_of(device)), [0, 1, 1]);
    let machine = Machine::with(config);
    let engine = &machine.0;
    let site = Site::here("allocate");
    let at = engine
        .allocate(site, 2, 100, 512, MemoryKind::Device)
        .unwrap();
    assert_eq!(engine.owner_for(1, at).unwrap().device, 2);
    assert_eq!(engine.owner_of(at), engine.owner_for(1, at));
    assert_eq!(engine.owner_for(0, at), None);
    assert!(engine.is_known_to(1, at) && !engine.is_known_to(0, at));
    let host = [0_u8; 10];
    let here = address(&host);
    for device in [0, 1] {
        let site = Site::here("register");
        engine.register_host(site, device, here, 10).unwrap();
    }
    let site = Site::here("again");
    assert!(engine.register_host(site, 2, here, 10).is_err());
    let owners = [0, 1].map(|vendor| engine.owner_for(vendor, here + 9).unwrap().device);
    assert_eq!(owners, [0, 1]);
    let site = Site::here("unregister");
    engine.unregister_for(site, 1, here).unwrap();
    assert!(engine.is_known_to(0, here) && !engine.is_known_to(1, here));
    engine.unregister_for(site, 0, here).unwrap();
    assert_eq!(engine.owner_of(here), None);
    engine.free(Site::here("free"), at).unwrap();
}

#[test]
fn a_device_has_as_much_memory_as_configured_and_gets_it_back() {
    let machine = Machine::with(Config {
        memory_bytes: 4096,
        idle: None,
        ..Config::default()
    });
    let stream = machine.stream();
    let all = allocate(&machine, 4096, MemoryKind::Device).unwrap();
    assert_eq!(machine.0.memory_info(0).unwrap(), (0, 4096));
    let more = allocate(&machine, 1, MemoryKind::Device);
    assert!(
        matches!(
            more,
            Err(Error::OutOfMemory {
                device: 0,
                bytes: 1,
                free: 0
            })
        ),
        "{more:?}"
    );
    assert!(
        allocate(&machine, 4096, MemoryKind::Pinned).is_ok(),
        "host memory is not counted"
    );
    machine
        .0
        .free_on(Site::here("free_on"), stream, all)
        .unwrap();
    assert_eq!(machine.0.memory_info(0).unwrap(), (0, 4096));
    machine.synchronize(stream).unwrap();
    assert_eq!(machine.0.memory_info(0).unwrap(), (4096, 4096));
}

#[test]
fn sizes_that_overflow_are_refused() {
    let machine = Machine::new(Policy::Lazy);
    let (stream, memory) = (machine.stream(), machine.allocate(8));
    for bytes in [u64::MAX, u64::MAX - 511, 1 << 63] {
        assert!(
            allocate(&machine, bytes, MemoryKind::Device).is_err(),
            "{bytes}"
        );
        assert!(
            allocate(&machine, bytes, MemoryKind::Managed).is_err(),
            "{bytes}"
        );
        // SAFETY: memory of the engine is checked.
        let fill = unsafe {
            machine
                .0
                .fill(Site::here("fill"), stream, memory, bytes, &[1])
        };
        assert!(fill.is_err(), "{bytes}");
    }
    let side = |stride| Strided {
        address: memory,
        bit_offset: 0,
        strides: vec![stride],
    };
    for (extent, stride) in [
        (u64::MAX, 1),
        (2, i64::MAX),
        (2, i64::MIN),
        (1 << 62, 1 << 61),
    ] {
        let (site, side) = (Site::here("copy_strided"), side(stride));
        // SAFETY: memory of the engine is checked.
        let copy = unsafe {
            machine
                .0
                .copy_strided(site, stream, 8, &[extent], (&side, &side))
        };
        assert!(copy.is_err(), "{extent} by {stride}");
    }
    assert_eq!(machine.0.pending(), 0);
}

#[test]
fn fresh_and_freed_addresses_are_not_used_again_at_once() {
    let machine = Machine::new(Policy::Lazy);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let at = machine.allocate(1000);
        assert!(seen.insert(at), "{at:#x} came twice");
        machine.0.free(Site::here("free"), at).unwrap();
    }
}

#[test]
fn host_code_reaches_pinned_and_managed_memory_under_its_own_address() {
    for kind in [MemoryKind::Pinned, MemoryKind::Managed] {
        let machine = Machine::new(Policy::Lazy);
        let (stream, mut target) = (machine.stream(), [0_u8; 4]);
        let at = allocate(&machine, 4, kind).unwrap();
        let bytes = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
        // SAFETY: the memory is the host's to touch, and nothing uses it now.
        unsafe { bytes.write_bytes(5, 4) };
        machine.copy("copy", stream, address_mut(&mut target), at, 4);
        machine.synchronize(stream).unwrap();
        assert_eq!(target, [5; 4], "{kind:?}");
    }
}

#[test]
fn addresses_that_come_again_have_no_past() {
    let machine = Machine::with(Config {
        memory_bytes: 64 << 20,
        idle: None,
        ..Config::default()
    });
    let (stream, mut seen) = (machine.stream(), std::collections::BTreeSet::new());
    let mut again = 0;
    for _ in 0..40 {
        let at = machine.allocate(48 << 20);
        again += i32::from(!seen.insert(at));
        machine.fill("fill", stream, at, 8, 1);
        machine
            .0
            .free_on(Site::here("free_on"), stream, at)
            .unwrap();
        // The work ends, and the host does not know it.
        assert_eq!(machine.0.progress(2), 2);
    }
    assert!(again > 0, "no address came again");
    assert_eq!(machine.0.reports(), []);
}

/// What a forked child that runs `body` came to: its exit code, or the signal that ended it.
fn in_a_child(body: impl FnOnce() -> i32) -> Result<i32, i32> {
    // SAFETY: the child calls nothing but `body` and `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child process");
    if child == 0 {
        let code = body();
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(libc::WTERMSIG(status))
    }
}

#[test]
fn host_code_that_touches_device_memory_is_ended_by_the_system() {
    for (kind, outcome) in [
        (MemoryKind::Device, Err(libc::SIGSEGV)),
        (MemoryKind::Managed, Ok(0)),
    ] {
        let machine = Machine::new(Policy::Lazy);
        let at = allocate(&machine, 64, kind).unwrap();
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
        let touch = || {
            // SAFETY: plain memory for managed memory; else the end of the child is what is tested.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            // SAFETY: as above.
            unsafe { byte.write_volatile(1) };
            0
        };
        assert_eq!(in_a_child(touch), outcome, "{kind:?}");
    }
}

#[test]
fn an_engine_refuses_calls_in_a_forked_child_and_ends_there() {
    for policy in crate::machine::POLICIES {
        let machine = Machine::new(policy);
        let refused = in_a_child(|| {
            let refused = machine.0.create_stream(Site::new("create_stream"), 0);
            let drained = machine.0.drain(LIMIT);
            i32::from(refused != Err(Error::Forked)) + i32::from(drained != Err(Error::Forked)) * 2
        });
        assert_eq!(refused, Ok(0), "{policy:?}");
    }
}

#[test]
fn an_engine_without_queues_or_workers_is_refused() {
    let queues = Config {
        queues: 0,
        ..Config::default()
    };
    let workers = Config {
        workers: 0,
        ..Config::default()
    };
    let memory = Config {
        memory_bytes: u64::MAX,
        ..Config::default()
    };
    for config in [queues, workers, memory] {
        let engine = Engine::new(config);
        assert!(matches!(engine, Err(Error::Invalid { .. })), "{engine:?}");
    }
}

/// The bit of the element with this index, counted from the start of the memory.
fn position(side: &Strided, index: &[u64], bits: u32) -> usize {
    let steps = index
        .iter()
        .zip(&side.strides)
        .map(|(&i, &stride)| i.cast_signed() * stride);
    let element = steps.sum::<i64>() * i64::from(bits) + side.bit_offset.cast_signed();
    usize::try_from(element).unwrap()
}

/// Copies one element bit by bit.
fn copy_element(target: &mut [u8], source: &[u8], (to, from): (usize, usize), bits: u32) {
    for bit in 0..bits as usize {
        let (to, from) = (to + bit, from + bit);
        let mask = 1 << (to % 8);
        target[to / 8] &= !mask;
        target[to / 8] |= if source[from / 8] >> (from % 8) & 1 == 1 {
            mask
        } else {
            0
        };
    }
}

#[test]
fn strided_copies_of_any_element_are_right_bit_by_bit() {
    let machine = Machine::new(Policy::Lazy);
    let stream = machine.stream();
    for bits in [1, 2, 4, 6, 8, 12, 16, 24, 64, 128] {
        for (shape, to, from, starts) in [
            (vec![3, 4], vec![4, 1], vec![1, 3], (0, 0)),
            (vec![5], vec![-1], vec![2], (4, 0)),
            (vec![2, 3], vec![3, -1], vec![0, 1], (2, 1)),
            (vec![1, 2, 2], vec![7, 2, 4], vec![9, -2, -4], (1, 6)),
            (vec![], vec![], vec![], (3, 2)),
        ] {
            let source: Vec<u8> = (0..256_u32).map(|x| (x * 37 + 11) as u8).collect();
            let mut target = vec![0xA5_u8; 256];
            let mut right = target.clone();
            let side = |address, start: u64, strides: &Vec<i64>| Strided {
                address,
                bit_offset: start * u64::from(bits),
                strides: strides.clone(),
            };
            let to = side(address_mut(&mut target), starts.0, &to);
            let from = side(address(&source), starts.1, &from);
            let mut index = vec![0; shape.len()];
            for element in 0..shape.iter().product::<u64>() {
                let mut rest = element;
                for (at, extent) in index.iter_mut().zip(&shape).rev() {
                    (*at, rest) = (rest % extent, rest / extent);
                }
                let at = (position(&to, &index, bits), position(&from, &index, bits));
                copy_element(&mut right, &source, at, bits);
            }
            let site = Site::here("copy_strided");
            // SAFETY: both memories live until the stream was synchronized.
            unsafe {
                machine
                    .0
                    .copy_strided(site, stream, bits, &shape, (&to, &from))
            }
            .unwrap();
            machine.synchronize(stream).unwrap();
            assert_eq!(target, right, "{bits} bits, {shape:?}, {to:?}, {from:?}");
        }
    }
    assert_eq!(machine.0.reports(), []);
}
