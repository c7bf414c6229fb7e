//! `matrix --require-route`: routes that must be there.

use std::str::FromStr;

use crossdock_sdk::dlpack::Device;

use crate::command::matrix::run::{Matrix, Outcome};
use crate::{
    failure::Problem,
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
    /// What is wrong with it, if anything.
    pub(super) fn problem(&self, matrix: &Matrix) -> Option<Problem> {
        let (from, to) = (self.from.to_string(), self.to.to_string());
        // Those of the first route that is asked for, the best one unless said otherwise.
        let mut pairs = matrix.pairs.iter();
        let found = pairs.find(|pair| pair.from == from && pair.to == to);
        let (kind, allowed): (_, &[&str]) = match self.least {
            Least::Any => ("a", &["alias", "direct", "staged"]),
            Least::Direct => ("a direct", &["alias", "direct"]),
            Least::Alias => ("an alias as", &["alias"]),
        };
        let why = match found {
            None => {
                let here: Vec<&str> = matrix.devices.iter().map(|row| row.id.as_str()).collect();
                format!(
                    "no such pair was tried; the devices here are {}",
                    here.join(", ")
                )
            }
            Some(pair) if pair.outcome != Outcome::Verified => pair.why.clone(),
            Some(pair) if pair.route.split('+').all(|taken| allowed.contains(&taken)) => {
                return None;
            }
            Some(pair) => format!(
                "the route that was taken is {}: {}",
                pair.route, pair.explanation
            ),
        };
        let what =
            format!("find {kind} route from {from} to {to}, which `--require-route` asks for");
        let hint = format!("run `crossdock route {from} {to}` to see why each route is not taken");
        Some(Problem::new(what, why, hint))
    }
}
