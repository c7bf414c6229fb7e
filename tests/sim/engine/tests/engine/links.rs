//! Links: what takes its time in truth holds up nothing else, and each counts how busy it was.
#![expect(unsafe_code, reason = "copies memory that the test keeps alive")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossdock_sim_engine::{Config, End, Engine, Link, LinkUse, MemoryKind, Policy, Site, Stream};

use crate::machine::{LIMIT, Machine, POLICIES};

const BYTES: u64 = 1 << 20;
const HOST: End = End::Host;

fn device(number: u32) -> End {
    End::Device(number)
}

/// So many bytes a second, and nothing besides.
const fn rate(bytes_per_second: u64) -> Link {
    Link {
        latency_ns: 0,
        bytes_per_second,
        row_ns: 0,
    }
}

/// Two devices whose links take as long as they say, by `Threads`.
fn paced(policy: Policy, links: [Link; 2]) -> Machine {
    Machine::with(Config {
        policy,
        devices: 2,
        memory_bytes: 64 << 20,
        links: links.to_vec(),
        paced: true,
        idle: None,
        ..Config::default()
    })
}

/// A stream of a device, with memory of each kind.
struct Place {
    stream: Stream,
    device: u64,
    pinned: u64,
}

fn place(engine: &Engine, device: u32) -> Place {
    let site = Site::here("place");
    let allocate = |kind| engine.allocate(site, device, BYTES, 512, kind).unwrap();
    Place {
        stream: engine.create_stream(site, device).unwrap(),
        device: allocate(MemoryKind::Device),
        pinned: allocate(MemoryKind::Pinned),
    }
}

fn used(uses: &[LinkUse], from: End, to: End) -> LinkUse {
    let found = uses.iter().find(|used| (used.from, used.to) == (from, to));
    *found.unwrap()
}

#[test]
fn each_direction_of_each_pair_is_a_link_of_its_own() {
    for policy in POLICIES {
        let machine = Machine::with(Config {
            policy,
            devices: 2,
            memory_bytes: 64 << 20,
            links: vec![rate(1 << 30), rate(1 << 29)],
            links_between: BTreeMap::from([((0, 1), rate(1 << 28))]),
            idle: None,
            ..Config::default()
        });
        let [first, second] = [0, 1].map(|device| place(&machine.0, device));
        machine.copy("up", first.stream, first.device, first.pinned, BYTES);
        machine.copy("up", second.stream, second.device, second.pinned, BYTES / 2);
        machine.drain();
        let stream = first.stream;
        machine.copy("down", stream, first.pinned, first.device, BYTES / 4);
        machine.copy("there", stream, second.device, first.device, BYTES);
        machine.copy("back", stream, first.device, second.device, BYTES);
        machine.copy("among", stream, second.pinned, first.pinned, BYTES);
        machine.fill("inside", stream, first.device, BYTES, 1);
        machine.drain();
        let uses = machine.0.take_link_uses();
        let told = |from, to| {
            let used = used(&uses, from, to);
            (used.operations, used.bytes, used.busy_ns)
        };
        let ms = |numerator: u64| numerator * 1_000_000_000 / 1024;
        assert_eq!(told(HOST, device(0)), (1, BYTES, ms(1)), "{policy:?}");
        assert_eq!(told(HOST, device(1)), (1, BYTES / 2, ms(1)));
        assert_eq!(told(device(0), HOST), (1, BYTES / 4, ms(1) / 4));
        assert_eq!(told(device(0), device(1)), (1, BYTES, ms(4)));
        // Without one of their own, the slower of both.
        assert_eq!(told(device(1), device(0)), (1, BYTES, ms(2)));
        assert_eq!(told(device(0), device(0)), (1, BYTES, ms(1)));
        assert_eq!(told(HOST, HOST), (1, BYTES, ms(1)));
        assert_eq!(used(&uses, HOST, HOST).device, Some(0));
        assert_eq!(uses.len(), 7);
        assert_eq!(machine.0.take_link_uses(), []);
    }
}

#[test]
fn one_operation_at_a_time_has_a_link_and_other_links_go_on() {
    for policy in POLICIES {
        let machine = paced(policy, [rate(1 << 28); 2]);
        let [first, second] = [0, 1].map(|device| place(&machine.0, device));
        let beside = place(&machine.0, 0);
        // Nothing starts before all are there.
        machine.0.hold();
        let began = Instant::now();
        machine.copy("one", first.stream, first.device, first.pinned, BYTES);
        machine.copy("two", beside.stream, beside.device, beside.pinned, BYTES);
        machine.copy("other", second.stream, second.pinned, second.device, BYTES);
        let submitted = began.elapsed().max(Duration::from_micros(1));
        machine.0.release();
        machine.drain();
        let uses = machine.0.take_link_uses();
        let (shared, alone) = (used(&uses, HOST, device(0)), used(&uses, device(1), HOST));
        let span = |used: LinkUse| used.last_ns - used.first_ns;
        let took = 1_000_000_000 * BYTES / (1 << 28);
        assert!(span(shared) >= 2 * took, "{policy:?}: {shared:?}");
        assert_eq!((shared.busy_ns, span(alone)), (2 * took, took));
        // They began when they were submitted, wherever a worker was by then.
        let apart = u128::from(alone.first_ns.abs_diff(shared.first_ns));
        assert!(apart <= submitted.as_nanos(), "{policy:?}: {uses:?}");
    }
}

#[test]
fn an_operation_ends_in_truth_when_its_link_is_free_and_not_before() {
    let machine = paced(Policy::Threads, [rate(BYTES * 50); 2]);
    let there = place(&machine.0, 0);
    let began = Instant::now();
    machine.copy("slow", there.stream, there.device, there.pinned, BYTES);
    let again = machine.0.query_stream(Site::here("query"), there.stream);
    let asked = began.elapsed();
    assert!(!again.unwrap() || asked >= Duration::from_millis(20));
    machine.synchronize(there.stream).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(20));
}

#[test]
fn by_the_other_policies_nobody_waits_for_a_link() {
    for policy in [Policy::Lazy, Policy::Seeded] {
        // A year for each copy.
        let machine = paced(policy, [rate(1); 2]);
        let there = place(&machine.0, 0);
        let (start, end) = (machine.event(), machine.event());
        machine.record(start, there.stream);
        machine.copy("slow", there.stream, there.device, there.pinned, BYTES);
        machine.record(end, there.stream);
        machine.synchronize(there.stream).unwrap();
        let elapsed = machine.0.elapsed_ns(Site::here("elapsed"), start, end);
        assert!(elapsed.unwrap() >= BYTES * 1_000_000_000);
    }
}

#[test]
fn the_host_and_its_functions_go_on_while_a_link_is_busy() {
    // A minute and more.
    let machine = paced(Policy::Threads, [rate(BYTES / 100), rate(1 << 40)]);
    let [slow, quick] = [0, 1].map(|device| place(&machine.0, device));
    machine.copy("slow", slow.stream, slow.device, slow.pinned, BYTES);
    let called = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&called);
    let function = Box::new(move || tell.store(true, Ordering::SeqCst));
    let site = Site::here("host_call");
    machine.0.host_call(site, quick.stream, function).unwrap();
    machine.copy("quick", quick.stream, quick.device, quick.pinned, BYTES);
    machine.synchronize(quick.stream).unwrap();
    assert!(called.load(Ordering::SeqCst));
    let site = Site::here("query");
    assert!(!machine.0.query_stream(site, slow.stream).unwrap());
    // What is still under way when the engine ends is dropped.
}

#[test]
fn what_is_held_up_by_a_link_is_no_standstill() {
    let machine = Machine::with(Config {
        policy: Policy::Threads,
        links: vec![rate(BYTES * 5)],
        paced: true,
        standstill: Duration::from_millis(20),
        ..Config::default()
    });
    let (stream, memory) = (machine.stream(), machine.allocate(BYTES));
    machine.fill("slow", stream, memory, BYTES, 1);
    machine.synchronize(stream).unwrap();
    assert_eq!(machine.0.reports(), []);
}

#[test]
fn work_that_takes_its_time_is_checked_and_delivers() {
    let machine = paced(Policy::Threads, [rate(1 << 33); 2]);
    let there = place(&machine.0, 0);
    let (from, mut to) = (vec![7_u8; 5000], vec![0_u8; 5000]);
    let site = Site::here("copy");
    let (source, target) = (from.as_ptr().addr() as u64, to.as_mut_ptr().addr() as u64);
    let (_, _) = (
        from.as_ptr().expose_provenance(),
        to.as_mut_ptr().expose_provenance(),
    );
    // SAFETY: both vectors outlive the drain.
    unsafe {
        machine
            .0
            .copy(site, there.stream, there.device, source, 5000)
    }
    .unwrap();
    // SAFETY: as above.
    unsafe {
        machine
            .0
            .copy(site, there.stream, target, there.device, 5000)
    }
    .unwrap();
    let pattern = [1, 2, 3];
    let tail = there.device + 5000;
    // SAFETY: memory of the engine.
    unsafe { machine.0.fill(site, there.stream, tail, 1000, &pattern) }.unwrap();
    // SAFETY: as above.
    unsafe { machine.0.copy(site, there.stream, target, tail, 1000) }.unwrap();
    machine.0.drain(LIMIT).unwrap();
    let filled: Vec<u8> = pattern.iter().copied().cycle().take(1000).collect();
    assert!(to[..1000] == filled && to[1000..] == from[1000..]);
    assert_eq!(machine.0.reports(), []);
    let other = machine.stream();
    machine.fill("one", there.stream, there.device, 8, 1);
    machine.fill("two", other, there.device, 8, 2);
    machine.drain();
    machine.only_report();
}
