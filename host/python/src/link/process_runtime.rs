//! The runtime of the process: one, opened at the first question.
#![expect(unsafe_code, reason = "keeps the runtime in an atomic pointer")]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crossdock_api::{DLDevice, Out, PointerInfo, Ref, XdDevice, XdError, XdErrorList, XdRuntime};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::interpreter::attached::detached;
use crate::link::error::Failed;
use crate::link::handle::{Handle, made, text, written};
use crate::link::table::api;

/// A handle that is never given back: NULL until somebody asks, and in the child of a fork again.
static RUNTIME: AtomicPtr<Handle<XdRuntime>> = AtomicPtr::new(ptr::null_mut());

/// The process's runtime, opened at the first question.
#[inline]
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Handle<XdRuntime>> {
    // SAFETY: NULL, or a box that was given up for good.
    match unsafe { RUNTIME.load(Ordering::Acquire).as_ref() } {
        Some(runtime) => Ok(runtime),
        None => open(py),
    }
}

#[cold]
fn open(py: Python<'_>) -> PyResult<&'static Handle<XdRuntime>> {
    let opened = detached(py, || made(|out| (api().runtime_default)(out)))?;
    let opened = Box::into_raw(Box::new(opened));
    // Where another thread was faster, it has another handle of the same runtime.
    let order = (Ordering::AcqRel, Ordering::Acquire);
    let _first = RUNTIME.compare_exchange(ptr::null_mut(), opened, order.0, order.1);
    // SAFETY: a box that nobody gives back.
    let opened = unsafe { &*opened };
    warn_of_refused(py, opened)?;
    Ok(opened)
}

/// Warns of plugin files that the search found and that were not loaded: once, also where children of this
/// process search again.
fn warn_of_refused(py: Python<'_>, runtime: &Handle<XdRuntime>) -> PyResult<()> {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let refused: Handle<XdErrorList> = made(|out| (api().runtime_refused)(runtime.lend(), out))?;
    let list = refused.lend();
    if list.items().is_empty() || IS_DONE.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let reason = |error: &Ref<'_, XdError>| {
        let what = text((api().error_message)(*error));
        let why = text((api().error_why)(*error));
        let hint = text((api().error_hint)(*error));
        format!("{what}: {why} (try: {hint})")
    };
    let reasons: Vec<String> = list.items().iter().map(reason).collect();
    let text = format!(
        "plugin files were not loaded, so their devices are missing:\n  {}",
        reasons.join("\n  ")
    );
    let text = crate::link::handle::c_text(&text)?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)
}

/// Called in the child of a fork, which opens its own: the parent's answers `FORKED`.
pub(crate) fn forget() {
    RUNTIME.store(ptr::null_mut(), Ordering::Release);
}

/// Runs what may start drivers: without the interpreter while there is one to start. That takes its time, and a
/// driver may want the interpreter itself.
#[inline]
pub(crate) fn looking<T: Send>(
    py: Python<'_>,
    runtime: &Handle<XdRuntime>,
    work: impl FnOnce() -> T + Send,
) -> T {
    match (api().runtime_may_start_drivers)(runtime.lend()) {
        0 => work(),
        _ => detached(py, work),
    }
}

/// Starts the drivers that a claim of this device needs, before a call that would do so attached.
#[inline]
pub(crate) fn look_for(py: Python<'_>, runtime: &Handle<XdRuntime>, claim: DLDevice) {
    const CPU: i32 = 1;
    if claim.device_type != CPU && (api().runtime_may_start_drivers)(runtime.lend()) != 0 {
        // The call that follows says what is wrong.
        let _found = detached(py, || find(runtime, claim));
    }
}

/// As [`look_for`], of every driver, before a call that asks all plugins.
#[inline]
pub(crate) fn look_for_all(py: Python<'_>, runtime: &Handle<XdRuntime>) {
    if (api().runtime_may_start_drivers)(runtime.lend()) != 0 {
        // NULL is nobody's, and the drivers are started for the question.
        let _nobodys: Result<PointerInfo, Failed> = detached(py, || {
            written(|out| (api().pointer_query)(runtime.lend(), 0, out, Out::NULL))
        });
    }
}

fn find(runtime: &Handle<XdRuntime>, pair: DLDevice) -> Result<Handle<XdDevice>, Failed> {
    made(|out| (api().runtime_device)(runtime.lend(), pair, out))
}

/// The device with a DLPack pair.
pub(crate) fn device_of(py: Python<'_>, pair: DLDevice) -> PyResult<Handle<XdDevice>> {
    let runtime = runtime(py)?;
    Ok(looking(py, runtime, || find(runtime, pair))?)
}
