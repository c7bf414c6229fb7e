//! Where a case runs: plugins by name, runtimes around them, and what they leave behind.
#![expect(
    unsafe_code,
    reason = "chooses the simulated engine, and takes the table of its plugin"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

use crossdock::{CostCache, Device, FaultPlan, Layer, Plugin, Runtime};

use crossdock_plugin_asynchronous::{CONTROL, Controlled};
use crossdock_sdk::abi::Capabilities;

use crate::caller::{Caller, Stop};
use crate::handles::Table;
use crate::in_c::InC;
use crate::in_python::{InPython, Python};
use crate::judge::Queues;
use crate::program::{Case, Engine, Language};
use crate::slots::Slots;

/// The devices of a campaign, where nothing else is said: two plugins for the CPU, real and simulated
/// devices, and a plugin in C.
pub const DEVICES: [&str; 6] = [
    "cpu",
    "cpufile",
    "opencl",
    "ext_dev",
    "asynchronous",
    "asynchronous:1",
];

/// Where the plugins compiled for this campaign lie.
pub const FOLDER: &str = "CROSSDOCK_CAMPAIGN_PLUGINS";

/// Open runtimes and the devices that a case names, in each of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct World {
    /// The runtimes.
    pub runtimes: Vec<Runtime>,
    /// For each runtime the devices, in the order of the case.
    pub devices: Vec<Vec<Device>>,
    /// The simulated engine, where it is among the devices.
    pub control: Option<Controlled>,
    /// The function table's runtime over the same plugins, which other languages than Rust call.
    table: Option<Spoken>,
    /// Of each device, whether its memory can be looked at while a stream is held: a simulated one
    /// needs a hardware queue that no other stream blocks.
    pub peekable: Vec<bool>,
    /// Of each device, whether its streams share hardware queues.
    pub(crate) queues: Vec<Queues>,
    /// Of each device, whether copies on a stream return before they are done.
    pub(crate) copies_later: Vec<bool>,
    /// The same of copies through host memory, which need host events too.
    pub(crate) stages_later: Vec<bool>,
    /// Held by calls that ask streams which they do not name. No capture begins meanwhile (`docs/cuda.md`).
    pub(crate) asking: RwLock<()>,
}

/// The file of a plugin that a device of this name needs, in the folder or beside this program;
/// `None` for what is built in.
fn file_of(device: &str, compiled: Option<PathBuf>) -> Option<PathBuf> {
    let name = device.split(':').next().unwrap_or_default();
    let file = match name {
        "cpu" => return None,
        "cpufile" => "libcrossdock_plugin_cpu.so".to_owned(),
        name => format!("libcrossdock_plugin_{name}.so"),
    };
    let here = std::env::current_exe().ok();
    let folders = here
        .iter()
        .flat_map(|exe| exe.ancestors().skip(1).take(2))
        .map(Path::to_owned);
    let mut files = compiled
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join(&file));
    Some(
        files
            .find(|file| file.exists())
            .unwrap_or_else(|| PathBuf::from(file)),
    )
}

/// Those of the names whose plugin is there, with what was compiled into the folder.
#[must_use]
pub fn present(names: &[&str], compiled: &Path) -> Vec<String> {
    let file = |name: &str| file_of(name, Some(compiled.to_owned()));
    let is_here = |name: &&&str| file(name).is_none_or(|file| file.exists());
    names
        .iter()
        .filter(is_here)
        .map(|name| (*name).to_owned())
        .collect()
}

impl World {
    /// Opens what the case asks for.
    ///
    /// # Errors
    /// What failed, as a sentence: an injected fault can prevent it.
    pub fn open(case: &Case) -> Result<Self, String> {
        choose(case);
        let mut layers = Vec::new();
        if let Some(plan) = &case.fault {
            let plan = plan.parse::<FaultPlan>();
            layers.push(Layer::Fault(plan.map_err(|error| error.to_string())?));
        }
        // Inside the faults it sees what the plugin really did.
        layers.push(Layer::Validate);
        let compiled = std::env::var_os(FOLDER).map(PathBuf::from);
        let mut files: Vec<_> = case
            .devices
            .iter()
            .filter_map(|name| file_of(name, compiled.clone()))
            .collect();
        files.dedup();
        let open = |_| {
            let builder = Runtime::builder().search(false).costs(CostCache::Off);
            let builder = builder.layers(&layers).staging_bytes(case.staging);
            let builder = files
                .iter()
                .fold(builder, |builder, file| builder.plugin(file));
            builder
                .open()
                .map_err(|error| format!("{error}: {}", error.why()))
        };
        let runtimes = (0..case.runtimes.max(1))
            .map(open)
            .collect::<Result<Vec<_>, _>>()?;
        let all = |runtime| {
            case.devices
                .iter()
                .map(|name| find(runtime, name))
                .collect()
        };
        let devices: Vec<Vec<Device>> = runtimes.iter().map(all).collect::<Result<_, _>>()?;
        let table = open_table(case, &files, &runtimes[0], &devices[0])?;
        let control = devices.iter().flatten().find_map(control_of);
        let names = case.devices.iter();
        let peekable = names.map(|name| is_peekable(name, &case.engine)).collect();
        let copies_later =
            |device: &Device| device.capabilities().contains(Capabilities::ASYNC_COPY);
        let stages_later = |device: &Device| {
            copies_later(device) && device.capabilities().contains(Capabilities::HOST_EVENTS)
        };
        Ok(Self {
            copies_later: devices[0].iter().map(copies_later).collect(),
            stages_later: devices[0].iter().map(stages_later).collect(),
            asking: RwLock::default(),
            runtimes,
            devices,
            control,
            table,
            peekable,
            queues: case.devices.iter().map(|name| queues(name, case)).collect(),
        })
    }

    /// Who makes the calls of one program.
    pub(crate) fn caller(self: &Arc<Self>) -> Box<dyn Caller> {
        let world = Arc::clone(self);
        match &self.table {
            None => Box::new(Slots::new(world)),
            Some((table, None)) => Box::new(InC::new(world, Arc::clone(table))),
            Some((table, Some(python))) => {
                Box::new(InPython::new(world, Arc::clone(table), python))
            }
        }
    }

    /// Its devices by plugin and index: a [`Device`] keeps memory of its runtime, and what is left is asked without it.
    #[must_use]
    pub fn places(&self) -> Vec<(Arc<Plugin>, u32)> {
        let devices = self.devices.iter().flatten();
        let devices = devices.map(|device| (Arc::clone(device.plugin()), device.index()));
        devices.collect()
    }

    /// The plugins of the devices.
    #[must_use]
    pub fn plugins(&self) -> Vec<Arc<Plugin>> {
        let mut plugins: Vec<Arc<Plugin>> = Vec::new();
        for device in self.devices.iter().flatten() {
            if !plugins
                .iter()
                .any(|known| Arc::ptr_eq(known, device.plugin()))
            {
                plugins.push(Arc::clone(device.plugin()));
            }
        }
        plugins
    }
}

/// What other languages than Rust call.
type Spoken = (Arc<Table>, Option<&'static Python>);

/// The function table's runtime of Python, which has one a process.
static OF_PYTHON: OnceLock<Arc<Table>> = OnceLock::new();

/// Opens what other languages than Rust call.
fn open_table(
    case: &Case,
    files: &[PathBuf],
    runtime: &Runtime,
    devices: &[Device],
) -> Result<Option<Spoken>, String> {
    let own = runtime.devices();
    let places = devices.iter();
    let places = places.filter_map(|device| own.iter().position(|own| own == device));
    let places: Vec<usize> = places.collect();
    let open = || {
        Table::open(files, &places)
            .map(Arc::new)
            .map_err(Stop::into_text)
    };
    match case.language {
        Language::Rust => Ok(None),
        Language::C => Ok(Some((open()?, None))),
        Language::Python => {
            let table = match OF_PYTHON.get() {
                Some(table) => Arc::clone(table),
                None => open()?,
            };
            let table = OF_PYTHON.get_or_init(|| table);
            let python = Python::open(table, &places)?;
            Ok(Some((Arc::clone(table), Some(python))))
        }
    }
}

/// Hardware queues that are enough for every stream of a program to have its own.
pub const MANY_QUEUES: u32 = 256;

/// Whether a device of this name is simulated.
pub(crate) fn is_simulated(device: &str) -> bool {
    ["asynchronous", "cuda", "rocm"]
        .iter()
        .any(|name| device.starts_with(name))
}

fn is_peekable(device: &str, engine: &Engine) -> bool {
    !is_simulated(device) || has_own_queues(device, engine)
}

fn has_own_queues(device: &str, engine: &Engine) -> bool {
    is_simulated(device) && engine.queues >= MANY_QUEUES
}

/// Streams of other programs may be held on the queues of a shared device, of which the judge of one program is not
/// notified.
fn queues(device: &str, case: &Case) -> Queues {
    match is_simulated(device) {
        true if has_own_queues(device, &case.engine) => Queues::Own,
        true if case.programs.len() == 1 => Queues::Shared,
        _ => Queues::Unknown,
    }
}

/// Tells the simulated engines what they are to read when they are opened.
fn choose(case: &Case) {
    let Engine {
        policy,
        seed,
        queues,
        fault: _,
    } = &case.engine;
    let words = format!("policy={policy};seed={seed};queues={queues}");
    let mut plugin = format!("{words};memory=256M");
    if case.takes_turns() {
        // The clock decides nothing: the runner moves on what nobody waits for.
        plugin += ";turns=on;idle_ms=off";
    }
    let [cuda, rocm] = ["cuda", "rocm"].map(|vendor| devices_of(vendor, &case.devices));
    // That of `scripts/with-sim`, behind the vendors' own functions.
    let driver = format!("{words};cuda={cuda};rocm={rocm};unrecorded=0");
    for (name, words) in [
        ("CROSSDOCK_ASYNCHRONOUS", plugin),
        ("CROSSDOCK_SIM", driver),
    ] {
        // SAFETY: no trial is running, so no thread of this process looks at the environment.
        unsafe { std::env::set_var(name, words) };
    }
}

/// How many devices of a vendor have to be there, for those that are named to be.
fn devices_of(vendor: &str, devices: &[String]) -> u32 {
    let index = |name: &String| -> Option<u32> {
        let (plugin, index) = name.split_once(':').unwrap_or((name, "0"));
        (plugin == vendor).then(|| index.parse().ok()).flatten()
    };
    let highest = devices.iter().filter_map(index).max();
    highest.map_or(0, |index| index.saturating_add(1))
}

/// The engine behind a device, if it is a simulated one.
fn control_of(device: &Device) -> Option<Controlled> {
    let plugin = device.plugin();
    if plugin.name() != "asynchronous" {
        return None;
    }
    let word = plugin
        .hooks()
        .device_attribute(device.index(), CONTROL)
        .ok()?;
    // SAFETY: the attribute of the plugin of that name, which stays open with the devices.
    unsafe { Controlled::new(word) }
}

fn find(runtime: &Runtime, name: &str) -> Result<Device, String> {
    let (plugin, index) = name.split_once(':').unwrap_or((name, "0"));
    let is_it = |device: &Device| {
        let owner = device.plugin();
        let is_named = match plugin {
            "cpufile" => owner.name() == "cpu" && owner.path().is_some(),
            "cpu" => owner.name() == "cpu" && owner.path().is_none(),
            plugin => owner.name() == plugin,
        };
        is_named && device.index().to_string() == index
    };
    let found = runtime.devices().into_iter().find(is_it);
    found.ok_or_else(|| format!("no device `{name}`"))
}

/// How many objects but streams are alive in the plugins. Internal streams stay with their
/// plugin until it is closed.
#[must_use]
pub fn alive(plugins: &[Arc<Plugin>]) -> usize {
    plugins
        .iter()
        .filter_map(left_in)
        .map(|(count, _)| count)
        .sum()
}

/// Waits until no more than so many objects are alive in the plugins; else says what is.
///
/// # Errors
/// What is left after the limit.
pub fn nothing_is_left(plugins: &[Arc<Plugin>], but: usize, limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    while alive(plugins) > but {
        if Instant::now() > end {
            let left: Vec<String> = plugins
                .iter()
                .filter_map(left_in)
                .map(|(_, text)| text)
                .collect();
            return Err(left.join("; "));
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits until devices count no memory as used: nothing is alive in their plugins.
///
/// # Errors
/// The first that still does after the limit.
pub fn nothing_is_counted(devices: &[(Arc<Plugin>, u32)], limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    for (plugin, index) in devices {
        // A plugin without the hook counts nothing, and one that knows no number says so.
        let used = || match plugin.hooks().memory_usage(*index) {
            Ok(usage) if usage.used != u64::MAX => usage.used,
            Ok(_) | Err(_) => 0,
        };
        while used() > 0 {
            if Instant::now() > end {
                let (name, used) = (plugin.name(), used());
                return Err(format!(
                    "device {index} of {name} counts {used} bytes as used, and all are given back"
                ));
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn left_in(plugin: &Arc<Plugin>) -> Option<(usize, String)> {
    let live = plugin.hooks().live_objects()?;
    let count = live.count() - live.streams;
    (count > 0).then(|| (count, format!("{}: {live}", plugin.name())))
}
