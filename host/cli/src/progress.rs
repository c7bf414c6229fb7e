//! A progress bar for work that takes longer than a second.

use std::time::{Duration, Instant};

use crossdock_sdk::shown::escaped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::one_line;

/// Bytes done, shown on a terminal only, and only once the work takes long.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    quiet: bool,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(total_bytes: u64, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::hidden());
        let template = "{msg} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            started: Instant::now(),
            quiet,
            shown: false,
        }
    }

    /// Says what is worked on.
    pub(crate) fn begin(&mut self, what: &str) {
        self.bar.set_message(escaped(&one_line(what)).into_owned());
        self.show_when_long();
    }

    /// Counts bytes that are done.
    pub(crate) fn done(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        self.show_when_long();
    }

    /// Takes the bar away while something else is printed.
    pub(crate) fn pause<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    fn show_when_long(&mut self) {
        if !self.shown && !self.quiet && self.started.elapsed() > PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

const PATIENCE: Duration = Duration::from_secs(1);
