//! One device: its context, which is held from the first need on, what is kept for the next call, and whether it
//! is lost.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::log;

use crate::TARGET;
use crate::blocks::Blocks;
use crate::cleared_failures::ClearedFailures;
use crate::counts::Counts;
use crate::current::Entered;
use crate::driver::Driver;
use crate::ended_streams::EndedStreams;
use crate::fault::Fault;
use crate::host_call::Calls;
use crate::host_waits::HostWaits;
use crate::progress::{Progress, wait_until_over};
use crate::vendor::{Answer, Code, ErrorKind, Facts, Vendor};
use crate::word::Words;

/// A device of the driver.
#[derive(Debug)]
pub(crate) struct Device<V: Vendor> {
    pub(crate) driver: Arc<Driver<V>>,
    pub(crate) index: u32,
    pub(crate) ordinal: i32,
    pub(crate) facts: Facts,
    /// What the first need made.
    home: OnceLock<Home>,
    lost: OnceLock<Fault>,
    /// Streams and events that nobody uses now.
    idle_streams: Mutex<Vec<u64>>,
    idle_events: Mutex<Vec<u64>>,
    /// Memory that the driver did not take back, for another try when the device is closed.
    unfreed: Mutex<Vec<u64>>,
    /// Events at the ends of streams that may be destroyed while their work uses memory of this device.
    ends: Mutex<Vec<Arc<u64>>>,
    pub(crate) ended: EndedStreams,
    pub(crate) calls: Arc<Calls>,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) words: Words,
    pub(crate) host_waits: HostWaits,
    pub(crate) counts: Arc<Counts>,
    pub(crate) cleared_failures: ClearedFailures,
}

/// What a device has from its first need on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    pub(crate) context: u64,
    /// The stream on which memory is allocated and freed; no other work is put there.
    pub(crate) stream: u64,
    /// None where the device has no pools.
    pub(crate) pool: Option<u64>,
}

impl<V: Vendor> Device<V> {
    /// A device without a context.
    pub(crate) fn new(driver: &Arc<Driver<V>>, index: u32) -> Result<Self, Fault> {
        let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
        let facts = driver.vendor().facts(ordinal);
        Ok(Self {
            index,
            ordinal,
            facts: facts.map_err(|code| driver.fault(code))?,
            home: OnceLock::new(),
            lost: OnceLock::new(),
            idle_streams: Mutex::default(),
            idle_events: Mutex::default(),
            unfreed: Mutex::default(),
            ends: Mutex::default(),
            ended: EndedStreams::default(),
            calls: Arc::new(Calls::new(&driver.process)),
            blocks: Arc::default(),
            words: Words::default(),
            host_waits: HostWaits::default(),
            counts: Arc::default(),
            cleared_failures: ClearedFailures::default(),
            driver: Arc::clone(driver),
        })
    }

    /// Whether the device can be called.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), Fault> {
        self.driver.process.check(operation)?;
        match self.lost.get() {
            Some(lost) => Err(lost.clone()),
            None => Ok(()),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// What the first need made, if there was one.
    pub(crate) fn known_home(&self) -> Option<Home> {
        self.home.get().copied()
    }

    /// The context and what belongs to it, which the first call makes.
    pub(crate) fn home(&self, operation: &'static str) -> Result<Home, Fault> {
        self.check(operation)?;
        if let Some(home) = self.known_home() {
            return Ok(home);
        }
        let vendor = self.driver.vendor();
        let context = vendor.retain(self.ordinal);
        let context = context.map_err(|code| self.driver.fault(code))?;
        // Made without a lock: of two threads that do this at once, one throws its own away.
        let made = self.make_home(context).inspect_err(|_| {
            self.report(vendor.release(self.ordinal));
        })?;
        if self.home.set(made).is_err() {
            self.end_home(made);
        }
        self.known_home()
            .ok_or_else(|| Fault::new(Status::VENDOR, operation, "the device has no context"))
    }

    fn make_home(&self, context: u64) -> Result<Home, Fault> {
        let inside = Entered::new(self, context)?;
        let stream = inside.ask(Vendor::create_stream)?;
        let keep = self.facts.total_memory / KEPT_PART;
        let pool = self.facts.has_pools.then(|| {
            let pool = inside.vendor().create_pool(self.ordinal, keep);
            pool.map_err(|code| log::warn!(target: TARGET, "{}", self.driver.fault(code)))
        });
        let pool = pool.and_then(Result::ok);
        Ok(Home {
            context,
            stream,
            pool,
        })
    }

    fn end_home(&self, home: Home) {
        if let Ok(inside) = self.enter_to_end(home.context) {
            self.report(inside.vendor().destroy_stream(home.stream));
            if let Some(pool) = home.pool {
                self.report(inside.vendor().destroy_pool(pool));
            }
        }
        self.report(self.driver.vendor().release(self.ordinal));
    }

    /// Makes a context current to end what is in it: nobody does that later, so one failure is no reason to leave it.
    pub(crate) fn enter_to_end(&self, context: u64) -> Result<Entered<'_, V>, Fault> {
        Entered::new(self, context).or_else(|_| Entered::new(self, context))
    }

    /// Makes the device's own context current on this thread.
    pub(crate) fn enter(&self, operation: &'static str) -> Result<Entered<'_, V>, Fault> {
        let home = self.home(operation)?;
        Entered::new(self, home.context)
    }

    /// Makes a given context of the device current on this thread.
    pub(crate) fn enter_in(
        &self,
        context: u64,
        operation: &'static str,
    ) -> Result<Entered<'_, V>, Fault> {
        self.check(operation)?;
        Entered::new(self, context)
    }

    /// The failure that a result of the driver stands for. Where the driver answers so to a question about the stream
    /// of allocations too, the device is lost, and stays lost.
    pub(crate) fn fault(&self, code: Code) -> Fault {
        let is_dead = || {
            let stream = self.known_home().map(|home| home.stream);
            stream.is_some_and(|stream| is_fatal::<V>(self.driver.vendor().query_stream(stream)))
        };
        self.fault_where(code, is_dead)
    }

    /// The same for a call inside of a context, also before the device has a home: then free memory is asked for.
    pub(crate) fn fault_inside(&self, code: Code) -> Fault {
        match self.known_home() {
            Some(_) => self.fault(code),
            None => self.fault_where(code, || {
                is_fatal::<V>(self.driver.vendor().memory_info().map(drop))
            }),
        }
    }

    /// `is_dead` asks for something that holds no copies, fills or host functions, so that no failed work of ours can
    /// have made it fail: another fatal answer means that the device is lost.
    fn fault_where(&self, code: Code, is_dead: impl FnOnce() -> bool) -> Fault {
        let fault = self.driver.fault(code);
        if V::error_kind(code) != ErrorKind::Fatal || !is_dead() {
            return fault;
        }
        let lost = Fault {
            status: Status::DEVICE_LOST,
            message: format!("device {} is lost: {}", self.index, fault.message),
            ..fault
        };
        let lost = self.lost.get_or_init(|| lost).clone();
        // The driver no longer calls the host functions that it has.
        self.calls.run_all();
        lost
    }

    /// Logs a failure that cannot be returned to a caller.
    pub(crate) fn report(&self, done: Result<(), Code>) {
        if let Err(code) = done
            && !self.is_lost()
        {
            log::warn!(target: TARGET, "{}", self.driver.fault(code).message);
        }
    }

    /// Remembers memory that the driver did not take back.
    pub(crate) fn free_at_close(&self, address: u64) {
        locked(&self.unfreed).push(address);
    }

    /// A stream that nobody else uses; it goes back by `give_stream`.
    pub(crate) fn take_stream(&self, inside: &Entered<'_, V>) -> Result<u64, Fault> {
        let idle = locked(&self.idle_streams).pop();
        idle.map_or_else(|| inside.ask(Vendor::create_stream), Ok)
    }

    /// Takes back a stream whose work is over.
    pub(crate) fn give_stream(&self, stream: u64) {
        locked(&self.idle_streams).push(stream);
    }

    /// A native event for a record on a stream of this device's own context.
    pub(crate) fn take_event(&self, inside: &Entered<'_, V>) -> Result<u64, Fault> {
        let idle = locked(&self.idle_events).pop();
        idle.map_or_else(|| inside.ask(Vendor::create_event), Ok)
    }

    /// Remembers the present end of a stream of the own context, which may go before its work is over. The close waits
    /// for that before it frees anything.
    pub(crate) fn remember_end(&self, inside: &Entered<'_, V>, stream: u64) -> Result<(), Fault> {
        let event = self.take_event(inside)?;
        let recorded = inside.ask(|vendor| vendor.record(event, stream));
        recorded.inspect_err(|_| self.give_event(inside, event))?;
        locked(&self.ends).push(Arc::new(event));
        self.forget_ends(inside);
        Ok(())
    }

    /// Forgets the remembered ends that are reached. Whether none is left.
    pub(crate) fn forget_ends(&self, inside: &Entered<'_, V>) -> bool {
        // The driver is asked without the lock. A thread that asks shares the event meanwhile; the last one takes it back.
        let known = locked(&self.ends).clone();
        for event in known {
            let now = Progress::ask(inside, |vendor| vendor.query_event(*event));
            if now.is_ok_and(|now| now.is_over()) {
                locked(&self.ends).retain(|other| !Arc::ptr_eq(other, &event));
            }
            if let Some(event) = Arc::into_inner(event) {
                self.give_event(inside, event);
            }
        }
        locked(&self.ends).is_empty()
    }

    /// Waits until the work of all streams is over that have ended, or whose end is remembered.
    pub(crate) fn wait_for_ends(&self, inside: &Entered<'_, V>) {
        self.close_ended(inside);
        let ends = std::mem::take(&mut *locked(&self.ends));
        for event in ends.into_iter().filter_map(Arc::into_inner) {
            // A failure of that work is not reported to anyone. One of this call proves nothing, so the driver is asked.
            if inside.vendor().synchronize_event(event).is_err() {
                let ask = || Progress::ask(inside, |vendor| vendor.query_event(event));
                let _over = wait_until_over(Deadline::after(None), ask);
            }
            self.report(inside.vendor().destroy_event(event));
        }
    }

    /// Takes back an event, or destroys it where enough are kept.
    fn give_event(&self, inside: &Entered<'_, V>, event: u64) {
        if !self.keep_event(event) {
            self.report(inside.vendor().destroy_event(event));
        }
    }

    /// Takes back an event; false where enough are kept.
    pub(crate) fn keep_event(&self, event: u64) -> bool {
        let mut idle = locked(&self.idle_events);
        let is_room = idle.len() < KEPT_EVENTS;
        if is_room {
            idle.push(event);
        }
        is_room
    }
}

impl<V: Vendor> Drop for Device<V> {
    fn drop(&mut self) {
        let is_callable = self.driver.process.check("close").is_ok();
        let Some(home) = self.known_home().filter(|_| is_callable) else {
            return;
        };
        if let Ok(inside) = self.enter_to_end(home.context) {
            self.wait_for_ends(&inside);
            for address in locked(&self.unfreed).drain(..) {
                let freed = crate::memory::free_at_last(&inside, address, home.stream);
                self.report(freed);
            }
            for event in locked(&self.idle_events).drain(..) {
                self.report(inside.vendor().destroy_event(event));
            }
            for stream in locked(&self.idle_streams).drain(..) {
                self.report(inside.vendor().destroy_stream(stream));
            }
            // A block still in use belongs to work whose end nobody could learn: the driver's free waits for it.
            for (address, kind) in self.blocks.drain() {
                self.report(crate::memory::free_block(&inside, address, kind));
            }
        }
        self.end_home(home);
    }
}

fn is_fatal<V: Vendor>(answer: Answer) -> bool {
    answer.is_err_and(|code| V::error_kind(code) == ErrorKind::Fatal)
}

/// Each change behind these locks is one step, so a panic elsewhere does not spoil it.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool keeps up to one part in so many of the device's memory once it is freed.
const KEPT_PART: u64 = 16;
/// So many idle events are kept; more are destroyed.
const KEPT_EVENTS: usize = 256;
