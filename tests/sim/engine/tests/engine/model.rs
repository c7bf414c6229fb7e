//! A second opinion: what a program orders, and what its bytes come to, worked out without an engine.
//!
//! It knows only what is submitted, in that order, and shares no code with the engine's checker.

use std::collections::BTreeMap;

pub(crate) const BYTES: usize = 48;

/// Bytes of one of the program's memories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) memory: usize,
    pub(crate) from: usize,
    pub(crate) bytes: usize,
}

/// How one stream comes to know what another did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// A record, and a wait for it.
    Event,
    /// A write of a word, and a wait for it.
    Word,
    /// The host synchronizes with the one, and so what it submits later is behind it.
    Host,
    /// The same by a record that the host synchronizes with.
    HostEvent,
}

impl How {
    /// Whether it is the host that learns.
    fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::HostEvent)
    }
}

/// One step of a program. Memories below the number of device memories are on the device; the others
/// belong to the host. Stream 0 is the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Copy {
        stream: usize,
        to: Part,
        from: Part,
    },
    /// Each second byte of both, so that others may have those between.
    Comb {
        stream: usize,
        to: Part,
        from: Part,
    },
    Fill {
        stream: usize,
        to: Part,
        value: u8,
    },
    Edge {
        from: usize,
        to: usize,
        how: How,
    },
    /// The stream waits for the host, which writes and then lets it go on.
    Late {
        stream: usize,
        to: Part,
        value: u8,
    },
    /// The host looks at bytes.
    Look {
        at: Part,
    },
    /// Frees a device memory and allocates another, by the host (0) or on a stream.
    Renew {
        memory: usize,
        stream: usize,
    },
    /// Asks whether a stream is done, whatever the answer is.
    Query {
        stream: usize,
    },
    /// A host function that does nothing but be counted.
    Call {
        stream: usize,
    },
    /// Destroys a stream and makes another.
    Change {
        stream: usize,
    },
}

/// One use of bytes.
#[derive(Clone, Copy)]
struct Used {
    part: Part,
    step: usize,
    writes: bool,
}

type Clock = BTreeMap<usize, u64>;

/// Writer and readers of a byte, as actors with their times.
type Users = (Option<(usize, u64)>, Vec<(usize, u64)>);

/// Clocks of all streams, and for each byte who used it since it was ordered last.
#[derive(Clone)]
pub(crate) struct Model {
    clocks: Vec<Clock>,
    /// Which actor each stream is: a new stream in an old place is another.
    actors: Vec<usize>,
    times: Vec<u64>,
    /// Of each byte of each memory.
    users: Vec<Vec<Users>>,
    pub(crate) bytes: Vec<Vec<u8>>,
    /// Whether something happened that nothing ordered.
    pub(crate) is_wrong: bool,
}

impl Model {
    /// With `streams` streams beside the host, and `memories` memories of [`BYTES`] zeros.
    pub(crate) fn new(streams: usize, memories: usize) -> Self {
        Self {
            clocks: vec![Clock::new(); streams + 1],
            actors: (0..=streams).collect(),
            times: vec![0; streams + 1],
            users: vec![vec![(None, Vec::new()); BYTES]; memories],
            bytes: vec![vec![0; BYTES]; memories],
            is_wrong: false,
        }
    }

    /// The streams that a step must be ordered behind and is not.
    pub(crate) fn missing(&self, step: Step) -> Vec<usize> {
        let Some(actor) = step.actor() else {
            return Vec::new();
        };
        let mut known = self.clocks[actor].clone();
        join(&mut known, &self.clocks[0]);
        let mut missing = Vec::new();
        for used in step.uses() {
            for byte in used.bytes() {
                let (writer, readers) = &self.users[used.part.memory][byte];
                let readers = readers.iter().filter(|_| used.writes);
                let unknown = |&&(who, time): &&(usize, u64)| known.get(&who) < Some(&time);
                missing.extend(
                    writer
                        .iter()
                        .chain(readers)
                        .filter(unknown)
                        .map(|&(who, _)| who),
                );
            }
        }
        missing.sort_unstable();
        missing.dedup();
        let stream = |who| self.actors.iter().position(|&actor| actor == who);
        missing
            .into_iter()
            .map(|who| stream(who).unwrap_or(usize::MAX))
            .collect()
    }

    /// Takes a step.
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Edge { from, to, how } => {
                let mut known = self.clocks[from].clone();
                // A record is submitted now and knows what the host knows.
                join(&mut known, &self.clocks[0].clone());
                join(&mut self.clocks[if how.is_host() { 0 } else { to }], &known);
            }
            Step::Late { stream, to, value } => {
                let write = Step::Fill {
                    stream: 0,
                    to,
                    value,
                };
                self.take(write);
                let host = self.clocks[0].clone();
                join(&mut self.clocks[stream], &host);
            }
            Step::Change { stream } => {
                self.actors[stream] = self.times.len();
                self.times.push(0);
                self.clocks[stream].clear();
            }
            Step::Query { .. } | Step::Call { .. } => {}
            Step::Copy { .. }
            | Step::Comb { .. }
            | Step::Fill { .. }
            | Step::Look { .. }
            | Step::Renew { .. } => self.use_bytes(step),
        }
    }

    fn use_bytes(&mut self, step: Step) {
        self.is_wrong |= !self.missing(step).is_empty();
        let actor = step.actor().unwrap_or(0);
        let host = self.clocks[0].clone();
        join(&mut self.clocks[actor], &host);
        let who = self.actors[actor];
        self.times[who] += 1;
        let now = (who, self.times[who]);
        self.clocks[actor].insert(now.0, now.1);
        for used in step.uses() {
            for byte in used.bytes() {
                let user = &mut self.users[used.part.memory][byte];
                if used.writes {
                    *user = (Some(now), Vec::new());
                } else {
                    user.1.push(now);
                }
            }
        }
        match step {
            Step::Copy { to, from, .. } | Step::Comb { to, from, .. } => {
                let comb = step.stride();
                for at in (0..to.bytes).step_by(comb) {
                    let byte = self.bytes[from.memory][from.from + at];
                    self.bytes[to.memory][to.from + at] = byte;
                }
            }
            Step::Fill { to, value, .. } => {
                self.bytes[to.memory][to.from..][..to.bytes].fill(value);
            }
            Step::Renew { memory, .. } => self.bytes[memory].fill(0),
            _ => {}
        }
    }
}

impl Step {
    fn actor(self) -> Option<usize> {
        match self {
            Self::Copy { stream, .. } | Self::Comb { stream, .. } | Self::Fill { stream, .. } => {
                Some(stream)
            }
            Self::Renew { stream, .. } => Some(stream),
            Self::Look { .. } | Self::Late { .. } => Some(0),
            Self::Edge { .. } | Self::Query { .. } | Self::Call { .. } | Self::Change { .. } => {
                None
            }
        }
    }

    fn stride(self) -> usize {
        if matches!(self, Self::Comb { .. }) {
            2
        } else {
            1
        }
    }

    fn uses(self) -> Vec<Used> {
        let step = self.stride();
        let reads = |part| Used {
            part,
            step,
            writes: false,
        };
        let writes = |part| Used {
            part,
            step,
            writes: true,
        };
        match self {
            Self::Copy { to, from, .. } | Self::Comb { to, from, .. } => {
                vec![reads(from), writes(to)]
            }
            Self::Fill { to, .. } | Self::Late { to, .. } => vec![writes(to)],
            Self::Look { at } => vec![reads(at)],
            Self::Renew { memory, .. } => {
                vec![writes(Part {
                    memory,
                    from: 0,
                    bytes: BYTES,
                })]
            }
            Self::Edge { .. } | Self::Query { .. } | Self::Call { .. } | Self::Change { .. } => {
                Vec::new()
            }
        }
    }
}

impl Used {
    fn bytes(self) -> impl Iterator<Item = usize> {
        (self.part.from..self.part.from + self.part.bytes).step_by(self.step)
    }
}

fn join(mine: &mut Clock, theirs: &Clock) {
    for (&who, &time) in theirs {
        let known = mine.entry(who).or_insert(0);
        *known = (*known).max(time);
    }
}
