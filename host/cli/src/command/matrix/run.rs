//! Moves every tensor from one device to another, and proves that it arrived.

use std::{path::PathBuf, time::Instant};

use crossdock::{Device, Error, RouteKind, Runtime, Tensor};
use crossdock_sdk::dlpack::Layout;
use serde::{Deserialize, Serialize};

use crate::command::route::RouteArgument;
use crate::{
    failure::{Failure, Problem},
    files::{self, FileTensor},
    report::DeviceRow,
};

use super::made::Made;

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Matrix {
    /// The routes that are asked for, one after another.
    pub(crate) asked: Vec<String>,
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) tensors: Vec<TensorRow>,
    /// Those of the first route, then those of the next.
    pub(crate) pairs: Vec<Pair>,
    /// What else is wrong: routes that are required, and why pairs were not tried.
    pub(crate) problems: Vec<Problem>,
    pub(crate) made: Made,
}

impl Matrix {
    /// The pairs that were tried by one of the routes.
    pub(super) fn by_route<'a>(&'a self, asked: &'a str) -> impl Iterator<Item = &'a Pair> {
        self.pairs.iter().filter(move |pair| pair.asked == asked)
    }

    /// How many pairs there are to try.
    pub(super) fn count(&self) -> usize {
        self.devices.len().pow(2) * self.asked.len()
    }

    /// Of which pairs nothing is known.
    pub(super) fn untried(&self) -> usize {
        let untried = |pair: &&Pair| pair.outcome == Outcome::Untried;
        self.pairs.iter().filter(untried).count()
    }

    /// The same with the pairs that were not tried, and why: nobody is to take what is not there for good.
    pub(super) fn whole(&self, why: &str) -> Self {
        let ids = || self.devices.iter().map(|device| device.id.clone());
        let tries = self.asked.iter().flat_map(|asked| {
            ids().flat_map(move |from| ids().map(move |to| (asked.clone(), from.clone(), to)))
        });
        let mut whole = self.clone();
        for (asked, from, to) in tries.skip(self.pairs.len()) {
            let begun = Begun { asked, from, to };
            whole.pairs.push(begun.without(Outcome::Untried, why));
        }
        whole
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TensorRow {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: u64,
}

/// One ordered pair of devices by one route, all tensors together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// The route that was asked for.
    pub(crate) asked: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// The routes that were taken, with `+` between them.
    pub(crate) route: String,
    pub(crate) outcome: Outcome,
    /// Why it was refused, failed or differs; else empty.
    pub(crate) why: String,
    /// The route's own words.
    pub(crate) explanation: String,
    /// Bytes of the tensors.
    pub(crate) bytes: u64,
    /// Bytes that the routes copied; 0 for an alias.
    pub(crate) bytes_copied: u64,
    /// The best time of each tensor, added up; `None` where not all of them arrived.
    pub(crate) seconds: Option<f64>,
    /// `bytes` over `seconds`; `None` where nothing was copied.
    pub(crate) gb_per_s: Option<f64>,
}

/// How a pair went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Every tensor was read back equal from the destination.
    Verified,
    /// The asked route does not exist here.
    Refused,
    /// The destination gave back other bytes.
    Different,
    /// A call failed.
    Failed,
    /// The process of the pair ended before its work was done.
    Crashed,
    /// The pair was not done within its limit, and its process was ended.
    Hung,
    /// It was not begun.
    Untried,
}

impl Outcome {
    /// As in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Refused => "refused",
            Self::Different => "different",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Hung => "hung",
            Self::Untried => "untried",
        }
    }

    /// Whether something is wrong with the pair itself.
    pub(crate) const fn is_bad(self) -> bool {
        !matches!(self, Self::Verified | Self::Refused | Self::Untried)
    }

    /// Whether all tensors went the whole way.
    pub(crate) const fn is_moved(self) -> bool {
        matches!(self, Self::Verified | Self::Different)
    }
}

/// The tensors of these files, or a few that are made up.
pub(super) fn payloads(runtime: &Runtime, files: &[PathBuf]) -> Result<Vec<Payload>, Failure> {
    let mut tensors = Vec::new();
    for path in files {
        tensors.extend(files::read_whole(path)?.tensors().cloned());
    }
    if files.is_empty() {
        tensors = files::generated().map_err(|error| {
            Problem::new("make up tensors", error.to_string(), "give files instead")
        })?;
    }
    let payloads = tensors.iter().map(|tensor| Payload::read(runtime, tensor));
    payloads.collect()
}

/// A tensor's compact bytes, from which each source is made.
pub(super) struct Payload {
    name: String,
    layout: Layout,
    bytes: Vec<u8>,
    /// What the source is overwritten with: no byte stays the same.
    other: Vec<u8>,
}

impl Payload {
    fn read(runtime: &Runtime, tensor: &FileTensor) -> Result<Self, Failure> {
        let bytes = tensor.loaded()?.on_host(runtime)?.read()?;
        let layout = Layout::compact(tensor.layout.dtype(), tensor.layout.shape());
        let layout = layout.map_err(Error::from)?;
        let other = bytes.iter().map(|byte| !byte).collect();
        Ok(Self {
            name: tensor.name.clone(),
            layout,
            bytes,
            other,
        })
    }

    pub(super) fn row(&self) -> TensorRow {
        TensorRow {
            name: self.name.clone(),
            dtype: self.layout.dtype().to_string(),
            shape: self.layout.shape().to_vec(),
            bytes: self.layout.bytes(),
        }
    }
}

/// One tensor's way.
struct Moved {
    kind: RouteKind,
    explanation: String,
    bytes_copied: u64,
    seconds: f64,
    difference: Option<String>,
}

pub(super) fn run_pair(
    from: &Device,
    to: &Device,
    payloads: &[Payload],
    asked: RouteArgument,
) -> Pair {
    let mut pair = Begun::new(from, to, asked).pair();
    let mut routes: Vec<String> = Vec::new();
    let mut seconds = 0.0;
    for payload in payloads {
        match move_one(from, to, payload, asked) {
            Ok(moved) => {
                let kind = moved.kind.to_string();
                if !routes.contains(&kind) {
                    routes.push(kind);
                }
                seconds += moved.seconds;
                pair.add(payload, moved);
            }
            Err(error) => {
                pair.fail(&error);
                break;
            }
        }
    }
    pair.route = if routes.is_empty() {
        "refused".to_owned()
    } else {
        routes.join("+")
    };
    pair.seconds = pair.outcome.is_moved().then_some(seconds);
    if pair.bytes_copied > 0 && seconds > 0.0 && !pair.outcome.is_bad() {
        pair.gb_per_s = Some(pair.bytes as f64 / seconds / 1e9);
    }
    pair
}

/// A pair of which nothing was moved yet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(super) asked: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Begun {
    pub(super) fn new(from: &Device, to: &Device, asked: RouteArgument) -> Self {
        Self {
            asked: asked.name().to_owned(),
            from: from.id().to_string(),
            to: to.id().to_string(),
        }
    }

    pub(super) fn pair(self) -> Pair {
        Pair {
            asked: self.asked,
            from: self.from,
            to: self.to,
            route: String::new(),
            outcome: Outcome::Verified,
            why: String::new(),
            explanation: String::new(),
            bytes: 0,
            bytes_copied: 0,
            seconds: None,
            gb_per_s: None,
        }
    }

    /// A pair of which nothing came.
    pub(super) fn without(self, outcome: Outcome, why: &str) -> Pair {
        Pair {
            outcome,
            route: "-".to_owned(),
            explanation: why.to_owned(),
            why: why.to_owned(),
            ..self.pair()
        }
    }
}

impl Pair {
    fn add(&mut self, payload: &Payload, moved: Moved) {
        self.bytes += payload.layout.bytes();
        self.bytes_copied += moved.bytes_copied;
        // The explanation of the largest tensor would do; the last one is as good.
        self.explanation = moved.explanation;
        if let Some(difference) = moved.difference {
            self.outcome = Outcome::Different;
            self.why = format!("`{}`: {difference}", payload.name);
        }
    }

    fn fail(&mut self, error: &Error) {
        let refused = matches!(error, Error::Refused { .. });
        // Worse news stays: another tensor may have arrived changed.
        if !self.outcome.is_bad() {
            self.outcome = if refused {
                Outcome::Refused
            } else {
                Outcome::Failed
            };
            self.why = if refused {
                error.why()
            } else {
                format!("{error}: {}", error.why())
            };
        }
        if self.explanation.is_empty() {
            self.explanation = format!("{error}: {}", error.why());
        }
    }
}

fn move_one(
    from: &Device,
    to: &Device,
    payload: &Payload,
    asked: RouteArgument,
) -> Result<Moved, Error> {
    let source = Tensor::from_bytes(from, &payload.layout, &payload.bytes)?;
    let began = Instant::now();
    let mut best = f64::INFINITY;
    let mut rounds = 0;
    let (arrived, route) = loop {
        let started = Instant::now();
        let moved = source.to(to, asked.into())?;
        best = best.min(started.elapsed().as_secs_f64());
        rounds += 1;
        if rounds == ROUNDS || began.elapsed().as_secs_f64() > ENOUGH_SECONDS {
            break moved;
        }
    };
    source.write(&payload.other)?;
    let difference = if route.kind == RouteKind::Alias {
        let seen = differs(&arrived.read()?, &payload.other)
            .map(|text| format!("it is called an alias, and a write to it is not seen: {text}"));
        source.write(&payload.bytes)?;
        seen.or(differs(&arrived.read()?, &payload.bytes))
    } else {
        differs(&arrived.read()?, &payload.bytes)
    };
    let difference = difference.map(|text| blamed(from, &source, payload, text));
    let difference = difference.transpose()?;
    Ok(Moved {
        kind: route.kind,
        explanation: route.to_string(),
        bytes_copied: route.bytes_copied,
        seconds: best,
        difference,
    })
}

/// The difference; no route is blamed for bytes that the source's own device does not give back.
fn blamed(
    from: &Device,
    source: &Tensor,
    payload: &Payload,
    text: String,
) -> Result<String, Error> {
    source.write(&payload.bytes)?;
    let of_itself = differs(&source.read()?, &payload.bytes);
    Ok(of_itself.map_or(text, |text| {
        format!(
            "what is written to {id} and read there again is not the same, whatever the route: a copy of its \
             own plugin is wrong: {text}",
            id = from.id()
        )
    }))
}

fn differs(found: &[u8], wanted: &[u8]) -> Option<String> {
    if found.len() != wanted.len() {
        return Some(format!(
            "{} bytes came back, not {}",
            found.len(),
            wanted.len()
        ));
    }
    if found == wanted {
        return None;
    }
    let mut pairs = found.iter().zip(wanted);
    let first = pairs
        .position(|(found, wanted)| found != wanted)
        .unwrap_or(0);
    let more = pairs.filter(|(found, wanted)| found != wanted).count();
    Some(format!(
        "{} of {} bytes differ, the first at {first}",
        more + 1,
        wanted.len()
    ))
}

/// The best of so many moves is shown.
const ROUNDS: u32 = 3;
/// After this many seconds one more move tells nothing new.
const ENOUGH_SECONDS: f64 = 1.0;
