//! The tables that one open plugin is called through.
#![expect(unsafe_code, reason = "reads the table that a layer made")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::calls::call::table_around;
use crate::calls::layer_hooks::LayerHooks;
use crate::calls::layered::Layered;
use crate::calls::live_objects::LiveObjects;
use crate::calls::target::Target;
use crate::contract::table::Table;
use crate::fault::fault_layer::Fault;
use crate::stack::layer::Layer;
use crate::trace::tracer::Tracer;
use crate::validate::rules::Validate;

/// An open plugin behind its layers. The trace is around all of them, and stands beside the way
/// without it, so that a call which is not traced does not even pass through.
#[derive(Debug)]
pub struct Stack {
    direct: Target,
    traced: Target,
    /// What the handles of both ways point at.
    layers: Vec<Arc<Layered>>,
}

impl Stack {
    /// Wraps a plugin that is open; the first of `layers` is nearest to the host.
    #[must_use]
    pub fn around(plugin: &str, own: Target, layers: &[Layer]) -> Self {
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
    #[must_use]
    pub fn target(&self) -> &Target {
        if crate::trace::trace_file::is_on() {
            &self.traced
        } else {
            &self.direct
        }
    }

    /// What was not given back, where a layer keeps a registry.
    #[must_use]
    pub fn live_objects(&self) -> Option<LiveObjects> {
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
        // SAFETY: its hooks take the address of this `Layered`, which the stack keeps alive.
        unsafe { Target::new(table, handle) }
    }
}

#[cfg(test)]
mod tests {
    use crossdock_sdk::abi::{HostServices, PluginHandle, RawError, Status};
    use crossdock_sdk::plugin::table_of;

    use super::*;

    #[test]
    fn no_null_reaches_a_validated_plugin() {
        // SAFETY: the sdk made this table; it is a constant of this program.
        let table = unsafe { Table::read(table_of::<crossdock_plugin_cpu::Cpu>()) }.unwrap();
        let mut handle = PluginHandle::NONE;
        let host: *const HostServices = std::ptr::null();
        let mut error: *mut RawError = std::ptr::null_mut();
        let open = table.raw().open.unwrap();
        // SAFETY: NULL stands for a host without services; handle and error are ours.
        let status = unsafe { open(host, &raw mut handle, &raw mut error) };
        assert_eq!(status, Status::OK);
        // SAFETY: the handle is from this table's `open`, and is closed last.
        let own = unsafe { Target::new(table, handle) };
        let stack = Stack::around("cpu", own, &[Layer::Validate]);
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
