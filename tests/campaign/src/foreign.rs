//! Memory of others: host bytes whose owner spoils them on release, so that a late read is seen.
#![expect(
    unsafe_code,
    reason = "hands memory out and spoils it under code that still uses it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crossdock_sdk::dlpack::{DataWord, Device, Flags, Layout, Place, Produced, Received};

/// Bytes before and behind the tensor's own.
const MARGIN: usize = 64;
const BESIDE: u8 = 0xa5;
const SPOILT: u8 = 0xdd;

/// Memory that is never freed, so that a late access finds it spoilt and does not crash.
#[derive(Debug)]
pub(crate) struct Lent {
    start: usize,
    length: usize,
    releases: Arc<AtomicU32>,
}

struct Owner {
    start: usize,
    length: usize,
    releases: Arc<AtomicU32>,
}

/// Whether the runtime's part in the exit of the process is over.
static IS_GONE: AtomicBool = AtomicBool::new(false);

/// The code of a process where foreign memory was released after that.
const RELEASED_LATE: i32 = 78;

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

impl Drop for Owner {
    fn drop(&mut self) {
        if IS_GONE.load(Ordering::SeqCst) {
            // SAFETY: the end of the process, which is ending.
            unsafe { libc::_exit(RELEASED_LATE) };
        }
        let bytes = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        for at in MARGIN..MARGIN + self.length {
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
    /// Lends these bytes as a tensor of others.
    pub(crate) fn new(layout: &Layout, bytes: &[u8]) -> (Self, Produced) {
        let mut room = vec![BESIDE; MARGIN * 2 + bytes.len()];
        room[MARGIN..MARGIN + bytes.len()].copy_from_slice(bytes);
        let start = Box::leak(room.into_boxed_slice())
            .as_mut_ptr()
            .expose_provenance();
        let releases = Arc::new(AtomicU32::new(0));
        let owner = Owner {
            start,
            length: bytes.len(),
            releases: Arc::clone(&releases),
        };
        let place = Place {
            data: DataWord::from_addr(start + MARGIN),
            byte_offset: 0,
            device: Device::CPU,
            flags: Flags::NONE,
        };
        let lent = Self {
            start,
            length: bytes.len(),
            releases,
        };
        (lent, Produced::at(owner, layout, place).unwrap())
    }

    /// Whether it was given back once, and nothing was written beside it or after that.
    pub(crate) fn check(&self) -> Result<(), String> {
        let releases = self.releases.load(Ordering::SeqCst);
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
            if is_inside && releases > 0 && found != SPOILT {
                return Err(format!(
                    "byte {} of foreign memory was written after its release",
                    at - MARGIN
                ));
            }
        }
        match releases {
            1 => Ok(()),
            0 => Err("left: foreign memory was never released".to_owned()),
            many => Err(format!("foreign memory was released {many} times")),
        }
    }
}

/// An export as its consumer has it.
pub(crate) fn receive(produced: Produced) -> Received {
    // SAFETY: a live export that nobody else owns.
    unsafe { Received::from_versioned(produced.into_raw()) }.unwrap()
}
