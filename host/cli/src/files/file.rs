//! A file's tensors, mapped or unpacked when they are needed, and what it takes to write the file again.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crossdock::{Runtime, Tensor};
use crossdock_sdk::dlpack::Layout;

use super::{
    Bytes, FileError, npy,
    npz::{self, Member},
    safetensors,
};
use crate::failure::{self, Failure, Problem};

/// One tensor of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileTensor {
    /// The name inside the file; a `.npy` has none and takes the file's.
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) source: Source,
}

/// Where the bytes of a tensor are.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// At hand; the first element lies at `offset`.
    Bytes { bytes: Bytes, offset: u64 },
    /// In an archive, from which they are unpacked each time.
    Member(Member),
}

/// A tensor with its bytes at hand.
#[derive(Debug)]
pub(crate) struct Loaded<'a> {
    layout: &'a Layout,
    bytes: Bytes,
    /// Where the first element lies in `bytes`.
    offset: u64,
}

/// A file as it can be written again: parts, each the bytes before its tensors, and the tensors.
#[derive(Debug)]
pub(crate) struct TensorFile {
    pub(crate) path: PathBuf,
    pub(crate) parts: Vec<Part>,
}

/// What becomes one file when it is written. A `.npz` has a part for each member.
#[derive(Debug)]
pub(crate) struct Part {
    /// The file name to write.
    pub(crate) name: OsString,
    /// The file's bytes before the first tensor.
    pub(crate) header: Vec<u8>,
    /// In the order of their bytes, without gaps.
    pub(crate) tensors: Vec<FileTensor>,
}

impl FileTensor {
    /// With its bytes at hand: those of an archive are unpacked for as long as this lives.
    pub(crate) fn loaded(&self) -> Result<Loaded<'_>, Failure> {
        let (bytes, offset) = match &self.source {
            Source::Bytes { bytes, offset } => (bytes.clone(), *offset),
            Source::Member(member) => (member.unpacked(&self.layout)?, 0),
        };
        Ok(Loaded {
            layout: &self.layout,
            bytes,
            offset,
        })
    }

    /// The elements in the order in which a file stores them, from a tensor of this layout.
    pub(crate) fn file_order(&self, tensor: &Tensor) -> Result<Vec<u8>, crossdock::Error> {
        if self.layout.is_contiguous() {
            return tensor.read();
        }
        // The only other order that a file can have is Fortran's.
        let axes: Vec<usize> = (0..self.layout.rank()).rev().collect();
        tensor.permute(&axes)?.read()
    }
}

impl Loaded<'_> {
    /// The tensor on `cpu:0`, over these bytes themselves.
    pub(crate) fn on_host(&self, runtime: &Runtime) -> Result<Tensor, crossdock::Error> {
        let owner = Box::new(self.bytes.clone());
        Tensor::from_host_memory(runtime, owner, self.offset, self.layout)
    }

    /// The stored bytes of the tensor.
    pub(crate) fn stored(&self) -> Option<&[u8]> {
        let begin = usize::try_from(self.offset).ok()?;
        let length = usize::try_from(self.layout.bytes()).ok()?;
        self.bytes.as_ref().get(begin..begin.checked_add(length)?)
    }
}

impl TensorFile {
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &FileTensor> {
        self.parts.iter().flat_map(|part| &part.tensors)
    }
}

/// Reads the headers of a file and maps its tensors.
pub(crate) fn read(path: &Path) -> Result<TensorFile, Failure> {
    let bytes = Bytes::map(path).map_err(|error| Problem::file("read", path, &error))?;
    let name = path.file_name().unwrap_or_default();
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    let parts = match extension.as_deref() {
        Some("npy") => npy::part(name, bytes).map(|part| vec![part]),
        Some("npz") => npz::parts(path, name, &bytes),
        Some("safetensors") => safetensors::part(name, bytes).map(|part| vec![part]),
        _ => Err(FileError::Extension),
    };
    let parts = parts.map_err(|error| unreadable(path, &error))?;
    Ok(TensorFile {
        path: path.to_owned(),
        parts,
    })
}

/// What is told of a file whose tensors cannot be read.
pub(super) fn unreadable(path: &Path, error: &FileError) -> Failure {
    let hint = match error.is_big_endian() {
        true => {
            "save it in this machine's byte order (NumPy: `a.astype(a.dtype.newbyteorder('='))`)"
        }
        false => "give a whole .npy, .npz or .safetensors file of plain numbers",
    };
    let what = format!("read the tensors of `{}`", path.display());
    Problem::new(what, failure::chain(error), hint).into()
}
