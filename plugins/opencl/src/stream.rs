//! Streams: command queues of ours, and those of others.
#![expect(
    unsafe_code,
    reason = "queues and commands are made by vendor calls on raw handles"
)]

use std::{
    ffi::c_void,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crossdock_sdk::deadline::Deadline;
use opencl3::{command_queue as cl, types::cl_event};

use crate::{
    awaited::Awaited,
    device::{Device, DeviceId},
    event,
    fault::Fault,
    handle::{CommandEvent, Context, Queue, word_of},
    progress::{Progress, progress},
    promise::Promises,
};

/// An ordered queue of work on one device.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: Arc<Device>,
    pub(crate) queue: Arc<Queue>,
    foreign: bool,
    /// Whether the queue itself keeps commands in order.
    in_order: bool,
    /// The last command that came through here.
    tail: Mutex<Option<Arc<CommandEvent>>>,
    /// What the work here waits for and the host completes.
    host_events: Mutex<Promises>,
    /// The point that a wait did not come to before its limit.
    awaited: Mutex<Option<Arc<End>>>,
}

/// A point that a thread waits for, and what says how the work before it ended.
#[derive(Debug)]
struct End {
    /// None where all was over when it was asked for.
    marker: Option<Awaited>,
    /// The last command before, which knows of a failure that a marker behind it may not tell.
    tail: Option<Arc<CommandEvent>>,
    host_events: Promises,
}

impl Stream {
    /// A queue of its own.
    pub(crate) fn create(device: &Arc<Device>) -> Result<Self, Fault> {
        let queue = Arc::new(create_queue(device.context(), device.id)?);
        Ok(Self::new(device, queue, false, true))
    }

    /// The device's queue, which every synchronous call uses too.
    pub(crate) fn of_device(device: &Arc<Device>) -> Self {
        Self::new(device, Arc::clone(&device.queue), false, true)
    }

    /// A queue of others, kept alive by a reference.
    ///
    /// # Safety
    /// `raw` is a live command queue: nothing can check that it is one at all.
    pub(crate) unsafe fn wrap(device: &Arc<Device>, raw: *mut c_void) -> Result<Self, Fault> {
        // SAFETY: `retain` needs a live queue: the caller promises it.
        let queue = unsafe { Queue::retain(raw, device.driver_state()) }?;
        if fact(&queue, cl::CL_QUEUE_DEVICE)? != word_of(device.id.raw()) {
            return Err(Fault::invalid(
                "stream_wrap",
                "the queue belongs to another device",
            ));
        }
        let context = usize::try_from(fact(&queue, cl::CL_QUEUE_CONTEXT)?).unwrap_or(0);
        let context = std::ptr::with_exposed_provenance_mut(context);
        // SAFETY: `inside` needs a live context: the queue retains its own.
        let device = &unsafe { device.inside(context, "stream_wrap") }?;
        let properties = fact(&queue, cl::CL_QUEUE_PROPERTIES)?;
        let in_order = properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0;
        Ok(Self::new(device, Arc::new(queue), true, in_order))
    }

    /// Puts one command at the end, and hands it to the device.
    pub(crate) fn submit(
        &self,
        operation: &'static str,
        command: impl FnOnce(*mut c_void) -> Result<cl_event, i32>,
    ) -> Result<Arc<CommandEvent>, Fault> {
        self.device.driver_state().check(operation)?;
        self.fence()?;
        let command_event = event::take(
            command(self.queue.raw()),
            self.device.driver_state(),
            operation,
        )?;
        let command_event = Arc::new(command_event);
        self.set_tail(Some(Arc::clone(&command_event)));
        self.hand_over();
        Ok(command_event)
    }

    /// Keeps what comes next behind what came before, where the queue does not do so itself.
    fn fence(&self) -> Result<(), Fault> {
        if !self.in_order {
            drop(self.barrier(None)?);
        }
        Ok(())
    }

    /// An event at the present end.
    pub(crate) fn marker(&self) -> Result<Arc<CommandEvent>, Fault> {
        self.submit("clEnqueueMarkerWithWaitList", |queue| {
            // SAFETY: `enqueue_marker_with_wait_list` needs a live queue and a list of as many
            // events as it is told: none.
            unsafe { cl::enqueue_marker_with_wait_list(queue, 0, std::ptr::null()) }
        })
    }

    /// The last command, or none when there never was one.
    pub(crate) fn last(&self) -> Result<Option<Arc<CommandEvent>>, Fault> {
        if self.foreign {
            return self.marker().map(Some);
        }
        Ok(self.tail())
    }

    /// An event at the present end, with what the work before it waits for.
    pub(crate) fn end(&self) -> Result<(Arc<CommandEvent>, Promises), Fault> {
        let command_event = self.marker()?;
        Ok((command_event, self.promises().clone()))
    }

    /// Holds everything that comes later until `command_event`, and until the host kept `behind`.
    pub(crate) fn wait_point(
        &self,
        command_event: &CommandEvent,
        host_events: &Promises,
    ) -> Result<(), Fault> {
        const OPERATION: &str = "clEnqueueBarrierWithWaitList";
        self.device.driver_state().check(OPERATION)?;
        if let Progress::Failed(fault) = progress(command_event)? {
            // PoCL 3 never wakes from a wait for what has failed already.
            self.promises().join(&Promises::broken(fault));
            return Ok(());
        }
        let barrier = Arc::new(self.barrier(Some(command_event))?);
        self.promises().join(host_events);
        self.set_tail(Some(barrier));
        self.hand_over();
        Ok(())
    }

    /// Makes the CPU wait for all that is queued, at most for `limit`. A failure is told once.
    pub(crate) fn synchronize(&self, limit: Option<Duration>) -> Result<Progress, Fault> {
        let (ended, host_events) = self.reach_end(limit)?;
        if ended.is_over() {
            self.promises().forget(&host_events);
        }
        Ok(ended.and(|| host_events.verdict()))
    }

    /// Makes the CPU wait in the same way, and leaves a failure to be told; whether all is over.
    pub(crate) fn drain(&self, limit: Option<Duration>) -> Result<bool, Fault> {
        let (ended, _) = self.reach_end(limit)?;
        let is_over = ended.is_over();
        if let Progress::Failed(fault) = ended {
            self.keep(fault);
        }
        Ok(is_over)
    }

    /// Waits for the commands up to the present end; with what the work waits for and the host
    /// completes.
    ///
    /// The next wait goes on with the point of one that was too short: however often a thread waits for
    /// a stream that stands still, it has one marker more.
    fn reach_end(&self, limit: Option<Duration>) -> Result<(Progress, Promises), Fault> {
        let deadline = Deadline::after(limit);
        let older = self.awaited().clone();
        if let Some(older) = older {
            match self.reach(&older, limit)? {
                Progress::Running => return Ok((Progress::Running, Promises::default())),
                // It is told when what came later is over too.
                Progress::Failed(fault) => self.keep(fault),
                Progress::Done => {}
            }
        }
        let end = Arc::new(self.present_end(deadline.left())?);
        let ended = self.reach(&end, deadline.left())?;
        Ok((ended, end.host_events.clone()))
    }

    /// What another thread puts behind it is not over with it, and is told by a later wait.
    ///
    /// On a queue of others a caller without time to wait learns of the last command that came through here,
    /// once: a caller that asks again leaves a marker behind, as by a query.
    fn present_end(&self, limit: Option<Duration>) -> Result<End, Fault> {
        let (host_events, tail) = (self.promises().clone(), self.tail());
        let is_enough = !self.foreign || limit == Some(Duration::ZERO);
        let is_over = match &tail {
            Some(tail) if is_enough => progress(tail)? == Progress::Done,
            Some(_) => false,
            None => !self.foreign,
        };
        if is_over && self.foreign {
            self.set_tail(None);
        }
        let marker = if is_over { None } else { Some(self.marker()?) };
        Ok(End {
            marker: marker.map(Awaited::new),
            tail,
            host_events,
        })
    }

    /// Waits for a point, and says how the commands before it ended.
    fn reach(&self, end: &Arc<End>, limit: Option<Duration>) -> Result<Progress, Fault> {
        let marker = end.marker.as_ref();
        let ended = marker.map_or(Ok(Progress::Done), |marker| marker.wait(limit))?;
        let goes_on = (!ended.is_over()).then(|| Arc::clone(end));
        // Releasing a marker calls the driver, so the lock is gone by then.
        let before = std::mem::replace(&mut *self.awaited(), goes_on);
        drop(before);
        match &end.tail {
            Some(tail) if ended == Progress::Done => progress(tail),
            _ => Ok(ended),
        }
    }

    /// Keeps a failure that was not told yet, before those that came later.
    fn keep(&self, fault: Fault) {
        self.promises().put_first(Promises::broken(fault));
    }

    /// Whether all that is queued is done; a failure stays until it is synchronized.
    ///
    /// On a queue of others the answer is about the moment of the first question: a marker is
    /// left behind, and the next call asks that marker.
    pub(crate) fn query(&self) -> Result<Progress, Fault> {
        let tail = match self.tail() {
            Some(tail) => tail,
            None if self.foreign => self.marker()?,
            None => return Ok(Progress::Done),
        };
        let now = progress(&tail)?.and(|| self.promises().verdict());
        if self.foreign && now == Progress::Done {
            self.set_tail(None);
        }
        Ok(now)
    }

    fn new(device: &Arc<Device>, queue: Arc<Queue>, foreign: bool, in_order: bool) -> Self {
        Self {
            device: Arc::clone(device),
            queue,
            foreign,
            in_order,
            tail: Mutex::new(None),
            host_events: Mutex::default(),
            awaited: Mutex::default(),
        }
    }

    /// Hands queued commands to the device.
    ///
    /// A command is queued for good, so a refusal must not look as if it were not: it is told late,
    /// and the next command or wait tries again.
    fn hand_over(&self) {
        const OPERATION: &str = "clFlush";
        let flushed = match self.queue.driver_state().check(OPERATION) {
            Ok(()) => cl::flush(self.queue.raw()).map_err(|code| Fault::native(OPERATION, code)),
            Err(_) => return,
        };
        if let Err(fault) = flushed {
            self.queue.driver_state().record_late(fault);
        }
    }

    fn barrier(&self, wait_for: Option<&CommandEvent>) -> Result<CommandEvent, Fault> {
        const OPERATION: &str = "clEnqueueBarrierWithWaitList";
        self.device.driver_state().check(OPERATION)?;
        let list = wait_for.map(CommandEvent::raw);
        let (count, first) = match &list {
            Some(raw) => (1, std::ptr::from_ref(raw)),
            None => (0, std::ptr::null()),
        };
        // SAFETY: `enqueue_barrier_with_wait_list` needs a live queue, and as many live events as
        // it is told: `list` holds that one.
        let raw = unsafe { cl::enqueue_barrier_with_wait_list(self.queue.raw(), count, first) };
        event::take(raw, self.device.driver_state(), OPERATION)
    }

    fn promises(&self) -> MutexGuard<'_, Promises> {
        self.host_events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Arc<End>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(&self) -> Option<Arc<CommandEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.as_ref().map(Arc::clone)
    }

    fn set_tail(&self, new: Option<Arc<CommandEvent>>) {
        let old = {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *tail, new)
        };
        // Releasing the older event calls the driver, so the lock is gone by now.
        drop(old);
    }
}

/// An in-order queue whose commands carry times.
pub(crate) fn create_queue(context: &Context, device: DeviceId) -> Result<Queue, Fault> {
    const OPERATION: &str = "clCreateCommandQueueWithProperties";
    context.driver_state().check(OPERATION)?;
    let properties = [
        u64::from(cl::CL_QUEUE_PROPERTIES),
        cl::CL_QUEUE_PROFILING_ENABLE,
        0,
    ];
    // SAFETY: `create_command_queue_with_properties` needs a device of the context, and a list that
    // ends in 0: `properties` does.
    let raw = unsafe {
        cl::create_command_queue_with_properties(context.raw(), device.raw(), properties.as_ptr())
    };
    let raw = raw.map_err(|code| Fault::native(OPERATION, code))?;
    // SAFETY: `adopt` needs a live queue with a reference to give: it was just created.
    unsafe { Queue::adopt(raw, context.driver_state(), OPERATION) }
}

fn fact(queue: &Queue, which: u32) -> Result<u64, Fault> {
    let bytes = cl::get_command_queue_data(queue.raw(), which)
        .map_err(|code| Fault::native("clGetCommandQueueInfo", code))?;
    <[u8; 8]>::try_from(bytes.as_slice())
        .map(u64::from_ne_bytes)
        .ok()
        .ok_or_else(|| Fault::invalid("clGetCommandQueueInfo", "a fact of an unexpected size"))
}
