//! How `NumPy` before 2.4 gets the dtype of a tensor.
//!
//! `numpy.result_type` and `numpy.can_cast` take an argument that is not an array for a dtype. Since 2.4 they ask it for
//! `__numpy_dtype__`. Before, they read its `.dtype` and warn of, or refuse, every dtype that is not `NumPy`'s own. Their
//! dispatch comes first, by `__array_function__` of the type. That is hidden from instances, because other libraries take
//! every object that has it for a full array.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

use crate::interpreter::calls;

/// The attribute `__array_function__` of the type [`Tensor`](crate::tensors::tensor::Tensor).
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug)]
pub(crate) struct NumpyDispatch;

#[pymethods]
impl NumpyDispatch {
    #[expect(clippy::unused_self, reason = "a method of Python's")]
    fn __get__<'py>(
        &self,
        instance: &Bound<'py, PyAny>,
        _owner: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = instance.py();
        let function = calls::function(py, ("crossdock._numpy", "dispatch"), ())?;
        if instance.is_none() && !function.is_none() {
            return Ok(function);
        }
        Err(PyAttributeError::new_err("__array_function__"))
    }
}
