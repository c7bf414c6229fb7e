//! Programs in C++ against `crossdock.hpp`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "every function of this file is part of a test"
)]

mod programs;

use programs::{Language, compiles, runner};

const CPP: Language = Language {
    compiler: "c++",
    folder: "cpp",
    flags: &["-O1", "-g", "-Wconversion", "-Wshadow"],
};

const PROGRAMS: [&str; 4] = ["tensors", "streams", "scripts", "results"];

/// What a program needs besides the standard.
fn flags(name: &str) -> &'static [&'static str] {
    match name {
        "results" => &["-fno-exceptions", "-fno-rtti", "-DCROSSDOCK_NO_EXCEPTIONS"],
        _ => &[],
    }
}

#[test]
fn headers_are_silent_in_every_standard_from_17_on() {
    for standard in ["-std=c++17", "-std=c++20", "-std=c++23"] {
        for name in PROGRAMS {
            let more = [&[standard, "-fsyntax-only"], flags(name)].concat();
            compiles(&mut CPP.compile(name, &more));
        }
    }
}

fn run(name: &str) {
    CPP.run(name, &[&["-std=c++17"], flags(name)].concat(), &[]);
}

#[test]
fn tensors_are_made_read_and_moved() {
    run("tensors");
}

#[test]
fn streams_and_events_order_work() {
    run("streams");
}

#[test]
fn calls_give_results_without_exceptions_and_run_time_types() {
    run("results");
}

#[test]
fn scripts_take_and_give_values() {
    if !runner().is_empty() {
        println!("skipped: a tool would report what Python does");
        return;
    }
    run("scripts");
}
