//! Python's C API as it is used here: functions of the stable ABI (from 3.11), looked up by name.
//!
//! `PyGILState_Check` alone is not in it, and every `CPython` exports it.
#![expect(
    unsafe_code,
    reason = "functions of a library are given their types here"
)]

use std::ffi::{c_char, c_int, c_long, c_longlong, c_ulong, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicPtr;

use libloading::os::unix::Library;

use crate::process;

/// An object of Python. Only Python knows what is in it.
#[repr(C)]
pub(crate) struct PyObject {
    _opaque: [u8; 0],
    _pinned: PhantomData<(*mut u8, PhantomPinned)>,
}

/// What a built-in module's initialiser is.
pub(crate) type ModuleInit = unsafe extern "C" fn() -> *mut PyObject;

/// What ends a capsule.
pub(crate) type Destructor = unsafe extern "C" fn(*mut PyObject);

/// What a function gives that makes an object: a reference of the caller's, or NULL and an exception.
#[repr(transparent)]
pub(crate) struct New(pub(crate) *mut PyObject);

/// The saved state of a thread that let the interpreter go.
pub(crate) type ThreadState = *mut c_void;

/// The function that a library lacks.
pub(crate) struct NoFunction(pub(crate) &'static str);

macro_rules! functions {
    ($($name:ident: fn($($given:ident: $argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, each under Python's own name for it.
        #[expect(non_snake_case, reason = "the names of Python's C API")]
        pub(crate) struct Functions {
            /// The object `None`, which is never freed.
            pub(crate) none: AtomicPtr<PyObject>,
            $($name: unsafe extern "C-unwind" fn($($argument),*) $(-> $answer)?,)*
        }

        #[expect(non_snake_case, reason = "the names of Python's C API")]
        #[expect(dead_code, reason = "sessions call what the command line does not")]
        impl Functions {
            /// Looks all of them up.
            pub(crate) fn of(library: &Library) -> Result<Self, NoFunction> {
                // SAFETY: only its address is taken.
                let none = unsafe { library.get::<*mut PyObject>(b"_Py_NoneStruct\0") };
                let none = *none.map_err(|_missing| NoFunction("_Py_NoneStruct"))?;
                Ok(Self {
                    none: AtomicPtr::new(none),
                    $($name: {
                        // SAFETY: the stable ABI fixes the type of the function of this name.
                        let found = unsafe {
                            library.get::<
                                unsafe extern "C-unwind" fn($($argument),*) $(-> $answer)?
                            >(concat!(stringify!($name), "\0").as_bytes())
                        };
                        *found.map_err(|_missing| NoFunction(stringify!($name)))?
                    },)*
                })
            }

            $(
                /// # Safety
                /// - As Python documents the function.
                pub(crate) unsafe fn $name(&self, $($given: $argument),*) $(-> $answer)? {
                    let stay = Stay;
                    // SAFETY: the caller's promise.
                    let answer = unsafe { (self.$name)($($given),*) };
                    let _came_back = ManuallyDrop::new(stay);
                    answer
                }
            )*
        }
    };
}

/// Dropped by nothing but an unwinding of the thread, which stays here for ever. `CPython` before 3.14 unwinds a
/// thread that asks for the interpreter after Python began to end, and a thread in Python code asks at any moment.
/// Rust frames do not survive that: they would give references back without the interpreter.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        loop {
            process::pause();
        }
    }
}

functions! {
    Py_IsInitialized: fn() -> c_int;
    Py_GetVersion: fn() -> *const c_char;
    PyImport_AppendInittab: fn(a: *const c_char, b: ModuleInit) -> c_int;
    Py_SetProgramName: fn(a: *const libc::wchar_t);
    Py_DecodeLocale: fn(a: *const c_char, b: *mut usize) -> *mut libc::wchar_t;
    Py_InitializeEx: fn(a: c_int);
    Py_BytesMain: fn(a: c_int, b: *mut *mut c_char) -> c_int;
    PyEval_SaveThread: fn() -> ThreadState;
    PyEval_RestoreThread: fn(a: ThreadState);
    PyGILState_Ensure: fn() -> c_int;
    PyGILState_Release: fn(a: c_int);
    PyGILState_GetThisThreadState: fn() -> ThreadState;
    PyGILState_Check: fn() -> c_int;
    PyThreadState_SetAsyncExc: fn(a: c_ulong, b: *mut PyObject) -> c_int;
    PyImport_ImportModule: fn(a: *const c_char) -> *mut PyObject;
    PyModule_Create2: fn(a: *mut c_void, b: c_int) -> *mut PyObject;
    PyModuleDef_Init: fn(a: *mut c_void) -> *mut PyObject;
    PyModule_AddObjectRef: fn(a: *mut PyObject, b: *const c_char, c: *mut PyObject) -> c_int;
    PyCFunction_NewEx: fn(a: *mut c_void, b: *mut PyObject, c: *mut PyObject) -> New;
    PyCapsule_New: fn(a: *mut c_void, b: *const c_char, c: Option<Destructor>) -> *mut PyObject;
    PyCapsule_GetPointer: fn(a: *mut PyObject, b: *const c_char) -> *mut c_void;
    PyCapsule_IsValid: fn(a: *mut PyObject, b: *const c_char) -> c_int;
    PyCapsule_SetName: fn(a: *mut PyObject, b: *const c_char) -> c_int;
    PyObject_Call: fn(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> New;
    PyObject_GetAttrString: fn(a: *mut PyObject, b: *const c_char) -> New;
    PySys_GetObject: fn(a: *const c_char) -> *mut PyObject;
    PyTuple_New: fn(a: isize) -> New;
    PyTuple_SetItem: fn(a: *mut PyObject, b: isize, c: *mut PyObject) -> c_int;
    PyTuple_GetItem: fn(a: *mut PyObject, b: isize) -> *mut PyObject;
    PyTuple_Size: fn(a: *mut PyObject) -> isize;
    PyUnicode_FromStringAndSize: fn(a: *const c_char, b: isize) -> New;
    PyUnicode_DecodeFSDefaultAndSize: fn(a: *const c_char, b: isize) -> *mut PyObject;
    PyUnicode_EncodeFSDefault: fn(a: *mut PyObject) -> *mut PyObject;
    PyUnicode_AsUTF8AndSize: fn(a: *mut PyObject, b: *mut isize) -> *const c_char;
    PyBytes_FromStringAndSize: fn(a: *const c_char, b: isize) -> New;
    PyBytes_FromObject: fn(a: *mut PyObject) -> New;
    PyBytes_AsStringAndSize: fn(a: *mut PyObject, b: *mut *mut c_char, c: *mut isize) -> c_int;
    PyBool_FromLong: fn(a: c_long) -> New;
    PyLong_FromLongLong: fn(a: c_longlong) -> New;
    PyLong_AsLongLong: fn(a: *mut PyObject) -> c_longlong;
    PyFloat_FromDouble: fn(a: f64) -> New;
    PyFloat_AsDouble: fn(a: *mut PyObject) -> f64;
    Py_CompileString: fn(a: *const c_char, b: *const c_char, c: c_int) -> *mut PyObject;
    PyEval_EvalCode: fn(a: *mut PyObject, b: *mut PyObject, c: *mut PyObject) -> *mut PyObject;
    PyDict_New: fn() -> *mut PyObject;
    PyDict_GetItemString: fn(a: *mut PyObject, b: *const c_char) -> *mut PyObject;
    PyDict_SetItemString: fn(a: *mut PyObject, b: *const c_char, c: *mut PyObject) -> c_int;
    PyErr_Occurred: fn() -> *mut PyObject;
    PyErr_Clear: fn();
    PyErr_WriteUnraisable: fn(a: *mut PyObject);
    PyErr_NoMemory: fn() -> *mut PyObject;
    PyErr_SetNone: fn(a: *mut PyObject);
    PyErr_SetString: fn(a: *mut PyObject, b: *const c_char);
    Py_IncRef: fn(a: *mut PyObject);
    Py_DecRef: fn(a: *mut PyObject);
}
