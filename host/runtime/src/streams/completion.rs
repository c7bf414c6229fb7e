//! What is done when the work before an event is over, without a thread that blocks for it.
//!
//! An internal stream of the event's plugin waits for the event and then runs a host function. That
//! function may call no hook, so it hands a job to a thread of ours. Where a plugin cannot run host
//! functions, its polling thread queries that stream instead (`plugins/poller.rs`, `polled_end.rs`). Until
//! the function was called, the thread that takes its job polls the stream where the device asks for that
//! (`plugins/workers.rs`).
//!
//! Work is known to be over in two cases: the plugin says that it ended well, or a stream that
//! waited for it went on. Any other answer of a plugin may be a failure of the call and not of the
//! work, so it proves nothing.
#![expect(unsafe_code, reason = "hands a host function to a stream")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossdock_sdk::abi::{Capabilities, HostFunction, Status};
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::fence::fence;

use crate::error::Error;
use crate::hooks::plugin_hooks::OnQuarantine;
use crate::plugins::releases::{Outstanding, Release};
use crate::plugins::workers::{Job, JobQueue, Polled, Workers};
use crate::process::process_state;
use crate::streams::event::Event;
use crate::streams::internal_stream::InternalStream;
use crate::streams::outstanding_work::Work;
use crate::streams::polled_end::PolledEnd;
use crate::streams::wait::{OnFailure, WaitMethod};

/// What is done when work is over.
#[derive(Debug)]
pub(crate) enum Then {
    /// Complete a host event: with the failure of the work where its waiters are to inherit that.
    Complete(Event, OnFailure),
    /// Give something back when this other work is over too.
    Release(Release, Vec<Work>),
}

impl Then {
    fn worker(&self, workers: &Workers) -> Option<JobQueue> {
        match self {
            Self::Complete(..) => workers.host_events.start("crossdock-complete"),
            Self::Release(..) => workers.releases.start("crossdock-release"),
        }
    }

    /// Does it: the work before `event` is over.
    fn run(self, event: &Event) {
        match self {
            Self::Complete(host_event, OnFailure::Ignore) => complete(&host_event, Status::OK),
            Self::Complete(host_event, OnFailure::Inherit) => {
                let status = event
                    .synchronize(None)
                    .as_ref()
                    .err()
                    .map_or(Status::OK, failure_of);
                complete(&host_event, status);
            }
            Self::Release(release, work) => release_after(work, release),
        }
    }

    /// Gives up, because nobody can say whether the work is over: a stream goes on with a failure,
    /// and what was to be given back is leaked.
    fn give_up(self, error: Error) {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
        if let Self::Complete(host_event, _) = self {
            complete(&host_event, failure_of(&error));
        }
    }
}

/// Completes a host event. One that cannot be completed fails for its waiters when it is destroyed,
/// which its drop does.
pub(crate) fn complete(host_event: &Event, status: Status) {
    let completed = host_event.complete(status);
    // A failed completion changed nothing.
    if let Err(error) = completed.or_else(|_| host_event.complete(status)) {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}

/// The failure that waiters of another plugin see. The status of a failed call would tell them that
/// their own call failed.
pub(crate) fn failure_of(error: &Error) -> Status {
    let status = error.status().unwrap_or(Status::VENDOR);
    status.as_failure_of_work()
}

/// How work ended.
#[derive(Debug)]
pub(crate) enum End {
    Done,
    Failed(Error),
}

/// Blocks until the work before `event` is over, and says how it ended; `None` is no limit.
///
/// # Errors
/// `TIMEOUT`, or what the plugin answered where nobody can say whether the work is over.
pub(crate) fn block_until_over(event: &Event, limit: Option<Duration>) -> Result<End, Error> {
    let deadline = Deadline::after(limit);
    let failure = match ask_until_over(event, limit) {
        Ok(()) => return Ok(End::Done),
        Err(error) if is_timeout(&error, limit) => return Err(error),
        Err(error) => error,
    };
    if event.is_known_failed() {
        return Ok(End::Failed(failure));
    }
    match waiting_stream(event).and_then(|stream| stream.wait_until_over(deadline)) {
        Ok(()) => {
            event.set_failed();
            Ok(End::Failed(failure))
        }
        Err(error) if is_timeout(&error, limit) => Err(error),
        Err(_) => Err(failure),
    }
}

/// Blocks until the event says that it happened, or that the work before it failed. A call that failed for
/// another reason is made once more.
///
/// # Errors
/// `TIMEOUT`; the failure of the work, which may be one of the call all the same.
pub(crate) fn ask_until_over(event: &Event, limit: Option<Duration>) -> Result<(), Error> {
    let deadline = Deadline::after(limit);
    match event.synchronize(limit) {
        Err(error) if !error.is_failure_of_work() && !is_timeout(&error, limit) => {
            event.synchronize(deadline.left())
        }
        ended => ended,
    }
}

fn is_timeout(error: &Error, limit: Option<Duration>) -> bool {
    limit.is_some() && error.status() == Some(Status::TIMEOUT)
}

/// A stream of ours that waits for the event.
pub(super) fn waiting_stream(event: &Event) -> Result<InternalStream, Error> {
    let stream = InternalStream::take(event.device())?;
    stream.wait_for_own(event)?;
    Ok(stream)
}

/// Does `then` once the work before `event` is over, and says what waits for that: the device or the polling
/// thread.
///
/// # Errors
/// When neither can: a host event was completed with a failure, and what was to be given back is
/// leaked and counted.
pub(crate) fn after(event: Event, then: Then) -> Result<WaitMethod, Error> {
    after_on(None, event, then)
}

/// As [`after`], where `carrier` waits for the event: an internal stream of its device, which waits for many events in
/// the order in which they happen. None: an internal stream is taken for this event alone.
///
/// # Errors
/// As [`after`].
pub(crate) fn after_on(
    carrier: Option<&Arc<InternalStream>>,
    event: Event,
    then: Then,
) -> Result<WaitMethod, Error> {
    let plugin = Arc::clone(event.device().plugin());
    let worker = then.worker(plugin.workers());
    // Until the event was given up too: what it is an event of may end once nothing here waits any more.
    let place = match &then {
        Then::Release(release, _) => release.place(),
        Then::Complete(..) => Outstanding::new(plugin.releases()),
    };
    let waiting = Arc::new(Waiting {
        event,
        then: Mutex::new(Some((then, place))),
        stream: Mutex::new(None),
    });
    let how = match by_host_call(&waiting, carrier, worker.clone()) {
        Ok(()) => WaitMethod::HostEvent,
        Err(behind) => by_polling(&waiting, behind, worker).map(|()| WaitMethod::HostThread)?,
    };
    plugin.hooks().watch_quarantine(waiting);
    Ok(how)
}

/// Gives something back when all this work is over; nobody waits for it. Where that cannot be known
/// it is leaked and counted.
pub(crate) fn release_after(mut work: Vec<Work>, release: Release) {
    work.retain(|one| !one.is_done());
    let Some(last) = work.pop() else {
        return release.run();
    };
    let told = last
        .event()
        .and_then(|event| after(event, Then::Release(release, work)));
    if let Err(error) = told {
        log::error!(target: "crossdock::memory", "{error}: {}", error.why());
    }
}

/// Something to do, until it is done or given up.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) event: Event,
    /// With the place by which those who wait for releases wait for this.
    then: Mutex<Option<(Then, Arc<Outstanding>)>>,
    /// The stream that is to call the host function, until the function was called.
    stream: Mutex<Option<Arc<InternalStream>>>,
}

impl Waiting {
    /// Whether a stream is to wait for it.
    pub(super) fn is_waited_for(&self) -> bool {
        let then = self.then.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*then, Some((Then::Complete(..), _)))
    }

    fn take(&self) -> Option<(Then, Arc<Outstanding>)> {
        self.then
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Does what is to be done, in a thread that may call hooks.
    fn finish(self: Arc<Self>, ended: Result<(), Error>) {
        let place = self.take().map(|(then, place)| {
            match ended {
                Ok(()) => then.run(&self.event),
                Err(error) => then.give_up(error),
            }
            place
        });
        let stream = self.stream().take();
        // The last one that has a carrier gives it back.
        if let Some(stream) = stream.and_then(Arc::into_inner) {
            stream.give_back();
        }
        // The event first.
        drop(self);
        drop(place);
    }

    fn stream(&self) -> MutexGuard<'_, Option<Arc<InternalStream>>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Polled for Waiting {
    fn poll(&self) -> bool {
        // The lock keeps the stream here. A host function that runs inside the call takes no lock.
        let mut polled = self.stream();
        let Some(stream) = polled.as_ref() else {
            return false;
        };
        let hooks = stream.device().hooks();
        // The plugin acts on what it finds.
        let _ignored = hooks.stream_query(stream.handle());
        let is_called = !hooks.is_quarantined();
        if !is_called {
            *polled = None;
        }
        is_called
    }
}

impl OnQuarantine for Waiting {
    /// The plugin may never come to the event, and no hook can query it any more.
    fn quarantined(&self, error: &Error) {
        if let Some((then, _place)) = self.take() {
            then.give_up(error.clone());
        }
        // A thread that holds the lock polls it, perhaps this one: it drops the stream itself.
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }
}

/// What a host function carries to the thread that does the rest.
struct Arrival {
    waiting: Arc<Waiting>,
    worker: JobQueue,
}

/// Lets the event's own plugin say when the work is over. Where it cannot, gives back the stream that
/// waits for the event already, if there is one.
fn by_host_call(
    waiting: &Arc<Waiting>,
    carrier: Option<&Arc<InternalStream>>,
    worker: Option<JobQueue>,
) -> Result<(), Option<Arc<InternalStream>>> {
    let event = &waiting.event;
    let stream = match carrier {
        Some(carrier) => carrier.wait_for_own(event).map(|()| Arc::clone(carrier)),
        None => waiting_stream(event).map(Arc::new),
    };
    let stream = stream.map_err(|_refused| None)?;
    let Some(worker) = worker else {
        return Err(Some(stream));
    };
    let handle = stream.handle();
    *waiting.stream() = Some(stream);
    let arrival = Box::into_raw(Box::new(Arrival {
        waiting: Arc::clone(waiting),
        worker: worker.clone(),
    }));
    let (hooks, function) = (event.device().hooks(), HostFunction(Some(arrive)));
    // SAFETY: `arrive` takes the arrival once, on any thread, and calls no hook.
    let called = unsafe { hooks.stream_host_call(handle, function, arrival.cast()) };
    let Err(refused) = called else {
        let capabilities = event.device().capabilities();
        if capabilities.contains(Capabilities::POLLED_HOST_CALLS) {
            worker.poll_while_alive(waiting);
        }
        return Ok(());
    };
    // A plugin that panicked may have taken the function before.
    if refused.status() == Some(Status::PANIC) {
        process_state::count_leak();
        return Err(None);
    }
    // SAFETY: by the contract a failed call never calls the function, so it is still ours.
    drop(unsafe { Box::from_raw(arrival) });
    // Behind the event a carrier waits for later ones, which may come after what waits for this one.
    Err(waiting.stream().take().filter(|_| carrier.is_none()))
}

/// Called by a plugin when the internal stream has waited for the event.
unsafe extern "C" fn arrive(word: *mut c_void) {
    let hand_over = || {
        // SAFETY: the word of `by_host_call`, and the contract calls this once.
        let arrival = unsafe { Box::from_raw(word.cast::<Arrival>()) };
        let worker = arrival.worker.clone();
        worker.put_or_leak(Box::new(move || arrival.waiting.finish(Ok(()))));
    };
    let _caught = fence(hand_over);
}

/// Lets the plugin's polling thread ask for the event, or for the stream `behind`, which waits for the event already: it
/// has its place in the device's queues, before whatever waits for this.
fn by_polling(
    waiting: &Arc<Waiting>,
    behind: Option<Arc<InternalStream>>,
    worker: Option<JobQueue>,
) -> Result<(), Error> {
    // Where the system has no thread for it, the poll is dropped with what it owns.
    let mut shared = Some(Arc::clone(waiting));
    let mut end = PolledEnd::new(behind);
    let poll = move || {
        let Some(ended) = shared.as_ref().and_then(|waiting| end.ask(waiting)) else {
            return false;
        };
        // The poll has let go of the stream and of the event before what waits for both goes on.
        end = PolledEnd::new(None);
        if let Some(waiting) = shared.take() {
            let finish: Job = Box::new(move || waiting.finish(ended));
            match &worker {
                Some(worker) => worker.put_or_leak(finish),
                None => finish(),
            }
        }
        true
    };
    let plugin = waiting.event.device().plugin();
    let Err(error) = plugin.workers().polls.poll_until_over(poll) else {
        return Ok(());
    };
    let error = Error::exhausted("start a thread that polls", error);
    if let Some((then, _place)) = waiting.take() {
        then.give_up(error.clone());
    }
    Err(error)
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
