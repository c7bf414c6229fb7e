//! Who calls the driver: the code behind the entry point, and the line of Python that runs there, if any.
//!
//! Each call notes both as a few numbers, and finds the place that was made of the same numbers before. Python is
//! looked for among the symbols of the process. Its lock is never taken, and no code of its users runs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `native` | the address behind the entry point |
//! | `python` | the functions of Python's library, and the line of a thread that holds its lock |
//! | `detached` | the line of a thread that let the lock go for the call, as NVIDIA's own package does |

mod detached;
mod native;
mod python;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crossdock_sim_engine::Place;

use python::Running;

static KNOWN: Mutex<BTreeMap<(usize, Option<Running>), &'static Place>> =
    Mutex::new(BTreeMap::new());

/// The place that calls. A program has so many of them as its code has calls, and they are kept for ever.
pub(crate) fn here() -> &'static Place {
    let key = (native::returns_to(), python::running());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&key).copied();
    if let Some(place) = found {
        return place;
    }
    // No lock is held while Python is asked.
    let place = Place {
        returns_to: key.0,
        line: key.1.as_ref().and_then(Running::line),
    };
    let place: &'static Place = Box::leak(Box::new(place));
    known().entry(key).or_insert(place)
}
