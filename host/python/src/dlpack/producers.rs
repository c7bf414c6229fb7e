//! What is known of a producer's type: its C exchange table, or where its last tensor was.
//!
//! It is asked once for each exact type, and kept until the type dies: a weak reference forgets it.
//! The last answer of a thread needs no lock.
#![expect(unsafe_code, reason = "reads the tables that types publish")]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossdock_api::{DLPackExchangeAPI, DLPackExchangeAPIHeader};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyType, PyWeakrefReference};

use crate::dlpack::peek::{AnyBits, peek};
use crate::interpreter::calls;

/// The attribute of a type, and the name of the capsule in it.
pub(crate) const ATTRIBUTE: &str = "__dlpack_c_exchange_api__";
pub(crate) const CAPSULE: &CStr = c"dlpack_exchange_api";

/// The major version whose table is known here.
const MAJOR: u32 = 1;

/// Tables that are looked at before one that names itself as its older one is given up.
const MOST_TABLES: usize = 64;

/// How a producer's type is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Producer {
    /// By `__dlpack_device__` and `__dlpack__`.
    Methods,
    /// By `__dlpack__` alone: the last tensor of this compiled type was on the host, which has no
    /// streams. Where the next one is, its capsule says.
    OnHost,
    /// By its C functions.
    Table(Table),
}

/// A table, which lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table(&'static DLPackExchangeAPI);

/// What is known of a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) producer: Producer,
    /// Its tensors can have a conjugate or a negative bit (`sign_bits`).
    pub(crate) has_sign_bits: bool,
}

// SAFETY: a table is never written to, and its functions may be called from every thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl std::ops::Deref for Table {
    type Target = DLPackExchangeAPI;

    fn deref(&self) -> &DLPackExchangeAPI {
        self.0
    }
}

/// Raised when a type dies, because another one may get its address.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static KNOWN: Mutex<Option<HashMap<usize, Known>>> = Mutex::new(None);

#[derive(Debug)]
struct Known {
    traits: Traits,
    watch: Py<PyWeakrefReference>,
}

thread_local! {
    static LAST: Cell<(usize, u64, Traits)> = const {
        let none = Traits { producer: Producer::Methods, has_sign_bits: false };
        Cell::new((0, 0, none))
    };
}

/// How `x` is asked.
///
/// # Errors
/// What its type raises when it is asked for the attribute, other than that it lacks it.
pub(crate) fn producer_of(x: &Bound<'_, PyAny>) -> PyResult<Producer> {
    Ok(traits_of(x)?.producer)
}

/// What is known of the type of `x`.
///
/// # Errors
/// As [`producer_of`].
pub(crate) fn traits_of(x: &Bound<'_, PyAny>) -> PyResult<Traits> {
    // SAFETY: a live object.
    let address = unsafe { ffi::Py_TYPE(x.as_ptr()) }.addr();
    let generation = GENERATION.load(Ordering::Acquire);
    let (last, of_generation, traits) = LAST.get();
    if last == address && of_generation == generation {
        return Ok(traits);
    }
    let traits = look_up(&x.get_type(), address)?;
    LAST.set((address, generation, traits));
    Ok(traits)
}

#[cold]
fn look_up(class: &Bound<'_, PyType>, address: usize) -> PyResult<Traits> {
    let known = known()
        .as_ref()
        .and_then(|map| map.get(&address).map(|known| known.traits));
    if let Some(known) = known {
        return Ok(known);
    }
    let traits = inspect(class)?;
    let py = class.py();
    let forget = wrap_pyfunction!(forget_type, py)?;
    let watch = PyWeakrefReference::new_with(class, forget)?.unbind();
    let replaced = known_map(|map| map.insert(address, Known { traits, watch }));
    drop(replaced);
    Ok(traits)
}

fn known() -> MutexGuard<'static, Option<HashMap<usize, Known>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the map. What comes out is dropped by the caller: without the lock.
fn known_map<T>(change: impl FnOnce(&mut HashMap<usize, Known>) -> T) -> T {
    change(known().get_or_insert_with(HashMap::new))
}

/// Whether the type of `x` was made by C code: a class of Python lives on the heap and can be a base.
pub(crate) fn is_compiled(x: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object.
    let kind = unsafe { ffi::Py_TYPE(x.as_ptr()) };
    // SAFETY: a live object has a live type.
    let flags = unsafe { ffi::PyType_GetFlags(kind) };
    let class = ffi::Py_TPFLAGS_HEAPTYPE | ffi::Py_TPFLAGS_BASETYPE;
    flags & class != class
}

/// Remembers how the next `x` of this type is to be asked.
pub(crate) fn remember(x: &Bound<'_, PyAny>, producer: Producer) {
    // SAFETY: a live object.
    let address = unsafe { ffi::Py_TYPE(x.as_ptr()) }.addr();
    if let Some(known) = known().as_mut().and_then(|map| map.get_mut(&address)) {
        known.traits.producer = producer;
        LAST.set((address, GENERATION.load(Ordering::Acquire), known.traits));
    }
}

/// Called by Python when a type dies.
#[pyfunction]
fn forget_type(watch: &Bound<'_, PyAny>) {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    let forgotten = known_map(|map| {
        let same = |known: &Known| known.watch.as_ptr() == watch.as_ptr();
        let address = map
            .iter()
            .find_map(|(at, known)| same(known).then_some(*at))?;
        map.remove(&address)
    });
    drop(forgotten);
}

/// Asks the type itself; what it inherits is the table of another type.
fn inspect(class: &Bound<'_, PyType>) -> PyResult<Traits> {
    let has_sign_bits = class.hasattr("is_conj")? && class.hasattr("is_neg")?;
    let own = class.getattr("__dict__")?;
    let table = if own.contains(ATTRIBUTE)? {
        table_in(&calls::attribute(class, ATTRIBUTE)?)
    } else {
        None
    };
    let producer = table.map_or(Producer::Methods, |table| Producer::Table(Table(table)));
    Ok(Traits {
        producer,
        has_sign_bits,
    })
}

// SAFETY: numbers and a pointer.
unsafe impl AnyBits for DLPackExchangeAPIHeader {}
// SAFETY: numbers, a pointer and optional functions.
unsafe impl AnyBits for DLPackExchangeAPI {}

/// The table of our major version in a capsule of the right name, if it is complete.
///
/// What a table of another version names as its older one is no promise to us: those are read by a
/// call that cannot crash.
fn table_in(capsule: &Bound<'_, PyAny>) -> Option<&'static DLPackExchangeAPI> {
    // SAFETY: any object may be asked.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), CAPSULE.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: a capsule of this name.
    let first = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr()) };
    let mut table = first.cast::<DLPackExchangeAPI>();
    // SAFETY: what a capsule of this name holds begins with the header, which is the same in every version.
    let mut header = unsafe { table.cast::<DLPackExchangeAPIHeader>().as_ref() }.copied()?;
    for _ in 0..MOST_TABLES {
        if header.version.major == MAJOR {
            let is_readable = table.cast() == first || peek(table).is_some();
            // SAFETY: a table of this version, which lives as long as the process.
            let table = unsafe { table.as_ref() }.filter(|_| is_readable);
            return table.filter(|table| is_complete(table));
        }
        table = header.prev_api.cast();
        header = peek(header.prev_api)?;
    }
    None
}

const fn is_complete(table: &DLPackExchangeAPI) -> bool {
    table.managed_tensor_from_py_object_no_sync.is_some() && table.current_work_stream.is_some()
}
