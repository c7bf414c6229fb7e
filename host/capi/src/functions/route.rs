//! `xd_route`: how a tensor reached, or would reach, a device.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::CString;
use std::sync::OnceLock;

use crossdock::{
    Device, Error, Route, RouteChoice, RouteKind as Kind, Stream, Target, explain, explain_on,
};
use crossdock_api::{
    COST_UNKNOWN, Failure, Out, Owned, Ref, RouteKind, Text, XdDevice, XdLayout, XdMoveOptions,
    XdRoute, XdTensor,
};

use crate::crossing::boundary::{fence_free, fence_into, fence_value};
use crate::crossing::error_object::c_text;
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{Handle, borrow, borrow_tensor, give, look};

impl Handle for XdRoute {
    type Object = RouteObject;
    const NAME: &'static str = "route";
}

/// A route, with its texts as C reads them once somebody asked for one.
#[derive(Debug)]
pub(crate) struct RouteObject {
    route: Route,
    texts: OnceLock<Texts>,
}

#[derive(Debug)]
struct Texts {
    whole: CString,
    steps: Vec<CString>,
    refused: Vec<CString>,
    instead: Vec<CString>,
}

impl RouteObject {
    pub(crate) const fn new(route: Route) -> Self {
        Self {
            route,
            texts: OnceLock::new(),
        }
    }

    const fn kind(&self) -> RouteKind {
        match self.route.kind {
            Kind::Alias => RouteKind::ALIAS,
            Kind::Direct => RouteKind::DIRECT,
            Kind::Staged => RouteKind::STAGED,
            _ => RouteKind::REFUSED,
        }
    }

    fn cost_ns(&self) -> u64 {
        let time = self.route.cost.time.map(|time| time.as_nanos());
        let time = time.and_then(|time| u64::try_from(time).ok());
        time.unwrap_or(COST_UNKNOWN)
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| Texts {
            whole: c_text(self.route.to_string()),
            steps: each(&self.route.steps),
            refused: each(&self.route.refused),
            instead: each(&self.route.instead),
        })
    }
}

fn each<T: ToString>(sentences: &[T]) -> Vec<CString> {
    let texts = sentences
        .iter()
        .map(|sentence| c_text(sentence.to_string()));
    texts.collect()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_explain(
    from: Ref<'_, XdDevice>,
    to: Ref<'_, XdDevice>,
    layout: Ref<'_, XdLayout<'_>>,
    options: Ref<'_, XdMoveOptions<'_>>,
    out: Out<'_, Owned<XdRoute>>,
) -> Failure {
    fence_into("xd_route_explain", out, || {
        let (from, to) = (borrow(from)?, borrow(to)?);
        let layout = input::layout(layout)?;
        explained(to, options, |to, choice, stream| match stream {
            Some(stream) => explain_on(&layout, from, to, choice, stream),
            None => Ok(explain(&layout, from, to, choice)),
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_tensor_explain(
    tensor: Ref<'_, XdTensor>,
    to: Ref<'_, XdDevice>,
    options: Ref<'_, XdMoveOptions<'_>>,
    out: Out<'_, Owned<XdRoute>>,
) -> Failure {
    fence_into("xd_tensor_explain", out, || {
        let (tensor, to) = (borrow_tensor(tensor)?, borrow(to)?);
        explained(to, options, |to, choice, stream| {
            tensor.explain_move(&to, choice, stream)
        })
    })
}

/// The cheapest route among those that are allowed, with the ones that fell before it.
fn explained(
    to: &Device,
    options: Ref<'_, XdMoveOptions<'_>>,
    explain: impl Fn(Target, RouteChoice, Option<&Stream>) -> Result<Route, Error>,
) -> Result<Owned<XdRoute>, Refusal> {
    let options = input::options_or(options, XdMoveOptions::new())?;
    let target = input::target(to, options.kind);
    let route = explain(target, input::choice(&options)?, look(options.stream))?;
    Ok(give(RouteObject::new(route)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_kind(route: Ref<'_, XdRoute>) -> RouteKind {
    fence_value(|| look(route).map(RouteObject::kind))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_bytes_copied(route: Ref<'_, XdRoute>) -> u64 {
    fence_value(|| look(route).map(|route| route.route.bytes_copied))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_cost_ns(route: Ref<'_, XdRoute>) -> u64 {
    fence_value(|| Some(look(route).map_or(COST_UNKNOWN, RouteObject::cost_ns)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_text(route: Ref<'_, XdRoute>) -> Text<'_> {
    fence_value(|| look(route).map(|route| Text::new(&route.texts().whole)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_step(route: Ref<'_, XdRoute>, index: u64) -> Text<'_> {
    fence_value(|| Some(nth(look(route).map(|route| &route.texts().steps), index)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_refused(route: Ref<'_, XdRoute>, index: u64) -> Text<'_> {
    fence_value(|| Some(nth(look(route).map(|route| &route.texts().refused), index)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_instead(route: Ref<'_, XdRoute>, index: u64) -> Text<'_> {
    fence_value(|| Some(nth(look(route).map(|route| &route.texts().instead), index)))
}

/// NULL behind the last one and for no route, so that a loop over the texts ends.
fn nth(texts: Option<&Vec<CString>>, index: u64) -> Text<'_> {
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| texts?.get(index));
    found.map_or(Text::NULL, |text| Text::new(text))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_route_free(route: Owned<XdRoute>) {
    fence_free(route);
}
