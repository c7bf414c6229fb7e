//! Lists that stay as they were when they were made.
#![expect(unsafe_code, reason = "reads arrays that the library vouches for")]

use crate::handles::{Owned, Ref, XdDevice, XdError, XdPlugin};

/// Handles that the list lends: `xd_device_list` and its like. Only the library makes one.
#[repr(C)]
#[derive(Debug)]
pub struct XdList<T: 'static> {
    pub(crate) count: u64,
    pub(crate) items: *const Ref<'static, T>,
}

/// Devices: `xd_device_list`.
pub type XdDeviceList = XdList<XdDevice>;
/// Plugins: `xd_plugin_list`.
pub type XdPluginList = XdList<XdPlugin>;
/// Errors: `xd_error_list`.
pub type XdErrorList = XdList<XdError>;

// SAFETY: it is never changed, and its handles may be used from every thread at once.
unsafe impl<T: Sync> Send for XdList<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for XdList<T> {}

impl<T> XdList<T> {
    /// A list that lends these handles.
    ///
    /// # Safety
    /// - `handles` stays where it is, and as it is, for as long as the list lives.
    #[must_use]
    pub const unsafe fn of(handles: &[Owned<T>]) -> Self {
        Self {
            count: handles.len() as u64,
            // An owned handle and a lent one are the same pointer.
            items: handles.as_ptr().cast(),
        }
    }

    /// The handles, lent by the list.
    #[must_use]
    pub fn items(&self) -> &[Ref<'_, T>] {
        let Ok(count) = usize::try_from(self.count) else {
            return &[];
        };
        // SAFETY: the fields are private: `of` fills them from handles that live as long as the
        // list, and C gets lists from the library alone.
        unsafe { std::slice::from_raw_parts(self.items.cast(), count) }
    }
}

impl<'a, T> Ref<'a, XdList<T>> {
    /// The handles that the list lends; none for NULL.
    #[must_use]
    pub fn items(self) -> &'a [Ref<'a, T>] {
        // SAFETY: a `Ref` that is not NULL is a live list for as long as it is lent.
        unsafe { self.as_ptr().as_ref() }.map_or(&[], XdList::items)
    }
}
