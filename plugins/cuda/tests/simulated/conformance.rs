//! The suite that every plugin passes, under each policy and with 1, 2 and 8 hardware queues.

use crossdock::Runtime;
use crossdock_conformance::{Level, Subject, run};

use crate::{built, over};

fn passes() {
    let file = built("libcrossdock_plugin_cuda.so").unwrap();
    let runtime = Runtime::builder().search(false).open().unwrap();
    let plugin = runtime.load(&file).unwrap();
    let subject = Subject::new(plugin.hooks(), 0).unwrap();
    let report = run(&subject, Level::Full, None);
    println!("{report}");
    assert!(report.passed());
}

#[test]
fn lazily_with_eight_queues() {
    let options = ["--cuda", "2", "--policy", "lazy", "--queues", "8"];
    if over("conformance::lazily_with_eight_queues", &[&options]) {
        passes();
    }
}

#[test]
fn by_a_seed_with_two_queues() {
    let options = [
        "--cuda", "2", "--policy", "seeded", "--queues", "2", "--seed", "3",
    ];
    if over("conformance::by_a_seed_with_two_queues", &[&options]) {
        passes();
    }
}

#[test]
fn by_threads_with_one_queue() {
    let options = ["--cuda", "2", "--policy", "threads", "--queues", "1"];
    if over("conformance::by_threads_with_one_queue", &[&options]) {
        passes();
    }
}

#[test]
fn without_pools() {
    let options = [
        "--policy",
        "threads",
        "--set",
        "fault=cuMemPoolCreate@1+=801",
    ];
    if over("conformance::without_pools", &[&options]) {
        passes();
    }
}
