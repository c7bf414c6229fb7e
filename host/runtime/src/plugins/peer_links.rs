//! What is known of the links between a plugin's devices: who may copy meanwhile, and who finds it out.
//!
//! A link is enabled for a whole process, and from then on every copy between its devices may go over it. So
//! while one thread enables and proves it no other begins such a copy, and it begins when none is on its way.
//! Nobody waits for either without a limit, and the lock is never held while hooks run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

/// Two devices of a plugin, whichever was named first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair(u32, u32);

impl Pair {
    pub(crate) fn of(one: u32, other: u32) -> Self {
        Self(one.min(other), one.max(other))
    }

    /// A device with its peer, both ways.
    pub(crate) const fn directions(self) -> [(u32, u32); 2] {
        [(self.0, self.1), (self.1, self.0)]
    }
}

/// What is known of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing that holds. It may be enabled, where it could not be disabled again.
    Open {
        /// Whether it may be.
        is_enabled: bool,
    },
    /// There is none; the reason, where the plugin gave one.
    Absent(Option<Arc<str>>),
    /// It is enabled, and what was sent over it arrived.
    Proved,
    /// This did not arrive over it.
    Lies(Arc<str>, OwnWay),
}

/// What is known of the plugin's own way around a link that is not to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnWay {
    /// Nothing: the link may still be enabled.
    Open,
    /// What was sent without the link arrived.
    Proved,
    /// That did not arrive either.
    Lies,
}

impl Link {
    /// Nobody tried it.
    pub(crate) const UNTRIED: Self = Self::Open { is_enabled: false };

    /// Whether there is nothing left to find out.
    const fn is_settled(&self) -> bool {
        !matches!(self, Self::Open { .. } | Self::Lies(_, OwnWay::Open))
    }

    /// Whether the plugin may copy between the two.
    pub(crate) const fn allows_copies(&self) -> bool {
        match self {
            Self::Open { is_enabled } => !*is_enabled,
            Self::Absent(_) | Self::Proved => true,
            Self::Lies(_, own_way) => matches!(own_way, OwnWay::Proved),
        }
    }
}

type Links = BTreeMap<Pair, Entry>;

/// The links of a plugin.
#[derive(Debug, Default)]
pub(crate) struct PeerLinks {
    links: Mutex<Links>,
    changed: Condvar,
    patterns: AtomicU32,
}

#[derive(Debug)]
struct Entry {
    link: Link,
    /// The thread that is finding out.
    prover: Option<ThreadId>,
    /// Copies that are on their way past a link of which nothing is known.
    passing: u32,
    /// Copies that wait for the prover.
    waiting: u32,
    /// Until when nobody tries again.
    rests: Deadline,
}

impl Entry {
    fn new() -> Self {
        Self {
            link: Link::UNTRIED,
            prover: None,
            passing: 0,
            waiting: 0,
            rests: Deadline::after(Some(Duration::ZERO)),
        }
    }

    /// Whether there is something to find out, and to be tried now.
    fn is_open(&self, insists: bool) -> bool {
        !self.link.is_settled() && (insists || self.rests.is_over())
    }

    const fn is_busy(&self) -> bool {
        self.prover.is_some() || self.passing > 0 || self.waiting > 0
    }
}

impl PeerLinks {
    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a copy between two devices, and says what it finds: while a thread is finding out, this waits
    /// for it, and what is not known in time counts as enabled.
    pub(crate) fn pass(&self, pair: Pair, patience: Duration) -> (Link, Option<Pass<'_>>) {
        let this = thread::current().id();
        let mut links = self.lock();
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover.is_some_and(|prover| prover != this) {
            entry.waiting += 1;
            let is_proved =
                |links: &mut Links| links.get(&pair).is_some_and(|e| e.prover.is_some());
            let deadline = Deadline::after(Some(patience));
            links = deadline.wait_while(&self.changed, links, is_proved);
            links.entry(pair).or_insert_with(Entry::new).waiting -= 1;
            self.changed.notify_all();
        }
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover.is_some() {
            return (Link::Open { is_enabled: true }, None);
        }
        let link = entry.link.clone();
        let passes = link == Link::UNTRIED;
        entry.passing += u32::from(passes);
        // Made without the lock, which its end takes.
        drop(links);
        (link, passes.then(|| Pass(self, pair)))
    }

    /// Lets this thread find out; `None` where all is known, or others did not let it in time, or a proof was
    /// held up just before and nobody insists. It goes last: neither a copy that is not submitted yet nor one
    /// that waits for an earlier proof waits for this one.
    pub(crate) fn begin(&self, pair: Pair, patience: Duration, insists: bool) -> Option<Proof<'_>> {
        let this = Some(thread::current().id());
        let mut links = self.lock();
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover == this || !entry.is_open(insists) {
            return None;
        }
        let is_busy = |links: &mut Links| {
            let entry = links.entry(pair).or_insert_with(Entry::new);
            entry.is_open(insists) && entry.is_busy()
        };
        let deadline = Deadline::after(Some(patience));
        links = deadline.wait_while(&self.changed, links, is_busy);
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if !entry.is_open(insists) || entry.is_busy() {
            return None;
        }
        entry.prover = this;
        Some(Proof {
            links: self,
            pair,
            link: entry.link.clone(),
            rest: Duration::ZERO,
        })
    }

    /// A number for what a proof sends, and never the same: what arrived earlier proves nothing.
    pub(crate) fn next_pattern(&self) -> u32 {
        self.patterns.fetch_add(1, Ordering::Relaxed)
    }

    fn change(&self, pair: Pair, change: impl FnOnce(&mut Entry)) {
        change(self.lock().entry(pair).or_insert_with(Entry::new));
        self.changed.notify_all();
    }
}

/// A copy that is not submitted yet: until this is dropped nobody enables the link.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a PeerLinks, Pair);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.change(self.1, |entry| entry.passing -= 1);
    }
}

/// A thread that finds out. What it has found counts from its end on.
#[derive(Debug)]
pub(crate) struct Proof<'a> {
    links: &'a PeerLinks,
    pair: Pair,
    /// What is known.
    pub(crate) link: Link,
    rest: Duration,
}

impl Proof<'_> {
    pub(crate) const fn pair(&self) -> Pair {
        self.pair
    }

    /// Lets nobody try again for so long who does not insist.
    pub(crate) const fn rest(&mut self, time: Duration) {
        self.rest = time;
    }
}

impl Drop for Proof<'_> {
    fn drop(&mut self) {
        let (link, rests) = (self.link.clone(), Deadline::after(Some(self.rest)));
        self.links.change(self.pair, |entry| {
            (entry.link, entry.rests) = (link, rests);
            entry.prover = None;
        });
    }
}

#[cfg(test)]
#[path = "peer_links_tests.rs"]
mod tests;
