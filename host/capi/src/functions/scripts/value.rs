//! `xd_value`: values of callers in, and values of scripts out.
#![expect(unsafe_code, reason = "reads and frees what values point to")]

use std::collections::TryReserveError;
use std::ptr::NonNull;

use crossdock::{Error, Runtime, Tensor};
use crossdock_api::{Owned, Ref, ValueKind, XdTensor, XdValue};
use crossdock_embed::{Managed, Value};
use crossdock_sdk::fence::fence;

use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{borrow_tensor, give_tensor, release_tensor};

/// A value that a caller passes in.
///
/// # Safety
/// - What it points to, by its kind, is live and readable.
pub(crate) unsafe fn taken(value: &XdValue) -> Result<Value, Refusal> {
    // SAFETY: readable for as many bytes, by the caller's promise.
    let bytes = |what| unsafe { input::array(value.data.cast::<u8>(), value.size, what) };
    Ok(match value.kind {
        ValueKind::NONE => Value::None,
        ValueKind::BOOL => Value::Bool(value.integer != 0),
        ValueKind::INT => Value::Int(value.integer),
        ValueKind::FLOAT => Value::Float(value.number),
        ValueKind::TEXT => {
            let text = std::str::from_utf8(bytes("a text")?);
            let text = text.map_err(|_invalid| Refusal::argument("a text is not UTF-8"))?;
            let mut copied = String::new();
            copied.try_reserve_exact(text.len()).map_err(no_room)?;
            copied.push_str(text);
            Value::Text(copied)
        }
        ValueKind::BYTES => {
            let (bytes, mut copied) = (bytes("bytes")?, Vec::new());
            copied.try_reserve_exact(bytes.len()).map_err(no_room)?;
            copied.extend_from_slice(bytes);
            Value::Bytes(copied)
        }
        ValueKind::TENSOR => {
            // SAFETY: NULL or a live handle, by the caller's promise.
            let tensor = unsafe { Ref::<XdTensor>::from_raw(value.tensor) };
            Value::Tensor(exported(&*borrow_tensor(tensor)?)?)
        }
        ValueKind(kind) => {
            let why = format!("a value of the unknown kind {kind}");
            return Err(Refusal::argument(why));
        }
    })
}

/// Memory does not hold what a caller has a second time.
fn no_room(error: TryReserveError) -> Refusal {
    exhausted("copy a value for a script", error)
}

fn exhausted(operation: &'static str, error: TryReserveError) -> Refusal {
    let why = error.to_string();
    Refusal::Runtime(Error::Exhausted { operation, why })
}

/// A share of a tensor on its way into a script.
pub(crate) fn exported(tensor: &Tensor) -> Result<Managed, Refusal> {
    let managed = tensor.export()?.into_raw();
    // SAFETY: a fresh export, whose deleter any thread may call.
    Ok(unsafe { Managed::from_raw(managed) })
}

/// A tensor that came out of a script.
pub(crate) fn imported(runtime: &Runtime, tensor: Managed) -> Result<Owned<XdTensor>, Refusal> {
    // SAFETY: a live tensor that is given up here.
    Ok(give_tensor(unsafe {
        Tensor::import_managed(runtime, tensor.into_raw())
    }?))
}

/// A value that a caller gets.
pub(crate) fn given(runtime: &Runtime, value: Value) -> Result<XdValue, Refusal> {
    Ok(match value {
        Value::None => XdValue::NONE,
        Value::Bool(truth) => XdValue::integer(ValueKind::BOOL, truth.into()),
        Value::Int(number) => XdValue::integer(ValueKind::INT, number),
        Value::Float(number) => XdValue::number(number),
        Value::Text(text) => owned(ValueKind::TEXT, text.into_bytes())?,
        Value::Bytes(bytes) => owned(ValueKind::BYTES, bytes)?,
        Value::Tensor(tensor) => XdValue::tensor(imported(runtime, tensor)?),
        _ => {
            return Err(Refusal::argument(
                "a value of its type cannot be handed out",
            ));
        }
    })
}

/// Bytes that a caller gets, with a NUL behind them.
pub(crate) fn owned(kind: ValueKind, mut bytes: Vec<u8>) -> Result<XdValue, Refusal> {
    let size = bytes.len() as u64;
    let room = bytes.try_reserve_exact(1);
    room.map_err(|error| exhausted("hand out a value", error))?;
    bytes.push(0);
    Ok(XdValue {
        data: Box::into_raw(bytes.into_boxed_slice()).cast(),
        size,
        ..XdValue::integer(kind, 0)
    })
}

/// Frees what `given` or `owned` put into a value.
///
/// # Safety
/// - `value` is one that they made, and its content is given up.
unsafe fn free(value: XdValue) {
    if let Some(data) = NonNull::new(value.data.cast_mut().cast::<u8>()) {
        let length = usize::try_from(value.size).unwrap_or(usize::MAX - 1) + 1;
        let bytes = NonNull::slice_from_raw_parts(data, length);
        // SAFETY: the box that `owned` took apart: its bytes, and the NUL.
        drop(unsafe { Box::from_raw(bytes.as_ptr()) });
    }
    // SAFETY: NULL, or the handle of `given`.
    release_tensor(unsafe { Owned::<XdTensor>::from_raw(value.tensor) });
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_value_clear(value: *mut XdValue) {
    let clear = || {
        let Some(value) = NonNull::new(value) else {
            return;
        };
        // SAFETY: the caller passes a value of an answer, readable and writable.
        let content = unsafe { value.replace(XdValue::NONE) };
        // SAFETY: as above, and nothing points to its content any more.
        unsafe { free(content) };
    };
    fence(clear).unwrap_or_default();
}
