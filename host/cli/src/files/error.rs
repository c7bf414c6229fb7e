//! Why a file's tensors cannot be read.

use std::{io, num::TryFromIntError};

use crossdock_sdk::dlpack::DlpackError;
use zip::result::ZipError;

/// What is wrong with a file. Its causes are its sources.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("its name ends in none of `.npy`, `.npz` and `.safetensors`")]
    Extension,
    #[error("its header cannot be read")]
    Header(#[source] io::Error),
    #[error("its array takes {bytes} bytes after the header; the file ends before")]
    Short { bytes: u64 },
    #[error("its elements are records; only plain numeric dtypes are supported")]
    Records,
    #[error("its dtype `{dtype}` is big-endian; only little-endian numbers travel")]
    BigEndian { dtype: String },
    #[error("its dtype `{dtype}` is no plain number that DLPack has a name for")]
    Dtype { dtype: String },
    #[error("its shape has an extent that no tensor can have")]
    Extent(#[from] TryFromIntError),
    #[error("its layout is none that a tensor can have")]
    Layout(#[from] DlpackError),
    #[error("its archive cannot be read")]
    Archive(#[from] ZipError),
    #[error("it is packed by {method}; only stored and deflated members are read")]
    Packed { method: &'static str },
    #[error("its member `{name}`")]
    Member {
        name: String,
        #[source]
        why: Box<Self>,
    },
    #[error("its list of tensors cannot be read")]
    Safetensors(#[from] safetensors::SafeTensorError),
    #[error("its list of tensors cannot be read")]
    Names(#[from] serde_json::Error),
    #[error("its tensor `{name}`")]
    Tensor {
        name: String,
        #[source]
        why: Box<Self>,
    },
}

impl FileError {
    /// Whether only the byte order is in the way.
    pub(super) fn is_big_endian(&self) -> bool {
        match self {
            Self::BigEndian { .. } => true,
            Self::Member { why, .. } | Self::Tensor { why, .. } => why.is_big_endian(),
            _ => false,
        }
    }

    /// This, in the member of an archive.
    pub(super) fn in_member(self, name: &str) -> Self {
        Self::Member {
            name: name.to_owned(),
            why: Box::new(self),
        }
    }

    /// This, of one tensor among others.
    pub(super) fn in_tensor(self, name: &str) -> Self {
        Self::Tensor {
            name: name.to_owned(),
            why: Box::new(self),
        }
    }
}
