//! This thread's turn with the interpreter, and objects that are touched only during it.
#![expect(unsafe_code, reason = "calls functions of Python's library")]

use std::ffi::{CStr, c_long};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::process;
use crate::python::libpython::{Functions, New, PyObject, ThreadState};
use crate::python::method::MethodDefinition;
use crate::python::tensor::{self, Managed};

/// An exception of Python is set on this thread.
#[derive(Debug)]
pub(crate) struct Raised;

/// Says that this thread holds the interpreter's lock.
pub(crate) struct Gil {
    functions: &'static Functions,
    _this_thread: PhantomData<*mut PyObject>,
}

impl Gil {
    /// # Safety
    /// - This thread holds the lock as long as the token lives, but for what [`Self::released`] runs.
    pub(crate) const unsafe fn assume(functions: &'static Functions) -> Self {
        Self {
            functions,
            _this_thread: PhantomData,
        }
    }

    /// Lets the lock go while `work` runs, which touches no object of Python.
    pub(crate) fn released<T>(&self, work: impl FnOnce() -> T) -> T {
        let _taken_again = Released::now(self.functions);
        work()
    }

    /// Takes over the reference that a function of Python gave.
    fn owned(&self, made: New) -> Result<Object<'_>, Raised> {
        let pointer = NonNull::new(made.0).ok_or(Raised)?;
        Ok(Object { gil: self, pointer })
    }

    /// An object that somebody lends.
    ///
    /// # Safety
    /// - `pointer` is a live object.
    pub(crate) unsafe fn borrowed(&self, pointer: *mut PyObject) -> Result<Object<'_>, Raised> {
        // SAFETY: a live object by the caller's promise; NULL does nothing.
        unsafe { self.functions.Py_IncRef(pointer) };
        self.owned(New(pointer))
    }

    /// Forgets the exception.
    pub(crate) fn clear(&self, _raised: Raised) {
        // SAFETY: the lock is held.
        unsafe { self.functions.PyErr_Clear() };
    }

    /// Raises `MemoryError`.
    pub(crate) fn no_memory(&self) -> Raised {
        // SAFETY: the lock is held; it answers NULL for callers that return objects.
        unsafe { self.functions.PyErr_NoMemory() };
        Raised
    }

    /// Whether the exception is of this very class.
    pub(crate) fn is_of(&self, _raised: &Raised, class: &Object<'_>) -> bool {
        // SAFETY: the lock is held; it answers the class of the exception, and lends it.
        let raised = unsafe { self.functions.PyErr_Occurred() };
        raised == class.as_ptr()
    }

    /// Prints the exception with its traceback on standard error, and forgets it. `SystemExit` is printed, too:
    /// Python's `PyErr_Print` would end the process.
    pub(crate) fn print(&self, _raised: Raised) {
        // SAFETY: the lock is held, and an exception is set; NULL stands for no object.
        unsafe { self.functions.PyErr_WriteUnraisable(ptr::null_mut()) };
    }

    pub(crate) fn text(&self, text: &str) -> Result<Object<'_>, Raised> {
        let (data, size) = (text.as_ptr().cast(), text.len().cast_signed());
        // SAFETY: as many bytes as it says; a new reference.
        self.owned(unsafe { self.functions.PyUnicode_FromStringAndSize(data, size) })
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<Object<'_>, Raised> {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
        // SAFETY: as many bytes as it says; a new reference.
        self.owned(unsafe { self.functions.PyBytes_FromStringAndSize(data, size) })
    }

    /// A copy of what has the buffer protocol.
    pub(crate) fn bytes_of(&self, object: &Object<'_>) -> Result<Object<'_>, Raised> {
        // SAFETY: a live object; a new reference.
        self.owned(unsafe { self.functions.PyBytes_FromObject(object.as_ptr()) })
    }

    pub(crate) fn number(&self, number: i64) -> Result<Object<'_>, Raised> {
        // SAFETY: the lock is held; a new reference.
        self.owned(unsafe { self.functions.PyLong_FromLongLong(number) })
    }

    pub(crate) fn float(&self, number: f64) -> Result<Object<'_>, Raised> {
        // SAFETY: the lock is held; a new reference.
        self.owned(unsafe { self.functions.PyFloat_FromDouble(number) })
    }

    pub(crate) fn truth(&self, truth: bool) -> Result<Object<'_>, Raised> {
        // SAFETY: the lock is held; a new reference.
        self.owned(unsafe { self.functions.PyBool_FromLong(c_long::from(truth)) })
    }

    /// What a function without an answer gives.
    pub(crate) fn none(&self) -> Result<Object<'_>, Raised> {
        // SAFETY: it lives as long as Python.
        unsafe { self.borrowed(self.functions.none.load(Ordering::Relaxed)) }
    }

    /// A capsule that owns the tensor until somebody takes it out.
    pub(crate) fn capsule(&self, tensor: Managed) -> Result<Object<'_>, Raised> {
        let tensor = tensor.into_raw();
        let (data, name) = (tensor.as_ptr().cast(), tensor::NAME.as_ptr());
        let destructor = Some(tensor::DESTRUCTOR);
        // SAFETY: not NULL, a static name, and a destructor that fits it.
        let capsule = unsafe { self.functions.PyCapsule_New(data, name, destructor) };
        if capsule.is_null() {
            // SAFETY: the tensor that was given up above, which nobody took.
            drop(unsafe { Managed::from_raw(tensor) });
        }
        self.owned(New(capsule))
    }

    /// A capsule with nothing in it, to know the others by.
    pub(crate) fn empty_capsule(&self) -> Result<Object<'_>, Raised> {
        let nothing = NonNull::<u8>::dangling().as_ptr().cast();
        // SAFETY: not NULL, and nobody reads it; a static name, and nothing to end.
        let capsule = unsafe {
            self.functions
                .PyCapsule_New(nothing, c"nothing".as_ptr(), None)
        };
        self.owned(New(capsule))
    }

    pub(crate) fn tuple(&self, items: Vec<Object<'_>>) -> Result<Object<'_>, Raised> {
        // SAFETY: the lock is held.
        let tuple = unsafe { self.functions.PyTuple_New(items.len().cast_signed()) };
        let tuple = self.owned(tuple)?;
        for (place, item) in (0..).zip(items) {
            let item = item.into_raw();
            // SAFETY: a new tuple with this place, which takes the reference over.
            if unsafe { self.functions.PyTuple_SetItem(tuple.as_ptr(), place, item) } != 0 {
                return Err(Raised);
            }
        }
        Ok(tuple)
    }

    pub(crate) fn dictionary(&self) -> Result<Object<'_>, Raised> {
        // SAFETY: the lock is held.
        self.owned(New(unsafe { self.functions.PyDict_New() }))
    }

    pub(crate) fn import(&self, name: &CStr) -> Result<Object<'_>, Raised> {
        // SAFETY: a text.
        self.owned(New(unsafe {
            self.functions.PyImport_ImportModule(name.as_ptr())
        }))
    }

    /// Runs a file's text with `names` as its namespace.
    pub(crate) fn run(&self, text: &CStr, file: &CStr, names: &Object<'_>) -> Result<(), Raised> {
        const FILE: std::ffi::c_int = 257;
        // SAFETY: two texts; the number asks for the grammar of a file.
        let code = unsafe {
            self.functions
                .Py_CompileString(text.as_ptr(), file.as_ptr(), FILE)
        };
        let code = self.owned(New(code))?;
        let (code, names) = (code.as_ptr(), names.as_ptr());
        // SAFETY: code and a dictionary, which serves as both.
        let done = unsafe { self.functions.PyEval_EvalCode(code, names, names) };
        self.owned(New(done)).map(drop)
    }

    /// A function of ours as Python calls it. `definition` is kept for ever.
    pub(crate) fn function(
        &self,
        definition: &'static MethodDefinition,
    ) -> Result<Object<'_>, Raised> {
        self.new_function(definition, ptr::null_mut())
    }

    /// The same as a method of an object.
    pub(crate) fn function_of(
        &self,
        definition: &'static MethodDefinition,
        object: &Object<'_>,
    ) -> Result<Object<'_>, Raised> {
        self.new_function(definition, object.as_ptr())
    }

    fn new_function(
        &self,
        definition: &'static MethodDefinition,
        object: *mut PyObject,
    ) -> Result<Object<'_>, Raised> {
        let definition = ptr::from_ref(definition).cast_mut().cast();
        let module = ptr::null_mut();
        // SAFETY: a method's definition that lives for ever, and a live object or NULL; in no module.
        self.owned(unsafe { self.functions.PyCFunction_NewEx(definition, object, module) })
    }
}

impl std::fmt::Debug for Gil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gil")
    }
}

/// The lock is let go while this lives.
struct Released {
    functions: &'static Functions,
    state: ThreadState,
}

impl Released {
    fn now(functions: &'static Functions) -> Self {
        // SAFETY: only made where the lock is held.
        let state = unsafe { functions.PyEval_SaveThread() };
        Self { functions, state }
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        process::stay_if_python_ends();
        // SAFETY: the state of this thread, which let the lock go.
        unsafe { self.functions.PyEval_RestoreThread(self.state) };
    }
}

/// Runs what waits without the interpreter's lock, where this thread holds it.
pub(crate) fn without_lock<T>(functions: &'static Functions, wait: impl FnOnce() -> T) -> T {
    let _taken_again = is_held(functions).then(|| Released::now(functions));
    wait()
}

/// Whether this is a thread of Python's, or one that took its lock.
pub(crate) fn is_known(functions: &Functions) -> bool {
    // SAFETY: may be asked at any time.
    let is_running = unsafe { functions.Py_IsInitialized() } != 0;
    // SAFETY: every thread may ask while Python runs; NULL for one that Python does not know.
    is_running && !unsafe { functions.PyGILState_GetThisThreadState() }.is_null()
}

fn is_held(functions: &Functions) -> bool {
    // SAFETY: Python runs, and knows this thread.
    is_known(functions) && unsafe { functions.PyGILState_Check() } != 0
}

/// Takes the lock for `work` on a thread that Python does not need to know.
pub(crate) fn attached<T>(functions: &'static Functions, work: impl FnOnce(&Gil) -> T) -> T {
    // SAFETY: Python runs and does not end, which callers see to.
    let before = unsafe { functions.PyGILState_Ensure() };
    // SAFETY: taken above, and let go below.
    let done = work(&unsafe { Gil::assume(functions) });
    // SAFETY: the other half, on the same thread.
    unsafe { functions.PyGILState_Release(before) };
    done
}

/// One reference to an object, given back while the lock is held.
pub(crate) struct Object<'gil> {
    gil: &'gil Gil,
    pointer: NonNull<PyObject>,
}

impl<'gil> Object<'gil> {
    /// The object, which stays this reference's.
    pub(crate) const fn as_ptr(&self) -> *mut PyObject {
        self.pointer.as_ptr()
    }

    /// The reference. The caller gives it back.
    pub(crate) fn into_raw(self) -> *mut PyObject {
        std::mem::ManuallyDrop::new(self).as_ptr()
    }

    pub(crate) fn attribute(&self, name: &CStr) -> Result<Self, Raised> {
        let functions = self.gil.functions;
        // SAFETY: an object and a text.
        let found = unsafe { functions.PyObject_GetAttrString(self.as_ptr(), name.as_ptr()) };
        self.gil.owned(found)
    }

    /// Calls it with a tuple of arguments.
    pub(crate) fn call(&self, arguments: Vec<Self>) -> Result<Self, Raised> {
        let arguments = self.gil.tuple(arguments)?;
        let (function, none) = (self.as_ptr(), ptr::null_mut());
        let functions = self.gil.functions;
        // SAFETY: an object, a tuple and no keywords.
        let answer = unsafe { functions.PyObject_Call(function, arguments.as_ptr(), none) };
        self.gil.owned(answer)
    }

    /// Enters a value into a dictionary.
    pub(crate) fn put(&self, name: &CStr, value: &Object<'_>) -> Result<(), Raised> {
        let functions = self.gil.functions;
        // SAFETY: objects and a text; what is no dictionary gives an error.
        let failed =
            unsafe { functions.PyDict_SetItemString(self.as_ptr(), name.as_ptr(), value.as_ptr()) };
        if failed == 0 { Ok(()) } else { Err(Raised) }
    }

    /// A value of a dictionary.
    pub(crate) fn get(&self, name: &CStr) -> Result<Self, Raised> {
        let functions = self.gil.functions;
        // SAFETY: a dictionary and a text; a borrowed reference, or NULL.
        let value = unsafe { functions.PyDict_GetItemString(self.as_ptr(), name.as_ptr()) };
        // SAFETY: an object that the dictionary keeps, or NULL.
        unsafe { self.gil.borrowed(value) }
    }

    /// An item of a tuple.
    pub(crate) fn item(&self, place: isize) -> Result<Self, Raised> {
        let functions = self.gil.functions;
        // SAFETY: a borrowed reference, or NULL with an exception for another object or place.
        let item = unsafe { functions.PyTuple_GetItem(self.as_ptr(), place) };
        // SAFETY: an object that the tuple keeps, or NULL.
        unsafe { self.gil.borrowed(item) }
    }

    pub(crate) fn to_i64(&self) -> Result<i64, Raised> {
        // SAFETY: an object; -1 with an exception for what is no number.
        let number = unsafe { self.gil.functions.PyLong_AsLongLong(self.as_ptr()) };
        if number == -1 && self.is_raised() {
            return Err(Raised);
        }
        Ok(number)
    }

    pub(crate) fn to_f64(&self) -> Result<f64, Raised> {
        // SAFETY: an object; -1 with an exception for what is no number.
        let number = unsafe { self.gil.functions.PyFloat_AsDouble(self.as_ptr()) };
        if number.to_bits() == (-1.0_f64).to_bits() && self.is_raised() {
            return Err(Raised);
        }
        Ok(number)
    }

    /// The content of Python's `bytes`, with room for one more behind it. Where there is no memory for
    /// as many as the script made, that is Python's `MemoryError`.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Raised> {
        let functions = self.gil.functions;
        let (mut data, mut size) = (ptr::null_mut(), 0);
        // SAFETY: an object, and two places to write to.
        if unsafe { functions.PyBytes_AsStringAndSize(self.as_ptr(), &raw mut data, &raw mut size) }
            != 0
        {
            return Err(Raised);
        }
        // SAFETY: as many bytes as it said, which live as long as the object and never change.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size.unsigned_abs()) };
        let mut copied = Vec::new();
        let room = copied.try_reserve_exact(bytes.len().saturating_add(1));
        room.map_err(|_none| self.gil.no_memory())?;
        copied.extend_from_slice(bytes);
        Ok(copied)
    }

    /// Takes the tensor out of its capsule.
    pub(crate) fn to_tensor(&self) -> Result<Managed, Raised> {
        let functions = self.gil.functions;
        // SAFETY: an object and a static name; NULL with an exception where they do not fit.
        let data = unsafe { functions.PyCapsule_GetPointer(self.as_ptr(), tensor::NAME.as_ptr()) };
        let tensor = NonNull::new(data).ok_or(Raised)?;
        // SAFETY: a capsule and a static name.
        if unsafe { functions.PyCapsule_SetName(self.as_ptr(), tensor::USED.as_ptr()) } != 0 {
            return Err(Raised);
        }
        // SAFETY: by its name the capsule owned a live tensor, and by its new one it does no more.
        Ok(unsafe { Managed::from_raw(tensor.cast()) })
    }

    fn is_raised(&self) -> bool {
        // SAFETY: the lock is held.
        !unsafe { self.gil.functions.PyErr_Occurred() }.is_null()
    }
}

impl std::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", self.pointer)
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and the token says that the lock is held.
        unsafe { self.gil.functions.Py_DecRef(self.as_ptr()) };
    }
}
