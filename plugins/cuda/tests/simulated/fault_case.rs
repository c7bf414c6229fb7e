//! An exchange in which one call fails, as text and as what it does.

use std::fmt;

use crossdock::{Error, Layer};

use crate::exchanges::{EXCHANGES, Exchange};

/// What the driver's functions answer. By the fourth and the fifth the device is lost.
pub(crate) const CODES: [&str; 6] = ["1", "2", "801", "700!", "719!", "999"];
/// What the hooks answer.
pub(crate) const STATUSES: [&str; 4] = ["VENDOR", "OOM_DEVICE", "UNSUPPORTED", "DEVICE_LOST"];

/// An exchange, and the call in it that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) exchange: &'static str,
    pub(crate) is_hook: bool,
    pub(crate) call: String,
    pub(crate) nth: u64,
    pub(crate) answer: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = if self.is_hook { "hook " } else { "" };
        let Self {
            exchange,
            call,
            nth,
            answer,
            ..
        } = self;
        write!(f, "{exchange} {hook}{call}@{nth}={answer}")
    }
}

impl Case {
    pub(crate) fn parse(text: &str) -> Self {
        let (exchange, fault) = text.split_once(' ').unwrap();
        let is_hook = fault.starts_with("hook ");
        let fault = fault.strip_prefix("hook ").unwrap_or(fault);
        let (call, answer) = fault.split_once('=').unwrap();
        let (call, nth) = call.split_once('@').unwrap();
        let known = EXCHANGES.iter().find(|(name, _)| *name == exchange);
        Self {
            exchange: known.unwrap().0,
            is_hook,
            call: call.to_owned(),
            nth: nth.parse().unwrap(),
            answer: answer.to_owned(),
        }
    }

    pub(crate) fn exchange(&self) -> Exchange {
        let of_name = |(name, _): &&(&str, Exchange)| *name == self.exchange;
        EXCHANGES.iter().find(of_name).unwrap().1
    }

    /// Cases are made in this order. How often a function is called differs a little from process to process (those
    /// that ask whether work is over), so a number would not find a case again.
    pub(crate) fn sort_key(&self) -> (usize, &str, bool, u64, usize) {
        let exchange = EXCHANGES
            .iter()
            .position(|(name, _)| *name == self.exchange);
        let is_late = self.call != self.function();
        let exchange = exchange.unwrap();
        (exchange, self.function(), is_late, self.nth, self.code())
    }

    /// Which of the answers it is.
    pub(crate) fn code(&self) -> usize {
        let answers: &[&str] = if self.is_hook { &STATUSES } else { &CODES };
        answers.iter().position(|one| *one == self.answer).unwrap()
    }

    /// The driver's function, without where it fails.
    pub(crate) fn function(&self) -> &str {
        self.call.strip_prefix("exec:").unwrap_or(&self.call)
    }

    /// The layers of the plugin: the one that lets the hook fail, where it is one.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        if !self.is_hook {
            return Vec::new();
        }
        let plan = format!("cuda.{}:{}={}", self.call, self.nth, self.answer);
        vec![Layer::Fault(plan.parse().unwrap())]
    }

    /// Whether an error says which call failed, and how.
    pub(crate) fn is_named_by(&self, error: &Error) -> bool {
        let told = format!("{error}: {}", error.why());
        if self.is_hook {
            return told.contains("made to fail") || told.contains("made a failure");
        }
        let number = self.answer.trim_end_matches('!');
        // Of work that failed tells who looks.
        let is_late = self.call.starts_with("exec:") || self.answer.ends_with('!');
        let call = format!("`{}` returned {number} (", self.function());
        told.contains(&call) || is_late && told.contains(&format!("` returned {number} ("))
    }
}
