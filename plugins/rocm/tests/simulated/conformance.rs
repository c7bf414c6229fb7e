//! The suite that every plugin passes, on both devices, under each policy and with 1, 2 and 8 hardware queues.

use crossdock::Runtime;
use crossdock_conformance::{Level, Subject, run};

use crate::{built, over};

fn passes() {
    let file = built("libcrossdock_plugin_rocm.so").unwrap();
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = runtime.load(&file).unwrap();
    for device in 0..2 {
        let subject = Subject::new(plugin.hooks(), device).unwrap();
        let report = run(&subject, Level::Full, None);
        println!("{report}");
        assert!(report.passed());
    }
}

#[test]
fn lazily_with_eight_queues() {
    let options = ["--rocm", "2", "--policy", "lazy", "--queues", "8"];
    if over("conformance::lazily_with_eight_queues", &[&options]) {
        passes();
    }
}

#[test]
fn by_a_seed_with_two_queues_on_hip_6() {
    let options = [
        "--rocm", "2", "--policy", "seeded", "--queues", "2", "--seed", "3", "--set", "hip=6.4",
    ];
    if over(
        "conformance::by_a_seed_with_two_queues_on_hip_6",
        &[&options],
    ) {
        passes();
    }
}

#[test]
fn by_threads_with_one_queue() {
    let options = ["--rocm", "2", "--policy", "threads", "--queues", "1"];
    if over("conformance::by_threads_with_one_queue", &[&options]) {
        passes();
    }
}

#[test]
fn without_pools() {
    let options = [
        "--rocm",
        "2",
        "--policy",
        "threads",
        "--set",
        "fault=hipMemPoolCreate@1+=801",
    ];
    if over("conformance::without_pools", &[&options]) {
        passes();
    }
}
