//! Words that streams write and wait for, as uses of their memory.
#![expect(unsafe_code, reason = "submits words in memory of the engine")]

use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sim_engine::{Access, Condition, Event, Policy, ReportKind, Site, Stream, Word};

use crate::machine::{Machine, POLICIES};

fn one(address: u64) -> Word {
    Word {
        address,
        bits: 64,
        value: 1,
    }
}

fn write(machine: &Machine, stream: Stream, address: u64) {
    let site = Site::here("write_word");
    // SAFETY: the word is in memory of the engine.
    unsafe { machine.0.write_word(site, stream, one(address)) }.unwrap();
}

fn wait(machine: &Machine, stream: Stream, address: u64, condition: Condition) {
    let site = Site::here("wait_word");
    // SAFETY: as above.
    unsafe { machine.0.wait_word(site, stream, one(address), condition) }.unwrap();
}

/// The word, as host code reads and writes it without a call.
fn by_host(machine: &Machine, address: u64) -> &AtomicU64 {
    let view = machine.0.host_view(address).unwrap();
    // SAFETY: it is aligned memory of the engine, which the tests do not free while they use it.
    unsafe { AtomicU64::from_ptr(view.as_ptr().cast()) }
}

/// Two streams, an event, and a word that is 0.
fn begin(machine: &Machine) -> (Stream, Stream, Event, u64) {
    let (a, b, event) = (machine.stream(), machine.stream(), machine.event());
    let word = machine.allocate(8);
    machine.fill("zero", a, word, 8, 0);
    machine.synchronize(a).unwrap();
    (a, b, event, word)
}

#[test]
fn a_word_that_other_work_fills_without_an_order_is_a_race() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, event, word) = begin(&machine);
        write(&machine, a, word);
        machine.fill("fill", b, word, 8, 0);
        machine.drain();
        let report = machine.only_report();
        assert_eq!(report.kind, ReportKind::Race, "{policy:?}");
        let calls = (report.first.name(), report.second.unwrap().name());
        assert_eq!(calls, ("write_word", "fill"), "{policy:?}");
        // In order it is none.
        write(&machine, a, word);
        machine.record(event, a);
        machine.wait(b, event);
        machine.fill("fill", b, word, 8, 0);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn words_order_streams_and_race_with_nobody_who_waits_for_them() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, _, word) = begin(&machine);
        let memory = machine.allocate(64);
        machine.fill("before", a, memory, 64, 7);
        write(&machine, a, word);
        wait(&machine, b, word, Condition::Equal);
        machine.fill("behind", b, memory, 64, 8);
        // Both write it, and whoever waits has what it waits for.
        write(&machine, b, word);
        write(&machine, a, word);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn memory_that_is_freed_under_a_word_is_a_free_in_use() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, _, word) = begin(&machine);
        for is_wait in [false, true] {
            let short_lived = machine.allocate(8);
            machine.copy("copy", a, short_lived, word, 8);
            machine.drain();
            if is_wait {
                write(&machine, b, short_lived);
                machine.drain();
                // It ends by what is there after the free, too.
                wait(&machine, a, short_lived, Condition::Nor);
            } else {
                write(&machine, a, short_lived);
            }
            let site = Site::here("free_on");
            machine.0.free_on(site, b, short_lived).unwrap();
            machine.drain();
            let report = machine.only_report();
            assert_eq!(report.kind, ReportKind::FreeInUse, "{policy:?}, {is_wait}");
        }
    }
}

#[test]
fn a_wait_for_a_word_that_host_code_wrote_knows_what_the_host_did() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, _, word) = begin(&machine);
        let memory = machine.allocate(64);
        // A stream wrote it once, also the same value.
        write(&machine, a, word);
        machine.synchronize(a).unwrap();
        by_host(&machine, word).store(0, Ordering::SeqCst);
        machine.fill("before", a, memory, 64, 7);
        wait(&machine, b, word, Condition::Equal);
        machine.fill("behind", b, memory, 64, 8);
        machine.synchronize(a).unwrap();
        by_host(&machine, word).store(1, Ordering::SeqCst);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_word_may_have_the_value_until_the_host_lets_a_stream_come_to_its_wait() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, _, word) = begin(&machine);
        let (memory, gate) = (machine.allocate(64), machine.host_event());
        write(&machine, a, word);
        machine.synchronize(a).unwrap();
        machine.fill("before", a, memory, 64, 7);
        machine.wait(b, gate);
        wait(&machine, b, word, Condition::Equal);
        machine.fill("behind", b, memory, 64, 8);
        by_host(&machine, word).store(0, Ordering::SeqCst);
        let site = Site::here("complete");
        machine.0.complete(site, gate, Ok(())).unwrap();
        machine.synchronize(a).unwrap();
        by_host(&machine, word).store(1, Ordering::SeqCst);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_wait_for_a_word_knows_nothing_that_the_host_learns_once_it_can_pass() {
    for policy in POLICIES {
        for is_stale in [false, true] {
            let machine = Machine::new(policy);
            let (a, b, _, word) = begin(&machine);
            let memory = machine.allocate(64);
            if is_stale {
                // Nobody takes back what an earlier use of the word left.
                write(&machine, a, word);
                machine.synchronize(a).unwrap();
            }
            machine.fill("before", a, memory, 64, 7);
            wait(&machine, b, word, Condition::Equal);
            machine.fill("behind", b, memory, 64, 8);
            // Too early: the stream that waits may go on before the other one is done.
            by_host(&machine, word).store(1, Ordering::SeqCst);
            machine.synchronize(a).unwrap();
            machine.drain();
            let report = machine.only_report();
            assert_eq!(report.kind, ReportKind::Race, "{policy:?}, {is_stale}");
            let calls = (report.first.name(), report.second.unwrap().name());
            assert_eq!(calls, ("before", "behind"), "{policy:?}, {is_stale}");
        }
    }
}

#[test]
fn a_stream_that_writes_a_word_later_orders_no_wait_that_could_pass_before() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, event, word) = begin(&machine);
        let memory = machine.allocate(64);
        wait(&machine, b, word, Condition::Equal);
        machine.fill("behind", b, memory, 64, 8);
        machine.fill("before", a, memory, 64, 7);
        by_host(&machine, word).store(1, Ordering::SeqCst);
        write(&machine, a, word);
        machine.record(event, a);
        // So the stream that writes goes first by any policy that can choose.
        let site = Site::here("synchronize_event");
        machine.0.synchronize_event(site, event, None).unwrap();
        machine.drain();
        assert_eq!(machine.only_report().kind, ReportKind::Race, "{policy:?}");
    }
}

#[test]
fn what_host_code_does_once_a_wait_can_pass_races_with_what_waited() {
    for policy in POLICIES {
        for is_mended in [false, true] {
            let machine = Machine::new(policy);
            let (_, b, _, word) = begin(&machine);
            let memory = machine.allocate(64);
            wait(&machine, b, word, Condition::Equal);
            machine.fill("behind", b, memory, 64, 8);
            let touch = || {
                let site = Site::here("touch");
                machine.0.touch(site, memory, 64, Access::Write);
            };
            if is_mended {
                touch();
            }
            by_host(&machine, word).store(1, Ordering::SeqCst);
            if !is_mended {
                touch();
            }
            machine.drain();
            let kinds: Vec<_> = machine.0.reports().iter().map(|r| r.kind).collect();
            let right: &[_] = if is_mended {
                &[]
            } else {
                &[ReportKind::HostRace]
            };
            assert_eq!(kinds, right, "{policy:?}");
        }
    }
}

#[test]
fn host_code_that_writes_behind_a_stream_passes_on_what_the_stream_wrote() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b, _, word) = begin(&machine);
        let memory = machine.allocate(64);
        machine.fill("before", a, memory, 64, 7);
        write(&machine, a, word);
        while by_host(&machine, word).load(Ordering::SeqCst) != 1 {
            machine.0.progress(1);
        }
        let two = Word {
            value: 2,
            ..one(word)
        };
        let site = Site::here("wait_word");
        // SAFETY: as above.
        unsafe { machine.0.wait_word(site, b, two, Condition::Equal) }.unwrap();
        machine.fill("behind", b, memory, 64, 8);
        by_host(&machine, word).store(2, Ordering::SeqCst);
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_word_in_memory_that_was_allocated_anew_is_another_word() {
    let machine = Machine::new(Policy::Lazy);
    let (a, b) = (machine.stream(), machine.stream());
    let large = 32 << 20;
    let (word, memory) = (machine.allocate(large), machine.allocate(64));
    machine.fill("before", a, memory, 64, 7);
    write(&machine, a, word);
    let site = Site::here("free_on");
    machine.0.free_on(site, a, word).unwrap();
    assert_eq!(machine.0.progress(3), 3);
    // Addresses come back when all were given out.
    let mut again = (0..40).map(|_| machine.allocate(large)).filter(|&at| {
        let is_other = at != word;
        if is_other {
            machine.0.free(Site::here("free"), at).unwrap();
        }
        !is_other
    });
    assert_eq!(again.next(), Some(word));
    by_host(&machine, word).store(0, Ordering::SeqCst);
    wait(&machine, b, word, Condition::Equal);
    machine.fill("behind", b, memory, 64, 8);
    by_host(&machine, word).store(1, Ordering::SeqCst);
    machine.drain();
    let report = machine.only_report();
    let calls = (report.first.name(), report.second.unwrap().name());
    assert_eq!(calls, ("before", "behind"));
}
