//! Calls of streams and events: what waits for what, and what they are asked.

use crossdock::{Event, Stream};
use crossdock_sdk::abi::Status;

use super::Slots;
use crate::caller::{Failed, HostEvent, Outcome, Stop, at};
use crate::driver;
use crate::program::{Call, Op};

impl Slots {
    /// Calls of streams and events.
    pub(super) fn order(&mut self, op: &Op) -> Result<Outcome, Stop> {
        match &op.call {
            Call::Stream { s, device } => {
                let stream = Stream::new(self.device(op, *device))?;
                self.own.insert(*s);
                self.streams.insert(*s, stream);
            }
            Call::Default { s, device } => {
                let stream = Stream::default_of(self.device(op, *device))?;
                self.own.remove(s);
                self.streams.insert(*s, stream);
            }
            Call::Hold { e, s, fails } => {
                let stream = at(&self.streams, *s)?.clone();
                let host_event = Event::host(stream.device())?;
                // An event that is pending there is completed, and not forgotten.
                self.open(*e)?;
                let status = if *fails { Status::VENDOR } else { Status::OK };
                let pending: Box<dyn HostEvent> = Box::new(host_event.clone());
                self.host_events
                    .lock()
                    .unwrap()
                    .insert(*e, (pending, status));
                self.events.insert(*e, host_event.clone());
                stream.wait(&host_event)?;
            }
            Call::Open { e } if !self.open(*e)? => return Err(Stop::Empty),
            Call::Open { .. } => {}
            Call::Never => std::thread::park_timeout(std::time::Duration::MAX),
            Call::Complain => log::error!(target: "crossdock::campaign", "a complaint"),
            Call::Stray if !driver::stray() => return Err(Stop::Empty),
            Call::Litter if !driver::litter() => return Err(Stop::Empty),
            Call::Abandon { e } => {
                let host_event = self.host_events.lock().unwrap().remove(e);
                let host_event = host_event.ok_or(Stop::Empty)?;
                self.events.remove(e);
                drop(host_event);
            }
            Call::Explain { of, device, s } => {
                let (tensor, stream) = (at(&self.tensors, *of)?, at(&self.streams, *s)?);
                tensor.explain_on(
                    self.device(op, *device),
                    crossdock::RouteChoice::Copy,
                    stream,
                )?;
            }
            Call::Ask { s } => return ask(at(&self.streams, *s)?),
            Call::Record { e, s } => {
                let event = at(&self.streams, *s)?.record()?;
                self.events.insert(*e, event);
            }
            Call::Wait { s, e } => {
                at(&self.streams, *s)?.wait(at(&self.events, *e)?)?;
            }
            Call::SyncStream { s } => at(&self.streams, *s)?.synchronize(None)?,
            Call::SyncEvent { e } => at(&self.events, *e)?.synchronize(None)?,
            Call::SyncDevice { device } => self.wait_for_device(op, *device)?,
            Call::Trim { device, keep } => self.trim(op, *device, *keep)?,
            Call::DropStream { s } => drop(self.streams.remove(s).ok_or(Stop::Empty)?),
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    fn wait_for_device(&self, op: &Op, device: usize) -> Result<(), Stop> {
        let _asking = self.world.asking.read().unwrap();
        Ok(self.device(op, device).synchronize(None)?)
    }

    /// Completes a host event, if there is one. A completion that fails leaves it pending.
    fn open(&self, e: usize) -> Result<bool, Stop> {
        let host_event = self.host_events.lock().unwrap().remove(&e);
        let Some((host_event, status)) = host_event else {
            return Ok(false);
        };
        let opened = host_event.complete(status);
        if opened.is_err() {
            self.host_events
                .lock()
                .unwrap()
                .insert(e, (host_event, status));
        }
        opened.map(|()| true).map_err(Stop::Failed)
    }
}

/// What a stream is: answered at once, whatever it waits for.
fn ask(stream: &Stream) -> Result<Outcome, Stop> {
    // Not every plugin's streams have a native handle.
    if let Ok(native) = stream.native_handle()
        && Stream::find(stream.device(), native).as_ref() != Some(stream)
    {
        let why = "a stream is not found by its native handle".to_owned();
        return Err(Stop::Failed(Failed::other(why)));
    }
    Ok(Outcome::Idle(stream.is_idle()?))
}
