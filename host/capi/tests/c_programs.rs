//! Programs in C against the library.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "every function of this file is part of a test"
)]

mod programs;

use programs::{Language, runner};

const C: Language = Language {
    compiler: "cc",
    folder: "c",
    flags: &["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g"],
};

macro_rules! programs {
    ($($test:ident: $name:literal $($more:literal)*;)*) => {$(
        #[test]
        fn $test() {
            C.run($name, &[], &[$($more),*]);
        }
    )*};
}

programs! {
    errors_are_objects_with_parts: "errors";
    a_process_has_one_runtime_that_knows_its_plugins_and_devices: "runtimes";
    tensors_come_in_and_go_out_as_dlpack: "exchange";
    memory_with_an_owner_is_viewed_and_released_once: "memory";
    tensors_move_by_routes_that_are_explained: "routes";
    streams_and_events_order_work: "streams";
    pointers_are_asked_for_their_owner: "pointers";
    the_log_goes_to_a_function_on_any_thread: "log";
    a_trace_is_started_and_stopped: "trace";
    a_child_of_a_fork_has_a_runtime_of_its_own: "fork";
    many_threads_share_a_process: "threads";
    a_null_is_an_error_and_never_a_crash: "nulls";
    a_program_exits_with_live_handles: "exit" "forwards";
    a_program_exits_with_live_handles_in_another_order: "exit" "backwards";
}

#[test]
fn scripts_run_in_sessions() {
    if !runner().is_empty() {
        println!("skipped: a tool would report what Python does");
        return;
    }
    C.run("scripts", &[], &[]);
}

#[test]
fn scripts_call_functions_of_their_host() {
    if !runner().is_empty() {
        println!("skipped: a tool would report what Python does");
        return;
    }
    C.run("functions", &[], &[]);
}
