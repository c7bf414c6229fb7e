//! The tensors of a `.safetensors` file.

use std::{collections::HashSet, ffi::OsStr, fmt, marker::PhantomData};

use crossdock_sdk::dlpack::{Dtype, Layout};
use safetensors::SafeTensors;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::{
    Bytes, FileError,
    file::{FileTensor, Part, Source},
};

/// The whole file: its header and its tensors in the order of their bytes.
pub(super) fn part(name: &OsStr, bytes: Bytes) -> Result<Part, FileError> {
    let whole = bytes.as_ref();
    // This checks that the tensors lie one after the other and fill the file.
    let parsed = SafeTensors::deserialize(whole)?;
    let data_bytes: usize = parsed.iter().map(|(_, view)| view.data().len()).sum();
    let data_at = whole.len().saturating_sub(data_bytes);
    let text = whole.get(LENGTH_BYTES..data_at).unwrap_or_default();
    serde_json::from_slice::<Unique<Option<Unique<IgnoredAny>>>>(text)?;
    let mut tensors = Vec::new();
    for (name, view) in parsed.iter() {
        let begin = view
            .data()
            .as_ptr()
            .addr()
            .saturating_sub(whole.as_ptr().addr());
        let layout = layout_of(view.dtype(), view.shape());
        let layout = layout.map_err(|error| error.in_tensor(name))?;
        let bytes = bytes.clone();
        let tensor = FileTensor {
            name: name.to_owned(),
            layout,
            source: Source::Bytes {
                bytes,
                offset: begin as u64,
            },
        };
        tensors.push((begin, tensor));
    }
    tensors.sort_by_key(|(begin, tensor)| (*begin, tensor.layout.bytes()));
    let tensors = tensors.into_iter().map(|(_, tensor)| tensor).collect();
    let header = whole.get(..data_at).unwrap_or_default().to_vec();
    Ok(Part {
        name: name.to_owned(),
        header,
        tensors,
    })
}

fn layout_of(ty: safetensors::Dtype, shape: &[usize]) -> Result<Layout, FileError> {
    let shape: Result<Vec<i64>, _> = shape.iter().map(|n| i64::try_from(*n)).collect();
    Ok(Layout::compact(dtype_of(ty)?, &shape?)?)
}

fn dtype_of(ty: safetensors::Dtype) -> Result<Dtype, FileError> {
    use safetensors::Dtype as Ty;
    let unknown = || FileError::Dtype {
        dtype: ty.to_string(),
    };
    let name = match ty {
        Ty::BOOL => "bool",
        Ty::U8 => "uint8",
        Ty::I8 => "int8",
        Ty::U16 => "uint16",
        Ty::I16 => "int16",
        Ty::U32 => "uint32",
        Ty::I32 => "int32",
        Ty::U64 => "uint64",
        Ty::I64 => "int64",
        Ty::F16 => "float16",
        Ty::BF16 => "bfloat16",
        Ty::F32 => "float32",
        Ty::F64 => "float64",
        Ty::C64 => "complex64",
        Ty::F8_E5M2 => "float8_e5m2",
        Ty::F8_E4M3 => "float8_e4m3fn",
        Ty::F8_E8M0 => "float8_e8m0fnu",
        Ty::F8_E4M3FNUZ => "float8_e4m3fnuz",
        Ty::F8_E5M2FNUZ => "float8_e5m2fnuz",
        Ty::F6_E2M3 => "float6_e2m3fn",
        Ty::F6_E3M2 => "float6_e3m2fn",
        Ty::F4 => "float4_e2m1fn",
        _ => return Err(unknown()),
    };
    name.parse().map_err(|_unknown| unknown())
}

/// An object of JSON in which no name stands twice: the format allows none, and the crate takes the last of several.
struct Unique<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, _)) = map.next_entry::<String, T>()? {
            if let Some(twice) = names.replace(name) {
                return Err(A::Error::custom(format!("it has two entries `{twice}`")));
            }
        }
        Ok(self)
    }
}

/// Of the number before the header.
const LENGTH_BYTES: usize = 8;
