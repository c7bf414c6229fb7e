//! The planner: how a tensor could become another device's, the cheapest way first.

use std::sync::Arc;

use crossdock_sdk::abi::{Capabilities, MemoryKind};
use crossdock_sdk::dlpack::{DeviceType, Dtype, Layout};

use crate::devices::device::Device;
use crate::devices::host_device;
use crate::error::Error;
use crate::plugins::peer_links::Link;
use crate::route_data::costs::{Arrangement, Asked, Class, Cost, EndClass, Known, Residence};
use crate::route_data::kinds::{RouteChoice, RouteKind, Way};
use crate::routes::explanation::Reason;
use crate::routes::measure::measure;
use crate::routes::peer_link::LinkOfCopy;
use crate::streams::stream::Stream;
use crate::tensors::memory::Memory;
use crate::tensors::reach::{Maps, Reach};
use crate::tensors::target::Target;
use crate::tensors::tensor::Tensor;

/// How memory becomes another device's without a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Alias {
    /// It is this device's.
    Same,
    /// The destination's plugin adopts host memory.
    Adopt,
    /// The source's plugin shows its memory to the host.
    Map,
    /// The source's plugin shows its memory to the host, whose device this is, and the destination's
    /// plugin adopts that.
    MapAndAdopt(Device),
}

impl Device {
    /// Whether its plugin maps memory that is allocated here, or why not: one that has the hook may decline
    /// it for a device. It is asked once, for a byte.
    fn maps(&self) -> Result<(), Arc<str>> {
        if let Some(known) = self.known_to_map().get() {
            return known.clone();
        }
        let byte = Layout::compact(Dtype::UINT8, &[1]).map_err(Error::from);
        let byte = byte.and_then(|byte| Tensor::empty(self, &byte));
        match byte.and_then(|byte| Memory::map(self, &byte).map(drop)) {
            Err(error) if !error.is_unsupported() => Ok(()),
            tried => {
                let known = tried.map_err(|error| error.why().into());
                self.known_to_map().get_or_init(|| known).clone()
            }
        }
    }
}

/// The alias, or why there is none.
pub(crate) fn alias(from: &Device, to: &Device, reach: Reach) -> Result<Alias, Reason> {
    if from == to {
        return Ok(Alias::Same);
    }
    let adopts = to.capabilities().contains(Capabilities::ADOPT_HOST);
    if reach.by_host && adopts {
        return Ok(Alias::Adopt);
    }
    let host = adopts.then(host_device::get).flatten();
    let is_hosts = to.id().ty == DeviceType::CPU;
    let has_hook = from.hooks().table().map().is_some();
    if !has_hook || reach.maps == Maps::Never {
        return Err(Reason::NotAdopted);
    }
    if reach.maps == Maps::Known && (is_hosts || host.is_some()) {
        from.maps().map_err(Reason::NotMapped)?;
    }
    match host {
        _ if is_hosts => Ok(Alias::Map),
        Some(host) => Ok(Alias::MapAndAdopt(host)),
        None => Err(Reason::NotAdopted),
    }
}

/// The copies that two devices allow.
pub(crate) struct Copies<'a> {
    /// The cheapest first.
    pub(crate) ways: Vec<(Way, Cost)>,
    /// Why there is no direct one, where that was asked for.
    pub(crate) refused: Option<Reason>,
    /// What is known of the link between two devices of one plugin, while the copy is not made.
    pub(crate) peer: Option<Box<LinkOfCopy<'a>>>,
}

/// What is known of the link between two devices of one plugin. Takes out the direct copies that it does not allow,
/// and forbids measurements until the link is known: they would time copies without it.
#[cold]
fn linked<'a>(
    (from, to): (&End<'a>, &End<'a>),
    all: &mut Vec<Way>,
    policy: &mut MeasurePolicy,
) -> Option<Box<LinkOfCopy<'a>>> {
    let peer = LinkOfCopy::between(from, to, *policy).map(Box::new)?;
    if !peer.link.allows_copies() {
        all.retain(|way| way.kind() != RouteKind::Direct);
    }
    if let Link::Unknown { .. } = peer.link {
        *policy = MeasurePolicy::Never;
    }
    Some(peer)
}

/// Why there is no direct copy.
#[cold]
fn not_reached(peer: Option<&LinkOfCopy<'_>>) -> Reason {
    peer.map_or(Reason::NotReached, |peer| Reason::NoWay(peer.link.clone()))
}

/// Whether to measure what nobody has measured yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeasurePolicy {
    /// Not here: what is known is used.
    Never,
    /// Only where there is a choice to make.
    ForChoices,
    /// Also where there is but one way, to tell what it costs.
    Always,
}

impl MeasurePolicy {
    /// Of a move on a stream, or of one without: a measurement copies without a stream, which may
    /// never end behind work that the caller itself has yet to let go on.
    pub(crate) const fn on(stream: Option<&Stream>) -> Self {
        match stream {
            Some(_) => Self::Never,
            None => Self::ForChoices,
        }
    }
}

/// One end of a copy.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) device: &'a Device,
    /// `None` for memory that is made for the copy: compact.
    layout: Option<&'a Layout>,
    pub(crate) kind: MemoryKind,
    /// The host reads and writes it, so every plugin can.
    pub(crate) by_host: bool,
}

impl<'a> End<'a> {
    pub(crate) fn of(tensor: &'a Tensor) -> Self {
        let memory = tensor.memory();
        Self {
            device: &memory.device,
            layout: Some(tensor.layout()),
            kind: memory.kind,
            by_host: memory.reach().by_host,
        }
    }

    /// Elements in memory of the device's usual kind.
    pub(crate) fn on(device: &'a Device, layout: &'a Layout) -> Self {
        Self {
            device,
            layout: Some(layout),
            kind: MemoryKind::DEVICE,
            by_host: device.is_host_accessible(),
        }
    }

    /// Memory that is made for a target.
    pub(crate) fn made_for(target: &'a Target) -> Self {
        let (device, kind) = (target.device(), target.new_kind());
        Self {
            device,
            layout: None,
            kind,
            by_host: kind != MemoryKind::DEVICE || device.is_host_accessible(),
        }
    }

    fn class(&self) -> EndClass {
        EndClass {
            arrangement: self.layout.map_or(Arrangement::Compact, Arrangement::of),
            residence: Residence::of(self.kind),
        }
    }
}

/// The copies of `bytes` that `choice` allows, by their cost.
pub(crate) fn copies<'a>(
    bytes: u64,
    (from, to): (End<'a>, End<'a>),
    choice: RouteChoice,
    policy: MeasurePolicy,
) -> Copies<'a> {
    let mut all = Way::all(&from, &to);
    let (mut policy, mut peer) = (policy, None);
    let (one, other, allows) = (from.device, to.device, choice.allows(RouteKind::Direct));
    if one.index() != other.index() && one.is_of(other.plugin()) && allows && bytes > 0 {
        peer = linked((&from, &to), &mut all, &mut policy);
    }
    let has_direct = all.iter().any(|way| way.kind() == RouteKind::Direct);
    let refused = (allows && !has_direct).then(|| not_reached(peer.as_deref()));
    let known = if bytes > 0 {
        costs(&mut all, (from, to), choice, policy)
    } else {
        None
    };
    // Once for each move: a loop takes fewer instructions than an iterator here.
    let mut ways = Vec::with_capacity(all.len());
    for way in all {
        let cost = known
            .as_ref()
            .map_or(Cost::UNKNOWN, |known| known.cost(way, bytes));
        let is_unknown = way.is_packed() && cost.time.is_none();
        if choice.allows(way.kind()) && !is_unknown {
            ways.push((way, cost));
        }
    }
    if known.is_some() {
        // Stable: what is not known keeps its place at the end.
        ways.sort_by_key(|(_, cost)| (cost.time.is_none(), cost.time));
    }
    Copies {
        ways,
        refused,
        peer,
    }
}

/// What is known of the costs, where they make a difference or are wanted. Where they are, `all` has
/// also the ways that pack first.
fn costs(
    all: &mut Vec<Way>,
    (from, to): (End<'_>, End<'_>),
    choice: RouteChoice,
    policy: MeasurePolicy,
) -> Option<Known> {
    let costs = from.device.shared().costs();
    if !costs.are_on() {
        return None;
    }
    let class = Class {
        source: from.class(),
        destination: to.class(),
    };
    // Within a device, a way through the host is no choice.
    let is_between_two = from.device != to.device;
    let mut ways = all.clone();
    if is_between_two && class.is_strided() {
        ways.extend(all.iter().filter_map(|way| way.packed()));
    }
    let allowed = ways.iter().filter(|way| choice.allows(way.kind())).count();
    if !(is_between_two && allowed > 1) && policy != MeasurePolicy::Always {
        return None;
    }
    let asked = Asked {
        devices: [from.device.in_plugin(), to.device.in_plugin()],
        class,
    };
    let measure = |budget| measure((from.device, to.device), class, &ways, budget);
    let may_measure = policy != MeasurePolicy::Never;
    let known = costs.of(&asked, may_measure.then_some(&measure))?;
    *all = ways;
    Some(known)
}
