//! The link between two devices of one plugin: asked for, enabled, and proved before a copy of a program's
//! goes over it.
//!
//! A proof copies a pattern each way by streams of either device, and lets the device that has it then send it
//! home: what a write left in a mirror of the peer's memory its writer would read back. The patterns are never
//! the same, so that what arrived earlier proves nothing.
//!
//! It is made by a move without a stream, and by an explanation of one. A move on a stream finds what is known:
//! it must not wait for work that is held, behind which a proof may stand too, so a link that nobody proved is
//! left alone, and the plugin goes its own way. A proof that failed is none: the link is disabled, and the next
//! move tries again; after a while only, where the devices were held up.

use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::copies::transfer;
use crate::devices::device::Device;
use crate::devices::host_device;
use crate::error::Error;
use crate::plugins::peer_links::{Link, OwnWay, Pair, Pass, Proof};
use crate::process::trace;
use crate::routes::plan::{End, MeasurePolicy};
use crate::streams::stream::Stream;
use crate::tensors::tensor::Tensor;

/// What a copy between two devices of a plugin that has links finds.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    pub(crate) link: Link,
    /// Keeps a link from being enabled of which nothing is known.
    _pass: Option<Pass<'a>>,
}

impl<'a> Passage<'a> {
    /// For a copy from one end to the other; `None` where no link could be between them. It is proved here
    /// where the caller may wait for that.
    pub(super) fn between(from: &End<'a>, to: &End<'a>, policy: MeasurePolicy) -> Option<Self> {
        let (one, other) = (from.device, to.device);
        let is_of_host = |end: &End<'_>| end.kind == MemoryKind::PINNED;
        let hooks = one.hooks();
        // In the child of a fork the lock may be that of a thread which this process does not have.
        if hooks.table().peer().is_none() || is_of_host(from) || is_of_host(to) || hooks.is_forked()
        {
            return None;
        }
        if policy != MeasurePolicy::Never {
            find_out(one, other, policy == MeasurePolicy::Always);
        }
        let links = one.plugin().peer_links();
        let (link, pass) = links.pass(pair(one, other), PATIENCE);
        Some(Self { link, _pass: pass })
    }
}

fn pair(one: &Device, other: &Device) -> Pair {
    Pair::of(one.index(), other.index())
}

/// Finds out what is not known of the link yet. Whoever explains wants to know it; a move tries no more for
/// a while where what was sent did not arrive in time.
fn find_out(one: &Device, other: &Device, is_explained: bool) {
    let links = one.plugin().peer_links();
    let Some(mut proof) = links.begin(pair(one, other), PATIENCE, is_explained) else {
        return;
    };
    let _span = trace::span("route", "prove link", || {
        let ends = [one, other].map(|device| device.id().to_string());
        serde_json::json!({ "between": ends })
    });
    let was_lying = matches!(proof.link, Link::Lies(..));
    if let Err(error) = prove_any((one, other), &mut proof) {
        let why = error.why();
        if error.status() == Some(Status::TIMEOUT) {
            proof.rest(REST);
        }
        log::debug!(
            target: "crossdock::route",
            "the link of `{one}` and `{other}` is not proved: {why}"
        );
    }
    if let Link::Lies(what, own_way) = &proof.link
        && !was_lying
    {
        let plugin = one.plugin().name();
        let instead = match own_way {
            OwnWay::Proved => "the plugin copies without it",
            OwnWay::Open | OwnWay::Lies => "copies go through host memory",
        };
        log::warn!(
            target: "crossdock::route",
            "the link of `{one}` and `{other}` that `{plugin}` claims is not used: \
             {what}; {instead}"
        );
    }
}

/// Proves the link, and the plugin's own way where the link lies.
fn prove_any((one, other): (&Device, &Device), proof: &mut Proof<'_>) -> Result<(), Error> {
    if let Link::Open { .. } = proof.link {
        if !is_claimed(one, proof.pair())? {
            proof.link = Link::Absent(None);
            return Ok(());
        }
        let proved = enable(one, proof).and_then(|()| prove(one, other));
        proof.link = match proved {
            Ok(None) => Link::Proved,
            Ok(Some(what)) => Link::Lies(what, OwnWay::Open),
            Err(error) => {
                if proof.link != Link::UNTRIED {
                    disable(one, proof.pair())?;
                }
                proof.link = unproved(&error);
                return Err(error);
            }
        };
    }
    let pair = proof.pair();
    if let Link::Lies(_, own_way @ OwnWay::Open) = &mut proof.link {
        disable(one, pair)?;
        let lost = prove(one, other)?;
        *own_way = lost.map_or(OwnWay::Proved, |_| OwnWay::Lies);
    }
    Ok(())
}

/// What is known of a link that could not be proved, and is disabled. The plugin may decline what it claimed.
fn unproved(error: &Error) -> Link {
    if error.is_unsupported() {
        return Link::Absent(Some(error.why().into()));
    }
    Link::UNTRIED
}

/// Whether the plugin says that each device reaches the other.
fn is_claimed(device: &Device, pair: Pair) -> Result<bool, Error> {
    for (index, peer) in pair.directions() {
        if !device.hooks().peer_can_access(index, peer)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Both directions. From the first on the link counts as enabled, whatever follows.
fn enable(device: &Device, proof: &mut Proof<'_>) -> Result<(), Error> {
    for (index, peer) in proof.pair().directions() {
        device.hooks().peer_enable(index, peer)?;
        proof.link = Link::Open { is_enabled: true };
    }
    Ok(())
}

/// Both directions, the second also where the first one stays.
fn disable(device: &Device, pair: Pair) -> Result<(), Error> {
    let ended = pair.directions();
    let ended = ended.map(|(index, peer)| device.hooks().peer_disable(index, peer));
    ended.into_iter().collect()
}

/// One of the two devices, with memory and a stream of its own.
struct Side {
    memory: Tensor,
    /// `None` where the plugin has no streams, and each copy is done when its hook returns.
    stream: Option<Stream>,
}

impl Side {
    fn new(device: &Device, layout: &Layout) -> Result<Self, Error> {
        let has_streams = device.hooks().table().streams().is_some();
        Ok(Self {
            memory: Tensor::empty(device, layout)?,
            stream: has_streams.then(|| Stream::new(device)).transpose()?,
        })
    }

    /// Copies by this device's plugin on its stream.
    fn copy(&self, dst: &Tensor, src: &Tensor) -> Result<(), Error> {
        transfer::copy_tensor(self.memory.device(), dst, src, self.stream.as_ref())
    }

    fn synchronize(&self, deadline: Deadline) -> Result<(), Error> {
        match &self.stream {
            Some(stream) => stream.record()?.synchronize(deadline.left()),
            None => Ok(()),
        }
    }
}

/// Sends patterns each way by either device's stream, and says what did not arrive.
fn prove(one: &Device, other: &Device) -> Result<Option<Arc<str>>, Error> {
    let layout = Layout::compact(Dtype::UINT8, &[BYTES])?;
    let sides = (Side::new(one, &layout)?, Side::new(other, &layout)?);
    // What a driver does once, as making a context, takes no time from what is sent.
    let deadline = Deadline::after(Some(LIMIT));
    for (from, to) in [(&sides.0, &sides.1), (&sides.1, &sides.0)] {
        let (mut arrives, mut declined) = (false, None);
        for maker in [from, to] {
            match lost((from, to), maker, deadline) {
                Ok(0) => arrives = true,
                Ok(lost) => return Ok(Some(loss(lost, from, to))),
                // So are the copies of programs on a stream of this device.
                Err(error) if error.is_unsupported() => declined = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = declined.filter(|_| !arrives) {
            return Err(error);
        }
    }
    Ok(None)
}

/// Devices by their place in the plugin: each runtime numbers them by itself.
fn loss(lost: usize, from: &Side, to: &Side) -> Arc<str> {
    let [from, to] = [from, to].map(|side| side.memory.device().index());
    format!("{lost} of {BYTES} bytes from its device {from} did not arrive on its device {to}")
        .into()
}

/// How many bytes do not arrive.
fn lost((from, to): (&Side, &Side), maker: &Side, deadline: Deadline) -> Result<usize, Error> {
    let device = from.memory.device();
    let Some(host) = host_device::get() else {
        let why = "without the built-in device of the host no link is proved".to_owned();
        return Err(device.refusal("peer_enable", Status::UNSUPPORTED, why));
    };
    let layout = from.memory.layout();
    let sent = pattern(device.plugin().peer_links().next_pattern());
    let out = Tensor::from_bytes(&host, layout, &sent)?;
    let home = Tensor::empty(&host, layout)?;
    from.copy(&from.memory, &out)?;
    maker.copy(&to.memory, &from.memory)?;
    to.copy(&home, &to.memory)?;
    to.synchronize(deadline)?;
    let arrived = home.read()?;
    let differ = sent
        .iter()
        .zip(&arrived)
        .filter(|(one, other)| one != other);
    Ok(differ.count())
}

/// Bytes that no other number gives, and that differ from place to place.
fn pattern(number: u32) -> Vec<u8> {
    let words =
        (1..=WORDS).map(|at| at.wrapping_mul(0x9e37_79b1) ^ number.wrapping_mul(0x85eb_ca6b));
    words.flat_map(u32::to_le_bytes).collect()
}

/// So long what a proof sends may take to arrive. It may stand behind work that is held.
const LIMIT: Duration = Duration::from_secs(1);

/// So long moves do not try again then: what holds the devices up may take longer still.
const REST: Duration = Duration::from_secs(10);

/// So long others wait for a proof, and a proof for copies that are not submitted: longer than two take.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than drivers send along with a command.
const WORDS: u32 = 16 << 10;
const BYTES: i64 = 4 * WORDS as i64;
