//! Tensors in files: `.npy`, `.npz` and `.safetensors`, mapped so that the file is the tensor.

mod bytes;
mod error;
mod file;
mod generated;
mod npy;
mod npy_header;
mod npz;
mod safetensors;
mod stamp;

pub(crate) use bytes::Bytes;
pub(crate) use error::FileError;
pub(crate) use file::{FileTensor, Part, Source, TensorFile, read, read_whole};
pub(crate) use generated::generated;
