//! Tensors in files: `.npy`, `.npz` and `.safetensors`, mapped so that the file is the tensor.

mod bytes;
mod error;
mod file;
mod generated;
mod npy;
mod npy_header;
mod npz;
mod safetensors;

pub(crate) use bytes::Bytes;
pub(crate) use error::FileError;
pub(crate) use file::{FileTensor, Part, Source, TensorFile, read};
pub(crate) use generated::generated;
