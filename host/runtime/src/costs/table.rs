//! The costs of all pairs of devices that were used. Readers take no lock, and one thread measures.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use super::cache::CostCache;
use super::curve::Curve;
use super::measure::measure;
use super::store::{PairIdentity, Store};
use crate::device::Device;
use crate::plugin::Plugin;
use crate::way::Way;

/// What a route is expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The time; `None` where it is not known.
    pub time: Option<Duration>,
    /// Where that is from.
    pub origin: CostOrigin,
}

/// Where a cost is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostOrigin {
    /// From what the devices say of themselves.
    Properties,
    /// Measured by this process.
    Measured,
    /// Measured by a process before, and kept in the file.
    Kept,
}

impl Cost {
    /// Nothing is copied.
    pub(crate) const NOTHING: Self = Self {
        time: Some(Duration::ZERO),
        origin: CostOrigin::Properties,
    };

    /// Nothing was measured.
    pub(crate) const UNKNOWN: Self = Self {
        time: None,
        origin: CostOrigin::Properties,
    };
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            None => return f.write_str("unknown; chosen by the devices' properties"),
            Some(Duration::ZERO) => return f.write_str("nothing is copied"),
            Some(time) => write!(f, "about {time:.1?}, ")?,
        }
        f.write_str(match self.origin {
            CostOrigin::Properties => "by the devices' properties",
            CostOrigin::Measured => "measured",
            CostOrigin::Kept => "measured before",
        })
    }
}

/// The curves of one ordered pair of devices, by the way of the copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PairCosts {
    by_source: Option<Curve>,
    by_destination: Option<Curve>,
    staged: Option<Curve>,
}

impl PairCosts {
    const fn of(&self, way: Way) -> Option<&Curve> {
        match way {
            Way::BySource => self.by_source.as_ref(),
            Way::ByDestination => self.by_destination.as_ref(),
            Way::Staged => self.staged.as_ref(),
        }
    }

    /// Whether no way could be measured.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether another process may go by it: one point tells a latency, and may have been bad luck.
    fn is_worth_keeping(&self) -> bool {
        let curves = [&self.by_source, &self.by_destination, &self.staged];
        let mut curves = curves.into_iter().flatten().peekable();
        curves.peek().is_some() && curves.all(Curve::has_bandwidth)
    }

    pub(super) fn set(&mut self, way: Way, curve: Option<Curve>) {
        match way {
            Way::BySource => self.by_source = curve,
            Way::ByDestination => self.by_destination = curve,
            Way::Staged => self.staged = curve,
        }
    }
}

/// What a runtime knows of costs.
#[derive(Debug)]
pub(crate) struct Costs {
    store: Option<Store>,
    pairs: ArcSwap<HashMap<Key, Arc<Pair>>>,
}

/// The addresses of the plugins and the devices' indices in them.
type Key = [(usize, u32); 2];

#[derive(Debug)]
pub(super) struct Pair {
    is_claimed: AtomicBool,
    /// How often the pair was measured.
    tries: AtomicU32,
    /// Whether it was looked for in the file, and is not there.
    is_new: AtomicBool,
    costs: OnceLock<(PairCosts, CostOrigin)>,
    /// While these are held, no other plugin gets the addresses in the key.
    _plugins: [Weak<Plugin>; 2],
}

impl Pair {
    /// The right to find the costs, which one thread has at a time.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        if self.is_claimed.swap(true, Ordering::AcqRel) {
            return None;
        }
        let claim = Claim(&self.is_claimed);
        // Another thread may have had it since the costs were looked for.
        self.costs.get().is_none().then_some(claim)
    }

    /// Takes the costs from the file, or measures them where that is allowed. The caller has the claim.
    fn find(&self, store: &Store, (from, to): (&Device, &Device), ways: &[Way], may_measure: bool) {
        let identity = PairIdentity::new(from, to);
        if let Some(kept) = store.read(&identity) {
            let _set = self.costs.set((kept, CostOrigin::Kept));
            return;
        }
        self.is_new.store(true, Ordering::Relaxed);
        if !may_measure {
            return;
        }
        let measured = measure(from, to, ways);
        let is_last = self.tries.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_TRIES;
        if measured.is_worth_keeping() {
            store.write(&identity, &measured);
        }
        if is_last || !measured.is_empty() {
            let _set = self.costs.set((measured, CostOrigin::Measured));
        }
    }
}

/// Given back when it is dropped, whatever became of the measuring.
pub(super) struct Claim<'a>(&'a AtomicBool);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Costs {
    pub(crate) fn new(cache: &CostCache, chunk_bytes: u64) -> Self {
        Self {
            store: (*cache != CostCache::Off).then(|| Store::new(cache.file(), chunk_bytes)),
            pairs: ArcSwap::default(),
        }
    }

    /// What is known of the `ways` of a pair. At its first use they are measured, where the caller may;
    /// another thread that asks meanwhile is told that nothing is known. Where nothing could be
    /// measured, the next one that asks tries again, [`MOST_TRIES`] times in all.
    pub(crate) fn of(
        &self,
        (from, to): (&Device, &Device),
        ways: &[Way],
        may_measure: bool,
    ) -> Option<Known> {
        let store = self.store.as_ref()?;
        let pair = self.pair(from, to);
        let is_to_find = may_measure || !pair.is_new.load(Ordering::Relaxed);
        if pair.costs.get().is_none()
            && is_to_find
            && let Some(_claim) = pair.claim()
        {
            pair.find(store, (from, to), ways, may_measure);
        }
        pair.costs.get()?;
        Some(Known(pair))
    }

    pub(super) fn pair(&self, from: &Device, to: &Device) -> Arc<Pair> {
        let key = [from, to].map(|device| (Arc::as_ptr(device.plugin()).addr(), device.index()));
        if let Some(pair) = self.pairs.load().get(&key) {
            return Arc::clone(pair);
        }
        let new = Arc::new(Pair {
            is_claimed: AtomicBool::new(false),
            tries: AtomicU32::new(0),
            is_new: AtomicBool::new(false),
            costs: OnceLock::new(),
            _plugins: [from, to].map(|device| Arc::downgrade(device.plugin())),
        });
        let mut entered = Arc::clone(&new);
        self.pairs.rcu(|pairs| {
            let mut pairs = HashMap::clone(pairs);
            entered = Arc::clone(pairs.entry(key).or_insert_with(|| Arc::clone(&new)));
            pairs
        });
        entered
    }
}

/// The costs of a pair, once they are known.
pub(crate) struct Known(Arc<Pair>);

impl Known {
    /// What a copy of so many bytes takes.
    pub(crate) fn cost(&self, way: Way, bytes: u64) -> Cost {
        let Some((costs, origin)) = self.0.costs.get() else {
            return Cost::UNKNOWN;
        };
        let Some(curve) = costs.of(way) else {
            return Cost::UNKNOWN;
        };
        Cost {
            time: Duration::try_from_secs_f64(curve.seconds(bytes)).ok(),
            origin: *origin,
        }
    }
}

/// What fails for a moment, as where memory is short, does not decide for ever; what always fails
/// costs little.
const MOST_TRIES: u32 = 3;
