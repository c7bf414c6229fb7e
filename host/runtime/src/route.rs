//! The route planner: alias, direct, staged, or refused with every reason.

use std::fmt;
use std::sync::Arc;

use crossdock_sdk::abi::Capabilities;
use crossdock_sdk::dlpack::{self, DeviceType, Layout};

use crate::device::Device;
use crate::error::Error;
use crate::memory::Memory;
use crate::pending::Access;
use crate::staging;
use crate::stream::Stream;
use crate::tensor::{Tensor, compact};
use crate::trace;
use crate::transfer;

/// How a tensor reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RouteKind {
    /// The same memory; nothing is copied.
    Alias,
    /// One copy, made by one plugin.
    Direct,
    /// Through host memory, in chunks.
    Staged,
    /// None works.
    Refused,
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alias => "alias",
            Self::Direct => "direct",
            Self::Staged => "staged",
            Self::Refused => "refused",
        })
    }
}

/// Which routes are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteChoice {
    /// The first that works of alias, direct, staged.
    Best,
    /// This one, or an error that says why not.
    Only(RouteKind),
}

impl RouteChoice {
    fn kinds(self) -> Vec<RouteKind> {
        match self {
            Self::Best => vec![RouteKind::Alias, RouteKind::Direct, RouteKind::Staged],
            Self::Only(kind) => vec![kind],
        }
    }
}

/// A route with its explanation, which is also its `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The kind.
    pub kind: RouteKind,
    /// Where the tensor is.
    pub from: dlpack::Device,
    /// Where it goes.
    pub to: dlpack::Device,
    /// What is done, in order.
    pub steps: Vec<String>,
    /// The routes before it, with the reason why each fell.
    pub refused: Vec<String>,
    /// Bytes that are copied; 0 for an alias.
    pub bytes_copied: u64,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} -> {}: {}, {} bytes copied",
            self.from, self.to, self.kind, self.bytes_copied
        )?;
        for step in &self.steps {
            write!(f, "\n  {step}")?;
        }
        for reason in &self.refused {
            write!(f, "\n  not {reason}")?;
        }
        Ok(())
    }
}

/// What moving a tensor of this layout would do, as far as the devices' properties tell.
#[must_use]
pub fn explain(layout: &Layout, from: &Device, to: &Device, choice: RouteChoice) -> Route {
    let mut route = Route::new(from, to);
    for kind in choice.kinds() {
        match plan(kind, from, to) {
            Ok(step) => {
                route.kind = kind;
                route.steps.push(step);
                route.bytes_copied = bytes_copied(kind, layout);
                return route;
            }
            Err(reason) => route.refused.push(format!("{kind}: {reason}")),
        }
    }
    route
}

/// Moves a tensor by the first allowed route that works, in the order of a stream or at once.
pub(crate) fn move_to(
    tensor: &Tensor,
    to: &Device,
    choice: RouteChoice,
    stream: Option<&Stream>,
) -> Result<(Tensor, Route), Error> {
    let mut route = Route::new(tensor.device(), to);
    let mut span = trace::span("route", "move", || {
        let (from, to) = (route.from.to_string(), route.to.to_string());
        serde_json::json!({ "from": from, "to": to, "bytes": tensor.nbytes() })
    });
    for kind in choice.kinds() {
        let step = match plan(kind, tensor.device(), to) {
            Ok(step) => step,
            Err(reason) => {
                route.refused.push(format!("{kind}: {reason}"));
                continue;
            }
        };
        match take(kind, tensor, to, stream) {
            Ok(moved) => {
                route.kind = kind;
                route.steps.push(step);
                route.bytes_copied = bytes_copied(kind, tensor.layout());
                span.add("route", || kind.to_string().into());
                log::debug!(target: "crossdock::route", "{route}");
                return Ok((moved, route));
            }
            Err(error) if error.is_unsupported() => {
                route.refused.push(format!("{kind}: {}", error.why()));
            }
            Err(error) => return Err(error),
        }
    }
    span.add("route", || RouteKind::Refused.to_string().into());
    Err(Error::Refused {
        from: route.from,
        to: route.to,
        reasons: route.refused,
    })
}

impl Route {
    fn new(from: &Device, to: &Device) -> Self {
        Self {
            kind: RouteKind::Refused,
            from: from.id(),
            to: to.id(),
            steps: Vec::new(),
            refused: Vec::new(),
            bytes_copied: 0,
        }
    }
}

fn bytes_copied(kind: RouteKind, layout: &Layout) -> u64 {
    match kind {
        RouteKind::Alias | RouteKind::Refused => 0,
        RouteKind::Direct => layout.bytes(),
        RouteKind::Staged => layout.bytes().saturating_mul(2),
    }
}

/// What a route of this kind would do, or why it cannot be.
fn plan(kind: RouteKind, from: &Device, to: &Device) -> Result<String, String> {
    match kind {
        RouteKind::Alias => plan_alias(from, to).map(|(_, step)| step),
        RouteKind::Direct => plan_direct(from, to).map(|(_, step)| step),
        RouteKind::Staged => Ok(format!(
            "`{}` reads into host memory and `{}` writes from it, two chunks of {} MiB in turn",
            from.plugin().name(),
            to.plugin().name(),
            staging::CHUNK_BYTES >> 20,
        )),
        RouteKind::Refused => Err("it was asked to be refused".to_owned()),
    }
}

/// How memory becomes another device's without a copy.
enum Alias {
    Same,
    Adopt,
    Map,
}

fn plan_alias(from: &Device, to: &Device) -> Result<(Alias, String), String> {
    if from == to {
        return Ok((Alias::Same, "the same device: the same memory".to_owned()));
    }
    let adopts = to.capabilities().contains(Capabilities::ADOPT_HOST);
    if from.is_host_accessible() && adopts {
        let step = format!("`{}` adopts the memory of `{from}`", to.plugin().name());
        return Ok((Alias::Adopt, step));
    }
    if to.id().ty == DeviceType::CPU && from.hooks().table().map().is_some() {
        let step = format!("`{}` maps its memory for the host", from.plugin().name());
        return Ok((Alias::Map, step));
    }
    Err(format!("`{to}` cannot adopt memory of `{from}`"))
}

/// Which side's plugin makes the copy.
enum Maker {
    Source,
    Destination,
}

fn plan_direct(from: &Device, to: &Device) -> Result<(Maker, String), String> {
    let says = |device: &Device| format!("`{}` copies by itself", device.plugin().name());
    if Arc::ptr_eq(from.plugin(), to.plugin()) || to.is_host_accessible() {
        return Ok((Maker::Source, says(from)));
    }
    if from.is_host_accessible() {
        return Ok((Maker::Destination, says(to)));
    }
    Err("neither plugin reaches the other's memory".to_owned())
}

fn take(
    kind: RouteKind,
    tensor: &Tensor,
    to: &Device,
    stream: Option<&Stream>,
) -> Result<Tensor, Error> {
    match kind {
        RouteKind::Alias => alias(tensor, to),
        RouteKind::Direct => direct(tensor, to, stream),
        RouteKind::Staged => staged(tensor, to),
        RouteKind::Refused => Err(unreachable_route(tensor, to)),
    }
}

fn alias(tensor: &Tensor, to: &Device) -> Result<Tensor, Error> {
    let Ok((alias, _)) = plan_alias(tensor.device(), to) else {
        return Err(unreachable_route(tensor, to));
    };
    if tensor.memory().size == 0 {
        return Tensor::empty(to, tensor.layout());
    }
    // Adopting and mapping look at the bytes, and are not part of any stream.
    let settled = || tensor.memory().pending().synchronize(Access::Read, None);
    let memory = match alias {
        Alias::Same => return Ok(tensor.clone()),
        Alias::Adopt => settled().and_then(|()| Memory::adopt(to, tensor.memory()))?,
        Alias::Map => settled().and_then(|()| Memory::map(to, tensor.memory()))?,
    };
    Ok(Tensor::view(
        Arc::new(memory),
        tensor.layout().clone(),
        tensor.offset(),
    ))
}

fn direct(tensor: &Tensor, to: &Device, stream: Option<&Stream>) -> Result<Tensor, Error> {
    let moved = Tensor::empty(to, tensor.layout())?;
    copy_direct(&moved, tensor, stream)?;
    Ok(moved)
}

/// Copies by the plugin that reaches both sides; a pattern that it cannot make is packed first, on
/// the side where it is.
fn copy_direct(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    let (from, to) = (src.device(), dst.device());
    let maker = match plan_direct(from, to) {
        Ok((Maker::Source, _)) => from,
        Ok((Maker::Destination, _)) => to,
        Err(_) => return Err(unreachable_route(src, to)),
    };
    match transfer::copy_tensor(maker, dst, src, stream) {
        Err(error) if error.is_unsupported() => {}
        done => return done,
    }
    if !src.layout().is_contiguous() {
        return copy_direct(dst, &transfer::packed(src, stream)?, stream);
    }
    if dst.layout().is_contiguous() {
        return Err(unreachable_route(src, to));
    }
    let packed = Tensor::empty(to, dst.layout())?;
    copy_direct(&packed, src, stream)?;
    transfer::unpack(dst, &packed, stream)
}

fn staged(tensor: &Tensor, to: &Device) -> Result<Tensor, Error> {
    let packed = transfer::packed(tensor, None)?;
    let moved = Tensor::empty(to, &compact(tensor.layout())?)?;
    staging::stage(&moved, &packed)?;
    Ok(moved)
}

/// Copies into memory that exists, by the first of direct and staged that works. The two do not
/// overlap.
pub(crate) fn copy_into(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    match copy_direct(dst, src, stream) {
        Err(error) if error.is_unsupported() || matches!(error, Error::Refused { .. }) => {}
        done => return done,
    }
    let moved = staged(src, dst.device())?;
    transfer::unpack(dst, &moved, stream)
}

fn unreachable_route(tensor: &Tensor, to: &Device) -> Error {
    Error::Refused {
        from: tensor.device().id(),
        to: to.id(),
        reasons: Vec::new(),
    }
}
