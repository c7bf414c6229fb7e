//! `crossdock.Dtype`, and a constant for every DLPack dtype.

use crossdock_api::{DLDataType, NameText, Out};
use pyo3::exceptions::{PyAttributeError, PyImportError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyInt, PyString};

use crate::interpreter::calls::attribute_if_any;
use crate::interpreter::refusals::{showing, unless_refused};
use crate::link::error::check;
use crate::link::handle::c_text;
use crate::link::table::api;
use crate::objects::typestr;

/// The type of a tensor's elements. `str()` is its name, as in `"float32"`, to which it is equal.
#[pyclass(frozen, module = "crossdock")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dtype(pub(crate) DLDataType);

impl Dtype {
    /// The dtype with a name, as in `float32` or `int8x4`.
    pub(crate) fn named(name: &str) -> PyResult<Self> {
        let name = c_text(name)?;
        let mut dtype = DLDataType {
            code: 0,
            bits: 0,
            lanes: 0,
        };
        check((api().dtype_from_text)(
            name.as_c_str().into(),
            Out::from(&mut dtype),
        ))?;
        Ok(Self(dtype))
    }

    /// A dtype as callers name it: a [`Dtype`], a name, a `typestr` as in `f4` or `<f4`, a class of
    /// Python's numbers, or an object with a `name` (NumPy's).
    pub(crate) fn from_any(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(dtype) = spec.cast::<Self>() {
            return Ok(*dtype.get());
        }
        if let Some(name) = name_of_class(spec) {
            return Self::named(name);
        }
        if let Some(native) = attribute_if_any(spec, "isnative")?
            && !native.is_truthy()?
        {
            return Err(showing(spec, |spec| {
                PyValueError::new_err(format!(
                    "{spec} is not in this machine's byte order, in which all tensors are"
                ))
            }));
        }
        let Some(name) = name_of(spec)? else {
            return Err(showing(spec, |spec| {
                PyTypeError::new_err(format!(
                    "{spec} is no dtype: give crossdock.float32 or \"float32\""
                ))
            }));
        };
        match written_short(spec.py(), &name) {
            Some(dtype) => Ok(Self(dtype?)),
            None => Self::named(&name),
        }
    }

    pub(crate) fn name(self) -> PyResult<String> {
        let mut name = NameText::EMPTY;
        check((api().dtype_text)(self.0, Out::from(&mut name)))?;
        Ok(name.to_c_str().to_string_lossy().into_owned())
    }
}

/// The dtype that NumPy has for a class of Python's numbers; that of `bool` has its name.
fn name_of_class(spec: &Bound<'_, PyAny>) -> Option<&'static str> {
    let py = spec.py();
    let classes = [
        (py.get_type::<PyInt>(), "int64"),
        (py.get_type::<PyFloat>(), "float64"),
        (py.get_type::<PyComplex>(), "complex128"),
    ];
    let found = classes.iter().find(|(class, _)| spec.is(class));
    found.map(|(_, name)| *name)
}

/// The dtype of a `typestr`, whose byte order may be missing; `None` for other texts.
fn written_short(py: Python<'_>, text: &str) -> Option<PyResult<DLDataType>> {
    if text.starts_with(['<', '>', '=', '|']) {
        let wrong = |error: PyErr| PyValueError::new_err(error.value(py).to_string());
        return Some(typestr::dtype_of(text).map_err(wrong));
    }
    typestr::dtype_of(&format!("={text}")).ok().map(Ok)
}

/// A text as it is, or the name of another library's dtype: `numpy.dtype("f4").name`,
/// `numpy.float32.__name__`, and `torch.float32`, which says it as text alone.
fn name_of(spec: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(text) = spec.cast::<PyString>() {
        return unless_refused(spec.py(), text.extract());
    }
    for name in ["name", "__name__"] {
        if let Some(name) = attribute_if_any(spec, name)? {
            return unless_refused(spec.py(), name.extract());
        }
    }
    if spec.get_type().name()? != "dtype" {
        return Ok(None);
    }
    let text: String = spec.str()?.extract()?;
    Ok(Some(text.rsplit('.').next().unwrap_or_default().to_owned()))
}

/// What a dtype is compared with.
#[derive(FromPyObject)]
enum Comparable<'py> {
    Dtype(Bound<'py, Dtype>),
    Text(Bound<'py, PyString>),
}

#[pymethods]
impl Dtype {
    /// Its name.
    #[getter(name)]
    fn get_name(&self) -> PyResult<String> {
        self.name()
    }

    /// The bits of one lane.
    #[getter]
    const fn bits(&self) -> u8 {
        self.0.bits
    }

    /// The lanes of a vector type; 1 for others.
    #[getter]
    const fn lanes(&self) -> u16 {
        self.0.lanes
    }

    /// The bytes of one element; packed elements of less than a byte count as a whole one.
    #[getter]
    pub(crate) fn itemsize(&self) -> u32 {
        (u32::from(self.0.bits) * u32::from(self.0.lanes)).div_ceil(8)
    }

    /// NumPy's dtype of that name, which `numpy.dtype()` asks for: `numpy.zeros(3, crossdock.float32)`.
    /// An `AttributeError` if NumPy has none; `ml_dtypes` adds some. NumPy reads it since 2.4.
    #[getter]
    fn __numpy_dtype__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.dtype(py)
    }

    /// The same for NumPy before 2.4.
    #[getter]
    pub(crate) fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = self.name()?;
        let numpy = py.import("numpy");
        let found = numpy.and_then(|numpy| numpy.call_method1("dtype", (&name,)));
        found.map_err(|error| {
            // What Python asks of objects that may have none.
            match error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyImportError>(py)
            {
                true => PyAttributeError::new_err(format!("NumPy has no dtype {name}")),
                false => error,
            }
        })
    }

    /// Other objects are left to say themselves whether they are equal.
    fn __eq__(&self, other: Comparable<'_>) -> PyResult<bool> {
        match other {
            Comparable::Dtype(other) => Ok(self == other.get()),
            Comparable::Text(text) => {
                let name = self.name()?;
                // A text that is no UTF-8 is no name.
                Ok(text.to_cow().is_ok_and(|text| text == name))
            }
        }
    }

    /// That of its name, which it is equal to.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.name()?).hash()
    }

    fn __str__(&self) -> PyResult<String> {
        self.name()
    }

    /// Pickled, and so copied, by its name.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let by_name = py.import("crossdock._crossdock")?.getattr("_dtype")?;
        Ok((by_name, (self.name()?,)))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("crossdock.{}", self.name()?))
    }
}

/// The dtypes that DLPack names, as constants of the module.
const NAMES: &[&str] = &[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "complex64",
    "complex128",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "int2",
    "int4",
    "uint2",
    "uint4",
];

/// A dtype as callers name it.
#[pyfunction]
fn _dtype(spec: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    Dtype::from_any(spec)
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_dtype, module)?)?;
    for name in NAMES {
        module.add(name, Dtype::named(name)?)?;
    }
    Ok(())
}
