//! What callers pass in: texts, arrays, and option structs of any size.
#![expect(unsafe_code, reason = "reads what callers vouch for in words")]

use std::mem::MaybeUninit;

use crossdock::{Device, RouteChoice, Target};
use crossdock_api::{
    CopyMode, DLDataType, MAX_RANK, MemoryKind, Ref, RouteKind, Text, XdArguments, XdEmptyOptions,
    XdExportOptions, XdImportOptions, XdLayout, XdMemory, XdMoveOptions, XdRunOptions,
    XdRuntimeOptions, XdScriptOptions, XdSessionOptions,
};
use crossdock_sdk::dlpack::{Dtype, Layout};

use crate::crossing::failure::Refusal;

/// A text that must be there and be UTF-8.
pub(crate) fn text<'a>(text: Text<'a>, what: &'static str) -> Result<&'a str, Refusal> {
    let text = text.to_c_str().ok_or_else(|| Refusal::null(what))?;
    text.to_str()
        .map_err(|_invalid| Refusal::argument(format!("{what} is not UTF-8")))
}

/// A text that may be NULL: then it is not said.
pub(crate) fn optional_text<'a>(
    given: Text<'a>,
    what: &'static str,
) -> Result<Option<&'a str>, Refusal> {
    match given.to_c_str() {
        Some(_) => text(given, what).map(Some),
        None => Ok(None),
    }
}

/// A uuid.
///
/// # Safety
/// - `given` is NULL, or readable for 16 bytes.
pub(crate) unsafe fn uuid(given: *const u8) -> Result<[u8; 16], Refusal> {
    if given.is_null() {
        return Err(Refusal::null("uuid"));
    }
    // SAFETY: not NULL, so it is readable.
    Ok(unsafe { given.cast::<[u8; 16]>().read() })
}

/// An array of `count` values, which may be NULL where there is none.
///
/// # Safety
/// - `first` is NULL, or readable for `count` values during `'a`.
pub(crate) unsafe fn array<'a, T>(
    first: *const T,
    count: u64,
    what: &'static str,
) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Refusal::null(what));
    }
    let length = usize::try_from(count).ok();
    let fits = |length: &usize| length.checked_mul(size_of::<T>()).is_some_and(is_an_object);
    let Some(length) = length.filter(fits) else {
        return Err(Refusal::argument(format!("{what}: {count} is too many")));
    };
    // SAFETY: readable for `count` values by the caller's promise, and no longer than an object can
    // be.
    Ok(unsafe { std::slice::from_raw_parts(first, length) })
}

/// The same to write to. What C has there counts as initialised.
///
/// # Safety
/// - `first` is NULL, or readable and writable for `count` values during `'a`, by nobody else.
pub(crate) unsafe fn array_mut<'a, T>(
    first: *mut T,
    count: u64,
    what: &'static str,
) -> Result<&'a mut [T], Refusal> {
    // SAFETY: the caller's promise; the slice is used for its length only.
    let length = unsafe { array(first.cast_const(), count, what) }?.len();
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: not NULL, because there are values, and writable for them by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
}

/// Whether memory of this size can exist.
const fn is_an_object(bytes: usize) -> bool {
    bytes <= isize::MAX.cast_unsigned()
}

/// A struct that begins with its size, whose later part an older caller does not have.
///
/// # Safety
/// - It is `repr(C)` and begins with a `u64`, and any value of its fields whose bytes are all zero
///   is valid.
/// - `FIRST` is the end of a field, at most the struct's size.
pub(crate) unsafe trait Options: Copy {
    /// Bytes of its first release.
    const FIRST: u64;
}

/// The numbers stay when a struct grows: they are what the oldest caller has.
macro_rules! first_release {
    ($($options:ty = $bytes:literal;)*) => {$(
        // SAFETY: `repr(C)`, begins with its size; its pointers and numbers may be zero; the bytes
        // are those of the whole struct when it was first released.
        unsafe impl Options for $options {
            const FIRST: u64 = $bytes;
        }
    )*};
}

first_release! {
    XdRuntimeOptions<'_> = 88;
    XdMemory<'_> = 96;
    XdImportOptions<'_> = 32;
    XdEmptyOptions<'_> = 24;
    XdExportOptions<'_> = 24;
    XdMoveOptions<'_> = 32;
    XdScriptOptions<'_> = 16;
    XdSessionOptions<'_> = 80;
    XdRunOptions = 24;
    XdArguments<'_> = 48;
}

/// Copies options of any size: what an older caller does not have is zero, which is the default,
/// and what a newer one has beyond us must be zero. `None` for NULL.
pub(crate) fn options<T: Options>(given: Ref<'_, T>) -> Result<Option<T>, Refusal> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: a `Ref` that is not NULL is a live struct, which begins with its size (`Options`).
    let size = unsafe { given.as_ptr().cast::<u64>().read() };
    let first = given.as_ptr().cast::<u8>();
    let known = size_of::<T>();
    let length = usize::try_from(size).ok().filter(|&size| size <= 1 << 16);
    let Some(length) = length.filter(|_| size >= T::FIRST) else {
        let why = format!("struct_size is {size}, expected {known}");
        return Err(Refusal::argument(why));
    };
    // SAFETY: the struct has `length` bytes, as it says itself.
    let beyond = unsafe { std::slice::from_raw_parts(first, length) }.get(known..);
    if beyond.is_some_and(|bytes| bytes.iter().any(|&byte| byte != 0)) {
        let why = format!("it asks for something behind byte {known} that this version lacks");
        return Err(Refusal::argument(why));
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: readable for `length` bytes, and the copy is writable for `known`.
    unsafe { first.copy_to_nonoverlapping(copy.as_mut_ptr().cast(), length.min(known)) };
    // SAFETY: all zero, or a copy of a live struct from its start to the end of a field (`Options`).
    Ok(Some(unsafe { copy.assume_init() }))
}

/// Options with a default that NULL means as well.
pub(crate) fn options_or<T: Options>(given: Ref<'_, T>, default: T) -> Result<T, Refusal> {
    Ok(options(given)?.unwrap_or(default))
}

/// Refuses flags whose meaning is unknown.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Refusal> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Refusal::argument(format!(
            "the flags {unknown:#x} are unknown"
        ))),
    }
}

/// A layout, checked.
pub(crate) fn layout(given: Ref<'_, XdLayout<'_>>) -> Result<Layout, Refusal> {
    if given.is_null() {
        return Err(Refusal::null("layout"));
    }
    // SAFETY: a `Ref` that is not NULL is a live struct; every bit pattern of it is valid.
    checked_layout(&unsafe { given.as_ptr().read() })
}

/// A layout that was copied, checked.
pub(crate) fn checked_layout(given: &XdLayout<'_>) -> Result<Layout, Refusal> {
    let dtype = dtype(given.dtype())?;
    let Some(shape) = given.shape() else {
        let why = format!(
            "shape: NULL, or more than {MAX_RANK} axes: {}",
            given.ndim()
        );
        return Err(Refusal::argument(why));
    };
    let layout = match given.strides() {
        Some(strides) => Layout::strided(dtype, shape, strides)?,
        None => Layout::compact(dtype, shape)?,
    };
    if given.is_padded() {
        return Ok(layout.with_padding(true)?);
    }
    Ok(layout)
}

/// A dtype, checked.
pub(crate) fn dtype(given: DLDataType) -> Result<Dtype, Refusal> {
    Ok(Dtype::from_raw(given)?)
}

/// Which routes a move may take.
pub(crate) fn choice(options: &XdMoveOptions<'_>) -> Result<RouteChoice, Refusal> {
    use crossdock::RouteKind as Kind;
    match (options.copy, options.route) {
        (CopyMode::IF_NEEDED, RouteKind::BEST) => Ok(RouteChoice::Best),
        (CopyMode::ALWAYS, RouteKind::BEST) => Ok(RouteChoice::Copy),
        (CopyMode::IF_NEEDED | CopyMode::NEVER, RouteKind::ALIAS)
        | (CopyMode::NEVER, RouteKind::BEST) => Ok(RouteChoice::Only(Kind::Alias)),
        (CopyMode::IF_NEEDED | CopyMode::ALWAYS, RouteKind::DIRECT) => {
            Ok(RouteChoice::Only(Kind::Direct))
        }
        (CopyMode::IF_NEEDED | CopyMode::ALWAYS, RouteKind::STAGED) => {
            Ok(RouteChoice::Only(Kind::Staged))
        }
        (copy, route) => Err(Refusal::argument(no_choice(copy, route))),
    }
}

/// Memory of this kind on the device, or whatever is there.
pub(crate) fn target(device: &Device, kind: MemoryKind) -> Target {
    match kind {
        MemoryKind::UNOWNED => device.into(),
        kind => Target::new(device, kind),
    }
}

/// Why these two together are no wish.
fn no_choice(copy: CopyMode, route: RouteKind) -> String {
    let copies = [CopyMode::IF_NEEDED, CopyMode::NEVER, CopyMode::ALWAYS];
    let (copy, is_known) = (copy.0, copies.contains(&copy));
    match route {
        _ if !is_known => format!("copy {copy} is unknown"),
        RouteKind::REFUSED => "route 4 (XD_ROUTE_REFUSED) is an answer, and no wish".to_owned(),
        RouteKind::ALIAS => {
            format!("copy {copy} (always) and route 1 (alias) contradict each other")
        }
        RouteKind::DIRECT | RouteKind::STAGED => {
            let route = route.0;
            format!("copy {copy} (never) and route {route}, which copies, contradict each other")
        }
        RouteKind(route) => format!("route {route} is unknown"),
    }
}
