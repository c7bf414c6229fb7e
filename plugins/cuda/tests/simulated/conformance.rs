//! The suite that every plugin passes, on both devices, under each policy and with 1, 2 and 8 hardware queues, plain
//! and behind the validating layer.

use std::collections::BTreeSet;

use crossdock::Runtime;
use crossdock_conformance::{Level, Outcome, Report, Subject, run, selected};

use crate::{built, is_inside, run_over};

/// What a GPU with memory of its own does not have, and what is asked only of plugins that lack something.
const SKIPPED: [&str; 22] = [
    // The plugin claims all of these.
    "pinned_memory_that_is_off_is_unsupported",
    "managed_memory_that_is_off_is_unsupported",
    "fills_that_are_off_are_unsupported",
    "strided_copies_that_are_off_are_unsupported",
    "host_events_that_are_off_are_unsupported",
    "streams_that_are_off_are_unsupported",
    "groups_that_are_absent_are_unsupported",
    // Its addresses are pointers.
    "a_handle_that_nobody_vouched_for_is_not_copied",
    // The host does not reach the device's own memory, and the device copies what is the host's.
    "host_accessible_memory_says_where_the_host_reaches_it",
    "the_device_reads_adopted_host_memory",
    "host_memory_that_is_adopted_read_only_is_read_and_stays_as_it_is",
    "the_host_reads_what_the_device_wrote_after_release",
    "a_copy_inside_adopted_memory_is_made_whichever_end_is_called_the_hosts",
    "adopted_memory_is_known_as_foreign",
    "adopted_memory_is_not_freed",
    "what_was_not_adopted_is_not_released",
    "a_mapping_shows_and_takes_the_bytes_of_the_device",
    "the_host_writes_adopted_memory_through_a_mapping",
    "what_was_adopted_of_registered_memory_stays_adopted",
    "the_end_of_an_adoption_does_not_wait_for_work_on_other_memory",
    "the_end_of_a_mapping_does_not_wait_for_work_on_other_memory",
    "four_threads_map_one_memory_at_once",
];

/// Shows nothing where every copy happens to be done at once; a copy behind a host event shows the same for certain.
const BY_CHANCE: &str = "a_long_copy_on_a_stream_returns_before_it_is_done";

/// Set where a case may be skipped that the driver of the run has no function for.
const LACKS: &str = "CROSSDOCK_DRIVER_LACKS_FUNCTIONS";

/// A run: options of the simulator, and words in the environment.
type Run<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

const VALIDATED: [(&str, &str); 1] = [("CROSSDOCK_LAYERS", "validate")];

/// Runs the suite in a process for each of the runs, which is to report nothing.
fn over(test: &str, runs: &[Run<'_>]) {
    if is_inside(test) {
        return passes();
    }
    for (options, words) in runs {
        let options = [&["--cuda", "2"], *options].concat();
        let Some((code, told)) = run_over(test, &options, words) else {
            return;
        };
        assert_eq!(code, Some(0), "{options:?}, {words:?}:\n{told}");
        assert!(told.contains("1 passed"), "{options:?}, {words:?}:\n{told}");
    }
}

fn passes() {
    let file = built("libcrossdock_plugin_cuda.so").unwrap();
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = runtime.load(&file).unwrap();
    for device in 0..2 {
        let subject = Subject::new(plugin.hooks(), device).unwrap();
        let report = run(&subject, Level::Full, None);
        println!("{report}");
        assert!(report.passed());
        if std::env::var_os(LACKS).is_none() {
            let mut skipped = skipped(&report);
            skipped.remove(BY_CHANCE);
            assert_eq!(skipped, BTreeSet::from(SKIPPED));
        }
    }
}

/// The cases that were skipped. Those about the end of a process are run by the command alone.
fn skipped(report: &Report) -> BTreeSet<&'static str> {
    let cases = report.cases.iter();
    let skipped = cases.filter(|case| matches!(case.outcome, Outcome::Skipped(_)));
    let mut skipped: BTreeSet<_> = skipped.map(|case| case.name).collect();
    for case in selected(Level::Full, None).filter(|case| case.ending.is_some()) {
        skipped.remove(case.name);
    }
    skipped
}

#[test]
fn lazily_with_eight_queues() {
    let options = ["--policy", "lazy", "--queues", "8"];
    over("conformance::lazily_with_eight_queues", &[(&options, &[])]);
}

#[test]
fn by_a_seed_with_two_queues_validated() {
    let options = ["--policy", "seeded", "--queues", "2", "--seed", "3"];
    let name = "conformance::by_a_seed_with_two_queues_validated";
    over(name, &[(&options, &VALIDATED)]);
}

#[test]
fn by_threads_with_one_queue() {
    let options = ["--policy", "threads", "--queues", "1"];
    over("conformance::by_threads_with_one_queue", &[(&options, &[])]);
}

#[test]
fn without_pools() {
    let options = [
        "--policy",
        "threads",
        "--set",
        "fault=cuMemPoolCreate@1+=801",
    ];
    over("conformance::without_pools", &[(&options, &[(LACKS, "1")])]);
}

#[test]
#[ignore = "minutes: every policy with every number of queues, plain and validated"]
fn under_every_policy_with_every_number_of_queues() {
    let name = "conformance::under_every_policy_with_every_number_of_queues";
    for policy in ["lazy", "seeded", "threads"] {
        for queues in ["1", "2", "8"] {
            let options = ["--policy", policy, "--queues", queues];
            over(name, &[(&options, &[]), (&options, &VALIDATED)]);
        }
    }
}
