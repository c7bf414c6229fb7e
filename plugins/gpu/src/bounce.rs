//! Copies of pageable memory on a stream. The driver would make the caller wait for them; so host functions move the
//! bytes, through pinned memory of the stream's own.
#![expect(unsafe_code, reason = "moves bytes between addresses")]

use std::sync::{Arc, Mutex};

use crossdock_sdk::abi::Status;
use crossdock_sdk::log;

use crate::TARGET;
use crate::blocks::room_for;
use crate::current::Entered;
use crate::device::locked;
use crate::ended_streams::EndedStream;
use crate::fault::Fault;
use crate::host_call::Function;
use crate::memory::pinned;
use crate::native::NativeEvent;
use crate::place::Place;
use crate::progress::Progress;
use crate::stream::Stream;
use crate::vendor::{CopyDirection, Kind, Vendor};
use crate::work::{finish, follow, submit_all};

/// What a stream keeps for such copies: pinned blocks, and a second stream, so that the host moves the bytes of one
/// part while the device moves those of another.
#[derive(Debug)]
pub(crate) struct Bounce<V: Vendor> {
    blocks: [Option<Block>; LANES],
    helper: Option<u64>,
    /// The end of the last copy on a stream of others; none where it could not be marked.
    end: Option<Arc<NativeEvent<V>>>,
}

impl<V: Vendor> Default for Bounce<V> {
    fn default() -> Self {
        Self {
            blocks: [None; LANES],
            helper: None,
            end: None,
        }
    }
}

/// Pinned memory, which one of the two streams uses in its order.
#[derive(Debug, Clone, Copy)]
struct Block {
    address: u64,
    room: u64,
}

/// A stream with a block of its own.
#[derive(Debug, Clone, Copy)]
struct Lane {
    stream: u64,
    block: u64,
}

/// A copy where the stream calls the host, which moves the bytes to or from pinned memory. `stream` has the blocks, and
/// the work goes on the native stream `on`: its own, or another one where the memory is of another context.
///
/// # Safety
/// - Both sides are valid for `bytes` until the copy is done.
pub(crate) unsafe fn bounced<V: Vendor>(
    inside: &Entered<'_, V>,
    (stream, on): (&Stream<V>, u64),
    [dst, src]: [&Place<V>; 2],
    bytes: u64,
) -> Result<(), Fault> {
    let permit = Arc::new(Permit::default());
    let calls = &inside.device.calls;
    let put = |lane: u64, to: u64, from: u64, bytes: u64| {
        let part = Part { to, from, bytes };
        // SAFETY: by the caller's promise, and as the permit is withdrawn where the copy is refused.
        calls.put(inside, lane, unsafe { part.under(&permit) })
    };
    if dst.is_host() && src.is_host() {
        return put(on, dst.address, src.address, bytes);
    }
    let room = room_for(bytes.clamp(SMALLEST, LARGEST)).unwrap_or(LARGEST);
    let lanes = lanes(inside, stream, on, (bytes, room))?;
    let parts = (0..bytes.div_ceil(room)).map(|at| {
        let start = at * room;
        (start, room.min(bytes - start))
    });
    let part = |(start, length): (u64, u64), Lane { stream, block }: Lane| {
        let copy = |direction, to, from| {
            // SAFETY: the lane's stream uses its block in its order, and a block goes back only behind that stream
            // (`return_block`, `end_bounce`); the other side is valid by the caller's promise.
            inside.ask(|vendor| unsafe { vendor.copy(direction, to, from, length, stream) })
        };
        if src.is_pageable() {
            put(stream, block, src.address + start, length)?;
            copy(CopyDirection::HostToDevice, dst.address + start, block).map_err(Fault::of_begun)
        } else {
            copy(CopyDirection::DeviceToHost, block, src.address + start)?;
            put(stream, dst.address + start, block, length).map_err(Fault::of_begun)
        }
    };
    let lanes_of_parts = parts.zip(lanes.iter().copied().cycle());
    let done = submit_all(lanes_of_parts, |(bytes, lane)| part(bytes, lane));
    // Where a part is refused, those before it are on the streams already. The copy has failed for the caller, who
    // may free the memory: so they must not touch it any more.
    let done = done.inspect_err(|_| permit.withdraw());
    let joined = join(inside, stream, on, &lanes).map_err(Fault::of_begun);
    done.and(joined.inspect_err(|_| permit.withdraw()))
}

/// The lanes of a copy: the stream itself, and its helper where there is more than one part. A copy in another context
/// than the stream's has one lane, as the helper is of the stream's context.
fn lanes<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: &Stream<V>,
    on: u64,
    (bytes, room): (u64, u64),
) -> Result<Vec<Lane>, Fault> {
    let first = Lane {
        stream: on,
        block: stream.block(inside, on, 0, room)?,
    };
    if bytes <= room || on != stream.raw {
        return Ok(vec![first]);
    }
    let helper = stream.helper(inside)?;
    let second = Lane {
        stream: helper,
        block: stream.block(inside, on, 1, room)?,
    };
    let begin = NativeEvent::record(&stream.device, inside, stream.context, on)?;
    begin.hold(inside, helper)?;
    Ok(vec![first, second])
}

/// Lets the stream wait for its helper.
fn join<V: Vendor>(
    inside: &Entered<'_, V>,
    stream: &Stream<V>,
    on: u64,
    lanes: &[Lane],
) -> Result<(), Fault> {
    let Some(helper) = lanes.get(1) else {
        return Ok(());
    };
    let mark = || NativeEvent::record(&stream.device, inside, stream.context, helper.stream);
    // This thread may be who lets the work go on, so it waits only if a second try fails too.
    let end = mark().or_else(|_| mark()).inspect_err(|_| {
        let _over = finish(inside, helper.stream);
    })?;
    follow(inside, on, &end)
}

impl<V: Vendor> Stream<V> {
    /// A block of at least so many bytes, which the stream's work uses in its order. A smaller one is returned on `on`,
    /// a stream of the context that was entered: it comes behind all work with that block.
    fn block(
        &self,
        inside: &Entered<'_, V>,
        on: u64,
        lane: usize,
        room: u64,
    ) -> Result<u64, Fault> {
        let known = locked(&self.bounce).blocks.get(lane).copied().flatten();
        if let Some(block) = known.filter(|block| block.room >= room) {
            return Ok(block.address);
        }
        let address = pinned(&self.device, room)?;
        if let Some(smaller) = known {
            // Refused, the stream keeps the smaller block.
            let returned = self.return_block(inside, on, smaller);
            returned.inspect_err(|_| self.device.blocks.give(Kind::Pinned, room, address))?;
        }
        let mut bounce = locked(&self.bounce);
        if let Some(slot) = bounce.blocks.get_mut(lane) {
            *slot = Some(Block { address, room });
        }
        Ok(address)
    }

    /// The second stream, made at its first use.
    fn helper(&self, inside: &Entered<'_, V>) -> Result<u64, Fault> {
        let known = locked(&self.bounce).helper;
        if let Some(helper) = known {
            return Ok(helper);
        }
        let helper = inside.ask(Vendor::create_stream)?;
        locked(&self.bounce).helper = Some(helper);
        Ok(helper)
    }

    /// Gives a block back when a stream gets here that comes behind all work with it.
    fn return_block(&self, inside: &Entered<'_, V>, on: u64, block: Block) -> Result<(), Fault> {
        let blocks = Arc::clone(&self.device.blocks);
        let Block { address, room } = block;
        let give = Box::new(move || blocks.give(Kind::Pinned, room, address));
        inside.device.calls.put(inside, on, give)
    }

    /// Marks the end of a copy that was put on a stream of others: by the time that we give back what the stream keeps,
    /// its owner may have ended it.
    pub(crate) fn mark_bounce(&self) {
        if self.is_own() || !self.has_bounce() {
            return;
        }
        let mark = |known: Option<Arc<NativeEvent<V>>>| {
            // Refused where a capture has begun since: the event would be in it.
            let inside = self.admit("event_record")?;
            match known {
                Some(end) => end.again(&inside, self.raw),
                None => NativeEvent::record(&self.device, &inside, self.context, self.raw),
            }
        };
        let known = locked(&self.bounce).end.take();
        // The copy is on the stream, so this is no failure of the copy's: it is tried once more, by another event.
        match mark(known).or_else(|_| mark(None)) {
            Ok(end) => locked(&self.bounce).end = Some(end),
            // The stream goes on with its blocks in its order, and the next copy marks its end again.
            Err(fault) => log::warn!(target: TARGET, "the end of a copy is not known: {fault}"),
        }
    }

    /// Gives back what the stream keeps.
    pub(crate) fn end_bounce(&self, inside: &Entered<'_, V>) {
        let bounce = std::mem::take(&mut *locked(&self.bounce));
        let Bounce {
            blocks,
            mut helper,
            end,
        } = bounce;
        let after = if self.is_own() {
            // Others that know it may capture it.
            let refused = self.refuse_capture(inside, "stream_destroy");
            refused.map(|()| Some(self.raw))
        } else {
            let why = "the end of a copy was not marked";
            let end = end.ok_or_else(|| Fault::new(Status::VENDOR, "event_record", why));
            end.and_then(|end| self.stream_after(inside, &end, &mut helper))
        };
        match after {
            Ok(on) => self.give_all(inside, on, &blocks),
            Err(fault) => self.log_kept_until_close(&blocks, &fault),
        }
        if let Some(helper) = helper {
            // Its work completes all the same.
            self.device
                .end_stream(inside, self.context, EndedStream::hidden(helper));
        }
    }

    /// Ends the stream where nothing can be called in its context now: what it keeps stays until the close.
    pub(crate) fn abandon(&self, fault: &Fault) {
        let bounce = std::mem::take(&mut *locked(&self.bounce));
        self.log_kept_until_close(&bounce.blocks, fault);
        let own = self.is_own();
        let own = own.then(|| EndedStream::new(self.raw, self.is_shown()));
        let helper = bounce.helper.map(EndedStream::hidden);
        for stream in own.into_iter().chain(helper) {
            // One of a context of others goes with that.
            let _of_others = self.device.remember_stream(self.context, stream);
        }
    }

    /// A stream of ours, the helper, that comes behind an event; none where that has happened. Nothing but "done"
    /// is trusted: a failure may be one of the question, asked twice, while the work still uses the blocks. A stream that
    /// waits for an event of a capture joins the capture, so none does.
    fn stream_after(
        &self,
        inside: &Entered<'_, V>,
        end: &NativeEvent<V>,
        helper: &mut Option<u64>,
    ) -> Result<Option<u64>, Fault> {
        match end.progress() {
            Ok(Progress::Done) => return Ok(None),
            Err(fault) if fault.status == Status::CAPTURING => return Err(fault),
            Ok(Progress::Running | Progress::Failed(_)) | Err(_) => {}
        }
        let on = match *helper {
            Some(known) => known,
            None => *helper.insert(inside.ask(Vendor::create_stream)?),
        };
        end.hold(inside, on)?;
        Ok(Some(on))
    }

    /// Gives all blocks back, when a stream gets here or at once.
    fn give_all(&self, inside: &Entered<'_, V>, on: Option<u64>, blocks: &[Option<Block>]) {
        let blocks = blocks.iter().flatten();
        let Some(on) = on else {
            let give = |block: &Block| {
                let idle = &self.device.blocks;
                idle.give(Kind::Pinned, block.room, block.address);
            };
            return blocks.for_each(give);
        };
        let mut is_any = false;
        for block in blocks {
            is_any = true;
            if let Err(fault) = self.return_block(inside, on, *block) {
                self.log_kept_until_close(&[Some(*block)], &fault);
            }
        }
        let home = self.device.known_home();
        if is_any && home.is_some_and(|home| home.context == self.context) {
            // Where this fails, the close waits for that work all the same: its first free of a block waits for the device.
            let told = self.device.remember_end(inside, on);
            told.unwrap_or_else(|fault| log::warn!(target: TARGET, "{fault}"));
        }
    }

    /// Says which blocks stay until the plugin is closed, as nobody will know before when they are free.
    fn log_kept_until_close(&self, blocks: &[Option<Block>], fault: &Fault) {
        for Block { room, .. } in blocks.iter().flatten() {
            log::warn!(target: TARGET, "{room} pinned bytes stay until the close: {fault}");
        }
    }

    /// Whether the stream keeps something.
    pub(crate) fn has_bounce(&self) -> bool {
        let bounce = locked(&self.bounce);
        bounce.helper.is_some() || bounce.blocks.iter().any(Option::is_some)
    }
}

/// Whether the parts of a copy may still use the caller's memory: no longer once the copy was refused halfway.
#[derive(Debug, Default)]
struct Permit {
    is_withdrawn: Mutex<bool>,
}

impl Permit {
    /// Takes the permission back. Waits for a part that is being moved, which is short.
    fn withdraw(&self) {
        *locked(&self.is_withdrawn) = true;
    }
}

/// A part of a copy that the host makes.
#[derive(Debug, Clone, Copy)]
struct Part {
    to: u64,
    from: u64,
    bytes: u64,
}

impl Part {
    /// The host function that moves the part, if the permit still holds then.
    ///
    /// # Safety
    /// - Both sides are valid until the part was moved, or the permit is withdrawn, and do not overlap.
    unsafe fn under(self, permit: &Arc<Permit>) -> Function {
        let permit = Arc::clone(permit);
        Box::new(move || {
            let is_withdrawn = locked(&permit.is_withdrawn);
            if !*is_withdrawn {
                // SAFETY: the part was not moved yet, and the lock keeps the permit from being withdrawn meanwhile.
                unsafe { self.copy() };
            }
        })
    }

    /// # Safety
    /// - Both sides are valid for the bytes, and do not overlap.
    unsafe fn copy(self) {
        let size = |address: u64| usize::try_from(address).unwrap_or(0);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(size(self.to));
        let from = std::ptr::with_exposed_provenance::<u8>(size(self.from));
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, size(self.bytes)) };
    }
}

const LANES: usize = 2;
/// Bytes of a block.
const SMALLEST: u64 = 64 << 10;
const LARGEST: u64 = 1 << 20;
