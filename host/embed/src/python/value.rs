//! Values that cross between the host and scripts.

use std::ffi::CString;

use crate::python::gil::{Gil, Object, Raised};
use crate::python::tensor::Managed;

/// A value that a script is given, or gives.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Value {
    /// `None`.
    #[default]
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An `int` of at most 64 bits.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `str`.
    Text(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// A tensor: `crossdock.Tensor` in the script.
    Tensor(Managed),
    /// A `list`; of a script also a `tuple`.
    List(Vec<Self>),
    /// A `dict`, in its order.
    Dict(Vec<(Self, Self)>),
}

/// The kinds as `sessions.py` numbers them.
const LIST: i64 = 7;
const DICT: i64 = 8;

/// What a function of `sessions.py` is called with.
#[derive(Debug)]
pub(crate) enum Argument {
    One(Value),
    Several(Vec<Value>),
    Named(Vec<(CString, Value)>),
}

impl From<Value> for Argument {
    fn from(value: Value) -> Self {
        Self::One(value)
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::One(Value::Text(text.to_owned()))
    }
}

impl Argument {
    pub(crate) fn into_object(self, gil: &Gil) -> Result<Object<'_>, Raised> {
        match self {
            Self::One(value) => value.into_object(gil),
            Self::Several(values) => {
                let objects = values.into_iter().map(|value| value.into_object(gil));
                gil.tuple(objects.collect::<Result<_, _>>()?)
            }
            Self::Named(values) => {
                let names = gil.dictionary()?;
                for (name, value) in values {
                    names.put(&name, &value.into_object(gil)?)?;
                }
                Ok(names)
            }
        }
    }
}

impl Value {
    /// As `_unpacked` of `sessions.py` reads it.
    pub(crate) fn into_object(self, gil: &Gil) -> Result<Object<'_>, Raised> {
        match self {
            Self::None => gil.none(),
            Self::Bool(truth) => gil.truth(truth),
            Self::Int(number) => gil.number(number),
            Self::Float(number) => gil.float(number),
            Self::Text(text) => gil.text(&text),
            Self::Bytes(bytes) => gil.bytes(&bytes),
            Self::Tensor(tensor) => gil.capsule(tensor),
            Self::List(items) => collection(gil, LIST, items),
            Self::Dict(pairs) => {
                let parts = pairs.into_iter().flat_map(<[Self; 2]>::from);
                collection(gil, DICT, parts)
            }
        }
    }

    /// Reads what `_packed` of `sessions.py` made.
    pub(crate) fn of(kind: i64, content: &Object<'_>) -> Result<Self, Raised> {
        Ok(match kind {
            1 => Self::Bool(content.to_i64()? != 0),
            2 => Self::Int(content.to_i64()?),
            3 => Self::Float(content.to_f64()?),
            4 => Self::Text(lossy(content.to_bytes()?)),
            5 => Self::Bytes(content.to_bytes()?),
            6 => Self::Tensor(content.to_tensor()?),
            LIST => Self::List(Self::items(content)?),
            DICT => {
                let mut parts = Self::items(content)?.into_iter();
                let pairs = std::iter::from_fn(|| parts.next().zip(parts.next()));
                Self::Dict(pairs.collect())
            }
            _ => Self::None,
        })
    }

    /// The items of a list: how many, and of each its kind and its content.
    pub(crate) fn items(content: &Object<'_>) -> Result<Vec<Self>, Raised> {
        let count = isize::try_from(content.item(0)?.to_i64()?).unwrap_or(0);
        let item = |at| {
            Self::of(
                content.item(2 * at + 1)?.to_i64()?,
                &content.item(2 * at + 2)?,
            )
        };
        (0..count).map(item).collect()
    }

    /// The pairs of a dictionary whose keys are names.
    pub(crate) fn named(content: &Object<'_>) -> Result<Vec<(String, Self)>, Raised> {
        let mut parts = Self::items(content)?.into_iter();
        let pairs = std::iter::from_fn(|| parts.next().zip(parts.next()));
        let named = pairs.filter_map(|(name, value)| match name {
            Self::Text(name) => Some((name, value)),
            _ => None,
        });
        Ok(named.collect())
    }
}

/// A tuple of the kind and the items.
fn collection(
    gil: &Gil,
    kind: i64,
    items: impl IntoIterator<Item = Value>,
) -> Result<Object<'_>, Raised> {
    let mut objects = vec![gil.number(kind)?];
    for item in items {
        objects.push(item.into_object(gil)?);
    }
    gil.tuple(objects)
}

/// What Python encoded, which is UTF-8, in the same memory.
pub(crate) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
