//! `matrix --require-route`: routes that must be there.

use std::str::FromStr;

use crossdock_sdk::dlpack::Device;

use crate::command::matrix::run::{Matrix, Outcome};
use crate::{
    failure::Problem,
    globals::Globals,
    report::DeviceRow,
    session::{self, NoDevice},
};

/// A pair whose tensors must arrive, and by what at least.
#[derive(Debug, Clone)]
pub(super) struct RequiredRoute {
    from: Device,
    to: Device,
    least: Least,
}

/// How good a route must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Least {
    Any,
    /// Not through host memory: by one plugin, or without a copy.
    Direct,
    Alias,
}

/// A text that is no required route.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRoute {
    #[error("two devices belong here, with `,` between them: `cpu:0,opencl:0`")]
    NoPair,
    #[error(transparent)]
    Device(#[from] NoDevice),
    #[error("`{0}` cannot be required; `direct` and `alias` can")]
    Kind(String),
}

impl FromStr for RequiredRoute {
    type Err = NoRoute;

    fn from_str(text: &str) -> Result<Self, NoRoute> {
        let (pair, kind) = match text.split_once('=') {
            Some((pair, kind)) => (pair, Some(kind)),
            None => (text, None),
        };
        let (from, to) = pair.split_once(',').ok_or(NoRoute::NoPair)?;
        Ok(Self {
            from: session::device_named(from.trim())?,
            to: session::device_named(to.trim())?,
            least: match kind {
                None => Least::Any,
                Some("direct") => Least::Direct,
                Some("alias") => Least::Alias,
                Some(other) => return Err(NoRoute::Kind(other.to_owned())),
            },
        })
    }
}

impl RequiredRoute {
    /// What is wrong with it before any pair is tried.
    pub(super) fn unreachable(&self, devices: &[DeviceRow]) -> Option<Problem> {
        let asked = [self.from.to_string(), self.to.to_string()];
        let is_here = |id: &String| devices.iter().any(|row| row.id == *id);
        if asked.iter().all(is_here) {
            return None;
        }
        let here: Vec<&str> = devices.iter().map(|row| row.id.as_str()).collect();
        let why = format!("the devices here are {}", here.join(", "));
        let hint = "run `crossdock devices` to see what is here and what is absent";
        Some(Problem::new(self.what(), why, hint))
    }

    fn what(&self) -> String {
        let (from, to) = (self.from, self.to);
        let kind = match self.least {
            Least::Any => "a",
            Least::Direct => "a direct",
            Least::Alias => "an alias as",
        };
        format!("find {kind} route from {from} to {to}, which `--require-route` asks for")
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self, matrix: &Matrix, globals: &Globals) -> Option<Problem> {
        let (from, to) = (self.from.to_string(), self.to.to_string());
        // Those of the first route that is asked for, the best one unless said otherwise.
        let mut pairs = matrix.pairs.iter();
        let found = pairs.find(|pair| pair.from == from && pair.to == to);
        let allowed: &[&str] = match self.least {
            Least::Any => &["alias", "direct", "staged"],
            Least::Direct => &["alias", "direct"],
            Least::Alias => &["alias"],
        };
        let why = match found? {
            pair if pair.outcome != Outcome::Verified => pair.why.clone(),
            pair if pair.route.split('+').all(|taken| allowed.contains(&taken)) => {
                return None;
            }
            pair => format!(
                "the route that was taken is {}: {}",
                pair.route, pair.explanation
            ),
        };
        // Where the pair itself is broken, its error says what to do.
        let hint = if found.is_some_and(|pair| pair.outcome.is_bad()) {
            "mend the pair, whose own error stands above".to_owned()
        } else {
            let command = globals.with_plugins(&format!("crossdock route {from} {to}"));
            format!("run `{command}` to see why each route is not taken")
        };
        Some(Problem::new(self.what(), why, hint))
    }
}
