//! Each kind of report is provoked once, and names the right two calls, in every schedule.
#![expect(
    unsafe_code,
    reason = "submits copies of memory that the tests keep alive"
)]

use crossdock_sim_engine::{Access, Config, Error, ReportKind, Site};

use crate::machine::{Machine, POLICIES, address, address_mut};

/// Runs a program under every policy, on few and many hardware queues and with several seeds, and
/// looks for exactly one report of this kind about these calls.
#[track_caller]
fn provokes(
    kind: ReportKind,
    first: &str,
    second: Option<&str>,
    change: impl Fn(&mut Config),
    program: impl Fn(&Machine),
) {
    for policy in POLICIES {
        for queues in [1, 2, 8] {
            for seed in 0..5 {
                let mut config = Config {
                    policy,
                    queues,
                    seed,
                    idle: None,
                    ..Config::default()
                };
                config.memory_bytes = 1 << 20;
                change(&mut config);
                let machine = Machine::with(config);
                program(&machine);
                let report = machine.only_report();
                let context = format!("{policy:?}, {queues} queues, seed {seed}: {report}");
                assert_eq!(report.kind, kind, "{context}");
                assert_eq!(report.first.name(), first, "{context}");
                assert_eq!(report.second.as_ref().map(Site::name), second, "{context}");
                assert!(context.contains("reports.rs:"), "no line in: {context}");
            }
        }
    }
}

fn nothing(_: &mut Config) {}

#[test]
fn two_writes_without_an_order_are_a_race() {
    provokes(ReportKind::Race, "one", Some("two"), nothing, |machine| {
        let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(64));
        machine.fill("one", a, memory, 40, 1);
        machine.fill("two", b, memory + 32, 32, 2);
        machine.drain();
    });
}

#[test]
fn a_report_of_two_uses_names_the_streams_of_the_first_call_and_of_the_second() {
    for policy in POLICIES {
        for seed in 0..10 {
            let machine = Machine::with(Config {
                policy,
                seed,
                idle: None,
                ..Config::default()
            });
            let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(64));
            machine.fill("one", b, memory, 40, 1);
            machine.fill("two", a, memory, 40, 2);
            machine.drain();
            let report = machine.only_report();
            assert_eq!(report.streams, Some((b.raw(), a.raw())), "{report}");
            let (first, second) = (report.streams.unwrap(), report.second.unwrap());
            assert!(first.0 > first.1 && second.name() == "two");
            machine.fill("work", a, memory, 8, 1);
            machine.0.touch(Site::here("host"), memory, 8, Access::Read);
            machine.drain();
            let streams = machine.only_report().streams;
            assert_eq!(streams, Some((a.raw(), 0)), "0 is the host");
        }
    }
}

#[test]
fn a_read_and_a_write_without_an_order_are_a_race() {
    provokes(
        ReportKind::Race,
        "reads",
        Some("writes"),
        nothing,
        |machine| {
            let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(64));
            let mut target = [0_u8; 64];
            machine.fill("before", a, memory, 64, 1);
            machine.synchronize(a).unwrap();
            machine.copy("reads", a, address_mut(&mut target), memory, 64);
            machine.fill("writes", b, memory, 64, 2);
            machine.drain();
        },
    );
}

#[test]
fn a_wait_for_an_event_that_was_recorded_too_early_leaves_a_race() {
    provokes(
        ReportKind::Race,
        "write",
        Some("read"),
        nothing,
        |machine| {
            let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(8));
            let (event, mut target) = (machine.event(), [0_u8; 8]);
            machine.record(event, a);
            machine.fill("write", a, memory, 8, 1);
            machine.wait(b, event);
            machine.copy("read", b, address_mut(&mut target), memory, 8);
            machine.drain();
        },
    );
}

#[test]
fn a_use_of_memory_that_the_host_freed_is_a_use_after_free() {
    provokes(
        ReportKind::UseAfterFree,
        "free",
        Some("late"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.0.free(Site::here("free"), memory).unwrap();
            // SAFETY: memory of the engine is checked.
            let late = unsafe { machine.0.fill(Site::here("late"), a, memory, 8, &[1]) };
            assert!(matches!(late, Err(Error::Invalid { .. })), "{late:?}");
            machine.drain();
        },
    );
}

#[test]
fn a_use_behind_a_free_in_the_same_stream_is_a_use_after_free() {
    provokes(
        ReportKind::UseAfterFree,
        "free_on",
        Some("late"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.0.free_on(Site::here("free_on"), a, memory).unwrap();
            machine.fill("late", a, memory, 8, 1);
            machine.drain();
        },
    );
}

#[test]
fn a_free_by_the_host_under_a_running_copy_is_a_free_in_use() {
    provokes(
        ReportKind::FreeInUse,
        "work",
        Some("free"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.fill("work", a, memory, 64, 1);
            machine.0.free(Site::here("free"), memory).unwrap();
            machine.drain();
        },
    );
}

#[test]
fn a_free_in_another_stream_without_an_order_is_a_free_in_use() {
    provokes(
        ReportKind::FreeInUse,
        "work",
        Some("free_on"),
        nothing,
        |machine| {
            let (a, b, memory) = (machine.stream(), machine.stream(), machine.allocate(64));
            machine.fill("work", a, memory + 8, 8, 1);
            machine.0.free_on(Site::here("free_on"), b, memory).unwrap();
            machine.drain();
        },
    );
}

#[test]
fn a_use_that_nothing_orders_behind_the_allocation_is_reported() {
    let kind = ReportKind::UseBeforeAllocation;
    provokes(kind, "allocate_on", Some("work"), nothing, |machine| {
        let (a, b) = (machine.stream(), machine.stream());
        let memory = machine
            .0
            .allocate_on(Site::here("allocate_on"), a, 64)
            .unwrap();
        machine.fill("work", b, memory, 64, 1);
        machine.drain();
    });
}

#[test]
fn a_use_before_the_allocation_is_told_with_both_streams() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let (a, b) = (machine.stream(), machine.stream());
        let site = Site::here("allocate_on");
        let memory = machine.0.allocate_on(site, a, 64).unwrap();
        machine.fill("work", b, memory, 64, 1);
        machine.drain();
        let told = machine.only_report().detail;
        let order = format!("`work` on {b} behind `allocate_on` on {a}:");
        assert!(told.contains(&order), "{told}");
    }
}

#[test]
fn a_range_that_ends_behind_its_allocation_is_out_of_bounds() {
    provokes(
        ReportKind::OutOfBounds,
        "allocate",
        Some("work"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            // SAFETY: memory of the engine is checked.
            let over = unsafe { machine.0.fill(Site::here("work"), a, memory + 1, 64, &[1]) };
            assert!(matches!(over, Err(Error::Invalid { .. })), "{over:?}");
        },
    );
}

#[test]
fn a_host_read_of_what_a_copy_writes_is_a_host_race() {
    provokes(
        ReportKind::HostRace,
        "copy",
        Some("touch"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            let mut target = [0_u8; 64];
            machine.fill("before", a, memory, 64, 1);
            machine.copy("copy", a, address_mut(&mut target), memory, 64);
            machine
                .0
                .touch(Site::here("touch"), address(&target), 8, Access::Read);
            machine.drain();
        },
    );
}

#[test]
fn a_host_write_into_memory_that_a_fill_writes_is_a_host_race() {
    provokes(
        ReportKind::HostRace,
        "fill",
        Some("touch"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.fill("fill", a, memory, 64, 1);
            machine
                .0
                .touch(Site::here("touch"), memory + 60, 4, Access::Write);
            machine.drain();
        },
    );
}

#[test]
fn a_read_of_fresh_memory_is_reported_where_that_is_asked_for() {
    let ask = |config: &mut Config| config.report_uninitialised = true;
    provokes(
        ReportKind::Uninitialised,
        "allocate",
        Some("copy"),
        ask,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            let mut target = [0_u8; 64];
            machine.fill("half", a, memory, 32, 1);
            machine.copy("copy", a, address_mut(&mut target), memory, 64);
            machine.drain();
        },
    );
}

#[test]
fn a_host_write_that_nothing_orders_behind_a_free_in_a_stream_is_a_free_in_use() {
    provokes(
        ReportKind::FreeInUse,
        "free_on",
        Some("touch"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.0.free_on(Site::here("free_on"), a, memory).unwrap();
            machine
                .0
                .touch(Site::here("touch"), memory, 4, Access::Write);
            machine.drain();
        },
    );
}

#[test]
fn a_host_write_behind_a_free_is_a_use_after_free() {
    provokes(
        ReportKind::UseAfterFree,
        "free_on",
        Some("touch"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.0.free_on(Site::here("free_on"), a, memory).unwrap();
            machine.synchronize(a).unwrap();
            machine
                .0
                .touch(Site::here("touch"), memory, 4, Access::Write);
        },
    );
}

#[test]
fn a_second_free_is_a_double_free() {
    provokes(
        ReportKind::DoubleFree,
        "free",
        Some("again"),
        nothing,
        |machine| {
            let memory = machine.allocate(64);
            machine.0.free(Site::here("free"), memory).unwrap();
            let again = machine.0.free(Site::here("again"), memory);
            assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
        },
    );
}

#[test]
fn a_free_of_what_a_stream_will_free_is_a_double_free() {
    provokes(
        ReportKind::DoubleFree,
        "free_on",
        Some("again"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            machine.0.free_on(Site::here("free_on"), a, memory).unwrap();
            assert!(machine.0.free(Site::here("again"), memory).is_err());
            machine.drain();
        },
    );
}

#[test]
fn work_on_a_destroyed_stream_is_stale() {
    provokes(ReportKind::Stale, "work", None, nothing, |machine| {
        let (a, memory) = (machine.stream(), machine.allocate(64));
        machine
            .0
            .destroy_stream(Site::here("destroy_stream"), a)
            .unwrap();
        // SAFETY: memory of the engine is checked.
        let stale = unsafe { machine.0.fill(Site::here("work"), a, memory, 8, &[1]) };
        assert!(matches!(stale, Err(Error::Stale { .. })), "{stale:?}");
    });
}

#[test]
fn a_wait_for_a_destroyed_event_is_stale() {
    provokes(ReportKind::Stale, "wait", None, nothing, |machine| {
        let (a, event) = (machine.stream(), machine.event());
        machine
            .0
            .destroy_event(Site::here("destroy_event"), event)
            .unwrap();
        let stale = machine.0.wait(Site::here("wait"), a, event);
        assert!(matches!(stale, Err(Error::Stale { .. })), "{stale:?}");
    });
}

#[test]
fn a_wait_for_an_event_without_a_record_is_reported_where_that_is_asked_for() {
    let ask = |config: &mut Config| config.report_unrecorded = true;
    provokes(
        ReportKind::Unrecorded,
        "create_event",
        Some("wait"),
        ask,
        |machine| {
            let (a, event) = (machine.stream(), machine.event());
            machine.wait(a, event);
            machine.synchronize(a).unwrap();
        },
    );
}

#[test]
fn a_host_function_that_calls_the_engine_is_reported_and_refused() {
    provokes(
        ReportKind::InHostFunction,
        "inside",
        None,
        nothing,
        |machine| {
            let (a, engine) = (machine.stream(), machine.0.clone());
            let function = move || {
                let refused = engine.create_event(Site::here("inside"), 0);
                assert!(matches!(refused, Err(Error::InHostFunction)), "{refused:?}");
            };
            machine
                .0
                .host_call(Site::here("host_call"), a, Box::new(function))
                .unwrap();
            machine.synchronize(a).unwrap();
        },
    );
}

#[test]
fn host_memory_that_is_registered_twice_is_reported() {
    provokes(
        ReportKind::Registration,
        "register",
        Some("again"),
        nothing,
        |machine| {
            let memory = [0_u8; 64];
            let at = address(&memory);
            machine
                .0
                .register_host(Site::here("register"), 0, at, 32)
                .unwrap();
            assert!(
                machine
                    .0
                    .register_host(Site::here("again"), 0, at + 31, 8)
                    .is_err()
            );
            machine
                .0
                .unregister_host(Site::here("unregister"), at)
                .unwrap();
        },
    );
}

#[test]
fn host_memory_that_is_unregistered_under_a_copy_is_a_free_in_use() {
    provokes(
        ReportKind::FreeInUse,
        "copy",
        Some("unregister"),
        nothing,
        |machine| {
            let (a, memory) = (machine.stream(), machine.allocate(64));
            let source = [0_u8; 64];
            machine
                .0
                .register_host(Site::here("register"), 0, address(&source), 64)
                .unwrap();
            machine.copy("copy", a, memory, address(&source), 64);
            machine
                .0
                .unregister_host(Site::here("unregister"), address(&source))
                .unwrap();
            machine.drain();
        },
    );
}

#[test]
fn what_is_left_at_the_end_is_a_leak_with_the_call_that_made_it() {
    let machine = Machine::new(crossdock_sim_engine::Policy::Lazy);
    let kept = [0_u8; 8];
    let (stream, memory, _event) = (machine.stream(), machine.allocate(64), machine.event());
    machine
        .0
        .register_host(Site::here("register"), 0, address(&kept), 8)
        .unwrap();
    let freed = machine.allocate(64);
    machine.0.free(Site::here("free"), freed).unwrap();
    let leaks = machine.0.leaks();
    let mut names: Vec<&str> = leaks.iter().map(|leak| leak.first.name()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["allocate", "create_event", "create_stream", "register"]
    );
    assert!(leaks.iter().all(|leak| leak.kind == ReportKind::Leak));
    machine.0.free(Site::here("free"), memory).unwrap();
    machine
        .0
        .destroy_stream(Site::here("destroy_stream"), stream)
        .unwrap();
    assert_eq!(machine.0.leaks().len(), 2);
    assert_eq!(machine.0.reports(), []);
}
