//! The fence of every exported function, and what it answers when something was caught or refused.
#![expect(unsafe_code, reason = "writes to the out parameters of callers")]

use crossdock_api::{ErrorKind, Failure, Out, Owned, RouteKind, Status, Text};
use crossdock_sdk::abi::ProbeState;
use crossdock_sdk::fence::{PanicMessage, fence, fence_with_message};

use crate::crossing::failure::Refusal;
use crate::crossing::object::{Handle, release};

/// Runs a function that can fail and answers with its error object.
#[inline]
pub(crate) fn fence_call(
    function: &'static str,
    body: impl FnOnce() -> Result<(), Refusal>,
) -> Failure {
    // The refusal stays inside: what comes through the fence is as small as can be.
    let answer = fence_with_message(|| match body() {
        Ok(()) => Owned::NULL,
        Err(refusal) => refused(refusal, function),
    });
    answer.unwrap_or_else(|message| panicked(&message, function))
}

#[cold]
fn refused(refusal: Refusal, function: &'static str) -> Failure {
    refusal.into_object(function)
}

/// Making the object formats what plugins said, so it is fenced as well; the second one is fixed.
#[cold]
fn panicked(message: &PanicMessage, function: &'static str) -> Failure {
    let object = |message: String| Refusal::Panic(message).into_object(function);
    fence(|| object(message.to_string()))
        .or_else(|| fence(|| object(String::new())))
        .unwrap_or(Owned::NULL)
}

/// Runs a function that can fail and writes what it made to `out`, which must not be NULL.
#[inline]
pub(crate) fn fence_into<T>(
    function: &'static str,
    out: Out<'_, T>,
    body: impl FnOnce() -> Result<T, Refusal>,
) -> Failure {
    fence_call(function, || {
        let place = required(out)?;
        place.put(body()?);
        Ok(())
    })
}

/// Runs a function that cannot fail; what it has no answer for, and a panic, give the fallback.
pub(crate) fn fence_value<T: Fallback>(body: impl FnOnce() -> Option<T>) -> T {
    fence(body).flatten().unwrap_or(T::FALLBACK)
}

/// Gives a handle back; NULL does nothing. What its object holds is dropped behind the fence.
pub(crate) fn fence_free<H: Handle>(handle: Owned<H>) {
    fence(|| release(handle)).unwrap_or_default();
}

/// What accessors answer for a NULL handle, and after a panic. One place decides it per type.
pub(crate) trait Fallback {
    const FALLBACK: Self;
}

impl Fallback for i32 {
    const FALLBACK: Self = 0;
}

impl Fallback for u32 {
    const FALLBACK: Self = 0;
}

impl Fallback for u64 {
    const FALLBACK: Self = 0;
}

impl Fallback for i64 {
    const FALLBACK: Self = 0;
}

impl Fallback for Text<'_> {
    const FALLBACK: Self = Self::EMPTY;
}

impl Fallback for Status {
    const FALLBACK: Self = Self::OK;
}

impl Fallback for ErrorKind {
    const FALLBACK: Self = Self::NONE;
}

impl Fallback for RouteKind {
    const FALLBACK: Self = Self::REFUSED;
}

impl Fallback for ProbeState {
    const FALLBACK: Self = Self::BROKEN;
}

impl<T> Fallback for Owned<T> {
    const FALLBACK: Self = Self::NULL;
}

/// An out parameter that is not NULL.
pub(crate) struct Place<'a, T>(Out<'a, T>);

impl<T> Place<'_, T> {
    /// Whether it is not NULL.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Writes; what was there is not dropped, because C keeps anything there.
    pub(crate) fn put(self, value: T) {
        if let Some(place) = self.0.into_place() {
            // SAFETY: an `Out` that is not NULL is writable for a `T`.
            unsafe { place.write(value) };
        }
    }
}

/// The place, or the refusal of a NULL.
pub(crate) fn required<T>(out: Out<'_, T>) -> Result<Place<'_, T>, Refusal> {
    if out.is_null() {
        return Err(Refusal::null("an out parameter"));
    }
    Ok(Place(out))
}

/// The place, which may be NULL: the answer is not wanted then.
pub(crate) fn optional<T>(out: Out<'_, T>) -> Place<'_, T> {
    Place(out)
}
