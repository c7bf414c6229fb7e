//! Owned handles of the runtime's objects, and the texts that they lend.
#![expect(
    unsafe_code,
    reason = "shares counted handles, and reads what functions wrote"
)]

use crossdock_api::{
    Out, Owned, Ref, Text, XdApi, XdDevice, XdDeviceList, XdError, XdErrorList, XdEvent, XdPlugin,
    XdPluginList, XdRegistration, XdRoute, XdRuntime, XdStream, XdTensor,
};

use crate::link::table::api;

/// A kind of object that the table can free.
pub(crate) trait Object: 'static {
    fn free(api: &XdApi) -> extern "C" fn(Owned<Self>)
    where
        Self: Sized;
}

macro_rules! objects {
    ($($object:ident: $free:ident;)*) => {$(
        impl Object for $object {
            fn free(api: &XdApi) -> extern "C" fn(Owned<Self>) {
                api.$free
            }
        }
    )*};
}

objects! {
    XdDevice: device_free;
    XdDeviceList: device_list_free;
    XdError: error_free;
    XdErrorList: error_list_free;
    XdEvent: event_free;
    XdPlugin: plugin_free;
    XdPluginList: plugin_list_free;
    XdRegistration: registration_free;
    XdRoute: route_free;
    XdRuntime: runtime_free;
    XdStream: stream_free;
    XdTensor: tensor_free;
}

/// A handle that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle<T: Object>(*mut T);

// SAFETY: handles are counted, and may be used and freed on every thread at once.
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    pub(crate) const fn new(owned: Owned<T>) -> Self {
        Self(owned.into_raw())
    }

    /// Lends the handle for a call.
    pub(crate) const fn lend(&self) -> Ref<'_, T> {
        // SAFETY: a live handle until it is dropped, which the borrow prevents.
        unsafe { Ref::from_raw(self.0) }
    }

    /// The address that tells objects apart.
    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this handle owns one share, and gives it up here.
        let owned = unsafe { Owned::from_raw(self.0) };
        T::free(api())(owned);
    }
}

/// Calls a function that writes a handle, and takes the handle.
pub(crate) fn made<T: Object>(
    call: impl FnOnce(Out<'_, Owned<T>>) -> crossdock_api::Failure,
) -> Result<Handle<T>, crate::link::error::Failed> {
    let mut out = Owned::NULL;
    crate::link::error::check(call(Out::from(&mut out)))?;
    Ok(Handle::new(out))
}

/// Calls a function that writes an answer, and takes the answer.
pub(crate) fn written<T: Copy>(
    call: impl FnOnce(Out<'_, T>) -> crossdock_api::Failure,
) -> Result<T, crate::link::error::Failed> {
    let mut answer = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: a place of ours, aligned and writable.
    let out = unsafe { Out::from_raw(answer.as_mut_ptr()) };
    crate::link::error::check(call(out))?;
    // SAFETY: functions that worked have written their answer.
    Ok(unsafe { answer.assume_init() })
}

/// A copy of a text that the runtime lends; NULL is empty.
pub(crate) fn text(text: Text<'_>) -> String {
    text.to_c_str()
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// A Python text for C.
pub(crate) fn c_text(text: &str) -> pyo3::PyResult<std::ffi::CString> {
    std::ffi::CString::new(text)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}
