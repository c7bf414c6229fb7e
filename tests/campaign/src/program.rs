//! Programs as data: small operations on numbered places, which a file can hold and a shrinker can cut.

use serde::{Deserialize, Serialize};

use crossdock::{RouteChoice, RouteKind};
use crossdock_sdk::dlpack::{Dtype, DtypeCode};

pub use crate::clients::calls::ClientCall;
pub use crate::offset::Offset;

/// What one trial runs: where, with which faults, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "kinds write its fields")]
pub struct Case {
    /// What the case is called in reports: kind and seed.
    pub name: String,
    /// The language that makes the calls.
    #[serde(default)]
    pub language: Language,
    /// The devices by name, as [`crate::world`] finds them; operations name them by their index here.
    pub devices: Vec<String>,
    /// Whether its runtimes are opened for it, and closed after it.
    pub fresh: bool,
    /// How many runtimes are open; operations name them by number.
    pub runtimes: usize,
    /// Bytes of host memory for one staged copy: few, so that small tensors take several chunks.
    pub staging: u64,
    /// Rules of the fault layer, or none.
    pub fault: Option<String>,
    /// How the process goes on after a certain operation began.
    pub ending: Ending,
    /// What drives the asynchronous plugin, where it is among the devices.
    pub engine: Engine,
    /// Programs that run at the same time, each with places of its own.
    pub programs: Vec<Vec<Op>>,
}

/// The hooks by which a plugin notifies the host of the end of work. If one is refused, a thread polls instead.
pub const WAIT_HOOKS: [&str; 3] = ["stream_create", "stream_wait_event", "stream_host_call"];

impl Case {
    /// How many operations there are.
    #[must_use]
    pub fn ops(&self) -> usize {
        self.programs.iter().map(Vec::len).sum()
    }

    /// Whether two runtimes are used by four threads each.
    #[must_use]
    pub const fn is_crowd(&self) -> bool {
        self.runtimes == 2 && self.programs.len() == 8
    }

    /// Whether one thread at a time runs, in an order of the seed; else all run freely. So do programs
    /// beside each other on devices of other plugins: no order of theirs would be exact. And so do those on a driver, for
    /// which plugins wait by asking it again and again: their threads never all sleep.
    #[must_use]
    pub fn takes_turns(&self) -> bool {
        let is_alone = self.programs.len() == 1 || self.devices_of_other_plugins().is_empty();
        self.engine.policy != "threads" && is_alone && self.driver().is_none()
    }

    /// What a simulated driver is to do, where devices of one take part.
    #[must_use]
    pub fn driver(&self) -> Option<&Engine> {
        let is_of_one = |name: &String| {
            ["cuda", "rocm"]
                .iter()
                .any(|vendor| name.starts_with(vendor))
        };
        let has_driver = self.devices.iter().any(is_of_one);
        has_driver.then_some(&self.engine)
    }

    /// The devices that are not the asynchronous plugin's: those of simulated CUDA and ROCm drivers too.
    fn devices_of_other_plugins(&self) -> Vec<&str> {
        let names = self.devices.iter().map(String::as_str);
        names
            .filter(|name| !name.starts_with("asynchronous"))
            .collect()
    }

    /// Why two runs may differ; `None` where each does what the one before did, as far as the simulated
    /// devices see it.
    #[must_use]
    pub fn why_inexact(&self) -> Option<String> {
        if self.engine.policy == "threads" {
            return Some("by the policy `threads` all threads run freely".to_owned());
        }
        let others = self.devices_of_other_plugins();
        if !others.is_empty() {
            let others = others.join(", ");
            return Some(format!("threads of {others} work when they come to it"));
        }
        let fault = self.fault.as_deref().unwrap_or_default();
        let may_poll =
            |rule: &str| WAIT_HOOKS.contains(&rule.split(':').next().unwrap_or_default());
        if fault.split(',').any(may_poll) {
            return Some("a thread polls by the clock if a hook of a wait is refused".to_owned());
        }
        // A copy of up to three chunks stays on the caller's thread.
        let most = (self.staging / 8).max(4096).saturating_mul(3);
        let is_cut_up = |op: &Op| op.call.new_bytes().is_some_and(|bytes| bytes > most);
        let is_cut_up = self.programs.iter().flatten().any(is_cut_up);
        is_cut_up.then(|| "threads share the stages of one copy as they come".to_owned())
    }

    /// Whether hooks, or functions of a simulated driver, are made to fail.
    #[must_use]
    pub const fn has_faults(&self) -> bool {
        self.fault.is_some() || self.engine.fault.is_some()
    }

    /// Whether a device of a simulated driver may be lost.
    #[must_use]
    pub fn loses_device(&self) -> bool {
        let fault = self.engine.fault.as_deref();
        fault.is_some_and(|fault| fault.contains('!'))
    }

    /// Whether all that fails is single calls of a driver, or what they put on streams: with every other call a plugin
    /// can do what they did not.
    #[must_use]
    pub fn has_single_faults(&self) -> bool {
        let fault = self.engine.fault.as_deref();
        self.fault.is_none() && fault.is_some_and(|fault| !fault.contains(['!', '+']))
    }

    /// Whether it makes something fail, so that an error in the log may be right.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        let fails = |op: &Op| {
            matches!(
                op.call,
                Call::Hold { fails: true, .. } | Call::Abandon { .. }
            )
        };
        self.has_faults() || self.programs.iter().flatten().any(fails)
    }
}

/// The languages that programs can be in.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[expect(clippy::exhaustive_enums, reason = "the languages there are")]
#[expect(missing_docs, reason = "they have their names")]
pub enum Language {
    #[default]
    Rust,
    C,
    Python,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rust, Self::C, Self::Python];

    /// The language of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|language| language.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
            Self::Python => "python",
        }
    }
}

/// What becomes of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "kinds name each")]
pub enum Ending {
    /// The programs end, and everything is given back.
    Return,
    /// The process exits when this operation of the first program has begun.
    Exit(usize),
    /// The process forks there; the child works on with what it has, and ends.
    Fork(usize),
}

/// How simulated hardware orders what it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "kinds write its fields")]
pub struct Engine {
    /// `threads`, `seeded` or `lazy`.
    pub policy: String,
    /// What the order is drawn from.
    pub seed: u64,
    /// Hardware queues that the streams share.
    pub queues: u32,
    /// What fails in a simulated driver, in the words of `scripts/with-sim --set fault=`, from the moment on when all
    /// plugins are open.
    #[serde(default)]
    pub fault: Option<String>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            policy: "seeded".to_owned(),
            seed: 1,
            queues: 8,
            fault: None,
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "kinds write its fields")]
pub struct Op {
    /// The thread that makes it.
    pub thread: usize,
    /// The runtime whose devices it names.
    pub runtime: usize,
    /// What is called.
    pub call: Call,
}

/// The calls. `t`, `s`, `e`, `x` and `r` are places of tensors, streams, events, exports and registrations:
/// the result goes to the first place named, and a call that needs an empty place is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "the interpreter names each")]
#[expect(
    missing_docs,
    reason = "the fields are places, or arguments of the call of that name"
)]
pub enum Call {
    /// A tensor with bytes of a seed.
    Make {
        t: usize,
        device: usize,
        element: Element,
        shape: Vec<i64>,
        seed: u8,
    },
    /// Host memory of others, which is spoilt when it is released.
    Foreign {
        t: usize,
        element: Element,
        shape: Vec<i64>,
        seed: u8,
        #[serde(default)]
        offset: Offset,
    },
    /// The memory of a tensor, imported by another layout; `first` counts elements from its start, and `bytes` more
    /// bytes.
    Strange {
        t: usize,
        of: usize,
        shape: Vec<i64>,
        strides: Vec<i64>,
        first: i64,
        #[serde(default)]
        bytes: i64,
    },
    /// A part; start, step and length of each axis.
    Slice {
        t: usize,
        of: usize,
        axes: Vec<(i64, i64, i64)>,
    },
    Permute {
        t: usize,
        of: usize,
        axes: Vec<usize>,
    },
    Reshape {
        t: usize,
        of: usize,
        shape: Vec<i64>,
    },
    Clone {
        t: usize,
        of: usize,
    },
    To {
        t: usize,
        of: usize,
        device: usize,
        way: Way,
        stream: Option<usize>,
    },
    CopyFrom {
        t: usize,
        of: usize,
        stream: Option<usize>,
    },
    Fill {
        t: usize,
        seed: u8,
        stream: Option<usize>,
    },
    Write {
        t: usize,
        seed: u8,
    },
    Read {
        t: usize,
    },
    /// What is in the memory now, past every order: while a host event is pending, nothing behind it.
    Peek {
        t: usize,
    },
    Export {
        x: usize,
        of: usize,
        stream: Option<usize>,
    },
    Import {
        t: usize,
        x: usize,
    },
    Release {
        x: usize,
    },
    Stream {
        s: usize,
        device: usize,
    },
    Default {
        s: usize,
        device: usize,
    },
    /// A new host event that the stream waits for; `fails` says how it will be completed.
    Hold {
        e: usize,
        s: usize,
        fails: bool,
    },
    /// Completes the event.
    Open {
        e: usize,
    },
    /// Drops the event, and with it the last way to complete it.
    Abandon {
        e: usize,
    },
    Record {
        e: usize,
        s: usize,
    },
    Wait {
        s: usize,
        e: usize,
    },
    SyncStream {
        s: usize,
    },
    SyncEvent {
        e: usize,
    },
    SyncTensor {
        t: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// Cached memory is given back, all but `keep` bytes. What is allocated stays as it is.
    Trim {
        device: usize,
        keep: u64,
    },
    /// The host memory of a tensor is locked for a device, until the registration is dropped.
    Register {
        r: usize,
        of: usize,
        device: usize,
    },
    Unregister {
        r: usize,
    },
    WaitToRead {
        t: usize,
        s: usize,
    },
    WaitToWrite {
        t: usize,
        s: usize,
    },
    UsedOn {
        t: usize,
        s: usize,
    },
    WrittenOn {
        t: usize,
        s: usize,
    },
    /// The content is ready once what is on the stream now is done.
    ReadyOn {
        t: usize,
        s: usize,
    },
    /// Handed out as DLPack 0.x in the stream's order, and taken in again.
    Draft {
        t: usize,
        of: usize,
        s: usize,
    },
    /// The memory of a tensor taken once more, by address or as a native object, with work on the
    /// stream that is said to write it. Nothing is: both are only read.
    Take {
        t: usize,
        of: usize,
        s: usize,
        native: bool,
    },
    /// What a move on the stream would do.
    Explain {
        of: usize,
        device: usize,
        s: usize,
    },
    /// What the stream is, and whether it is idle: answered at once.
    Ask {
        s: usize,
    },
    DropTensor {
        t: usize,
    },
    DropStream {
        s: usize,
    },
    /// Another library over a simulated driver, in a place of its own, does something.
    Client {
        c: usize,
        does: ClientCall,
    },
    /// A call that never answers: what is planted to prove that a hang is found.
    Never,
    /// An error in the log, planted to prove that one is found.
    Complain,
    /// Another device is made the thread's current one, by a simulated driver: planted as well.
    Stray,
    /// A stream of a simulated driver is made and left: planted as well.
    Litter,
}

impl Call {
    /// The bytes of the tensor that it makes of nothing.
    fn new_bytes(&self) -> Option<u64> {
        let (Self::Make { element, shape, .. } | Self::Foreign { element, shape, .. }) = self
        else {
            return None;
        };
        Some((shape.iter().product::<i64>() * element.bits()).unsigned_abs() / 8)
    }

    /// Whether a stream may have work when it returned: work without a stream is over then.
    pub(crate) const fn may_leave_work(&self) -> bool {
        !matches!(
            self,
            Self::Make { .. }
                | Self::Strange { .. }
                | Self::Slice { .. }
                | Self::Permute { .. }
                | Self::Reshape { .. }
                | Self::Clone { .. }
                | Self::To { stream: None, .. }
                | Self::CopyFrom { stream: None, .. }
                | Self::Fill { stream: None, .. }
                | Self::Write { .. }
                | Self::Read { .. }
                | Self::Peek { .. }
                | Self::Stream { .. }
                | Self::SyncStream { .. }
                | Self::SyncDevice { .. }
                | Self::Trim { .. }
                | Self::Register { .. }
        )
    }
}

/// The elements: each width that takes a way of its own through the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "the widths that copies tell apart")]
#[expect(missing_docs, reason = "each is a number of bytes, but the first")]
pub enum Element {
    /// Four bits.
    Half,
    One,
    Three,
    Four,
    Eight,
    Sixteen,
}

impl Element {
    /// All widths.
    pub const ALL: [Self; 6] = [
        Self::Half,
        Self::One,
        Self::Three,
        Self::Four,
        Self::Eight,
        Self::Sixteen,
    ];

    /// Bits of one.
    #[must_use]
    pub const fn bits(self) -> i64 {
        match self {
            Self::Half => 4,
            Self::One => 8,
            Self::Three => 24,
            Self::Four => 32,
            Self::Eight => 64,
            Self::Sixteen => 128,
        }
    }

    /// A dtype of this width.
    ///
    /// # Panics
    /// Never: each is one of DLPack's.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Half => Dtype::new(DtypeCode::INT, 4, 1).unwrap(),
            Self::One => Dtype::UINT8,
            Self::Three => Dtype::new(DtypeCode::UINT, 8, 3).unwrap(),
            Self::Four => Dtype::UINT32,
            Self::Eight => Dtype::INT64,
            Self::Sixteen => Dtype::COMPLEX128,
        }
    }
}

/// The route that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "the routes there are")]
#[expect(missing_docs, reason = "they have the names of the routes")]
pub enum Way {
    Best,
    Alias,
    Direct,
    Staged,
    /// None: a copy into memory that is allocated for it, in the order of the stream, or pinned without one.
    Own,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Best,
        Self::Alias,
        Self::Direct,
        Self::Staged,
        Self::Own,
    ];

    /// The same for the runtime.
    #[must_use]
    pub const fn choice(self) -> Option<RouteChoice> {
        match self {
            Self::Best => Some(RouteChoice::Best),
            Self::Alias => Some(RouteChoice::Only(RouteKind::Alias)),
            Self::Direct => Some(RouteChoice::Only(RouteKind::Direct)),
            Self::Staged => Some(RouteChoice::Only(RouteKind::Staged)),
            Self::Own => None,
        }
    }
}

/// `count` bytes of a seed; no two neighbours are alike, and no two seeds.
#[must_use]
pub fn bytes_of(seed: u8, count: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let word = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(seed) << 40);
        (word.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
    };
    (0..count).map(byte).collect()
}

/// One element's bytes, for a fill. Half a byte is the low half of its byte.
#[must_use]
pub fn pattern_of(seed: u8, element: Element) -> Vec<u8> {
    bytes_of(seed, element.bits().unsigned_abs().div_ceil(8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_faults_are_those_of_a_driver_that_strike_once_and_lose_no_device() {
        let single = |fault: Option<&str>, of_driver: Option<&str>| {
            let case = Case {
                name: String::new(),
                language: Language::Rust,
                devices: Vec::new(),
                fresh: true,
                runtimes: 1,
                staging: 4096,
                fault: fault.map(str::to_owned),
                ending: Ending::Return,
                engine: Engine {
                    fault: of_driver.map(str::to_owned),
                    ..Engine::default()
                },
                programs: Vec::new(),
            };
            case.has_single_faults()
        };
        assert!(single(None, Some("cuMemcpy*@3=1")));
        assert!(single(None, Some("*EventQuery@1=2,exec:cuMemset*@2=999")));
        let others = ["*EventQuery@1+=2", "cuMemcpy*@1=1,*EventQuery@1=719!"];
        assert!(others.iter().all(|fault| !single(None, Some(fault))));
        assert!(!single(None, None) && !single(Some("free:p0.03@1=OOM_HOST"), None));
    }
}
