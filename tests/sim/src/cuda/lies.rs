//! Links between devices that lie (`peers=drops`, `peers=mirrors`): the driver says that one device reaches the memory of
//! another, and its copies of bytes are dropped, or land in a mirror that it alone sees. HIP's copies come here too.

use super::entry::{Answer, Call};
use super::objects::objects;

/// What becomes of bytes that a device moves over an enabled link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// What it writes is nowhere.
    Drops,
    /// It writes and reads other memory than its peer does.
    Mirrors,
}

/// The addresses that a copy of a device really writes and reads: `dst` and `src`, unless one is memory of a peer whose
/// link is enabled and lies.
pub(crate) fn astray(call: &Call, context: u64, dst: u64, src: u64) -> Answer<(u64, u64)> {
    let Some(lie) = call.process.lie else {
        return Ok((dst, src));
    };
    let to = beside(call, context, dst)?;
    let from = match lie {
        Lie::Drops => src,
        Lie::Mirrors => beside(call, context, src)?,
    };
    Ok((to, from))
}

/// The same place in the memory that stands in for a peer's.
fn beside(call: &Call, context: u64, address: u64) -> Answer<u64> {
    let engine = &call.process.engine;
    let owner = engine.owner_of(address);
    let owner = owner.filter(|owner| owner.kind == crossdock_sim_engine::MemoryKind::Device);
    let Some(owner) = owner else {
        return Ok(address);
    };
    let mut objects = objects();
    let own = objects.context(context)?;
    let (device, peers) = (own.device, own.peers.clone());
    let is_of_peer = |peer: &u64| {
        let peer = objects.contexts.get(peer);
        peer.is_some_and(|peer| peer.device == owner.device)
    };
    if device == owner.device || !peers.iter().any(is_of_peer) {
        return Ok(address);
    }
    let known = objects.mirrors.get(&owner.id).copied();
    let mirror = match known {
        Some(mirror) => mirror,
        None => {
            let kind = crossdock_sim_engine::MemoryKind::Device;
            let made = engine.allocate(call.site, owner.device, owner.bytes, 256, kind)?;
            objects.mirrors.insert(owner.id, made);
            made
        }
    };
    Ok(mirror + (address - owner.base))
}
