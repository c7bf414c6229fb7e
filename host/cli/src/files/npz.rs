//! Several arrays in a zip archive, as NumPy's `savez` writes them.

use std::{
    ffi::OsStr,
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
};

use crossdock_sdk::dlpack::Layout;
use zip::{ZipArchive, result::ZipError};

use super::{
    Bytes, FileError,
    file::{Part, Source, unreadable},
    npy::Head,
};
use crate::failure::Failure;

type Archive = ZipArchive<Cursor<Bytes>>;

/// An array in an archive. Its size was compared with what the archive says, and is all that is unpacked.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    path: PathBuf,
    /// Shares the list of members with all others.
    archive: Archive,
    index: usize,
    name: String,
    /// The bytes before the array.
    head: u64,
}

/// The arrays of a `.npz` file, each a part with a name of its own. Only their heads are unpacked.
pub(super) fn parts(path: &Path, name: &OsStr, bytes: &Bytes) -> Result<Vec<Part>, FileError> {
    let mut archive = Archive::new(Cursor::new(bytes.clone()))?;
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        // A name may hold a path; only its letters are taken.
        let inner = member.name()?.replace(['/', '\\'], "_");
        let size = member.size();
        let head = Head::read(&mut member).and_then(|head| head.check_end(size, true));
        let head = head.map_err(|error| error.in_member(&inner))?;
        let mut file = Path::new(name).file_stem().unwrap_or_default().to_owned();
        file.push(".");
        file.push(&inner);
        drop(member);
        let source = Source::Member(Member {
            path: path.to_owned(),
            archive: archive.clone(),
            index,
            name: inner,
            head: head.bytes.len() as u64,
        });
        parts.push(head.part(file, source));
    }
    Ok(parts)
}

impl Member {
    /// The bytes of the array.
    pub(super) fn unpacked(&self, layout: &Layout) -> Result<Bytes, Failure> {
        let unpacked = self.unpack(layout.bytes());
        unpacked.map_err(|error| unreadable(&self.path, &error.in_member(&self.name)))
    }

    fn unpack(&self, size: u64) -> Result<Bytes, FileError> {
        let mut archive = self.archive.clone();
        let mut member = archive.by_index(self.index)?;
        let failed = |error| FileError::from(ZipError::Io(error));
        io::copy(&mut member.by_ref().take(self.head), &mut io::sink()).map_err(failed)?;
        let mut array = Vec::new();
        let room = usize::try_from(size).map_or(Ok(()), |size| array.try_reserve_exact(size));
        room.map_err(|error| failed(io::Error::new(io::ErrorKind::OutOfMemory, error)))?;
        // One byte more than the array shows that it goes on, and its end that its sum is right.
        member
            .take(size.saturating_add(1))
            .read_to_end(&mut array)
            .map_err(failed)?;
        match (array.len() as u64).cmp(&size) {
            std::cmp::Ordering::Less => Err(FileError::Short { bytes: size }),
            std::cmp::Ordering::Greater => Err(FileError::Long),
            std::cmp::Ordering::Equal => Ok(Bytes::from(array)),
        }
    }
}
