//! The casts between handles and the objects behind them. All of them are here.
//!
//! Every handle is an `Arc` of its object: `give` makes one, `retain` adds one, `release` takes one
//! away. The trait ties each handle type to one object type, so that a handle of another type does
//! not compile. A tensor is counted itself, so that its handle is the tensor's own word, and needs
//! no allocation: `give_tensor`, `borrow_tensor`, `retain_tensor` and `release_tensor`.
#![expect(unsafe_code, reason = "turns handles into the objects behind them")]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crossdock::Tensor;
use crossdock_api::{Owned, Ref, XdTensor};

use crate::crossing::failure::Refusal;

/// A handle type, the object that is behind its handles, and what to call a NULL one. Each is tied to its object
/// in the file of its functions.
pub(crate) trait Handle: Sized {
    type Object: Send + Sync + 'static;
    const NAME: &'static str;
}

/// The object behind a handle; `None` for NULL.
pub(crate) fn look<H: Handle>(handle: Ref<'_, H>) -> Option<&H::Object> {
    // SAFETY: a `Ref` that is not NULL is a live handle for as long as it is lent, and every handle
    // of this type was made by `give` from an object of this type.
    unsafe { handle.as_ptr().cast::<H::Object>().as_ref() }
}

/// The object behind a handle, or the refusal of NULL.
pub(crate) fn borrow<H: Handle>(handle: Ref<'_, H>) -> Result<&H::Object, Refusal> {
    look(handle).ok_or_else(|| Refusal::no_handle(H::NAME))
}

/// A new handle.
pub(crate) fn give<H: Handle>(object: H::Object) -> Owned<H> {
    give_shared(Arc::new(object))
}

/// A new handle of an object that others share.
pub(crate) fn give_shared<H: Handle>(object: Arc<H::Object>) -> Owned<H> {
    let handle = Arc::into_raw(object).cast_mut().cast::<H>();
    // SAFETY: this is how every handle of this type is made, and the caller gets this one.
    unsafe { Owned::from_raw(handle) }
}

/// The same handle once more; NULL for NULL.
pub(crate) fn retain<H: Handle>(handle: Ref<'_, H>) -> Option<Owned<H>> {
    shared(handle).map(give_shared)
}

/// A share of the object behind a handle; `None` for NULL.
pub(crate) fn shared<H: Handle>(handle: Ref<'_, H>) -> Option<Arc<H::Object>> {
    if handle.is_null() {
        return None;
    }
    let object = handle.as_ptr().cast::<H::Object>();
    // SAFETY: `give_shared` got it from `Arc::into_raw`, and one share at least is alive: the handle.
    unsafe { Arc::increment_strong_count(object) };
    // SAFETY: the share that was just added is the one this `Arc` owns.
    Some(unsafe { Arc::from_raw(object) })
}

/// Gives a handle back; the last one drops the object. NULL does nothing.
pub(crate) fn release<H: Handle>(handle: Owned<H>) {
    let object = handle.into_raw().cast::<H::Object>().cast_const();
    if !object.is_null() {
        // SAFETY: an `Owned` that is not NULL is one share that `give_shared` made, and it ends here.
        drop(unsafe { Arc::from_raw(object) });
    }
}

/// A tensor that a handle lends.
pub(crate) struct Lent<'a> {
    tensor: ManuallyDrop<Tensor>,
    handle: PhantomData<&'a XdTensor>,
}

impl Deref for Lent<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

/// The tensor behind a handle, or the refusal of NULL.
#[inline]
pub(crate) fn borrow_tensor(handle: Ref<'_, XdTensor>) -> Result<Lent<'_>, Refusal> {
    let word = NonNull::new(handle.as_ptr().cast_mut().cast());
    let word = word.ok_or_else(|| Refusal::no_handle("tensor"))?;
    // SAFETY: a `Ref` that is not NULL is a live handle for as long as it is lent, every handle of
    // a tensor was made by `give_tensor`, and this one is only looked at.
    let tensor = ManuallyDrop::new(unsafe { Tensor::from_word(word) });
    Ok(Lent {
        tensor,
        handle: PhantomData,
    })
}

/// A new handle of a tensor.
#[inline]
pub(crate) fn give_tensor(tensor: Tensor) -> Owned<XdTensor> {
    // SAFETY: this is how every handle of a tensor is made, and the caller gets this one.
    unsafe { Owned::from_raw(tensor.into_word().as_ptr().cast()) }
}

/// The same handle once more; `None` for NULL.
pub(crate) fn retain_tensor(handle: Ref<'_, XdTensor>) -> Option<Owned<XdTensor>> {
    let lent = borrow_tensor(handle).ok()?;
    Some(give_tensor(Tensor::clone(&lent)))
}

/// Gives a tensor's handle back. NULL does nothing.
#[inline]
pub(crate) fn release_tensor(handle: Owned<XdTensor>) {
    if let Some(word) = NonNull::new(handle.into_raw().cast()) {
        // SAFETY: an `Owned` that is not NULL is a word that `give_tensor` made, and it ends here.
        drop(unsafe { Tensor::from_word(word) });
    }
}
