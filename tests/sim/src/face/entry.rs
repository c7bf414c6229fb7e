//! How a function of the driver is written: what every call has in common, and the arguments that point.
#![expect(
    unsafe_code,
    reason = "a driver takes its clients' pointers as they come"
)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock_sim_engine::Site;

use super::captures;
use super::codes::Code;
use super::objects::objects;
use super::whose::Face;
use crate::callers;
use crate::fence::fence;
use crate::process::Process;

/// What a function answers.
pub(crate) type Answer<T = ()> = Result<T, Code>;

/// A pointer that the function writes to, valid for one `T` by the driver's own rules, or NULL.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Writes the answer, which has to go somewhere.
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not NULL, and the client vouches for it, as to the vendor's driver.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the answer where somebody wants it.
    pub(crate) fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not NULL, and the client vouches for it, as to the vendor's driver.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What is there, where a function reads and writes one place.
    pub(crate) fn read(self) -> Answer<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// The same pointer to values of another type.
    pub(crate) const fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Where the value with this index goes.
    pub(crate) const fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A pointer that the function reads from, valid for one `T` by the driver's own rules, or NULL.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// What is there.
    pub(crate) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not NULL, and the client vouches for it, as to the vendor's driver.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The same pointer to values of another type.
    pub(crate) const fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// Where the value with this index is.
    pub(crate) const fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    pub(crate) const fn raw(self) -> *const T {
        self.0
    }
}

/// Whether `cuInit` was called.
pub(crate) static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

/// One call of one function.
#[derive(Debug)]
pub(crate) struct Call {
    /// The function and its number, as reports name them.
    pub(crate) site: Site,
    /// Whose function it is.
    pub(crate) face: Face,
    /// Whether the default stream is the thread's own: the functions with `_ptds` and `_ptsz` behind their names.
    pub(crate) is_per_thread: bool,
    pub(crate) process: &'static Process,
}

impl Call {
    /// Refuses with what a device is lost with: "any further CUDA work will return the same error".
    pub(crate) fn refuse_lost(&self, device: u32) -> Answer {
        match self.process.engine.lost(device) {
            Some(failure) => Err(Code(failure.status)),
            None => Ok(()),
        }
    }
}

/// Makes a call: nothing that goes wrong in it leaves it.
pub(crate) fn run(
    face: Face,
    name: &'static str,
    is_per_thread: bool,
    needs_init: bool,
    body: impl FnOnce(&Call) -> Answer,
) -> c_int {
    let answered = fence(|| {
        let process = begin(face, needs_init)?;
        process.called(name);
        if process.drops(name) {
            return Ok(());
        }
        let mut site = Site::new(name);
        if needs_init {
            site = process.engine.begin(site.by(callers::here()))?;
        } else if let Some(failure) = process.engine.refused(site) {
            return Err(Code(failure.status));
        }
        if captures::is_any_open() && captures::is_unsafe(name) {
            objects().captures.refuse_unsafe()?;
        }
        body(&Call {
            site,
            face,
            is_per_thread,
            process,
        })
    });
    if let Some(process) = Process::made() {
        fence(|| process.journal.note(process));
    }
    let number = match answered {
        Some(Ok(())) => 0,
        Some(Err(code)) => code.0,
        None => Code::UNKNOWN.0,
    };
    if face == Face::Hip && needs_init {
        crate::hip::errors::note(number);
    }
    number
}

fn begin(face: Face, needs_init: bool) -> Answer<&'static Process> {
    if Process::is_exiting() {
        return Err(Code::DEINITIALIZED);
    }
    if face == Face::Cuda && needs_init && !IS_INITIALISED.load(Ordering::Acquire) {
        return Err(Code::NOT_INITIALIZED);
    }
    let process = Process::get().ok().ok_or(Code::UNKNOWN)?;
    if process.is_forked() {
        return Err(Code::NOT_INITIALIZED);
    }
    // HIP starts by itself, where it has a device.
    if face == Face::Hip && needs_init && process.devices(face).is_empty() {
        return Err(Code::NO_DEVICE);
    }
    Ok(process)
}

/// Writes functions of a driver, each with what every call has in common ([`run`]):
///
/// - `fn NAME(ARGUMENTS) |call| { .. }`: one function.
/// - `fn NAME(ARGUMENTS) = TWIN |call| { .. }`: and its form for per-thread default streams.
/// - `fn NAME(ARGUMENTS) as BODY |call| { .. }`: other modules can call what it does as `BODY(call, ..)`; also behind
///   `= TWIN`.
/// - `before_init fn ..`: functions that a program may call before it starts the driver.
macro_rules! entries {
    ($(fn $name:ident $arguments:tt $(= $twin:ident)? $(as $shared:ident)? |$call:ident| $body:block)*) => {
        $($(entries!(@shared $shared $call $arguments $body);)?)*
        $(const _: () = {
            entries!(@body $call $arguments $body $($shared)?);
            entries!(@export $name false true $arguments);
            $(entries!(@export $twin true true $arguments);)?
        };)*
    };
    (before_init $(fn $name:ident $arguments:tt |$call:ident| $body:block)*) => {
        $(const _: () = {
            entries!(@body $call $arguments $body);
            entries!(@export $name false false $arguments);
        };)*
    };
    (@body $call:ident $arguments:tt $body:block $shared:ident) => {
        use $shared as body;
    };
    (@body $call:ident $arguments:tt $body:block) => {
        entries!(@function () body $call $arguments $body);
    };
    (@shared $shared:ident $call:ident $arguments:tt $body:block) => {
        entries!(@function (pub(crate)) $shared $call $arguments $body);
    };
    (@function ($($visible:tt)*) $function:ident $call:ident
     ($($argument:ident: $kind:ty),* $(,)?) $body:block) => {
        #[expect(clippy::allow_attributes, reason = "few functions take so many arguments")]
        #[allow(clippy::too_many_arguments, reason = "as many as the driver's function takes")]
        $($visible)* fn $function(
            $call: &$crate::face::entry::Call, $($argument: $kind),*
        ) -> $crate::face::entry::Answer {
            $body
        }
    };
    (@export $name:ident $is_per_thread:literal $needs_init:literal
     ($($argument:ident: $kind:ty),* $(,)?)) => {
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
            $crate::face::entry::run(super::FACE, stringify!($name), $is_per_thread, $needs_init, |call| {
                body(call, $($argument),*)
            })
        }
    };
}

pub(crate) use entries;
