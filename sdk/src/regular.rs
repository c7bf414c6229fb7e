//! Regular files, opened without waiting for what is none: opening a pipe waits for its other end, and
//! opening a device may act on it.
#![expect(unsafe_code, reason = "asks for a limit of this process")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// What the system says, or that it is something else.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a regular file as the options say; with `create` it may be a new one.
///
/// # Errors
/// As [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match path.metadata() {
        Ok(facts) if !facts.is_file() => return Err(not_regular()),
        // The options decide about a file that is not there.
        _ => {}
    }
    // What was put there since is not waited for either.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(not_regular())
    }
}

/// Fails if a file of this size is larger than this process may write: the write would end the process by
/// `SIGXFSZ`, whose action belongs to the program.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`].
pub fn fits(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written during the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if known && bytes > limit.rlim_cur {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(())
}

/// The answer for what is no regular file.
#[must_use]
pub fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened() {
        for path in ["/dev/null", "/dev/zero", "/", "/proc/self/fd"] {
            let error = open(Path::new(path)).unwrap_err();
            assert!(error.to_string().contains("regular"), "{path}: {error}");
        }
        assert!(open(&std::env::current_exe().unwrap()).is_ok());
        let absent = open(Path::new("/nonexistent/file")).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }
}
