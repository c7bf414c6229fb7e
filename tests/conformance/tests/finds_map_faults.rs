//! The suite on plugins whose host views have one fault each.
#![expect(
    unsafe_code,
    reason = "a faulty hook writes to the caller's room for the answer"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

#[path = "faulty/table.rs"]
mod faulty;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

use crossdock_conformance::{Level, Subject, run};
use crossdock_sdk::abi::{Address, MapHooks, PluginHandle, Status};

use faulty::{ErrorOut, group, open};

/// Whether a plugin with these views passes.
fn passes(views: MapHooks) -> bool {
    let mut hooks = open(|table| {
        table.map = group(views);
    });
    let subject = Subject::new(&hooks, 0).unwrap();
    let case = "four_threads_map_one_memory_at_once";
    let report = run(&subject, Level::Full, Some(case));
    hooks.close().unwrap();
    assert_eq!(report.cases.len(), 1, "{report}");
    let failed = report.failures().count();
    assert_eq!(report.passed(), failed == 0, "{report}");
    failed == 0
}

/// How many views each address has. The CPU plugin's memory is seen where it is.
type Counts = Mutex<BTreeMap<u64, usize>>;

fn seen(address: Address) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address.word).unwrap())
}

fn begin(counts: &Counts, address: Address, most: usize) -> Status {
    let mut counts = counts.lock().unwrap();
    let count = counts.entry(address.word).or_default();
    if *count >= most {
        return Status::CONFLICT;
    }
    *count += 1;
    Status::OK
}

fn end(counts: &Counts, address: Address, all: bool) -> Status {
    let mut counts = counts.lock().unwrap();
    let count = counts.entry(address.word).or_default();
    if *count == 0 {
        return Status::NOT_OWNER;
    }
    *count = if all { 0 } else { *count - 1 };
    Status::OK
}

/// Views of which at most `MOST` are there at once, and where one that ends may end `ALL`.
macro_rules! views {
    ($most:expr, $all:expr) => {{
        static COUNTS: Counts = Mutex::new(BTreeMap::new());
        unsafe extern "C" fn map(
            _: PluginHandle,
            _: u32,
            address: *const Address,
            _: u64,
            out: *mut *mut c_void,
            _: ErrorOut,
        ) -> Status {
            // SAFETY: the caller's argument.
            let address = unsafe { address.read() };
            // SAFETY: the caller's room for the answer.
            unsafe { out.write(seen(address)) };
            begin(&COUNTS, address, $most)
        }
        unsafe extern "C" fn unmap(
            _: PluginHandle,
            _: u32,
            address: *const Address,
            _: *mut c_void,
            _: ErrorOut,
        ) -> Status {
            // SAFETY: the caller's argument.
            end(&COUNTS, unsafe { address.read() }, $all)
        }
        MapHooks {
            map: Some(map),
            unmap: Some(unmap),
        }
    }};
}

#[test]
fn views_that_end_one_by_one_pass() {
    assert!(passes(views!(usize::MAX, false)));
}

#[test]
fn a_view_that_takes_others_at_its_address_with_it_is_found() {
    assert!(!passes(views!(usize::MAX, true)));
}

#[test]
fn memory_that_is_mapped_once_at_a_time_is_found() {
    assert!(!passes(views!(1, false)));
}
