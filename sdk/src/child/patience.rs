//! How long a wait may still take, counted only while this process runs.
#![expect(unsafe_code, reason = "polls a descriptor")]

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// What is left of a limit. A wait spends it in slices, and a stop or a pause of this process costs one slice
/// at most.
#[derive(Debug)]
pub(super) struct Patience {
    /// `None` is no limit.
    left: Option<Duration>,
    counted: Instant,
}

impl Patience {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self {
            left: limit,
            counted: Instant::now(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == Some(Duration::ZERO)
    }

    /// Counts the time since this was called last.
    pub(super) fn spend(&mut self) {
        let passed = self.counted.elapsed();
        self.counted += passed;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(passed.min(SLICE));
        }
    }

    /// Waits until a descriptor can be read, or its other end is closed. What is there counts, also if no time
    /// is left.
    pub(super) fn awaits(&mut self, descriptor: RawFd) -> io::Result<bool> {
        let mut polled = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            self.spend();
            // Rounded up: a wait of no milliseconds would spin.
            let milliseconds = self.left.map_or(-1, |left| {
                libc::c_int::try_from(left.min(SLICE).as_micros().div_ceil(1000)).unwrap_or(0)
            });
            // SAFETY: one entry, which lives during the call.
            match unsafe { libc::poll(&raw mut polled, 1, milliseconds) } {
                0 if milliseconds == 0 => return Ok(false),
                1.. => return Ok(true),
                0 => {}
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The most that one wait counts for.
const SLICE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_pause_of_this_process_costs_one_slice() {
        let hour = Duration::from_secs(3600);
        let mut patience = Patience::new(Some(hour));
        patience.counted = Instant::now().checked_sub(hour / 2).unwrap();
        patience.spend();
        assert_eq!(patience.left, Some(hour - SLICE));
    }

    #[test]
    fn without_time_left_what_is_there_counts() {
        let (from, mut to) = io::pipe().unwrap();
        let mut patience = Patience::new(Some(Duration::ZERO));
        assert!(!patience.awaits(from.as_raw_fd()).unwrap() && patience.is_over());
        to.write_all(b"x").unwrap();
        assert!(patience.awaits(from.as_raw_fd()).unwrap());
    }
}
