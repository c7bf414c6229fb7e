//! A hook's arguments as a layer sees them, and its answers, kept apart until they are judged.
#![expect(
    unsafe_code,
    reason = "reads and writes what C functions were called with"
)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use crossdock_sdk::abi::{
    Address, AdoptFlags, AllocateArgs, CopyArgs, DefaultStream, DeviceInfo, EventHandle, FillArgs,
    HostFunction, MemoryInfo, MemoryKind, MemoryUsage, PointerInfo, Status, StreamHandle,
    StridedArgs,
};

/// One argument of a hook on its way through a layer.
pub(crate) trait Argument: Copy {
    /// What the shim keeps for the length of the call.
    type Held;
    /// What the layer sees.
    type Seen<'a>;

    /// Takes the argument from the caller.
    ///
    /// # Safety
    /// - A pointer is NULL, or valid for the access that the hook's contract names.
    unsafe fn hold(self) -> Self::Held;

    /// Shows it to the layer.
    fn seen(held: &Self::Held) -> Self::Seen<'_>;

    /// Hands it on to the plugin.
    fn pass(held: &Self::Held) -> Self;

    /// Gives an answer to the caller.
    ///
    /// # Safety
    /// - The caller's pointer is still NULL or valid for a write.
    unsafe fn deliver(_held: &Self::Held) {}
}

macro_rules! values {
    ($($value:ty),*) => {$(
        impl Argument for $value {
            type Held = Self;
            type Seen<'a> = Self;

            unsafe fn hold(self) -> Self {
                self
            }

            fn seen(held: &Self) -> Self {
                *held
            }

            fn pass(held: &Self) -> Self {
                *held
            }
        }
    )*};
}
values!(u32, u64, *mut c_void, StreamHandle, EventHandle);
values!(MemoryKind, AdoptFlags, DefaultStream, Status, HostFunction);

macro_rules! inputs {
    ($($input:ty),*) => {$(
        impl Argument for *const $input {
            type Held = Option<$input>;
            type Seen<'a> = Option<$input>;

            unsafe fn hold(self) -> Option<$input> {
                // SAFETY: NULL or readable, by the caller's promise.
                unsafe { self.as_ref() }.copied()
            }

            fn seen(held: &Option<$input>) -> Option<$input> {
                *held
            }

            fn pass(held: &Option<$input>) -> Self {
                held.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
            }
        }
    )*};
}
inputs!(Address, AllocateArgs, CopyArgs, StridedArgs, FillArgs);

/// Plain words without padding.
///
/// # Safety
/// - Every bit pattern is a value, and the type has no padding.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! answers {
    ($($answer:ty),*) => {$(
        // SAFETY: integers, arrays of them and raw pointers, laid out without a gap.
        unsafe impl Plain for $answer {}

        impl Argument for *mut $answer {
            type Held = Out<$answer>;
            type Seen<'a> = &'a Out<$answer>;

            unsafe fn hold(self) -> Out<$answer> {
                Out::new(self)
            }

            fn seen(held: &Out<$answer>) -> &Out<$answer> {
                held
            }

            fn pass(held: &Out<$answer>) -> Self {
                if held.is_missing() {
                    std::ptr::null_mut()
                } else {
                    held.slot.get().cast()
                }
            }

            unsafe fn deliver(held: &Out<$answer>) {
                if !held.is_missing() {
                    // SAFETY: not NULL, so valid for a write by the caller's promise.
                    unsafe { held.caller.write(held.answer()) };
                }
            }
        }
    )*};
}
answers!(
    u32,
    u64,
    *mut c_void,
    StreamHandle,
    EventHandle,
    Address,
    DeviceInfo,
    MemoryInfo
);
answers!(PointerInfo, MemoryUsage);

/// An out parameter: the plugin writes into a slot, which reaches the caller on success only.
pub(crate) struct Out<T> {
    caller: *mut T,
    slot: UnsafeCell<MaybeUninit<T>>,
}

/// What a slot is full of until the plugin writes it.
const UNWRITTEN: u8 = 0xa5;

impl<T: Plain> Out<T> {
    fn new(caller: *mut T) -> Self {
        let mut slot = MaybeUninit::<T>::uninit();
        // SAFETY: the slot is ours and has the size of one `T`.
        unsafe { slot.as_mut_ptr().write_bytes(UNWRITTEN, 1) };
        Self {
            caller,
            slot: UnsafeCell::new(slot),
        }
    }

    /// Whether the caller passed NULL.
    pub(crate) const fn is_missing(&self) -> bool {
        self.caller.is_null()
    }

    /// Whether the plugin left the slot as it was.
    pub(crate) fn is_unwritten(&self) -> bool {
        // SAFETY: the slot was filled when it was made, has no padding, and no call is running.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.slot.get().cast::<u8>(), size_of::<T>()) };
        !self.is_missing() && bytes.iter().all(|byte| *byte == UNWRITTEN)
    }

    /// What the plugin wrote; meaningless after a failure.
    pub(crate) fn answer(&self) -> T {
        // SAFETY: every byte was written when the slot was made, every pattern is a value, and no
        // call is running.
        unsafe { self.slot.get().cast::<T>().read() }
    }
}
