//! The ways to copy between two devices: which side makes the copy, and what it is told.

use std::cell::Cell;
use std::sync::Arc;

use crate::copies::elements;
use crate::copies::order;
use crate::copies::stage;
use crate::copies::stage_on_stream;
use crate::copies::transfer;
use crate::devices::device::Device;
use crate::error::Error;
use crate::route_data::kinds::Way;
use crate::routes::plan::End;
use crate::streams::stream::Stream;
use crate::tensors::tensor::Tensor;

impl Way {
    /// What both ends allow, in the order in which to try it when no cost is known.
    pub(crate) fn all(from: &End<'_>, to: &End<'_>) -> Vec<Self> {
        if Arc::ptr_eq(from.device.plugin(), to.device.plugin()) {
            return vec![Self::BySource, Self::Staged];
        }
        let mut all = Vec::with_capacity(Self::EACH.len());
        if to.by_host {
            all.push(Self::BySource);
        }
        if from.by_host {
            all.push(Self::ByDestination);
        }
        all.push(Self::Staged);
        all
    }

    /// Whether it takes memory beside that of both ends, to pack what is strided.
    pub(crate) fn packs(self, src: &Tensor, dst: &Tensor) -> bool {
        let is_strided = [src, dst].iter().any(|end| !end.layout().is_contiguous());
        is_strided && (self.is_packed() || self == Self::Staged)
    }

    /// Which of the two makes it; `None`: both do.
    pub(crate) fn maker<T>(self, from: T, to: T) -> Option<T> {
        match self {
            Self::BySource | Self::PackedBySource => Some(from),
            Self::ByDestination | Self::PackedByDestination => Some(to),
            Self::Staged => None,
        }
    }

    /// Whether the copy is put into the order of a stream, and nobody waits for the work on that.
    pub(crate) fn follows(self, from: &Device, to: &Device, stream: &Stream) -> bool {
        let can = |device: &Device| {
            let has_streams = device.hooks().table().streams().is_some();
            has_streams || device.is_of(stream.device().plugin())
        };
        match self.maker(from, to) {
            // Either may have to pack.
            Some(_) if self.is_packed() => can(from) && can(to),
            Some(maker) => can(maker),
            None => stage_on_stream::obstacle(from, to, stream).is_none(),
        }
    }

    /// Copies every element of `src` to `dst`, which has the same shape and does not overlap it, in
    /// the order of a stream, or done when it returns. What a plugin cannot make as a strided copy is
    /// packed first, on the side where it is. Bits behind a last element that ends inside a byte are
    /// copied along.
    ///
    /// # Errors
    /// What the hooks answered; `UNSUPPORTED` changed nothing.
    pub(crate) fn copy(
        self,
        dst: &Tensor,
        src: &Tensor,
        stream: Option<&Stream>,
    ) -> Result<(), Error> {
        let Some(maker) = self.maker(src.device(), dst.device()) else {
            return stage(dst, src, stream);
        };
        let once = |dst: &Tensor, src: &Tensor| transfer::copy_tensor(maker, dst, src, stream);
        if self.is_packed() {
            return packed_first(dst, src, stream, once);
        }
        let mut refused = match once(dst, src) {
            Err(error) if error.is_unsupported() => error,
            done => return done,
        };
        let compact = elements::packed(src, stream)?;
        if !src.layout().is_contiguous() {
            refused = match once(dst, &compact) {
                Err(error) if error.is_unsupported() => error,
                done => return done,
            };
        }
        if dst.layout().is_contiguous() {
            return Err(refused);
        }
        packed_first(dst, &compact, stream, once)
    }
}

/// Copies what is compact, `once`, and packs and unpacks on either side of it.
fn packed_first(
    dst: &Tensor,
    src: &Tensor,
    stream: Option<&Stream>,
    once: impl Fn(&Tensor, &Tensor) -> Result<(), Error>,
) -> Result<(), Error> {
    let src = elements::packed(src, stream)?;
    if dst.layout().is_contiguous() {
        return once(dst, &src);
    }
    let packed = elements::room(dst.device(), dst.layout())?;
    once(&packed, &src)?;
    elements::unpack(dst, &packed, stream)
}

/// In the order of the stream if both ends allow that. Otherwise what is on it comes first, and the copy is done
/// when this returns: also if no stream of a plugin takes the memory, such as that of another OpenCL context.
fn stage(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    if src.device().hooks().is_forked() {
        // Any lock of what its devices share may be that of a thread which this process does not have.
        return Err(Error::Forked {
            operation: "copy an inherited tensor",
        });
    }
    let follows =
        |stream: &Stream| stage_on_stream::obstacle(src.device(), dst.device(), stream).is_none();
    if let Some(stream) = stream.filter(|stream| follows(stream)) {
        let is_refused = Cell::new(false);
        let once =
            |dst: &Tensor, src: &Tensor| stage_on_stream::stage(dst, src, stream, &is_refused);
        let staged = packed_first(dst, src, Some(stream), once);
        if !is_refused.get() {
            return staged;
        }
    }
    order::synchronize(stream)?;
    packed_first(dst, src, None, stage::stage)
}
