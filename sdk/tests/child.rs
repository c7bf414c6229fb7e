//! Children of processes that do not reap them themselves: each case runs in a process of its own.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "sets signal actions and system call filters, in tests"
)]

mod reapers;

use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crossdock_sdk::child::{Child, output, reap_alone, running};
use reapers::{CASE, in_children, refuse};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn output_counts_whoever_reaps_the_child() {
    in_children("output_counts_whoever_reaps_the_child", || {
        for round in 0..20 {
            let said = output(shell("echo out; echo err >&2"), 100, SOON).unwrap();
            assert_eq!(said, b"out\nerr\n", "round {round}");
        }
        let failed = output(shell("echo why; exit 3"), 100, SOON).unwrap();
        assert_eq!(failed, b"why\n");
        assert!(
            output(shell("yes"), 10_000, SOON)
                .unwrap()
                .starts_with(b"y\ny\n")
        );
        let absent = output(Command::new("/nonexistent/program"), 100, SOON);
        assert_eq!(absent.unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_late_child_is_killed_by_its_pidfd_alone() {
    in_children("a_late_child_is_killed_by_its_pidfd_alone", || {
        refuse(libc::SYS_kill);
        let late = output(shell("exec sleep 3"), 100, Duration::from_millis(50));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn an_exit_status_is_known_or_reported_as_lost() {
    in_children("an_exit_status_is_known_or_reported_as_lost", || {
        let known = !std::env::var(CASE).is_ok_and(|case| case != "none");
        for (line, code, signal) in [("exit 7", Some(7), None), ("kill -9 $$", None, Some(9))] {
            let child = Child::start(&mut shell(line)).unwrap();
            assert!(child.ends_within(Some(SOON)).unwrap());
            child.kill();
            match child.status() {
                Ok(status) => {
                    assert_eq!((status.code(), status.signal()), (code, signal), "{line}");
                }
                Err(error) => assert!(!known, "{line}: {error}"),
            }
        }
    });
}

#[test]
fn a_program_that_reaps_alone_knows_each_status_and_ends_groups() {
    in_children(
        "a_program_that_reaps_alone_knows_each_status_and_ends_groups",
        || {
            reap_alone();
            // The second one leaves the group, and is an orphan when the shell has ended.
            for sleeps in ["sleep 1000", "setsid sleep 1000"] {
                let (mut from, to) = io::pipe().unwrap();
                let mut command = shell(&format!("{sleeps} & echo started; exit 5"));
                let child = Child::start_group(command.stdout(to)).unwrap();
                drop(command);
                assert!(child.ends_within(None).unwrap());
                child.kill();
                assert_eq!(child.status().unwrap().code(), Some(5));
                // The end comes once `sleep` is dead as well.
                assert_eq!(io::read_to_string(&mut from).unwrap(), "started\n");
                assert_eq!(running(), Vec::<u32>::new());
            }
        },
    );
}

#[test]
fn the_leader_of_a_group_ends_with_the_thread_that_started_it() {
    let (mut from, to) = io::pipe().unwrap();
    let starts = move || {
        let mut command = shell("echo started; exec sleep 1000");
        let _left = ManuallyDrop::new(Child::start_group(command.stdout(to)).unwrap());
    };
    let thread = crossdock_sdk::threads::Thread::named("starts").spawn(starts);
    assert!(thread.unwrap().join().is_ok());
    // The end comes once `sleep` is dead.
    let said = io::read_to_string(&mut from).unwrap();
    assert!(matches!(&*said, "" | "started\n"), "{said}");
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command
}
