//! Who makes the calls of a program: one for each of Rust, C and Python, all held against the same
//! model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crossdock::{Error, Event, Tensor};
use crossdock_sdk::abi::{Address, CopyArgs, MemoryKind, Side, Status, StreamHandle};
use crossdock_sdk::dlpack::DlpackError;

use crate::foreign::Lent;
use crate::model::View;
use crate::program::{Language, Op};
use crate::world::World;

/// The places of one program, in a language, and the calls on them.
pub(crate) trait Caller: fmt::Debug + Send {
    /// Makes a call. `of` is the model's view of the tensor that it names first as a source, or as
    /// its target.
    fn perform(&mut self, op: &Op, of: Option<&View>) -> Outcome;
    /// The host events that are pending.
    fn host_events(&self) -> HostEvents;
    /// The places of streams that are not empty.
    fn streams(&self) -> Vec<usize>;
    /// The tensors, for the other side of a fork.
    fn tensors(&self) -> Vec<Tensor> {
        Vec::new()
    }
    /// Gives up all places; what was lent is kept for a look.
    fn clear(&mut self);
    /// What was lent.
    fn lent(&self) -> &[Lent];
    /// Waits for the work of clients on streams of theirs: what it uses may be known by another name.
    fn clients_rest(&self) {}
    /// All clients go, once nobody has anything of theirs; the first thing that they were refused.
    fn clients_go(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Pending host events, which hold streams back, and how each will be completed.
pub(crate) type HostEvents = Arc<Mutex<BTreeMap<usize, (Box<dyn HostEvent>, Status)>>>;

/// An event that the host completes.
pub(crate) trait HostEvent: fmt::Debug + Send {
    /// Completes it; after a failure it is still pending.
    fn complete(&self, status: Status) -> Result<(), Failed>;
}

impl HostEvent for Event {
    fn complete(&self, status: Status) -> Result<(), Failed> {
        Ok(Self::complete(self, status)?)
    }
}

/// What a call answered.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A place that it needs is empty, or the language has no such call.
    Skipped,
    Done,
    Bytes(Vec<u8>),
    /// A tensor, and whether it is the same memory as the one it was made of.
    Made {
        alias: bool,
        read_only: bool,
        strides: Vec<i64>,
    },
    /// Whether a stream says that it has nothing to do.
    Idle(bool),
    /// How much was captured.
    Captured(usize),
    Failed(Failed),
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) kind: Failure,
    pub(crate) text: String,
    pub(crate) why: String,
}

/// The kinds of failures that are judged in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The runtime refused the call: nothing happened.
    Refused,
    /// A hook failed with this status.
    Hook(Status),
    Other,
}

impl Failed {
    /// A failure for which there is no reason.
    pub(crate) fn other(why: String) -> Self {
        Self {
            kind: Failure::Other,
            text: why.clone(),
            why,
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Refused { .. } | Error::Misuse { .. } | Error::Exchange(_) => Failure::Refused,
            Error::Hook { status, .. } => Failure::Hook(*status),
            _ => Failure::Other,
        };
        Self {
            kind,
            text: error.to_string(),
            why: error.why(),
        }
    }
}

/// A call that cannot be made, or that failed.
#[derive(Debug)]
pub(crate) enum Stop {
    Empty,
    Failed(Failed),
}

impl Stop {
    /// In words.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Empty => "a place is empty".to_owned(),
            Self::Failed(failed) => format!("{}: {}", failed.text, failed.why),
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DlpackError> for Stop {
    fn from(error: DlpackError) -> Self {
        Error::from(error).into()
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Empty => Self::Skipped,
            Stop::Failed(failed) => Self::Failed(failed),
        }
    }
}

/// What is at a place.
pub(crate) fn at<T>(places: &BTreeMap<usize, T>, place: usize) -> Result<&T, Stop> {
    places.get(&place).ok_or(Stop::Empty)
}

/// Memory that can be looked at past every order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Index of the device in the case.
    pub(crate) device: usize,
    pub(crate) address: Address,
    pub(crate) kind: MemoryKind,
    pub(crate) bytes: u64,
}

/// The bytes of a compact tensor as they are now, by its plugin's copy hook.
#[expect(unsafe_code, reason = "looks into memory past every order")]
pub(crate) fn peek(world: &World, seen: Seen) -> Result<Vec<u8>, Stop> {
    let mut bytes = vec![0_u8; seen.bytes as usize];
    if bytes.is_empty() {
        return Err(Stop::Empty);
    }
    let device = &world.devices[0][seen.device];
    let start = bytes.as_mut_ptr().expose_provenance() as u64;
    let args = CopyArgs {
        dst: Side {
            address: Address::pointer(start),
            kind: MemoryKind::HOST,
            device: 0,
        },
        src: Side {
            address: seen.address,
            kind: seen.kind,
            device: device.index(),
        },
        bytes: seen.bytes,
    };
    // SAFETY: both are valid for that many bytes until this returns. Work behind a pending host
    // event may not touch them, and whether it does is what is looked for.
    unsafe { device.plugin().hooks().copy(args, StreamHandle::NONE) }?;
    Ok(bytes)
}

/// The functions of the languages that were called in this process.
static CALLED: Mutex<BTreeSet<(Language, String)>> = Mutex::new(BTreeSet::new());

/// Notes that a function was called.
pub(crate) fn note_call(language: Language, function: &str) {
    let mut called = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    called.insert((language, function.to_owned()));
}

/// The functions of a language that were called in this process.
#[must_use]
pub(crate) fn called(language: Language) -> BTreeSet<String> {
    let called = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let of = called.iter().filter(|(other, _)| *other == language);
    of.map(|(_, function)| function.clone()).collect()
}
