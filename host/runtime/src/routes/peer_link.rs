//! The link between two devices of one plugin: asked for, enabled, and proved before a program's copy goes over
//! it.
//!
//! A proof copies a pattern each way, by streams of either device, and the device that received it sends it to
//! the host. The writer must not read it back itself: a link may write to a mirror of the peer's memory that
//! the writer alone sees. Each pattern is new, so that bytes which arrived earlier prove nothing.
//!
//! A move without a stream proves the link, and so does an explanation of one. A move on a stream uses what is
//! known already: a proof could wait behind work that the caller holds. Where nothing is known the link stays
//! disabled, and the plugin copies in its own way. A proof that failed proves nothing: the link is disabled, and
//! the next move tries again, or after `RETRY_PAUSE` where the pattern did not arrive in time.

use std::sync::Arc;
use std::time::Duration;

use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::deadline::Deadline;
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::copies::transfer;
use crate::devices::device::Device;
use crate::devices::host_device;
use crate::error::Error;
use crate::plugins::peer_links::{Link, Pair, Proof, UnsubmittedCopy, WithoutLink};
use crate::process::trace;
use crate::routes::plan::{End, MeasurePolicy};
use crate::streams::stream::Stream;
use crate::tensors::tensor::Tensor;

/// What is known of the link between the two devices of a copy.
#[derive(Debug)]
pub(crate) struct LinkOfCopy<'a> {
    pub(crate) link: Link,
    /// Where nothing is known of the link, keeps others from enabling it until the copy is submitted.
    _copy: Option<UnsubmittedCopy<'a>>,
}

impl<'a> LinkOfCopy<'a> {
    /// For a copy from one end to the other; `None` where there can be no link. Proves the link where the caller
    /// may wait for that.
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
            prove_if_unknown(one, other, policy == MeasurePolicy::Always);
        }
        let links = one.plugin().peer_links();
        let (link, copy) = links.begin_copy(pair(one, other), WAIT_LIMIT);
        Some(Self { link, _copy: copy })
    }
}

fn pair(one: &Device, other: &Device) -> Pair {
    Pair::of(one.index(), other.index())
}

/// Finds out what is not known of the link yet. After a pattern that did not arrive in time, moves do not try again
/// for a while; explanations do.
fn prove_if_unknown(one: &Device, other: &Device, is_explained: bool) {
    let links = one.plugin().peer_links();
    let Some(mut proof) = links.begin_proof(pair(one, other), WAIT_LIMIT, is_explained) else {
        return;
    };
    let _span = trace::span("route", "prove link", || {
        let ends = [one, other].map(|device| device.id().to_string());
        serde_json::json!({ "between": ends })
    });
    let was_untrusted = matches!(proof.link, Link::Untrusted(..));
    if let Err(error) = prove_any((one, other), &mut proof) {
        let why = error.why();
        if error.status() == Some(Status::TIMEOUT) {
            proof.pause(RETRY_PAUSE);
        }
        log::debug!(
            target: "crossdock::route",
            "the link of `{one}` and `{other}` is not proved: {why}"
        );
    }
    if let Link::Untrusted(what, without) = &proof.link
        && !was_untrusted
    {
        let plugin = one.plugin().name();
        let instead = match without {
            WithoutLink::Proved => "the plugin copies without it",
            WithoutLink::Unknown | WithoutLink::Untrusted => "copies go through host memory",
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
    if let Link::Unknown { .. } | Link::Stuck(_) = proof.link {
        if !is_claimed(one, proof.pair())? {
            proof.link = Link::Absent(None);
            return Ok(());
        }
        let proved = enable(one, proof).and_then(|()| prove(one, other));
        proof.link = match proved {
            Ok(None) => Link::Proved,
            Ok(Some(what)) => Link::Untrusted(what, WithoutLink::Unknown),
            Err(error) => {
                let is_disabled = proof.link == Link::UNTRIED || disable(one, proof.pair()).is_ok();
                proof.link = match is_disabled {
                    true => unproved(&error),
                    false => Link::Stuck(format!("{error}: {}", error.why()).into()),
                };
                return Err(error);
            }
        };
    }
    let pair = proof.pair();
    if let Link::Untrusted(_, without @ WithoutLink::Unknown) = &mut proof.link {
        disable(one, pair)?;
        let missing = prove(one, other)?;
        *without = missing.map_or(WithoutLink::Proved, |_| WithoutLink::Untrusted);
    }
    Ok(())
}

/// What is known of a link whose proof failed, and which is disabled: nothing, or that the plugin declined what it
/// had claimed.
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

/// Enables both directions. From the first one on the link counts as enabled, whatever follows.
fn enable(device: &Device, proof: &mut Proof<'_>) -> Result<(), Error> {
    for (index, peer) in proof.pair().directions() {
        device.hooks().peer_enable(index, peer)?;
        proof.link = Link::Unknown { is_enabled: true };
    }
    Ok(())
}

/// Disables both directions, the second one also where the first one fails.
fn disable(device: &Device, pair: Pair) -> Result<(), Error> {
    let ended = pair.directions();
    let ended = ended.map(|(index, peer)| device.hooks().peer_disable(index, peer));
    ended.into_iter().collect()
}

/// One of the two devices, with memory and a stream of its own.
struct LinkEnd {
    memory: Tensor,
    /// `None` where the plugin has no streams, and each copy is done when its hook returns.
    stream: Option<Stream>,
}

impl LinkEnd {
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
            Some(stream) => stream.record_own()?.synchronize(deadline.left()),
            None => Ok(()),
        }
    }
}

/// Sends patterns each way by either device's stream, and says what did not arrive.
fn prove(one: &Device, other: &Device) -> Result<Option<Arc<str>>, Error> {
    let layout = Layout::compact(Dtype::UINT8, &[BYTES])?;
    let sides = (LinkEnd::new(one, &layout)?, LinkEnd::new(other, &layout)?);
    // The time begins here: what a driver does once, such as making a context, is not counted.
    let deadline = Deadline::after(Some(ARRIVAL_LIMIT));
    for (from, to) in [(&sides.0, &sides.1), (&sides.1, &sides.0)] {
        let (mut arrives, mut declined) = (false, None);
        for maker in [from, to] {
            match missing_bytes((from, to), maker, deadline) {
                Ok(0) => arrives = true,
                Ok(missing) => return Ok(Some(describe_missing(missing, from, to))),
                // Programs' copies on a stream of this device are declined too, so there is nothing to prove.
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

/// Names the devices by their index in the plugin: their ids differ from runtime to runtime.
fn describe_missing(missing: usize, from: &LinkEnd, to: &LinkEnd) -> Arc<str> {
    let [from, to] = [from, to].map(|side| side.memory.device().index());
    format!("{missing} of {BYTES} bytes from its device {from} did not arrive on its device {to}")
        .into()
}

/// Sends a pattern from one end to the other by the plugin call of `maker`, and counts the bytes that did not
/// arrive.
fn missing_bytes(
    (from, to): (&LinkEnd, &LinkEnd),
    maker: &LinkEnd,
    deadline: Deadline,
) -> Result<usize, Error> {
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

/// The bytes of a pattern: different for each number, and at each place.
fn pattern(number: u32) -> Vec<u8> {
    let words =
        (1..=WORDS).map(|at| at.wrapping_mul(0x9e37_79b1) ^ number.wrapping_mul(0x85eb_ca6b));
    words.flat_map(u32::to_le_bytes).collect()
}

/// The longest that a pattern may take to arrive: work that a program holds may stand before it.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(1);

/// For so long moves do not try again after that: the work may be held for longer still.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The longest that a copy waits for a proof, and a proof for copies that are not submitted: longer than two proofs
/// take.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// More than drivers send inline with a command, so that the pattern goes over the link.
const WORDS: u32 = 16 << 10;
const BYTES: i64 = 4 * WORDS as i64;
