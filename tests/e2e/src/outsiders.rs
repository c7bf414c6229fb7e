//! What tests do beside the library: they call functions of plugin files, and hand out memory as a producer.
#![expect(
    unsafe_code,
    reason = "opens libraries, and plays a producer that speaks C"
)]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a test that cannot be set up has failed"
)]

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crossdock::{Error, Runtime, Tensor};
use crossdock_sdk::dlpack::{
    DLManagedTensorVersioned, DataWord, Device, Dtype, Flags, Layout, Produced, Received,
    TensorView,
};

/// The address of a symbol of a library, which is opened for it.
pub fn symbol(path: &Path, name: &str) -> *mut c_void {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = CString::new(name).unwrap();
    // SAFETY: a C string; the library is one of this test.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: the library is open, and the name is a C string.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null());
    symbol
}

/// A tensor of somebody else's in these bytes, which outlive it, on the device that is claimed.
///
/// # Errors
/// As [`Tensor::import`].
pub fn import(runtime: &Runtime, bytes: &[u8], claimed: Device) -> Result<Tensor, Error> {
    let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(bytes.len()).unwrap()]).unwrap();
    let data = DataWord::from_ptr(bytes.as_ptr().cast_mut().cast());
    let view = TensorView::new(layout, data, 0, claimed, Flags::default()).unwrap();
    let produced = Produced::<DLManagedTensorVersioned>::new((), &view).unwrap();
    // SAFETY: a live managed tensor that is handed over.
    let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
    Tensor::import(runtime, received)
}
