//! The layer that fails chosen calls.

use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sdk::plugin::Error;

use crate::calls::call::Call;
use crate::calls::layer_hooks::{Answer, CallState, LayerHooks};
use crate::fault::fault_plan::{FaultPlan, Rule, When};

/// The rules for one plugin, each with its count of calls.
#[derive(Debug)]
pub(crate) struct Fault {
    rules: Vec<(Rule, AtomicU64)>,
}

impl Fault {
    pub(crate) fn new(plugin: &str, plan: &FaultPlan) -> Self {
        let own = |rule: &&Rule| rule.plugin.as_deref().is_none_or(|name| name == plugin);
        Self {
            rules: plan
                .rules
                .iter()
                .filter(own)
                .map(|rule| (rule.clone(), AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Counts a call, and gives the first rule that hits it.
    fn hit(&self, hook: &str) -> Option<(&Rule, u64)> {
        let mut first = None;
        for (rule, calls) in &self.rules {
            if rule.hook.is_some_and(|only| only != hook) {
                continue;
            }
            let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
            if first.is_none() && rule.when.hits(number) {
                first = Some((rule, number));
            }
        }
        first
    }
}

impl When {
    fn hits(self, number: u64) -> bool {
        match self {
            Self::Nth(nth) => number == nth,
            Self::Every(step) => number.is_multiple_of(step),
            Self::Chance { of_2_32, seed } => scatter(seed, number) < of_2_32,
        }
    }
}

impl LayerHooks for Fault {
    fn before(&self, call: &Call<'_>) -> Result<CallState, Error> {
        match self.hit(call.hook()) {
            None => Ok(CallState::Nothing),
            Some((rule, _)) if gives_back(call) => Ok(CallState::Fail(rule.status)),
            Some((rule, number)) => Err(Error::new(
                rule.status,
                "fault",
                format!("call {number} was made to fail, and did not reach the plugin"),
            )),
        }
    }

    fn after(&self, _call: &Call<'_>, state: CallState, _answer: Answer) -> Result<(), Error> {
        match state {
            CallState::Fail(status) => Err(Error::new(
                status,
                "fault",
                "the call was made, and its answer was made a failure",
            )),
            CallState::Nothing
            | CallState::Began(_)
            | CallState::Verdict { .. }
            | CallState::Object { .. } => Ok(()),
        }
    }
}

/// Whether the hook takes something from the caller, who has it no more even when this fails.
const fn gives_back(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::Free { .. }
            | Call::FreeAsync { .. }
            | Call::StreamDestroy { .. }
            | Call::EventDestroy { .. }
            | Call::UnregisterHost { .. }
            | Call::ReleaseAdopted { .. }
            | Call::Unmap { .. }
            | Call::Close {}
    )
}

/// 32 even bits for the call of a number: the same for the same seed, on any thread.
const fn scatter(seed: u64, number: u64) -> u64 {
    // The finaliser of SplitMix64, whose constants these are.
    let mut word = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)) >> 32
}
