//! Views of a tensor: indexing, slicing, other axes, another shape, its bytes. They share its memory.
#![expect(unsafe_code, reason = "passes arrays to the function table")]

use crossdock_api::{
    CopyMode, DLDataType, MAX_RANK, MemoryFlags, Out, Owned, XdAxisSlice, XdLayout, XdTensor,
};
use pyo3::exceptions::{PyBufferError, PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyIterator, PySlice, PyTuple};

use crate::interpreter::calls;
use crate::interpreter::integers::{integers, is_sequence};
use crate::interpreter::refusals::{instead, showing};
use crate::link::error::copy_required;
use crate::link::handle::made;
use crate::link::table::api;
use crate::tensors::content::axes;
use crate::tensors::tensor::Tensor;

const BYTE: DLDataType = DLDataType {
    code: 1,
    bits: 8,
    lanes: 1,
};

/// A basic index: a slice of each axis, and the shape that is left.
#[derive(Default)]
struct Index {
    slices: Vec<XdAxisSlice>,
    shape: Vec<i64>,
}

impl Index {
    /// Reads `key` for a tensor of these extents.
    fn of(key: &Bound<'_, PyAny>, extents: &[i64]) -> PyResult<Self> {
        let items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
            Ok(items) => items.iter().collect(),
            Err(_) => vec![key.clone()],
        };
        let is_ellipsis = |item: &&Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
        let ellipses = items.iter().filter(is_ellipsis).count();
        if ellipses > 1 {
            return Err(PyIndexError::new_err("an index has one `...` at most"));
        }
        let used = items.iter().filter(|item| !item.is_none()).count() - ellipses;
        let Some(rest) = extents.len().checked_sub(used) else {
            return Err(PyIndexError::new_err(format!(
                "{used} indexes for a tensor with {}",
                axes(extents.len())
            )));
        };
        let (mut index, mut left) = (Self::default(), extents.iter());
        for item in &items {
            if is_ellipsis(&item) {
                left.by_ref()
                    .take(rest)
                    .for_each(|extent| index.whole(*extent));
            } else if item.is_none() {
                index.shape.push(1);
            } else if let Some(extent) = left.next() {
                index.part(item, *extent)?;
            }
        }
        left.for_each(|extent| index.whole(*extent));
        Ok(index)
    }

    /// A whole axis.
    fn whole(&mut self, extent: i64) {
        self.shape.push(extent);
        self.slices.push(XdAxisSlice {
            start: 0,
            step: 1,
            len: extent,
        });
    }

    /// A slice of an axis, or one index, which removes it.
    fn part(&mut self, item: &Bound<'_, PyAny>, extent: i64) -> PyResult<()> {
        if let Ok(slice) = item.cast::<PySlice>() {
            let found = slice.indices(isize::try_from(extent)?)?;
            let len = i64::try_from(found.slicelength)?;
            let (start, step) = match len {
                0 => (0, 1),
                _ => (found.start as i64, found.step as i64),
            };
            self.shape.push(len);
            self.slices.push(XdAxisSlice { start, step, len });
            return Ok(());
        }
        let at = position(item, extent)?;
        self.slices.push(XdAxisSlice {
            start: at,
            step: 1,
            len: 1,
        });
        Ok(())
    }
}

/// One index of an axis; negative ones count from its end.
fn position(item: &Bound<'_, PyAny>, extent: i64) -> PyResult<i64> {
    let wrong = |error: &PyErr| {
        if error.is_instance_of::<PyOverflowError>(item.py()) {
            return Ok(outside(item, extent));
        }
        Ok(PyIndexError::new_err(format!(
            "an index is made of integers, slices, `...` and None, not {}: for a mask or a list of indexes \
             take `t.numpy()[..]`",
            item.get_type().name()?
        )))
    };
    let number = match item.is_instance_of::<PyBool>() {
        true => Err(PyTypeError::new_err("a bool is no index")),
        false => item.extract::<i64>(),
    };
    let number = number.map_err(|error| instead(item.py(), error, wrong))?;
    let at = match number < 0 {
        true => number.saturating_add(extent),
        false => number,
    };
    if (0..extent).contains(&at) {
        return Ok(at);
    }
    Err(outside(item, extent))
}

/// The extents in the positional arguments of a call: one by one, or all in one sequence.
fn extents_in(args: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    if args.is_empty() {
        return Err(PyTypeError::new_err(
            "reshape() needs a shape: `()` is that of one element",
        ));
    }
    match integers(args) {
        Err(error) if args.len() == 1 && error.is_instance_of::<PyTypeError>(args.py()) => {
            let first = args.get_item(0)?;
            if is_sequence(&first) {
                return integers(&first);
            }
            Err(error)
        }
        extents => extents,
    }
}

fn outside(item: &Bound<'_, PyAny>, extent: i64) -> PyErr {
    showing(item, |item| {
        PyIndexError::new_err(format!("index {item} is outside an axis of {extent}"))
    })
}

impl Tensor {
    fn reshaped(&self, shape: &[i64]) -> PyResult<Self> {
        let ndim = u32::try_from(shape.len()).unwrap_or(u32::MAX);
        let (handle, first) = (self.handle(), shape.as_ptr());
        // SAFETY: `ndim` numbers that live for the call.
        let call = |out: Out<'_, Owned<XdTensor>>| unsafe {
            (api().tensor_reshape)(handle.lend(), ndim, first, out)
        };
        Self::new(made(call)?)
    }

    fn permuted(&self, axes: &[u32]) -> PyResult<Self> {
        let count = u32::try_from(axes.len()).unwrap_or(u32::MAX);
        let (handle, first) = (self.handle(), axes.as_ptr());
        // SAFETY: `count` numbers that live for the call.
        let call = |out: Out<'_, Owned<XdTensor>>| unsafe {
            (api().tensor_permute)(handle.lend(), count, first, out)
        };
        Self::new(made(call)?)
    }

    fn sliced(&self, slices: &[XdAxisSlice]) -> PyResult<Self> {
        let count = u32::try_from(slices.len()).unwrap_or(u32::MAX);
        let (handle, first) = (self.handle(), slices.as_ptr());
        // SAFETY: `count` slices that live for the call.
        let call = |out: Out<'_, Owned<XdTensor>>| unsafe {
            (api().tensor_slice)(handle.lend(), count, first, out)
        };
        Self::new(made(call)?)
    }

    /// Its bytes as other elements, the first of which lies `offset` bytes after its own.
    pub(crate) fn reinterpreted(
        &self,
        offset: i64,
        layout: XdLayout<'_>,
        read_only: bool,
    ) -> PyResult<Self> {
        let flags = match read_only {
            true => MemoryFlags::READ_ONLY,
            false => MemoryFlags(0),
        };
        let handle = self.handle();
        Self::new(made(|out| {
            (api().tensor_reinterpret)(handle.lend(), offset, (&layout).into(), flags, out)
        })?)
    }

    /// `shape` with its `-1` replaced.
    fn whole_shape(&self, mut shape: Vec<i64>) -> PyResult<Vec<i64>> {
        let size = i128::from(self.info()?.numel);
        let known = shape.iter().filter(|extent| **extent != -1);
        let known = known.fold(1_i128, |all, extent| {
            all.saturating_mul(i128::from(*extent))
        });
        let mut open = shape.iter_mut().filter(|extent| **extent == -1);
        let fits = match (open.next(), open.next()) {
            (None, _) => known == size,
            (Some(extent), None) if known > 0 && size % known == 0 => {
                *extent = i64::try_from(size / known)?;
                true
            }
            _ => false,
        };
        if fits && shape.iter().all(|extent| *extent >= 0) {
            return Ok(shape);
        }
        Err(PyValueError::new_err(format!(
            "{size} elements do not have shape {shape:?}"
        )))
    }
}

#[pymethods]
impl Tensor {
    /// A part as a view: integers, slices, `...` and `None` (a new axis), as NumPy's basic indexing.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let index = Index::of(key, self.extents()?)?;
        let part = self.sliced(&index.slices)?;
        if part.extents()? == index.shape {
            return Ok(part);
        }
        part.reshaped(&index.shape)
    }

    /// Replaces the elements of a part by those of any tensor or array of the same dtype, or by a
    /// number; smaller shapes are repeated as NumPy does.
    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let part = Bound::new(key.py(), self.__getitem__(key)?)?;
        let assign = ("crossdock._values", "assign");
        calls::function(key.py(), assign, (part, value))?;
        Ok(())
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.extents()? {
            [first, ..] => Ok(usize::try_from(*first)?),
            [] => Err(PyTypeError::new_err("a 0-d tensor has no length")),
        }
    }

    /// `TypeError`: without it, Python compares the rows themselves, which answers `False`.
    #[expect(unused_variables, reason = "the protocol passes the value")]
    fn __contains__(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "crossdock compares no values: ask the list, `value in t.tolist()`, or NumPy, `(t.numpy() \
             == value).any()`",
        ))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyIterator>> {
        if slf.get().extents()?.is_empty() {
            return Err(PyTypeError::new_err("a 0-d tensor cannot be iterated over"));
        }
        let builtins = slf.py().import("builtins")?;
        let indexes = builtins.call_method1("range", (slf.len()?,))?;
        let items = builtins.call_method1("map", (slf.getattr("__getitem__")?, indexes))?;
        items.try_iter()
    }

    /// The same elements in another shape, one extent of which may be `-1`: a view where that works.
    ///
    /// The shape is one sequence, or one integer for each axis. `copy=None` copies where a view does not
    /// work, `True` always, `False` never: it raises `CopyRequiredError` instead. `ValueError` where the number of elements differs. Array API, `reshape`.
    #[pyo3(signature = (*shape, copy=None))]
    fn reshape(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        copy: Option<bool>,
    ) -> PyResult<Self> {
        let shape = self.whole_shape(extents_in(shape)?)?;
        let view = match copy {
            Some(true) => return self.moved(py, None, CopyMode::ALWAYS)?.reshaped(&shape),
            Some(false) | None => self.reshaped(&shape),
        };
        match view {
            Err(_) if copy.is_none() && shape.len() <= MAX_RANK => {
                self.moved(py, None, CopyMode::ALWAYS)?.reshaped(&shape)
            }
            Err(_) if copy == Some(false) && shape.len() <= MAX_RANK => {
                let strides = self.steps()?;
                let why = format!("from strides {strides:?} to shape {shape:?} only a copy leads");
                Err(copy_required(py, why))
            }
            view => view,
        }
    }

    /// The bytes of a contiguous host tensor as a 1-d `uint8` view, for dtypes that the buffer protocol has no
    /// format for. `BufferError` if the tensor is not contiguous, or not in memory that the host reaches.
    fn raw(&self) -> PyResult<Self> {
        if !self.is_host_reachable()? {
            return Err(PyBufferError::new_err(self.unreachable_text()?));
        }
        if self.info()?.contiguous == 0 {
            return Err(PyBufferError::new_err(
                "the tensor is not contiguous in C order: use `.copy()` first",
            ));
        }
        let size = [i64::try_from(self.info()?.nbytes)?];
        self.reinterpreted(0, XdLayout::compact(BYTE, &size), false)
    }

    /// A view with its axes in another order; negative ones count from the end. Array API.
    fn permute_dims(&self, axes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let axes = integers(axes)?;
        let rank = i64::try_from(self.extents()?.len())?;
        let axis = |axis: &i64| {
            let at = if *axis < 0 { axis + rank } else { *axis };
            u32::try_from(at).map_err(|error| {
                let why = format!("axis {axis} is outside a tensor of rank {rank}: {error}");
                PyValueError::new_err(why)
            })
        };
        let axes: Vec<u32> = axes.iter().map(axis).collect::<PyResult<_>>()?;
        self.permuted(&axes)
    }

    /// The transposed matrix as a view; `ValueError` unless there are two axes.
    #[getter(T)]
    fn transposed(&self) -> PyResult<Self> {
        match self.extents()?.len() {
            2 => self.permuted(&[1, 0]),
            rank => Err(PyValueError::new_err(format!(
                "T is for 2 axes and this tensor has {rank}: use `mT` or `permute_dims`"
            ))),
        }
    }

    /// The last two axes exchanged, as a view; `ValueError` with fewer than two.
    #[getter(mT)]
    fn matrix_transposed(&self) -> PyResult<Self> {
        let rank = self.info()?.ndim;
        let Some(last) = rank.checked_sub(2) else {
            return Err(PyValueError::new_err("mT needs at least 2 axes"));
        };
        let mut axes: Vec<u32> = (0..last).collect();
        axes.extend([last + 1, last]);
        self.permuted(&axes)
    }
}
