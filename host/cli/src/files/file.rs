//! A file's tensors, mapped or unpacked when they are needed, and what it takes to write the file again.

use std::{
    ffi::OsString,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crossdock::{Runtime, Tensor};
use crossdock_sdk::{dlpack::Layout, regular};

use super::{
    Bytes, FileError, npy,
    npz::{self, Member},
    safetensors,
    stamp::Stamped,
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
    stamped: Stamped,
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

    /// Fails if the file was written to since it was read.
    pub(crate) fn check_unchanged(&self) -> Result<(), Failure> {
        let changed = self.stamped.check();
        Ok(changed.map_err(|error| changed_meanwhile(&self.path, &error))?)
    }
}

/// Reads the headers of a file and maps its tensors.
pub(crate) fn read(path: &Path) -> Result<TensorFile, Failure> {
    let failed = |error: io::Error| Problem::file("read", path, &error);
    let stamped = regular::open(path).and_then(Stamped::new).map_err(failed)?;
    let bytes = Bytes::map(stamped.file()).map_err(failed)?;
    parsed(path, stamped, bytes)
}

/// Reads all of a file. Another program can shorten it meanwhile: that is an error here, where a mapped file
/// ends the process.
pub(crate) fn read_whole(path: &Path) -> Result<TensorFile, Failure> {
    let failed = |error: io::Error| Problem::file("read", path, &error);
    let stamped = regular::open(path).and_then(Stamped::new).map_err(failed)?;
    let mut bytes = Vec::new();
    stamped.file().read_to_end(&mut bytes).map_err(failed)?;
    let changed = stamped.check();
    changed.map_err(|error| changed_meanwhile(path, &error))?;
    parsed(path, stamped, bytes.into())
}

fn changed_meanwhile(path: &Path, error: &io::Error) -> Problem {
    let what = format!("read the tensors of `{}`", path.display());
    let hint = "let the other program end first, and replace files by rename (`mv new old`)";
    Problem::new(what, error.to_string(), hint)
}

fn parsed(path: &Path, stamped: Stamped, bytes: Bytes) -> Result<TensorFile, Failure> {
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
        stamped,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_truncated_after_it_was_read_whole_keeps_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let header = br#"{"x":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}}"#;
        let length = (header.len() as u64).to_le_bytes();
        let bytes = [&length[..], header, &[7; 100_000]].concat();
        std::fs::write(&path, &bytes).unwrap();
        let read = read_whole(&path).unwrap();
        std::fs::File::create(&path).unwrap();
        let tensor = read.tensors().next().unwrap();
        let loaded = tensor.loaded().unwrap();
        assert_eq!(loaded.stored().unwrap(), [7; 100_000]);
        assert!(read.check_unchanged().is_err());
    }
}
