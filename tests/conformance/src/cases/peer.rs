//! Links between devices: who has one, and what goes over it.

use std::sync::Arc;

use crossdock::{Error, Hooks};
use crossdock_sdk::abi::{AllocateArgs, Status};

use crate::allocation::{Allocation, Place, copy};
use crate::case::{Case, Unmet, Verdict, answers, ensure, is_unsupported, same_bytes, skipped};
use crate::random::pattern;
use crate::stream::Stream;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "links_are_told_the_same_each_time",
        "Says whether work of `device` can reach memory of `peer` over a link: 1 or 0. That is what the \
         vendor claims, the same each time. A device has no link with itself.",
        told,
    ),
    Case::core(
        "a_link_that_is_not_there_is_not_enabled",
        "`XD_UNSUPPORTED` where `peer_can_access` says 0: nothing was changed.",
        not_there,
    ),
    Case::core(
        "a_link_is_enabled_and_disabled_as_often_as_one_likes",
        "A link that is enabled already, by this plugin or by others in the process, is `XD_OK`, and enabled \
         once. … A link that is not enabled is `XD_OK`.",
        often,
    ),
    Case::core(
        "copies_between_devices_arrive_with_a_link_and_without",
        "Copies between the two arrive the same with a link and without",
        arrive,
    ),
    Case::core(
        "no_work_is_waited_for_to_enable_or_disable_a_link",
        "Work that was submitted before is made as it would have been. … may: for the vendor's call, never for \
         work. … Work that was submitted before is made all the same.",
        behind_work,
    ),
    Case::core(
        "no_link_leads_to_a_device_that_is_not_there",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_device,
    ),
];

const BYTES: usize = 60_000;

/// A link from a device to another, which is disabled when this is dropped.
struct Enabled<'h>(&'h Hooks, [u32; 2]);

impl<'h> Enabled<'h> {
    fn new(hooks: &'h Hooks, [device, peer]: [u32; 2]) -> Result<Self, Error> {
        hooks.peer_enable(device, peer)?;
        Ok(Self(hooks, [device, peer]))
    }

    fn disable(self) -> Result<(), Error> {
        let Self(hooks, [device, peer]) = self;
        hooks.peer_disable(device, peer)
    }
}

impl Drop for Enabled<'_> {
    fn drop(&mut self) {
        let [device, peer] = self.1;
        crate::event::note(self.0.peer_disable(device, peer));
    }
}

fn needs(subject: &Subject<'_>) -> Verdict {
    match subject.hooks().table().peer() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `peer`"),
    }
}

/// The other devices, and whether this one has a link to each.
fn others(subject: &Subject<'_>) -> Result<Vec<(u32, bool)>, Unmet> {
    needs(subject)?;
    let (hooks, own) = (subject.hooks(), subject.device());
    let others = (0..hooks.device_count()?).filter(|other| *other != own);
    let told = others.map(|other| Ok((other, hooks.peer_can_access(own, other)?)));
    told.collect()
}

/// The devices to which this one has a link; the case is skipped where there is none.
pub(super) fn peers(subject: &Subject<'_>) -> Result<Vec<u32>, Unmet> {
    let linked = others(subject)?.into_iter();
    let peers: Vec<_> = linked
        .filter_map(|(peer, can)| can.then_some(peer))
        .collect();
    if peers.is_empty() {
        return skipped("the device has no link to another one");
    }
    Ok(peers)
}

fn told(subject: &Subject<'_>) -> Verdict {
    let before = others(subject)?;
    let (hooks, own) = (subject.hooks(), subject.device());
    ensure!(
        !hooks.peer_can_access(own, own)?,
        "the device has a link with itself"
    );
    for (peer, can) in &before {
        if *can {
            Enabled::new(hooks, [own, *peer])?.disable()?;
        }
    }
    let after = others(subject)?;
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(())
}

fn not_there(subject: &Subject<'_>) -> Verdict {
    let others = others(subject)?;
    let own = (subject.device(), false);
    for (peer, _) in others.into_iter().chain([own]).filter(|(_, can)| !can) {
        let enabled = subject.hooks().peer_enable(subject.device(), peer);
        answers("peer_enable", &enabled, &[Status::UNSUPPORTED])?;
    }
    Ok(())
}

fn often(subject: &Subject<'_>) -> Verdict {
    let (hooks, own) = (subject.hooks(), subject.device());
    for peer in peers(subject)? {
        hooks.peer_disable(own, peer)?;
        let first = Enabled::new(hooks, [own, peer])?;
        Enabled::new(hooks, [own, peer])?.disable()?;
        // Enabled once, so it is disabled now.
        first.disable()?;
        Enabled::new(hooks, [own, peer])?.disable()?;
    }
    Ok(())
}

fn memory<'h>(subject: &Subject<'h>, device: u32) -> Result<Arc<Allocation<'h>>, Error> {
    let args = AllocateArgs {
        device,
        ..subject.request(BYTES as u64)
    };
    Allocation::new(subject.hooks(), args).map(Arc::new)
}

fn arrive(subject: &Subject<'_>) -> Verdict {
    let (hooks, own) = (subject.hooks(), subject.device());
    for peer in peers(subject)? {
        let (here, there) = (memory(subject, own)?, memory(subject, peer)?);
        // Memory that is there before the link is reached over it, and so is later memory.
        all_arrive(subject, [&here, &there], 1)?;
        let to = Enabled::new(hooks, [own, peer])?;
        all_arrive(subject, [&here, &there], 7)?;
        let later = memory(subject, peer)?;
        let from = hooks.peer_can_access(peer, own)?;
        let from = from.then(|| Enabled::new(hooks, [peer, own])).transpose()?;
        all_arrive(subject, [&here, &later], 13)?;
        from.map_or(Ok(()), Enabled::disable)?;
        all_arrive(subject, [&here, &there], 19)?;
        to.disable()?;
        all_arrive(subject, [&later, &here], 25)?;
    }
    Ok(())
}

/// Copies each way, by a stream of either device and without one.
fn all_arrive(subject: &Subject<'_>, ends: [&Arc<Allocation<'_>>; 2], seed: u64) -> Verdict {
    let hooks = subject.hooks();
    let [one, other] = ends;
    let devices = ends.map(|end| end.side().device);
    let makers = match hooks.table().streams() {
        Some(_) => vec![Some(devices[0]), Some(devices[1]), None],
        None => vec![None],
    };
    let mut seed = seed;
    for (dst, src) in [(one, other), (other, one)] {
        for maker in &makers {
            src.write(0, &pattern(seed, BYTES))?;
            dst.write(0, &pattern(seed + 100, BYTES))?;
            let made = made_by(*maker, hooks, dst, src);
            if !is_unsupported(&made) {
                made?;
                let what = format!(
                    "copied from device {} to {} by {maker:?}",
                    src.side().device,
                    dst.side().device
                );
                same_bytes(&what, &dst.read(0, BYTES)?, &pattern(seed, BYTES))?;
            }
            seed += 1;
        }
    }
    Ok(())
}

fn made_by(
    maker: Option<u32>,
    hooks: &Hooks,
    dst: &Arc<Allocation<'_>>,
    src: &Arc<Allocation<'_>>,
) -> Result<(), Error> {
    let Some(device) = maker else {
        let (mut to, mut from) = (Place::Memory(dst, 0), Place::Memory(src, 0));
        return copy(hooks, &mut to, &mut from, BYTES as u64);
    };
    let mut stream = Stream::create(hooks, device)?;
    stream.transfer(dst, src)?;
    stream.finish().map(drop)
}

fn behind_work(subject: &Subject<'_>) -> Verdict {
    let peers = peers(subject)?;
    subject.needs_host_events()?;
    let (hooks, own) = (subject.hooks(), subject.device());
    for peer in peers {
        let (here, there) = (memory(subject, own)?, memory(subject, peer)?);
        here.write(0, &pattern(151, BYTES))?;
        there.write(0, &pattern(152, BYTES))?;
        let mut stream = subject.stream()?;
        let mut host_event = subject.host_event()?;
        stream.wait_host_event(&host_event)?;
        subject.or_skip("a copy to a peer", stream.transfer(&there, &here))?;
        host_event.pending_during("peer_enable", || hooks.peer_enable(own, peer))??;
        let disabled =
            host_event.pending_during("peer_disable", || hooks.peer_disable(own, peer))?;
        let allowed = [Status::OK, Status::CONFLICT];
        answers("peer_disable", &disabled, &allowed)?;
        host_event.complete(Status::OK)?;
        stream.finish()?;
        let arrived = there.read(0, BYTES)?;
        same_bytes("the peer's memory", &arrived, &pattern(151, BYTES))?;
        hooks.peer_disable(own, peer)?;
    }
    Ok(())
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let (hooks, own) = (subject.hooks(), subject.device());
    let (none, refused) = (hooks.device_count()?, [Status::INVALID]);
    for (device, peer) in [(own, none), (none, own), (none, none)] {
        let can = hooks.peer_can_access(device, peer);
        answers("peer_can_access", &can, &refused)?;
        let enabled = hooks.peer_enable(device, peer);
        answers("peer_enable", &enabled, &refused)?;
        let disabled = hooks.peer_disable(device, peer);
        answers("peer_disable", &disabled, &refused)?;
    }
    Ok(())
}
