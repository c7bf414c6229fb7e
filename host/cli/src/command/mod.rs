//! A folder or a file for each subcommand.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod copy;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod inspect;
pub(crate) mod matrix;
pub(crate) mod new_plugin;
pub(crate) mod probe;
pub(crate) mod route;
pub(crate) mod run;
