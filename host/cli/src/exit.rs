//! The exit codes of the command; a script may rely on them.

use std::process::ExitCode;

/// It was done. Hardware that is absent is no failure.
pub(crate) const DONE: Exit = Exit(0);
/// Something is broken, refused or different.
pub(crate) const BROKEN: Exit = Exit(1);
/// The command line is wrong.
pub(crate) const USAGE: Exit = Exit(2);

/// How the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// [`BROKEN`] where something is, else [`DONE`].
    pub(crate) const fn broken_if(broken: bool) -> Self {
        if broken { BROKEN } else { DONE }
    }
}

/// What a program that ran in here ended with; the system keeps eight bits of it.
pub(crate) fn of_program(code: i32) -> Exit {
    u8::try_from(code & 0xff).map_or(BROKEN, Exit)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}
