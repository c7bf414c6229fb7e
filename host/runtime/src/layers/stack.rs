//! The tables that one open plugin is called through.
#![expect(unsafe_code, reason = "reads the table that a layer made")]

use std::ptr::NonNull;
use std::sync::Arc;

use crossdock_sdk::abi::PluginHandle;

use super::call::table_around;
use super::fault::Fault;
use super::layer::{Layer, LayerHooks};
use super::layered::Layered;
use super::trace::Tracer;
use super::validate::{LiveObjects, Validate};
use crate::contract::table::Table;

/// A table with the handle that its hooks take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    table: Table,
    handle: PluginHandle,
}

impl Target {
    pub(crate) const fn new(table: Table, handle: PluginHandle) -> Self {
        Self { table, handle }
    }

    pub(crate) const fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) const fn handle(&self) -> PluginHandle {
        self.handle
    }
}

/// An open plugin behind its layers. The trace is around all of them, and stands beside the way
/// without it, so that a call which is not traced does not even pass through.
#[derive(Debug)]
pub(crate) struct Stack {
    direct: Target,
    traced: Target,
    /// What the handles of both ways point at.
    layers: Vec<Arc<Layered>>,
}

impl Stack {
    /// Wraps a plugin that is open; the first of `layers` is nearest to the host.
    pub(crate) fn around(plugin: &str, own: Target, layers: &[Layer]) -> Self {
        let mut stack = Self {
            direct: own,
            traced: own,
            layers: Vec::new(),
        };
        for layer in layers.iter().rev() {
            let inner = stack.direct;
            let hooks: Box<dyn LayerHooks> = match layer {
                Layer::Validate => Box::new(Validate::new(plugin, inner)),
                Layer::Fault(plan) => Box::new(Fault::new(plugin, plan)),
            };
            stack.direct = stack.wrap(inner, hooks);
        }
        stack.traced = stack.wrap(stack.direct, Box::new(Tracer::new(plugin)));
        stack
    }

    /// The way that this call takes.
    #[inline]
    pub(crate) fn target(&self) -> &Target {
        if crate::process::trace::is_on() {
            &self.traced
        } else {
            &self.direct
        }
    }

    /// What was not given back, where a layer keeps a registry.
    pub(crate) fn live_objects(&self) -> Option<LiveObjects> {
        self.layers.iter().find_map(|layer| layer.live_objects())
    }

    /// A table that is no table of the contract cannot be wrapped, and is called as it is.
    fn wrap(&mut self, inner: Target, layer: Box<dyn LayerHooks>) -> Target {
        let mut raw = table_around(inner.table());
        // SAFETY: a whole table; its groups are constants of this program.
        let Ok(table) = (unsafe { Table::read(NonNull::from(&mut raw)) }) else {
            return inner;
        };
        let layered = Arc::new(Layered::new(inner, layer));
        let handle = Layered::as_handle(&layered);
        self.layers.push(layered);
        Target::new(table, handle)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use crossdock_sdk::abi::{HostServices, RawError, Status};
    use crossdock_sdk::plugin::table_of;

    use super::*;

    #[test]
    fn no_null_reaches_a_validated_plugin() {
        // SAFETY: the sdk made this table; it is a constant of this program.
        let table = unsafe { Table::read(table_of::<crossdock_plugin_cpu::Cpu>()) }.unwrap();
        let mut handle = PluginHandle::NONE;
        let host: *const HostServices = crate::contract::host_services::services();
        let mut error: *mut RawError = std::ptr::null_mut();
        let open = table.raw().open.unwrap();
        // SAFETY: the services are alive for ever; handle and error are ours.
        let status = unsafe { open(host, &raw mut handle, &raw mut error) };
        assert_eq!(status, Status::OK);
        let stack = Stack::around("cpu", Target::new(table, handle), &[Layer::Validate]);
        let (target, nothing) = (stack.direct, std::ptr::null_mut());
        let allocate = target.table().raw().allocate.unwrap();
        let mut address = crossdock_sdk::abi::Address::default();
        // SAFETY: NULL arguments and NULL for the error are what the layer has to refuse.
        let status =
            unsafe { allocate(target.handle(), std::ptr::null(), &raw mut address, nothing) };
        assert_eq!(status, Status::INVALID);
        let count = target.table().raw().device_count.unwrap();
        // SAFETY: as above, with room for the error.
        let status = unsafe { count(target.handle(), std::ptr::null_mut(), &raw mut error) };
        assert_eq!(status, Status::INVALID);
        let told = target.take_error(error).unwrap();
        assert_eq!(
            (told.operation(), told.message()),
            ("device_count", "`count` is NULL")
        );
        let close = target.table().raw().close.unwrap();
        // SAFETY: the handle is open, and not used afterwards.
        assert_eq!(unsafe { close(target.handle(), nothing) }, Status::OK);
    }
}
