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

/// Lists and dictionaries are within each other at most this often.
const DEEPEST: u32 = 64;

/// A value that a caller lends.
///
/// # Safety
/// - What it points to, by its kind, is live and readable.
pub(crate) unsafe fn lent(value: Ref<'_, XdValue>) -> Result<Value, Refusal> {
    if value.is_null() {
        return Err(Refusal::null("value"));
    }
    // SAFETY: a `Ref` that is not NULL is a live struct; every bit pattern of it is valid.
    let value = unsafe { value.as_ptr().read() };
    // SAFETY: the caller's promise.
    unsafe { taken(&value) }
}

/// The same of a value in an array.
///
/// # Safety
/// - What it points to, by its kind, is live and readable.
pub(crate) unsafe fn taken(value: &XdValue) -> Result<Value, Refusal> {
    // SAFETY: the caller's promise.
    unsafe { taken_within(value, DEEPEST) }
}

/// # Safety
/// - As for `taken`.
unsafe fn taken_within(value: &XdValue, room: u32) -> Result<Value, Refusal> {
    // SAFETY: the items are live and readable, by the caller's promise.
    let items = |count| unsafe { taken_items(value.items, count, room) };
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
        ValueKind::LIST => Value::List(items(value.size)?),
        ValueKind::DICT => {
            let too_many = || Refusal::argument(format!("{} pairs are too many", value.size));
            let count = value.size.checked_mul(2).ok_or_else(too_many)?;
            let mut parts = items(count)?.into_iter();
            let pairs = std::iter::from_fn(|| parts.next().zip(parts.next()));
            Value::Dict(pairs.collect())
        }
        ValueKind(kind) => {
            let why = format!("a value of the unknown kind {kind}");
            return Err(Refusal::argument(why));
        }
    })
}

/// # Safety
/// - As for `taken`, of each of `count` items.
unsafe fn taken_items(first: *const XdValue, count: u64, room: u32) -> Result<Vec<Value>, Refusal> {
    let Some(room) = room.checked_sub(1) else {
        let why = format!("lists and dictionaries are within each other more than {DEEPEST} times");
        return Err(Refusal::argument(why));
    };
    // SAFETY: readable, by the caller's promise.
    let items = unsafe { input::array(first, count, "items") }?;
    // SAFETY: as above.
    let taken = items.iter().map(|item| unsafe { taken_within(item, room) });
    taken.collect()
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
        Value::List(items) => {
            let count = items.len();
            given_items(runtime, ValueKind::LIST, count, items)?
        }
        Value::Dict(pairs) => {
            let count = pairs.len();
            let parts = pairs.into_iter().flat_map(<[Value; 2]>::from);
            given_items(runtime, ValueKind::DICT, count, parts)?
        }
        _ => {
            return Err(Refusal::argument(
                "a value of its type cannot be handed out",
            ));
        }
    })
}

/// A list or a dictionary that a caller gets, of so many items or pairs.
fn given_items(
    runtime: &Runtime,
    kind: ValueKind,
    count: usize,
    items: impl IntoIterator<Item = Value>,
) -> Result<XdValue, Refusal> {
    let mut made = Items(Vec::new());
    for item in items {
        made.0.push(given(runtime, item)?);
    }
    let items = std::mem::take(&mut made.0).into_boxed_slice();
    Ok(XdValue {
        size: count as u64,
        items: Box::into_raw(items).cast_const().cast(),
        ..XdValue::integer(kind, 0)
    })
}

/// Values that are freed, unless they are taken out.
pub(crate) struct Items(pub(crate) Vec<XdValue>);

impl Drop for Items {
    fn drop(&mut self) {
        for value in self.0.drain(..) {
            // SAFETY: `given` made it, and nobody else has it.
            unsafe { free(value) };
        }
    }
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
    if let Some(items) = NonNull::new(value.items.cast_mut()) {
        let per_item = if value.kind == ValueKind::DICT { 2 } else { 1 };
        let count = usize::try_from(value.size).unwrap_or(0) * per_item;
        let items = NonNull::slice_from_raw_parts(items, count);
        // SAFETY: the box that `given_items` took apart.
        drop(Items(unsafe { Box::from_raw(items.as_ptr()) }.into_vec()));
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
