//! Devices of two vendors in one process: what goes from one to the other, and what becomes of one where the other ends.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `early` | pending work is never read early, and each wait that sees to that is needed |
//! | `queues` | both directions at once, however few hardware queues there are |
//! | `chunks` | host memory on the way, and what one vendor has pinned |
//! | `ends` | forks, exits and lost devices |
//! | `kept` | batches that are kept, with a stream for each |

mod chunks;
mod early;
mod ends;
mod kept;
mod queues;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::time::Duration;

use crossdock::{CostCache, Device, Runtime};
use crossdock_sdk::dlpack::{Dtype, Layout};
use libloading::Library;

use crate::built;
use crate::hooks::call;

const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

/// So often nothing can run before all is known to have run.
const IDLE: u32 = 100;

/// Either library may be loaded first.
const ORDERS: [[&str; 2]; 2] = [["cuda", "rocm"], ["rocm", "cuda"]];

/// The host and the first device of each vendor.
struct Both {
    runtime: Runtime,
    cpu: Device,
    cuda: Device,
    rocm: Device,
}

impl Both {
    fn open() -> Self {
        Self::in_order(ORDERS[0])
    }

    /// The plugins in this order.
    fn in_order(plugins: [&str; 2]) -> Self {
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        // Several parts of what is short.
        let builder = builder.staging_bytes(8 * PART as u64);
        let add = |builder: crossdock::RuntimeBuilder, name: &&str| {
            builder.plugin(built(&format!("libcrossdock_plugin_{name}.so")).unwrap())
        };
        let runtime = plugins.iter().fold(builder, add).open().unwrap();
        let device = |name: &str| runtime.device(name.parse().unwrap()).unwrap();
        Self {
            cpu: device("cpu:0"),
            cuda: device("cuda:0"),
            rocm: device("rocm:0"),
            runtime,
        }
    }

    /// Both directions between the vendors.
    fn directions(&self) -> [[&Device; 2]; 2] {
        [[&self.cuda, &self.rocm], [&self.rocm, &self.cuda]]
    }
}

/// Whether both plugins were built; else a test says that it is skipped.
fn both_are_built() -> bool {
    let is_built = built("libcrossdock_plugin_cuda.so").is_some();
    if !is_built {
        println!("skipped: the CUDA plugin is not built");
    }
    is_built
}

/// Bytes of a part of a staged copy, and of tensors that have several.
const PART: usize = 4096;
const BYTES: usize = 5 * PART + 100;

fn layout(bytes: usize) -> Layout {
    Layout::compact(Dtype::UINT8, &[i64::try_from(bytes).unwrap()]).unwrap()
}

/// Bytes of which no part is like another.
fn content(bytes: usize, seed: usize) -> Vec<u8> {
    let byte = |at: usize| (((at + seed) * 2_654_435_761) >> 7).to_le_bytes()[0];
    (0..bytes).map(byte).collect()
}

/// What the simulator tells, and lets fail.
pub(crate) struct Simulator(Library);

impl Simulator {
    pub(crate) fn find() -> Self {
        Self(crate::hooks::runtime())
    }

    /// The nth call of a function by this thread does nothing; 0: none. Whether one is still to come so far.
    fn drop_call(&self, function: &str, nth: u64) -> bool {
        let (simulator, name) = (&self.0, CString::new(function).unwrap());
        let name = name.as_ptr();
        call!(simulator.crossdock_sim_drop_call(name => *const c_char, nth => u64) -> i64) == 1
    }

    /// Lets calls fail, in the words of the simulator's setting.
    pub(crate) fn arm(&self, faults: &str) {
        let (simulator, text) = (&self.0, CString::new(faults).unwrap());
        let armed = call!(simulator.crossdock_sim_arm(text.as_ptr() => *const c_char) -> i64);
        assert_eq!(armed, 0, "{faults}");
    }

    /// Lets no call fail any more: how many did.
    pub(crate) fn disarm(&self) -> i64 {
        let simulator = &self.0;
        call!(simulator.crossdock_sim_disarm() -> i64)
    }

    /// Runs all that can run. A function of the host runs on a thread of its own, and lets more run when it is over.
    fn progress(&self) {
        let simulator = &self.0;
        let mut idle = 0;
        while idle < IDLE {
            let ran = call!(simulator.crossdock_sim_progress(1000 => usize) -> i64);
            idle = if ran > 0 { 0 } else { idle + 1 };
            std::thread::yield_now();
        }
    }

    /// What was reported since this was asked last: the kinds, and all of it.
    fn take_reports(&self) -> Vec<serde_json::Value> {
        self.lines("crossdock_sim_take_reports")
    }

    /// How often each function was called since this was asked last.
    pub(crate) fn take_calls(&self) -> BTreeMap<String, u64> {
        let calls = self.lines("crossdock_sim_take_calls");
        let call = |call: &serde_json::Value| {
            let name = call["function"].as_str().unwrap().to_owned();
            (name, call["calls"].as_u64().unwrap())
        };
        calls.iter().map(call).collect()
    }

    /// Memory of the host that one vendor has registered: addresses with sizes.
    fn registered(&self, function: &str) -> BTreeMap<u64, u64> {
        let left = self.leaks();
        let by_it = left
            .iter()
            .filter(|left| left["first"]["function"] == function);
        let range =
            |left: &serde_json::Value| Some((left["address"].as_u64()?, left["bytes"].as_u64()?));
        by_it.filter_map(range).collect()
    }

    /// What was made and not given back.
    pub(crate) fn leaks(&self) -> Vec<serde_json::Value> {
        self.lines("crossdock_sim_list_leaks")
    }

    /// The lines that a function writes.
    fn lines(&self, function: &str) -> Vec<serde_json::Value> {
        let mut text = vec![0_u8; 1 << 20];
        type Tell = unsafe extern "C" fn(*mut c_char, usize) -> i64;
        // SAFETY: the simulator has the function, with this type.
        let tell = unsafe { self.0.get::<Tell>(function) }.unwrap();
        // SAFETY: the text has so many bytes.
        let needed = unsafe { tell(text.as_mut_ptr().cast(), text.len()) };
        let needed = usize::try_from(needed).unwrap();
        assert!(needed <= text.len(), "{function} tells {needed} bytes");
        text.truncate(needed - 1);
        let lines = std::str::from_utf8(&text).unwrap().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}
