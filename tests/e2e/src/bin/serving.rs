//! A service that uses a stream, and then waits for SIGTERM in its only thread.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a test program, which waits for a signal"
)]

use std::mem::MaybeUninit;
use std::ptr;

use crossdock::{CostCache, Runtime, Stream};
use crossdock_e2e::lending::{LIMIT, filled};

fn main() {
    let builder = Runtime::builder().search(false).costs(CostCache::Off);
    let runtime = builder.open().unwrap();
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    let (source, target) = (filled(&cpu, 1), filled(&cpu, 0));
    let stream = Stream::new(&cpu).unwrap();
    target.copy_from(&source, Some(&stream)).unwrap();
    stream.synchronize(LIMIT).unwrap();
    assert_eq!(wait_for(libc::SIGTERM), libc::SIGTERM);
}

/// Blocks a signal as services do, sends it to this process, and waits for it.
fn wait_for(signal: i32) -> i32 {
    let (mut set, mut came) = (MaybeUninit::<libc::sigset_t>::zeroed(), 0);
    // SAFETY: there is room for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: a set that was made, and a valid signal.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // SAFETY: a set that was made; the old one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) };
    // SAFETY: asks for nothing.
    let process = unsafe { libc::getpid() };
    // SAFETY: this process, and a valid signal.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    // SAFETY: a set that was made, and room for the answer.
    assert_eq!(unsafe { libc::sigwait(set.as_ptr(), &raw mut came) }, 0);
    came
}
