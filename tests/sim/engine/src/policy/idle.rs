//! The ticker: runs what nobody waits for, once nobody has called for a while.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::engine::Shared;

/// The life of the ticker.
pub(crate) fn tick(shared: &Arc<Shared>, after: Duration) {
    let mut state = shared.lock();
    while !state.over {
        if state.pending == 0 || state.held > 0 {
            state = shared
                .busy
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let left = after.saturating_sub(state.last_call.elapsed());
        let first = state.first_runnable().filter(|_| left.is_zero());
        if let Some(queue) = first {
            state = shared.run(state, queue);
            continue;
        }
        let left = if left.is_zero() { after } else { left };
        let waited = shared.busy.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
