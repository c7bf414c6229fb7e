//! How handles and structs cross: lent, moved, or as a place to write to.
#![expect(unsafe_code, reason = "pointers that C vouches for become types here")]

use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _opaque: [u64; 0],
            _elsewhere: PhantomData<(*mut u8, PhantomPinned)>,
        }

        // SAFETY: there is no value of this type: it stands for an object of the library, which is
        // counted atomically and may be used from every thread at once.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}

opaque! {
    /// Why a function failed: `xd_error`.
    XdError;
    /// A running Crossdock: `xd_runtime`. Two handles are equal when their addresses are.
    XdRuntime;
    /// A registered plugin: `xd_plugin`.
    XdPlugin;
    /// A device: `xd_device`.
    XdDevice;
    /// A typed view of memory on one device: `xd_tensor`.
    XdTensor;
    /// An ordered queue of work on one device: `xd_stream`.
    XdStream;
    /// A point in a stream's work, or one that the host completes: `xd_event`.
    XdEvent;
    /// Host memory that is locked for a device: `xd_registration`.
    XdRegistration;
    /// How a tensor reached, or would reach, a device: `xd_route`.
    XdRoute;
    /// The Python of this process: `xd_script`.
    XdScript;
    /// A namespace in which scripts run: `xd_session`.
    XdSession;
    /// Where a function that a script calls puts its answer: `xd_answer`.
    XdAnswer;
}

/// What a function that can fail returns: NULL when it worked.
pub type Failure = Owned<XdError>;

/// `const T *`: lends a handle or a struct for one call. May be NULL.
#[repr(transparent)]
pub struct Ref<'a, T>(Option<NonNull<T>>, PhantomData<&'a T>);

impl<'a, T> Ref<'a, T> {
    /// NULL.
    pub const NULL: Self = Self(None, PhantomData);

    /// The pointer that C has.
    ///
    /// # Safety
    /// - `pointer` is NULL, or a live handle or struct of this type during `'a`.
    #[must_use]
    pub const unsafe fn from_raw(pointer: *const T) -> Self {
        Self(NonNull::new(pointer.cast_mut()), PhantomData)
    }

    /// The pointer, for C or for the library.
    #[must_use]
    pub const fn as_ptr(self) -> *const T {
        match self.0 {
            Some(pointer) => pointer.as_ptr().cast_const(),
            None => std::ptr::null(),
        }
    }

    /// Whether it is NULL.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0.is_none()
    }
}

impl<'a, T> From<&'a T> for Ref<'a, T> {
    fn from(value: &'a T) -> Self {
        Self(Some(NonNull::from(value)), PhantomData)
    }
}

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.as_ptr())
    }
}

// SAFETY: it is a shared borrow of `T`.
unsafe impl<T: Sync> Send for Ref<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Ref<'_, T> {}

/// `T *`: a handle. Its holder gives it back with the function that frees it. May be NULL.
/// Dropping it in Rust leaks it, because only the table knows how to free.
#[repr(transparent)]
#[must_use = "a handle is given back with the function that frees it"]
pub struct Owned<T>(Option<NonNull<T>>);

impl<T> Owned<T> {
    /// NULL.
    pub const NULL: Self = Self(None);

    /// The handle that C has.
    ///
    /// # Safety
    /// - `handle` is NULL, or a live handle of this type that the caller owns and gives up.
    pub const unsafe fn from_raw(handle: *mut T) -> Self {
        Self(NonNull::new(handle))
    }

    /// The handle, which the caller now owns.
    #[must_use]
    pub const fn into_raw(self) -> *mut T {
        match self.0 {
            Some(handle) => handle.as_ptr(),
            None => std::ptr::null_mut(),
        }
    }

    /// Whether it is NULL.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Lends the handle.
    #[must_use]
    pub const fn lend(&self) -> Ref<'_, T> {
        Ref(self.0, PhantomData)
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lend().fmt(f)
    }
}

// SAFETY: it is a share of `T`, which other threads may hold too.
unsafe impl<T: Send + Sync> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Owned<T> {}

/// `T *`: a place that a function writes to when it worked. May be NULL.
#[repr(transparent)]
pub struct Out<'a, T>(Option<NonNull<T>>, PhantomData<&'a mut T>);

impl<'a, T> Out<'a, T> {
    /// NULL: for answers that are not wanted, where the function allows that.
    pub const NULL: Self = Self(None, PhantomData);

    /// The pointer that C has.
    ///
    /// # Safety
    /// - `place` is NULL, or aligned and writable for a `T` during `'a`, by nobody else.
    #[must_use]
    pub const unsafe fn from_raw(place: *mut T) -> Self {
        Self(NonNull::new(place), PhantomData)
    }

    /// The place, writable during `'a`.
    #[must_use]
    pub const fn into_place(self) -> Option<NonNull<T>> {
        self.0
    }

    /// Whether it is NULL.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    fn from(place: &'a mut T) -> Self {
        Self(Some(NonNull::from(place)), PhantomData)
    }
}

impl<T> fmt::Debug for Out<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "{place:p}"),
            None => f.write_str("NULL"),
        }
    }
}
