//! The simulated drivers of `scripts/with-sim`, where this process has them: what their checker reports, what is left
//! in them, what is made to fail, and what they have as the current device of a thread.
#![expect(unsafe_code, reason = "calls functions of a library that is open")]

use std::ffi::{CStr, CString, c_char, c_int};

use libloading::os::unix::{Library, RTLD_NOW, Symbol};
use serde_json::Value;

/// Writes lines where they fit; the bytes that they need.
type WriteLines = unsafe extern "C" fn(*mut c_char, usize) -> i64;

/// Takes what the checker has reported so far, each in a line; nothing where there is no such library.
pub(crate) fn take_reports() -> Vec<String> {
    let lines = lines(b"crossdock_sim_take_reports");
    lines.iter().map(|line| shown(line)).collect()
}

/// What was made and not given back, each in a line.
pub(crate) fn leaks() -> Vec<String> {
    let lines = lines(b"crossdock_sim_list_leaks");
    lines
        .iter()
        .filter(|line| is_left(line))
        .map(|line| shown(line))
        .collect()
}

/// Whether a leak is one of a program's: a default stream is the driver's own, and made by whatever call names it first.
fn is_left(line: &str) -> bool {
    let Ok(report) = serde_json::from_str::<Value>(line) else {
        return true;
    };
    let function = report["first"]["function"].as_str();
    report["bytes"].is_u64() || function.is_some_and(|name| name.contains("Create"))
}

/// Lets functions of the driver fail from now on, in the words of `scripts/with-sim --set fault=`.
///
/// # Errors
/// A word that is not understood, or no such library.
pub(crate) fn arm(words: &str) -> Result<(), String> {
    let wrong = || format!("there is no simulated driver that lets `{words}` fail");
    let driver = open().ok_or_else(wrong)?;
    let text = CString::new(words).map_err(|_nul| wrong())?;
    // SAFETY: only the simulator has this name, for a function of this type.
    let arm =
        unsafe { driver.get::<unsafe extern "C" fn(*const c_char) -> i64>(b"crossdock_sim_arm") };
    let arm = arm.map_err(|error| error.to_string())?;
    // SAFETY: a C string, which lives until it returns.
    match unsafe { arm(text.as_ptr()) } {
        0 => Ok(()),
        _ => Err(wrong()),
    }
}

/// Lets nothing fail any more.
pub(crate) fn disarm() {
    let Some(driver) = open() else { return };
    // SAFETY: only the simulator has this name, for a function of this type.
    let disarm = unsafe { driver.get::<unsafe extern "C" fn() -> i64>(b"crossdock_sim_disarm") };
    if let Ok(disarm) = disarm {
        // SAFETY: it takes nothing.
        let _struck = unsafe { disarm() };
    }
}

/// Makes lost devices new: what they had is gone with them, and no leak.
pub(crate) fn give_back() {
    let Some(driver) = open() else { return };
    // SAFETY: only the simulator has this name, for a function of this type.
    let give_back = unsafe { driver.get::<unsafe extern "C" fn()>(b"crossdock_sim_give_back") };
    if let Ok(give_back) = give_back {
        // SAFETY: it takes nothing, and no plugin is open that has something on the devices.
        unsafe { give_back() };
    }
}

/// What the drivers have as a thread's current context and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    context: u64,
    device: c_int,
    /// HIP's last error of the thread.
    error: c_int,
    /// Which calls captures forbid the thread, by CUDA and by HIP.
    modes: [c_int; 2],
}

impl Current {
    /// What a call of Crossdock's changed in its thread: nothing may be, but that a failing call of its own takes the
    /// place of an error of the thread's, which HIP has no way to set back. `may_err`: the call may have made calls of
    /// others too, whose errors stay.
    pub(crate) fn changed(before: Option<Self>, now: Option<Self>, may_err: bool) -> Changed {
        let (Some(before), Some(now)) = (before, now) else {
            return Changed::default();
        };
        Changed {
            place: (before.context, before.device) != (now.context, now.device),
            error: !may_err && (before.error == 0) != (now.error == 0),
            mode: before.modes != now.modes,
        }
    }
}

/// What a call changed in its thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The current context or device.
    pub(crate) place: bool,
    /// Whether there is a last error.
    pub(crate) error: bool,
    /// The mode of captures.
    pub(crate) mode: bool,
}

type GetContext = unsafe extern "C" fn(*mut u64) -> c_int;
type PeekError = unsafe extern "C" fn() -> c_int;
type GetDevice = unsafe extern "C" fn(*mut c_int) -> c_int;
type ExchangeMode = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Makes the second device of HIP's the thread's current one; false where there is none.
pub(crate) fn stray() -> bool {
    let Some(driver) = open() else { return false };
    // SAFETY: the simulator has it, with the type of the vendor's header.
    let set = unsafe { driver.get::<unsafe extern "C" fn(c_int) -> c_int>(b"hipSetDevice") };
    // SAFETY: it takes any number.
    set.is_ok_and(|set| unsafe { set(1) } == 0)
}

/// Makes a stream of HIP's, which nobody has; false where there is no device.
pub(crate) fn litter() -> bool {
    let Some(driver) = open() else { return false };
    let mut stream = 0;
    // SAFETY: the simulator has it, with the type of the vendor's header.
    let create =
        unsafe { driver.get::<unsafe extern "C" fn(*mut u64) -> c_int>(b"hipStreamCreate") };
    // SAFETY: a place of this function's own.
    create.is_ok_and(|create| unsafe { create(&raw mut stream) } == 0)
}

/// How HIP numbers its version 7.
const HIP_7: c_int = 70_000_000;

/// A mode of captures to exchange for the thread's own.
const RELAXED: c_int = 2;

/// The functions that tell the current context, device, last error and mode of the thread that calls them.
#[derive(Debug)]
pub(crate) struct Asking {
    context: Symbol<GetContext>,
    device: Symbol<GetDevice>,
    error: Symbol<PeekError>,
    modes: [Symbol<ExchangeMode>; 2],
    /// Errors outlive calls that succeed: from HIP 7 on.
    keeps: bool,
    /// It has the functions.
    _driver: Library,
}

impl Asking {
    /// `None` where this process has no simulated driver.
    pub(crate) fn open() -> Option<Self> {
        let driver = open()?;
        // SAFETY: the simulator has it, with the type of the vendor's header.
        let context = unsafe { driver.get::<GetContext>(b"cuCtxGetCurrent") };
        // SAFETY: as above.
        let device = unsafe { driver.get::<GetDevice>(b"hipGetDevice") };
        // SAFETY: as above.
        let error = unsafe { driver.get::<PeekError>(b"hipPeekAtLastError") };
        // SAFETY: as above.
        let version = unsafe { driver.get::<GetDevice>(b"hipRuntimeGetVersion") };
        let (context, device, error) = (context.ok()?, device.ok()?, error.ok()?);
        let modes = [
            "cuThreadExchangeStreamCaptureMode",
            "hipThreadExchangeStreamCaptureMode",
        ];
        // SAFETY: as above.
        let modes = modes.map(|name| unsafe { driver.get::<ExchangeMode>(name.as_bytes()) });
        let [of_cuda, of_hip] = modes;
        let mut number = 0;
        // SAFETY: a place of this function's own.
        let asked = unsafe { (version.ok()?)(&raw mut number) };
        Some(Self {
            context,
            device,
            error,
            modes: [of_cuda.ok()?, of_hip.ok()?],
            keeps: asked == 0 && number >= HIP_7,
            _driver: driver,
        })
    }

    /// Those of this thread. A vendor without devices has neither.
    pub(crate) fn now(&self) -> Current {
        let mut now = Current {
            context: 0,
            device: 0,
            // SAFETY: it has no arguments, and reads the thread's own state.
            error: unsafe { (self.error)() },
            modes: [0; 2],
        };
        // SAFETY: a place of this function's own.
        let _none = unsafe { (self.context)(&raw mut now.context) };
        // SAFETY: as above.
        let has_device = unsafe { (self.device)(&raw mut now.device) } == 0;
        if !has_device || !self.keeps {
            // The question itself changed it.
            now.error = 0;
        }
        now.modes = self.modes.each_ref().map(mode_of);
        now
    }
}

/// A thread's mode, which only an exchange tells: it is exchanged twice.
fn mode_of(exchange: &Symbol<ExchangeMode>) -> c_int {
    let mut mode = RELAXED;
    // SAFETY: a place of this function's own.
    if unsafe { exchange(&raw mut mode) } != 0 {
        return 0;
    }
    let found = mode;
    // SAFETY: as above.
    let _restored = unsafe { exchange(&raw mut mode) };
    found
}

/// The library, where it is open already.
pub(crate) fn open() -> Option<Library> {
    let flags = RTLD_NOW | libc::RTLD_NOLOAD;
    // One library is behind the names of all vendors.
    // SAFETY: nothing is loaded by it, so no code of the library runs.
    unsafe { Library::open(Some("libcrossdock_sim.so"), flags) }.ok()
}

/// The lines that a function of the library writes.
fn lines(name: &[u8]) -> Vec<String> {
    let Some(driver) = open() else {
        return Vec::new();
    };
    // SAFETY: the names that are asked for are those of functions of this type, which only the simulator has.
    let Ok(write) = (unsafe { driver.get::<WriteLines>(name) }) else {
        return Vec::new();
    };
    let mut text = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: the function of the simulator, with bytes of this size.
        let needed = unsafe { write(text.as_mut_ptr().cast(), text.len()) };
        let Ok(needed) = usize::try_from(needed) else {
            return Vec::new();
        };
        if needed <= text.len() {
            break;
        }
        text.resize(needed, 0);
    }
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A report in words: its kind, both calls, the detail, and the code that made the calls where that is known.
fn shown(line: &str) -> String {
    let Ok(report) = serde_json::from_str::<Value>(line) else {
        return line.to_owned();
    };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = ["first", "second"].map(|call| word(&report[call]["function"]));
    let calls: Vec<String> = calls.into_iter().filter(|call| !call.is_empty()).collect();
    let (kind, detail) = (word(&report["kind"]), word(&report["detail"]));
    let place = |call: &str| {
        let native = &report[call]["native"];
        let module = word(&native["module"]);
        let module = module.rsplit('/').next().filter(|name| !name.is_empty())?;
        Some(format!("{module}+{:#x}", native["offset"].as_u64()?))
    };
    let code: Vec<String> = ["first", "second"].into_iter().filter_map(place).collect();
    let code = match code.is_empty() {
        true => String::new(),
        false => format!(" ({})", code.join("; ")),
    };
    format!("{kind}: {}: {detail}{code}", calls.join(" and "))
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
        let native = r#"{"module":"/a/b/libplugin.so","offset":4660}"#;
        let report = format!(
            r#"{{"kind":"Stale","first":{{"function":"cuEventQuery","native":{native}}},"detail":"gone"}}"#
        );
        let words = "Stale: cuEventQuery: gone (libplugin.so+0x1234)";
        assert_eq!(shown(&report), words);
        assert_eq!(take_reports(), [""; 0]);
    }

    #[test]
    fn a_last_error_that_comes_or_goes_is_a_change_and_another_mode() {
        let with = |error| {
            Some(Current {
                context: 1,
                device: 0,
                error,
                modes: [0; 2],
            })
        };
        let relaxed = with(0).map(|now| Current {
            modes: [0, RELAXED],
            ..now
        });
        assert!(Current::changed(with(0), relaxed, false).mode);
        assert!(!Current::changed(relaxed, relaxed, false).mode);
        let changed = |before, now| Current::changed(with(before), with(now), false);
        assert!(changed(0, 1).error && changed(101, 0).error);
        assert!(!changed(0, 0).error && !changed(101, 101).error && !changed(101, 1).error);
        assert!(!Current::changed(with(0), with(1), true).error);
    }

    #[test]
    fn default_streams_are_no_leaks() {
        let left = |function: &str, bytes: &str| {
            is_left(&format!(
                r#"{{"kind":"Leak","first":{{"function":"{function}"}},"bytes":{bytes}}}"#
            ))
        };
        assert!(left("cuStreamCreate", "null") && left("hipMalloc", "8"));
        assert!(!left("hipStreamIsCapturing", "null"));
    }
}
