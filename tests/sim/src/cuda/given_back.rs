//! Lost devices that are given back, for tests: as another process finds them.

use std::time::Duration;

use crossdock_sim_engine::{MemoryKind, Site};

use super::entry::Call;
use super::objects::objects;
use super::pools;
use crate::process::Process;

/// Longer than all that is pending takes.
const LIMIT: Duration = Duration::from_secs(5);

/// Ends all that lost devices had, and removes all faults.
pub(crate) fn give_back(process: &'static Process) {
    let devices = 0..process.engine.config().devices;
    let is_lost = |device: &u32| process.engine.lost(*device).is_some();
    let lost: Vec<u32> = devices.filter(is_lost).collect();
    if lost.is_empty() {
        return;
    }
    // What is pending fails while they are lost.
    let _over = process.engine.drain(LIMIT);
    process.engine.clear_faults();
    let call = Call {
        site: Site::new("the end of a lost device"),
        face: super::FACE,
        is_per_thread: false,
        process,
    };
    for device in lost {
        end(&call, device);
    }
}

fn end(call: &Call, device: u32) {
    let engine = &call.process.engine;
    let mut objects = objects();
    let of_device = objects.contexts.iter();
    let of_device = of_device.filter(|(_, context)| context.device == device);
    let contexts: Vec<u64> = of_device.map(|(handle, _)| *handle).collect();
    for handle in contexts {
        // What is left in a context where this fails is seen as a leak.
        let _ended = objects.end_context(call, handle);
        for (other, context) in &mut objects.contexts {
            context.peers.retain(|peer| *peer != handle);
            context.held *= u32::from(*other != handle);
        }
    }
    drop(objects);
    // What came from pools belongs to no context.
    for leak in engine.leaks() {
        let Some((address, _)) = leak.bytes else {
            continue;
        };
        let owner = engine.owner_of(address);
        let Some(owner) = owner.filter(|owner| owner.device == device) else {
            continue;
        };
        let _ended = match owner.kind {
            _ if owner.is_registered => unregister(call, address),
            MemoryKind::Device => engine.free(call.site, address).is_ok(),
            _ => true,
        };
    }
    pools::forget(device);
}

/// Ends what each vendor registered there.
fn unregister(call: &Call, address: u64) -> bool {
    let mut objects = objects();
    let keys = objects.registered.keys().copied();
    let here: Vec<_> = keys.filter(|(_, at)| *at == address).collect();
    let mut is_over = true;
    for key in here {
        objects.registered.remove(&key);
        let engine = &call.process.engine;
        is_over &= engine
            .unregister_for(call.site, key.0.vendor(), address)
            .is_ok();
    }
    is_over
}
