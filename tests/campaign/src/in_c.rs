//! The calls of a program through the function table, as a program in C makes them.
#![expect(unsafe_code, reason = "calls what a program in C calls")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crossdock_api::{
    CopyMode, NO_LIMIT, Order, Out, Owned, Ref, RouteKind, XdAxisSlice, XdEvent, XdExportOptions,
    XdLayout, XdMoveOptions, XdRegistration, XdStream, XdTensor,
};
use crossdock_sdk::abi::{Address, AddressForm, Status};
use crossdock_sdk::dlpack::Layout;

use crate::caller::{Caller, Failed, HostEvent, HostEvents, Outcome, Seen, Stop, at, peek};
use crate::foreign::Lent;
use crate::handles::{Described, Handle, Managed, Table, check, described, made, written, xd};
use crate::in_c_taking::into_own;
use crate::model::View;
use crate::program::{Call, Element, Op, Way, bytes_of, pattern_of};
use crate::world::World;

/// The places of one program as handles.
#[derive(Debug)]
pub(crate) struct InC {
    tensors: BTreeMap<usize, Handle<XdTensor>>,
    exports: BTreeMap<usize, Managed>,
    streams: BTreeMap<usize, Handle<XdStream>>,
    events: BTreeMap<usize, Arc<Handle<XdEvent>>>,
    host_events: HostEvents,
    lent: Vec<Lent>,
    registrations: BTreeMap<usize, Handle<XdRegistration>>,
    pub(crate) table: Arc<Table>,
    world: Arc<World>,
}

impl HostEvent for Arc<Handle<XdEvent>> {
    fn complete(&self, status: Status) -> Result<(), Failed> {
        match check(xd!(event_complete)(self.lend(), status)) {
            Err(Stop::Failed(failed)) => Err(failed),
            Ok(()) | Err(Stop::Empty) => Ok(()),
        }
    }
}

impl Caller for InC {
    fn perform(&mut self, op: &Op, _of: Option<&View>) -> Outcome {
        self.call(&op.call).unwrap_or_else(Outcome::from)
    }

    fn host_events(&self) -> HostEvents {
        Arc::clone(&self.host_events)
    }

    fn streams(&self) -> Vec<usize> {
        self.streams.keys().copied().collect()
    }

    fn clear(&mut self) {
        self.host_events.lock().unwrap().clear();
        self.exports.clear();
        self.tensors.clear();
        self.registrations.clear();
        self.events.clear();
        self.streams.clear();
    }

    fn lent(&self) -> &[Lent] {
        &self.lent
    }
}

impl InC {
    pub(crate) fn new(world: Arc<World>, table: Arc<Table>) -> Self {
        Self {
            tensors: BTreeMap::new(),
            exports: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            host_events: Arc::new(Mutex::default()),
            lent: Vec::new(),
            registrations: BTreeMap::new(),
            table,
            world,
        }
    }

    pub(crate) fn tensor(&self, t: usize) -> Result<Ref<'_, XdTensor>, Stop> {
        Ok(at(&self.tensors, t)?.lend())
    }

    pub(crate) fn stream(&self, s: usize) -> Result<Ref<'_, XdStream>, Stop> {
        Ok(at(&self.streams, s)?.lend())
    }

    /// The stream that a call names; NULL where it names none.
    fn on(&self, s: Option<usize>) -> Result<Ref<'_, XdStream>, Stop> {
        s.map_or(Ok(Ref::NULL), |s| self.stream(s))
    }

    pub(crate) fn info(&self, t: usize) -> Result<Described<'_>, Stop> {
        described(self.tensor(t)?)
    }

    fn call(&mut self, call: &Call) -> Result<Outcome, Stop> {
        match call {
            Call::Make { .. }
            | Call::Foreign { .. }
            | Call::Slice { .. }
            | Call::Permute { .. }
            | Call::Reshape { .. }
            | Call::Clone { .. }
            | Call::To { .. }
            | Call::Draft { .. }
            | Call::Take { .. }
            | Call::Import { .. } => self.make(call),
            Call::CopyFrom { .. }
            | Call::Fill { .. }
            | Call::Write { .. }
            | Call::Read { .. }
            | Call::Peek { .. }
            | Call::SyncTensor { .. } => self.content(call),
            Call::WaitToRead { .. }
            | Call::WaitToWrite { .. }
            | Call::UsedOn { .. }
            | Call::WrittenOn { .. }
            | Call::ReadyOn { .. }
            | Call::Explain { .. }
            | Call::Export { .. }
            | Call::Release { .. }
            | Call::Register { .. }
            | Call::Unregister { .. }
            | Call::DropTensor { .. } => self.hand_over(call),
            Call::Hold { .. } | Call::Open { .. } | Call::Abandon { .. } => self.host_event(call),
            _ => self.order(call),
        }
    }

    /// Calls that give a tensor.
    fn make(&mut self, call: &Call) -> Result<Outcome, Stop> {
        let (t, tensor, alias) = match call {
            Call::Make {
                t,
                device,
                element,
                shape,
                seed,
            } => (*t, self.filled(*device, (*element, shape), *seed)?, false),
            Call::Foreign {
                t,
                element,
                shape,
                seed,
                offset,
            } => {
                let layout = Layout::compact(element.dtype(), shape)?;
                let bytes = bytes_of(*seed, layout.bytes() as usize);
                let (lent, produced) = Lent::new(&layout, &bytes, *offset);
                self.lent.push(lent);
                // SAFETY: a fresh export that nobody else owns.
                let managed = unsafe { Managed::new(produced.into_raw().as_ptr()) };
                (*t, self.import(managed.ok_or(Stop::Empty)?)?, false)
            }
            Call::Import { t, x } => {
                let managed = self.exports.remove(x).ok_or(Stop::Empty)?;
                (*t, self.import(managed)?, true)
            }
            Call::Draft { t, of, s } => (*t, self.draft(*of, *s)?, true),
            Call::Take { t, of, s, native } => (*t, self.take(*of, *s, *native)?, true),
            Call::To {
                t,
                of,
                device,
                way,
                stream,
            } => {
                let (tensor, alias) = self.moved(*of, *device, *way, *stream)?;
                (*t, tensor, alias)
            }
            call => {
                let (t, tensor) = self.view(call)?;
                (t, tensor, true)
            }
        };
        let info = described(tensor.lend())?;
        let (strides, read_only) = (info.strides().to_vec(), info.read_only != 0);
        self.tensors.insert(t, tensor);
        Ok(Outcome::Made {
            alias,
            read_only,
            strides,
        })
    }

    fn filled(
        &self,
        device: usize,
        (element, shape): (Element, &[i64]),
        seed: u8,
    ) -> Result<Handle<XdTensor>, Stop> {
        let layout = XdLayout::compact(element.dtype().to_raw(), shape);
        let device = self.table.devices[device].lend();
        let tensor = made(|out| xd!(tensor_empty)(device, (&layout).into(), Ref::NULL, out))?;
        let bytes = bytes_of(seed, described(tensor.lend())?.nbytes as usize);
        write(tensor.lend(), &bytes)?;
        Ok(tensor)
    }

    /// The same values on a device, and whether they are the same memory.
    fn moved(
        &self,
        of: usize,
        device: usize,
        way: Way,
        stream: Option<usize>,
    ) -> Result<(Handle<XdTensor>, bool), Stop> {
        let mut options = XdMoveOptions::new();
        (options.route, options.copy) = (route_of(way), CopyMode::IF_NEEDED);
        options.stream = self.on(stream)?;
        let (tensor, device) = (self.tensor(of)?, self.table.devices[device].lend());
        if way == Way::Own {
            return Ok((into_own(tensor, device, options.stream)?, false));
        }
        let mut route = Owned::NULL;
        let moved = made(|out| {
            xd!(tensor_to)(
                tensor,
                device,
                (&options).into(),
                out,
                Out::from(&mut route),
            )
        })?;
        let route = Handle::new(route);
        Ok((moved, xd!(route_kind)(route.lend()) == RouteKind::ALIAS))
    }

    /// A view of a tensor.
    fn view(&self, call: &Call) -> Result<(usize, Handle<XdTensor>), Stop> {
        let (t, of) = match call {
            Call::Slice { t, of, .. }
            | Call::Permute { t, of, .. }
            | Call::Reshape { t, of, .. }
            | Call::Clone { t, of } => (*t, self.tensor(*of)?),
            _ => return Err(Stop::Empty),
        };
        let view = match call {
            Call::Slice { axes, .. } => {
                let part = |&(start, step, len): &(i64, i64, i64)| XdAxisSlice { start, step, len };
                let axes: Vec<_> = axes.iter().map(part).collect();
                let count = axes.len() as u32;
                // SAFETY: as many parts as are said.
                made(|out| unsafe { xd!(tensor_slice)(of, count, axes.as_ptr(), out) })?
            }
            Call::Permute { axes, .. } => {
                let axes: Vec<u32> = axes.iter().map(|&axis| axis as u32).collect();
                let count = axes.len() as u32;
                // SAFETY: as many axes as are said.
                made(|out| unsafe { xd!(tensor_permute)(of, count, axes.as_ptr(), out) })?
            }
            Call::Reshape { shape, .. } => {
                let rank = shape.len() as u32;
                // SAFETY: as many extents as are said.
                made(|out| unsafe { xd!(tensor_reshape)(of, rank, shape.as_ptr(), out) })?
            }
            _ => Handle::new(xd!(tensor_retain)(of)),
        };
        Ok((t, view))
    }

    /// Calls that move bytes of a tensor that is there.
    fn content(&self, call: &Call) -> Result<Outcome, Stop> {
        match call {
            Call::CopyFrom { t, of, stream } => {
                let (to, from) = (self.tensor(*t)?, self.tensor(*of)?);
                check(xd!(tensor_copy_from)(to, from, self.on(*stream)?))?;
            }
            Call::Fill { t, seed, stream } => {
                let (tensor, info) = (self.tensor(*t)?, self.info(*t)?);
                let bits = i64::from(info.dtype.bits) * i64::from(info.dtype.lanes);
                let mut elements = Element::ALL.into_iter();
                let element = elements.find(|element| element.bits() == bits);
                let pattern = pattern_of(*seed, element.ok_or(Stop::Empty)?);
                let (first, size) = (pattern.as_ptr().cast(), pattern.len() as u64);
                let stream = self.on(*stream)?;
                // SAFETY: as many bytes as are said.
                check(unsafe { xd!(tensor_fill)(tensor, first, size, stream) })?;
            }
            Call::Write { t, seed } => {
                let info = self.info(*t)?;
                let mut bytes = bytes_of(*seed, info.nbytes as usize);
                let bits = info.numel * u64::from(info.dtype.bits) * u64::from(info.dtype.lanes);
                if let (Some(last), 4) = (bytes.last_mut(), bits % 8) {
                    *last &= 15;
                }
                write(self.tensor(*t)?, &bytes)?;
            }
            Call::Read { t } => {
                let mut bytes = vec![0_u8; self.info(*t)?.nbytes as usize];
                let (first, size) = (bytes.as_mut_ptr().cast(), bytes.len() as u64);
                // SAFETY: as many bytes as are said, which nobody else uses.
                check(unsafe { xd!(tensor_read)(self.tensor(*t)?, first, size) })?;
                return Ok(Outcome::Bytes(bytes));
            }
            Call::Peek { t } => return Ok(Outcome::Bytes(peek(&self.world, self.seen(*t)?)?)),
            Call::SyncTensor { t } => {
                check(xd!(tensor_synchronize)(self.tensor(*t)?, NO_LIMIT))?;
            }
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    /// Where a compact tensor lies.
    fn seen(&self, t: usize) -> Result<Seen, Stop> {
        let (tensor, info) = (self.tensor(t)?, self.info(t)?);
        if info.contiguous == 0 {
            return Err(Stop::Empty);
        }
        let device = made(|out| xd!(tensor_device)(tensor, out))?;
        let address = if info.form == AddressForm::HANDLE {
            Address::handle(info.data, info.byte_offset)
        } else {
            Address::pointer(info.data)
        };
        Ok(Seen {
            device: self.table.index(&device).ok_or(Stop::Empty)?,
            address,
            kind: info.memory_kind,
            bytes: info.nbytes,
        })
    }

    /// Calls around work of others and the end of a tensor.
    fn hand_over(&mut self, call: &Call) -> Result<Outcome, Stop> {
        match call {
            Call::Register { r, of, device } => {
                let (tensor, device) = (self.tensor(*of)?, self.table.devices[*device].lend());
                let locked = made(|out| xd!(tensor_register)(tensor, device, out))?;
                self.registrations.insert(*r, locked);
            }
            Call::Unregister { r } => drop(self.registrations.remove(r).ok_or(Stop::Empty)?),
            Call::WaitToRead { t, s } => {
                check(xd!(tensor_wait_to_read)(self.tensor(*t)?, self.stream(*s)?))?;
            }
            Call::WaitToWrite { t, s } => {
                check(xd!(tensor_wait_to_write)(
                    self.tensor(*t)?,
                    self.stream(*s)?,
                ))?;
            }
            Call::UsedOn { t, s } => {
                check(xd!(tensor_used_on)(self.tensor(*t)?, self.stream(*s)?))?;
            }
            Call::WrittenOn { t, s } => {
                check(xd!(tensor_written_on)(self.tensor(*t)?, self.stream(*s)?))?;
            }
            Call::ReadyOn { t, s } => {
                check(xd!(tensor_ready_on)(self.tensor(*t)?, self.stream(*s)?))?;
            }
            Call::Explain { of, device, s } => self.explain(*of, *device, *s)?,
            Call::Export { x, of, stream } => {
                let mut options = XdExportOptions::new();
                if stream.is_some() {
                    (options.order, options.stream) = (Order::STREAM, self.on(*stream)?);
                }
                let tensor = self.tensor(*of)?;
                let managed = written(std::ptr::null_mut(), |out| {
                    xd!(tensor_export)(tensor, (&options).into(), out)
                })?;
                // SAFETY: a fresh export that nobody else owns.
                let managed = unsafe { Managed::new(managed) };
                self.exports.insert(*x, managed.ok_or(Stop::Empty)?);
            }
            Call::Release { x } => drop(self.exports.remove(x).ok_or(Stop::Empty)?),
            Call::DropTensor { t } => drop(self.tensors.remove(t).ok_or(Stop::Empty)?),
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    /// Calls of events that the host completes.
    fn host_event(&mut self, call: &Call) -> Result<Outcome, Stop> {
        match call {
            Call::Hold { e, s, fails } => {
                let stream = self.stream(*s)?;
                let device = made(|out| xd!(stream_device)(stream, out))?;
                let event = made(|out| xd!(event_create_host)(device.lend(), out))?;
                check(xd!(stream_wait)(stream, event.lend(), Out::NULL))?;
                // An event that is pending there is completed, and not forgotten.
                self.open(*e)?;
                let event = Arc::new(event);
                let status = if *fails { Status::VENDOR } else { Status::OK };
                let host_event: Box<dyn HostEvent> = Box::new(Arc::clone(&event));
                self.host_events
                    .lock()
                    .unwrap()
                    .insert(*e, (host_event, status));
                self.events.insert(*e, event);
            }
            Call::Open { e } if !self.open(*e)? => return Err(Stop::Empty),
            Call::Abandon { e } => {
                let host_event = self.host_events.lock().unwrap().remove(e);
                self.events.remove(e);
                drop(host_event.ok_or(Stop::Empty)?);
            }
            _ => {}
        }
        Ok(Outcome::Done)
    }

    /// Completes a host event, if there is one.
    fn open(&self, e: usize) -> Result<bool, Stop> {
        let host_event = self.host_events.lock().unwrap().remove(&e);
        let Some((host_event, status)) = host_event else {
            return Ok(false);
        };
        host_event.complete(status).map_err(Stop::Failed)?;
        Ok(true)
    }

    /// Calls of streams and events.
    fn order(&mut self, call: &Call) -> Result<Outcome, Stop> {
        match call {
            Call::Stream { s, device } => {
                let device = self.table.devices[*device].lend();
                let stream = made(|out| xd!(stream_create)(device, out))?;
                self.streams.insert(*s, stream);
            }
            Call::Default { s, device } => {
                let device = self.table.devices[*device].lend();
                let stream = made(|out| xd!(stream_default)(device, out))?;
                self.streams.insert(*s, stream);
            }
            Call::Ask { s } => return self.ask(*s),
            Call::Record { e, s } => {
                let stream = self.stream(*s)?;
                let event = made(|out| xd!(stream_record)(stream, out))?;
                self.events.insert(*e, Arc::new(event));
            }
            Call::Wait { s, e } => {
                let event = at(&self.events, *e)?.lend();
                check(xd!(stream_wait)(self.stream(*s)?, event, Out::NULL))?;
            }
            Call::SyncStream { s } => {
                check(xd!(stream_synchronize)(self.stream(*s)?, NO_LIMIT))?;
            }
            Call::SyncEvent { e } => {
                let event = at(&self.events, *e)?.lend();
                check(xd!(event_synchronize)(event, NO_LIMIT))?;
            }
            Call::SyncDevice { device } => {
                let device = self.table.devices[*device].lend();
                check(xd!(device_synchronize)(device, NO_LIMIT))?;
            }
            Call::Trim { device, keep } => {
                check(xd!(device_trim)(self.table.devices[*device].lend(), *keep))?;
            }
            Call::DropStream { s } => drop(self.streams.remove(s).ok_or(Stop::Empty)?),
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }
}

const fn route_of(way: Way) -> RouteKind {
    match way {
        Way::Best | Way::Own => RouteKind::BEST,
        Way::Alias => RouteKind::ALIAS,
        Way::Direct => RouteKind::DIRECT,
        Way::Staged => RouteKind::STAGED,
    }
}

fn write(tensor: Ref<'_, XdTensor>, bytes: &[u8]) -> Result<(), Stop> {
    let (first, size) = (bytes.as_ptr().cast(), bytes.len() as u64);
    // SAFETY: as many bytes as are said.
    check(unsafe { xd!(tensor_write)(tensor, first, size) })
}
