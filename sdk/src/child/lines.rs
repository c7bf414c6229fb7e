//! The lines that a child writes into a pipe, whatever else is written there.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use super::patience::Patience;

/// Reads lines, each of any bytes and of a limited length.
#[derive(Debug)]
pub struct Lines {
    pipe: PipeReader,
    /// What was read, of which the first `taken` bytes were returned.
    read: Vec<u8>,
    taken: usize,
    /// So many bytes were looked at, and are the begin of a line.
    searched: usize,
    /// Whether the line that is being read is too long.
    is_too_long: bool,
}

impl Lines {
    /// The lines of this pipe.
    #[must_use]
    pub const fn of(pipe: PipeReader) -> Self {
        Self {
            pipe,
            read: Vec::new(),
            taken: 0,
            searched: 0,
            is_too_long: false,
        }
    }

    /// The first answer of `parse` to a line; lines without an answer are passed over, and take of the limit.
    /// It is none at the end of the pipe.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], if no such line is in the pipe when the limit is over; what the system says.
    pub fn next_within<T>(
        &mut self,
        limit: Duration,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let mut patience = Patience::new(Some(limit));
        let mut late = 0;
        loop {
            while let Some(line) = self.line() {
                if let Some(answer) = parse(line) {
                    return Ok(Some(answer));
                }
            }
            if late >= MOST_LATE || !patience.awaits(self.pipe.as_raw_fd())? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let count = self.read_more()?;
            if count == 0 {
                return Ok(None);
            }
            if patience.is_over() {
                late += count;
            }
        }
    }

    /// The next whole line of what was read.
    fn line(&mut self) -> Option<&[u8]> {
        let new = self.read.get(self.searched..)?;
        let Some(length) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.read.len();
            return None;
        };
        let (begin, end) = (self.taken, self.searched + length);
        self.taken = end + 1;
        self.searched = self.taken;
        let is_cut = std::mem::take(&mut self.is_too_long);
        // The end of a line whose begin was dropped is no line.
        self.read.get(begin..if is_cut { begin } else { end })
    }

    /// Reads what is there, and returns how many bytes.
    fn read_more(&mut self) -> io::Result<usize> {
        self.read.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        if self.read.len() > LONGEST {
            self.read.clear();
            self.searched = 0;
            self.is_too_long = true;
        }
        let before = self.read.len();
        self.read.resize(before + PIECE, 0);
        let room = self.read.get_mut(before..).unwrap_or_default();
        let read = self.pipe.read(room);
        self.read.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read_more(),
            read => read,
        }
    }
}

/// What is read at once: as much as a pipe usually holds.
const PIECE: usize = 64 << 10;
/// What is still read when the limit is over: as much as a pipe can hold.
const MOST_LATE: usize = 1 << 20;
/// A longer line is not one of ours.
const LONGEST: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn number(line: &[u8]) -> Option<u32> {
        std::str::from_utf8(line).ok()?.parse().ok()
    }

    #[test]
    fn lines_of_any_bytes_are_passed_over_and_what_is_there_counts_without_time() {
        let (from, mut to) = io::pipe().unwrap();
        let mut lines = Lines::of(from);
        let next = |lines: &mut Lines| lines.next_within(Duration::ZERO, number);
        let timed_out = |read: io::Result<Option<u32>>| {
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        };
        timed_out(next(&mut lines));
        to.write_all(b"\xff\xfe\n\n1\nnoise 2\n3\n4").unwrap();
        assert_eq!(next(&mut lines).unwrap(), Some(1));
        assert_eq!(next(&mut lines).unwrap(), Some(3));
        timed_out(next(&mut lines));
        to.write_all(b"2\n5").unwrap();
        drop(to);
        assert_eq!(next(&mut lines).unwrap(), Some(42));
        assert_eq!(next(&mut lines).unwrap(), None);
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory_and_the_next_one_counts() {
        let (from, mut to) = io::pipe().unwrap();
        let writes = std::thread::scope(|scope| {
            let writer = crate::threads::Thread::named("test")
                .spawn_scoped(scope, move || {
                    let piece = vec![b'7'; 1 << 20];
                    for _ in 0..LONGEST / piece.len() + 2 {
                        to.write_all(&piece).unwrap();
                    }
                    to.write_all(b"\n8\n").unwrap();
                })
                .unwrap();
            let mut lines = Lines::of(from);
            let read = lines.next_within(Duration::from_secs(3600), number);
            assert_eq!(read.unwrap(), Some(8));
            assert!(lines.read.capacity() < 3 * LONGEST);
            writer.join()
        });
        assert!(writes.is_ok());
    }
}
