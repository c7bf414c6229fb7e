//! The bytes of a file, read once. Its holes are not read, and take no memory until they are looked at.
#![expect(unsafe_code, reason = "asks where a file has holes")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use memmap2::MmapMut;

/// The first `length` bytes. In memory of our own: a mapped file that is shortened ends the process.
pub(super) fn read(file: &File, length: u64) -> io::Result<MmapMut> {
    let too_large = |_overflow| io::Error::from(io::ErrorKind::FileTooLarge);
    let mut bytes = MmapMut::map_anon(usize::try_from(length).map_err(too_large)?)?;
    let mut at = 0;
    while let Some((begin, end)) = next_data(file, at, length) {
        let range =
            usize::try_from(begin).map_err(too_large)?..usize::try_from(end).map_err(too_large)?;
        if let Some(part) = bytes.get_mut(range) {
            file.read_exact_at(part, begin)?;
        }
        at = end;
    }
    Ok(bytes)
}

/// Where the next bytes that were written begin and end; all of them where the system does not say.
fn next_data(file: &File, at: u64, length: u64) -> Option<(u64, u64)> {
    if at >= length {
        return None;
    }
    match seek(file, at, libc::SEEK_DATA) {
        Ok(begin) if begin >= length => None,
        Ok(begin) => {
            let end = seek(file, begin, libc::SEEK_HOLE).unwrap_or(length);
            Some((begin, end.clamp(begin + 1, length)))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => None,
        Err(_unknown) => Some((at, length)),
    }
}

fn seek(file: &File, from: u64, whence: i32) -> io::Result<u64> {
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    // SAFETY: no pointer is passed; nobody else uses the position of this open file.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
    u64::try_from(found).map_err(|_negative| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_file_with_its_holes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        file.set_len(300_000).unwrap();
        file.write_all_at(&[8; 10], 200_000).unwrap();
        let bytes = read(&file, 300_000).unwrap();
        let mut expected = vec![0; 300_000];
        expected[..5000].fill(7);
        expected[200_000..200_010].fill(8);
        assert!(bytes[..] == expected);
        assert!(read(&file, 0).unwrap().is_empty());
        assert!(read(&file, 300_001).is_ok_and(|bytes| bytes[300_000] == 0));
    }
}
