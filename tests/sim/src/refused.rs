//! What is not simulated: each function says so once, and each call of one is kept for tests that ask why they failed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_sim_engine::Site;
use serde_json::{Value, json};

use crate::at_exit;
use crate::callers;
use crate::fence::say;

/// How often each function was called at each place, and what it answered. The place is known by its address, since
/// each is kept for ever.
type Calls = BTreeMap<(&'static str, usize), (Site, i32, u64)>;

static CALLS: Mutex<Calls> = Mutex::new(BTreeMap::new());

/// Notes a call of a function that is not simulated and answers this number.
pub(crate) fn refuse(name: &'static str, answer: i32, was_told: &AtomicBool) {
    let place = callers::here();
    if !was_told.swap(true, Ordering::Relaxed) {
        say!("crossdock-sim: {name} ({place}) is not simulated, and answers {answer}");
    }
    let site = Site::new(name).by(place);
    let key = (name, std::ptr::from_ref(place).addr());
    calls().entry(key).or_insert((site, answer, 0)).2 += 1;
}

/// The calls so far: each is where it was made, what it was answered, and how often.
pub(crate) fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of them as an object of JSON.
pub(crate) fn json((site, answer, times): &(Site, i32, u64)) -> Value {
    json!({ "call": at_exit::call(*site), "answer": answer, "times": times })
}
