//! `crossdock route`: how a tensor would get from one device to another, and why so.

use std::str::FromStr;

use clap::Args;
use crossdock::{RouteChoice, RouteKind};
use crossdock_sdk::dlpack::{Device, Dtype, Layout};

use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    screen, session,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where the tensor is, such as `cpu:0`.
    #[arg(value_name = "SRC", value_parser = session::device_named)]
    from: Device,
    /// Where it should be: a device, or memory of one as in `cuda_host:0`.
    #[arg(value_name = "DST", value_parser = session::device_named)]
    to: Device,
    /// The extents, with an `x` between them; `1` and `0` are extents like any other.
    #[arg(long, default_value = "1024x1024")]
    shape: Shape,
    /// How many elements lie from one index to the next of each extent; without them it is compact.
    #[arg(long, value_name = "STRIDES", allow_hyphen_values = true)]
    strides: Option<Strides>,
    /// The type of one element.
    #[arg(long, default_value = "float32")]
    dtype: Dtype,
    /// Explain this route only.
    #[arg(long, value_name = "ROUTE", default_value = "best")]
    route: RouteArgument,
}

/// A route as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RouteArgument {
    /// The cheapest one.
    Best,
    /// The same memory.
    Alias,
    /// One copy by one plugin.
    Direct,
    /// Through host memory.
    Staged,
}

impl RouteArgument {
    /// As it is written on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Alias => "alias",
            Self::Direct => "direct",
            Self::Staged => "staged",
        }
    }
}

impl From<RouteArgument> for RouteChoice {
    fn from(argument: RouteArgument) -> Self {
        match argument {
            RouteArgument::Best => Self::Best,
            RouteArgument::Alias => Self::Only(RouteKind::Alias),
            RouteArgument::Direct => Self::Only(RouteKind::Direct),
            RouteArgument::Staged => Self::Only(RouteKind::Staged),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let runtime = session::open_for_work(globals)?;
    let from = runtime.device(arguments.from)?;
    let to = runtime.target(arguments.to)?;
    let Shape(shape) = &arguments.shape;
    let layout = match &arguments.strides {
        Some(Strides(strides)) => Layout::strided(arguments.dtype, shape, strides),
        None => Layout::compact(arguments.dtype, shape),
    };
    let layout = layout.map_err(|error| {
        let what = format!(
            "describe a tensor of shape {shape:?} and dtype {}",
            arguments.dtype
        );
        let next = "give a smaller shape, and one stride for each extent";
        Problem::new(what, error.to_string(), next)
    })?;
    let route = crossdock::explain(&layout, &from, to, arguments.route.into());
    screen::result(format!("{}\n", route.to_string().trim_end()))?;
    Ok(Exit::broken_if(route.kind == RouteKind::Refused))
}

/// The extents of `--shape`.
#[derive(Debug, Clone)]
struct Shape(Vec<i64>);

#[derive(Debug, thiserror::Error)]
#[error("write it as `4x4`")]
struct NoShape;

impl FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let extents = numbers(text)?;
        let is_shape = extents.iter().all(|extent| *extent >= 0);
        is_shape.then_some(Self(extents)).ok_or(NoShape)
    }
}

/// The strides of `--strides`.
#[derive(Debug, Clone)]
struct Strides(Vec<i64>);

impl FromStr for Strides {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        numbers(text).map(Self)
    }
}

fn numbers(text: &str) -> Result<Vec<i64>, NoShape> {
    let numbers: Result<_, _> = text.split(['x', ',']).map(str::parse).collect();
    numbers.map_err(|_unread: std::num::ParseIntError| NoShape)
}
