//! One table around another: finds its layer by the handle, and judges each call with it.
#![expect(
    unsafe_code,
    reason = "handles and error objects cross as raw pointers"
)]

use crossdock_sdk::abi::{PluginHandle, PointerInfo, RawError, Status};
use crossdock_sdk::fence::{PanicMessage, fence};
use crossdock_sdk::plugin::Error;

use crate::calls::call::Call;
use crate::calls::layer_hooks::{Answer, LayerHooks};
use crate::calls::live_objects::LiveObjects;
use crate::calls::target::Target;
use crate::contract::plugin_text::read_text;
use crate::contract::table::ErrorOut;
use crate::contract::table::Table;

/// A layer around an open plugin, or around another layer. Its address is its handle.
#[derive(Debug)]
pub(crate) struct Layered {
    inner: Target,
    layer: Box<dyn LayerHooks>,
}

/// A call that did not succeed: the status, and the error object where there was one.
pub(crate) struct Failure {
    status: Status,
    error: Option<Error>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            status: error.status(),
            error: Some(error),
        }
    }
}

impl Layered {
    pub(crate) fn new(inner: Target, layer: Box<dyn LayerHooks>) -> Self {
        Self { inner, layer }
    }

    /// The layer behind a handle of its table.
    ///
    /// # Safety
    /// - `plugin` is the address of a `Layered` that lives for as long as the result is used.
    pub(crate) unsafe fn of<'a>(plugin: PluginHandle) -> &'a Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the word was made of an address"
        )]
        let address = plugin.raw() as usize;
        // SAFETY: by the caller's promise; the address was exposed when the handle was made.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address) }
    }

    /// The handle that makes [`Self::of`] find this.
    pub(crate) fn as_handle(this: &std::sync::Arc<Self>) -> PluginHandle {
        PluginHandle::from_raw(std::sync::Arc::as_ptr(this).expose_provenance() as u64)
    }

    pub(crate) const fn table(&self) -> &Table {
        self.inner.table()
    }

    pub(crate) const fn handle(&self) -> PluginHandle {
        self.inner.handle()
    }

    pub(crate) fn live_objects(&self) -> Option<LiveObjects> {
        self.layer.live_objects()
    }

    pub(crate) fn missing(hook: &'static str) -> Failure {
        Error::new(
            Status::UNSUPPORTED,
            hook,
            "the plugin does not have this hook",
        )
        .into()
    }

    /// Makes one call with the layer's judgement before and after it.
    pub(crate) fn through(
        &self,
        call: &Call<'_>,
        inner: impl FnOnce(ErrorOut) -> Status,
    ) -> Result<(), Failure> {
        let note = self.layer.before(call)?;
        let mut raw: *mut RawError = std::ptr::null_mut();
        let status = inner(&raw mut raw);
        let has_error = !raw.is_null();
        let error = self.inner.take_error(raw);
        self.layer.after(call, note, Answer { status, has_error })?;
        if status.is_ok() {
            Ok(())
        } else {
            Err(Failure { status, error })
        }
    }
}

impl Target {
    /// Copies an error object, and gives it back to those who made it.
    pub(crate) fn take_error(&self, raw: *mut RawError) -> Option<Error> {
        // SAFETY: NULL or an error object that a hook of this table made just now.
        let object = unsafe { raw.as_ref() }?;
        // SAFETY: an object that is not freed yet.
        let [operation, message, native_name] =
            [object.operation, object.message, object.native_name]
                .map(|text| unsafe { read_text(text) });
        let error = Error::new(object.status, operation, message)
            .with_native(object.native_code, native_name);
        if let Some(free) = self.table().raw().error_free {
            // SAFETY: the object is this table's, and nothing borrows it any more.
            unsafe { free(raw) };
        }
        Some(error)
    }

    /// Asks the plugin itself who owns an address; `None` when it does not say.
    pub(crate) fn pointer_query(
        &self,
        address: crossdock_sdk::abi::Address,
    ) -> Option<PointerInfo> {
        let hook = self.table().raw().pointer_query?;
        let mut info = PointerInfo::default();
        let mut raw: *mut RawError = std::ptr::null_mut();
        // SAFETY: an open plugin's hook; the address, the answer and the error are ours.
        let status = unsafe {
            hook(
                self.handle(),
                &raw const address,
                &raw mut info,
                &raw mut raw,
            )
        };
        let _error = self.take_error(raw);
        status.is_ok().then_some(info)
    }

    /// How many devices the plugin has; `None` when it does not say.
    pub(crate) fn device_count(&self) -> Option<u32> {
        let hook = self.table().raw().device_count?;
        let mut count = 0;
        let mut raw: *mut RawError = std::ptr::null_mut();
        // SAFETY: an open plugin's hook; the answer and the error are ours.
        let status = unsafe { hook(self.handle(), &raw mut count, &raw mut raw) };
        let _error = self.take_error(raw);
        status.is_ok().then_some(count)
    }
}

/// Turns the end of a call into its status and, where it failed, its error object.
///
/// # Safety
/// - `error` is NULL or valid for a write.
pub(crate) unsafe fn answer(
    error: ErrorOut,
    result: Result<Result<(), Failure>, PanicMessage>,
) -> Status {
    let failure = match result {
        Ok(Ok(())) => return Status::OK,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            Error::new(Status::PANIC, "layer", format!("a layer panicked: {panic}")).into()
        }
    };
    if let Some(object) = failure.error.filter(|_| !error.is_null()) {
        // SAFETY: not NULL, and valid for a write by the caller's promise.
        unsafe { error.write(object.into_raw()) };
    }
    failure.status
}

/// Frees an error object of a layer: each layer makes its own, so any of them can.
pub(crate) unsafe extern "C" fn error_free(error: *mut RawError) {
    // SAFETY: NULL or an object that `answer` made, given back once.
    let _caught = fence(|| unsafe { Error::free_raw(error) });
}
