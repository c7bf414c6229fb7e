//! The modules that are built into the Python of a host: `_crossdock_host` with the function table,
//! and `crossdock`, which loads the package that goes with it.
//!
//! Both are entered before Python starts, so that they are there in every way in which it can be
//! started, and come before what the environment has.
#![expect(unsafe_code, reason = "makes modules out of C structs of Python")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

use crossdock_sdk::fence::fence;

use crate::failure::{Failure, Kind};
use crate::python::libpython::{Functions, ModuleInit, PyObject};
use crate::python::open::Python;

/// How the package is loaded, in Python's words.
const LOADER: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("package.py"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };

/// Enters the modules into the table of built-in ones; Python must not run yet.
pub(crate) fn prepare(python: &Python) -> Result<(), Failure> {
    append(&python.functions, c"_crossdock_host", init_host)?;
    // Without the host's own package the environment's is imported, and finds the table.
    match python.package() {
        Some(_) => append(&python.functions, c"crossdock", init_package),
        None => Ok(()),
    }
}

fn append(functions: &Functions, name: &'static CStr, init: ModuleInit) -> Result<(), Failure> {
    // SAFETY: Python does not run, and the name lives as long as the process.
    let failed = unsafe { functions.PyImport_AppendInittab(name.as_ptr(), init) };
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Invalid,
        "enter a module into Python: out of memory",
    ))
}

unsafe extern "C" fn init_host() -> *mut PyObject {
    fence(|| define(c"_crossdock_host", exec_host)).unwrap_or(ptr::null_mut())
}

unsafe extern "C" fn init_package() -> *mut PyObject {
    fence(|| define(c"crossdock", exec_package)).unwrap_or(ptr::null_mut())
}

/// Puts the table's capsule into the module.
unsafe extern "C" fn exec_host(module: *mut PyObject) -> c_int {
    fence(|| with_opened(|python| fill_host(python, module))).unwrap_or(FAILED)
}

/// Loads the package in the module's place.
unsafe extern "C" fn exec_package(_module: *mut PyObject) -> c_int {
    fence(|| with_opened(load_package)).unwrap_or(FAILED)
}

const DONE: c_int = 0;
/// With an exception of Python, or one that Python makes of its absence.
const FAILED: c_int = -1;

fn with_opened(body: impl FnOnce(&Python) -> Option<()>) -> c_int {
    Python::opened().and_then(body).map_or(FAILED, |()| DONE)
}

type Exec = unsafe extern "C" fn(*mut PyObject) -> c_int;

/// `PyModuleDef`, whose layout the stable ABI fixes; that of free-threaded builds, which are refused,
/// is another.
#[repr(C)]
struct Definition {
    references: isize,
    object_type: *mut c_void,
    init: *mut c_void,
    index: isize,
    copy: *mut c_void,
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *mut c_void,
    slots: *mut [Slot; 2],
    traverse: *mut c_void,
    clear: *mut c_void,
    free: *mut c_void,
}

/// `PyModuleDef_Slot`.
#[repr(C)]
struct Slot {
    kind: c_int,
    exec: Option<Exec>,
}

const EXEC: c_int = 2;

/// A definition for the import machinery, which makes the module by it. Python keeps it for ever.
fn define(name: &'static CStr, exec: Exec) -> *mut PyObject {
    let Some(python) = Python::opened() else {
        return ptr::null_mut();
    };
    let kinds = [(EXEC, Some(exec)), (0, None)];
    let slots = Box::new(kinds.map(|(kind, exec)| Slot { kind, exec }));
    let definition = Box::new(Definition {
        references: 1,
        object_type: ptr::null_mut(),
        init: ptr::null_mut(),
        index: 0,
        copy: ptr::null_mut(),
        name: name.as_ptr(),
        doc: ptr::null(),
        size: 0,
        methods: ptr::null_mut(),
        slots: Box::into_raw(slots),
        traverse: ptr::null_mut(),
        clear: ptr::null_mut(),
        free: ptr::null_mut(),
    });
    let definition = Box::into_raw(definition).cast::<c_void>();
    // SAFETY: a definition with that layout, its texts and slots, none of which is ever freed.
    unsafe { python.functions.PyModuleDef_Init(definition) }
}

fn fill_host(python: &Python, module: *mut PyObject) -> Option<()> {
    let functions = &python.functions;
    let name = c"_crossdock_host.host_api".as_ptr();
    // SAFETY: the lock is held in a module's initialiser; table and name outlive the process.
    let capsule = unsafe { functions.PyCapsule_New(python.table(), name, None) };
    let capsule = Owned::of(functions, capsule)?;
    // SAFETY: Python's own module and an object.
    let failed =
        unsafe { functions.PyModule_AddObjectRef(module, c"host_api".as_ptr(), capsule.object) };
    (failed == 0).then_some(())
}

fn load_package(python: &Python) -> Option<()> {
    let functions = &python.functions;
    let folder = text(functions, python.package()?)?;
    let version = text(functions, Path::new(env!("CARGO_PKG_VERSION")))?;
    // SAFETY: the lock is held in a module's initialiser.
    let builtins = unsafe { functions.PyImport_ImportModule(c"builtins".as_ptr()) };
    let builtins = Owned::of(functions, builtins)?;
    // SAFETY: as above.
    let names = Owned::of(functions, unsafe { functions.PyDict_New() })?;
    let values = [
        (c"__builtins__", builtins),
        (c"folder", folder),
        (c"version", version),
    ];
    for (name, value) in values {
        // SAFETY: a dictionary, a name and an object.
        let failed =
            unsafe { functions.PyDict_SetItemString(names.object, name.as_ptr(), value.object) };
        (failed == 0).then_some(())?;
    }
    const FILE: c_int = 257;
    // SAFETY: two texts that end in NUL; the number asks for the grammar of a file.
    let code =
        unsafe { functions.Py_CompileString(LOADER.as_ptr(), c"<crossdock host>".as_ptr(), FILE) };
    let code = Owned::of(functions, code)?;
    // SAFETY: code and a dictionary, which serves as both.
    let done = unsafe { functions.PyEval_EvalCode(code.object, names.object, names.object) };
    Owned::of(functions, done).map(drop)
}

fn text<'python>(functions: &'python Functions, path: &Path) -> Option<Owned<'python>> {
    let bytes = path.as_os_str().as_bytes();
    let size = isize::try_from(bytes.len()).ok()?;
    // SAFETY: the bytes are as many as it says; the lock is held.
    let made = unsafe { functions.PyUnicode_DecodeFSDefaultAndSize(bytes.as_ptr().cast(), size) };
    Owned::of(functions, made)
}

/// One reference to an object, given back while the lock is held.
struct Owned<'python> {
    functions: &'python Functions,
    object: *mut PyObject,
}

impl<'python> Owned<'python> {
    /// Takes a new reference over; NULL is none.
    fn of(functions: &'python Functions, object: *mut PyObject) -> Option<Self> {
        (!object.is_null()).then_some(Self { functions, object })
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and this thread, which made it, holds the lock.
        unsafe { self.functions.Py_DecRef(self.object) };
    }
}
