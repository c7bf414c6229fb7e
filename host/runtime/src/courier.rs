//! What is done when an event happened, without a thread that waits for it.
//!
//! A stream of the event's plugin waits for the event and then runs a host function. That function
//! may call no hook, so it hands a letter to a thread of ours, which does the task. Where a plugin
//! cannot run host functions, a thread waits instead.
#![expect(unsafe_code, reason = "hands a host function to a stream")]

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crossdock_sdk::abi::{HostFunction, Status, StreamHandle};
use crossdock_sdk::fence::fence;

use crate::chain::Chain;
use crate::error::Error;
use crate::event::Event;
use crate::hooks::Hooks;
use crate::life;

/// What is to be done when an event happened.
pub(crate) enum Task {
    /// Complete this event with what became of the other.
    Complete(Event),
    /// Give something back. It may run code of others, so it never delays a completion.
    Release(Box<dyn FnOnce() + Send>),
}

impl Task {
    /// Does the task; `event` happened, or is waited for.
    fn run(self, event: &Event) {
        let outcome = event.synchronize(None);
        match self {
            Self::Complete(gate) => {
                let failed = |error: Error| error.status().unwrap_or(Status::VENDOR);
                let status = outcome.map_or_else(failed, |()| Status::OK);
                log_failure(gate.complete(status));
            }
            // Work that failed has ended too.
            Self::Release(release) => release(),
        }
    }
}

/// Does `task` once `event` happened, and says what waits for it: the device or a thread.
///
/// # Errors
/// When neither can. A gate is completed with a failure then, and what was to be released is leaked
/// and counted, since work may still use it.
pub(crate) fn after(event: Event, task: Task) -> Result<Chain, Error> {
    match by_host_call(event, task) {
        Ok(()) => Ok(Chain::HostEvent),
        Err((event, task)) => by_thread(event, task).map(|()| Chain::HostThread),
    }
}

/// Lets the event's own plugin say when it happened; gives the task back where it cannot.
fn by_host_call(event: Event, task: Task) -> Result<(), (Event, Task)> {
    let plugin = Arc::clone(event.device().plugin());
    let (hooks, couriers) = (plugin.hooks(), plugin.couriers());
    let Some(office) = couriers.office(&task) else {
        return Err((event, task));
    };
    let Ok(courier) = couriers.take(hooks, event.device().index()) else {
        return Err((event, task));
    };
    let stream = courier.stream;
    let waits = hooks.stream_wait_event(stream, event.handle());
    let letter = Letter {
        event,
        task,
        courier,
        office,
    };
    if waits.is_err() {
        return Err(letter.take_back(hooks));
    }
    let word = Box::into_raw(Box::new(letter)).cast::<c_void>();
    // SAFETY: `deliver` takes the letter once, on any thread, and calls no hook.
    let called = unsafe { hooks.stream_host_call(stream, HostFunction(Some(deliver)), word) };
    if called.is_ok() {
        return Ok(());
    }
    // SAFETY: by the contract a failed call never calls the function, so the letter is still ours.
    let letter = unsafe { Box::from_raw(word.cast::<Letter>()) };
    Err(letter.take_back(hooks))
}

/// Lets a thread wait for the event.
fn by_thread(event: Event, task: Task) -> Result<(), Error> {
    let gate = match &task {
        Task::Complete(gate) => Some(gate.clone()),
        Task::Release(_) => None,
    };
    // Not dropped with the thread that did not start: the event may not have happened.
    let errand = Arc::new(Mutex::new(Some((event, task))));
    let kept = Arc::clone(&errand);
    let waiting = std::thread::Builder::new().name("crossdock-wait".to_owned());
    let spawned = waiting.spawn(move || {
        let taken = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((event, task)) = taken {
            task.run(&event);
        }
    });
    let Err(error) = spawned else {
        return Ok(());
    };
    Box::leak(Box::new(errand));
    life::count_leak();
    if let Some(gate) = gate {
        // Nobody else would let the stream go on.
        gate.complete(Status::OOM_HOST)?;
    }
    Err(Error::misuse(
        "start a thread that waits",
        error.to_string(),
    ))
}

/// What a host function carries to the thread that does the task.
struct Letter {
    event: Event,
    task: Task,
    courier: Courier,
    office: Sender<Box<Self>>,
}

impl Letter {
    /// The errand of a letter that its courier cannot carry.
    fn take_back(self, hooks: &Hooks) -> (Event, Task) {
        destroy(hooks, &self.courier);
        (self.event, self.task)
    }
}

/// Called by a plugin when the courier's stream has waited for the event.
unsafe extern "C" fn deliver(word: *mut c_void) {
    let hand_over = || {
        // SAFETY: the word of `by_host_call`, and the contract calls this once.
        let letter = unsafe { Box::from_raw(word.cast::<Letter>()) };
        let office = letter.office.clone();
        if let Err(lost) = office.send(letter) {
            // The thread is gone: dropping the letter here would call hooks.
            Box::leak(lost.0);
            life::count_leak();
        }
    };
    let _caught = fence(hand_over);
}

/// A stream that carries one errand at a time: two on one stream would order two events that have
/// nothing to do with each other, and could wait in a circle.
#[derive(Debug)]
struct Courier {
    device: u32,
    stream: StreamHandle,
}

/// A plugin's idle couriers, and the threads that open their letters.
#[derive(Debug, Default)]
pub(crate) struct Couriers {
    idle: Mutex<Vec<Courier>>,
    completions: Office,
    releases: Office,
}

impl Couriers {
    /// Where letters with such a task go.
    fn office(&self, task: &Task) -> Option<Sender<Box<Letter>>> {
        match task {
            Task::Complete(_) => self.completions.open("crossdock-complete"),
            Task::Release(_) => self.releases.open("crossdock-release"),
        }
    }

    /// An idle courier of the device, or a new one.
    fn take(&self, hooks: &Hooks, device: u32) -> Result<Courier, Error> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let at = idle.iter().position(|courier| courier.device == device);
            at.map(|at| idle.swap_remove(at))
        };
        if let Some(courier) = idle {
            return Ok(courier);
        }
        let stream = hooks.stream_create(device)?;
        Ok(Courier { device, stream })
    }

    /// Takes a courier back whose errand is done.
    fn give_back(&self, hooks: &Hooks, courier: Courier) {
        // A stream on which something failed says so for ever.
        if hooks.stream_query(courier.stream).is_err() {
            return destroy(hooks, &courier);
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(courier);
    }

    /// Destroys the idle couriers, before their plugin is closed.
    pub(crate) fn close(&self, hooks: &Hooks) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for courier in &idle {
            destroy(hooks, courier);
        }
    }
}

/// A thread that opens letters. It starts with the first one and ends with its plugin.
#[derive(Debug, Default)]
struct Office(Mutex<Option<Sender<Box<Letter>>>>);

impl Office {
    fn open(&self, name: &str) -> Option<Sender<Box<Letter>>> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            let (to, letters) = channel();
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || open_letters(&letters)).ok()?;
            *sender = Some(to);
        }
        sender.clone()
    }
}

fn open_letters(letters: &Receiver<Box<Letter>>) {
    while let Ok(letter) = letters.recv() {
        let Letter {
            event,
            task,
            courier,
            office,
        } = *letter;
        // The thread ends when its plugin and all letters have gone.
        drop(office);
        // A deleter of others may panic.
        let _caught = fence(|| task.run(&event));
        let plugin = Arc::clone(event.device().plugin());
        plugin.couriers().give_back(plugin.hooks(), courier);
    }
}

fn destroy(hooks: &Hooks, courier: &Courier) {
    log_failure(hooks.stream_destroy(courier.stream));
}

fn log_failure(result: Result<(), Error>) {
    if let Err(error) = result {
        log::error!(target: "crossdock::stream", "{error}: {}", error.why());
    }
}
