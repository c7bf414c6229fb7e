//! Standstills: hardware queues that wait for each other, and those that wait for the host.
#![expect(
    unsafe_code,
    reason = "submits waits for words that the tests keep alive"
)]

use std::time::{Duration, Instant};

use crossdock_sim_engine::{Condition, Config, Error, Policy, ReportKind, Site, Word};

use crate::machine::{LIMIT, Machine, POLICIES, address_mut};

fn machine(policy: Policy, queues: usize) -> Machine {
    Machine::with(Config {
        policy,
        queues,
        idle: None,
        ..Config::default()
    })
}

/// Two streams: one waits for a word, and the other writes it afterwards. What the wait came to.
fn wait_before_write(machine: &Machine, word: Word) -> Result<(), Error> {
    let (a, b) = (machine.stream(), machine.stream());
    let site = Site::here("wait_word");
    // SAFETY: the word outlives the work.
    unsafe { machine.0.wait_word(site, a, word, Condition::Equal) }.unwrap();
    // SAFETY: as above.
    unsafe { machine.0.write_word(Site::here("write_word"), b, word) }.unwrap();
    machine.synchronize(a)
}

#[test]
fn a_memory_wait_before_its_write_stands_still_on_one_hardware_queue() {
    for policy in POLICIES {
        let machine = machine(policy, 1);
        let mut memory = [0_u64];
        let word = Word {
            address: address_mut(&mut memory),
            bits: 64,
            value: 1,
        };
        let stuck = wait_before_write(&machine, word);
        assert!(
            matches!(stuck, Err(Error::Standstill(_))),
            "{policy:?}: {stuck:?}"
        );
        let report = machine.only_report();
        assert_eq!(report.kind, ReportKind::Standstill, "{report}");
        assert_eq!(report.first.name(), "wait_word", "{report}");
        assert_eq!(report.second.unwrap().name(), "write_word", "{report}");
        assert!(
            report
                .detail
                .contains("behind it in hardware queue 0 stand `write_word`")
        );
        assert_eq!(machine.0.standstill().as_ref(), Some(&report));
        // SAFETY: the word lives until all work is over.
        unsafe { machine.0.store_word(Site::here("store_word"), word) }.unwrap();
        machine.drain();
        assert_eq!(machine.0.standstill(), None);
    }
}

#[test]
fn the_same_program_runs_on_two_hardware_queues() {
    for policy in POLICIES {
        let machine = machine(policy, 2);
        let mut memory = [0_u64];
        let word = Word {
            address: address_mut(&mut memory),
            bits: 64,
            value: 1,
        };
        wait_before_write(&machine, word).unwrap();
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_later_stream_shares_no_queue_with_one_that_lives_while_another_is_free() {
    for policy in POLICIES {
        let machine = machine(policy, 2);
        let mut memory = [0_u64];
        let word = Word {
            address: address_mut(&mut memory),
            bits: 64,
            value: 1,
        };
        let lives = machine.stream();
        let passing = machine.stream();
        machine
            .0
            .destroy_stream(Site::here("destroy_stream"), passing)
            .unwrap();
        let (again, site) = (machine.stream(), Site::here("wait_word"));
        // SAFETY: the word outlives the work.
        unsafe { machine.0.wait_word(site, lives, word, Condition::Equal) }.unwrap();
        // SAFETY: as above.
        unsafe { machine.0.write_word(Site::here("write_word"), again, word) }.unwrap();
        machine.synchronize(lives).unwrap();
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn an_event_behind_a_wait_for_the_host_stands_still_until_the_host_completes_it() {
    for policy in POLICIES {
        let machine = machine(policy, 1);
        let (a, b) = (machine.stream(), machine.stream());
        let (host, event) = (machine.host_event(), machine.event());
        machine.wait(a, host);
        machine.record(event, b);
        let site = Site::here("synchronize_event");
        let early = machine
            .0
            .synchronize_event(site, event, Some(Duration::ZERO));
        assert!(
            matches!(early, Err(Error::TimedOut)),
            "{policy:?}: {early:?}"
        );
        let report = machine.0.standstill().expect("all wait for the host");
        assert_eq!(report.first.name(), "wait", "{report}");
        assert_eq!(
            report.second.unwrap().name(),
            "create_host_event",
            "{report}"
        );
        assert!(report.detail.contains("stand `record`"), "{report}");
        machine
            .0
            .complete(Site::here("complete"), host, Ok(()))
            .unwrap();
        machine
            .0
            .synchronize_event(site, event, Some(LIMIT))
            .unwrap();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
fn a_wait_that_nothing_moves_for_long_is_reported_and_goes_on() {
    for policy in POLICIES {
        let standstill = Duration::from_millis(1);
        let config = Config {
            policy,
            standstill,
            idle: None,
            ..Config::default()
        };
        let machine = Machine::with(config);
        let (a, host) = (machine.stream(), machine.host_event());
        machine.wait(a, host);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| machine.synchronize(a));
            while machine.0.reports().is_empty() {
                std::thread::yield_now();
            }
            machine
                .0
                .complete(Site::here("complete"), host, Ok(()))
                .unwrap();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(
            machine.only_report().kind,
            ReportKind::Standstill,
            "{policy:?}"
        );
    }
}

#[test]
fn many_short_waits_in_a_row_find_a_standstill_as_a_long_one_does() {
    for policy in POLICIES {
        let standstill = Duration::from_millis(100);
        let config = Config {
            policy,
            standstill,
            idle: None,
            ..Config::default()
        };
        let machine = Machine::with(config);
        let (a, host) = (machine.stream(), machine.host_event());
        machine.wait(a, host);
        let site = Site::here("synchronize_stream");
        let end = Instant::now() + LIMIT;
        while machine.0.reports().is_empty() && Instant::now() < end {
            let slice = Some(Duration::from_millis(10));
            let waited = machine.0.synchronize_stream(site, a, slice);
            assert!(matches!(waited, Err(Error::TimedOut)), "{policy:?}");
        }
        assert_eq!(
            machine.only_report().kind,
            ReportKind::Standstill,
            "{policy:?}"
        );
        machine
            .0
            .complete(Site::here("complete"), host, Ok(()))
            .unwrap();
        machine.synchronize(a).unwrap();
    }
}

#[test]
fn a_word_that_one_of_its_writers_can_still_write_is_no_standstill() {
    for policy in POLICIES {
        let machine = machine(policy, 2);
        let (a, b, c) = (machine.stream(), machine.stream(), machine.stream());
        let (host, mut memory) = (machine.host_event(), [0_u64]);
        let word = Word {
            address: address_mut(&mut memory),
            bits: 64,
            value: 1,
        };
        let site = Site::here("wait_word");
        // SAFETY: the word outlives the work.
        unsafe { machine.0.wait_word(site, a, word, Condition::Equal) }.unwrap();
        machine.wait(b, host);
        // SAFETY: as above.
        unsafe { machine.0.write_word(Site::here("by b"), b, word) }.unwrap();
        // SAFETY: as above; this one stands behind the wait in the same hardware queue.
        unsafe { machine.0.write_word(Site::here("by c"), c, word) }.unwrap();
        let site = Site::here("synchronize_stream");
        let early = machine.0.synchronize_stream(site, a, Some(Duration::ZERO));
        assert!(
            matches!(early, Err(Error::TimedOut)),
            "{policy:?}: {early:?}"
        );
        machine
            .0
            .complete(Site::here("complete"), host, Ok(()))
            .unwrap();
        machine.synchronize(a).unwrap();
        machine.drain();
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}
