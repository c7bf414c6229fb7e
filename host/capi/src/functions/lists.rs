//! `xd_device_list`, `xd_plugin_list` and `xd_error_list`: what there was when somebody asked.
#![expect(unsafe_code, reason = "exports functions by name")]

use crossdock_api::{
    Failure, Out, Owned, Ref, XdDevice, XdDeviceList, XdError, XdErrorList, XdList, XdPlugin,
    XdPluginList, XdRuntime,
};

use crate::crossing::boundary::{fence_free, fence_into};
use crate::crossing::error_object::ErrorObject;
use crate::crossing::failure::of_runtime;
use crate::crossing::object::{Handle, borrow, give, release};
use crate::functions::plugin::PluginObject;

impl Handle for XdDeviceList {
    type Object = List<XdDevice>;
    const NAME: &'static str = "list";
}

impl Handle for XdPluginList {
    type Object = List<XdPlugin>;
    const NAME: &'static str = "list";
}

impl Handle for XdErrorList {
    type Object = List<XdError>;
    const NAME: &'static str = "list";
}

/// A list as C reads it, before the handles that it lends.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct List<H: Handle + 'static> {
    head: XdList<H>,
    handles: Vec<Owned<H>>,
}

impl<H: Handle> List<H> {
    fn new(objects: impl IntoIterator<Item = H::Object>) -> Self {
        let handles: Vec<Owned<H>> = objects.into_iter().map(give).collect();
        // SAFETY: the handles are changed by nobody before `drop`, and a vector that moves leaves them
        // where they are.
        let head = unsafe { XdList::of(&handles) };
        Self { head, handles }
    }
}

impl<H: Handle> Drop for List<H> {
    fn drop(&mut self) {
        self.handles.drain(..).for_each(release);
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_plugins(
    runtime: Ref<'_, XdRuntime>,
    out: Out<'_, Owned<XdPluginList>>,
) -> Failure {
    fence_into("xd_runtime_plugins", out, || {
        let plugins = borrow(runtime)?.plugins();
        Ok(give(List::new(plugins.iter().map(PluginObject::new))))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_refused(
    runtime: Ref<'_, XdRuntime>,
    out: Out<'_, Owned<XdErrorList>>,
) -> Failure {
    fence_into("xd_runtime_refused", out, || {
        let refused = borrow(runtime)?.refused();
        let why = |refused| ErrorObject::new(of_runtime(refused, "xd_runtime_open"));
        Ok(give(List::new(refused.iter().map(why))))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_runtime_devices(
    runtime: Ref<'_, XdRuntime>,
    out: Out<'_, Owned<XdDeviceList>>,
) -> Failure {
    fence_into("xd_runtime_devices", out, || {
        Ok(give(List::new(borrow(runtime)?.devices())))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_plugin_list_free(list: Owned<XdPluginList>) {
    fence_free(list);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_error_list_free(list: Owned<XdErrorList>) {
    fence_free(list);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_device_list_free(list: Owned<XdDeviceList>) {
    fence_free(list);
}
