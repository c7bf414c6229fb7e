//! Failures: where they strike, who is told, and how often.
#![expect(unsafe_code, reason = "submits fills of memory that the engine checks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_sim_engine::{Config, Engine, Error, Event, Failure, Fault, Policy, Site, Stream};

use crate::machine::{LIMIT, Machine, POLICIES};

fn machine(policy: Policy, faults: Vec<Fault>) -> Machine {
    Machine::with(Config {
        policy,
        faults,
        idle: None,
        ..Config::default()
    })
}

fn status(outcome: Result<(), Error>) -> Option<i32> {
    match outcome {
        Ok(()) => None,
        Err(Error::Failed(Failure { status, .. })) => Some(status),
        Err(other) => panic!("another error: {other}"),
    }
}

fn synchronize(machine: &Machine, event: Event) -> Option<i32> {
    let site = Site::here("synchronize_event");
    status(machine.0.synchronize_event(site, event, Some(LIMIT)))
}

#[test]
fn a_late_failure_stays_on_the_event_behind_it_and_is_told_once_by_the_stream() {
    for policy in POLICIES {
        let machine = machine(policy, vec![Fault::late("second", 1, 77)]);
        let (stream, memory) = (machine.stream(), machine.allocate(64));
        let (before, behind) = (machine.event(), machine.event());
        machine.fill("first", stream, memory, 64, 1);
        machine.record(before, stream);
        machine.fill("second", stream, memory, 64, 2);
        machine.record(behind, stream);
        assert_eq!(synchronize(&machine, before), None, "{policy:?}");
        assert_eq!(synchronize(&machine, behind), Some(77), "{policy:?}");
        assert_eq!(synchronize(&machine, behind), Some(77), "{policy:?}");
        let told = machine.synchronize(stream);
        assert!(
            matches!(&told, Err(Error::Failed(f)) if f.site.name() == "second"),
            "{told:?}"
        );
        assert_eq!(status(machine.synchronize(stream)), None, "{policy:?}");
    }
}

#[test]
fn a_stream_takes_over_the_failure_of_what_it_waits_for() {
    for policy in POLICIES {
        let machine = machine(policy, vec![Fault::late("work", 1, 5)]);
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(64));
        let (first, second) = (machine.event(), machine.event());
        machine.fill("work", a, memory, 64, 1);
        machine.record(first, a);
        machine.wait(b, first);
        machine.record(second, b);
        assert_eq!(synchronize(&machine, second), Some(5), "{policy:?}");
        assert_eq!(status(machine.synchronize(b)), Some(5), "{policy:?}");
    }
}

#[test]
fn work_behind_a_failure_runs_or_is_skipped_as_configured() {
    for policy in POLICIES {
        for (run_after_failure, right) in [(true, 2), (false, 1)] {
            let faults = vec![Fault::late("fails", 1, 5)];
            let idle = None;
            let config = Config {
                policy,
                faults,
                run_after_failure,
                idle,
                ..Config::default()
            };
            let machine = Machine::with(config);
            let (a, memory, mut target) = (machine.stream(), machine.allocate(8), [0_u8; 8]);
            machine.fill("before", a, memory, 8, 1);
            machine.fill("fails", a, memory, 8, 9);
            machine.fill("behind", a, memory, 8, 2);
            assert_eq!(status(machine.synchronize(a)), Some(5));
            machine.copy(
                "out",
                a,
                crate::machine::address_mut(&mut target),
                memory,
                8,
            );
            assert_eq!(status(machine.synchronize(a)), None);
            assert_eq!(target, [right; 8], "{policy:?}, {run_after_failure}");
        }
    }
}

#[test]
fn a_host_function_is_called_exactly_once_also_behind_a_failure_and_when_it_fails() {
    for policy in POLICIES {
        let machine = machine(policy, vec![Fault::late("host_call", 1, 6)]);
        let (stream, called) = (machine.stream(), Arc::new(AtomicU32::new(0)));
        for _ in 0..3 {
            let called = Arc::clone(&called);
            let count = move || _ = called.fetch_add(1, Ordering::SeqCst);
            machine
                .0
                .host_call(Site::here("host_call"), stream, Box::new(count))
                .unwrap();
        }
        assert_eq!(status(machine.synchronize(stream)), Some(6), "{policy:?}");
        assert_eq!(called.load(Ordering::SeqCst), 3, "{policy:?}");
    }
}

#[test]
fn a_host_function_that_panics_fails_its_stream_and_ends_nothing_else() {
    for policy in POLICIES {
        let machine = machine(policy, Vec::new());
        let stream = machine.stream();
        let panics = || std::panic::resume_unwind(Box::new("on purpose"));
        machine
            .0
            .host_call(Site::here("host_call"), stream, Box::new(panics))
            .unwrap();
        assert!(status(machine.synchronize(stream)).is_some(), "{policy:?}");
        assert_eq!(status(machine.synchronize(stream)), None, "{policy:?}");
    }
}

#[test]
fn a_host_event_that_fails_or_is_destroyed_fails_its_waiters() {
    for policy in POLICIES {
        let machine = machine(policy, Vec::new());
        let (a, b) = (machine.stream(), machine.stream());
        let (failed, gone) = (machine.host_event(), machine.host_event());
        machine.wait(a, failed);
        machine.wait(b, gone);
        machine
            .0
            .complete(Site::here("complete"), failed, Err(8))
            .unwrap();
        machine
            .0
            .destroy_event(Site::here("destroy_event"), gone)
            .unwrap();
        assert_eq!(status(machine.synchronize(a)), Some(8), "{policy:?}");
        assert_eq!(
            status(machine.synchronize(b)),
            Some(Engine::DESTROYED),
            "{policy:?}"
        );
        assert_eq!(synchronize(&machine, failed), Some(8), "{policy:?}");
        let twice = machine.0.complete(Site::here("complete"), failed, Ok(()));
        assert!(matches!(twice, Err(Error::Invalid { .. })), "{twice:?}");
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    for policy in POLICIES {
        let machine = machine(policy, vec![Fault::refusal("fill", 2, 4)]);
        let (stream, memory) = (machine.stream(), machine.allocate(8));
        let fill = |stream: Stream| {
            // SAFETY: memory of the engine is checked.
            unsafe { machine.0.fill(Site::here("fill"), stream, memory, 8, &[1]) }
        };
        let outcomes: Vec<Option<i32>> = (0..3).map(|_| status(fill(stream))).collect();
        assert_eq!(outcomes, [None, Some(4), None], "{policy:?}");
        assert_eq!(status(machine.synchronize(stream)), None, "{policy:?}");
    }
}

#[test]
fn a_lost_device_refuses_everything_and_the_others_go_on() {
    for policy in POLICIES {
        let mut lost = Fault::late("work", 1, 100);
        lost.loses_device = true;
        let config = Config {
            devices: 2,
            policy,
            faults: vec![lost],
            ..Config::default()
        };
        let machine = Machine::with(config);
        let (stream, memory) = (machine.stream(), machine.allocate(8));
        machine.fill("work", stream, memory, 8, 1);
        assert_eq!(status(machine.0.drain(LIMIT)), None);
        let create = |device| machine.0.create_stream(Site::here("create_stream"), device);
        assert_eq!(status(create(0).map(drop)), Some(100), "{policy:?}");
        assert_eq!(status(create(1).map(drop)), None, "{policy:?}");
        assert_eq!(status(machine.synchronize(stream)), Some(100), "{policy:?}");
        machine.0.clear_faults();
        assert_eq!(status(create(0).map(drop)), None, "{policy:?}");
    }
}

#[test]
fn a_share_of_late_failures_is_the_same_for_the_same_seed() {
    let run = |seed| {
        let faults = vec![Fault::late("work", 1, 3).at_percent(30)];
        let config = Config {
            faults,
            seed,
            idle: None,
            ..Config::default()
        };
        let machine = Machine::with(config);
        let (stream, memory) = (machine.stream(), machine.allocate(8));
        let work = |_| {
            machine.fill("work", stream, memory, 8, 1);
            status(machine.synchronize(stream)).is_some()
        };
        (0..100).map(work).collect::<Vec<bool>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!((10..60).contains(&run(1).into_iter().filter(|&failed| failed).count()));
}

#[test]
fn work_that_a_failure_keeps_from_running_uses_nothing() {
    for policy in POLICIES {
        let machine = machine(policy, vec![Fault::late("fails", 1, 5)]);
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
        machine.fill("fails", a, memory, 8, 1);
        machine.fill("work", b, memory, 8, 2);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}
