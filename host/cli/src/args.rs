//! The command line: its flags, and where each subcommand begins.

use clap::{Parser, Subcommand};
use crossdock_sdk::child;

use crate::{command, exit::Exit, failure::Failure, globals::Globals, screen, signals};

/// Move tensors between accelerators that know nothing of each other.
///
/// Exit codes: 0 done (absent hardware is no failure), 1 something is broken, refused or different,
/// 2 wrong usage. Results go to stdout, everything else to stderr. `CROSSDOCK_LOG=debug` logs
/// more than warnings; `NO_COLOR` turns colour off.
#[derive(Debug, Parser)]
#[command(name = "crossdock", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is here: plugins, devices, memory, capabilities, what is absent and why.
    Devices(command::devices::Arguments),
    /// Probe every plugin in a process of its own, and say what to do about each problem.
    Doctor(command::doctor::Arguments),
    /// Read a plugin file without running any of its code.
    Inspect(command::inspect::Arguments),
    /// Explain how a tensor would get from one device to another.
    Route(command::route::Arguments),
    /// Copy the tensors of files to a device and back, verified bit for bit.
    Copy(command::copy::Arguments),
    /// Move tensors from every device to every device, verified bit for bit.
    Matrix(command::matrix::command::Arguments),
    /// Run Python inside the host: its scripts share the devices and tensors of this process.
    Run(command::run::command::Arguments),
    /// Check a plugin against the contract.
    Conform(command::conform::command::Arguments),
    /// Write the project of a plugin, in Rust or in C, which builds and passes `conform` as it is.
    NewPlugin(command::new_plugin::command::Arguments),
    /// Time exchange and copies on this machine.
    Bench(command::bench::command::Arguments),
    /// Print the completions for a shell.
    Completions(command::completions::Arguments),
    /// The cases of `conform`, one after another, told on stdout as they begin and end.
    #[command(hide = true)]
    ConformChild(command::conform::child::Arguments),
    /// A case of `conform` in a process that ends with the plugin open.
    #[command(hide = true)]
    ConformEnding(command::conform::ending::Arguments),
    /// The pairs of `matrix`, one after another, told on stdout as they begin and end.
    #[command(hide = true)]
    MatrixChild(command::matrix::child::Arguments),
    /// One plugin, probed for `doctor`, which reads the answer from a file.
    #[command(hide = true)]
    ProbeChild(command::probe::child::Arguments),
}

impl Command {
    pub(crate) fn run(&self, globals: &Globals) -> Result<Exit, Failure> {
        if self.judges_children() {
            child::reap_alone();
        }
        if self.leaves_things() {
            signals::clean_up_before_the_end();
        }
        if !self.gives_stdout_away() {
            screen::keep_stdout()?;
        }
        match self {
            Self::Devices(arguments) => command::devices::run(arguments, globals),
            Self::Doctor(arguments) => command::doctor::run(arguments, globals),
            Self::Inspect(arguments) => command::inspect::run(arguments),
            Self::Route(arguments) => command::route::run(arguments, globals),
            Self::Copy(arguments) => command::copy::run(arguments, globals),
            Self::Matrix(arguments) => command::matrix::command::run(arguments, globals),
            Self::Run(arguments) => command::run::command::run(arguments, globals),
            Self::Conform(arguments) => command::conform::command::run(arguments, globals),
            Self::NewPlugin(arguments) => command::new_plugin::command::run(arguments),
            Self::Bench(arguments) => command::bench::command::run(arguments, globals),
            Self::Completions(arguments) => command::completions::run(arguments),
            Self::ConformChild(arguments) => command::conform::child::run(arguments),
            Self::ConformEnding(arguments) => command::conform::ending::run(arguments),
            Self::MatrixChild(arguments) => command::matrix::child::run(arguments, globals),
            Self::ProbeChild(arguments) => command::probe::child::run(arguments),
        }
    }

    /// Whether the exit status of a child is a result. `run` keeps `SIGCHLD` as it is, for its script.
    const fn judges_children(&self) -> bool {
        matches!(
            self,
            Self::Doctor(_)
                | Self::Matrix(_)
                | Self::Conform(_)
                | Self::ConformChild(_)
                | Self::ConformEnding(_)
        )
    }

    /// Whether stdout belongs to what runs in it: a script, or a child that takes stdout for its parent.
    const fn gives_stdout_away(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::ConformChild(_)
                | Self::ConformEnding(_)
                | Self::MatrixChild(_)
                | Self::ProbeChild(_)
        )
    }

    /// Whether a signal could end it with a group of children or a temporary file.
    const fn leaves_things(&self) -> bool {
        matches!(
            self,
            Self::Copy(_) | Self::Doctor(_) | Self::Matrix(_) | Self::Conform(_)
        )
    }
}
