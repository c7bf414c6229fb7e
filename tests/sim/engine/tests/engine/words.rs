//! Words that streams write and wait for, as uses of their memory.
#![expect(unsafe_code, reason = "submits words in memory of the engine")]

use crossdock_sim_engine::{Condition, Event, ReportKind, Site, Stream, Word};

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
