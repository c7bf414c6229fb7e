//! What a route says of itself: data, which becomes sentences when it is shown.

use std::fmt;
use std::sync::Arc;

use crossdock_sdk::dlpack;

use crate::copies::stage_on_stream;
use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::peer_links::{Link, WithoutLink};
use crate::route_data::costs::Cost;
use crate::route_data::kinds::{RouteKind, Way};
use crate::streams::stream::Stream;
use crate::streams::wait::{self, Waiter};

/// One end of a route: a device and the name of its plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Side {
    device: dlpack::Device,
    plugin: Arc<str>,
}

impl Side {
    fn of(device: &Device) -> Self {
        Self {
            device: device.id(),
            plugin: device.plugin().shared_name(),
        }
    }
}

/// One thing that a route does; its `Display` is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step(Done);

/// What a device lacks where a copy through host memory cannot follow a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Streams,
    HostEvents,
    HostCalls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Done {
    /// The caller waits where a stream cannot be followed.
    Waits,
    /// The caller waits for a copy through host memory, which follows no stream.
    WaitsForCopy(Side, Obstacle),
    /// A copy through host memory follows the stream; whether the caller waits for its oldest parts.
    FollowsStream { waits_for_parts: bool },
    /// Both devices are one.
    Nothing,
    /// A plugin adopts the memory of a device.
    Adopts(Arc<str>, dlpack::Device),
    /// A plugin maps its memory for the host.
    Maps(Arc<str>),
    /// A copy is made.
    Copies(Copy),
    /// What the copy does of the link between its devices.
    Linked(dlpack::Device, dlpack::Device, Link),
    /// Somebody waits where a stream of the first comes after one of the second.
    Ordered(Side, Side, Waiter),
}

impl Step {
    pub(crate) const WAITS: Self = Self(Done::Waits);
    pub(crate) const NOTHING: Self = Self(Done::Nothing);

    pub(crate) fn adopts(from: &Device, to: &Device) -> Self {
        Self(Done::Adopts(to.plugin().shared_name(), from.id()))
    }

    pub(crate) fn maps(from: &Device) -> Self {
        Self(Done::Maps(from.plugin().shared_name()))
    }

    /// A copy of so many bytes, which follows the stream or is made without one.
    pub(crate) fn copies(
        way: Way,
        (from, to): (&Device, &Device),
        (bytes, stream): (u64, Option<&Stream>),
    ) -> Self {
        let mut copy = Copy::by(way, from, to);
        if way == Way::Staged
            && let Some(stream) = stream
            && way.follows(from, to, stream)
        {
            copy.chunk_bytes = stage_on_stream::part_bytes(bytes, copy.chunk_bytes);
        }
        Self(Done::Copies(copy))
    }

    pub(crate) fn link(from: &Device, to: &Device, link: &Link) -> Self {
        Self(Done::Linked(from.id(), to.id(), link.clone()))
    }

    /// Who waits for a copy of so many bytes through host memory that is put on a stream.
    pub(crate) fn staged(from: &Device, to: &Device, stream: &Stream, bytes: u64) -> Self {
        use stage_on_stream::Obstacle as Of;
        let (device, obstacle) = match stage_on_stream::obstacle(from, to, stream) {
            None => {
                let chunk_bytes = from.shared().chunks().chunk_bytes();
                let waits_for_parts = stage_on_stream::exceeds_flight(bytes, chunk_bytes);
                return Self(Done::FollowsStream { waits_for_parts });
            }
            Some(Of::Streams(device)) => (device, Obstacle::Streams),
            Some(Of::HostEvents(device)) => (device, Obstacle::HostEvents),
            Some(Of::HostCalls(device)) => (device, Obstacle::HostCalls),
        };
        Self(Done::WaitsForCopy(Side::of(device), obstacle))
    }

    /// Who waits where a stream of one device comes after one of another.
    pub(crate) fn ordered(device: &Device, other: &Device) -> Option<Self> {
        let waiter = wait::who_waits(device, other)?;
        let sides = (Side::of(device), Side::of(other));
        Some(Self(Done::Ordered(sides.0, sides.1, waiter)))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Done::Waits => f.write_str("the caller waits for the work on the stream"),
            Done::WaitsForCopy(side, obstacle) => {
                f.write_str("the caller waits for the work on the stream, and for the copy: ")?;
                let missing = match obstacle {
                    Obstacle::Streams => "streams",
                    Obstacle::HostEvents => "host events",
                    Obstacle::HostCalls => "host functions",
                };
                write!(f, "`{}` has no {missing}", side.plugin)
            }
            Done::FollowsStream { waits_for_parts } => {
                f.write_str("all parts of the copy are submitted to streams")?;
                match waits_for_parts {
                    true => f.write_str(", and the caller waits for all but the last 64"),
                    false => f.write_str(" before the call returns"),
                }
            }
            Done::Nothing => f.write_str("the same device: the same memory"),
            Done::Adopts(plugin, from) => write!(f, "`{plugin}` adopts the memory of `{from}`"),
            Done::Maps(plugin) => write!(f, "`{plugin}` maps its memory for the host"),
            Done::Copies(copy) => copy.fmt(f),
            Done::Linked(from, to, link) => tell(f, (*from, *to), link),
            Done::Ordered(one, other, waiter) => {
                let (device, after) = (one.device, other.device);
                write!(
                    f,
                    "where a stream of `{device}` comes after one of `{after}`, "
                )?;
                match waiter {
                    Waiter::Caller => {
                        write!(f, "the caller waits: `{}` has no host events", one.plugin)
                    }
                    Waiter::Thread => write!(
                        f,
                        "a thread of the host waits: `{}` calls no function of the host",
                        other.plugin
                    ),
                }
            }
        }
    }
}

/// What is known of the link between two devices, and what follows.
fn tell(
    f: &mut fmt::Formatter<'_>,
    (from, to): (dlpack::Device, dlpack::Device),
    link: &Link,
) -> fmt::Result {
    match link {
        Link::Proved => write!(
            f,
            "over the peer link of `{from}` and `{to}`, which was proved"
        ),
        Link::Absent(why) => {
            write!(f, "there is no peer link of `{from}` and `{to}`")?;
            why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
        }
        Link::Unknown { is_enabled: false } => write!(
            f,
            "without the peer link of `{from}` and `{to}`, which is not proved yet: \
             a move without a stream does that"
        ),
        Link::Unknown { is_enabled: true } => write!(
            f,
            "the peer link of `{from}` and `{to}` is enabled and not proved yet"
        ),
        Link::Stuck(why) => write!(
            f,
            "the peer link of `{from}` and `{to}` is enabled and not proved: {why}"
        ),
        Link::Untrusted(what, without) => {
            write!(
                f,
                "the peer link of `{from}` and `{to}` is not trusted: {what}; "
            )?;
            f.write_str(match without {
                WithoutLink::Proved => "without it all did",
                WithoutLink::Untrusted => "nor did they without it",
                WithoutLink::Unknown => "what does without it is not known",
            })
        }
    }
}

/// A way to copy, with the plugins at its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copy {
    way: Way,
    source: Arc<str>,
    destination: Arc<str>,
    /// Of a copy through host memory.
    chunk_bytes: u64,
}

impl Copy {
    fn by(way: Way, from: &Device, to: &Device) -> Self {
        Self {
            way,
            source: from.plugin().shared_name(),
            destination: to.plugin().shared_name(),
            chunk_bytes: from.shared().chunks().chunk_bytes(),
        }
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (&self.source, &self.destination);
        match self.way.maker(source, destination) {
            Some(maker) if self.way.is_packed() => {
                write!(
                    f,
                    "what is strided is packed, then `{maker}` copies by itself"
                )
            }
            Some(maker) => write!(f, "`{maker}` copies by itself"),
            None => write!(
                f,
                "`{source}` reads into host memory and `{destination}` writes from it, in chunks \
                 of at most {} KiB",
                self.chunk_bytes >> 10,
            ),
        }
    }
}

/// A route that could be taken instead, with what it would cost; its `Display` is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instead {
    copy: Copy,
    cost: Cost,
}

impl Instead {
    pub(crate) fn of(way: Way, cost: Cost, (from, to): (&Device, &Device)) -> Self {
        let copy = Copy::by(way, from, to);
        Self { copy, cost }
    }
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.copy.way.kind(), self.copy, self.cost)
    }
}

/// Why a route does not work.
#[derive(Debug, Clone)]
pub(crate) enum Reason {
    /// The memory is of another kind than is asked for.
    OtherKind,
    /// The destination cannot adopt memory of the source.
    NotAdopted,
    /// The source does not map its memory, and says why.
    NotMapped(Arc<str>),
    /// Neither plugin reaches the other's memory.
    NotReached,
    /// Nothing can be sent past their link, or only what cannot be trusted.
    NoWay(Link),
    /// It was tried, and declined.
    Fell(Error),
}

/// A route that does not work, with the reason; its `Display` is a sentence.
#[derive(Debug, Clone)]
pub struct RefusedRoute {
    kind: RouteKind,
    from: dlpack::Device,
    to: dlpack::Device,
    reason: Reason,
}

impl RefusedRoute {
    pub(crate) const fn new(
        kind: RouteKind,
        (from, to): (dlpack::Device, dlpack::Device),
        reason: Reason,
    ) -> Self {
        Self {
            kind,
            from,
            to,
            reason,
        }
    }
}

impl fmt::Display for RefusedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(f, "{}: ", self.kind)?;
        match &self.reason {
            Reason::OtherKind => {
                write!(
                    f,
                    "this memory of `{from}` is of another kind than is asked for"
                )
            }
            Reason::NotAdopted => write!(f, "`{to}` cannot adopt memory of `{from}`"),
            Reason::NotMapped(why) => f.write_str(why),
            Reason::NotReached => f.write_str("neither plugin reaches the other's memory"),
            Reason::NoWay(link) => tell(f, (from, to), link),
            Reason::Fell(error) => f.write_str(&error.why()),
        }
    }
}

/// As people read them: errors say what they say, and nothing else.
impl PartialEq for RefusedRoute {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for RefusedRoute {}
