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

const PROGRAMS: [&str; 10] = [
    "dtypes",
    "catches",
    "throws",
    "started",
    "tensors",
    "streams",
    "scripts",
    "results",
    "two_modes",
    "two_modes_results",
];

/// What a program needs besides the standard.
fn flags(name: &str) -> &'static [&'static str] {
    match name {
        "results" | "two_modes_results" => {
            &["-fno-exceptions", "-fno-rtti", "-DCROSSDOCK_NO_EXCEPTIONS"]
        }
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

#[test]
fn headers_are_silent_about_what_nothing_can_follow() {
    let odd = ["-std=c++17", "-fsyntax-only", "-Wuseless-cast"];
    let more = [&odd, flags("two_modes_results"), &["-Weffc++"]].concat();
    let mut compile = CPP.compile("two_modes_results", &more);
    // Clang has no such warning.
    compiles(compile.arg("-Wno-unknown-warning-option"));
}

#[test]
fn headers_compile_behind_macros_of_other_headers() {
    let more = ["-std=c++17", "-fsyntax-only"];
    compiles(&mut CPP.compile("macros", &more));
}

#[test]
fn a_compiler_that_is_told_too_little_gets_one_error() {
    let wrong = [
        (["-std=c++14", "-fexceptions"], "needs C++17 or later"),
        (
            ["-std=c++17", "-fno-exceptions"],
            "define CROSSDOCK_NO_EXCEPTIONS",
        ),
    ];
    for (flags, told) in wrong {
        let more = [&flags[..], &["-fsyntax-only"]].concat();
        let output = CPP.compile("only_included", &more).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && complaint.contains(told));
        assert_eq!(complaint.matches("error: ").count(), 1, "{complaint}");
    }
}

/// They have calls of the same names, which a linker would take for one another.
#[test]
fn a_file_with_exceptions_and_one_without_are_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("results.o");
    let object = object.to_str().unwrap();
    // What a file without run-time types makes of a library's class, the other would be told is another class.
    const NO_TYPES: &str = "-fno-sanitize=vptr";
    let more = [
        &["-std=c++17", NO_TYPES, "-c", "-o", object],
        flags("two_modes_results"),
    ]
    .concat();
    compiles(&mut CPP.compile("two_modes_results", &more));
    CPP.run("two_modes", &["-std=c++17", NO_TYPES, object], &[]);
}

/// libc++ compares type information by address, and libstdc++ by name: the program checks the address as well.
#[test]
fn an_error_is_caught_across_shared_libraries_with_hidden_visibility() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = ["-std=c++17", "-fvisibility=hidden"];
    let library = |name: &str, define: &str| {
        let file = folder.path().join(name).to_str().unwrap().to_owned();
        let more = [&hidden[..], &["-shared", "-fPIC", define, "-o", &file]].concat();
        compiles(&mut CPP.compile("throws", &more));
        file
    };
    let one = library("libone.so", "-DONE");
    let other = library("libother.so", "-DOTHER");
    // The libraries stand before the file that needs them.
    let linked = ["-Wl,--no-as-needed", &one, &other];
    CPP.run("catches", &[&hidden[..], &linked].concat(), &[]);
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

/// Python is found without a cache, so a child is started and awaited.
#[test]
fn a_host_opens_scripts_however_it_is_started() {
    if !runner().is_empty() {
        println!("skipped: a tool would report what Python does");
        return;
    }
    let folder = CPP.build("started", &["-std=c++17"]);
    let starts = ["ignored", "blocked", "few descriptors", "small files"];
    let starts = starts.map(|start| (start, "none"));
    let reaped = ["none", "handler", "thread"].map(|reaper| ("usual", reaper));
    for (start, reaper) in starts.into_iter().chain(reaped) {
        println!("{start}, {reaper}");
        let caches = tempfile::tempdir().unwrap();
        let cache = caches.path().to_str().unwrap();
        programs::run(folder.path(), "started", &[cache, reaper, start]);
    }
}
