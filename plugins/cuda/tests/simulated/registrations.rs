//! Registrations of host memory, which end behind the calls that use it.

use std::ffi::c_void;

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{Address, MemoryKind, Status, StreamHandle};
use crossdock_sdk::plugin::{Error, Register as _, Streams as _};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open, upload};
use crate::{POLICIES, over};

/// Host memory that lives longer than its registration.
struct Registered<'a> {
    cuda: &'a Cuda,
    bytes: &'a mut [u8],
}

impl<'a> Registered<'a> {
    fn new(cuda: &'a Cuda, bytes: &'a mut [u8]) -> Self {
        let new = Self { cuda, bytes };
        new.register();
        new
    }

    fn pointer(&self) -> *mut c_void {
        self.bytes.as_ptr().cast_mut().cast()
    }

    fn register(&self) {
        let bytes = self.bytes.len() as u64;
        // SAFETY: the bytes outlive the registration.
        unsafe { self.cuda.register_host(0, self.pointer(), bytes) }.unwrap();
    }

    fn end(&self) -> Result<(), Error> {
        self.cuda.unregister_host(0, self.pointer())
    }

    fn end_when_ready(&self) {
        while let Err(error) = self.end() {
            assert_eq!(error.status(), Status::NOT_READY, "{error}");
            std::thread::yield_now();
        }
    }

    fn upload(&self, to: Address, stream: StreamHandle) -> Result<(), Error> {
        upload(self.cuda, device(to.word, 0), self.bytes, stream)
    }
}

/// Ends the registration while a copy runs that `hold` keeps the driver from completing, and which is inside of the
/// function `waits`.
fn end_during_copy(
    (registered, driver): (&Registered<'_>, &Driver),
    (to, stream): (Address, StreamHandle),
    waits: &str,
    release: impl FnOnce(),
) {
    driver.take_calls();
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| registered.upload(to, stream));
        while !driver.take_calls().contains_key(waits) && !copy.is_finished() {
            std::thread::yield_now();
        }
        let early = registered.end();
        release();
        copy.join().unwrap().unwrap();
        assert_eq!(early.unwrap_err().status(), Status::NOT_READY);
    });
    registered.end_when_ready();
}

#[test]
fn memory_stays_registered_while_a_copy_without_a_stream_uses_it() {
    let name = "registrations::memory_stays_registered_while_a_copy_without_a_stream_uses_it";
    let runs = ["lazy", "seeded", "threads"].map(|policy| ["--policy", policy, "--queues", "1"]);
    if !over(name, &runs.each_ref().map(<[&str; 4]>::as_slice)) {
        return;
    }
    let (cuda, driver, mut bytes) = (open(), Driver::open(), [7; BYTES]);
    let registered = Registered::new(&cuda, &mut bytes);
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    driver.enter_primary_context(0);
    let (native, flag) = (driver.create_stream(), driver.allocate_pinned(4));
    Driver::write_pinned(flag, 0);
    // The copy shares the only hardware queue with this wait.
    driver.wait_value(native, flag);
    let target = (memory, StreamHandle::NONE);
    let release = || Driver::write_pinned(flag, 1);
    end_during_copy(
        (&registered, &driver),
        target,
        "cuStreamSynchronize",
        release,
    );
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    driver.destroy_stream(native);
    driver.free_pinned(flag);
    driver.leave_primary_context(0);
    assert_eq!(driver.reports(), 0);
}

#[test]
fn memory_stays_registered_while_a_copy_on_a_stream_is_being_submitted() {
    let name = "registrations::memory_stays_registered_while_a_copy_on_a_stream_is_being_submitted";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver, mut bytes) = (open(), Driver::open(), [7; BYTES]);
    let registered = Registered::new(&cuda, &mut bytes);
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let stream = cuda.stream_create(0).unwrap();
    let native = cuda.stream_native(stream).unwrap();
    driver.enter_primary_context(0);
    let flag = driver.allocate_pinned(4);
    Driver::write_pinned(flag, 0);
    driver.wait_value(native, flag);
    // The end of the copy cannot be marked, so the call waits for it.
    driver.arm("cuEventRecord@1+=999");
    let release = || Driver::write_pinned(flag, 1);
    end_during_copy(
        (&registered, &driver),
        (memory, stream),
        "cuStreamSynchronize",
        release,
    );
    assert!(driver.disarm() > 0);
    cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    cuda.stream_destroy(stream).unwrap();
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    driver.free_pinned(flag);
    driver.leave_primary_context(0);
    assert_eq!(driver.reports(), 0);
}

#[test]
fn copies_go_on_while_their_memory_is_registered_and_unregistered() {
    let name = "registrations::copies_go_on_while_their_memory_is_registered_and_unregistered";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver, mut bytes) = (open(), Driver::open(), [7; BYTES]);
    let registered = Registered::new(&cuda, &mut bytes);
    std::thread::scope(|scope| {
        let copies = scope.spawn(|| {
            let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
            let stream = cuda.stream_create(0).unwrap();
            for _ in 0..200 {
                registered.upload(memory, stream).unwrap();
                cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
            }
            cuda.stream_destroy(stream).unwrap();
            free(&cuda, memory, MemoryKind::DEVICE).unwrap();
        });
        while !copies.is_finished() {
            registered.end_when_ready();
            registered.register();
        }
        copies.join().unwrap();
    });
    registered.end_when_ready();
    assert_eq!(driver.reports(), 0);
}
