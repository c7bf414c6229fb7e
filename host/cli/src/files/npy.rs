//! One array in NumPy's format.

use std::io::Cursor;

use crossdock_sdk::dlpack::{Dtype, Layout};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr};

use super::{
    Bytes, FileError,
    file::{FileTensor, Part},
};

/// The array of a `.npy` file.
pub(super) fn part(name: String, bytes: Bytes) -> Result<Part, FileError> {
    let mut cursor = Cursor::new(bytes.as_ref());
    let header = NpyHeader::from_reader(&mut cursor).map_err(FileError::Header)?;
    let offset = cursor.position();
    let layout = layout_of(&header)?;
    let end = offset.checked_add(layout.bytes());
    let has = u64::try_from(bytes.as_ref().len()).unwrap_or(u64::MAX);
    if end.is_none_or(|end| end > has) {
        return Err(FileError::Short {
            bytes: layout.bytes(),
        });
    }
    let length = usize::try_from(offset).unwrap_or(usize::MAX);
    let header = bytes.as_ref().get(..length).unwrap_or_default().to_vec();
    let tensors = vec![FileTensor {
        name: name.clone(),
        layout,
        bytes,
        offset,
    }];
    Ok(Part {
        name,
        header,
        tensors,
    })
}

fn layout_of(header: &NpyHeader) -> Result<Layout, FileError> {
    let DType::Plain(ty) = header.dtype() else {
        return Err(FileError::Records);
    };
    let dtype = dtype_of(&ty)?;
    let shape: Result<Vec<i64>, _> = header.shape().iter().map(|n| i64::try_from(*n)).collect();
    let shape = shape?;
    let compact = Layout::compact(dtype, &shape)?;
    if header.order() == Order::C || shape.len() < 2 {
        return Ok(compact);
    }
    // Fortran order is the compact layout of the reversed shape, seen with its axes reversed.
    let reversed: Vec<i64> = shape.iter().rev().copied().collect();
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    Ok(Layout::compact(dtype, &reversed)?.permute(&axes)?)
}

fn dtype_of(ty: &TypeStr) -> Result<Dtype, FileError> {
    let bytes = ty.size_field();
    if ty.endianness() == Endianness::Big && bytes > 1 {
        return Err(FileError::BigEndian {
            dtype: ty.to_string(),
        });
    }
    let unknown = || FileError::Dtype {
        dtype: ty.to_string(),
    };
    let name = match ty.type_char() {
        TypeChar::Bool => "bool".to_owned(),
        TypeChar::Int => format!("int{}", bytes.saturating_mul(8)),
        TypeChar::Uint => format!("uint{}", bytes.saturating_mul(8)),
        TypeChar::Float => format!("float{}", bytes.saturating_mul(8)),
        TypeChar::Complex => format!("complex{}", bytes.saturating_mul(8)),
        _ => return Err(unknown()),
    };
    name.parse().map_err(|_unknown| unknown())
}
