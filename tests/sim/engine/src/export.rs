//! Memory that another process opens: the words by which it finds it, and the file that it is in.
#![expect(unsafe_code, reason = "reads another process's file")]

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use crate::Error;
use crate::arena::refused;

/// By what a process finds memory of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Export {
    /// The process that has it.
    pub process: u32,
    /// Index of the device.
    pub device: u32,
    /// The descriptor that the process has of its file, and the file's own number.
    pub file: (u32, u64),
    /// Where the memory is in it, and how much.
    pub range: (u64, u64),
    /// Where it stands in it whether the memory is there.
    pub ledger: u64,
    /// Number of the allocation in that process.
    pub id: u64,
}

/// The number of an open file, which no other one has while somebody has it.
pub(crate) fn number_of(file: c_int) -> Result<u64, Error> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstat(file, found.as_mut_ptr()) } != 0 {
        return Err(refused("fstat"));
    }
    // SAFETY: it was filled.
    Ok(unsafe { found.assume_init() }.st_ino)
}

/// Opens the file of an export; it is closed with the answer, and what was shown of it stays.
///
/// # Errors
///
/// [`Error::Gone`] where the process, the file or the memory is no more.
pub(crate) fn open(export: &Export) -> Result<File, Error> {
    let Export {
        process,
        file: (descriptor, number),
        ..
    } = *export;
    let path = format!("/proc/{process}/fd/{descriptor}");
    let opened = File::options().read(true).write(true).open(path);
    let file = opened.ok().ok_or(Error::Gone)?;
    let is_it = file.metadata().is_ok_and(|found| found.ino() == number);
    let mut is_there = [0_u8];
    let told = file.read_at(&mut is_there, export.ledger);
    if is_it && matches!(told, Ok(1)) && is_there == [1] {
        Ok(file)
    } else {
        Err(Error::Gone)
    }
}

/// The descriptor of an open file.
pub(crate) fn descriptor(file: &File) -> c_int {
    file.as_raw_fd()
}
