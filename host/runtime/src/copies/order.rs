//! The order of work: a stream waits for what its work depends on, and each memory that the work
//! touches remembers the event at its end.
//!
//! [`run`] does this for work of ours. For work that others put on a stream, [`wait`] goes before it
//! and [`note`] behind it.

use std::sync::Arc;

use crossdock_sdk::abi::{Status, StreamHandle};

use crate::copies::work_stream::{WorkStream, those_replaced};
use crate::devices::device::Device;
use crate::devices::lost;
use crate::error::Error;
use crate::hooks::panics::Panics;
use crate::process::process_state;
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::outstanding_work::{Access, Earlier, OutstandingWork, Unrecorded, Work};
use crate::streams::stream::Stream;
use crate::streams::wait::WaitMethod;
use crate::tensors::memory::Memory;
use crate::tensors::tensor::Tensor;

/// The tensors that some work reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Accesses<'a> {
    reads: Option<&'a Tensor>,
    writes: Option<&'a Tensor>,
}

impl<'a> Accesses<'a> {
    pub(crate) const fn reads(tensor: &'a Tensor) -> Self {
        Self {
            reads: Some(tensor),
            writes: None,
        }
    }

    pub(crate) const fn writes(tensor: &'a Tensor) -> Self {
        Self {
            reads: None,
            writes: Some(tensor),
        }
    }

    pub(crate) const fn copy(dst: &'a Tensor, src: &'a Tensor) -> Self {
        Self {
            reads: Some(src),
            writes: Some(dst),
        }
    }

    fn each(self) -> impl Iterator<Item = (&'a Memory, Access)> {
        let reads = self.reads.map(|tensor| (tensor.memory(), Access::Read));
        let writes = self.writes.map(|tensor| {
            let access = if tensor.is_whole() {
                Access::Write
            } else {
                Access::WritePart
            };
            (tensor.memory(), access)
        });
        reads.into_iter().chain(writes)
    }

    /// Refuses memory that is not its producer's to give.
    fn check_claims(self) -> Result<(), Error> {
        let check =
            |tensor: Option<&Tensor>| tensor.map_or(Ok(()), |tensor| tensor.memory().check_claim());
        check(self.reads).and_then(|()| check(self.writes))
    }

    /// The devices of `maker`'s plugin that work by it is about. The stream may be of none of the tensors' devices.
    fn devices(
        self,
        maker: &'a Device,
        stream: Option<&'a Stream>,
    ) -> impl Iterator<Item = &'a Device> + Clone {
        let tensors = [self.reads, self.writes].into_iter().flatten();
        let devices = tensors
            .map(Tensor::device)
            .chain(stream.map(Stream::device));
        let own = devices.filter(|device| device.is_of(maker.plugin()));
        std::iter::once(maker).chain(own)
    }

    /// Refuses work on a device that was lost.
    fn check_not_lost(self, maker: &Device, stream: Option<&Stream>) -> Result<(), Error> {
        let mut devices = self.devices(maker, stream);
        devices.try_for_each(|device| device.check_not_lost("copy"))
    }

    /// Remembers which device is lost where the answer of a hook says so.
    #[cold]
    fn notice_lost(self, maker: &Device, stream: Option<&Stream>, error: &Error) {
        lost::notice(self.devices(maker, stream), error);
    }

    /// Begins a call that uses the tensors. It is over when the answer is dropped.
    pub(crate) fn begin(self) -> impl Sized {
        let begin = |tensor: &'a Tensor| tensor.memory().calls().begin();
        (self.reads.map(begin), self.writes.map(begin))
    }

    /// Waits for all that the work has to come after, then does the work, which is over when `work`
    /// returns. Where that has written all elements, earlier writes that failed are forgotten.
    pub(crate) fn synchronously(
        self,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut replaced = None;
        for (memory, access) in self.each() {
            let failed = memory.outstanding().synchronize(access, None)?;
            if access == Access::Write && !failed.is_empty() {
                replaced = Some((memory, failed));
            }
        }
        remember_panic(self, work)?;
        if let Some((memory, failed)) = replaced {
            memory.outstanding().replace(&failed);
        }
        Ok(())
    }

    /// Makes a stream wait for all that this work has to come after.
    fn come_after(self, stream: WorkStream<'_>) -> Result<Vec<MemoryUse<'a>>, Error> {
        let found = |(memory, access): (&'a Memory, Access)| {
            let works = memory.outstanding().before(access);
            (MemoryUse::new(memory, access, stream.callers_own()), works)
        };
        // Looked for before anything is waited for: what is found is on its stream already. Work that
        // other threads submit from here on may come after this work.
        let found: Vec<_> = self.each().map(found).collect();
        stream.wait_for_caller()?;
        let mut uses = Vec::with_capacity(2);
        for (mut found, works) in found {
            found
                .earlier
                .extend(stream.come_after(works, found.access)?);
            uses.push(found);
        }
        Ok(uses)
    }

    /// Remembers work that has no event at its end, and why. Where it is on a stream, a later record
    /// may do; else the memories are kept for ever, and their next user is told why.
    fn remember_unrecorded(self, on: Option<WorkStream<'_>>, why: &Error) {
        if let Some(internal) = on.as_ref().and_then(WorkStream::internal) {
            internal.note_unrecorded();
        }
        let unrecorded = Unrecorded::new(why);
        for (memory, access) in self.each() {
            let stream = on.as_ref().and_then(WorkStream::callers_own);
            let entry = Work {
                stream: stream.map(Stream::to_record_later),
                end: Err(Arc::clone(&unrecorded)),
                access: on.map_or(Access::Write, |_| access),
                holds_memory: true,
                unrecorded_on: on.as_ref().and_then(WorkStream::internal).cloned(),
                after: Vec::new(),
            };
            memory.outstanding().enter(entry, &[]);
        }
    }
}

/// A memory that some work touches, and the ends of the work that it comes after.
struct MemoryUse<'a> {
    memory: &'a Memory,
    access: Access,
    earlier: Vec<Earlier>,
}

impl<'a> MemoryUse<'a> {
    /// A memory that work on `stream` touches, and the work with the same access that is on the stream
    /// already. Made before the end of the new work is recorded, so that the end comes after all of it.
    fn new(memory: &'a Memory, access: Access, stream: Option<&Stream>) -> Self {
        let there = stream.map(|stream| memory.outstanding().ends_on(stream, access));
        Self {
            memory,
            access,
            earlier: those_replaced(there.unwrap_or_default(), access),
        }
    }
}

/// Remembers work whose end is `event`, after which everything later on `stream` comes.
fn enter(stream: Option<&Stream>, event: &Event, uses: &[MemoryUse<'_>], holds_memory: bool) {
    event.poll_later();
    for MemoryUse {
        memory,
        access,
        earlier,
    } in uses
    {
        let entry = Work {
            stream: stream.map(Stream::to_remember),
            end: Ok(event.clone()),
            access: *access,
            holds_memory,
            unrecorded_on: None,
            after: Vec::new(),
        };
        memory.outstanding().enter(entry, earlier);
    }
}

/// Does work by a hook of `maker`'s plugin: synchronously without a stream, else in the stream's order.
///
/// A stream of another plugin is kept in order too: the work goes to an internal stream, between two
/// events of the caller's.
pub(crate) fn run(
    maker: &Device,
    stream: Option<&Stream>,
    accesses: Accesses<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    accesses.check_claims()?;
    accesses.check_not_lost(maker, stream)?;
    let _calls = accesses.begin();
    let work = |on| work(on).inspect_err(|error| accesses.notice_lost(maker, stream, error));
    let Some(stream) = stream else {
        return run_synchronously(accesses, work);
    };
    if Arc::ptr_eq(stream.device().plugin(), maker.plugin()) {
        return submit(WorkStream::Callers(stream), accesses, work);
    }
    match InternalStream::take(maker) {
        // Between the two events nobody else's work for the stream may begin.
        Ok(internal) => {
            let internal = Arc::new(internal);
            let target = WorkStream::Internal(stream, &internal);
            stream.with_foreign_lock(|| submit(target, accesses, work))
        }
        Err(error) if error.is_unsupported() => {
            synchronize(Some(stream))?;
            run_synchronously(accesses, work)
        }
        Err(error) => Err(error),
    }
}

/// Puts a copy that two plugins make into the order of a stream: `work` submits all of it to the two internal streams.
/// Both wait first for what their half comes after, and the stream waits for the ends of both.
///
/// # Errors
/// As [`run`]. What `work` had submitted before it failed is remembered.
pub(crate) fn run_halves(
    stream: &Stream,
    (src, reader): (&Tensor, &Arc<InternalStream>),
    (dst, writer): (&Tensor, &Arc<InternalStream>),
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let both = Accesses::copy(dst, src);
    both.check_claims()?;
    let _calls = both.begin();
    let halves = [
        (WorkStream::Internal(stream, reader), Accesses::reads(src)),
        (WorkStream::Internal(stream, writer), Accesses::writes(dst)),
    ];
    stream.with_foreign_lock(|| {
        let mut begun = Vec::with_capacity(2);
        for (target, accesses) in halves {
            begun.push((target.create_end()?, accesses.come_after(target)?));
        }
        let done = remember_panic(both, work);
        let mut ended = Ok(());
        for ((target, accesses), (end, uses)) in halves.into_iter().zip(begun) {
            if done.is_ok() {
                ended = ended.and(conclude(target, accesses, uses, &end));
            } else {
                remember_part(target, accesses, uses, &end);
            }
        }
        done.and(ended)
    })
}

/// Refuses a stream of the process that this one was forked off, also where nothing is to be put on it.
pub(crate) fn check(stream: Option<&Stream>) -> Result<(), Error> {
    stream.map_or(Ok(()), Stream::check_process)
}

/// Makes the calling thread wait for all that is on a stream, because work is to come that cannot follow it.
///
/// # Errors
/// [`Error::Hook`]; the failure of that work.
pub(crate) fn synchronize(stream: Option<&Stream>) -> Result<(), Error> {
    match stream {
        Some(stream) => stream.record_own()?.synchronize(None),
        None => Ok(()),
    }
}

fn run_synchronously(
    accesses: Accesses<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    accesses.synchronously(|| work(StreamHandle::NONE))
}

/// Submits work to a stream, after what it depends on, and remembers it.
fn submit(
    target: WorkStream<'_>,
    accesses: Accesses<'_>,
    work: impl FnOnce(StreamHandle) -> Result<(), Error>,
) -> Result<(), Error> {
    // Before the work: where there is no event for its end, the work is not begun.
    let end = target.create_end()?;
    let uses = accesses.come_after(target)?;
    if let Err(error) = remember_panic(accesses, || target.submit(work)) {
        remember_begun(target, accesses, uses, (&end, &error));
        return Err(error);
    }
    conclude(target, accesses, uses, &end)
}

/// Records the end of work that was submitted, lets the caller's stream come after it, and remembers the work.
fn conclude(
    target: WorkStream<'_>,
    accesses: Accesses<'_>,
    mut uses: Vec<MemoryUse<'_>>,
    end: &Event,
) -> Result<(), Error> {
    let recorded = target.record(end);
    recorded.inspect_err(|error| accesses.remember_unrecorded(Some(target), error))?;
    if target.callers_own().is_some_and(Stream::may_have_told) {
        carry_told_failure(accesses, end, &mut uses);
    }
    let followed = match target {
        WorkStream::Callers(_) => Ok(true),
        // A thread that waits gives up where nobody can say that the work is over. The caller's
        // stream goes on then, so what is later on it does not come after the work.
        WorkStream::Internal(caller, _) => caller
            .wait(end)
            .map(|method| method != WaitMethod::HostThread),
    };
    let stream = matches!(followed, Ok(true)).then(|| target.caller());
    enter(stream, end, &uses, true);
    followed.map(drop)
}

/// Remembers work that failed while it was put on a stream, unless nothing of it is there, or the memories remember
/// it already.
#[cold]
fn remember_begun(
    target: WorkStream<'_>,
    accesses: Accesses<'_>,
    uses: Vec<MemoryUse<'_>>,
    (end, error): (&Event, &Error),
) {
    let was_refused = matches!(
        error.status(),
        Some(Status::UNSUPPORTED | Status::CAPTURING | Status::PANIC)
    );
    if !was_refused && !process_state::is_exit_or_fork(error) {
        remember_part(target, accesses, uses, end);
    }
}

/// Remembers work of which a part may be on a stream, and use the memories. What they depended on before stays as it
/// was.
#[cold]
fn remember_part(
    target: WorkStream<'_>,
    accesses: Accesses<'_>,
    mut uses: Vec<MemoryUse<'_>>,
    end: &Event,
) {
    uses.iter_mut().for_each(|one| one.earlier.clear());
    match target.record(end) {
        Ok(()) => enter(target.callers_own(), end, &uses, true),
        // Nobody can tell whether the work of a lost device is over, and no later record says so.
        Err(why) if why.status() == Some(Status::DEVICE_LOST) => {
            accesses.remember_unrecorded(None, &why);
        }
        Err(why) => accesses.remember_unrecorded(Some(target), &why),
    }
}

/// Lets `event` carry the failure of a write that the work reads: another thread may have waited for
/// the stream, and been told of it, between the look at what the work comes after and the record.
fn carry_told_failure(accesses: Accesses<'_>, event: &Event, uses: &mut [MemoryUse<'_>]) {
    for MemoryUse {
        access, earlier, ..
    } in uses
    {
        *earlier = those_replaced(std::mem::take(earlier), *access);
    }
    let read = accesses.reads.map(|tensor| tensor.memory().outstanding());
    if let Some(failure) = read.and_then(OutstandingWork::failed_write) {
        event.carry(&Arc::new(failure));
    }
}

/// Does work by hooks. One that panicked may have begun it, so the memories remember the work for ever.
fn remember_panic(
    accesses: Accesses<'_>,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let panics = Panics::from_now();
    work().inspect_err(|error| {
        if panics.is_any() {
            accesses.remember_unrecorded(None, error);
        }
    })
}

/// Makes `stream` wait for all that work with this access has to come after.
pub(crate) fn come_after(stream: &Stream, memory: &Memory, access: Access) -> Result<(), Error> {
    stream.check_process()?;
    let works = memory.outstanding().before(access);
    WorkStream::Callers(stream)
        .come_after(works, access)
        .map(drop)
}

/// Makes `stream` wait for what the work of others depends on that they are about to put there.
pub(crate) fn wait(stream: &Stream, accesses: Accesses<'_>) -> Result<(), Error> {
    stream.check_process()?;
    accesses.check_claims()?;
    accesses.come_after(WorkStream::Callers(stream)).map(drop)
}

/// Remembers work of ours that was put on `stream` without [`run`], also where its end cannot be recorded:
/// whatever follows then on the stream still comes after it.
pub(crate) fn note_own(stream: &Stream, accesses: Accesses<'_>) -> Result<(), Error> {
    note(stream, accesses, true)
        .or_else(|_| note(stream, accesses, true))
        .inspect_err(|error| {
            accesses.remember_unrecorded(Some(WorkStream::Callers(stream)), error);
        })
}

/// Remembers work of others that is on `stream`; they made it wait for what the work depends on.
/// `holds_memory`: memory of others has to outlive the work too.
pub(crate) fn note(
    stream: &Stream,
    accesses: Accesses<'_>,
    holds_memory: bool,
) -> Result<(), Error> {
    let on_stream = |(memory, access)| MemoryUse::new(memory, access, Some(stream));
    let uses: Vec<_> = accesses.each().map(on_stream).collect();
    let event = stream.record_own()?;
    enter(Some(stream), &event, &uses, holds_memory);
    Ok(())
}
