//! Files that are not whole yet, which neither a failure nor a signal leaves behind.
#![expect(unsafe_code, reason = "removes files in the handler of a signal")]

use std::{
    ffi::{CString, c_char},
    fs::{File, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// The names of the files there are. The thread that takes a name out of its place owns it.
static NAMES: [AtomicPtr<c_char>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// A new file in a folder, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    _name: Name,
}

impl Temporary {
    /// Makes a file with the mode that the umask says.
    pub(crate) fn new_in(folder: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".crossdock-{}-{number}", std::process::id()));
            let name = Name::of(&path)?;
            let mut options = OpenOptions::new();
            // Only a new file: what lies there under this name may lead elsewhere.
            match options.write(true).create_new(true).mode(0o666).open(&path) {
                Ok(file) => {
                    return Ok(Self {
                        path,
                        file,
                        _name: name,
                    });
                }
                Err(error) => {
                    name.forget();
                    if error.kind() != io::ErrorKind::AlreadyExists {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// A name's place in the list.
#[derive(Debug)]
struct Name(&'static AtomicPtr<c_char>);

impl Name {
    fn of(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?.into_raw();
        let free = NAMES.iter().find(|place| {
            let (none, order) = (ptr::null_mut(), Ordering::AcqRel);
            place
                .compare_exchange(none, name, order, Ordering::Relaxed)
                .is_ok()
        });
        free.map(Self).ok_or_else(|| {
            // SAFETY: the pointer was made by `into_raw`, and no place took it.
            drop(unsafe { CString::from_raw(name) });
            io::Error::other("too many files are written at once")
        })
    }

    fn take(&self) -> Option<CString> {
        let name = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: it was made by `into_raw`, and the swap gave it to us alone.
        (!name.is_null()).then(|| unsafe { CString::from_raw(name) })
    }

    /// The file is not ours.
    fn forget(self) {
        drop(self.take());
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(name) = self.take() {
            // SAFETY: a C string. Where the file was renamed there is none of this name.
            unsafe { libc::unlink(name.as_ptr()) };
        }
    }
}

/// Removes the files: for the handler of a signal that ends the process.
pub(crate) fn remove_all() {
    for place in &NAMES {
        let name = place.swap(ptr::null_mut(), Ordering::AcqRel);
        if !name.is_null() {
            // SAFETY: a C string that the swap gave to us alone; it is never freed.
            unsafe { libc::unlink(name) };
        }
    }
}
