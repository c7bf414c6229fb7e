//! The names of statuses, dtypes and devices, and back.
#![expect(unsafe_code, reason = "exports functions by name")]

use std::ffi::CString;
use std::sync::LazyLock;

use crossdock_api::{DLDataType, DLDevice, Failure, NameText, Out, Status, Text};
use crossdock_sdk::dlpack::{Device, Dtype};

use crate::crossing::boundary::{fence_into, fence_value};
use crate::crossing::error_object::c_text;
use crate::crossing::input;

/// Every status with its name as C reads it.
static STATUS_NAMES: LazyLock<Vec<(Status, CString)>> = LazyLock::new(|| {
    let named = Status::ALL.iter();
    named
        .map(|(status, name)| (*status, c_text(*name)))
        .collect()
});

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_status_name(status: Status) -> Text<'static> {
    fence_value(|| {
        let named = STATUS_NAMES.iter().find(|(known, _)| *known == status)?;
        Some(Text::new(&named.1))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_dtype_text(dtype: DLDataType, out: Out<'_, NameText>) -> Failure {
    fence_into("xd_dtype_text", out, || {
        Ok(NameText::new(&input::dtype(dtype)?.to_string()))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_dtype_from_text(name: Text<'_>, out: Out<'_, DLDataType>) -> Failure {
    fence_into("xd_dtype_from_text", out, || {
        Ok(input::text(name, "name")?.parse::<Dtype>()?.to_raw())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_dl_device_text(device: DLDevice, out: Out<'_, NameText>) -> Failure {
    fence_into("xd_dl_device_text", out, || {
        Ok(NameText::new(&Device::from_raw(device).to_string()))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_dl_device_from_text(name: Text<'_>, out: Out<'_, DLDevice>) -> Failure {
    fence_into("xd_dl_device_from_text", out, || {
        Ok(input::text(name, "name")?.parse::<Device>()?.to_raw())
    })
}
