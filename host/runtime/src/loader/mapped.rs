//! Which file the dynamic linker really mapped: names are compared before files, so a path can give
//! an earlier library, or a file that was put there a moment ago.
#![expect(
    unsafe_code,
    reason = "maps a page to see how the system names its file"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crossdock_sdk::regular;
use memmap2::MmapOptions;

/// Whether `address` lies in a mapping of `file`. `None` where the system does not tell.
pub(super) fn is_mapped_from(address: *const u8, file: &File) -> Option<bool> {
    // SAFETY: the page is only there to be found in the list of mappings, and is never read.
    let sample = unsafe { MmapOptions::new().len(1).map_copy_read_only(file) }.ok()?;
    // The list of mappings names devices in its own way on some file systems, so both are asked there.
    let maps = fs::read("/proc/self/maps").ok()?;
    let wanted = file_at(&maps, sample.as_ptr().addr())?;
    Some(file_at(&maps, address.addr()) == Some(wanted))
}

/// Device and inode of the mapping with `address`: `START-END MODE OFFSET DEVICE INODE [PATH]`. Bytes,
/// since the path may be any.
fn file_at(maps: &[u8], address: usize) -> Option<(&str, &str)> {
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (start, end) = word()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        if !(start..end).contains(&address) {
            return None;
        }
        let (_mode, _offset) = (word()?, word()?);
        Some((word()?, word()?))
    })
}

/// A copy of a file under a name that was never used, removed with its folder when it is dropped.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    folder: PathBuf,
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl PrivateCopy {
    /// Copies `file`, whatever lies at its path by now.
    pub(super) fn of(file: &File, name: &Path) -> io::Result<Self> {
        let folder = new_folder()?;
        let path = folder.join(name.file_name().unwrap_or(name.as_os_str()));
        let made = copy(file, &path);
        let made = made.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        Ok(Self {
            folder,
            path,
            file: made,
        })
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            let folder = self.folder.display();
            log::debug!(target: "crossdock::load", "remove `{folder}`: {error}");
        }
    }
}

/// A folder that only this user can enter.
fn new_folder() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("crossdock-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            // Of an earlier process with this number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn copy(file: &File, to: &Path) -> io::Result<File> {
    regular::fits(file.metadata()?.len())?;
    let mut new = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    let mut part = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let length = file.read_at(&mut part, at)?;
        let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(new);
        };
        new.write_all(read)?;
        at += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_found_by_an_address_inside() {
        let maps = b"6f00-6f10 r-xp 0 fd:01 7  /\xff\n7f00-7f10 r-xp 00001000 fd:01 42  /a b\n\
                     7f10-7f20 rw-p 00000000 00:00 0\n";
        assert_eq!(file_at(maps, 0x7f0f), Some(("fd:01", "42")));
        assert_eq!(file_at(maps, 0x7f10), Some(("00:00", "0")));
        assert_eq!(file_at(maps, 0x7f20), None);
    }

    #[test]
    fn a_mapping_of_a_name_that_is_no_utf8_hides_no_other() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"\xff\xfe");
        fs::write(folder.path().join(name), "x").unwrap();
        let odd = File::open(folder.path().join(name)).unwrap();
        // SAFETY: nobody shortens the file while it is mapped.
        let odd_map = unsafe { MmapOptions::new().map(&odd) }.unwrap();
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        // In the code of this program, and in no mapping of another file.
        static HERE: [u8; 4] = *b"here";
        let here = HERE.as_ptr();
        assert_eq!(is_mapped_from(here, &own), Some(true));
        assert_eq!(is_mapped_from(here, &odd), Some(false));
        assert_eq!(is_mapped_from(odd_map.as_ptr(), &odd), Some(true));
    }

    #[test]
    fn a_private_copy_has_the_bytes_and_goes_with_its_folder() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let copy = PrivateCopy::of(&file, Path::new("/x/y.so")).unwrap();
        let folder = copy.folder.clone();
        assert_eq!(
            fs::metadata(&copy.path).unwrap().len(),
            file.metadata().unwrap().len()
        );
        drop(copy);
        assert!(!folder.exists());
    }
}
