//! Forks while the simulator begins: a child has none of the threads that would go on with it, and would wait for them
//! for ever. So a fork waits until it has begun.
#![expect(unsafe_code, reason = "says what runs around a fork")]

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fence::say;

static BEGINNING: Mutex<()> = Mutex::new(());

thread_local! {
    static HELD: Cell<Option<MutexGuard<'static, ()>>> = const { Cell::new(None) };
}

/// Until what this gives is dropped, no other thread begins, and none forks.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    BEGINNING.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_a_fork() {
    let held = hold();
    // While the thread's own variables are destroyed there is nowhere to keep it: it is let go here, and a first call
    // of another thread may begin during this fork.
    let _kept = HELD.try_with(|kept| kept.set(Some(held)));
}

/// In both processes: the thread that forked is the one that held it.
extern "C" fn after_a_fork() {
    let _freed = HELD.try_with(Cell::take);
}

extern "C" fn register() {
    // SAFETY: the handlers take nothing and do not unwind (`extern "C"`), and this library is never unloaded.
    if unsafe { libc::pthread_atfork(Some(before_a_fork), Some(after_a_fork), Some(after_a_fork)) }
        != 0
    {
        say!("crossdock-sim: a fork during the first call of a driver may hang");
    }
}

/// As the library is loaded: a thread that begins may be amid it when another one would register this. The loader calls
/// what is in this section, as functions of C, before anything else of the library.
#[used]
#[unsafe(link_section = ".init_array")]
static AS_IT_IS_LOADED: extern "C" fn() = register;
