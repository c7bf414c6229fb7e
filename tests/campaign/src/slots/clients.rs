//! Clients beside Crossdock: what they do, and what passes between them and it.
#![expect(
    unsafe_code,
    reason = "wraps streams of clients, and looks into exports"
)]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossdock::Stream;
use crossdock_sdk::dlpack::{DataWord, Flags, Layout, Place, Produced};

use super::{Slots, seen};
use crate::caller::{Failed, Outcome, Stop, at};
use crate::clients::{Answer, Block, Client, ClientKind, Owner};
use crate::foreign::{Lent, receive};
use crate::model::{View, content};
use crate::program::{ClientCall, Offset, Op};

/// How long releases are waited for before clients go.
const LAST_WORK: Duration = Duration::from_secs(10);

/// The same before one of them goes, or a device is trimmed.
pub(super) const A_RELEASE: Duration = Duration::from_secs(2);

/// A driver's refusal of a client's own call.
fn told<T>(what: &str, answer: Answer<T>) -> Result<T, Stop> {
    answer.map_err(|code| Stop::Failed(Failed::other(format!("a client's {what}: {code}"))))
}

impl Slots {
    /// What a client does; `of` is the view of the tensor that it reads.
    pub(super) fn client(
        &mut self,
        op: &Op,
        (c, does): (usize, &ClientCall),
        of: Option<&View>,
    ) -> Result<Outcome, Stop> {
        match does {
            ClientCall::Come { .. } => self.come(op, c, does),
            ClientCall::Wrap { s } => {
                let stream = self.wrapped(op, c)?;
                self.own.remove(s);
                self.streams.insert(*s, stream);
                Ok(Outcome::Done)
            }
            ClientCall::Lend {
                t,
                element,
                shape,
                seed,
                pool,
                offset,
            } => {
                let layout = Layout::compact(element.dtype(), shape)?;
                let view = View::compact(0, *element, shape, 0);
                let bytes = content(&view, *seed);
                let written = self.idle(c)?.write(&bytes, *pool, offset.bytes());
                let block = told("upload", written)?;
                self.lend(op, (c, *t), &layout, (block, *offset))
            }
            ClientCall::Take {
                t,
                of: source,
                pool,
                waits,
                offset,
            } => {
                let known = of.ok_or(Stop::Empty)?;
                let read =
                    self.take_by(op, (c, *source), known, (*pool, *waits, offset.bytes()))?;
                let (layout, block) = read;
                self.lend(op, (c, *t), &layout, (block, *offset))
            }
            ClientCall::Go => self.go(c),
            ClientCall::CaptureShown { s, mode } => self.capture_shown(op, (c, *s), *mode),
            _ => self.call_alone(c, does),
        }
    }

    /// A client captures a stream that Crossdock made, by its native handle.
    fn capture_shown(
        &mut self,
        op: &Op,
        (c, s): (usize, usize),
        mode: u8,
    ) -> Result<Outcome, Stop> {
        let stream = at(&self.streams, s)?.clone();
        let client = self.idle(c)?;
        let (own, device) = (client.stream, client.device);
        // In its own context it has no memory for what is captured.
        if client.is_own || stream.device() != self.device(op, device) {
            return Err(Stop::Empty);
        }
        let handle = stream.native_handle()?;
        let is_clients = |client: &Client| client.stream == handle;
        if !self.own.contains(&s) || handle == own || self.clients.values().any(is_clients) {
            return Err(Stop::Empty);
        }
        self.begin_capture(c, mode, handle)?;
        // It lives until nobody can capture it.
        self.shown.push(stream);
        Ok(Outcome::Done)
    }

    /// Begins a capture, unless another thread is in a call that may ask the stream.
    fn begin_capture(&mut self, c: usize, mode: u8, stream: u64) -> Result<(), Stop> {
        let world = Arc::clone(&self.world);
        let _nobody_asks = world.asking.try_write().map_err(|_asking| Stop::Empty)?;
        told("capture", self.idle(c)?.capture(mode, stream))
    }

    /// What it does without Crossdock.
    fn call_alone(&mut self, c: usize, does: &ClientCall) -> Result<Outcome, Stop> {
        let freed_early = match does {
            ClientCall::FreeEarly { t } => Some(Arc::clone(at(&self.blocks, *t)?)),
            _ => None,
        };
        let client = self.clients.get_mut(&c).ok_or(Stop::Empty)?;
        match does {
            ClientCall::Enter => {
                let before = told("context", client.enter())?;
                self.entered.push((thread::current().id(), c, before));
            }
            ClientCall::Leave => {
                let here = thread::current().id();
                let mut own = self.entered.iter();
                let last = own.rposition(|(thread, ..)| *thread == here);
                let last = last.filter(|at| self.entered[*at].1 == c);
                let (_, _, before) = self.entered.remove(last.ok_or(Stop::Empty)?);
                if !told("context", client.leave(before))? {
                    let why = "another context was on the thread's stack than the client's";
                    return Err(Stop::Failed(Failed::other(why.to_owned())));
                }
            }
            ClientCall::Capture { mode } => {
                let stream = client.stream;
                self.begin_capture(c, *mode, stream)?;
            }
            ClientCall::EndCapture => {
                let ended = client.end_capture().ok_or(Stop::Empty)?;
                return Ok(Outcome::Captured(told("capture", ended)?));
            }
            ClientCall::BreakCapture if client.is_capturing() => {
                told("question", client.break_capture())?
            }
            ClientCall::JoinCapture if client.is_capturing() => {
                told("work", client.join_capture())?
            }
            ClientCall::SetLastError if client.session.vendor.set_last_error() => {}
            ClientCall::ClearLastError if client.session.vendor.clear_last_error() => {}
            ClientCall::EnterSilently => drop(told("context", client.enter())?),
            ClientCall::FreeEarly { .. } => freed_early.iter().for_each(|block| block.give_back()),
            _ => return Err(Stop::Empty),
        }
        Ok(Outcome::Done)
    }

    fn come(&mut self, op: &Op, c: usize, does: &ClientCall) -> Result<Outcome, Stop> {
        let ClientCall::Come {
            device,
            own,
            blocking,
            known,
        } = does
        else {
            return Err(Stop::Empty);
        };
        if self.clients.contains_key(&c) {
            return Err(Stop::Empty);
        }
        let kind = ClientKind {
            device: *device,
            is_own: *own,
            is_blocking: *blocking,
            is_known: *known,
        };
        let on = self.device(op, *device);
        let client = Client::new(kind, on.plugin().name(), on.index());
        let client = told("arrival", client.ok_or(Stop::Empty)?)?;
        self.clients.insert(c, client);
        Ok(Outcome::Done)
    }

    /// A client goes in the middle of the program, where nobody knows its stream: the judge sees to that.
    fn go(&mut self, c: usize) -> Result<Outcome, Stop> {
        self.idle(c)?;
        if self.entered.iter().any(|(_, entered, _)| *entered == c) {
            return Err(Stop::Empty);
        }
        let session = Arc::clone(&at(&self.clients, c)?.session);
        // Those of tensors that are there still have their owners.
        self.blocks.retain(|_, block| !block.is_of(&session));
        for runtime in &self.world.runtimes {
            let _asking = self.world.asking.read().unwrap();
            runtime.wait_for_releases(Some(A_RELEASE))?;
        }
        // Each block has it, besides the client and this call.
        if Arc::strong_count(&session) > 2 {
            return Err(Stop::Empty);
        }
        drop(session);
        let client = self.clients.remove(&c).ok_or(Stop::Empty)?;
        let gone = client.end();
        gone.map_err(|why| Stop::Failed(Failed::other(why)))?;
        Ok(Outcome::Done)
    }

    /// A client that can put work on its stream.
    fn idle(&mut self, c: usize) -> Result<&mut Client, Stop> {
        let client = self.clients.get_mut(&c);
        client
            .filter(|client| !client.is_capturing())
            .ok_or(Stop::Empty)
    }

    /// Its stream, as Crossdock has it.
    fn wrapped(&self, op: &Op, c: usize) -> Result<Stream, Stop> {
        let client = at(&self.clients, c)?;
        if !client.is_known {
            return Err(Stop::Empty);
        }
        let device = self.device(op, client.device);
        // SAFETY: the client goes after all streams of Crossdock, and this program makes one call at a time.
        Ok(unsafe { Stream::wrap(device, client.stream) }?)
    }

    /// Memory of a client becomes a tensor, ready once its stream is.
    fn lend(
        &mut self,
        op: &Op,
        (c, t): (usize, usize),
        layout: &Layout,
        (block, offset): (Arc<Block>, Offset),
    ) -> Result<Outcome, Stop> {
        let client = at(&self.clients, c)?;
        let is_known = client.is_known;
        if !is_known && let Err(stop) = told("wait", client.synchronize()) {
            // Nobody can wait for its stream but itself. At the exit its driver may be gone, and nobody has the memory.
            block.give_back();
            return Err(stop);
        }
        let place = Place {
            data: DataWord::from_addr(block.start() as usize - usize::from(offset.dlpack)),
            byte_offset: u64::from(offset.dlpack),
            device: self.device(op, client.device).id(),
            flags: Flags::NONE,
        };
        let owner = Owner::new(Arc::clone(&block));
        self.lent.push(Lent::on_device(Arc::clone(&owner.releases)));
        let produced: Produced = Produced::at(owner, layout, place)?;
        let tensor = self.import(op, receive(produced))?;
        if is_known {
            tensor.ready_on(&self.wrapped(op, c)?)?;
        }
        let outcome = Outcome::Made {
            alias: false,
            read_only: tensor.is_read_only(),
            strides: tensor.layout().strides().to_vec(),
        };
        self.blocks.insert(t, block);
        self.tensors.insert(t, tensor);
        Ok(outcome)
    }

    /// A client reads a tensor by work on its stream.
    fn take_by(
        &mut self,
        op: &Op,
        (c, of): (usize, usize),
        known: &View,
        (pool, waits, before): (bool, bool, usize),
    ) -> Result<(Layout, Arc<Block>), Stop> {
        let source = at(&self.tensors, of)?.clone();
        let seen = seen(&self.world, op.runtime, &source)?;
        // Half a byte has no address.
        let has_address = known.element.bits() % 8 == 0 && source.nbytes() > 0;
        let device = self.idle(c)?.device;
        if !has_address || seen.device != device {
            return Err(Stop::Empty);
        }
        let stream = match at(&self.clients, c)?.is_known {
            true => Some(self.wrapped(op, c)?),
            false => None,
        };
        let export = match &stream {
            Some(stream) => source.export_on(stream)?,
            None => source.export()?,
        };
        // SAFETY: an export that is alive until it is dropped below.
        let tensor = unsafe { (*export.as_ptr()).dl_tensor };
        let from = tensor.data.expose_provenance() as u64 + tensor.byte_offset;
        let client = self.idle(c)?;
        let block = client.copy_of((from, source.nbytes() as usize), pool, before);
        let noted = match &stream {
            Some(stream) if !waits => source.used_on(stream).map_err(Stop::from),
            _ => told("wait", client.synchronize()),
        };
        if noted.is_err() {
            // It may still read, and nobody was told.
            let _waited = client.synchronize();
        }
        drop(export);
        let block = told("copy", block)?;
        if let Err(stop) = noted {
            block.give_back();
            return Err(stop);
        }
        let layout = Layout::compact(known.element.dtype(), &known.shape)?;
        Ok((layout, block))
    }

    /// All clients go, once nobody has anything of theirs.
    pub(super) fn clients_go(&mut self) -> Result<(), String> {
        self.blocks.clear();
        if !self.clients.is_empty() {
            // With a context go the events of its streams, by which releases know that work is over.
            for runtime in &self.world.runtimes {
                let _asking = self.world.asking.read().unwrap();
                // Where work never ends, nobody can wait for it.
                drop(runtime.wait_for_releases(Some(LAST_WORK)));
            }
        }
        let clients = std::mem::take(&mut self.clients).into_values();
        let ended: Vec<_> = clients.map(Client::end).collect();
        ended.into_iter().collect()
    }
}
