//! One file a subcommand.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod conform_child;
pub(crate) mod conform_ending;
pub(crate) mod copy;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod matrix;
pub(crate) mod probe_child;
mod probe_process;
pub(crate) mod route;
pub(crate) mod run;

mod bench_run;
mod conform_process;
mod conform_shown;
mod known_failures;
mod matrix_page;
mod matrix_run;
mod probe;
mod run_log;
mod run_runtime;
