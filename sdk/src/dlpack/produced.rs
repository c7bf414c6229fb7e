//! Managed tensors made here: one block holds the C struct, the owner, the shape and the strides.
#![expect(
    unsafe_code,
    reason = "the C struct, the owner and a tail of numbers share one block"
)]

use std::alloc::Layout as MemoryLayout;
use std::any::TypeId;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::ptr::NonNull;

use super::blocks::{Class, WIDEST};
use super::error::DlpackError;
use super::flags::Flags;
use super::layout::{DLManagedTensor, DLManagedTensorVersioned, DLTensor, VERSION};
use super::strided::Layout;
use super::tensor_view::{Place, TensorView};
use crate::fence::fence;

/// The two C structs that own a tensor. Sealed: DLPack defines them.
pub trait Managed: sealed::Sealed + Sized + 'static {}

impl Managed for DLManagedTensorVersioned {}
impl Managed for DLManagedTensor {}

/// A tensor exported by this library and not handed out yet: dropping it releases it, [`Produced::into_raw`] hands it out.
///
/// ```
/// use crossdock_sdk::dlpack::{DataWord, Device, DLManagedTensorVersioned, Dtype, Flags, Layout, Produced, TensorView};
///
/// let owner = vec![1.0_f32, 2.0, 3.0];
/// let data = DataWord::from_ptr(owner.as_ptr().cast_mut().cast());
/// let layout = Layout::compact(Dtype::FLOAT32, &[3])?;
/// let view = TensorView::new(layout, data, 0, Device::CPU, Flags::READ_ONLY)?;
/// let produced = Produced::<DLManagedTensorVersioned>::new(owner, &view)?;
/// drop(produced); // and with it the vector
/// # Ok::<(), crossdock_sdk::dlpack::DlpackError>(())
/// ```
pub struct Produced<M: Managed = DLManagedTensorVersioned> {
    pointer: NonNull<M>,
}

// SAFETY: the owner is `Send` (required by `new`), the view is plain values, and DLPack's deleter may run on any thread.
unsafe impl<M: Managed> Send for Produced<M> {}

impl<M: Managed> Produced<M> {
    /// Exports a tensor that stays alive as long as `owner` does. Without elements `data` is NULL, as DLPack wants it.
    ///
    /// # Errors
    /// [`DlpackError::LegacyCannotSay`] for a read-only or padded tensor in a legacy struct,
    /// [`DlpackError::OutOfMemory`]. The owner is dropped.
    #[inline]
    pub fn new<O: Send + 'static>(owner: O, view: &TensorView) -> Result<Self, DlpackError> {
        Self::filled(owner, view.layout(), view.place())
    }

    /// As [`Produced::new`], for a layout that is at hand and a place that is checked here.
    ///
    /// # Errors
    /// As [`TensorView::new`] and [`Produced::new`]. The owner is dropped.
    #[inline]
    pub fn at<O: Send + 'static>(
        owner: O,
        layout: &Layout,
        place: Place,
    ) -> Result<Self, DlpackError> {
        Self::filled(owner, layout, place.checked(layout)?)
    }

    /// Makes the block; `place` was checked against `layout`.
    #[inline]
    fn filled<O: Send + 'static>(
        owner: O,
        layout: &Layout,
        place: Place,
    ) -> Result<Self, DlpackError> {
        M::check(layout, place.flags)?;
        let rank = layout.rank();
        const {
            assert!(
                align_of::<Block<M, O>>() <= WIDEST,
                "no block is so aligned"
            )
        };
        let (memory, tail) = memory_of::<M, O>(rank)?;
        let class = Class::for_memory(memory);
        let taken = class.and_then(|class| Some((class, class.take()?)));
        let (class, start) = taken.ok_or(DlpackError::OutOfMemory {
            bytes: memory.size(),
        })?;
        let (block, start) = (start.cast::<Block<M, O>>(), start.as_ptr().cast::<u8>());
        let mut shape = std::ptr::null_mut();
        let mut strides = std::ptr::null_mut();
        if rank > 0 {
            // SAFETY: the tail begins inside the allocation.
            shape = cast_aligned::<i64>(unsafe { start.add(tail) });
            // SAFETY: the tail has room for twice `rank` numbers.
            strides = unsafe { shape.add(rank) };
            // SAFETY: as above, and nobody else knows them yet.
            write_axes(layout, unsafe {
                std::slice::from_raw_parts_mut(shape.cast(), 2 * rank)
            });
        }
        let tensor = tensor_of(layout, place, (shape, strides));
        let managed = M::filled(tensor, start.cast(), place.flags);
        let head = Head {
            managed,
            class,
            owner_type: &OwnerOf::<M, O>::TYPE,
        };
        // SAFETY: `block` is a fresh allocation for exactly this type.
        unsafe { block.write(Block { head, owner }) };
        Ok(Self {
            pointer: block.cast(),
        })
    }

    /// Hands the tensor out: the consumer calls its deleter once.
    #[must_use = "nobody else releases the tensor"]
    pub fn into_raw(self) -> NonNull<M> {
        ManuallyDrop::new(self).pointer
    }

    /// The struct, still owned by this value.
    #[must_use]
    pub const fn as_ptr(&self) -> *const M {
        self.pointer.as_ptr()
    }
}

impl<M: Managed> Drop for Produced<M> {
    fn drop(&mut self) {
        // SAFETY: a `Produced` owns one live block of this library, and gives it up here.
        unsafe { release_behind_fence(self.pointer.as_ptr()) };
    }
}

impl<M: Managed> fmt::Debug for Produced<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Produced").field(&self.pointer).finish()
    }
}

/// Exports a tensor as the struct of DLPack 1.x, ready to hand out. [`Produced::new`] keeps it until it is handed out.
///
/// # Errors
/// As [`Produced::new`].
#[inline]
pub fn export<O: Send + 'static>(
    owner: O,
    view: &TensorView,
) -> Result<NonNull<DLManagedTensorVersioned>, DlpackError> {
    Produced::new(owner, view).map(Produced::into_raw)
}

/// Exports a tensor as the struct of DLPack 0.x, ready to hand out.
///
/// # Errors
/// As [`Produced::new`].
pub fn export_legacy<O: Send + 'static>(
    owner: O,
    view: &TensorView,
) -> Result<NonNull<DLManagedTensor>, DlpackError> {
    Produced::new(owner, view).map(Produced::into_raw)
}

/// Whether a managed tensor was made by this library's code: it has our deleter and points to itself.
///
/// # Safety
/// `managed` is a live managed tensor; a versioned one has the major version 1.
#[must_use]
#[inline]
pub unsafe fn is_own_export<M: Managed>(managed: NonNull<M>) -> bool {
    // SAFETY: the caller promises a live struct of this layout.
    let (context, is_ours) = unsafe { M::identity(managed.as_ptr()) };
    is_ours && context == managed.as_ptr().cast()
}

/// The owner of an export of this library, if it is an `O`; such a tensor needs no pointer query.
///
/// # Safety
/// As [`is_own_export`], and the tensor is not released during `'a`.
#[must_use]
#[inline]
pub unsafe fn owner_of<'a, M: Managed, O: Send + Sync + 'static>(
    managed: NonNull<M>,
) -> Option<&'a O> {
    // SAFETY: the caller's promise, passed on.
    let block = unsafe { block_of::<M, O>(managed) }?;
    // SAFETY: it lives during `'a`, in which nobody changes the owner.
    Some(unsafe { &(*block.as_ptr()).owner })
}

/// Ends an export of this library whose owner is an `O` and gives the owner back; its deleter is not called. `None`
/// changed nothing. What a consumer wrote into the struct is not looked at.
///
/// # Safety
/// - As [`is_own_export`].
/// - The caller owns the tensor, and gives it up where the result is an owner.
#[must_use]
#[inline]
pub unsafe fn take_owner<M: Managed, O: Send + 'static>(managed: NonNull<M>) -> Option<O> {
    // SAFETY: the caller's promise, passed on.
    let block = unsafe { block_of::<M, O>(managed) }?.as_ptr();
    // SAFETY: alive, and written as this type.
    let class = unsafe { (*block).head.class };
    // SAFETY: the owner lies inside the block.
    let owner = unsafe { &raw const (*block).owner };
    // SAFETY: alive; the block is freed below, so that nobody drops the owner a second time.
    let owner = unsafe { owner.read() };
    // SAFETY: alive, and given up by the caller.
    unsafe { M::end(block.cast()) };
    // SAFETY: taken from this class.
    unsafe { class.give(block.cast()) };
    Some(owner)
}

/// The block of an export of this library whose owner is an `O`.
///
/// # Safety
/// As [`is_own_export`].
#[inline]
unsafe fn block_of<M: Managed, O: Send + 'static>(
    managed: NonNull<M>,
) -> Option<NonNull<Block<M, O>>> {
    // SAFETY: the caller's promise, passed on.
    if !unsafe { is_own_export(managed) } {
        return None;
    }
    // SAFETY: our own exports all begin with a `Head`, and this one is alive.
    let owner_type = unsafe { (*managed.as_ptr().cast::<Head<M>>()).owner_type };
    // A constant may be there twice: then the type tells.
    let is_same =
        std::ptr::eq(owner_type, &OwnerOf::<M, O>::TYPE) || (owner_type.id)() == TypeId::of::<O>();
    is_same.then(|| managed.cast())
}

/// What every export begins with, whatever its owner is.
#[repr(C)]
struct Head<M> {
    managed: M,
    class: Class,
    owner_type: &'static OwnerType,
}

/// An export: the numbers of shape and strides follow.
#[repr(C)]
struct Block<M, O> {
    head: Head<M>,
    owner: O,
}

/// What is known about an owner whose type is forgotten.
struct OwnerType {
    id: fn() -> TypeId,
    /// Bytes from the block's start to the owner.
    at: usize,
    drop: unsafe fn(*mut u8),
}

struct OwnerOf<M, O>(PhantomData<(M, O)>);

impl<M: Managed, O: Send + 'static> OwnerOf<M, O> {
    const TYPE: OwnerType = OwnerType {
        id: TypeId::of::<O>,
        at: offset_of!(Block<M, O>, owner),
        drop: drop_owner::<O>,
    };
}

/// Drops an owner in place.
///
/// # Safety
/// `owner` points to a live, aligned `O` that nobody uses again.
unsafe fn drop_owner<O>(owner: *mut u8) {
    // SAFETY: the caller's promise; the block was aligned for its owner.
    unsafe { cast_aligned::<O>(owner).drop_in_place() };
}

/// The memory of a block with its tail, and where the tail begins.
#[inline]
fn memory_of<M, O>(rank: usize) -> Result<(MemoryLayout, usize), DlpackError> {
    let refused = |_| DlpackError::OutOfMemory { bytes: usize::MAX };
    let tail = MemoryLayout::array::<[i64; 2]>(rank).map_err(refused)?;
    let (memory, at) = MemoryLayout::new::<Block<M, O>>()
        .extend(tail)
        .map_err(refused)?;
    Ok((memory.pad_to_align(), at))
}

/// Writes the extents and then the strides. A loop, because a call that copies so few bytes would cost
/// more.
#[inline(always)]
fn write_axes(layout: &Layout, numbers: &mut [MaybeUninit<i64>]) {
    let (shape, strides) = numbers.split_at_mut(layout.rank());
    let places = shape.iter_mut().zip(strides);
    for ((extent, stride), (first, second)) in layout.dims.axes().zip(places) {
        first.write(extent);
        second.write(stride);
    }
}

#[inline]
fn tensor_of(layout: &Layout, place: Place, (shape, strides): (*mut i64, *mut i64)) -> DLTensor {
    let empty = layout.numel() == 0;
    DLTensor {
        data: if empty {
            std::ptr::null_mut()
        } else {
            place.data.as_ptr()
        },
        device: place.device.to_raw(),
        // At most 64.
        ndim: i32::try_from(layout.rank()).unwrap_or(i32::MAX),
        dtype: layout.dtype().to_raw(),
        shape,
        strides,
        byte_offset: if empty { 0 } else { place.byte_offset },
    }
}

/// Drops the owner behind the fence and frees the block, also where the owner's drop panicked.
///
/// # Safety
/// `managed` is a live export of this library that nobody uses again.
#[inline]
unsafe fn release_behind_fence<M: Managed>(managed: *mut M) {
    let head = managed.cast::<Head<M>>();
    // SAFETY: every export begins with a `Head`. The consumer may have written to `managed`, not to what follows it.
    let class = unsafe { (*head).class };
    // SAFETY: as above.
    let owner_type = unsafe { (*head).owner_type };
    let start = managed.cast::<u8>();
    // SAFETY: the owner lies that far inside the block.
    let owner = unsafe { start.add(owner_type.at) };
    // SAFETY: the owner is alive, and this is the only release.
    let _panicked = fence(|| unsafe { (owner_type.drop)(owner) });
    // SAFETY: the struct is not looked at any more.
    unsafe { M::end(managed) };
    // SAFETY: taken from this class, and given up by the caller.
    unsafe { class.give(start.cast()) };
}

/// The deleter of every export in the struct of DLPack 1.x. Not generic, so that its address tells who made a tensor.
#[inline(never)]
unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    if !managed.is_null() {
        // SAFETY: DLPack: the consumer calls the deleter of a live tensor, once; only our exports have this one.
        unsafe { release_behind_fence(managed) };
    }
}

/// The deleter of every export in the struct of DLPack 0.x.
#[inline(never)]
unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    if !managed.is_null() {
        // SAFETY: as for `delete_versioned`.
        unsafe { release_behind_fence(managed) };
    }
}

/// The deleter of exports that were released: a consumer that calls it once more does no harm.
unsafe extern "C" fn ended<M>(_managed: *mut M) {
    let _nothing = fence(|| ());
}

/// A cast to the type that the offset was aligned for by a memory layout.
const fn cast_aligned<T>(pointer: *mut u8) -> *mut T {
    pointer.cast()
}

mod sealed {
    //! What the two structs differ in.

    use super::{
        DLManagedTensor, DLManagedTensorVersioned, DLTensor, DlpackError, Flags, Layout, c_void,
    };
    use super::{VERSION, delete_legacy, delete_versioned, ended};

    /// A struct that an export can be.
    #[expect(unnameable_types, reason = "nobody else can name a sealed trait")]
    pub trait Sealed {
        /// Whether the struct can say what the tensor is.
        fn check(layout: &Layout, flags: Flags) -> Result<(), DlpackError>;
        /// The struct with our deleter.
        fn filled(tensor: DLTensor, context: *mut c_void, flags: Flags) -> Self;
        /// The context, and whether the deleter is ours.
        ///
        /// # Safety
        /// `managed` is a live struct of this layout.
        unsafe fn identity(managed: *const Self) -> (*mut c_void, bool);
        /// Makes it a struct that no import takes, and that may be released again.
        ///
        /// # Safety
        /// `managed` is an export that is released now.
        unsafe fn end(managed: *mut Self);
    }

    impl Sealed for DLManagedTensorVersioned {
        #[inline]
        unsafe fn end(managed: *mut Self) {
            // SAFETY: the caller's promise: memory of ours.
            unsafe { (*managed).deleter = Some(ended) };
            // SAFETY: as above.
            unsafe { (*managed).version.major = 0 };
        }

        #[inline]
        fn check(_layout: &Layout, _flags: Flags) -> Result<(), DlpackError> {
            Ok(())
        }

        #[inline]
        fn filled(dl_tensor: DLTensor, manager_ctx: *mut c_void, flags: Flags) -> Self {
            let deleter: unsafe extern "C" fn(*mut Self) = delete_versioned;
            Self {
                version: VERSION,
                manager_ctx,
                deleter: Some(deleter),
                flags: flags.raw(),
                dl_tensor,
            }
        }

        #[inline]
        unsafe fn identity(managed: *const Self) -> (*mut c_void, bool) {
            // SAFETY: the caller promises a live struct; foreign ones may be unaligned.
            let copy = unsafe { managed.read_unaligned() };
            let ours: unsafe extern "C" fn(*mut Self) = delete_versioned;
            (
                copy.manager_ctx,
                copy.deleter
                    .is_some_and(|theirs| std::ptr::fn_addr_eq(theirs, ours)),
            )
        }
    }

    impl Sealed for DLManagedTensor {
        #[inline]
        unsafe fn end(managed: *mut Self) {
            // SAFETY: the caller's promise: memory of ours.
            unsafe { (*managed).deleter = Some(ended) };
            // SAFETY: as above.
            unsafe { (*managed).dl_tensor.ndim = -1 };
        }

        fn check(layout: &Layout, flags: Flags) -> Result<(), DlpackError> {
            let what = if flags.contains(Flags::READ_ONLY) {
                "read-only"
            } else if layout.is_padded() && layout.dtype().is_sub_byte() {
                "padded elements"
            } else if layout.dtype().bits() == 1 {
                "how elements of one bit lie"
            } else {
                return Ok(());
            };
            Err(DlpackError::LegacyCannotSay {
                what,
                version: "1.0 or later",
            })
        }

        fn filled(dl_tensor: DLTensor, manager_ctx: *mut c_void, _flags: Flags) -> Self {
            let deleter: unsafe extern "C" fn(*mut Self) = delete_legacy;
            Self {
                dl_tensor,
                manager_ctx,
                deleter: Some(deleter),
            }
        }

        #[inline]
        unsafe fn identity(managed: *const Self) -> (*mut c_void, bool) {
            // SAFETY: the caller promises a live struct; foreign ones may be unaligned.
            let copy = unsafe { managed.read_unaligned() };
            let ours: unsafe extern "C" fn(*mut Self) = delete_legacy;
            (
                copy.manager_ctx,
                copy.deleter
                    .is_some_and(|theirs| std::ptr::fn_addr_eq(theirs, ours)),
            )
        }
    }
}
