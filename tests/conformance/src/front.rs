//! Copies in front of other work on a stream, which take a while on every device. They stand in for a host
//! event where the device has none: what is behind them cannot be over at once, and nothing is judged by how
//! long they take.

use std::sync::Arc;

use crossdock::{Error, Hooks};

use crate::allocation::Allocation;
use crate::stream::Stream;
use crate::subject::Subject;

/// Memories between which much is copied.
#[derive(Debug)]
pub(crate) struct Front<'h> {
    from: Arc<Allocation<'h>>,
    by: Arc<Allocation<'h>>,
    to: Arc<Allocation<'h>>,
}

impl<'h> Front<'h> {
    /// Makes the memories on a device that has room for them.
    pub(crate) fn of(subject: &Subject<'h>) -> Result<Self, Error> {
        Self::on(subject, subject.hooks())
    }

    /// The same in another open plugin of the subject's table.
    pub(crate) fn on<'o>(subject: &Subject<'_>, hooks: &'o Hooks) -> Result<Front<'o>, Error> {
        let size = (subject.info().total_memory / 16).clamp(4096, LONGEST);
        let new = || Allocation::new(hooks, subject.request(size)).map(Arc::new);
        Ok(Front {
            from: new()?,
            by: new()?,
            to: new()?,
        })
    }

    /// What the last of the copies fills with a byte.
    pub(crate) const fn last(&self) -> &Arc<Allocation<'h>> {
        &self.to
    }

    /// Puts the copies of a byte on a stream.
    pub(crate) fn put_on(&self, stream: &mut Stream<'h>, byte: u8) -> Result<(), Error> {
        let count = usize::try_from(self.from.size()).unwrap_or(0);
        // From the host, which is slow where a device is far away; between memories where it is not.
        stream.upload(&self.from, vec![byte; count])?;
        for _ in 0..TIMES {
            stream.transfer(&self.by, &self.from)?;
        }
        stream.transfer(&self.to, &self.by)
    }
}

/// The bytes of one copy, where the device has so much.
const LONGEST: u64 = 4 << 20;
/// How often they are copied on the device.
const TIMES: usize = 16;
