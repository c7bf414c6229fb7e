//! The costs of all pairs of devices and classes of copies that were used. Readers take no lock, and one
//! thread measures.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::cost::{Cost, CostOrigin};
use super::curve::Curve;
use super::setting::CostCache;
use super::store::{PairIdentity, Store};
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::route_data::kinds::Way;

/// The curves of the ways of one class of copies between two devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WayCosts {
    by_source: Option<Curve>,
    by_destination: Option<Curve>,
    packed_by_source: Option<Curve>,
    packed_by_destination: Option<Curve>,
    staged: Option<Curve>,
}

impl WayCosts {
    const fn of(&self, way: Way) -> Option<&Curve> {
        match way {
            Way::BySource => self.by_source.as_ref(),
            Way::ByDestination => self.by_destination.as_ref(),
            Way::PackedBySource => self.packed_by_source.as_ref(),
            Way::PackedByDestination => self.packed_by_destination.as_ref(),
            Way::Staged => self.staged.as_ref(),
        }
    }

    /// Whether no way could be measured.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether another process may go by it: one point tells a latency, and may have been bad luck.
    fn is_worth_keeping(&self) -> bool {
        let mut curves = Way::EACH.iter().filter_map(|way| self.of(*way)).peekable();
        curves.peek().is_some() && curves.all(Curve::has_bandwidth)
    }

    pub(crate) fn set(&mut self, way: Way, curve: Option<Curve>) {
        *match way {
            Way::BySource => &mut self.by_source,
            Way::ByDestination => &mut self.by_destination,
            Way::PackedBySource => &mut self.packed_by_source,
            Way::PackedByDestination => &mut self.packed_by_destination,
            Way::Staged => &mut self.staged,
        } = curve;
    }
}

/// What a runtime knows of costs.
#[derive(Debug)]
pub(crate) struct Costs {
    store: Option<Store>,
    pairs: Kept<Devices, Pair>,
}

/// The addresses of the plugins and the devices' indices in them.
type Devices = [(usize, u32); 2];

/// What is kept by a key, and replaced as a whole where a key is new.
type Kept<K, V> = ArcSwap<HashMap<K, Arc<V>>>;

#[derive(Debug)]
pub(super) struct Pair {
    is_claimed: AtomicBool,
    /// Nanoseconds that were spent on measuring it.
    spent: AtomicU64,
    classes: Kept<Class, ClassCosts>,
    /// While these are held, no other plugin gets the addresses in the key.
    _plugins: [Weak<Plugin>; 2],
}

/// The costs of one class of copies between two devices.
#[derive(Debug, Default)]
struct ClassCosts {
    /// How often it was measured.
    tries: AtomicU32,
    /// Whether it was looked for in the file, and is not there.
    is_new: AtomicBool,
    costs: OnceLock<(WayCosts, CostOrigin)>,
}

impl Pair {
    /// The right to find costs, which one thread has at a time: two would time each other.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        let is_free = !self.is_claimed.swap(true, Ordering::AcqRel);
        // Not made for who does not have it: dropped, it would be given back.
        is_free.then(|| Claim(&self.is_claimed))
    }

    /// What is left of the time that the pair may take, for one class. The caller has the claim.
    fn budget(&self) -> Duration {
        let spent = Duration::from_nanos(self.spent.load(Ordering::Relaxed));
        PAIR_BUDGET.saturating_sub(spent).min(BUDGET)
    }

    fn spend(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl ClassCosts {
    /// Takes the costs from the file, or measures them where that is allowed. The caller has the claim.
    fn find(&self, of: &Asked<'_>, store: &Store, pair: &Pair, measure: Option<Measure<'_>>) {
        let identity = PairIdentity::new(of.devices);
        if let Some(kept) = store.read(&identity, of.class) {
            let _set = self.costs.set((kept, CostOrigin::Kept));
            return;
        }
        self.is_new.store(true, Ordering::Relaxed);
        let Some(measure) = measure else {
            return;
        };
        let budget = pair.budget();
        if budget < SHORTEST_BUDGET {
            let _set = self.costs.set((WayCosts::default(), CostOrigin::Measured));
            return;
        }
        let (measured, took) = measure(budget);
        pair.spend(took);
        let is_last = self.tries.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_TRIES;
        if measured.is_worth_keeping() {
            store.write(&identity, of.class, &measured);
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

/// Whose costs are asked for: those between two devices, from the first to the second, for one class of
/// copies.
pub(crate) struct Asked<'a> {
    pub(crate) devices: [&'a PluginDevice; 2],
    pub(crate) class: Class,
}

/// Times each way in about so much time, and says how long that takes on a machine with nothing else to do.
pub(crate) type Measure<'a> = &'a dyn Fn(Duration) -> (WayCosts, Duration);

impl Costs {
    pub(crate) fn new(cache: &CostCache, chunk_bytes: u64) -> Self {
        Self {
            store: (*cache != CostCache::Off).then(|| Store::new(cache.file(), chunk_bytes)),
            pairs: ArcSwap::default(),
        }
    }

    /// Whether there are any to go by.
    pub(crate) const fn are_on(&self) -> bool {
        self.store.is_some()
    }

    /// What is known. At its first use a class is measured, where the caller can; another thread that asks
    /// meanwhile is told that nothing is known. Where nothing could be measured, the next one that asks
    /// tries again, [`MOST_TRIES`] times in all.
    pub(crate) fn of(&self, of: &Asked<'_>, measure: Option<Measure<'_>>) -> Option<Known> {
        let store = self.store.as_ref()?;
        let pair = self.pair(of.devices);
        let class = kept(&pair.classes, of.class, ClassCosts::default);
        let is_to_find = measure.is_some() || !class.is_new.load(Ordering::Relaxed);
        if class.costs.get().is_none()
            && is_to_find
            && let Some(_claim) = pair.claim()
            // Another thread may have had it since they were looked for.
            && class.costs.get().is_none()
        {
            class.find(of, store, &pair, measure);
        }
        class.costs.get()?;
        Some(Known {
            class: of.class,
            costs: class,
        })
    }

    pub(super) fn pair(&self, devices: [&PluginDevice; 2]) -> Arc<Pair> {
        let key = devices.map(|device| (Arc::as_ptr(&device.plugin).addr(), device.index));
        kept(&self.pairs, key, || Pair {
            is_claimed: AtomicBool::new(false),
            spent: AtomicU64::new(0),
            classes: ArcSwap::default(),
            _plugins: devices.map(|device| Arc::downgrade(&device.plugin)),
        })
    }
}

/// What is kept by this key, made at its first use.
fn kept<K: Copy + Eq + Hash, V>(all: &Kept<K, V>, key: K, make: impl FnOnce() -> V) -> Arc<V> {
    if let Some(found) = all.load().get(&key) {
        return Arc::clone(found);
    }
    let new = Arc::new(make());
    let mut entered = Arc::clone(&new);
    all.rcu(|all| {
        let mut all = HashMap::clone(all);
        entered = Arc::clone(all.entry(key).or_insert_with(|| Arc::clone(&new)));
        all
    });
    entered
}

/// The costs of a class, once they are known.
pub(crate) struct Known {
    class: Class,
    costs: Arc<ClassCosts>,
}

impl Known {
    /// What a copy of so many bytes takes.
    pub(crate) fn cost(&self, way: Way, bytes: u64) -> Cost {
        let Some((costs, origin)) = self.costs.costs.get() else {
            return Cost::UNKNOWN;
        };
        let Some(curve) = costs.of(way) else {
            return Cost::UNKNOWN;
        };
        Cost {
            time: Duration::try_from_secs_f64(curve.seconds(bytes)).ok(),
            origin: *origin,
            class: Some(self.class),
        }
    }
}

/// What fails for a moment, as where memory is short, does not decide for ever; what always fails
/// costs little.
const MOST_TRIES: u32 = 3;

/// The time that one class of copies may take, all ways together.
const BUDGET: Duration = Duration::from_millis(45);
/// The time that one pair of devices may take in all, whatever is copied between them.
const PAIR_BUDGET: Duration = BUDGET.saturating_mul(4);
/// In less, nothing is measured well enough to go by it.
const SHORTEST_BUDGET: Duration = Duration::from_millis(10);
