//! Reading a file's tensors without copying them, and writing the same file again.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use crossdock::{Runtime, Tensor};
use crossdock_sdk::dlpack::Layout;

use super::{Bytes, FileError, npy, npz, safetensors};
use crate::failure::{self, Failure, Problem};

/// One tensor of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileTensor {
    /// The name inside the file; a `.npy` has none and takes the file's.
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) bytes: Bytes,
    /// Where the first element lies in `bytes`.
    pub(crate) offset: u64,
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
    pub(crate) name: String,
    /// The file's bytes before the first tensor.
    pub(crate) header: Vec<u8>,
    /// In the order of their bytes, without gaps.
    pub(crate) tensors: Vec<FileTensor>,
}

impl FileTensor {
    /// The tensor on `cpu:0`, over the bytes of the file themselves.
    pub(crate) fn on_host(&self, runtime: &Runtime) -> Result<Tensor, crossdock::Error> {
        let owner = Box::new(self.bytes.clone());
        Tensor::from_host_memory(runtime, owner, self.offset, &self.layout)
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

    /// The stored bytes of this tensor.
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
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    let parts = match extension.as_deref() {
        Some("npy") => npy::part(name, bytes).map(|part| vec![part]),
        Some("npz") => npz::parts(&name, &bytes),
        Some("safetensors") => safetensors::part(name, bytes).map(|part| vec![part]),
        _ => Err(FileError::Extension),
    };
    let parts = parts.map_err(|error| {
        let hint = "give a whole .npy, .npz or .safetensors file of plain numbers";
        Problem::new(
            format!("read the tensors of `{}`", path.display()),
            failure::chain(&error),
            hint,
        )
    })?;
    Ok(TensorFile {
        path: path.to_owned(),
        parts,
    })
}

/// Writes a part under its name in `folder`, whole or not at all.
pub(crate) fn write(
    folder: &Path,
    source: &Path,
    part: &Part,
    tensors: &[Vec<u8>],
) -> Result<PathBuf, Failure> {
    let target = folder.join(&part.name);
    let failed = |error: &std::io::Error| Problem::file("write", &target, error);
    if let (Ok(from), Ok(to)) = (source.canonicalize(), target.canonicalize())
        && from == to
    {
        let what = format!("write `{}`", target.display());
        let why = "it is the file that is being read";
        return Err(Problem::new(what, why, "give another folder to `--out`").into());
    }
    if !folder.is_dir() {
        // Only the folder that was named: a parent that is missing is a slip of the pen.
        let made = std::fs::create_dir(folder);
        made.map_err(|error| Problem::file("make the folder", folder, &error))?;
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    for bytes in std::iter::once(&part.header).chain(tensors) {
        file.write_all(bytes).map_err(|error| failed(&error))?;
    }
    file.persist(&target)
        .map_err(|error| failed(&error.error))?;
    Ok(target)
}
