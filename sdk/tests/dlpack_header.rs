//! Our structs and numbers against the published `dlpack.h`, compiled by the C compiler of this machine.
//!
//! `CROSSDOCK_DLPACK_HEADER_DIR` is the folder that holds `dlpack/dlpack.h`; without it the test says that it was skipped.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackExchangeAPI,
    DLPackExchangeAPIHeader, DLPackVersion, DLTensor, DeviceType, DtypeCode, Flags, VERSION,
};

/// Pairs of a C expression and what Rust has for it.
fn facts() -> BTreeMap<String, u64> {
    let mut facts = BTreeMap::new();
    macro_rules! layout_of {
        ($ty:ident: $($field:ident),*) => {
            facts.insert(format!("sizeof({})", stringify!($ty)), size_of::<$ty>() as u64);
            $(facts.insert(format!("offsetof({}, {})", stringify!($ty), stringify!($field)), offset_of!($ty, $field) as u64);)*
        };
    }
    layout_of!(DLPackVersion: major, minor);
    layout_of!(DLDevice: device_type, device_id);
    layout_of!(DLDataType: code, bits, lanes);
    layout_of!(DLTensor: data, device, ndim, dtype, shape, strides, byte_offset);
    layout_of!(DLManagedTensor: dl_tensor, manager_ctx, deleter);
    layout_of!(DLManagedTensorVersioned: version, manager_ctx, deleter, flags, dl_tensor);
    layout_of!(DLPackExchangeAPIHeader: version, prev_api);
    layout_of!(DLPackExchangeAPI: header, managed_tensor_allocator, managed_tensor_from_py_object_no_sync,
        managed_tensor_to_py_object_no_sync, dltensor_from_py_object_no_sync, current_work_stream);
    let mut value = |name: &str, value: u64| facts.insert(name.to_owned(), value);
    value("DLPACK_MAJOR_VERSION", VERSION.major.into());
    value("DLPACK_MINOR_VERSION", VERSION.minor.into());
    value("DLPACK_FLAG_BITMASK_READ_ONLY", Flags::READ_ONLY.raw());
    value("DLPACK_FLAG_BITMASK_IS_COPIED", Flags::IS_COPIED.raw());
    value(
        "DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
        Flags::IS_SUBBYTE_TYPE_PADDED.raw(),
    );
    for (name, ty) in DEVICES.iter().zip(DeviceType::ALL) {
        value(name, ty.raw().unsigned_abs().into());
    }
    for (name, code) in CODES {
        value(name, code.raw().into());
    }
    facts
}

/// In the order of `DeviceType::ALL`.
const DEVICES: [&str; 16] = [
    "kDLCPU",
    "kDLCUDA",
    "kDLCUDAHost",
    "kDLOpenCL",
    "kDLVulkan",
    "kDLMetal",
    "kDLVPI",
    "kDLROCM",
    "kDLROCMHost",
    "kDLExtDev",
    "kDLCUDAManaged",
    "kDLOneAPI",
    "kDLWebGPU",
    "kDLHexagon",
    "kDLMAIA",
    "kDLTrn",
];

const CODES: [(&str, DtypeCode); 18] = [
    ("kDLInt", DtypeCode::INT),
    ("kDLUInt", DtypeCode::UINT),
    ("kDLFloat", DtypeCode::FLOAT),
    ("kDLOpaqueHandle", DtypeCode::OPAQUE_HANDLE),
    ("kDLBfloat", DtypeCode::BFLOAT),
    ("kDLComplex", DtypeCode::COMPLEX),
    ("kDLBool", DtypeCode::BOOL),
    ("kDLFloat8_e3m4", DtypeCode::FLOAT8_E3M4),
    ("kDLFloat8_e4m3", DtypeCode::FLOAT8_E4M3),
    ("kDLFloat8_e4m3b11fnuz", DtypeCode::FLOAT8_E4M3B11FNUZ),
    ("kDLFloat8_e4m3fn", DtypeCode::FLOAT8_E4M3FN),
    ("kDLFloat8_e4m3fnuz", DtypeCode::FLOAT8_E4M3FNUZ),
    ("kDLFloat8_e5m2", DtypeCode::FLOAT8_E5M2),
    ("kDLFloat8_e5m2fnuz", DtypeCode::FLOAT8_E5M2FNUZ),
    ("kDLFloat8_e8m0fnu", DtypeCode::FLOAT8_E8M0FNU),
    ("kDLFloat6_e2m3fn", DtypeCode::FLOAT6_E2M3FN),
    ("kDLFloat6_e3m2fn", DtypeCode::FLOAT6_E3M2FN),
    ("kDLFloat4_e2m1fn", DtypeCode::FLOAT4_E2M1FN),
];

#[test]
fn sizes_offsets_and_numbers_are_those_of_the_published_header_1_to_5_21() {
    let Some(include) = std::env::var_os("CROSSDOCK_DLPACK_HEADER_DIR") else {
        println!("skipped: CROSSDOCK_DLPACK_HEADER_DIR is not set");
        return;
    };
    let facts = facts();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("dlpack-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("facts.c"), folder.join("facts"));
    let lines: String = facts
        .keys()
        .map(|fact| {
            format!("  printf(\"%s=%llu\\n\", \"{fact}\", (unsigned long long)({fact}));\n")
        })
        .collect();
    let text = format!(
        "#include <stdio.h>\n#include <stddef.h>\n#include <dlpack/dlpack.h>\nint main(void) {{\n{lines}}}\n"
    );
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .arg("-I")
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output();
    let compiled = compiled.expect("cc starts");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let theirs: BTreeMap<_, _> = printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(fact, value)| (fact.to_owned(), value.parse::<u64>().unwrap()))
        .collect();
    assert_eq!(facts, theirs);
}
