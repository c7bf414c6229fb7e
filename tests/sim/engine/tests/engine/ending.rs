//! Work that is left at the end of a process: it is judged, and host memory is not touched.
#![expect(unsafe_code, reason = "submits words that the tests keep alive")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock_sim_engine::{Condition, Policy, ReportKind, Site, Word};

use crate::machine::{Machine, POLICIES, address_mut};

fn to_be_one(address: u64) -> Word {
    Word {
        address,
        bits: 64,
        value: 1,
    }
}

#[test]
fn a_race_of_work_that_nobody_waited_for_is_reported_and_host_memory_stays() {
    let mut own = [0_u8; 64];
    let machine = Machine::new(Policy::Lazy);
    let (a, b) = (machine.stream(), machine.stream());
    let memory = machine.allocate(64);
    machine.fill("one", a, memory, 64, 7);
    machine.copy("other", b, address_mut(&mut own), memory, 64);
    machine.0.judge_what_is_left();
    let report = machine.only_report();
    assert_eq!(report.kind, ReportKind::Race);
    assert_eq!(
        (report.first.name(), report.second.unwrap().name()),
        ("one", "other")
    );
    assert_eq!((own, machine.0.pending()), ([0; 64], 0));
}

#[test]
fn what_stands_behind_a_host_function_is_judged_and_the_function_is_not_called() {
    for policy in [Policy::Lazy, Policy::Seeded] {
        let machine = Machine::new(policy);
        let (a, b) = (machine.stream(), machine.stream());
        let memory = machine.allocate(64);
        let was_called = Arc::new(AtomicBool::new(false));
        let calls = Arc::clone(&was_called);
        let function = move || calls.store(true, Ordering::SeqCst);
        // Nothing runs before the end, by any seed.
        machine.0.hold();
        let site = Site::here("host_call");
        machine.0.host_call(site, a, Box::new(function)).unwrap();
        machine.fill("one", a, memory, 64, 7);
        machine.fill("other", b, memory, 64, 8);
        machine.0.release();
        machine.0.judge_what_is_left();
        assert_eq!(machine.only_report().kind, ReportKind::Race, "{policy:?}");
        assert!(!was_called.load(Ordering::SeqCst), "{policy:?}");
        assert_eq!(machine.0.pending(), 0, "{policy:?}");
    }
}

#[test]
fn what_is_in_order_is_judged_so() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, event) = (machine.stream(), machine.stream(), machine.event());
        let (memory, word) = (machine.allocate(64), machine.allocate(8));
        machine.fill("zero", a, word, 8, 0);
        machine.synchronize(a).unwrap();
        machine.fill("one", a, memory, 64, 7);
        machine.record(event, a);
        machine.wait(b, event);
        machine.fill("other", b, memory, 64, 8);
        let (site, word) = (Site::here("word"), to_be_one(word));
        // SAFETY: the word is in memory of the engine.
        unsafe { machine.0.write_word(site, b, word) }.unwrap();
        // SAFETY: as above.
        unsafe { machine.0.wait_word(site, a, word, Condition::Equal) }.unwrap();
        machine.fill("third", a, memory, 64, 9);
        machine.0.judge_what_is_left();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
        assert_eq!(machine.0.pending(), 0, "{policy:?}");
    }
}

#[test]
fn what_host_code_would_have_to_allow_is_left() {
    let mut gone = [0_u64];
    let machine = Machine::new(Policy::Lazy);
    let (a, b) = (machine.stream(), machine.stream());
    let memory = machine.allocate(64);
    let (site, word) = (Site::here("word"), to_be_one(address_mut(&mut gone)));
    // SAFETY: the word outlives the engine's work.
    unsafe { machine.0.wait_word(site, a, word, Condition::Equal) }.unwrap();
    machine.fill("one", a, memory, 64, 7);
    machine.fill("other", b, memory, 64, 8);
    machine.0.judge_what_is_left();
    assert_eq!((machine.0.reports(), machine.0.pending()), (vec![], 2));
}
