//! The command against files and folders of others: whose they are, what they hold, what they are named.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by it, in what it shares too"
)]

mod absent;
mod arrays;
#[path = "../shared/c_plugin.rs"]
mod c_plugin;
mod cases;
mod changed;
mod hints;
mod kinds;
mod outputs;
mod owners;
mod program;
mod targets;
mod texts;
