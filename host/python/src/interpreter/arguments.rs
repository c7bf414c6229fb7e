//! Functions that Python calls without a tuple or a dict, for the few calls that must be fast.
#![expect(
    unsafe_code,
    reason = "reads argument vectors, and makes functions for Python"
)]

use std::ffi::CStr;

use crossdock_api::fence;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::types::PyTuple;
use pyo3::{Borrowed, ffi, prelude::*};

/// A tuple of names and how many they are.
type Names<'py> = (Borrowed<'py, 'py, PyAny>, usize);

/// The arguments of one call.
pub(crate) struct Arguments<'py> {
    py: Python<'py>,
    values: &'py [*mut ffi::PyObject],
    positional: usize,
    names: *mut ffi::PyObject,
}

impl<'py> Arguments<'py> {
    /// # Safety
    /// - They are what Python passes to a `METH_FASTCALL | METH_KEYWORDS` function, during its call.
    pub(crate) unsafe fn new(
        py: Python<'py>,
        args: *const *mut ffi::PyObject,
        nargs: ffi::Py_ssize_t,
        names: *mut ffi::PyObject,
    ) -> Self {
        let positional = nargs.unsigned_abs();
        let named = if names.is_null() {
            0
        } else {
            // SAFETY: a tuple of names.
            unsafe { ffi::PyTuple_Size(names) }.unsigned_abs()
        };
        let values = if args.is_null() {
            &[][..]
        } else {
            // SAFETY: Python passes as many values as there are positions and names.
            unsafe { std::slice::from_raw_parts(args, positional + named) }
        };
        Self {
            py,
            values,
            positional,
            names,
        }
    }

    pub(crate) const fn has_keywords(&self) -> bool {
        !self.names.is_null()
    }

    /// The tuple of the keywords and their number, where the last one is this very object.
    pub(crate) fn names_up_to(&self, name: *mut ffi::PyObject) -> Option<Names<'py>> {
        let count = self.values.len().checked_sub(self.positional)?;
        // SAFETY: the tuple has a name for every keyword's value.
        let last = unsafe { ffi::PyTuple_GetItem(self.names, count.checked_sub(1)?.cast_signed()) };
        // SAFETY: a tuple that lives during the call.
        let names = || unsafe { Borrowed::from_ptr(self.py, self.names) };
        (last == name).then(|| (names(), count))
    }

    /// The one positional argument.
    ///
    /// # Errors
    /// `TypeError` for another number of them.
    pub(crate) fn only_positional(&self, function: &str) -> PyResult<Borrowed<'py, 'py, PyAny>> {
        match (self.positional, self.values.first()) {
            // SAFETY: the caller's reference lives during the call.
            (1, Some(value)) => Ok(unsafe { Borrowed::from_ptr(self.py, *value) }),
            (given, _) => Err(PyTypeError::new_err(format!(
                "{function}() takes exactly one positional argument ({given} given)"
            ))),
        }
    }

    /// No positional argument at all.
    ///
    /// # Errors
    /// `TypeError` where there is one.
    pub(crate) fn no_positional(&self, function: &str) -> PyResult<()> {
        match self.positional {
            0 => Ok(()),
            given => Err(PyTypeError::new_err(format!(
                "{function}() takes keywords only ({given} positional given)"
            ))),
        }
    }

    /// The value of the keyword whose name is this very object, if all that is given are keywords
    /// and the others are `None` and named by `others`. `None` asks for a look at all of them.
    pub(crate) fn only_keyword(
        &self,
        name: *mut ffi::PyObject,
        others: [*mut ffi::PyObject; 3],
    ) -> Option<Borrowed<'py, 'py, PyAny>> {
        if self.positional != 0 {
            return None;
        }
        let mut found = None;
        for (at, value) in self.values.iter().enumerate() {
            // SAFETY: the tuple has a name for every keyword's value.
            let given = unsafe { ffi::PyTuple_GetItem(self.names, at.cast_signed()) };
            // SAFETY: the caller's reference lives during the call.
            let value = unsafe { Borrowed::from_ptr(self.py, *value) };
            if given == name {
                found = Some(value);
            } else if !others.contains(&given) || !value.is_none() {
                return None;
            }
        }
        found
    }

    /// The keywords' values by name.
    ///
    /// # Errors
    /// `TypeError` for a name that is not among them.
    pub(crate) fn keywords<const N: usize>(
        &self,
        function: &str,
        names: [&str; N],
    ) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
        let mut found = [const { None }; N];
        if self.names.is_null() {
            return Ok(found);
        }
        // SAFETY: a borrowed tuple that lives during the call.
        let given = unsafe { Bound::from_borrowed_ptr(self.py, self.names) };
        let given = given.cast_into::<PyTuple>()?;
        for (name, value) in given.iter().zip(self.values.iter().skip(self.positional)) {
            let name: String = name.extract()?;
            let at = names.iter().position(|known| *known == name);
            let Some(place) = at.and_then(|at| found.get_mut(at)) else {
                return Err(PyTypeError::new_err(format!(
                    "{function}() got an unexpected keyword argument '{name}'"
                )));
            };
            *place = Some(self.share(*value));
        }
        Ok(found)
    }

    fn share(&self, value: *mut ffi::PyObject) -> Bound<'py, PyAny> {
        // SAFETY: the caller's reference lives during the call.
        unsafe { Bound::from_borrowed_ptr(self.py, value) }
    }
}

/// Runs the body of such a function: its error is raised, and no panic leaves it.
pub(crate) fn fence_entry(
    body: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls its functions on threads that are attached.
    let py = unsafe { Python::assume_attached() };
    // Raised inside: what comes through the fence is as small as can be.
    let answer = fence(|| body(py).unwrap_or_else(raise));
    answer.unwrap_or_else(raise_bug)
}

/// Makes an error the exception of this thread.
#[cold]
fn raise(error: PyErr) -> *mut ffi::PyObject {
    Python::attach(|py| error.restore(py));
    std::ptr::null_mut()
}

#[cold]
fn raise_bug() -> *mut ffi::PyObject {
    raise(PyRuntimeError::new_err("crossdock met a bug of its own"))
}

/// What Python calls.
pub(crate) enum Entry {
    /// With positions and keywords, which [`Arguments`] reads.
    Keywords(ffi::PyCFunctionFastWithKeywords),
    /// With nothing but the object.
    Alone(ffi::PyCFunction),
}

/// How Python sees such a function. It lives as long as the process.
fn definition(name: &'static CStr, doc: &'static CStr, entry: Entry) -> *mut ffi::PyMethodDef {
    let (ml_meth, ml_flags) = match entry {
        Entry::Keywords(function) => (
            ffi::PyMethodDefPointer {
                PyCFunctionFastWithKeywords: function,
            },
            ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ),
        Entry::Alone(function) => (
            ffi::PyMethodDefPointer {
                PyCFunction: function,
            },
            ffi::METH_NOARGS,
        ),
    };
    Box::into_raw(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth,
        ml_flags,
        ml_doc: doc.as_ptr(),
    }))
}

/// A function of the module.
///
/// # Errors
/// What Python raises.
pub(crate) fn function<'py>(
    module: &Bound<'py, PyModule>,
    name: &'static CStr,
    doc: &'static CStr,
    function: ffi::PyCFunctionFastWithKeywords,
) -> PyResult<Bound<'py, PyAny>> {
    let of = module.name()?;
    let definition = definition(name, doc, Entry::Keywords(function));
    // SAFETY: a definition that is never freed, and two live objects.
    let made = unsafe { ffi::PyCFunction_NewEx(definition, module.as_ptr(), of.as_ptr()) };
    // SAFETY: a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(module.py(), made) }
}

/// Puts a method on a class.
///
/// # Errors
/// What Python raises.
pub(crate) fn add_method(
    class: &Bound<'_, pyo3::types::PyType>,
    name: &'static CStr,
    doc: &'static CStr,
    method: Entry,
) -> PyResult<()> {
    let definition = definition(name, doc, method);
    // SAFETY: a definition that is never freed, and a live class.
    let made = unsafe { ffi::PyDescr_NewMethod(class.as_type_ptr(), definition) };
    // SAFETY: a new reference, or NULL with an exception.
    let made = unsafe { Bound::from_owned_ptr_or_err(class.py(), made) }?;
    class.setattr(&*name.to_string_lossy(), made)
}
