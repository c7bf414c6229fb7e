//! The calls of a program in Rust: the places with tensors, streams, events and exports, and each call.
#![expect(unsafe_code, reason = "takes memory of others over")]

mod clients;
mod order;
mod trim;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::ThreadId;

use crossdock::{Error, Event, Registration, RouteKind, Stream, Tensor};
use crossdock_sdk::abi::{Capabilities, MemoryKind};
use crossdock_sdk::dlpack::{
    AxisSlice, DLManagedTensor, DataWord, Flags, Layout, Place, Produced, Received,
};

use crate::caller::{Caller, HostEvents, Outcome, Seen, Stop, at, peek};
use crate::clients::{Block, Client};
use crate::foreign::{Lent, receive};
use crate::model::{View, part_of};
use crate::program::{Call, Op, bytes_of, pattern_of};
use crate::world::World;

/// The places of one program.
#[derive(Debug)]
pub(crate) struct Slots {
    world: Arc<World>,
    tensors: BTreeMap<usize, Tensor>,
    streams: BTreeMap<usize, Stream>,
    events: BTreeMap<usize, Event>,
    exports: BTreeMap<usize, Produced>,
    registrations: BTreeMap<usize, Registration>,
    host_events: HostEvents,
    lent: Vec<Lent>,
    clients: BTreeMap<usize, Client>,
    /// The places of streams that were made, and those of them that clients captured.
    own: BTreeSet<usize>,
    shown: Vec<Stream>,
    /// What clients lent, by the places of the tensors that it became.
    blocks: BTreeMap<usize, Arc<Block>>,
    /// The threads that have a client's context, with the client and their device before.
    entered: Vec<(ThreadId, usize, i32)>,
}

impl Caller for Slots {
    fn perform(&mut self, op: &Op, of: Option<&View>) -> Outcome {
        self.call(op, of).unwrap_or_else(Outcome::from)
    }

    fn host_events(&self) -> HostEvents {
        Arc::clone(&self.host_events)
    }

    fn streams(&self) -> Vec<usize> {
        self.streams.keys().copied().collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.tensors.values().cloned().collect()
    }

    fn clear(&mut self) {
        self.host_events.lock().unwrap().clear();
        self.exports.clear();
        self.tensors.clear();
        self.registrations.clear();
        self.events.clear();
        self.streams.clear();
        self.shown.clear();
    }

    fn lent(&self) -> &[Lent] {
        &self.lent
    }

    fn clients_rest(&self) {
        for client in self
            .clients
            .values()
            .filter(|client| !client.is_capturing())
        {
            // Where calls fail, so may this one.
            let _over = client.synchronize();
        }
    }

    fn clients_go(&mut self) -> Result<(), String> {
        Self::clients_go(self)
    }
}

impl Slots {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            tensors: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            exports: BTreeMap::new(),
            registrations: BTreeMap::new(),
            host_events: HostEvents::default(),
            lent: Vec::new(),
            clients: BTreeMap::new(),
            own: BTreeSet::new(),
            shown: Vec::new(),
            blocks: BTreeMap::new(),
            entered: Vec::new(),
        }
    }

    fn call(&mut self, op: &Op, of: Option<&View>) -> Result<Outcome, Stop> {
        match &op.call {
            Call::Make { .. }
            | Call::Foreign { .. }
            | Call::Strange { .. }
            | Call::Slice { .. }
            | Call::Permute { .. }
            | Call::Reshape { .. }
            | Call::Clone { .. }
            | Call::To { .. }
            | Call::Draft { .. }
            | Call::Take { .. }
            | Call::Import { .. } => self.make(op, of),
            Call::CopyFrom { .. }
            | Call::Fill { .. }
            | Call::Write { .. }
            | Call::Read { .. }
            | Call::Peek { .. }
            | Call::SyncTensor { .. } => self.content(op),
            Call::WaitToRead { .. }
            | Call::WaitToWrite { .. }
            | Call::UsedOn { .. }
            | Call::WrittenOn { .. }
            | Call::ReadyOn { .. }
            | Call::Export { .. }
            | Call::Release { .. }
            | Call::Register { .. }
            | Call::Unregister { .. }
            | Call::DropTensor { .. } => self.hand_over(op),
            Call::Client { c, does } => self.client(op, (*c, does), of),
            _ => self.order(op),
        }
    }

    /// Calls that give a tensor.
    fn make(&mut self, op: &Op, of: Option<&View>) -> Result<Outcome, Stop> {
        let (t, tensor, alias) = match &op.call {
            Call::Make {
                t,
                device,
                element,
                shape,
                seed,
            } => {
                let layout = Layout::compact(element.dtype(), shape)?;
                let bytes = bytes_of(*seed, layout.bytes() as usize);
                (
                    *t,
                    Tensor::from_bytes(self.device(op, *device), &layout, &bytes)?,
                    false,
                )
            }
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
                (*t, self.import(op, receive(produced))?, false)
            }
            Call::Strange { t, .. } => (*t, self.strange(op, of)?, true),
            Call::Import { t, x } => {
                let produced = self.exports.remove(x).ok_or(Stop::Empty)?;
                (*t, self.import(op, receive(produced))?, true)
            }
            Call::Draft { t, of, s } => (*t, self.draft(op, *of, *s)?, true),
            Call::Take { t, of, s, native } => (*t, self.take(op, (*of, *s), *native)?, true),
            call => self.derive(op, call)?,
        };
        let read_only = tensor.is_read_only();
        let strides = tensor.layout().strides().to_vec();
        self.tensors.insert(t, tensor);
        Ok(Outcome::Made {
            alias,
            read_only,
            strides,
        })
    }

    /// The memory of a tensor by another layout.
    fn strange(&self, op: &Op, of: Option<&View>) -> Result<Tensor, Stop> {
        let Call::Strange {
            of: source,
            shape,
            strides,
            first,
            bytes,
            ..
        } = &op.call
        else {
            return Err(Stop::Empty);
        };
        let known = of.ok_or(Stop::Empty)?;
        // Another tensor may have come to this place.
        let named = part_of(&op.call, known.clone(), Vec::new());
        named
            .filter(|(_, named)| named.is_within(known))
            .ok_or(Stop::Empty)?;
        let layout = Layout::strided(known.element.dtype(), shape, strides)?;
        let offset = (first * known.element.bits() / 8 + bytes) as u64;
        let received = strange(at(&self.tensors, *source)?.clone(), &layout, offset)?;
        Ok(self.import(op, received)?)
    }

    fn import(&self, op: &Op, received: Received) -> Result<Tensor, Error> {
        Tensor::import(&self.world.runtimes[op.runtime], received)
    }

    /// Hands a tensor out as DLPack 0.x, in a stream's order, and takes it in again.
    fn draft(&self, op: &Op, of: usize, s: usize) -> Result<Tensor, Stop> {
        let tensor = at(&self.tensors, of)?;
        tensor.wait_to_export(at(&self.streams, s)?)?;
        let draft = tensor.export_as::<DLManagedTensor>()?;
        // SAFETY: a live export that nobody else owns.
        let received = unsafe { Received::from_legacy(draft.into_raw()) }?;
        Ok(self.import(op, received)?)
    }

    /// The memory of a tensor once more, which work on a stream is said to write.
    fn take(&self, op: &Op, (of, s): (usize, usize), native: bool) -> Result<Tensor, Stop> {
        let source = at(&self.tensors, of)?;
        let received = strange(source.clone(), source.layout(), 0)?;
        let tensor = if native {
            let (view, owner) = received.into_parts();
            // SAFETY: the memory of a tensor that the received one keeps.
            unsafe { Tensor::adopt_native(&self.world.runtimes[op.runtime], view, owner.into()) }?
        } else {
            self.import(op, received)?
        };
        tensor.ready_on(at(&self.streams, s)?)?;
        Ok(tensor)
    }

    /// A view of a tensor, or its values elsewhere: the place, the tensor, and whether it is an alias.
    fn derive(&self, op: &Op, call: &Call) -> Result<(usize, Tensor, bool), Stop> {
        Ok(match call {
            Call::Slice { t, of, axes } => {
                let part = |&(start, step, len): &(i64, i64, i64)| AxisSlice { start, step, len };
                let axes: Vec<_> = axes.iter().map(part).collect();
                (*t, at(&self.tensors, *of)?.slice(&axes)?, true)
            }
            Call::Permute { t, of, axes } => (*t, at(&self.tensors, *of)?.permute(axes)?, true),
            Call::Reshape { t, of, shape } => (*t, at(&self.tensors, *of)?.reshape(shape)?, true),
            Call::Clone { t, of } => (*t, at(&self.tensors, *of)?.clone(), true),
            Call::To {
                t,
                of,
                device,
                way,
                stream,
            } => {
                let (source, to) = (at(&self.tensors, *of)?, self.device(op, *device));
                let stream = stream.map(|stream| at(&self.streams, stream)).transpose()?;
                let (moved, route) = match (way.choice(), stream) {
                    (None, stream) => return Ok((*t, into_own(source, to, stream)?, false)),
                    (Some(choice), Some(stream)) => source.to_on(to, choice, stream)?,
                    (Some(choice), None) => source.to(to, choice)?,
                };
                (*t, moved, route.kind == RouteKind::Alias)
            }
            _ => return Err(Stop::Empty),
        })
    }

    /// Calls that move bytes of a tensor that is there.
    fn content(&self, op: &Op) -> Result<Outcome, Stop> {
        let stream = |stream: &Option<usize>| match stream {
            Some(stream) => at(&self.streams, *stream).map(Some),
            None => Ok(None),
        };
        match &op.call {
            Call::CopyFrom { t, of, stream: on } => {
                at(&self.tensors, *t)?.copy_from(at(&self.tensors, *of)?, stream(on)?)?;
            }
            Call::Fill {
                t,
                seed,
                stream: on,
            } => {
                let tensor = at(&self.tensors, *t)?;
                let element = element_of(tensor);
                tensor.fill(&pattern_of(*seed, element), stream(on)?)?;
            }
            Call::Write { t, seed } => {
                let tensor = at(&self.tensors, *t)?;
                let mut bytes = bytes_of(*seed, tensor.nbytes() as usize);
                trim(tensor, &mut bytes);
                tensor.write(&bytes)?;
            }
            Call::Read { t } => return Ok(Outcome::Bytes(at(&self.tensors, *t)?.read()?)),
            Call::Peek { t } => {
                let seen = seen(&self.world, op.runtime, at(&self.tensors, *t)?)?;
                return Ok(Outcome::Bytes(peek(&self.world, seen)?));
            }
            Call::SyncTensor { t } => at(&self.tensors, *t)?.synchronize(None)?,
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    /// Calls around work of others and the end of a tensor.
    fn hand_over(&mut self, op: &Op) -> Result<Outcome, Stop> {
        match &op.call {
            Call::Register { r, of, device } => {
                let registration = at(&self.tensors, *of)?.register(self.device(op, *device))?;
                self.registrations.insert(*r, registration);
            }
            Call::Unregister { r } => drop(self.registrations.remove(r).ok_or(Stop::Empty)?),
            Call::WaitToRead { t, s } => {
                at(&self.tensors, *t)?.wait_to_read(at(&self.streams, *s)?)?
            }
            Call::WaitToWrite { t, s } => {
                at(&self.tensors, *t)?.wait_to_write(at(&self.streams, *s)?)?
            }
            Call::UsedOn { t, s } => at(&self.tensors, *t)?.used_on(at(&self.streams, *s)?)?,
            Call::WrittenOn { t, s } => {
                at(&self.tensors, *t)?.written_on(at(&self.streams, *s)?)?
            }
            Call::ReadyOn { t, s } => at(&self.tensors, *t)?.ready_on(at(&self.streams, *s)?)?,
            Call::Export { x, of, stream } => {
                let tensor = at(&self.tensors, *of)?;
                let produced = match stream {
                    Some(stream) => tensor.export_on(at(&self.streams, *stream)?)?,
                    None => tensor.export()?,
                };
                self.exports.insert(*x, produced);
            }
            Call::Release { x } => drop(self.exports.remove(x).ok_or(Stop::Empty)?),
            Call::DropTensor { t } => drop(self.tensors.remove(t).ok_or(Stop::Empty)?),
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    fn device(&self, op: &Op, device: usize) -> &crossdock::Device {
        &self.world.devices[op.runtime][device]
    }
}

/// A copy in memory that is allocated for it: in the stream's order, or else pinned where the device has that.
fn into_own(
    source: &Tensor,
    device: &crossdock::Device,
    stream: Option<&Stream>,
) -> Result<Tensor, Error> {
    let layout = source.layout();
    let is_pinned = device.capabilities().contains(Capabilities::PINNED);
    let own = match stream {
        Some(stream) if stream.device() == device => Tensor::empty_on(stream, layout)?,
        None if is_pinned => Tensor::empty_of(device, layout, MemoryKind::PINNED)?,
        _ => Tensor::empty(device, layout)?,
    };
    own.copy_from(source, stream)?;
    Ok(own)
}

/// The memory of a tensor by another layout, as if somebody else had exported it.
fn strange(source: Tensor, layout: &Layout, offset: u64) -> Result<Received, Stop> {
    let own = source.export()?;
    // SAFETY: alive until `own` is dropped, behind the copy of what is needed.
    let seen = unsafe { (*own.as_ptr()).dl_tensor };
    let place = Place {
        data: DataWord::from_ptr(seen.data),
        byte_offset: seen.byte_offset + offset,
        device: source.dlpack_device(),
        flags: Flags::NONE.with(Flags::READ_ONLY, source.is_read_only()),
    };
    // Not a tensor by type: what comes in counts as the memory of others.
    Ok(receive(Produced::at(vec![source], layout, place)?))
}

/// Where a compact tensor lies.
fn seen(world: &World, runtime: usize, tensor: &Tensor) -> Result<Seen, Stop> {
    if !tensor.layout().is_contiguous() {
        return Err(Stop::Empty);
    }
    let devices = &world.devices[runtime];
    let device = devices.iter().position(|device| device == tensor.device());
    Ok(Seen {
        device: device.ok_or(Stop::Empty)?,
        address: tensor.address(),
        kind: tensor.memory_kind(),
        bytes: tensor.nbytes(),
    })
}

fn element_of(tensor: &Tensor) -> crate::program::Element {
    let bits = i64::from(tensor.layout().element_bits());
    let all = crate::program::Element::ALL.into_iter();
    all.into_iter()
        .find(|element| element.bits() == bits)
        .unwrap()
}

fn trim(tensor: &Tensor, bytes: &mut [u8]) {
    let bits = tensor.layout().numel() * i64::from(tensor.layout().element_bits());
    if let (Some(last), 4) = (bytes.last_mut(), bits % 8) {
        *last &= 15;
    }
}
