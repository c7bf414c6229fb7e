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
    let head = Head::read(&mut Cursor::new(bytes.as_ref()))?.check_end(has, false)?;
    let offset = head.bytes.len() as u64;
    Ok(head.part(name.to_owned(), Source::Bytes { bytes, offset }))
}

impl Head {
    /// Reads from the beginning of a file up to its array.
    pub(super) fn read(from: &mut impl Read) -> Result<Self, FileError> {
        let mut bytes = Vec::new();
        let text = Self::text(from, &mut bytes).map_err(FileError::Header)?;
        let layout = layout_of(&Header::parse(text)?)?;
        Ok(Self { bytes, layout })
    }

    /// The magic word, the version, the length of a text, and the text.
    fn text<'a>(from: &mut impl Read, bytes: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
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
        let length = match *version {
            [1, _] => 2,
            [2 | 3, _] => 4,
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
        Ok(bytes.get(begin..).unwrap_or_default())
    }

    /// Compares the array's size with that of the whole, which may not be `exact`.
    pub(super) fn check_end(self, whole: u64, exact: bool) -> Result<Self, FileError> {
        let bytes = self.layout.bytes();
        let end = bytes.checked_add(self.bytes.len() as u64);
        if end.is_none_or(|end| end > whole) {
            return Err(FileError::Short { bytes });
        }
        if exact && end != Some(whole) {
            return Err(FileError::Long);
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

/// The byte order, a letter for the kind, and the bytes of an element: `<f4`.
fn dtype_of(text: &str) -> Result<Dtype, FileError> {
    let unknown = || FileError::Dtype {
        dtype: text.to_owned(),
    };
    let order = text.chars().next().filter(|order| "<>|=".contains(*order));
    let rest = text
        .get(order.map_or(0, char::len_utf8)..)
        .unwrap_or_default();
    let kind = rest.chars().next().ok_or_else(unknown)?;
    let bytes = rest.get(kind.len_utf8()..).unwrap_or_default();
    let digits = bytes.bytes().all(|byte| byte.is_ascii_digit());
    let bytes: Option<u32> = digits.then(|| bytes.parse().ok()).flatten();
    let bytes = bytes.ok_or_else(unknown)?;
    if order == Some('>') && bytes > 1 {
        return Err(FileError::BigEndian {
            dtype: text.to_owned(),
        });
    }
    let bits = bytes.saturating_mul(8);
    let name = match kind {
        'b' if bytes == 1 => "bool".to_owned(),
        'i' => format!("int{bits}"),
        'u' => format!("uint{bits}"),
        'f' => format!("float{bits}"),
        'c' => format!("complex{bits}"),
        _ => return Err(unknown()),
    };
    name.parse().map_err(|_unknown| unknown())
}

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself refuses more than 10,000 unless it is told to trust the file.
const LONGEST: u32 = 1 << 16;
