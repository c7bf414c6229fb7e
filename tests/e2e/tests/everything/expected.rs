//! Which routes there are between two devices, and why the others are refused.

use std::sync::Arc;

use crossdock::{Device, Error, Route, RouteChoice, RouteKind, Tensor};
use crossdock_sdk::abi::Capabilities;

pub(super) const CHOICES: [RouteChoice; 3] = [
    RouteChoice::Best,
    RouteChoice::Only(RouteKind::Direct),
    RouteChoice::Only(RouteKind::Staged),
];

/// Where nothing reaches the other side, and nobody may go through host memory.
const NOT_REACHED: &str = "direct: neither plugin reaches the other's memory";

/// The route that is taken; none where the choice has none.
pub(super) fn expected(from: &Device, to: &Device, choice: RouteChoice) -> Option<RouteKind> {
    let is_host = |device: &Device| device.plugin().name() == "cpu";
    // Memory that is the host's own, or is mapped for it; and a device that works on such memory where it lies.
    let is_hosts = is_host(from) || from.plugin().hooks().table().map().is_some();
    let adopts = to.capabilities().contains(Capabilities::ADOPT_HOST);
    let reaches = Arc::ptr_eq(from.plugin(), to.plugin()) || is_host(from) || is_host(to);
    match choice {
        RouteChoice::Only(RouteKind::Direct) => reaches.then_some(RouteKind::Direct),
        RouteChoice::Only(kind) => Some(kind),
        _ if from == to => Some(RouteKind::Alias),
        _ if is_hosts && (adopts || is_host(to)) => Some(RouteKind::Alias),
        _ if reaches => Some(RouteKind::Direct),
        _ => Some(RouteKind::Staged),
    }
}

/// Demands that a move took the route that there is, or was refused with the reason.
pub(super) fn judged(
    what: &str,
    moved: Result<(Tensor, Route), Error>,
    expected: Option<RouteKind>,
) -> Option<(Tensor, Route)> {
    match (moved, expected) {
        (Ok((moved, route)), Some(kind)) => {
            assert_eq!(route.kind, kind, "{what}: {route}");
            Some((moved, route))
        }
        (Ok((_, route)), None) => {
            panic!("{what}: there is no such route, and it was taken: {route}")
        }
        (Err(error), None) => {
            assert!(
                matches!(error, Error::Refused { .. }),
                "{what}: {error}: {}",
                error.why()
            );
            assert!(error.why().contains(NOT_REACHED), "{what}: {}", error.why());
            None
        }
        (Err(error), Some(_)) => panic!("{what}: {error}: {}", error.why()),
    }
}
