//! Tensors whose values differ from those in memory: `PyTorch` marks conjugated and negated views by a bit of the
//! tensor. DLPack and the CUDA array interface describe the memory alone.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::dlpack::producers::traits_of;
use crate::dlpack::vectorcall::names;

/// Rejects a tensor whose negative bit is set: `PyTorch` exports its memory as if the bit were not there.
///
/// # Errors
/// `BufferError`, and what the tensor raises.
pub(crate) fn reject_negated(x: &Bound<'_, PyAny>) -> PyResult<()> {
    if traits_of(x)?.has_sign_bits && is_set(x, &names(x.py())?.is_neg)? {
        return Err(PyBufferError::new_err(
            "the tensor's negative bit is set, and exports ignore it: call resolve_neg() first",
        ));
    }
    Ok(())
}

/// Whether the conjugate bit of `x` is set. `PyTorch` does not export such a tensor by `__dlpack__`.
///
/// # Errors
/// What the tensor raises.
pub(crate) fn is_conjugated(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(traits_of(x)?.has_sign_bits && is_set(x, &names(x.py())?.is_conj)?)
}

/// Rejects a tensor with either bit.
///
/// # Errors
/// As [`reject_negated`].
pub(crate) fn reject_sign_bits(x: &Bound<'_, PyAny>) -> PyResult<()> {
    reject_negated(x)?;
    if is_conjugated(x)? {
        return Err(PyBufferError::new_err(
            "the tensor's conjugate bit is set, and exports ignore it: call resolve_conj() first",
        ));
    }
    Ok(())
}

fn is_set(x: &Bound<'_, PyAny>, bit: &Py<PyString>) -> PyResult<bool> {
    names(x.py())?.ask(bit, x)?.is_truthy()
}
