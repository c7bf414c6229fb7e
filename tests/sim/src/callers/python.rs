//! Python's functions, where a Python is in the process, and the line that it runs.
#![expect(
    unsafe_code,
    reason = "looks for functions of another library by name, and calls them"
)]

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossdock_sim_engine::Line;

use super::{detached, frames, installed};

type Object = *mut c_void;

/// Where a call comes from in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller {
    running: Running,
    /// Where that is in an installed package: the innermost frame outside of those.
    program: Option<detached::Frame>,
}

/// A place in Python's code, as numbers. What they mean stays, for as long as they are found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Running {
    /// Of a thread that holds Python's lock: the code, which is kept once it was seen, and the line.
    Attached { code: usize, number: c_int },
    /// Of a thread that does not: what its frame says.
    Detached(detached::Frame),
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, each under Python's own name for it.
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "the names of Python's C API")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            /// The state that holds the lock, whose thread that may be; from 3.12 on this thread's own, or NULL.
            current: unsafe extern "C" fn() -> Object,
            /// As in `0x030B_07F0`.
            pub(crate) version: c_ulong,
            /// The type of code objects.
            pub(crate) code_type: usize,
        }

        impl Functions {
            fn find() -> Option<Self> {
                let version = symbol(c"Py_Version")?;
                let current = symbol(c"PyThreadState_GetUnchecked")
                    .or_else(|| symbol(c"_PyThreadState_UncheckedGet"))?;
                Some(Self {
                    $($name: {
                        let found = symbol(name(concat!(stringify!($name), "\0")))?;
                        let place: *const *const c_void = &raw const found;
                        // SAFETY: a function's address, whose type Python's documents fix.
                        unsafe { place.cast::<unsafe extern "C" fn($($argument),*) $(-> $answer)?>().read() }
                    },)*
                    current: {
                        let place: *const *const c_void = &raw const current;
                        // SAFETY: as above.
                        unsafe { place.cast::<unsafe extern "C" fn() -> Object>().read() }
                    },
                    // SAFETY: a number, which is there as long as the library is.
                    version: unsafe { version.cast::<c_ulong>().read() },
                    code_type: symbol(c"PyCode_Type")?.addr(),
                })
            }
        }
    };
}

functions! {
    Py_IsInitialized: fn() -> c_int;
    Py_IncRef: fn(Object);
    Py_DecRef: fn(Object);
    PyGILState_GetThisThreadState: fn() -> Object;
    PyEval_GetFrame: fn() -> Object;
    PyFrame_GetCode: fn(Object) -> Object;
    PyFrame_GetLineNumber: fn(Object) -> c_int;
    PyCode_Addr2Line: fn(Object, c_int) -> c_int;
    PyObject_GetAttrString: fn(Object, *const c_char) -> Object;
    PyUnicode_GetLength: fn(Object) -> isize;
    PyUnicode_ReadChar: fn(Object, isize) -> u32;
    PyErr_Fetch: fn(*mut Object, *mut Object, *mut Object);
    PyErr_Restore: fn(Object, Object, Object);
}

fn name(text: &'static str) -> &'static CStr {
    CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or_default()
}

fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const())
}

/// Python's functions. While there are none, they are looked for whenever libraries were loaded since.
fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Functions> = OnceLock::new();
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    if FOUND.get().is_none() {
        let loaded = libraries_loaded();
        if LOOKED.swap(loaded, Ordering::Relaxed) != loaded
            && let Some(found) = Functions::find()
        {
            // Another thread may have found the same ones.
            let _same = FOUND.set(found);
        }
    }
    FOUND.get()
}

/// How many libraries were ever loaded into this process.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn first(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader gives an object that lives during the call.
        let loaded = unsafe { (*object).dlpi_adds };
        // SAFETY: it is the place that the caller gave.
        unsafe { count.cast::<u64>().write(loaded) };
        1
    }
    let mut count = 0_u64;
    let data: *mut u64 = &raw mut count;
    // SAFETY: `first` takes an object and this place for an answer.
    unsafe { libc::dl_iterate_phdr(Some(first), data.cast()) };
    count
}

/// What this thread runs in Python, if it does.
pub(crate) fn caller() -> Option<Caller> {
    let python = functions()?;
    // SAFETY: it may be called at any time.
    if unsafe { (python.Py_IsInitialized)() } == 0 {
        return None;
    }
    // SAFETY: as long as Python is initialised; it is NULL of threads that Python does not know.
    let own = unsafe { (python.PyGILState_GetThisThreadState)() };
    if own.is_null() {
        return None;
    }
    // SAFETY: as above; it reads one word.
    let is_attached = unsafe { (python.current)() } == own;
    if !is_attached {
        let (frame, program) = frames::frames(python, own.addr())?;
        let running = Running::Detached(frame);
        return Some(Caller { running, program });
    }
    let (code, number) = attached(python)?;
    let is_installed = installed::is_installed((code, 0), || {
        let code = std::ptr::with_exposed_provenance_mut(code);
        python.attribute(code, c"co_filename").unwrap_or_default()
    });
    let program = is_installed.then(|| frames::frames(python, own.addr()));
    Some(Caller {
        running: Running::Attached { code, number },
        program: program.flatten().and_then(|(_, program)| program),
    })
}

/// The code and the line that this thread runs, which holds the lock.
fn attached(python: &Functions) -> Option<(usize, c_int)> {
    // SAFETY: this thread holds the lock; the frame is lent.
    let frame = unsafe { (python.PyEval_GetFrame)() };
    if frame.is_null() {
        return None;
    }
    // SAFETY: the frame lives, as this thread is in it.
    let number = unsafe { (python.PyFrame_GetLineNumber)(frame) };
    // SAFETY: as above; the code is this call's to give back.
    let code = unsafe { (python.PyFrame_GetCode)(frame) };
    // SAFETY: the frame keeps the code.
    unsafe { (python.Py_DecRef)(code) };
    Some((code.expose_provenance(), number))
}

impl Caller {
    /// The line outside of installed packages, in words.
    pub(crate) fn program(&self) -> Option<Line> {
        self.program?.line(functions()?)
    }

    /// The place in words, when it is seen first; this thread is still there.
    pub(crate) fn line(&self) -> Option<Line> {
        let python = functions()?;
        match self.running {
            Running::Detached(frame) => frame.line(python),
            Running::Attached { code, number } => {
                let code: Object = std::ptr::with_exposed_provenance_mut(code);
                // SAFETY: the lock is held, and the frame keeps the code. It stays from here on, so that no
                // other code is taken for it.
                unsafe { (python.Py_IncRef)(code) };
                Some(Line {
                    file: python.attribute(code, c"co_filename")?,
                    number,
                    function: python.attribute(code, c"co_qualname")?,
                })
            }
        }
    }
}

impl Functions {
    /// A text of an object, with the lock held. An exception that is set stays.
    fn attribute(&self, object: Object, name: &CStr) -> Option<String> {
        let mut set = [std::ptr::null_mut(); 3];
        let [kind, value, trace] = &mut set;
        // SAFETY: the lock is held, and each place takes one reference.
        unsafe { (self.PyErr_Fetch)(kind, value, trace) };
        // SAFETY: the lock is held, the object lives, and the name is a C string.
        let found = unsafe { (self.PyObject_GetAttrString)(object, name.as_ptr()) };
        let text = (!found.is_null()).then(|| self.text(found));
        if !found.is_null() {
            // SAFETY: the reference is this call's.
            unsafe { (self.Py_DecRef)(found) };
        }
        let [kind, value, trace] = set;
        // SAFETY: the references of above; one that was set meanwhile is dropped.
        unsafe { (self.PyErr_Restore)(kind, value, trace) };
        text
    }

    /// What a string says, which no thread changes.
    pub(crate) fn text(&self, string: Object) -> String {
        // SAFETY: the string lives.
        let length = unsafe { (self.PyUnicode_GetLength)(string) };
        let letter = |at| {
            // SAFETY: it is within the string.
            let letter = unsafe { (self.PyUnicode_ReadChar)(string, at) };
            char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        (0..length.min(4096)).map(letter).collect()
    }
}
