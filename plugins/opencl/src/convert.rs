//! Tables from OpenCL's numbers to names and kinds; no calls.

use crossdock_sdk::abi::{MemoryKind, Status};
use opencl3::error_codes;

use crate::{fault::Kind, memory::Flavour};

/// The name that OpenCL's headers give an error number.
pub(crate) const fn name_of(code: i32) -> &'static str {
    match code {
        LOADER_MISSING => "loader library not found",
        FUNCTION_MISSING => "function missing in the loader library",
        _ => error_codes::error_text(code),
    }
}

/// How the contract sees an error number.
pub(crate) const fn kind_of(code: i32) -> Kind {
    match code {
        error_codes::CL_OUT_OF_HOST_MEMORY => Kind::OutOfHostMemory,
        error_codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
        | error_codes::CL_INVALID_BUFFER_SIZE
        | error_codes::CL_OUT_OF_RESOURCES => Kind::OutOfDeviceMemory,
        error_codes::CL_DEVICE_NOT_AVAILABLE | error_codes::CL_CONTEXT_TERMINATED_KHR => {
            Kind::DeviceLost
        }
        LOADER_MISSING | NO_PLATFORM => Kind::NoDriver,
        error_codes::CL_DEVICE_NOT_FOUND => Kind::NoDevice,
        FUNCTION_MISSING | error_codes::CL_MISALIGNED_SUB_BUFFER_OFFSET => Kind::Unsupported,
        error_codes::CL_MEM_COPY_OVERLAP
        | error_codes::CL_INVALID_VALUE
        | error_codes::CL_INVALID_MEM_OBJECT
        | error_codes::CL_INVALID_CONTEXT
        | error_codes::CL_INVALID_COMMAND_QUEUE
        | error_codes::CL_INVALID_EVENT
        | error_codes::CL_INVALID_EVENT_WAIT_LIST
        | error_codes::CL_INVALID_HOST_PTR
        | error_codes::CL_INVALID_OPERATION => Kind::Invalid,
        _ => Kind::Vendor,
    }
}

/// The contract's number for a kind of failure.
pub(crate) const fn status_of(kind: Kind) -> Status {
    match kind {
        Kind::Invalid => Status::INVALID,
        Kind::Unsupported => Status::UNSUPPORTED,
        Kind::OutOfDeviceMemory => Status::OOM_DEVICE,
        Kind::OutOfHostMemory => Status::OOM_HOST,
        Kind::NoDriver => Status::NO_DRIVER,
        Kind::NoDevice => Status::NO_DEVICE,
        Kind::DeviceLost => Status::DEVICE_LOST,
        Kind::NotOwner => Status::NOT_OWNER,
        Kind::Conflict => Status::CONFLICT,
        Kind::Timeout => Status::TIMEOUT,
        Kind::NotReady => Status::NOT_READY,
        Kind::Forked => Status::FORKED,
        Kind::Exiting => Status::EXITING,
        Kind::Retired => Status::RETIRED,
        Kind::Stale => Status::STALE,
        Kind::Vendor => Status::VENDOR,
        Kind::Given(status) => status,
    }
}

/// The memory kind that the contract has for a flavour.
pub(crate) const fn kind_for(flavour: Flavour) -> MemoryKind {
    match flavour {
        Flavour::Device => MemoryKind::DEVICE,
        Flavour::Pinned => MemoryKind::PINNED,
        Flavour::Managed => MemoryKind::MANAGED,
    }
}

/// What `opencl3` answers when `libOpenCL.so.1` cannot be opened.
pub(crate) const LOADER_MISSING: i32 = error_codes::DLOPEN_RUNTIME_LOAD_FAILED;

/// What the loader answers when no `.icd` file leads to a driver.
pub(crate) const NO_PLATFORM: i32 = error_codes::CL_PLATFORM_NOT_FOUND_KHR;

/// What `opencl3` answers when the loader lacks a function.
pub(crate) const FUNCTION_MISSING: i32 = error_codes::DLOPEN_FUNCTION_NOT_AVAILABLE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_number_has_a_name_and_an_unknown_one_says_so() {
        for (code, name, kind) in [
            (-1, "CL_DEVICE_NOT_FOUND", Kind::NoDevice),
            (-2, "CL_DEVICE_NOT_AVAILABLE", Kind::DeviceLost),
            (
                -4,
                "CL_MEM_OBJECT_ALLOCATION_FAILURE",
                Kind::OutOfDeviceMemory,
            ),
            (-6, "CL_OUT_OF_HOST_MEMORY", Kind::OutOfHostMemory),
            (-8, "CL_MEM_COPY_OVERLAP", Kind::Invalid),
            (-34, "CL_INVALID_CONTEXT", Kind::Invalid),
            (-1001, "CL_PLATFORM_NOT_FOUND_KHR", Kind::NoDriver),
            (-2000, "loader library not found", Kind::NoDriver),
            (-9999, "UNKNOWN_ERROR", Kind::Vendor),
        ] {
            assert_eq!(name_of(code), name, "name of {code}");
            assert_eq!(kind_of(code), kind, "kind of {code}");
        }
    }
}
