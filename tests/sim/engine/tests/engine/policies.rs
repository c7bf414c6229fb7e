//! When work runs: never as it is submitted, by each policy's own rule, and in the end always.
#![expect(unsafe_code, reason = "reads words and memory that outlive the work")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crossdock_sim_engine::{
    Access, Condition, Config, Error, Link, MemoryKind, Policy, Site, Stream, Word,
};

use crate::machine::{LIMIT, Machine, POLICIES, address_mut};

/// A call that writes down when it was reached.
fn note(machine: &Machine, stream: Stream, name: u32, notes: &Arc<std::sync::Mutex<Vec<u32>>>) {
    let notes = Arc::clone(notes);
    let write = move || notes.lock().unwrap().push(name);
    machine
        .0
        .host_call(Site::here("host_call"), stream, Box::new(write))
        .unwrap();
}

#[test]
fn lazy_runs_what_a_wait_needs_and_nothing_else() {
    let machine = Machine::new(Policy::Lazy);
    let (a, b, c) = (machine.stream(), machine.stream(), machine.stream());
    let (event, notes) = (machine.event(), Arc::default());
    note(&machine, a, 1, &notes);
    machine.record(event, a);
    note(&machine, a, 2, &notes);
    machine.wait(b, event);
    note(&machine, b, 3, &notes);
    note(&machine, c, 4, &notes);
    assert!(notes.lock().unwrap().is_empty());
    machine.synchronize(b).unwrap();
    assert_eq!(*notes.lock().unwrap(), [1, 3]);
    machine.drain();
    assert_eq!(notes.lock().unwrap().len(), 4);
}

#[test]
fn lazy_runs_one_operation_after_each_query_that_said_no() {
    let machine = Machine::new(Policy::Lazy);
    let (stream, memory) = (machine.stream(), machine.allocate(8));
    for _ in 0..3 {
        machine.fill("fill", stream, memory, 8, 1);
    }
    let query = || {
        machine
            .0
            .query_stream(Site::here("query_stream"), stream)
            .unwrap()
    };
    let answers: Vec<bool> = (0..4).map(|_| query()).collect();
    assert_eq!(answers, [false, false, false, true]);
}

#[test]
fn lazy_runs_one_operation_in_a_wait_without_any_time() {
    let machine = Machine::new(Policy::Lazy);
    let (stream, memory) = (machine.stream(), machine.allocate(8));
    for _ in 0..3 {
        machine.fill("fill", stream, memory, 8, 1);
    }
    let site = Site::here("synchronize_stream");
    let wait = || {
        machine
            .0
            .synchronize_stream(site, stream, Some(Duration::ZERO))
            .is_ok()
    };
    let answers: Vec<bool> = (0..4).map(|_| wait()).collect();
    assert_eq!(answers, [false, false, true, true]);
}

#[test]
fn a_query_that_says_yes_orders_what_the_host_submits_next() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
        let event = machine.event();
        machine.fill("one", a, memory, 8, 1);
        machine.record(event, a);
        while !machine
            .0
            .query_event(Site::here("query_event"), event)
            .unwrap()
        {
            std::thread::yield_now();
        }
        machine.fill("two", b, memory, 8, 2);
        while !machine
            .0
            .query_stream(Site::here("query_stream"), b)
            .unwrap()
        {
            std::thread::yield_now();
        }
        machine.fill("three", a, memory, 8, 3);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn memory_waits_compare_as_the_vendors_do() {
    use Condition::{And, AtLeast, Equal, Nor};
    for (bits, held, value, condition, passes) in [
        (32, 7, 7, Equal, true),
        (32, 7, 8, Equal, false),
        (64, 1 << 40, 0, Equal, false),
        (32, 8, 7, AtLeast, true),
        (32, 7, 7, AtLeast, true),
        (32, 6, 7, AtLeast, false),
        (32, 1, 0xFFFF_FFFF, AtLeast, true),
        (64, 1, u64::MAX, AtLeast, true),
        (64, u64::MAX, 1, AtLeast, false),
        (32, 0b110, 0b011, And, true),
        (32, 0b100, 0b011, And, false),
        (32, 0xFFFF_FFF0, 0x7, Nor, true),
        (32, 0xFFFF_FFF0, 0xF, Nor, false),
        (64, u64::MAX - 1, 0, Nor, true),
        (64, u64::MAX, 0, Nor, false),
    ] {
        let machine = Machine::new(Policy::Lazy);
        let (stream, mut memory) = (machine.stream(), [0_u64]);
        let word = Word {
            address: address_mut(&mut memory),
            bits,
            value: held,
        };
        // SAFETY: the word outlives the engine, which is dropped before it.
        unsafe { machine.0.store_word(Site::here("store_word"), word) }.unwrap();
        let (site, word) = (Site::here("wait_word"), Word { value, ..word });
        // SAFETY: as above.
        unsafe { machine.0.wait_word(site, stream, word, condition) }.unwrap();
        let passed = machine.0.progress(1) == 1;
        assert_eq!(
            passed, passes,
            "{bits} bits: {held:#x} {condition:?} {value:#x}"
        );
        drop(machine);
    }
}

#[test]
fn threads_that_share_nothing_disturb_each_other_in_nothing() {
    for policy in POLICIES {
        for queues in [1, 2, 8] {
            let idle = Some(Duration::from_millis(1));
            let machine = Machine::with(Config {
                policy,
                queues,
                idle,
                ..Config::default()
            });
            std::thread::scope(|scope| {
                for thread in 0..4_u8 {
                    let machine = &machine;
                    scope.spawn(move || chain(machine, thread));
                }
            });
            assert_eq!(machine.0.reports(), [], "{policy:?}, {queues} queues");
            assert_eq!(machine.0.leaks(), [], "{policy:?}, {queues} queues");
        }
    }
}

/// Hands bytes from stream to stream and looks at them, many times.
fn chain(machine: &Machine, value: u8) {
    for round in 0..30 {
        let (a, b) = (machine.stream(), machine.stream());
        let (memory, event, mut target) = (machine.allocate(64), machine.event(), [0_u8; 64]);
        machine.fill("fill", a, memory, 64, value);
        machine.record(event, a);
        machine.wait(b, event);
        machine.copy("copy", b, address_mut(&mut target), memory, 64);
        machine.synchronize(b).unwrap();
        assert_eq!(target, [value; 64], "round {round}");
        machine.0.free(Site::here("free"), memory).unwrap();
        machine
            .0
            .destroy_event(Site::here("destroy_event"), event)
            .unwrap();
        machine
            .0
            .destroy_stream(Site::here("destroy_stream"), a)
            .unwrap();
        machine
            .0
            .destroy_stream(Site::here("destroy_stream"), b)
            .unwrap();
    }
}

#[test]
fn seeded_runs_the_same_order_for_a_seed_and_others_for_other_seeds() {
    let run = |seed| {
        let policy = Policy::Seeded;
        // Patience for a machine that is very busy: functions must end within it for an exact replay.
        let config = Config {
            policy,
            seed,
            idle: None,
            host_patience: LIMIT,
            ..Config::default()
        };
        let machine = Machine::with(config);
        let streams = [machine.stream(), machine.stream(), machine.stream()];
        let notes: Arc<std::sync::Mutex<Vec<u32>>> = Arc::default();
        for name in 0..30 {
            note(&machine, streams[name as usize % 3], name, &notes);
        }
        machine.drain();
        Arc::try_unwrap(notes).unwrap().into_inner().unwrap()
    };
    let orders: Vec<Vec<u32>> = (0..5).map(run).collect();
    assert_eq!(orders, (0..5).map(run).collect::<Vec<_>>());
    assert!(orders.iter().any(|order| order != &orders[0]));
    for order in orders {
        let of = |stream| order.iter().filter(|&&name| name % 3 == stream).is_sorted();
        assert!(
            of(0) && of(1) && of(2),
            "a stream was out of order: {order:?}"
        );
    }
}

#[test]
fn seeded_never_runs_what_the_same_call_submits() {
    for seed in 0..50 {
        let config = Config {
            policy: Policy::Seeded,
            seed,
            idle: None,
            ..Config::default()
        };
        let machine = Machine::with(config);
        let stream = machine.stream();
        machine.fill("fill", stream, machine.allocate(8), 8, 1);
        assert_eq!(machine.0.pending(), 1, "seed {seed}");
    }
}

#[test]
fn nothing_runs_while_held_and_everything_afterwards() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (stream, memory) = (machine.stream(), machine.allocate(8));
        machine.0.hold();
        machine.0.hold();
        machine.fill("fill", stream, memory, 8, 1);
        let site = Site::here("synchronize_stream");
        let limit = Some(Duration::from_millis(1));
        let held = machine.0.synchronize_stream(site, stream, limit);
        assert!(matches!(held, Err(Error::TimedOut)), "{policy:?}: {held:?}");
        machine.0.release();
        assert_eq!(
            (machine.0.progress(5), machine.0.pending()),
            (0, 1),
            "{policy:?}"
        );
        machine.0.release();
        machine.synchronize(stream).unwrap();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_waiting_thread_goes_on_when_another_completes_a_host_event() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, host, done) = (machine.stream(), machine.host_event(), machine.event());
        machine.wait(a, host);
        machine.record(done, a);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let site = Site::here("synchronize_event");
                machine.0.synchronize_event(site, done, Some(LIMIT))
            });
            // Other work comes meanwhile, in the same queues.
            let other = machine.stream();
            machine.fill("fill", other, machine.allocate(8), 8, 1);
            machine.synchronize(other).unwrap();
            machine
                .0
                .complete(Site::here("complete"), host, Ok(()))
                .unwrap();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_host_function_that_blocks_holds_its_stream_and_not_the_others() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
        let (go, wait) = channel::<()>();
        let block = move || _ = wait.recv();
        machine
            .0
            .host_call(Site::here("host_call"), a, Box::new(block))
            .unwrap();
        machine.fill("fill", b, memory, 8, 1);
        machine.synchronize(b).unwrap();
        let site = Site::here("synchronize_stream");
        let blocked = machine
            .0
            .synchronize_stream(site, a, Some(Duration::from_millis(1)));
        assert!(
            matches!(blocked, Err(Error::TimedOut)),
            "{policy:?}: {blocked:?}"
        );
        go.send(()).unwrap();
        machine.synchronize(a).unwrap();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn work_that_nobody_waits_for_ends_once_nobody_calls() {
    for policy in [Policy::Seeded, Policy::Lazy] {
        let idle = Some(Duration::from_millis(1));
        let machine = Machine::with(Config {
            policy,
            idle,
            ..Config::default()
        });
        let (stream, (tell, told)) = (machine.stream(), channel());
        let function = move || tell.send(()).unwrap();
        machine
            .0
            .host_call(Site::here("host_call"), stream, Box::new(function))
            .unwrap();
        told.recv_timeout(LIMIT).expect("the ticker runs it");
    }
}

#[test]
fn a_word_that_the_host_stores_by_itself_ends_a_memory_wait() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (stream, mut memory) = (machine.stream(), Box::new([0_u32, 0]));
        let word = Word {
            address: address_mut(&mut memory[..]),
            bits: 32,
            value: 3,
        };
        let site = Site::here("wait_word");
        // SAFETY: the word lives until the stream was synchronized, and is changed atomically.
        unsafe { machine.0.wait_word(site, stream, word, Condition::AtLeast) }.unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| machine.synchronize(stream));
            let at = std::ptr::with_exposed_provenance_mut(word.address as usize);
            // SAFETY: as above.
            let cell = unsafe { std::sync::atomic::AtomicU32::from_ptr(at) };
            for value in 1..=5 {
                cell.store(value, Ordering::SeqCst);
            }
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn what_a_host_function_told_the_host_is_ordered() {
    for policy in POLICIES {
        let idle = Some(Duration::from_millis(1));
        let machine = Machine::with(Config {
            policy,
            idle,
            ..Config::default()
        });
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
        let (tell, told) = channel();
        machine.fill("one", a, memory, 8, 1);
        let function = move || tell.send(()).unwrap();
        machine
            .0
            .host_call(Site::here("host_call"), a, Box::new(function))
            .unwrap();
        told.recv_timeout(LIMIT).expect("the function is called");
        machine.fill("two", b, memory, 8, 2);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_host_function_touches_memory_in_the_order_of_its_stream() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let site = Site::here("allocate");
        let pinned = machine
            .0
            .allocate(site, 0, 64, 1, MemoryKind::Pinned)
            .unwrap();
        let (a, engine) = (machine.stream(), machine.0.clone());
        let seen = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&seen);
        machine.fill("before", a, pinned, 64, 7);
        let function = move || {
            engine.touch(Site::here("touch"), pinned, 64, Access::Write);
            let at = std::ptr::with_exposed_provenance_mut::<u8>(pinned as usize);
            // SAFETY: pinned memory is reached under its own address.
            tell.store(unsafe { at.read() } == 7, Ordering::SeqCst);
        };
        machine
            .0
            .host_call(Site::here("host_call"), a, Box::new(function))
            .unwrap();
        machine.fill("behind", a, pinned, 64, 8);
        machine.synchronize(a).unwrap();
        assert!(seen.load(Ordering::SeqCst), "{policy:?}");
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn simulated_time_passes_as_the_link_says() {
    for policy in POLICIES {
        let links = vec![Link {
            latency_ns: 500,
            bytes_per_second: 1_000_000_000,
            ..Link::default()
        }];
        let machine = Machine::with(Config {
            policy,
            links,
            idle: None,
            ..Config::default()
        });
        let (stream, memory) = (machine.stream(), machine.allocate(4096));
        let (start, end) = (machine.event(), machine.event());
        machine.record(start, stream);
        machine.fill("one", stream, memory, 4096, 1);
        machine.fill("two", stream, memory, 4096, 2);
        machine.record(end, stream);
        let site = Site::here("elapsed_ns");
        machine.synchronize(stream).unwrap();
        let elapsed = machine.0.elapsed_ns(site, start, end).unwrap();
        // The second fill may begin a little later than the first ends, as it was submitted later.
        assert!((9_192..9_500).contains(&elapsed), "{policy:?}: {elapsed}");
        let backwards = machine.0.elapsed_ns(site, end, start);
        assert!(matches!(backwards, Err(Error::Invalid { .. })));
    }
}

#[test]
fn polling_for_what_waits_for_the_host_lets_other_work_run() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, host) = (machine.stream(), machine.stream(), machine.host_event());
        machine.wait(a, host);
        let (mut completed, tell) = (false, Arc::new(AtomicBool::new(false)));
        let set = Arc::clone(&tell);
        let function = move || set.store(true, Ordering::SeqCst);
        machine
            .0
            .host_call(Site::here("host_call"), b, Box::new(function))
            .unwrap();
        let began = std::time::Instant::now();
        while !machine
            .0
            .query_stream(Site::here("query_stream"), a)
            .unwrap()
        {
            if tell.load(Ordering::SeqCst) && !completed {
                completed = true;
                machine
                    .0
                    .complete(Site::here("complete"), host, Ok(()))
                    .unwrap();
            }
            assert!(
                began.elapsed() < LIMIT / 6,
                "{policy:?}: polling came to no end"
            );
        }
    }
}

#[test]
fn what_the_host_waited_for_is_earlier_than_what_it_submits_then() {
    for policy in POLICIES {
        let links = vec![Link {
            latency_ns: 0,
            bytes_per_second: 1_000_000,
            ..Link::default()
        }];
        let machine = Machine::with(Config {
            policy,
            links,
            idle: None,
            ..Config::default()
        });
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(4096));
        let (start, end) = (machine.event(), machine.event());
        machine.record(start, a);
        machine.fill("fill", a, memory, 4096, 1);
        machine.synchronize(a).unwrap();
        machine.record(end, b);
        machine.synchronize(b).unwrap();
        let elapsed = machine
            .0
            .elapsed_ns(Site::here("elapsed_ns"), start, end)
            .unwrap();
        assert!(elapsed >= 4_096_000, "{policy:?}: {elapsed}");
    }
}

#[test]
fn the_checker_forgets_nothing_that_the_host_does_not_know() {
    let machine = Machine::new(Policy::Lazy);
    let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
    let (mut held, many) = ([0_u64], vec![0_u8; 20_000]);
    let word = Word {
        address: address_mut(&mut held),
        bits: 64,
        value: 1,
    };
    // So many ranges that the shadow is pruned as soon as nothing is pending.
    for at in (0..many.len()).step_by(2) {
        let address = crate::machine::address(&many[at..]);
        machine
            .0
            .touch(Site::here("touch"), address, 1, Access::Write);
    }
    machine.fill("one", a, memory, 8, 1);
    // SAFETY: the word outlives the work.
    unsafe { machine.0.write_word(Site::here("write_word"), a, word) }.unwrap();
    assert_eq!(machine.0.progress(2), 2);
    let site = Site::here("wait_word");
    // SAFETY: as above.
    unsafe { machine.0.wait_word(site, b, word, Condition::Equal) }.unwrap();
    machine.fill("two", b, memory, 8, 2);
    let c = machine.stream();
    machine.fill("three", c, memory, 8, 3);
    machine.drain();
    let report = machine.only_report();
    assert_eq!(
        (report.first.name(), report.second.unwrap().name()),
        ("two", "three")
    );
}
