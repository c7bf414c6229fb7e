//! Several arrays in a zip archive, as NumPy's `savez` writes them.

use std::io::{Cursor, Read as _};

use zip::result::ZipError;

use super::{Bytes, FileError, file::Part, npy};

/// The arrays of a `.npz` file, each a part with a name of its own.
pub(super) fn parts(name: &str, bytes: &Bytes) -> Result<Vec<Part>, FileError> {
    let stem = name.strip_suffix(".npz").unwrap_or(name);
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes.as_ref()))?;
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        // A name may hold a path; only its letters are taken.
        let inner = member.name()?.replace(['/', '\\'], "_");
        let mut array = Vec::new();
        member
            .read_to_end(&mut array)
            .map_err(|error| FileError::from(ZipError::Io(error)).in_member(&inner))?;
        let part = npy::part(format!("{stem}.{inner}"), Bytes::from(array));
        parts.push(part.map_err(|error| error.in_member(&inner))?);
    }
    Ok(parts)
}
