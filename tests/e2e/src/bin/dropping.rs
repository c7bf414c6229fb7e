//! A program that ends while copies of lent memory run, or while lent memory is given back:
//! `dropping SCENARIO`. It ends with code 0; a copy out of memory that is gone ends it by a signal.
#![expect(unsafe_code, reason = "maps memory of its own")]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossdock::{Error, Event, Runtime, Stream, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{AxisSlice, Device, Dtype, Layout};

const BYTES: usize = 48 << 20;
/// What each of two streams copies; the later copy is over first.
const COPIED: [usize; 2] = [BYTES, 6 << 20];
/// Where the last byte of each copy arrives.
static LAST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static IS_BACK: AtomicBool = AtomicBool::new(false);
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Crossdock learnt of the exit, and waited for the releases that had begun.
static HAS_EXITED: AtomicBool = AtomicBool::new(false);
/// Whether a release never ends.
static IS_STUCK: AtomicBool = AtomicBool::new(false);
/// When the exit began that nothing is to hold up.
static SWIFT_EXIT: OnceLock<Instant> = OnceLock::new();

/// Pages that are unmapped when they are given back.
struct Pages(NonNull<u8>);

// SAFETY: the pages belong to this value and are only read.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn new() -> Option<Self> {
        let (read_write, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new pages at a place of the system's choice.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, read_write, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return None;
        }
        let pages = NonNull::new(pages.cast::<u8>())?;
        // SAFETY: mapped with this length, for writing.
        unsafe { pages.write_bytes(1, BYTES) };
        Some(Self(pages))
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped with this length until the value is dropped, and never written.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), BYTES) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Not `exiting`: a release that had begun before the exit is waited for, and may see that.
        if HAS_EXITED.load(Ordering::SeqCst) {
            end("lent memory was given back after the exit had begun");
        }
        HAS_BEGUN.store(true, Ordering::SeqCst);
        while IS_STUCK.load(Ordering::SeqCst) {
            std::thread::park();
        }
        // SAFETY: mapped with this length, and nobody uses it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
        IS_BACK.store(true, Ordering::SeqCst);
    }
}

/// Runs after Crossdock learnt of the exit.
extern "C" fn at_exit() {
    HAS_EXITED.store(true, Ordering::SeqCst);
    for last in LAST.iter().filter_map(last_byte) {
        while last.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    }
    let is_stuck = IS_STUCK.load(Ordering::SeqCst);
    if HAS_BEGUN.load(Ordering::SeqCst) && !IS_BACK.load(Ordering::SeqCst) && !is_stuck {
        end("the exit overtook a release");
    }
    // As long as it would have waited for a release.
    if SWIFT_EXIT
        .get()
        .is_some_and(|begun| begun.elapsed() >= Duration::from_secs(2))
    {
        end("the exit waited for nothing");
    }
}

fn last_byte(address: &AtomicU64) -> Option<&'static AtomicU8> {
    let address = usize::try_from(address.load(Ordering::SeqCst)).ok()?;
    let byte = NonNull::new(std::ptr::with_exposed_provenance_mut::<AtomicU8>(address))?;
    // SAFETY: a byte of a tensor that is never dropped; a copy may write it at any time.
    Some(unsafe { byte.as_ref() })
}

fn main() {
    // A hang is an end by SIGALRM.
    // SAFETY: it only starts a timer.
    unsafe { libc::alarm(20) };
    let scenario = std::env::args().nth(1).unwrap_or_default();
    // Registered before the runtime, so it runs after it.
    // SAFETY: a function of this program that takes nothing.
    if unsafe { libc::atexit(at_exit) } != 0 {
        end("atexit");
    }
    let dropped = match scenario.as_str() {
        "copies" => drop_behind(2).map(drop),
        "release" => drop_behind(1).map(|_| wait_for_begin()),
        "released" => drop_behind(1).and_then(|runtime| {
            runtime.wait_for_releases(None)?;
            SWIFT_EXIT.get_or_init(Instant::now);
            Ok(())
        }),
        "stuck" | "stuck-fork" => {
            IS_STUCK.store(true, Ordering::SeqCst);
            drop_behind(1).map(|_| wait_for_begin())
        }
        _ => end("unknown scenario"),
    };
    if let Err(error) = dropped {
        end(&format!("{error}: {}", error.why()));
    }
    if scenario == "stuck-fork" {
        fork_and_exit();
    }
}

fn wait_for_begin() {
    while !HAS_BEGUN.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// Lets a child, which does not have the thread of the release, exit; and this process end at once.
fn fork_and_exit() -> ! {
    // SAFETY: the child only ends, by the way of every process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        SWIFT_EXIT.get_or_init(Instant::now);
        // SAFETY: it ends the process, after what was registered for that.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if ended != child || status != 0 {
        end(&format!("the child ended with status {status:#x}"));
    }
    // SAFETY: it ends the process.
    unsafe { libc::_exit(0) }
}

/// Drops lent memory, which so many streams are copying.
fn drop_behind(streams: usize) -> Result<Runtime, Error> {
    let Some(pages) = Pages::new() else {
        end("mmap");
    };
    let runtime = Runtime::builder().search(false).open()?;
    let cpu = runtime.device(Device::CPU)?;
    let layout = |bytes: usize| Layout::compact(Dtype::UINT8, &[i64::try_from(bytes).unwrap_or(0)]);
    let lent = Tensor::from_host_memory(&runtime, Box::new(pages), 0, &layout(BYTES)?)?;
    let host_event = Event::host(&cpu)?;
    // A release that is to be stuck is to be none of this thread.
    let is_held = IS_STUCK.load(Ordering::SeqCst);
    let copy = |(bytes, last): (usize, &AtomicU64)| {
        let part = AxisSlice {
            start: 0,
            step: 1,
            len: i64::try_from(bytes).unwrap_or(0),
        };
        let copy = Tensor::from_bytes(&cpu, &layout(bytes)?, &vec![0; bytes])?;
        let begin = copy.address().as_pointer().unwrap_or(0);
        last.store(begin + bytes as u64 - 1, Ordering::SeqCst);
        let stream = Stream::new(&cpu)?;
        if is_held {
            stream.wait(&host_event)?;
        }
        copy.copy_from(&lent.slice(&[part])?, Some(&stream))?;
        Ok(copy)
    };
    let work = COPIED.into_iter().zip(&LAST).rev().take(streams);
    let copies: Result<Vec<_>, Error> = work.rev().map(copy).collect();
    drop(lent);
    if is_held {
        host_event.complete(Status::OK)?;
    }
    Box::leak(Box::new((copies?, runtime.clone())));
    Ok(runtime)
}

fn end(text: &str) -> ! {
    // SAFETY: the bytes are readable for the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    // SAFETY: it ends the process.
    unsafe { libc::_exit(3) }
}
