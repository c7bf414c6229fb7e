//! Calls that submit work to streams.
#![expect(
    unsafe_code,
    reason = "the engine takes raw addresses, as the vendors' calls do"
)]

use std::time::Instant;

use crate::memory::Life;
use crate::op::{Body, Rows, Use};
use crate::state::State;
use crate::strided::{Bytes, Walk};
use crate::{Condition, Engine, Error, ReportKind, Site, Stream, Strided, Word};

impl Engine {
    /// Copies `bytes` from `source` to `target` in the stream's order. Each is in memory of the
    /// engine, or any host memory.
    ///
    /// # Safety
    ///
    /// Host memory stays valid until the operation is over. Memory of the engine is checked.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] for engine memory that is not allocated, which is also
    /// reported.
    pub unsafe fn copy(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        source: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let mut uses = Vec::new();
        if bytes > 0 {
            uses.push(state.used(site, source, bytes, false)?);
            uses.push(state.used(site, target, bytes, true)?);
        }
        state.submit(
            site,
            stream,
            Body::Copy {
                target,
                source,
                bytes,
            },
            uses,
        )?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Copies elements of `element_bits` between strided places, in the stream's order.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for strides that are not as many as extents.
    pub unsafe fn copy_strided(
        &self,
        site: Site,
        stream: Stream,
        element_bits: u32,
        shape: &[u64],
        sides: (&Strided, &Strided),
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let walk = Walk::new(element_bits, shape, sides)?;
        let mut uses = Vec::new();
        if !walk.is_empty() {
            let (target, source) = walk.sides()?;
            uses = state.all_used(site, source, false)?;
            uses.extend(state.all_used(site, target, true)?);
        }
        state.submit(site, stream, Body::Strided(walk), uses)?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Repeats `pattern` over `bytes` at `target`, in the stream's order. The last may be cut.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for an empty pattern.
    pub unsafe fn fill(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        bytes: u64,
        pattern: &[u8],
    ) -> Result<(), Error> {
        let rows = Rows {
            count: 1,
            bytes,
            pitch: bytes,
        };
        // SAFETY: the caller's promise, passed on.
        unsafe { self.fill_all(site, stream, target, rows, pattern) }
    }

    /// The same of `count` rows of `bytes`, which begin `pitch` bytes apart: one operation.
    ///
    /// # Errors
    ///
    /// As [`Engine::fill`], and [`Error::Invalid`] where the rows overlap or end behind the last address.
    ///
    /// # Safety
    ///
    /// As [`Engine::fill`], for each row.
    pub unsafe fn fill_rows(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        [count, bytes, pitch]: [u64; 3],
        pattern: &[u8],
    ) -> Result<(), Error> {
        let extent = pitch
            .checked_mul(count)
            .and_then(|extent| target.checked_add(extent));
        if extent.is_none() || (count > 1 && pitch < bytes) {
            return Err(Error::Invalid {
                why: format!("{count} rows of {bytes} bytes cannot begin {pitch} bytes apart"),
            });
        }
        // Rows without gaps between them are one.
        let is_one = pitch == bytes && bytes.is_multiple_of(pattern.len().max(1) as u64);
        let [count, bytes, pitch] = match is_one {
            true => [1, bytes * count, bytes * count],
            false => [count, bytes, pitch],
        };
        let rows = Rows {
            count,
            bytes,
            pitch,
        };
        // SAFETY: the caller's promise, passed on.
        unsafe { self.fill_all(site, stream, target, rows, pattern) }
    }

    /// # Safety
    ///
    /// As [`Engine::fill_rows`], whose sums fit.
    unsafe fn fill_all(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        rows: Rows,
        pattern: &[u8],
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        if pattern.is_empty() {
            return Err(Error::Invalid {
                why: "a fill needs a pattern".to_owned(),
            });
        }
        let mut uses = Vec::new();
        if rows.bytes > 0 {
            for row in 0..rows.count {
                let at = target + row * rows.pitch;
                uses.push(state.used(site, at, rows.bytes, true)?);
            }
        }
        let body = Body::Fill {
            target,
            rows,
            pattern: pattern.into(),
        };
        state.submit(site, stream, body, uses)?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Refuses a range that a call is to use part by part and that is not all in memory as it has to be, as
    /// [`Engine::copy`] does.
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`].
    pub fn refuse_outside(&self, site: Site, start: u64, bytes: u64) -> Result<(), Error> {
        let mut state = self.shared.here()?;
        state.used(site, start, bytes, true).map(drop)
    }

    /// Calls `function` once the stream reaches it: exactly once, also after a failure, on a thread
    /// of the engine. It may block, and blocks its hardware queue; it must not call the engine.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; the function was dropped then, not called.
    pub fn host_call(
        &self,
        site: Site,
        stream: Stream,
        function: Box<dyn FnOnce() + Send>,
    ) -> Result<(), Error> {
        self.host_call_with(site, stream, Box::new(|_status| function()))
    }

    /// The same with the status of the failure, where the device is lost by then or the call itself fails.
    ///
    /// # Errors
    ///
    /// As [`Engine::host_call`].
    pub fn host_call_with(
        &self,
        site: Site,
        stream: Stream,
        function: Box<dyn FnOnce(Option<i32>) + Send>,
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        state.submit(site, stream, Body::Host(function), Vec::new())?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Makes the stream wait until a word in memory satisfies a condition.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`]; others change the word atomically, or by [`Engine::write_word`] and
    /// [`Engine::store_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for a width or an alignment that is none.
    pub unsafe fn wait_word(
        &self,
        site: Site,
        stream: Stream,
        word: Word,
        condition: Condition,
    ) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let looks = Use {
            writes: false,
            ..state.word(site, word)?
        };
        let began = (!state.satisfied(word, condition)).then(Instant::now);
        let wait = Body::WaitWord(word, condition, began);
        let op = state.ops;
        state.submit(site, stream, wait, vec![looks])?;
        state.await_word(op, word, condition);
        self.shared.tell(&state);
        Ok(())
    }

    /// Writes a word in the stream's order, all before it included.
    ///
    /// # Safety
    ///
    /// As [`Engine::wait_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::wait_word`].
    pub unsafe fn write_word(&self, site: Site, stream: Stream, word: Word) -> Result<(), Error> {
        let (mut state, site) = self.enter_on(site, stream)?;
        let writes = state.word(site, word)?;
        state.submit(site, stream, Body::WriteWord(word), vec![writes])?;
        self.shared.tell(&state);
        Ok(())
    }

    /// Writes a word from the host, at once, and wakes what waits for it. Host code may store it by
    /// itself too; a wait then ends at the next call of the engine, or when it is idle.
    ///
    /// # Safety
    ///
    /// As [`Engine::wait_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::wait_word`].
    pub unsafe fn store_word(&self, site: Site, word: Word) -> Result<(), Error> {
        let (mut state, site) = self.enter(site, None)?;
        state.word(site, word)?;
        state.host_moment();
        let host = state.host.clone();
        state.words.write(word, host);
        state.store(word);
        self.shared.tell(&state);
        Ok(())
    }
}

impl State {
    /// Checks a range that an operation is to use: in the arena it is inside one allocation, which
    /// the host did not free. Host memory is taken as it comes.
    fn used(&mut self, site: Site, start: u64, bytes: u64, writes: bool) -> Result<Use, Error> {
        let Some(end) = start.checked_add(bytes) else {
            return Err(Error::Invalid {
                why: "a range ends behind all addresses".to_owned(),
            });
        };
        if !self.arena.contains(start) {
            if start == 0 || self.arena.contains(end - 1) {
                let why = format!("{bytes} bytes at {start:#x} are no host memory");
                return Err(Error::Invalid { why });
            }
            return Ok(Use {
                start,
                end,
                writes,
                allocation: None,
            });
        }
        let inside = self.memory.find(start).filter(|a| end <= a.end());
        let host_freed = inside.and_then(|a| match a.life {
            Life::Freed(free) if free.stream == 0 => Some(free.site),
            Life::Freed(_) | Life::Live | Life::Promised => None,
        });
        let found = inside.map(|a| (a.start, a.id));
        match (found, host_freed) {
            (allocation @ Some(_), None) => Ok(Use {
                start,
                end,
                writes,
                allocation,
            }),
            (_, Some(free)) => {
                let why = "the memory was freed before".to_owned();
                let bytes = Some((start, bytes));
                self.report(
                    ReportKind::UseAfterFree,
                    free,
                    Some(site),
                    bytes,
                    why.clone(),
                );
                Err(Error::Invalid { why })
            }
            (None, None) => Err(self.out_of_bounds(site, start, bytes)),
        }
    }

    /// The same for one side of a strided copy.
    fn all_used(&mut self, site: Site, side: Bytes, writes: bool) -> Result<Vec<Use>, Error> {
        let mut used = Vec::new();
        let inside = self.arena.contains(side.first);
        for (start, end) in side.runs {
            // A side that begins in the arena has left it, or the other way round.
            if self.arena.contains(start) != inside {
                return Err(self.out_of_bounds(site, start, end - start));
            }
            used.push(self.used(site, start, end - start, writes)?);
        }
        // A range that is more than the elements would be reported falsely.
        Ok(if side.exact { used } else { Vec::new() })
    }

    fn out_of_bounds(&mut self, site: Site, start: u64, bytes: u64) -> Error {
        let near = self
            .memory
            .before(start)
            .map(|a| (a.site, a.start, a.bytes));
        let why = near.map_or_else(
            || "no allocation is there".to_owned(),
            |(_, at, length)| format!("the allocation before it has {length} bytes at {at:#x}"),
        );
        let (first, second) = near.map_or((site, None), |(made, ..)| (made, Some(site)));
        self.report(
            ReportKind::OutOfBounds,
            first,
            second,
            Some((start, bytes)),
            why.clone(),
        );
        Error::Invalid {
            why: format!("{bytes} bytes at {start:#x} are not allocated: {why}"),
        }
    }

    fn word(&mut self, site: Site, word: Word) -> Result<Use, Error> {
        let bytes = u64::from(word.bits / 8);
        if !matches!(word.bits, 32 | 64) || !word.address.is_multiple_of(bytes) {
            let why = "a word has 32 or 64 bits, and its address is aligned to that".to_owned();
            return Err(Error::Invalid { why });
        }
        self.used(site, word.address, bytes, true)
    }
}
