//! One array in NumPy's format.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Cursor, Read},
};

use crossdock_sdk::dlpack::{Dtype, Layout};

use super::{
    Bytes, FileError,
    file::{FileTensor, Part, Source},
    npy_header::Header,
};

/// What stands before an array.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    layout: Layout,
}

/// The array of a `.npy` file.
pub(super) fn part(name: &OsStr, bytes: Bytes) -> Result<Part, FileError> {
    let has = bytes.as_ref().len() as u64;
    let head = Head::read(&mut Cursor::new(bytes.as_ref()))?.check_end(has)?;
    let offset = head.bytes.len() as u64;
    Ok(head.part(name.to_owned(), Source::Bytes { bytes, offset }))
}

impl Head {
    /// Reads from the beginning of a file up to its array.
    pub(super) fn read(from: &mut impl Read) -> Result<Self, FileError> {
        let mut bytes = Vec::new();
        let (text, version) = Self::text(from, &mut bytes).map_err(FileError::Header)?;
        let layout = layout_of(&Header::parse(text, version < 3)?)?;
        Ok(Self { bytes, layout })
    }

    /// The magic word, the version, the length of a text, and the text. Gives the text and the version.
    fn text<'a>(from: &mut impl Read, bytes: &'a mut Vec<u8>) -> io::Result<(&'a [u8], u8)> {
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut more =
            |bytes: &mut Vec<u8>, count: u64| match from.take(count).read_to_end(bytes)? {
                read if read as u64 == count => Ok(()),
                _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            };
        more(bytes, 8)?;
        let Some(version) = bytes.strip_prefix(MAGIC) else {
            return Err(wrong("it does not begin as NumPy's files do".to_owned()));
        };
        let (version, length) = match *version {
            [version @ 1, 0] => (version, 2),
            [version @ (2 | 3), 0] => (version, 4),
            _ => return Err(wrong(format!("its version is {version:?}"))),
        };
        more(bytes, length)?;
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(bytes.iter().skip(8)) {
            *to = *from;
        }
        let length = u32::from_le_bytes(word);
        if length > LONGEST {
            return Err(wrong(format!(
                "its text has {length} bytes, and {LONGEST} are allowed"
            )));
        }
        let begin = bytes.len();
        more(bytes, length.into())?;
        Ok((bytes.get(begin..).unwrap_or_default(), version))
    }

    /// Checks that the array ends within the whole, in which other bytes may follow.
    pub(super) fn check_end(self, whole: u64) -> Result<Self, FileError> {
        let bytes = self.layout.bytes();
        let end = bytes.checked_add(self.bytes.len() as u64);
        if end.is_none_or(|end| end > whole) {
            return Err(FileError::Short { bytes });
        }
        Ok(self)
    }

    /// The part with the array that follows.
    pub(super) fn part(self, name: OsString, source: Source) -> Part {
        let tensors = vec![FileTensor {
            name: name.to_string_lossy().into_owned(),
            layout: self.layout,
            source,
        }];
        Part {
            name,
            header: self.bytes,
            tensors,
        }
    }
}

fn layout_of(header: &Header<'_>) -> Result<Layout, FileError> {
    let dtype = dtype_of(header.dtype)?;
    let shape: Result<Vec<i64>, _> = header.shape.iter().map(|n| i64::try_from(*n)).collect();
    let shape = shape?;
    let compact = Layout::compact(dtype, &shape)?;
    if !header.is_fortran || shape.len() < 2 {
        return Ok(compact);
    }
    // Fortran order is the compact layout of the reversed shape, seen with its axes reversed.
    let reversed: Vec<i64> = shape.iter().rev().copied().collect();
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    Ok(Layout::compact(dtype, &reversed)?.permute(&axes)?)
}

/// An optional byte order, a letter for the kind, and the bytes of an element: `<f4`.
fn dtype_of(text: &str) -> Result<Dtype, FileError> {
    let dtype = || text.to_owned();
    let rest = text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text);
    let known = TYPES.iter().find(|(known, _)| *known == rest);
    let (_, name) = known.ok_or_else(|| FileError::Dtype { dtype: dtype() })?;
    if text.starts_with('>') && !rest.ends_with('1') {
        return Err(FileError::BigEndian { dtype: dtype() });
    }
    name.parse()
        .map_err(|_unknown| FileError::Dtype { dtype: dtype() })
}

/// NumPy's type texts without their byte order, of the dtypes that DLPack has as well.
const TYPES: &[(&str, &str)] = &[
    ("b1", "bool"),
    ("i1", "int8"),
    ("i2", "int16"),
    ("i4", "int32"),
    ("i8", "int64"),
    ("u1", "uint8"),
    ("u2", "uint16"),
    ("u4", "uint32"),
    ("u8", "uint64"),
    ("f2", "float16"),
    ("f4", "float32"),
    ("f8", "float64"),
    ("c8", "complex64"),
    ("c16", "complex128"),
];

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself refuses more unless it is told to trust the file.
const LONGEST: u32 = 10_000;
