//! What is known of the links between a plugin's devices, and who waits while a link is being proved.
//!
//! A link is enabled for the whole process, and from then on every copy between its devices may go over it. So
//! a proof begins when no copy between the two is waiting to be submitted, and until it ends no other thread
//! begins one. Both waits have a limit, and the lock is never held while hooks run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossdock_sdk::deadline::Deadline;

/// Two devices of a plugin, in either order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair(u32, u32);

impl Pair {
    pub(crate) fn of(one: u32, other: u32) -> Self {
        Self(one.min(other), one.max(other))
    }

    /// Each device with its peer.
    pub(crate) const fn directions(self) -> [(u32, u32); 2] {
        [(self.0, self.1), (self.1, self.0)]
    }
}

/// What is known of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing yet, or a proof failed.
    Unknown {
        /// Whether it may be enabled now: it is being proved.
        is_enabled: bool,
    },
    /// A proof failed, and it could not be disabled again: why.
    Stuck(Arc<str>),
    /// There is none; the reason, where the plugin gave one.
    Absent(Option<Arc<str>>),
    /// It is enabled, and what was sent over it arrived.
    Proved,
    /// Bytes did not arrive over it: which ones, and what is known without the link.
    Untrusted(Arc<str>, WithoutLink),
}

/// What is known of the plugin's own copies without a link that is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutLink {
    /// Nothing: the link may still be enabled.
    Unknown,
    /// What was sent without the link arrived.
    Proved,
    /// It did not arrive either.
    Untrusted,
}

impl Link {
    /// Nobody tried it.
    pub(crate) const UNTRIED: Self = Self::Unknown { is_enabled: false };

    /// Whether there is nothing left to find out.
    const fn is_settled(&self) -> bool {
        !matches!(
            self,
            Self::Unknown { .. } | Self::Stuck(_) | Self::Untrusted(_, WithoutLink::Unknown)
        )
    }

    /// Whether the plugin may copy between the two devices.
    pub(crate) const fn allows_copies(&self) -> bool {
        match self {
            Self::Unknown { is_enabled } => !*is_enabled,
            Self::Stuck(_) => false,
            Self::Absent(_) | Self::Proved => true,
            Self::Untrusted(_, without) => matches!(without, WithoutLink::Proved),
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
    /// The thread that proves the link now.
    prover: Option<ThreadId>,
    /// Copies that are not submitted yet, and count on the link staying disabled.
    unsubmitted: u32,
    /// Copies that wait for the end of the proof. They go before the next proof.
    waiting_copies: u32,
    /// From when on a move tries again to prove it.
    retry_from: Deadline,
}

impl Entry {
    fn new() -> Self {
        Self {
            link: Link::UNTRIED,
            prover: None,
            unsubmitted: 0,
            waiting_copies: 0,
            retry_from: Deadline::after(Some(Duration::ZERO)),
        }
    }

    /// Whether there is something to find out, and this is the time to try.
    fn should_prove(&self, ignores_pause: bool) -> bool {
        !self.link.is_settled() && (ignores_pause || self.retry_from.is_over())
    }

    const fn is_busy(&self) -> bool {
        self.prover.is_some() || self.unsubmitted > 0 || self.waiting_copies > 0
    }
}

impl PeerLinks {
    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a copy between two devices, and says what is known of their link. Waits for a proof that another
    /// thread makes; where that takes longer than `limit`, the link counts as enabled and unproved.
    pub(crate) fn begin_copy(
        &self,
        pair: Pair,
        limit: Duration,
    ) -> (Link, Option<UnsubmittedCopy<'_>>) {
        let this = thread::current().id();
        let mut links = self.lock();
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover.is_some_and(|prover| prover != this) {
            entry.waiting_copies += 1;
            let is_proved =
                |links: &mut Links| links.get(&pair).is_some_and(|e| e.prover.is_some());
            let deadline = Deadline::after(Some(limit));
            links = deadline.wait_while(&self.changed, links, is_proved);
            links.entry(pair).or_insert_with(Entry::new).waiting_copies -= 1;
            self.changed.notify_all();
        }
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover.is_some() {
            return (Link::Unknown { is_enabled: true }, None);
        }
        let link = entry.link.clone();
        let is_counted = link == Link::UNTRIED;
        entry.unsubmitted += u32::from(is_counted);
        // The guard takes the lock when it is dropped, so it is made after the lock was let go.
        drop(links);
        (link, is_counted.then(|| UnsubmittedCopy(self, pair)))
    }

    /// Lets this thread prove the link. `None` where nothing is left to prove, where copies or another proof were
    /// in the way until `limit`, and during a pause ([`Proof::pause`]) unless `ignores_pause`. A proof lets copies go
    /// first: those that are not submitted yet, and those that waited for an earlier proof.
    pub(crate) fn begin_proof(
        &self,
        pair: Pair,
        limit: Duration,
        ignores_pause: bool,
    ) -> Option<Proof<'_>> {
        let this = Some(thread::current().id());
        let mut links = self.lock();
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if entry.prover == this || !entry.should_prove(ignores_pause) {
            return None;
        }
        let is_busy = |links: &mut Links| {
            let entry = links.entry(pair).or_insert_with(Entry::new);
            entry.should_prove(ignores_pause) && entry.is_busy()
        };
        let deadline = Deadline::after(Some(limit));
        links = deadline.wait_while(&self.changed, links, is_busy);
        let entry = links.entry(pair).or_insert_with(Entry::new);
        if !entry.should_prove(ignores_pause) || entry.is_busy() {
            return None;
        }
        entry.prover = this;
        Some(Proof {
            links: self,
            pair,
            link: entry.link.clone(),
            pause: Duration::ZERO,
        })
    }

    /// A new number for each pattern: bytes that arrived earlier must not look like those of a later proof.
    pub(crate) fn next_pattern(&self) -> u32 {
        self.patterns.fetch_add(1, Ordering::Relaxed)
    }

    fn change(&self, pair: Pair, change: impl FnOnce(&mut Entry)) {
        change(self.lock().entry(pair).or_insert_with(Entry::new));
        self.changed.notify_all();
    }
}

/// A copy that is not submitted yet: until this is dropped, nobody enables the link.
#[derive(Debug)]
pub(crate) struct UnsubmittedCopy<'a>(&'a PeerLinks, Pair);

impl Drop for UnsubmittedCopy<'_> {
    fn drop(&mut self) {
        self.0.change(self.1, |entry| entry.unsubmitted -= 1);
    }
}

/// The right to prove a link. `link` is published when this is dropped.
#[derive(Debug)]
pub(crate) struct Proof<'a> {
    links: &'a PeerLinks,
    pair: Pair,
    /// What is known so far.
    pub(crate) link: Link,
    pause: Duration,
}

impl Proof<'_> {
    pub(crate) const fn pair(&self) -> Pair {
        self.pair
    }

    /// Keeps moves from trying again for so long; explanations ignore it.
    pub(crate) const fn pause(&mut self, time: Duration) {
        self.pause = time;
    }
}

impl Drop for Proof<'_> {
    fn drop(&mut self) {
        let (link, retry_from) = (self.link.clone(), Deadline::after(Some(self.pause)));
        self.links.change(self.pair, |entry| {
            (entry.link, entry.retry_from) = (link, retry_from);
            entry.prover = None;
        });
    }
}

#[cfg(test)]
#[path = "peer_links_tests.rs"]
mod tests;
