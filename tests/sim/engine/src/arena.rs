//! Memory that is mapped twice: where callers see its addresses and cannot touch it, and where the
//! engine does.
#![expect(unsafe_code, reason = "maps memory and moves bytes in it")]

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::{Config, Error};

/// Callers' view and engine's view of the memory of all devices.
#[derive(Debug)]
pub(crate) struct Arena {
    file: c_int,
    callers: NonNull<u8>,
    ours: NonNull<u8>,
    /// Of one device.
    stride: u64,
    bytes: u64,
}

// SAFETY: the views are plain memory of the process; what may be done to it when is up to the state,
// which is behind a lock.
unsafe impl Send for Arena {}
// SAFETY: as above; the methods change nothing but the memory they are given.
unsafe impl Sync for Arena {}

/// The part of an allocation that is filled with a pattern when it comes and when it goes.
const POISONED: u64 = 256 << 10;
/// Larger freed memory is given back to the system.
const GIVEN_BACK: u64 = 1 << 20;
pub(crate) const PAGE: u64 = 4096;
/// Behind the memory, the file has a byte for each allocation that other processes may open: 1 while it is there.
const LEDGER: u64 = 1 << 32;

impl Arena {
    /// Reserves room for sixteen times the memory of each device, so that addresses come back late.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let stride = config.memory_bytes.max(64 << 20).checked_mul(16);
        let stride = stride.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let sized = stride.and_then(|s| Some((s, s.checked_mul(u64::from(config.devices))?)));
        let Some((stride, bytes)) = sized.filter(|&(_, bytes)| bytes < 1 << 46) else {
            let why = "the devices' memory is more than the process can address".to_owned();
            return Err(Error::Invalid { why });
        };
        let bytes = bytes.max(PAGE);
        let file = shared_file(bytes + LEDGER)?;
        let views = map(file, bytes, libc::PROT_NONE).and_then(|callers| {
            Ok((
                callers,
                map(file, bytes, libc::PROT_READ | libc::PROT_WRITE)?,
            ))
        });
        match views {
            Ok((callers, ours)) => Ok(Self {
                file,
                callers,
                ours,
                stride,
                bytes,
            }),
            Err(error) => {
                // SAFETY: the descriptor is ours and used by nobody else.
                unsafe { libc::close(file) };
                Err(error)
            }
        }
    }

    /// First and last-but-one address of a device.
    pub(crate) fn device_range(&self, device: u32) -> (u64, u64) {
        let start = address(self.callers) + u64::from(device) * self.stride;
        (start, start + self.stride)
    }

    /// The device whose range an address is in.
    pub(crate) fn device_at(&self, at: u64) -> Option<u32> {
        let offset = at.checked_sub(address(self.callers))?;
        let device = u32::try_from(offset / self.stride).ok()?;
        (offset < self.bytes).then_some(device)
    }

    pub(crate) fn contains(&self, at: u64) -> bool {
        at.checked_sub(address(self.callers))
            .is_some_and(|offset| offset < self.bytes)
    }

    /// Where the engine reaches the byte at `at`: in its own view, or the host memory itself.
    pub(crate) fn view(&self, at: u64) -> *mut u8 {
        let offset = at.wrapping_sub(address(self.callers));
        let within = usize::try_from(offset).ok().filter(|_| offset < self.bytes);
        let host = std::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0));
        within.map_or(host, |offset| self.ours.as_ptr().wrapping_add(offset))
    }

    /// The file, and where an address is in it.
    pub(crate) fn in_file(&self, at: u64) -> (c_int, u64) {
        (self.file, at - address(self.callers))
    }

    /// Where in the file it stands whether an allocation is there.
    pub(crate) const fn ledger(&self, id: u64) -> u64 {
        self.bytes + id % LEDGER
    }

    /// Enters whether other processes find an allocation.
    pub(crate) fn enter(&self, id: u64, is_there: bool) -> Result<(), Error> {
        let byte = [u8::from(is_there)];
        let at = libc::off_t::try_from(self.ledger(id)).unwrap_or(libc::off_t::MAX);
        // SAFETY: it reads the one byte, and the descriptor is ours.
        let written = unsafe { libc::pwrite(self.file, byte.as_ptr().cast(), 1, at) };
        if written == 1 {
            Ok(())
        } else {
            Err(refused("pwrite"))
        }
    }

    /// Puts pages of a file into both views, which callers cannot touch: another process's, or our own again.
    pub(crate) fn show(&self, start: u64, bytes: u64, file: c_int, from: u64) -> Result<(), Error> {
        let offset = size(start - address(self.callers));
        let from = libc::off_t::try_from(from).unwrap_or(libc::off_t::MAX);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        for (view, protection) in [(self.callers, libc::PROT_NONE), (self.ours, both)] {
            let at = view.as_ptr().wrapping_add(offset);
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
            // SAFETY: these pages are of our own mapping, and no allocation but the one that is made or ended here
            // has bytes in them.
            let shown =
                unsafe { libc::mmap(at.cast(), size(bytes), protection, flags, file, from) };
            if shown == libc::MAP_FAILED {
                return Err(refused("mmap"));
            }
        }
        Ok(())
    }

    /// Lets callers touch whole pages, or no longer.
    pub(crate) fn expose(&self, start: u64, bytes: u64, open: bool) -> Result<(), Error> {
        let protection = if open {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_NONE
        };
        let offset = size(start - address(self.callers));
        let at = self.callers.as_ptr().wrapping_add(offset);
        // SAFETY: the pages are of our own mapping, as `start` is of one of its allocations.
        let done =
            unsafe { libc::mprotect(at.cast(), size(bytes.next_multiple_of(PAGE)), protection) };
        if done == 0 {
            Ok(())
        } else {
            Err(refused("mprotect"))
        }
    }

    /// Writes a pattern that nobody takes for data.
    pub(crate) fn poison(&self, start: u64, bytes: u64, pattern: u8) {
        let at = self.view(start);
        // SAFETY: the range is of one allocation, which lies within the engine's view.
        unsafe { at.write_bytes(pattern, size(bytes.min(POISONED))) };
    }

    /// Has the system give the pages of an allocation now, and not as each is touched first: a device has its memory,
    /// so that costs no time of a link. Where that is refused, they come later.
    pub(crate) fn populate(&self, start: u64, bytes: u64) {
        #[cfg(target_os = "linux")]
        {
            let first = start / PAGE * PAGE;
            let bytes = (start + bytes).next_multiple_of(PAGE) - first;
            // SAFETY: the pages are of our own mapping, and keep what is in them.
            unsafe {
                libc::madvise(
                    self.view(first).cast(),
                    size(bytes),
                    libc::MADV_POPULATE_WRITE,
                )
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, bytes);
    }

    /// Gives the pages of freed memory back where it is much; they read as zeros then.
    pub(crate) fn give_back(&self, start: u64, bytes: u64) {
        if bytes < GIVEN_BACK {
            return;
        }
        let end = (start + bytes) / PAGE * PAGE;
        let start = start.next_multiple_of(PAGE);
        #[cfg(target_os = "linux")]
        // SAFETY: punching a hole changes bytes of freed memory only; a refusal changes nothing.
        unsafe {
            libc::madvise(
                self.view(start).cast(),
                size(end - start),
                libc::MADV_REMOVE,
            )
        };
        #[cfg(not(target_os = "linux"))]
        let _ = (start, end);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for view in [self.callers, self.ours] {
            // SAFETY: the mapping is ours, and nobody can name it once the engine is gone.
            unsafe { libc::munmap(view.as_ptr().cast(), size(self.bytes)) };
        }
        // SAFETY: the descriptor is ours and used by nobody else.
        unsafe { libc::close(self.file) };
    }
}

/// Whether the system has memory at each of these addresses. It is asked to write back nothing of it.
pub(crate) fn is_mapped(start: u64, end: u64) -> bool {
    // SAFETY: a question for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let first = start
        - start
            % u64::try_from(page)
                .ok()
                .filter(|page| *page > 0)
                .unwrap_or(PAGE);
    let at = std::ptr::without_provenance_mut(size(first));
    // SAFETY: it reads and writes no memory, and refuses addresses where there is none.
    unsafe { libc::msync(at, size(end - first), libc::MS_ASYNC) == 0 }
}

/// `usize` and `u64` are the same on all systems that have enough address space for this.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn address(view: NonNull<u8>) -> u64 {
    u64::try_from(view.as_ptr().expose_provenance()).unwrap_or(0)
}

pub(crate) fn refused(operation: &'static str) -> Error {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Error::System { operation, code }
}

/// A file without a name, as long as all memory. Its pages come as they are touched.
fn shared_file(bytes: u64) -> Result<c_int, Error> {
    let file = nameless();
    if file < 0 {
        return Err(refused("memfd_create"));
    }
    let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
    // SAFETY: the descriptor is open and ours.
    if unsafe { libc::ftruncate(file, length) } != 0 {
        let error = refused("ftruncate");
        // SAFETY: the descriptor is ours and used by nobody else.
        unsafe { libc::close(file) };
        return Err(error);
    }
    Ok(file)
}

#[cfg(target_os = "linux")]
fn nameless() -> c_int {
    // SAFETY: the name is a constant C string.
    unsafe { libc::memfd_create(c"crossdock-sim".as_ptr(), libc::MFD_CLOEXEC) }
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> c_int {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let Ok(name) = std::ffi::CString::new(format!("/xd-sim-{}-{next}", std::process::id())) else {
        return -1;
    };
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: the name is a C string that lives through the call.
    let file = unsafe { libc::shm_open(name.as_ptr(), flags, 0o600) };
    // SAFETY: as above; the file lives on without its name.
    unsafe { libc::shm_unlink(name.as_ptr()) };
    file
}

fn map(file: c_int, bytes: u64, protection: c_int) -> Result<NonNull<u8>, Error> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses touches nothing that exists.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size(bytes),
            protection,
            flags,
            file,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(refused("mmap"));
    }
    NonNull::new(at.cast()).ok_or_else(|| refused("mmap"))
}
