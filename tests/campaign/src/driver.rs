//! The simulated drivers of `scripts/with-sim`, where this process has them: what their checker reports.
#![expect(unsafe_code, reason = "calls a function of a library that is open")]

use std::ffi::{CStr, c_char};

use libloading::os::unix::{Library, RTLD_NOW};
use serde_json::Value;

/// Writes the reports so far, one a line, and forgets them where they fit; the bytes that they need.
type TakeReports = unsafe extern "C" fn(*mut c_char, usize) -> i64;

/// Takes what the checker has reported so far, each in a line; nothing where there is no such library.
pub(crate) fn take_reports() -> Vec<String> {
    let flags = RTLD_NOW | libc::RTLD_NOLOAD;
    // One library is behind the names of all vendors.
    // SAFETY: nothing is loaded by it, so no code of the library runs.
    let driver = unsafe { Library::open(Some("libcrossdock_sim.so"), flags) };
    let Ok(driver) = driver else {
        return Vec::new();
    };
    // SAFETY: only the simulator has this name, for a function of this type.
    let take = unsafe { driver.get::<TakeReports>(b"crossdock_sim_take_reports") };
    let Ok(take) = take else {
        return Vec::new();
    };
    let mut text = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: the function of the simulator, with bytes of this size.
        let needed = unsafe { take(text.as_mut_ptr().cast(), text.len()) };
        let Ok(needed) = usize::try_from(needed) else {
            return Vec::new();
        };
        if needed <= text.len() {
            break;
        }
        text.resize(needed, 0);
    }
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
    text.unwrap_or_default().lines().map(shown).collect()
}

/// A report in words: its kind, both calls and the detail.
fn shown(line: &str) -> String {
    let Ok(report) = serde_json::from_str::<Value>(line) else {
        return line.to_owned();
    };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = ["first", "second"].map(|call| word(&report[call]["function"]));
    let [first, second] = calls;
    let (kind, detail) = (word(&report["kind"]), word(&report["detail"]));
    format!("{kind}: {first} and {second}: {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_its_kind_both_calls_and_what_is_missing() {
        let first = r#"{"function":"cuMemcpyDtoHAsync_v2","number":7}"#;
        let rest = r#""second":{"function":"cuMemFreeAsync"},"detail":"no edge""#;
        let report = format!(r#"{{"kind":"FreeInUse","first":{first},{rest}}}"#);
        let words = "FreeInUse: cuMemcpyDtoHAsync_v2 and cuMemFreeAsync: no edge";
        assert_eq!(shown(&report), words);
        assert_eq!(take_reports(), [""; 0]);
    }
}
