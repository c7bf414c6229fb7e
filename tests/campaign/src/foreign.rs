//! Memory of others: host bytes whose owner spoils them on release, so that a late read is seen.
#![expect(
    unsafe_code,
    reason = "hands memory out and spoils it under code that still uses it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crossdock_sdk::dlpack::{DataWord, Device, Flags, Layout, Place, Produced, Received};

use crate::program::Offset;

/// Bytes before and after the tensor's own.
const MARGIN: usize = 64;
const BESIDE: u8 = 0xa5;
const SPOILT: u8 = 0xdd;

/// Memory that is never freed, so that a late access finds it spoilt and does not crash.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Where it is, of the host's.
    room: Option<Room>,
    releases: Arc<AtomicU32>,
}

#[derive(Debug, Clone, Copy)]
struct Room {
    start: usize,
    length: usize,
}

struct Owner {
    room: Room,
    releases: Arc<AtomicU32>,
    process: u32,
}

/// Whether the runtime's part in the exit of the process is over.
static IS_GONE: AtomicBool = AtomicBool::new(false);

/// The code of a process where foreign memory was released after that.
const RELEASED_LATE: i32 = 78;

/// The code of the child of a fork that released foreign memory of its parent.
const RELEASED_IN_CHILD: i32 = 79;

/// How long the process goes on for it.
const A_MOMENT: Duration = Duration::from_millis(10);

/// Watches the exit of the process. Called before the first runtime is opened, so that what the runtime does
/// at the exit has been done before this hears of it.
pub(crate) fn watch_exit() {
    extern "C" fn gone() {
        IS_GONE.store(true, Ordering::SeqCst);
        // Else the process is over before another thread comes to its next release.
        std::thread::park_timeout(A_MOMENT);
    }
    // SAFETY: a function that lives as long as the process.
    let refused = unsafe { libc::atexit(gone) };
    assert_eq!(refused, 0, "the system has no place for it");
}

/// Foreign memory of a process is released: by itself, and before it is gone.
pub(crate) fn released(process: u32) {
    let code = match std::process::id() == process {
        false => RELEASED_IN_CHILD,
        true if IS_GONE.load(Ordering::SeqCst) => RELEASED_LATE,
        true => return,
    };
    // SAFETY: the end of the process, which is ending or has no say in that memory.
    unsafe { libc::_exit(code) };
}

impl Drop for Owner {
    fn drop(&mut self) {
        released(self.process);
        let bytes = std::ptr::with_exposed_provenance_mut::<u8>(self.room.start);
        for at in MARGIN..MARGIN + self.room.length {
            // SAFETY: inside the allocation, which is never freed. Work that still runs here is what
            // this program looks for.
            let byte = unsafe { bytes.add(at) };
            // SAFETY: as above.
            unsafe { byte.write_volatile(SPOILT) };
        }
        // Last, for who looks at it asks whether the bytes are still spoilt.
        self.releases.fetch_add(1, Ordering::SeqCst);
    }
}

impl Lent {
    /// Lends these bytes as a tensor of others, which begins so far behind a place where anything is aligned.
    pub(crate) fn new(layout: &Layout, bytes: &[u8], offset: Offset) -> (Self, Produced) {
        let (before, behind) = (offset.bytes(), MARGIN + bytes.len());
        let mut room = vec![BESIDE; before + behind + MARGIN];
        room[before + MARGIN..before + behind].copy_from_slice(bytes);
        let start = Box::leak(room.into_boxed_slice())
            .as_mut_ptr()
            .expose_provenance()
            + before;
        let releases = Arc::new(AtomicU32::new(0));
        let room = Room {
            start,
            length: bytes.len(),
        };
        let owner = Owner {
            room,
            releases: Arc::clone(&releases),
            process: std::process::id(),
        };
        let place = Place {
            data: DataWord::from_addr(start + MARGIN - usize::from(offset.dlpack)),
            byte_offset: u64::from(offset.dlpack),
            device: Device::CPU,
            flags: Flags::NONE,
        };
        let lent = Self {
            room: Some(room),
            releases,
        };
        (lent, Produced::at(owner, layout, place).unwrap())
    }

    /// Memory of a device, whose owner counts its releases.
    pub(crate) const fn on_device(releases: Arc<AtomicU32>) -> Self {
        Self {
            room: None,
            releases,
        }
    }

    /// Whether it was given back once, and nothing was written beside it or after that.
    pub(crate) fn check(&self) -> Result<(), String> {
        let releases = self.releases.load(Ordering::SeqCst);
        if let Some(room) = self.room {
            room.check(releases > 0)?;
        }
        match releases {
            1 => Ok(()),
            0 => Err("left: foreign memory was never released".to_owned()),
            many => Err(format!("foreign memory was released {many} times")),
        }
    }
}

impl Room {
    /// Whether nothing was written beside it, or in it after its release.
    fn check(self, is_released: bool) -> Result<(), String> {
        let bytes = std::ptr::with_exposed_provenance::<u8>(self.start);
        for at in 0..self.length + 2 * MARGIN {
            // SAFETY: inside the allocation, which is never freed.
            let byte = unsafe { bytes.add(at) };
            // SAFETY: as above.
            let found = unsafe { byte.read_volatile() };
            let is_inside = (MARGIN..MARGIN + self.length).contains(&at);
            if !is_inside && found != BESIDE {
                return Err(format!(
                    "byte {} beside foreign memory was written",
                    at as i64 - MARGIN as i64
                ));
            }
            if is_inside && is_released && found != SPOILT {
                return Err(format!(
                    "byte {} of foreign memory was written after its release",
                    at - MARGIN
                ));
            }
        }
        Ok(())
    }
}

/// An export as its consumer has it.
pub(crate) fn receive(produced: Produced) -> Received {
    // SAFETY: a live export that nobody else owns.
    unsafe { Received::from_versioned(produced.into_raw()) }.unwrap()
}
