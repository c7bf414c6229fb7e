//! Texts that plugins lend in their error objects.
#![expect(unsafe_code, reason = "reads what a plugin points at")]

use crossdock_sdk::abi::Text;

/// At most this much of a plugin's text is believed.
const TEXT_LIMIT: u64 = 64 * 1024;

/// A copy of a text of an error object; empty where there is none, or more than anybody says.
///
/// # Safety
/// - The object is not freed yet: `text` is NULL, or has `len` bytes that can be read.
#[must_use]
pub unsafe fn read_text(text: Text) -> String {
    if text.ptr.is_null() || text.len > TEXT_LIMIT {
        return String::new();
    }
    let Ok(length) = usize::try_from(text.len) else {
        return String::new();
    };
    // SAFETY: it has `len` bytes, by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.ptr, length) };
    String::from_utf8_lossy(bytes).into_owned()
}
