//! The end of a registration: at once, or later where work still needs the lock.
//!
//! The host knows the work that it put on the memory through its tensors. The plugin knows all work, also that through
//! another tensor of the same bytes, so it has the last word. A release that blocked for it would hold up all later
//! releases of the plugin.
#![expect(unsafe_code, reason = "ends a registration through a hook")]

use std::mem::ManuallyDrop;

use crate::devices::device::Device;
use crate::error::Error;
use crate::plugins::releases::Release;
use crate::plugins::workers::Job;
use crate::tensors::owner::{Pointer, log_failure};
use crate::tensors::tensor::Tensor;

/// Ends the registration of `of` for the device, which took this pointer; its owner was taken out of the registration.
pub(super) fn unlock(device: &Device, of: Tensor, pointer: Pointer) {
    match try_unlock(device, &pointer) {
        Some(ended) => release(of, ended),
        None => unlock_later(device, of, pointer),
    }
}

/// How the registration ended; `None` while work needs it.
fn try_unlock(device: &Device, pointer: &Pointer) -> Option<Result<(), Error>> {
    let hooks = device.hooks();
    // SAFETY: the device took this pointer, and the one owner that ends it does so once.
    match unsafe { hooks.try_unregister_host(device.index(), pointer.0) } {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

/// Releases the memory, or leaks it where it stays registered: the hook that failed was counted.
fn release(of: Tensor, ended: Result<(), Error>) {
    match ended {
        Ok(()) => drop(of),
        Err(error) => {
            log_failure(&error);
            let _leaked = ManuallyDrop::new(of);
        }
    }
}

/// The same for one that those who wait for releases wait for, and so for what is released by it.
fn release_later(release: Release, ended: Result<(), Error>) {
    match ended {
        Ok(()) => release.run(),
        Err(error) => {
            log_failure(&error);
            release.leak_counted();
        }
    }
}

/// Lets the plugin's polling thread end it. Those who wait for releases wait for this too.
fn unlock_later(device: &Device, of: Tensor, pointer: Pointer) {
    let plugin = device.plugin();
    let worker = plugin.workers().releases.start("crossdock-release");
    let device = device.clone();
    // A poll that is dropped before the end leaks the memory, which is still locked.
    let mut left = Some(Release::new(plugin.releases(), move || drop(of)));
    let poll = move || {
        let Some(ended) = try_unlock(&device, &pointer) else {
            return false;
        };
        if let Some(release) = left.take() {
            // The memory may be foreign, and its deleter may block.
            let finish: Job = Box::new(move || release_later(release, ended));
            match &worker {
                Some(worker) => worker.put_or_leak(finish),
                None => finish(),
            }
        }
        true
    };
    if let Err(error) = plugin.workers().polls.poll_until_over(poll) {
        log_failure(&Error::exhausted("start a thread that polls", error));
    }
}
