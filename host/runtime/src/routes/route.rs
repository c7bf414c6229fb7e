//! The route planner: alias, direct, staged, or refused with every reason.

use std::fmt;

use crossdock_sdk::abi::MemoryKind;
use crossdock_sdk::dlpack::{self, Layout};

use crate::copies::elements;
use crate::copies::order;
use crate::devices::device::Device;
use crate::error::Error;
use crate::process::trace;
use crate::route_data::costs::Cost;
use crate::route_data::kinds::{RouteChoice, RouteKind};
use crate::routes::explanation::{Instead, Reason, RefusedRoute, Step};
use crate::routes::plan::{self, Alias, Copies, End, MeasurePolicy};
use crate::streams::outstanding_work::Access;
use crate::streams::stream::Stream;
use crate::tensors::memory::Memory;
use crate::tensors::reach::{Maps, Reach};
use crate::tensors::target::Target;
use crate::tensors::tensor::Tensor;

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
    pub steps: Vec<Step>,
    /// The routes that were tried before it, each with the reason why it does not work.
    pub refused: Vec<RefusedRoute>,
    /// The routes that could be taken instead, with what they would cost.
    pub instead: Vec<Instead>,
    /// What it is expected to take, for a tensor that lies like this in such memory.
    pub cost: Cost,
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
        if self.kind != RouteKind::Refused {
            write!(f, "\n  cost: {}", self.cost)?;
        }
        for other in &self.instead {
            write!(f, "\n  instead of {other}")?;
        }
        for reason in &self.refused {
            write!(f, "\n  not {reason}")?;
        }
        Ok(())
    }
}

/// What moving a tensor of this layout would do and cost, from the device's own memory to a device or a
/// target. Where the costs between these devices are not known yet, this measures them.
#[must_use]
pub fn explain(
    layout: &Layout,
    from: &Device,
    to: impl Into<Target>,
    choice: RouteChoice,
) -> Route {
    explain_of_device(layout, (from, &to.into()), choice, None)
}

/// As [`explain`], in the order of a stream: also what waits for the work that is on it. A move on a
/// stream goes by the costs that are known, so nothing is measured. Only the copy finds out whether a
/// plugin takes a strided layout on a stream; where it does not, the caller waits while it is packed.
///
/// # Errors
/// [`Error::Hook`]: `FORKED` for a stream of the process that this one was forked off.
pub fn explain_on(
    layout: &Layout,
    from: &Device,
    to: impl Into<Target>,
    choice: RouteChoice,
    stream: &Stream,
) -> Result<Route, Error> {
    order::check(Some(stream))?;
    let (to, stream) = (to.into(), Some(stream));
    Ok(explain_of_device(layout, (from, &to), choice, stream))
}

fn explain_of_device(
    layout: &Layout,
    (from, to): (&Device, &Target),
    choice: RouteChoice,
    stream: Option<&Stream>,
) -> Route {
    let takes_alias = to.new_kind() == MemoryKind::DEVICE;
    let seen = (of_device(from), takes_alias, false);
    explain_from(layout, (End::on(from, layout), to), choice, seen, stream)
}

/// Of a device's memory, when no other is named.
fn of_device(device: &Device) -> Reach {
    Reach {
        by_host: device.is_host_accessible(),
        is_of_a_kind: false,
        maps: Maps::Known,
    }
}

impl Tensor {
    /// The same values on `device`, by the chosen route, and the route that was taken.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason why each route does not work.
    pub fn to(&self, device: &Device, choice: RouteChoice) -> Result<(Self, Route), Error> {
        self.move_to(&device.into(), choice, None)
    }

    /// What [`Tensor::to`] would do and cost, as by [`explain`]: of pinned and managed memory the
    /// host sees more than of its device's other memory.
    #[must_use]
    pub fn explain(&self, to: &Device, choice: RouteChoice) -> Route {
        self.explained(&to.into(), choice, None)
    }

    /// What [`Tensor::to_on`] would do and cost, as by [`explain_on`].
    ///
    /// # Errors
    /// As [`explain_on`].
    pub fn explain_on(
        &self,
        to: &Device,
        choice: RouteChoice,
        stream: &Stream,
    ) -> Result<Route, Error> {
        self.explain_move(&to.into(), choice, Some(stream))
    }

    /// What [`Tensor::move_to`] would do and cost, as by [`explain_on`].
    ///
    /// # Errors
    /// As [`explain_on`].
    pub fn explain_move(
        &self,
        to: &Target,
        choice: RouteChoice,
        stream: Option<&Stream>,
    ) -> Result<Route, Error> {
        order::check(stream)?;
        Ok(self.explained(to, choice, stream))
    }

    /// The same values in the memory that is asked for, in the order of a stream or at once, and the route
    /// that was taken. Memory of the kind is only aliased where it is the device's already; new memory is
    /// of the kind.
    ///
    /// # Errors
    /// As [`Tensor::to`] and [`Tensor::to_on`], and [`Tensor::empty_of`].
    pub fn move_to(
        &self,
        to: &Target,
        choice: RouteChoice,
        stream: Option<&Stream>,
    ) -> Result<(Self, Route), Error> {
        move_to(self, to, choice, stream)
    }

    fn explained(&self, to: &Target, choice: RouteChoice, stream: Option<&Stream>) -> Route {
        let memory = self.memory();
        let is_seen = is_seen(self, to.device());
        let reach = Reach::towards(memory, to.device()).asked();
        let seen = (reach, to.takes_alias_of(memory), is_seen);
        explain_from(self.layout(), (End::of(self), to), choice, seen, stream)
    }
}

/// Explains a move of memory that the host may see, and the destination already.
fn explain_from(
    layout: &Layout,
    (source, target): (End<'_>, &Target),
    choice: RouteChoice,
    (reach, takes_alias, by_destination): (Reach, bool, bool),
    stream: Option<&Stream>,
) -> Route {
    let (from, to) = (source.device, target.device());
    let mut route = Route::new(from.id(), target.id());
    let reach = takes_alias.then_some(reach);
    if let Some(alias) = route.alias((from, to), choice, reach) {
        let awaited = stream.filter(|_| !by_destination);
        return route.aliased(&alias, (from, to), awaited);
    }
    let bytes = layout.bytes();
    let policy = stream.map_or(MeasurePolicy::Always, |stream| {
        MeasurePolicy::on(Some(stream))
    });
    let ends = (source, End::made_for(target));
    let copies = plan::copies(bytes, ends, choice, policy);
    route.refuse_direct(&copies);
    match copies.ways.first() {
        Some(_) => route.copied(&copies, 0, (from, to), (bytes, stream)),
        None => route,
    }
}

/// Whether the memory is the destination's already, so that an alias of it is only found.
fn is_seen(tensor: &Tensor, to: &Device) -> bool {
    tensor.memory().size == 0 || tensor.memory().seen_through(to).is_some()
}

/// Moves a tensor by the cheapest allowed route that works, in the order of a stream or at once.
fn move_to(
    tensor: &Tensor,
    to: &Target,
    choice: RouteChoice,
    stream: Option<&Stream>,
) -> Result<(Tensor, Route), Error> {
    let mut span = trace::span("route", "move", || {
        let (from, to) = (tensor.device().id().to_string(), to.to_string());
        serde_json::json!({ "from": from, "to": to, "bytes": tensor.nbytes() })
    });
    order::check(stream)?;
    let taken = take_cheapest(tensor, to, choice, stream);
    match &taken {
        Ok((_, route)) => {
            span.add("route", || route.kind.to_string().into());
            log::debug!(target: "crossdock::route", "{route}");
        }
        Err(Error::Refused { .. }) => {
            span.add("route", || RouteKind::Refused.to_string().into());
        }
        Err(_) => {}
    }
    taken
}

fn take_cheapest(
    tensor: &Tensor,
    target: &Target,
    choice: RouteChoice,
    stream: Option<&Stream>,
) -> Result<(Tensor, Route), Error> {
    tensor.memory().check_claim()?;
    let (from, to) = (tensor.device(), target.device());
    let mut route = Route::new(from.id(), target.id());
    let memory = tensor.memory();
    let takes_alias = target.takes_alias_of(memory);
    let reach = takes_alias.then(|| Reach::towards(memory, to));
    if let Some(alias) = route.alias((from, to), choice, reach) {
        let awaited = stream.filter(|_| !is_seen(tensor, to));
        match take_alias(&alias, tensor, to, stream) {
            Ok(moved) => return Ok((moved, route.aliased(&alias, (from, to), awaited))),
            Err(error) => route.fell(RouteKind::Alias, error)?,
        }
    }
    let bytes = tensor.nbytes();
    let ends = (End::of(tensor), End::made_for(target));
    let copies = plan::copies(bytes, ends, choice, MeasurePolicy::on(stream));
    route.refuse_direct(&copies);
    for (index, (way, _)) in copies.ways.iter().enumerate() {
        let moved = Tensor::empty_of(to, tensor.layout(), target.new_kind())?;
        match way.copy(&moved, tensor, stream) {
            Ok(()) => {
                let route = route.copied(&copies, index, (from, to), (bytes, stream));
                return Ok((moved, route));
            }
            Err(error) => route.fell_among(&copies, index, (tensor, &moved), error)?,
        }
    }
    Err(route.refused())
}

/// Copies into memory that exists, by the cheapest way that works. The two do not overlap, and what
/// is beside the elements stays.
pub(crate) fn copy_into(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    if !elements::shares_last_byte(dst) {
        return copy_whole(dst, src, stream);
    }
    let packed = elements::packed(src, stream)?;
    let (body, edge) = elements::split(dst)?;
    let (from_body, from_edge) = elements::split(&packed)?;
    if body.layout().numel() > 0 {
        copy_whole(&body, &from_body, stream)?;
    }
    elements::copy_edge(&edge, &from_edge, stream)
}

/// As [`copy_into`], with the bits behind a last element that ends inside a byte.
fn copy_whole(dst: &Tensor, src: &Tensor, stream: Option<&Stream>) -> Result<(), Error> {
    let (from, to) = (src.device(), dst.device());
    let mut route = Route::new(from.id(), to.id());
    let copies = plan::copies(
        src.nbytes(),
        (End::of(src), End::of(dst)),
        RouteChoice::Best,
        MeasurePolicy::on(stream),
    );
    for (index, (way, _)) in copies.ways.iter().enumerate() {
        match way.copy(dst, src, stream) {
            Ok(()) => return Ok(()),
            Err(error) => route.fell_among(&copies, index, (src, dst), error)?,
        }
    }
    Err(route.refused())
}

fn take_alias(
    alias: &Alias,
    tensor: &Tensor,
    to: &Device,
    stream: Option<&Stream>,
) -> Result<Tensor, Error> {
    if *alias == Alias::Same {
        return Ok(tensor.clone());
    }
    if tensor.memory().size == 0 {
        return Tensor::empty(to, tensor.layout());
    }
    // An alias that goes back is no alias of an alias: each would keep the one before it.
    if let Some(own) = tensor.memory().seen_through(to) {
        return Ok(own.view(tensor.layout().clone(), tensor.offset()));
    }
    // Adopting and mapping look at the bytes, and cannot follow a stream.
    let wait_for_work = || {
        order::synchronize(stream)?;
        let outstanding = tensor.memory().outstanding();
        outstanding.synchronize(Access::Read, None).map(drop)
    };
    let memory = match alias {
        Alias::Same => return Ok(tensor.clone()),
        Alias::Adopt => wait_for_work().and_then(|()| Memory::adopt(to, tensor))?,
        Alias::Map => wait_for_work().and_then(|()| Memory::map(to, tensor))?,
        Alias::MapAndAdopt(host) => {
            let seen = take_alias(&Alias::Map, tensor, host, stream)?;
            return take_alias(&Alias::Adopt, &seen, to, stream);
        }
    };
    Ok(Tensor::of(memory, tensor.layout().clone(), tensor.offset()))
}

impl Route {
    fn new(from: dlpack::Device, to: dlpack::Device) -> Self {
        Self {
            kind: RouteKind::Refused,
            from,
            to,
            steps: Vec::new(),
            refused: Vec::new(),
            instead: Vec::new(),
            cost: Cost::NOTHING,
            bytes_copied: 0,
        }
    }

    /// The alias, where one was asked for and is possible. Without a reach it would be of another kind than
    /// is asked for.
    fn alias(
        &mut self,
        (from, to): (&Device, &Device),
        choice: RouteChoice,
        reach: Option<Reach>,
    ) -> Option<Alias> {
        if !choice.allows(RouteKind::Alias) {
            return None;
        }
        let alias = reach.map_or(Err(Reason::OtherKind), |reach| plan::alias(from, to, reach));
        alias
            .map_err(|reason| self.refuse(RouteKind::Alias, reason))
            .ok()
    }

    fn refuse(&mut self, kind: RouteKind, reason: Reason) {
        let ends = (self.from, self.to);
        self.refused.push(RefusedRoute::new(kind, ends, reason));
    }

    fn refuse_direct(&mut self, copies: &Copies<'_>) {
        if let Some(reason) = &copies.refused {
            self.refuse(RouteKind::Direct, reason.clone());
        }
    }

    /// The alias. Adopting and mapping wait for the work on the stream, if there is one.
    fn aliased(
        mut self,
        alias: &Alias,
        (from, to): (&Device, &Device),
        stream: Option<&Stream>,
    ) -> Self {
        if stream.is_some() && *alias != Alias::Same {
            self.steps.push(Step::WAITS);
        }
        self.kind = RouteKind::Alias;
        match alias {
            Alias::Same => self.steps.push(Step::NOTHING),
            Alias::Adopt => self.steps.push(Step::adopts(from, to)),
            Alias::Map => self.steps.push(Step::maps(from)),
            Alias::MapAndAdopt(_) => {
                let steps = [Step::maps(from), Step::adopts(from, to)];
                self.steps.extend(steps);
            }
        }
        self
    }

    /// The copy with this index, and those behind it as what it is taken instead of.
    fn copied(
        mut self,
        copies: &Copies<'_>,
        index: usize,
        (from, to): (&Device, &Device),
        (bytes, stream): (u64, Option<&Stream>),
    ) -> Self {
        let mut ways = copies.ways.iter().skip(index);
        let Some((way, cost)) = ways.next() else {
            return self;
        };
        self.cost = *cost;
        self.instead = ways
            .map(|(way, cost)| Instead::of(*way, *cost, (from, to)))
            .collect();
        let legs = if way.kind() == RouteKind::Staged {
            2
        } else {
            1
        };
        match stream {
            Some(stream) if way.kind() == RouteKind::Staged => {
                self.steps.push(Step::staged(from, to, stream, bytes));
            }
            Some(stream) if !way.follows(from, to, stream) => self.steps.push(Step::WAITS),
            _ => {}
        }
        (self.kind, self.bytes_copied) = (way.kind(), bytes.saturating_mul(legs));
        let copy = Step::copies(*way, (from, to), (bytes, stream));
        self.steps.push(copy);
        if let Some(peer) = &copies.peer
            && legs == 1
        {
            self.steps.push(Step::link(from, to, &peer.link));
        }
        let waits = [Step::ordered(from, to), Step::ordered(to, from)];
        self.steps.extend(waits.into_iter().flatten());
        self
    }

    fn refused(self) -> Error {
        Error::Refused {
            from: self.from,
            to: self.to,
            reasons: self.refused.iter().map(ToString::to_string).collect(),
        }
    }

    /// Notes why the copy with this index fell, which it also does where there is no room to pack and
    /// another one is left.
    fn fell_among(
        &mut self,
        copies: &Copies<'_>,
        index: usize,
        (src, dst): (&Tensor, &Tensor),
        error: Error,
    ) -> Result<(), Error> {
        let Some((way, _)) = copies.ways.get(index) else {
            return Err(error);
        };
        let is_last = index + 1 == copies.ways.len();
        if !is_last && error.is_out_of_memory() && way.packs(src, dst) {
            self.refuse(way.kind(), Reason::Fell(error));
            return Ok(());
        }
        self.fell(way.kind(), error)
    }

    /// Notes why a route fell; an error that another route would not mend is given back.
    fn fell(&mut self, kind: RouteKind, error: Error) -> Result<(), Error> {
        if !error.is_unsupported() {
            return Err(error);
        }
        self.refuse(kind, Reason::Fell(error));
        Ok(())
    }
}
