//! The function table as the campaigns call it: handles that are given back, and answers as results.
#![expect(unsafe_code, reason = "takes handles over from the table")]

use std::ffi::CString;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use crossdock_api::{
    ErrorKind, Failure as Answer, Out, Owned, Ref, RuntimeFlags, Text, XdDevice, XdDeviceList,
    XdError, XdEvent, XdRegistration, XdRoute, XdRuntime, XdRuntimeOptions, XdStream, XdTensor,
    XdTensorInfo,
};
use crossdock_capi::api;
use crossdock_sdk::dlpack::{DLManagedTensorVersioned, Received};

use crate::caller::{Failed, Failure, Stop, note_call};
use crate::program::Language;

/// A function of the table, which is noted as called.
macro_rules! xd {
    ($name:ident) => {{
        $crate::handles::called(stringify!($name));
        crossdock_capi::api().$name
    }};
}
pub(crate) use xd;

pub(crate) fn called(function: &str) {
    note_call(Language::C, function);
}

/// An object that the table frees.
pub(crate) trait Object: Sized {
    fn free(handle: Owned<Self>);
}

macro_rules! objects {
    ($($object:ident: $free:ident;)*) => {$(
        impl Object for $object {
            fn free(handle: Owned<Self>) {
                xd!($free)(handle);
            }
        }
    )*};
}

objects! {
    XdDevice: device_free;
    XdDeviceList: device_list_free;
    XdError: error_free;
    XdEvent: event_free;
    XdRegistration: registration_free;
    XdRoute: route_free;
    XdRuntime: runtime_free;
    XdStream: stream_free;
    XdTensor: tensor_free;
}

/// A handle that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Handle<T: Object>(Owned<T>);

impl<T: Object> Handle<T> {
    pub(crate) const fn new(owned: Owned<T>) -> Self {
        Self(owned)
    }

    pub(crate) const fn lend(&self) -> Ref<'_, T> {
        self.0.lend()
    }

    pub(crate) const fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        T::free(std::mem::replace(&mut self.0, Owned::NULL));
    }
}

/// An error object as what is judged.
pub(crate) fn check(answer: Answer) -> Result<(), Stop> {
    if answer.is_null() {
        return Ok(());
    }
    let error = Handle::new(answer);
    let text = |text: Text<'_>| {
        let text = text.to_c_str().unwrap_or_default();
        text.to_string_lossy().into_owned()
    };
    let kind = match (api().error_kind)(error.lend()) {
        ErrorKind::MISUSE | ErrorKind::REFUSED | ErrorKind::EXCHANGE => Failure::Refused,
        ErrorKind::HOOK => Failure::Hook((api().error_status)(error.lend())),
        _ => Failure::Other,
    };
    Err(Stop::Failed(Failed {
        kind,
        text: text((api().error_text)(error.lend())),
        why: text((api().error_why)(error.lend())),
    }))
}

/// The handle that a function makes.
pub(crate) fn made<T: Object>(
    call: impl FnOnce(Out<'_, Owned<T>>) -> Answer,
) -> Result<Handle<T>, Stop> {
    let mut handle = Owned::NULL;
    check(call(Out::from(&mut handle)))?;
    Ok(Handle::new(handle))
}

/// The value that a function writes.
pub(crate) fn written<T>(mut value: T, call: impl FnOnce(Out<'_, T>) -> Answer) -> Result<T, Stop> {
    check(call(Out::from(&mut value)))?;
    Ok(value)
}

/// A tensor that was handed out, and that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Managed(NonNull<DLManagedTensorVersioned>);

// SAFETY: a managed tensor may be released on any thread.
unsafe impl Send for Managed {}

impl Managed {
    /// # Safety
    /// - `managed` is NULL, or a live export that nobody else owns.
    pub(crate) unsafe fn new(managed: *mut DLManagedTensorVersioned) -> Option<Self> {
        NonNull::new(managed).map(Self)
    }

    pub(crate) fn into_raw(self) -> *mut DLManagedTensorVersioned {
        // The receiver of the pointer releases it.
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: a live export of its own, by the promise of `new`.
        drop(unsafe { Received::from_versioned(self.0) });
    }
}

/// A runtime of the function table over the same plugins as one of Rust, which keeps them open: so
/// both see the same objects.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) devices: Vec<Handle<XdDevice>>,
    pub(crate) runtime: Handle<XdRuntime>,
}

impl Table {
    /// Opens a runtime; `places` are the wanted devices in the order of its own.
    pub(crate) fn open(files: &[PathBuf], places: &[usize]) -> Result<Self, Stop> {
        let path = |file: &PathBuf| CString::new(file.as_os_str().as_bytes()).unwrap();
        let files: Vec<CString> = files.iter().map(path).collect();
        let files: Vec<Text<'_>> = files.iter().map(|file| Text::new(file)).collect();
        let mut options = XdRuntimeOptions::new(&files, &[]);
        options.flags = RuntimeFlags::NO_SEARCH;
        let runtime = made(|out| xd!(runtime_open)((&options).into(), out))?;
        let list: Handle<XdDeviceList> = made(|out| xd!(runtime_devices)(runtime.lend(), out))?;
        let device = |&place: &usize| Handle::new(xd!(device_retain)(list.lend().items()[place]));
        Ok(Self {
            devices: places.iter().map(device).collect(),
            runtime,
        })
    }

    /// The index of a device in the case.
    pub(crate) fn index(&self, device: &Handle<XdDevice>) -> Option<usize> {
        let is_it = |own: &Handle<XdDevice>| xd!(device_equal)(own.lend(), device.lend()) != 0;
        self.devices.iter().position(is_it)
    }
}

/// What a tensor is, while its handle is lent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described<'a>(XdTensorInfo, PhantomData<Ref<'a, XdTensor>>);

impl std::ops::Deref for Described<'_> {
    type Target = XdTensorInfo;

    fn deref(&self) -> &XdTensorInfo {
        &self.0
    }
}

impl<'a> Described<'a> {
    pub(crate) fn shape(&self) -> &'a [i64] {
        self.array(self.0.shape)
    }

    pub(crate) fn strides(&self) -> &'a [i64] {
        self.array(self.0.strides)
    }

    fn array(&self, first: *const i64) -> &'a [i64] {
        if self.0.ndim == 0 {
            return &[];
        }
        // SAFETY: one of the two arrays that the handle lends, with a number for each axis.
        unsafe { std::slice::from_raw_parts(first, self.0.ndim as usize) }
    }
}

/// What a tensor is.
pub(crate) fn described(tensor: Ref<'_, XdTensor>) -> Result<Described<'_>, Stop> {
    let mut info = std::mem::MaybeUninit::<XdTensorInfo>::zeroed();
    // SAFETY: zeroed, and writable as what it is.
    let out = unsafe { Out::from_raw(info.as_mut_ptr()) };
    check(xd!(tensor_describe)(tensor, out))?;
    // SAFETY: every bit pattern is one, and the call wrote it.
    Ok(Described(unsafe { info.assume_init() }, PhantomData))
}
