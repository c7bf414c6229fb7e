//! Several arrays in a zip archive, as NumPy's `savez` writes them.

use std::io::{Cursor, Read as _};

use super::{Bytes, file::Part, npy};

/// The arrays of a `.npz` file, each a part with a name of its own.
pub(super) fn parts(name: &str, bytes: &Bytes) -> Result<Vec<Part>, String> {
    let stem = name.strip_suffix(".npz").unwrap_or(name);
    let broken = |error: zip::result::ZipError| error.to_string();
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes.as_ref())).map_err(broken)?;
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(broken)?;
        // A name may hold a path; only its letters are taken.
        let inner = member.name().map_err(broken)?.replace(['/', '\\'], "_");
        let mut array = Vec::new();
        member
            .read_to_end(&mut array)
            .map_err(|error| format!("its member `{inner}`: {error}"))?;
        let part = npy::part(format!("{stem}.{inner}"), Bytes::from(array));
        parts.push(part.map_err(|why| format!("its member `{inner}`: {why}"))?);
    }
    Ok(parts)
}
