//! Arguments and answers of hooks in words and numbers, for people.

use std::ffi::c_void;

use crossdock_sdk::abi::{
    Address, AddressForm, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo,
    EventHandle, FillArgs, HostFunction, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, Side,
    Status, StreamHandle, StridedArgs,
};
use crossdock_sdk::plugin::read_fixed_text;
use serde_json::{Value, json};

use crate::calls::arguments::{Out, Plain};

/// One argument of a call, as it is told.
pub(crate) trait Describe {
    /// The argument, or the answer in it.
    fn json(&self) -> Value;

    /// Whether it is a NULL that the contract forbids.
    fn is_missing(&self) -> bool {
        false
    }

    /// Whether it is an answer that was not written.
    fn is_unwritten(&self) -> bool {
        false
    }
}

impl<T: Describe> Describe for Option<T> {
    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Describe::json)
    }

    fn is_missing(&self) -> bool {
        self.is_none()
    }
}

impl<T: Plain + Describe> Describe for &Out<T> {
    fn json(&self) -> Value {
        if self.is_missing() || self.is_unwritten() {
            Value::Null
        } else {
            self.answer().json()
        }
    }

    fn is_missing(&self) -> bool {
        Out::is_missing(self)
    }

    fn is_unwritten(&self) -> bool {
        Out::is_unwritten(self)
    }
}

macro_rules! describe {
    ($($ty:ty: |$value:ident| $json:expr;)*) => {$(
        impl Describe for $ty {
            fn json(&self) -> Value {
                let $value = self;
                $json
            }
        }
    )*};
}

describe! {
    u32: |value| json!(value);
    u64: |value| json!(value);
    Status: |status| json!(status.to_string());
    *mut c_void: |pointer| json!(hexadecimal(pointer.addr() as u64));
    StreamHandle: |stream| json!(hexadecimal(stream.raw()));
    EventHandle: |event| json!(hexadecimal(event.raw()));
    MemoryKind: |kind| json!(kind_name(*kind));
    DefaultStream: |which| json!(which.0);
    AdoptFlags: |flags| json!(if flags.contains(AdoptFlags::READ_ONLY) { "read-only" } else { "" });
    Address: |address| json!(address_text(*address));
    AllocateArgs: |args| json!({
        "bytes": args.size,
        "alignment": args.alignment,
        "kind": kind_name(args.kind),
        "device": args.device,
    });
    CopyArgs: |args| json!({
        "bytes": args.bytes,
        "dst": args.dst.json(),
        "src": args.src.json(),
    });
    Side: |side| json!({
        "address": address_text(side.address),
        "kind": kind_name(side.kind),
        "device": side.device,
    });
    StridedArgs: |args| json!({
        "element_bits": args.element_bits,
        "rank": args.rank,
        "dst": args.dst.json(),
        "src": args.src.json(),
    });
    FillArgs: |args| json!({
        "bytes": args.bytes,
        "pattern_bytes": args.pattern_bytes,
        "dst": args.dst.json(),
    });
    MemoryInfo: |memory| json!({ "free": memory.free, "total": memory.total });
    MemoryUsage: |usage| json!({
        "reserved": usage.reserved,
        "used": usage.used,
        "peak_reserved": usage.peak_reserved,
        "peak_used": usage.peak_used,
    });
    DeviceInfo: |info| json!(read_fixed_text(&info.name));
    PointerInfo: |info| json!({
        "kind": kind_name(info.kind),
        "device": info.device,
        "base": address_text(info.base),
        "bytes": info.size,
        "id": info.allocation_id,
    });
}

/// A function has nothing to show but whether it is there.
impl Describe for HostFunction {
    fn json(&self) -> Value {
        json!(self.0.is_some())
    }

    fn is_missing(&self) -> bool {
        self.0.is_none()
    }
}

/// An address as messages name it.
pub(crate) fn address_text(address: Address) -> String {
    match (address.form, address.as_pointer()) {
        (AddressForm::POINTER, Some(word)) => hexadecimal(word),
        (AddressForm::HANDLE, _) => format!("handle {:#x} + {}", address.word, address.offset),
        (form, _) => format!("{:#x} + {} (form {})", address.word, address.offset, form.0),
    }
}

/// A memory kind as messages name it.
pub(crate) fn kind_name(kind: MemoryKind) -> String {
    let name = match kind {
        MemoryKind::UNOWNED => "UNOWNED",
        MemoryKind::DEVICE => "DEVICE",
        MemoryKind::PINNED => "PINNED",
        MemoryKind::MANAGED => "MANAGED",
        MemoryKind::HOST => "HOST",
        MemoryKind(other) => return format!("kind {other}"),
    };
    name.to_owned()
}

fn hexadecimal(word: u64) -> String {
    format!("{word:#x}")
}
