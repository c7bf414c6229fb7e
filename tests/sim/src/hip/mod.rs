//! The functions of AMD's HIP runtime, `libamdhip64.so.7` or `.so.6`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `symbols.in` | all functions of HIP 6.3, with the version node of each in AMD's library |
//! | `lookup` | functions by their names; those that are not simulated answer 801 |
//! | `errors` | the last error of each thread, and results in words |
//! | `runtime` | start and version |
//! | `devices`, `properties` | the functions about them, and their properties in both layouts |
//! | `memory`, `pointers`, `pools` | allocations, what is known of an address, memory in stream order |
//! | `copies`, `fills` | work on memory |
//! | `streams`, `events` | the functions about them, host functions, waits for words and captures |
//!
//! What a function does that CUDA has too is in [`cuda`](crate::cuda), under a name of its own. Not simulated: what is
//! not simulated of CUDA, memory between processes, and masks of words that streams wait for.

use crate::face::{Face, entry};

mod copies;
mod devices;
pub(crate) mod errors;
mod events;
mod fills;
pub(crate) mod lookup;
mod memory;
mod pointers;
mod pools;
mod properties;
mod runtime;
mod streams;

/// Whose functions these are.
const FACE: Face = Face::Hip;

/// The devices that `ROCR_VISIBLE_DEVICES` leaves, and of these, by their new numbers, `HIP_VISIBLE_DEVICES`.
pub(crate) fn visible(all: Vec<u32>) -> Vec<u32> {
    let masks = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];
    masks.into_iter().fold(all, |devices, mask| {
        std::env::var(mask).map_or(devices.clone(), |mask| masked(&devices, &mask))
    })
}

/// The devices of a mask in its order: a number or a uuid each, up to the first that is none.
fn masked(devices: &[u32], mask: &str) -> Vec<u32> {
    let find = |word: &str| {
        let word = word.trim();
        let by_number = word.parse::<usize>().ok();
        let by_number = by_number.and_then(|at| devices.get(at).copied());
        let is_named = |device: &&u32| word == format!("GPU-{}", properties::uuid_text(**device));
        by_number.or_else(|| devices.iter().find(is_named).copied())
    };
    mask.split(',').map_while(find).collect()
}
