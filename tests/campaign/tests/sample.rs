//! A sample of each campaign, the same every time: what `scripts/check campaign` runs for hours.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossdock_campaign::campaign::Campaign;
use crossdock_campaign::child::Trials;
use crossdock_campaign::kinds::Kind;
use crossdock_campaign::plan::{Faults, Plan};
use crossdock_campaign::program::{Call, Case, Element, Ending, Engine, Language, Op, Way};
use crossdock_campaign::shrink::smallest;
use crossdock_campaign::time_slices::TimeSliced as _;
use crossdock_campaign::verdict::{Finding, Verdict, What};
use crossdock_campaign::world::{DEVICES, present};
use crossdock_e2e::{ext_dev, report};

const LIMIT: Duration = Duration::from_secs(10);

/// Trials with the plugins that were built, and their devices.
fn trials() -> (tempfile::TempDir, Trials, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let _file = ext_dev(folder.path());
    let program = PathBuf::from(env!("CARGO_BIN_EXE_campaign"));
    let devices = present(&DEVICES, folder.path());
    let trials = Trials::new(program, folder.path().to_owned(), LIMIT);
    (folder, trials, devices)
}

/// One part of so many of a campaign finds nothing.
fn sample(kind: Kind, language: Language, seeds: u64, parts: usize) {
    let (folder, trials, devices) = trials();
    let plan = Plan {
        seeds: 0..seeds,
        language,
        faults: Faults::All,
        searching: None,
        begin: 0,
        only: None,
        part: (1, parts),
        shrinking: Duration::from_secs(20),
        folder: folder.path().join("found"),
    };
    let mut campaign = Campaign::new(kind, &devices, plan, trials, &report);
    campaign.turn(Duration::ZERO, None).unwrap();
    let row = campaign.end();
    assert!(row.programs > 10, "{row:?}");
    assert_eq!(row.found, 0, "{row:?}");
}

#[test]
fn no_call_behind_a_held_stream_comes_early_or_hangs() {
    sample(Kind::Blocked, Language::Rust, 1, 1200);
}

#[test]
fn no_call_in_c_behind_a_held_stream_comes_early_or_hangs() {
    sample(Kind::Blocked, Language::C, 1, 1200);
}

#[test]
fn random_programs_do_what_the_model_says() {
    sample(Kind::Random, Language::Rust, 8, 20);
}

#[test]
fn processes_exit_and_fork_in_the_middle_of_random_programs() {
    sample(Kind::Leaving, Language::Rust, 15, 1);
}

#[test]
fn small_layouts_are_right_or_refused() {
    sample(Kind::Layouts, Language::Rust, 1, 200);
}

#[test]
fn waits_for_what_nothing_holds_return_beside_what_is_held() {
    sample(Kind::Apart, Language::Rust, 1, 1);
}

fn case(calls: Vec<Call>) -> Case {
    let op = |call| Op {
        thread: 0,
        runtime: 0,
        call,
    };
    Case {
        name: "planted".to_owned(),
        language: Language::Rust,
        devices: vec!["cpu".to_owned()],
        fresh: true,
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: Ending::Return,
        engine: Engine::default(),
        programs: vec![calls.into_iter().map(op).collect()],
    }
}

fn make(t: usize, shape: &[i64]) -> Call {
    let element = Element::One;
    Call::Make {
        t,
        device: 0,
        element,
        shape: shape.to_vec(),
        seed: 3,
    }
}

/// What is wrong on purpose: the last call is to answer what it cannot.
fn hung() -> Case {
    let mut calls: Vec<Call> = (0..6).map(|t| make(t, &[40, 3])).collect();
    calls.push(Call::Stream { s: 0, device: 0 });
    calls.push(Call::Never);
    calls.insert(3, Call::Read { t: 2 });
    case(calls)
}

#[test]
fn an_error_in_the_log_is_found_and_made_small() {
    let (_folder, mut trials, _) = trials();
    let mut calls = vec![make(0, &[3]), Call::Complain, make(1, &[2])];
    let devices = vec!["cpu".to_owned(), "ext_dev".to_owned()];
    let complaint = Case {
        devices,
        ..case(calls.clone())
    };
    let Verdict::Found(finding) = trials.alone(&complaint) else {
        unreachable!("an error in the log");
    };
    assert_eq!(finding.what, What::Logged, "{finding:?}");
    let end = Instant::now() + Duration::from_secs(60);
    let mut attempt = |case: &Case| trials.alone(case);
    let (small, _) = smallest(&complaint, &finding, end, &mut attempt);
    // What no call names is not opened.
    assert_eq!(small.devices, ["cpu"]);
    assert_eq!(small.programs, case(vec![Call::Complain]).programs);

    // A failure that the program asks for may be told to the log.
    let (e, s) = (0, 0);
    calls.extend([
        Call::Stream { s, device: 0 },
        Call::Hold { e, s, fails: true },
    ]);
    let explained = trials.alone(&case(calls));
    assert!(matches!(explained, Verdict::Passed { .. }), "{explained:?}");
}

#[test]
fn a_call_that_never_answers_is_found_and_made_small() {
    let (_folder, _, _) = trials();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_campaign"));
    let mut trials = Trials::new(program, PathBuf::new(), Duration::from_secs(1));
    let hung = hung();
    let Verdict::Found(finding) = trials.alone(&hung) else {
        unreachable!("a call that never answers");
    };
    assert_eq!(finding.what, What::Hang, "{finding:?}");
    let end = Instant::now() + Duration::from_secs(60);
    let (small, again) = smallest(&hung, &finding, end, &mut |case| trials.alone(case));
    assert_eq!(again.what, What::Hang);
    assert_eq!(
        small.programs,
        [vec![Op {
            thread: 0,
            runtime: 0,
            call: Call::Never
        }]]
    );
}

/// A copy between views of two tensors.
fn copied_views() -> Case {
    let slice = |t, of| Call::Slice {
        t,
        of,
        axes: vec![(0, 2, 2)],
    };
    case(vec![
        make(0, &[4]),
        make(1, &[4]),
        slice(2, 0),
        slice(3, 1),
        Call::CopyFrom {
            t: 2,
            of: 3,
            stream: None,
        },
    ])
}

#[test]
fn views_that_have_to_fit_each_other_are_left_out_together() {
    let mut attempt = |case: &Case| {
        let calls: Vec<&Call> = case.programs[0].iter().map(|op| &op.call).collect();
        let is_view = |place: usize| {
            let makes = |call: &&Call| matches!(call, Call::Slice { t, .. } if *t == place);
            calls.iter().any(makes)
        };
        let fits = |call: &&Call| matches!(call, Call::CopyFrom { t, of, .. } if t != of && is_view(*t) == is_view(*of));
        let makes = |call: &&&Call| matches!(call, Call::Make { .. });
        if calls.iter().filter(makes).count() == 2 && calls.iter().any(fits) {
            return Verdict::Found(Finding::new(What::WrongByte, "planted"));
        }
        Verdict::Passed {
            refused: 0,
            spent: false,
            reached: BTreeSet::new(),
        }
    };
    let finding = Finding::new(What::WrongByte, "planted");
    let end = Instant::now() + Duration::from_secs(60);
    let (small, _) = smallest(&copied_views(), &finding, end, &mut attempt);
    assert_eq!(small.ops(), 3, "{small:?}");
}

#[test]
fn memory_with_two_owners_rests_though_waits_are_refused_for_a_while() {
    let (_folder, mut trials, devices) = trials();
    let simulated = "asynchronous".to_owned();
    if !devices.contains(&simulated) {
        return report("skipped: the asynchronous plugin was not built in this run");
    }
    let refuse = |nth| format!("asynchronous.stream_synchronize:{nth}=CAPTURING");
    let refused: Vec<_> = (1..=24).map(refuse).collect();
    let [stream, simulated_device] = [0, 1];
    let calls = vec![
        make(0, &[64]),
        Call::Stream {
            s: stream,
            device: simulated_device,
        },
        Call::To {
            t: 1,
            of: 0,
            device: simulated_device,
            way: Way::Direct,
            stream: Some(stream),
        },
        Call::Strange {
            t: 2,
            of: 0,
            shape: vec![64],
            strides: vec![1],
            first: 0,
            bytes: 0,
        },
        Call::To {
            t: 3,
            of: 2,
            device: simulated_device,
            way: Way::Alias,
            stream: None,
        },
        Call::DropTensor { t: 3 },
    ];
    let refusing = Case {
        devices: vec!["cpu".to_owned(), simulated],
        fault: Some(refused.join(",")),
        engine: Engine {
            policy: "lazy".to_owned(),
            seed: 1,
            queues: 1,
            fault: None,
        },
        ..case(calls)
    };
    let verdict = trials.alone(&refusing);
    assert!(matches!(verdict, Verdict::Passed { .. }), "{verdict:?}");
}
