//! For the tests: every struct of the table and every function, as they lie in memory and as C
//! writes them.

#![expect(
    elided_lifetimes_in_paths,
    reason = "a pattern of a struct names no lifetime"
)]

use std::collections::BTreeMap;
use std::mem::offset_of;

use crossdock_sdk::dlpack::{DLDataType, DLDevice};

use crate::{
    COST_UNKNOWN, CopyMode, ErrorKind, ExportFlags, MemoryFlags, NO_LIMIT, NameText, Order,
    PlaceText, RouteKind, RuntimeFlags, SessionFlags, SessionStateKind, StopOutcome, ValueKind,
    WaitKind, XdApi, XdArguments, XdAxisSlice, XdDeviceList, XdEmptyOptions, XdErrorList,
    XdExportOptions, XdImportOptions, XdLayout, XdMemory, XdMoveOptions, XdPluginList,
    XdRunOptions, XdRuntimeOptions, XdScriptInfo, XdScriptOptions, XdSessionOptions,
    XdSessionState, XdTensorInfo, XdValue,
};

/// A struct under its name in C.
pub(crate) struct Struct {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) fields: Vec<(&'static str, usize)>,
}

/// The pattern makes a forgotten field an error of the compiler. Fields in brackets have no size.
macro_rules! layout_of {
    ($ty:ident as $c:ident: $($field:ident),* $([$($sizeless:ident),*])?) => {{
        let _complete = |value: $ty| {
            let $ty { $($field: _,)* $($($sizeless: _,)*)? } = value;
        };
        Struct {
            name: stringify!($c),
            size: size_of::<$ty>(),
            align: align_of::<$ty>(),
            fields: vec![$((stringify!($field), offset_of!($ty, $field))),*],
        }
    }};
}

/// Every struct, the table last.
pub(crate) fn structs() -> Vec<Struct> {
    let head = [
        ("struct_size", offset_of!(XdApi, struct_size)),
        ("abi_major", offset_of!(XdApi, abi_major)),
        ("abi_minor", offset_of!(XdApi, abi_minor)),
    ];
    vec![
        layout_of!(DLDataType as xd_dtype: code, bits, lanes),
        layout_of!(DLDevice as xd_dl_device: device_type, device_id),
        layout_of!(XdLayout as xd_layout: dtype, ndim, shape, strides, padded, reserved [arrays]),
        layout_of!(XdAxisSlice as xd_axis_slice: start, step, len),
        layout_of!(XdDeviceList as xd_device_list: count, items),
        layout_of!(XdPluginList as xd_plugin_list: count, items),
        layout_of!(XdErrorList as xd_error_list: count, items),
        layout_of!(XdTensorInfo as xd_tensor_info: device, dtype, ndim, shape, strides, numel,
            nbytes, data, byte_offset, form, memory_kind, read_only, contiguous, padded, reserved),
        layout_of!(XdRuntimeOptions as xd_runtime_options: struct_size, flags, reserved, plugins,
            plugin_count, folders, folder_count, layers, fault, device_order, costs, staging_bytes),
        layout_of!(XdMemory as xd_memory: struct_size, device, data, byte_offset, layout, flags,
            reserved, owner, release, stream),
        layout_of!(XdImportOptions as xd_import_options: struct_size, stream, device, copy, kind),
        layout_of!(XdEmptyOptions as xd_empty_options: struct_size, kind, reserved, stream),
        layout_of!(XdExportOptions as xd_export_options: struct_size, flags, order, stream),
        layout_of!(XdMoveOptions as xd_move_options: struct_size, route, copy, kind, reserved, stream),
        layout_of!(XdValue as xd_value: kind, reserved, integer, number, data, size, tensor, items),
        layout_of!(XdScriptOptions as xd_script_options: struct_size, python),
        layout_of!(XdScriptInfo as xd_script_info: version, executable, library, prefix,
            base_prefix, abi_flags, why, major, minor, of_others, reserved),
        layout_of!(XdSessionOptions as xd_session_options: struct_size, name, arguments,
            argument_count, on_stdout, on_stderr, word, timeout_ns, grace_ns, flags, reserved),
        layout_of!(XdRunOptions as xd_run_options: struct_size, timeout_ns, grace_ns),
        layout_of!(XdArguments as xd_arguments: struct_size, values, count, names, named_values,
            named_count),
        layout_of!(XdSessionState as xd_session_state: kind, reserved, running_ns, place),
        Struct {
            name: "xd_api",
            size: size_of::<XdApi>(),
            align: align_of::<XdApi>(),
            fields: head.iter().chain(XdApi::FUNCTIONS).copied().collect(),
        },
    ]
}

/// Every constant of the header with its number.
pub(crate) fn constants() -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::from([
        ("XD_API_MAJOR", u64::from(crate::API_MAJOR)),
        ("XD_API_MINOR", u64::from(crate::API_MINOR)),
        ("XD_NO_LIMIT", NO_LIMIT),
        ("XD_COST_UNKNOWN", COST_UNKNOWN),
        ("XD_NAME_BYTES", NameText::BYTES as u64),
        ("XD_PLACE_BYTES", PlaceText::BYTES as u64),
    ]);
    macro_rules! put {
        ($($ty:ident),*) => {$(
            all.extend($ty::NAMES.iter().map(|(number, name)| (*name, u64::from(number.0))));
        )*};
    }
    put!(
        ErrorKind,
        RouteKind,
        CopyMode,
        Order,
        WaitKind,
        RuntimeFlags,
        MemoryFlags,
        ExportFlags,
        ValueKind,
        StopOutcome,
        SessionStateKind,
        SessionFlags
    );
    all
}

/// Every function of the table: its name without `xd_`, and what C declares it as.
pub(crate) fn signatures() -> Vec<(String, String)> {
    let source = include_str!("table.rs");
    let table = source.split_once("\ntable! {").unwrap().1;
    let table = table.split_once("\n}\n").unwrap().0;
    let lines = table.lines().map(str::trim);
    let code: String = lines
        .filter(|line| !line.starts_with("///"))
        .flat_map(|line| [line, " "])
        .collect();
    let functions = code.split(';').map(str::trim);
    let functions = functions.filter(|function| !function.is_empty());
    functions.map(signature).collect()
}

fn signature(function: &str) -> (String, String) {
    let (name, ty) = function.split_once(':').unwrap();
    let (_, ty) = ty.split_once("fn(").unwrap();
    let (parameters, answer) = ty.rsplit_once(')').unwrap();
    let answer = answer
        .trim()
        .strip_prefix("-> ")
        .map_or("void".to_owned(), c_type);
    let parameters: Vec<_> = split(parameters).into_iter().map(c_parameter).collect();
    let parameters = match parameters.as_slice() {
        [] => "void".to_owned(),
        parameters => parameters.join(", "),
    };
    (name.to_owned(), format!("{answer} ({parameters})"))
}

/// Parts between the commas that are in no brackets.
fn split(parameters: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = parameters.split(|letter| {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

/// A name before the type says nothing to C.
fn c_parameter(parameter: &str) -> String {
    c_type(
        parameter
            .split_once(": ")
            .map_or(parameter, |(_name, ty)| ty),
    )
}

fn c_type(rust: &str) -> String {
    let inside = |prefix: &str| rust.strip_prefix(prefix)?.strip_suffix('>');
    if let Some(ty) = inside("Ref<'_, ") {
        return format!("const {} *", c_type(ty));
    }
    if let Some(ty) = inside("Out<'_, ") {
        return match ty {
            "NameText" => "char *".to_owned(),
            ty => format!("{} *", c_type(ty)).replace("* *", "**"),
        };
    }
    if let Some(ty) = inside("Owned<") {
        return format!("{} *", c_type(ty));
    }
    if let Some(ty) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(ty));
    }
    if let Some(ty) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(ty));
    }
    let named = match rust {
        "Failure" => "xd_error *",
        "u32" => "uint32_t",
        // C has functions of the names that these would have.
        "ErrorKind" => "xd_failure_kind",
        "RouteKind" => "xd_route_mode",
        "u8" => "uint8_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "c_void" => "void",
        "Text<'_>" | "Text<'static>" => "const char *",
        "DLDataType" => "xd_dtype",
        "DLDevice" => "xd_dl_device",
        "DLManagedTensorVersioned" => "struct DLManagedTensorVersioned",
        "DLManagedTensor" => "struct DLManagedTensor",
        other => return snake(other),
    };
    named.to_owned()
}

/// `XdTensorInfo<'_>` is `xd_tensor_info`, and a type of the sdk gets the prefix.
fn snake(rust: &str) -> String {
    let name = rust.strip_suffix("<'_>").unwrap_or(rust);
    let mut snake = String::from("xd");
    for letter in name.strip_prefix("Xd").unwrap_or(name).chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
