//! Where threads take turns: when all of them sleep, and what happens then.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossdock_plugin_asynchronous::Controlled;
use crossdock_sim_engine::Others;

use crate::program::Case;
use crate::world::World;

/// How long nothing may happen before all threads are taken to sleep.
pub(crate) const LOOK: Duration = Duration::from_millis(1);

/// The other threads of the process. All programs share this, as it keeps two files open for each thread.
static OTHERS: Mutex<Others> = Mutex::new(Others::new());

/// The other threads of the process, and the simulated devices.
#[derive(Debug)]
pub(crate) struct Turns {
    control: Option<Controlled>,
}

impl Turns {
    /// Those of a world, where the case lets threads take turns.
    pub(crate) fn of(case: &Case, world: &World) -> Option<Self> {
        case.takes_turns().then_some(Self {
            control: world.control,
        })
    }

    /// What a wait of [`LOOK`] answers, and whether every other thread slept all the while and none
    /// waits for its turn.
    pub(crate) fn all_sleep<T>(&self, wait: impl FnOnce() -> T) -> (T, bool) {
        let (answer, all_sleep) = OTHERS.lock().unwrap().sleep_during(wait);
        // One that looks from time to time whether it is its turn sleeps for longer on a busy machine.
        let is_wanted = || self.control.is_some_and(|control| control.wants_turn());
        (answer, all_sleep && !is_wanted())
    }

    /// Lets the simulated devices do one thing, as they do where nobody waits for it; whether they had
    /// something to do.
    pub(crate) fn go_on(&self) -> bool {
        self.control.is_some_and(|control| control.progress(1) > 0)
    }

    /// Waits until every other thread sleeps and the devices have nothing to do.
    pub(crate) fn come_to_rest(&self, limit: Duration) {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            let ((), all_sleep) = self.all_sleep(|| std::thread::park_timeout(LOOK));
            if all_sleep && !self.go_on() {
                return;
            }
        }
    }
}
