//! Several arrays in a zip archive, as NumPy's `savez` writes them.

use std::{
    ffi::OsStr,
    io::{self, Cursor, Read},
    path::{Path, PathBuf},
};

use crossdock_sdk::dlpack::Layout;
use zip::{CompressionMethod, ZipArchive, result::ZipError};

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
        let raw = archive.by_index_raw(index)?;
        // A name may hold a path; only its letters are taken.
        let inner = raw.name()?.replace(['/', '\\'], "_");
        check_method(raw.compression()).map_err(|error| error.in_member(&inner))?;
        drop(raw);
        let mut member = archive.by_index(index)?;
        let size = member.size();
        let head = Head::read(&mut member).and_then(|head| head.check_end(size));
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

/// Refuses a member that needs another way to unpack it than this command has.
fn check_method(method: CompressionMethod) -> Result<(), FileError> {
    let method = match method {
        CompressionMethod::Stored | CompressionMethod::Deflated => return Ok(()),
        CompressionMethod::BZIP2 => "bzip2",
        CompressionMethod::LZMA => "LZMA",
        _ => "an unknown method",
    };
    Err(FileError::Packed { method })
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
        let mut bytes = member.by_ref().take(size);
        bytes.read_to_end(&mut array).map_err(failed)?;
        if (array.len() as u64) < size {
            return Err(FileError::Short { bytes: size });
        }
        // If the member ends here, this read compares its checksum.
        let _more = member.read(&mut [0]).map_err(failed)?;
        Ok(Bytes::from(array))
    }
}
