//! Memory is given back in the way in which it came, and in no other: what is refused calls no driver.

use std::ffi::c_void;

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{Address, CopyArgs, MemoryKind, Status, StreamHandle};
use crossdock_sdk::plugin::{
    AsyncMemory as _, Error, HostEvents as _, Plugin as _, Register as _, Streams as _, Wrap as _,
};

use crate::driver::Driver;
use crate::hooks::{BYTES, LIMIT_NS, allocate, device, free, open};
use crate::{POLICIES, over};

/// How memory came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Kind(MemoryKind),
    OnStream,
    Registered,
    /// By somebody else in the process, who has the driver too.
    OthersDevice,
    OthersPinned,
    OthersManaged,
    /// The host's own.
    Nobodys,
}

/// How it is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freed {
    As(MemoryKind),
    OnStream,
    Unregistered,
}

const MADE: [Made; 9] = [
    Made::Kind(MemoryKind::DEVICE),
    Made::Kind(MemoryKind::PINNED),
    Made::Kind(MemoryKind::MANAGED),
    Made::OnStream,
    Made::Registered,
    Made::OthersDevice,
    Made::OthersPinned,
    Made::OthersManaged,
    Made::Nobodys,
];

const FREED: [Freed; 6] = [
    Freed::As(MemoryKind::DEVICE),
    Freed::As(MemoryKind::PINNED),
    Freed::As(MemoryKind::MANAGED),
    Freed::As(MemoryKind::HOST),
    Freed::OnStream,
    Freed::Unregistered,
];

/// Whether memory that was made so may be given back so. A stream frees device memory, whoever allocated it there.
fn is_right(made: Made, freed: Freed) -> bool {
    let device = MemoryKind::DEVICE;
    match (made, freed) {
        (Made::Kind(kind), Freed::As(other)) => kind == other,
        (Made::Kind(kind), Freed::OnStream) => kind == device,
        (Made::OnStream, freed) => [Freed::As(device), Freed::OnStream].contains(&freed),
        (Made::Registered, freed) => freed == Freed::Unregistered,
        _ => false,
    }
}

struct Rig {
    cuda: Cuda,
    driver: Driver,
    stream: StreamHandle,
    host: Vec<u8>,
}

impl Rig {
    fn pointer(&self, address: Address) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(usize::try_from(address.word).unwrap())
    }

    fn make(&self, made: Made) -> Address {
        let own = Address::pointer(self.host.as_ptr().expose_provenance() as u64);
        match made {
            Made::Kind(kind) => allocate(&self.cuda, kind, 0).unwrap(),
            Made::OnStream => {
                let made = self.cuda.allocate_async(self.stream, BYTES as u64);
                // Who frees it without the stream waits for that first.
                self.cuda.stream_synchronize(self.stream, LIMIT_NS).unwrap();
                made.unwrap()
            }
            Made::Registered => {
                let bytes = self.host.len() as u64;
                // SAFETY: the bytes outlive the registration.
                unsafe { self.cuda.register_host(0, self.pointer(own), bytes) }.unwrap();
                own
            }
            Made::OthersDevice => Address::pointer(self.driver.allocate(BYTES)),
            Made::OthersPinned => Address::pointer(self.driver.allocate_pinned(BYTES)),
            Made::OthersManaged => Address::pointer(self.driver.allocate_managed(BYTES)),
            Made::Nobodys => own,
        }
    }

    fn free(&self, address: Address, freed: Freed) -> Result<(), Error> {
        match freed {
            Freed::As(kind) => free(&self.cuda, address, kind),
            // SAFETY: no work uses it.
            Freed::OnStream => unsafe { self.cuda.free_async(self.stream, address) },
            Freed::Unregistered => self.cuda.unregister_host(0, self.pointer(address)),
        }
    }

    /// Gives memory back in the right way.
    fn end(&self, made: Made, address: Address) {
        match made {
            Made::Kind(kind) => self.free(address, Freed::As(kind)).unwrap(),
            Made::OnStream => self.free(address, Freed::OnStream).unwrap(),
            Made::Registered => self.free(address, Freed::Unregistered).unwrap(),
            Made::OthersDevice | Made::OthersManaged => self.driver.free(address.word),
            Made::OthersPinned => self.driver.free_pinned(address.word),
            Made::Nobodys => {}
        }
    }
}

#[test]
fn memory_is_given_back_as_it_was_made_and_nothing_else_reaches_the_driver() {
    let name = "frees::memory_is_given_back_as_it_was_made_and_nothing_else_reaches_the_driver";
    if !over(name, &POLICIES) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let stream = cuda.stream_create(0).unwrap();
    let context = driver.create_context(0);
    let host = vec![0; BYTES];
    let rig = Rig {
        cuda,
        driver,
        stream,
        host,
    };
    for made in MADE {
        for freed in FREED {
            let address = rig.make(made);
            rig.driver.take_calls();
            let answer = rig.free(address, freed);
            if is_right(made, freed) {
                answer.unwrap();
            } else {
                let error = answer.unwrap_err();
                assert_eq!(
                    error.status(),
                    Status::NOT_OWNER,
                    "{made:?} {freed:?}: {error}"
                );
                let calls = rig.driver.take_calls();
                // Whether its stream is one is asked first; nothing is freed.
                assert!(
                    calls.keys().all(|call| is_harmless(call)),
                    "{made:?} {freed:?}: {calls:?}"
                );
                rig.end(made, address);
            }
        }
    }
    rig.cuda.stream_synchronize(stream, LIMIT_NS).unwrap();
    rig.cuda.stream_destroy(stream).unwrap();
    rig.driver.destroy_context(context);
    let Rig { cuda, driver, .. } = rig;
    drop(cuda);
    assert_eq!((driver.leaks(), driver.reports()), (0, 0));
}

/// Whether a function of the driver changes nothing but what the calling thread has current.
fn is_harmless(function: &str) -> bool {
    const HARMLESS: [&str; 5] = [
        "cuCtxPopCurrent_v2",
        "cuCtxPushCurrent_v2",
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
        "cuPointerGetAttributes",
    ];
    HARMLESS.contains(&function)
}

#[test]
fn memory_that_a_stream_could_not_free_outlives_its_work_when_the_stream_is_destroyed() {
    if !over(
        "frees::memory_that_a_stream_could_not_free_outlives_its_work_when_the_stream_is_destroyed",
        &POLICIES,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let stream = cuda.stream_create(0).unwrap();
    let memory = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let from = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let copy = CopyArgs {
        dst: device(memory.word, 0),
        src: device(from.word, 0),
        bytes: BYTES as u64,
    };
    // SAFETY: both are freed behind it.
    unsafe { cuda.copy(copy, stream) }.unwrap();
    driver.arm("cuMemFreeAsync@1=999");
    // SAFETY: nobody uses it behind this.
    let refused = unsafe { cuda.free_async(stream, memory) };
    assert_eq!(driver.disarm(), 1);
    assert_eq!(refused.unwrap_err().status(), Status::VENDOR);
    // SAFETY: as before.
    unsafe { cuda.free_async(stream, from) }.unwrap();
    cuda.stream_destroy(stream).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}

#[test]
fn what_a_destroyed_stream_of_another_device_waits_for_is_not_freed_before_it_saw_it() {
    let over = over(
        "frees::what_a_destroyed_stream_of_another_device_waits_for_is_not_freed_before_it_saw_it",
        &POLICIES,
    );
    if !over {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let event = cuda.event_create_host(0).unwrap();
    let own = cuda.stream_create(1).unwrap();
    let context = driver.create_context(1);
    let native = driver.create_stream();
    driver.pop();
    // SAFETY: it is destroyed after the close.
    let theirs = unsafe { cuda.stream_wrap(1, native) }.unwrap();
    for waiting in [own, theirs] {
        cuda.stream_wait_event(waiting, event).unwrap();
        cuda.stream_destroy(waiting).unwrap();
    }
    drop(cuda);
    driver.destroy_stream(native);
    driver.destroy_context(context);
    assert_eq!(driver.leaks(), 0);
}
