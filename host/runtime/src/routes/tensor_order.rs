//! Tensors and streams: work in order, and handing tensors over in order.
#![expect(unsafe_code, reason = "fills memory of a live tensor")]

use std::time::Duration;

use crossdock_sdk::abi::FillArgs;
use crossdock_sdk::dlpack::{Layout, Produced};

use crate::copies::host_bytes::repeated;
use crate::copies::order::{self, Accesses};
use crate::copies::{elements, transfer};
use crate::devices::device::Device;
use crate::error::Error;
use crate::hooks::host_memory::host_length;
use crate::hooks::panics::lend;
use crate::route_data::kinds::RouteChoice;
use crate::routes::route::{self, Route};
use crate::streams::event::Event;
use crate::streams::outstanding_work::Access;
use crate::streams::stream::Stream;
use crate::tensors::memory::Memory;
use crate::tensors::place;
use crate::tensors::tensor::{Tensor, compact};

impl Tensor {
    /// Allocates a compact tensor on the stream's device, in the order of the stream: an allocation that the
    /// plugin makes there does not wait for the device. A later use through this library comes
    /// behind that point of the stream; work of your own on another stream needs
    /// [`Tensor::wait_to_write`]. Where the plugin has no such allocation it is as [`Tensor::empty`].
    ///
    /// # Errors
    /// As [`Tensor::empty`].
    pub fn empty_on(stream: &Stream, layout: &Layout) -> Result<Self, Error> {
        order::check(Some(stream))?;
        let layout = compact(layout)?;
        let Some(memory) = Memory::allocate_on(stream, layout.bytes())? else {
            return Self::empty(stream.device(), &layout);
        };
        let tensor = Self::of(memory, layout, 0);
        order::note_own(stream, Accesses::writes(&tensor))?;
        Ok(tensor)
    }

    /// Moves or copies the tensor to `device`, in the order of `stream`. A copy returns without waiting, on a
    /// direct route and through host memory, except:
    ///
    /// - a copy through host memory of more than 1 GiB, which waits for its oldest parts;
    /// - a copy through host memory if a device lacks streams, host events or host functions;
    /// - a copy of a tensor that is not compact, on a wrapped queue of another `OpenCL` context;
    /// - an alias that is adopted or mapped ([`RouteChoice::Copy`] never takes one).
    ///
    /// These wait for work on the stream, without a time limit. If the stream waits for an event that only this
    /// thread can complete, the call deadlocks. [`Tensor::explain_on`] reports whether a call waits. For a limit,
    /// call [`Stream::synchronize`] first.
    ///
    /// The stream may be of either device, or of a third one. A later use of the result through this
    /// library comes after the copy; the source may be dropped at once.
    ///
    /// # Errors
    /// As [`Tensor::to`]; a failure of the copy itself is reported by the next call that synchronizes.
    pub fn to_on(
        &self,
        device: &Device,
        choice: RouteChoice,
        stream: &Stream,
    ) -> Result<(Self, Route), Error> {
        self.move_to(&device.into(), choice, Some(stream))
    }

    /// Replaces its elements by those of `source`, a tensor of the same shape and dtype on any
    /// device. With a stream, the copy runs in its order; without one, it is done when this returns. The copies
    /// that [`Tensor::to_on`] lists wait for work on the stream.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is read-only, its elements overlap, or shape or dtype differ;
    /// [`Error::Hook`]; [`Error::Refused`].
    pub fn copy_from(&self, source: &Self, stream: Option<&Stream>) -> Result<(), Error> {
        const OPERATION: &str = "copy into a tensor";
        let (to, from) = (self.layout(), source.layout());
        self.check_writable(OPERATION)?;
        if to.shape() != from.shape() {
            let why = format!(
                "its shape is {:?}, the source's {:?}",
                to.shape(),
                from.shape()
            );
            return Err(Error::misuse(OPERATION, why));
        }
        if (to.dtype(), to.is_padded()) != (from.dtype(), from.is_padded()) {
            let why = format!("its dtype is {}, the source's {}", to.dtype(), from.dtype());
            return Err(Error::misuse(OPERATION, why));
        }
        order::check(stream)?;
        if to.numel() == 0 || self.is_same_view(source) {
            return Ok(());
        }
        if place::may_overlap(self, source) {
            let apart = elements::room(source.device(), from)?;
            route::copy_into(&apart, source, stream)?;
            return route::copy_into(self, &apart, stream);
        }
        route::copy_into(self, source, stream)
    }

    /// Repeats one element over the tensor; in the order of a stream, or done when it returns. The pattern
    /// has the bytes of the element. If the element does not end at a byte, it is the low bits of the
    /// pattern, and the other bits are ignored. Bits next to the tensor's elements stay.
    ///
    /// A fill that the plugin cannot make itself waits for the work on the stream first, without a limit: on
    /// a device without `FILL`, and for a pattern whose shortest run of whole bytes is not 1, 2, 4, 8 or 16
    /// bytes long (the run of packed 3-bit elements is 3 bytes long).
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is read-only, its elements overlap, or the pattern is no element;
    /// [`Error::Hook`].
    pub fn fill(&self, pattern: &[u8], stream: Option<&Stream>) -> Result<(), Error> {
        const OPERATION: &str = "fill a tensor";
        self.check_writable(OPERATION)?;
        let bits = self.layout().element_bits();
        if pattern.len() as u64 != u64::from(bits.div_ceil(8)) {
            let why = format!(
                "an element has {bits} bits, the pattern {} bytes",
                pattern.len()
            );
            return Err(Error::misuse(OPERATION, why));
        }
        order::check(stream)?;
        let packed;
        let run = if bits.is_multiple_of(8) {
            pattern
        } else {
            packed = elements::run_of(pattern, bits);
            &packed
        };
        if !self.layout().is_contiguous() {
            let compact = elements::room(self.device(), self.layout())?;
            compact.fill_whole(run, stream)?;
            return self.copy_from(&compact, stream);
        }
        if !elements::shares_last_byte(self) {
            return self.fill_whole(run, stream);
        }
        let (body, edge) = elements::split(self)?;
        body.fill_whole(run, stream)?;
        let bytes = repeated(run, host_length(edge.nbytes())?)?;
        let of_bytes =
            |bytes: &mut Vec<u8>| elements::room_with(edge.device(), edge.layout(), bytes);
        let (_bytes, last) = lend(bytes, of_bytes)?;
        elements::copy_edge(&edge, &last, stream)
    }

    /// Fills all bytes of a compact tensor, with the bits behind a last element that ends inside one.
    fn fill_whole(&self, run: &[u8], stream: Option<&Stream>) -> Result<(), Error> {
        if self.layout().numel() == 0 {
            return Ok(());
        }
        match self.fill_by_hook(run, stream) {
            Err(error) if error.is_unsupported() => {
                order::synchronize(stream)?;
                let bytes = repeated(run, host_length(self.nbytes())?)?;
                lend(bytes, |bytes| transfer::write(self, bytes)).map(drop)
            }
            filled => filled,
        }
    }

    /// Whether both are the same elements in the same order, so that there is nothing to copy.
    fn is_same_view(&self, other: &Self) -> bool {
        let is_one = std::ptr::eq(self.memory(), other.memory());
        is_one && (self.offset(), self.layout()) == (other.offset(), other.layout())
    }

    fn fill_by_hook(&self, pattern: &[u8], stream: Option<&Stream>) -> Result<(), Error> {
        let hooks = self.device().hooks();
        let mut padded = [0; 16];
        let Some(room) = padded.get_mut(..pattern.len()) else {
            return Err(hooks.missing("fill"));
        };
        if !pattern.len().is_power_of_two() {
            return Err(hooks.missing("fill"));
        }
        room.copy_from_slice(pattern);
        let args = FillArgs {
            dst: self.memory().side(self.offset()),
            bytes: self.nbytes(),
            pattern: padded,
            pattern_bytes: u32::try_from(pattern.len()).unwrap_or(0),
            reserved: 0,
        };
        let accesses = Accesses::writes(self);
        order::run(self.device(), stream, accesses, |stream| {
            // SAFETY: the tensor is compact, so its bytes are one range of its memory, which
            // remembers the work and outlives it.
            unsafe { hooks.fill(args, stream) }
        })
    }

    /// Blocks the calling thread until the last work that wrote it is done; `None` is no limit. What else uses
    /// it is not waited for, but where that is over by now a fork leaves the tensor to its child.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or the failure of that work, each time until all of the tensor is
    /// written again. [`Error::Claim`]: it is not the host's, as its producer said.
    #[inline]
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        self.memory().check_claim()?;
        let outstanding = self.memory().outstanding();
        if !outstanding.is_busy() {
            return Ok(());
        }
        outstanding.synchronize(Access::Read, limit)?;
        outstanding.look();
        Ok(())
    }

    /// The event of the last work that wrote it, where that may be pending.
    ///
    /// # Errors
    /// [`Error::Hook`]: why there is no event behind work that may be pending. [`Error::Claim`] as of
    /// [`Tensor::synchronize`].
    #[inline]
    pub fn ready(&self) -> Result<Option<Event>, Error> {
        self.memory().check_claim()?;
        let outstanding = self.memory().outstanding();
        if !outstanding.is_busy() {
            return Ok(None);
        }
        outstanding.last_write()
    }

    /// Makes `stream` wait for all work on the tensor. Call it before you enqueue your own work that writes
    /// the tensor, and [`Tensor::written_on`] after.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub fn wait_to_write(&self, stream: &Stream) -> Result<(), Error> {
        order::wait(stream, Accesses::writes(self))
    }

    /// Makes `stream` wait for the last work that wrote the tensor. Call it before you enqueue your own work
    /// that reads the tensor, and [`Tensor::used_on`] after.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub fn wait_to_read(&self, stream: &Stream) -> Result<(), Error> {
        order::wait(stream, Accesses::reads(self))
    }

    /// Says that work of your own on `stream` writes the tensor: later uses of the tensor wait for that
    /// work, and the memory outlives it.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is read-only; [`Error::Hook`].
    pub fn written_on(&self, stream: &Stream) -> Result<(), Error> {
        self.check_not_read_only("say that work writes a tensor")?;
        order::note(stream, Accesses::writes(self), true)
    }

    /// Says that the content is ready once everything that is on `stream` now is done, which is work
    /// of the producer that the tensor came from. Every later use of the tensor waits for that work.
    /// Dropping memory of the producer's own does not: the producer keeps it until then. Memory of this
    /// library's own that came back from a producer, and another device's view of memory, have no
    /// other keeper, and outlive the work.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub fn ready_on(&self, stream: &Stream) -> Result<(), Error> {
        order::note(stream, Accesses::writes(self), false)
    }

    /// Says that work of your own on `stream` reads the tensor: later writes of the tensor wait for that
    /// work, and the memory outlives it.
    ///
    /// # Errors
    /// [`Error::Hook`].
    pub fn used_on(&self, stream: &Stream) -> Result<(), Error> {
        order::note(stream, Accesses::reads(self), true)
    }

    /// Hands the tensor out as a DLPack 1.3 managed tensor, ready when this returns: the CPU waits
    /// for work that may still write it.
    ///
    /// # Errors
    /// As [`Tensor::export_unordered`]; the failure of the work that wrote it.
    #[inline]
    pub fn export(&self) -> Result<Produced, Error> {
        let memory = self.memory();
        if memory.outstanding().is_busy() {
            memory.outstanding().synchronize(Access::Read, None)?;
        }
        self.export_in(memory)
    }

    /// The same if that needs no wait; `None` where work that writes it may still run.
    ///
    /// # Errors
    /// As [`Tensor::export`].
    #[inline]
    pub fn try_export(&self) -> Result<Option<Produced>, Error> {
        let memory = self.memory();
        if !memory.outstanding().is_busy() {
            return self.export_in(memory).map(Some);
        }
        match self.ready()? {
            Some(_pending) => Ok(None),
            // Not `export`: another thread may have entered a write meanwhile, which that waits for.
            None => self.export_in(memory).map(Some),
        }
    }

    /// Hands the tensor out as a DLPack 1.3 managed tensor for work on `stream`, as
    /// [`Tensor::wait_to_export`] has it.
    ///
    /// # Errors
    /// As [`Tensor::export_unordered`]; [`Error::Hook`].
    pub fn export_on(&self, stream: &Stream) -> Result<Produced, Error> {
        self.wait_to_export(stream)?;
        self.export_unordered()
    }

    /// Makes `stream` wait for what work of a consumer on it has to come after: what may still write
    /// the tensor, and what may still read it, because the consumer may write it. Nobody can write
    /// a read-only tensor.
    ///
    /// # Errors
    /// [`Error::Hook`]; the failure of the work that wrote it.
    pub fn wait_to_export(&self, stream: &Stream) -> Result<(), Error> {
        let access = if self.is_read_only() {
            Access::Read
        } else {
            Access::Both
        };
        order::come_after(stream, self.memory(), access)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossdock_sdk::dlpack::{Dtype, Layout};

    use crate::test_plugins::test_plugin_streams::{devices, given};
    use crate::{Stream, Tensor};

    #[test]
    fn who_must_not_wait_waits_for_no_write_that_comes_meanwhile() {
        let ([device, _], given) = (devices::<38>(), given::<38>());
        let layout = Layout::compact(Dtype::UINT8, &[4]).unwrap();
        let tensor = Tensor::empty(&device, &layout).unwrap();
        let stream = || Stream::new(&device).unwrap();
        // Of two it is asked which is over.
        tensor.written_on(&stream()).unwrap();
        tensor.written_on(&stream()).unwrap();
        let (other, later) = (tensor.clone(), stream());
        let write = move || other.written_on(&later).unwrap();
        *given.in_event_query.lock().unwrap() = Some(Arc::new(write));
        assert!(tensor.try_export().unwrap().is_some(), "it was ready");
        assert!(given.in_event_query.lock().unwrap().is_none());
        assert_eq!(*given.limits.lock().unwrap(), [0; 0], "nobody waited");
    }
}
