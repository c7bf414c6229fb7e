//! Python's C API as it is used here: functions of the stable ABI (from 3.11), looked up by name.
//!
//! `PyGILState_Check` alone is not in it, and every `CPython` exports it.
#![expect(
    unsafe_code,
    reason = "functions of a library are given their types here"
)]

use std::ffi::{c_char, c_int, c_long, c_longlong, c_ulong, c_void};
use std::marker::{PhantomData, PhantomPinned};

use libloading::os::unix::Library;

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
    ($($name:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, each under Python's own name for it.
        #[expect(non_snake_case, reason = "the names of Python's C API")]
        #[expect(dead_code, reason = "sessions call what the command line does not")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl Functions {
            /// Looks all of them up.
            pub(crate) fn of(library: &Library) -> Result<Self, NoFunction> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the stable ABI fixes the type of the function of this name.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) $(-> $answer)?>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *found.map_err(|_missing| NoFunction(stringify!($name)))?
                    },)*
                })
            }
        }
    };
}

functions! {
    Py_IsInitialized: fn() -> c_int;
    Py_GetVersion: fn() -> *const c_char;
    PyImport_AppendInittab: fn(*const c_char, ModuleInit) -> c_int;
    Py_SetProgramName: fn(*const libc::wchar_t);
    Py_DecodeLocale: fn(*const c_char, *mut usize) -> *mut libc::wchar_t;
    Py_InitializeEx: fn(c_int);
    Py_BytesMain: fn(c_int, *mut *mut c_char) -> c_int;
    PyEval_SaveThread: fn() -> ThreadState;
    PyEval_RestoreThread: fn(ThreadState);
    PyGILState_Ensure: fn() -> c_int;
    PyGILState_Release: fn(c_int);
    PyGILState_GetThisThreadState: fn() -> ThreadState;
    PyGILState_Check: fn() -> c_int;
    PyThread_get_thread_ident: fn() -> c_ulong;
    PyThreadState_SetAsyncExc: fn(c_ulong, *mut PyObject) -> c_int;
    PyImport_ImportModule: fn(*const c_char) -> *mut PyObject;
    PyModule_Create2: fn(*mut c_void, c_int) -> *mut PyObject;
    PyModuleDef_Init: fn(*mut c_void) -> *mut PyObject;
    PyModule_AddObjectRef: fn(*mut PyObject, *const c_char, *mut PyObject) -> c_int;
    PyCFunction_NewEx: fn(*mut c_void, *mut PyObject, *mut PyObject) -> New;
    PyCapsule_New: fn(*mut c_void, *const c_char, Option<Destructor>) -> *mut PyObject;
    PyCapsule_GetPointer: fn(*mut PyObject, *const c_char) -> *mut c_void;
    PyCapsule_IsValid: fn(*mut PyObject, *const c_char) -> c_int;
    PyCapsule_SetName: fn(*mut PyObject, *const c_char) -> c_int;
    PyObject_Call: fn(*mut PyObject, *mut PyObject, *mut PyObject) -> New;
    PyObject_GetAttrString: fn(*mut PyObject, *const c_char) -> New;
    PySys_GetObject: fn(*const c_char) -> *mut PyObject;
    PyTuple_New: fn(isize) -> New;
    PyTuple_SetItem: fn(*mut PyObject, isize, *mut PyObject) -> c_int;
    PyTuple_GetItem: fn(*mut PyObject, isize) -> *mut PyObject;
    PyTuple_Size: fn(*mut PyObject) -> isize;
    PyUnicode_FromStringAndSize: fn(*const c_char, isize) -> New;
    PyUnicode_DecodeFSDefaultAndSize: fn(*const c_char, isize) -> *mut PyObject;
    PyUnicode_EncodeFSDefault: fn(*mut PyObject) -> *mut PyObject;
    PyUnicode_AsUTF8AndSize: fn(*mut PyObject, *mut isize) -> *const c_char;
    PyBytes_FromStringAndSize: fn(*const c_char, isize) -> New;
    PyBytes_FromObject: fn(*mut PyObject) -> New;
    PyBytes_AsStringAndSize: fn(*mut PyObject, *mut *mut c_char, *mut isize) -> c_int;
    PyBool_FromLong: fn(c_long) -> New;
    PyLong_FromLongLong: fn(c_longlong) -> New;
    PyLong_AsLongLong: fn(*mut PyObject) -> c_longlong;
    PyFloat_FromDouble: fn(f64) -> New;
    PyFloat_AsDouble: fn(*mut PyObject) -> f64;
    Py_CompileString: fn(*const c_char, *const c_char, c_int) -> *mut PyObject;
    PyEval_EvalCode: fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;
    PyDict_New: fn() -> *mut PyObject;
    PyDict_GetItemString: fn(*mut PyObject, *const c_char) -> *mut PyObject;
    PyDict_SetItemString: fn(*mut PyObject, *const c_char, *mut PyObject) -> c_int;
    PyErr_Occurred: fn() -> *mut PyObject;
    PyErr_Clear: fn();
    PyErr_WriteUnraisable: fn(*mut PyObject);
    PyErr_NoMemory: fn() -> *mut PyObject;
    PyErr_SetNone: fn(*mut PyObject);
    PyErr_SetString: fn(*mut PyObject, *const c_char);
    Py_IncRef: fn(*mut PyObject);
    Py_DecRef: fn(*mut PyObject);
}
