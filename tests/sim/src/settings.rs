//! What `CROSSDOCK_SIM` chooses, as in `cuda=2;mem=4G;policy=lazy;seed=7;queues=8;driver=13000`.
//!
//! | word | what it is |
//! | --- | --- |
//! | `cuda` | number of CUDA devices: 1, or none where there is `rocm` |
//! | `rocm` | number of ROCm devices, which the engine numbers behind CUDA's |
//! | `hip` | the version that HIP says it has, as `7.0` |
//! | `mem` | memory of each: bytes, or with `K`, `M`, `G` behind |
//! | `policy` | `threads`, `seeded` or `lazy` |
//! | `seed` | of every choice |
//! | `schedule` | what `seeded` chooses in the generator's place: `STEP:CHOICE` with `,` between them, as `choices` writes them; nothing: always the first possibility |
//! | `choices` | 1: the choices of `seeded` that were no first possibility are written into `PID.choices` of `CROSSDOCK_SIM_DIR` at the exit |
//! | `queues` | hardware queues of each device |
//! | `driver` | the version that the driver says it has, 13000 for 13.0 |
//! | `missing` | functions that the driver does not have, with `,` between them: by the names that programs ask for, and, with `scripts/with-sim`, symbols too |
//! | `fault` | `NAME@NTH=CODE`, `+` behind NTH for all that follow, `!` behind CODE to lose the device, `exec:` before NAME for its work, and `dev1:` before that for the device 1 alone; with `,` between them |
//! | `link` | `DEVICE:RATE`, the bytes a second of a device's links to the host and from it, and inside of it, as `0:10G`; `0-1:RATE` of the link from device 0 to device 1, which is the slower one of both else; with `,` between them. By `threads`, copies and fills take that time in truth |
//! | `peers` | 0: no device reaches the memory of another one; `drops` or `mirrors`: what one writes over an enabled link is nowhere, or where it alone sees it |
//! | `check` | 0: the checker is off, and nothing is reported of uses of memory |
//! | `unrecorded` | 0: waits for events that were never recorded (such a wait does nothing) are not reported |
//! | `leaks` | 1: what a program made and left is reported at its exit |
//! | `waits` | 1: the calls that waited for all work of a device are listed at the exit; they are no reports |
//! | `uninitialised` | 1: reads of bytes that nobody wrote are reported too |

use std::time::Duration;

use crossdock_sim_engine::{Config, Fault, Link, Moment, Policy, Schedule, Step};

use crate::cuda::lies::Lie;
use crate::{cuda, hip};

/// What a process asked for.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) engine: Config,
    cuda: Option<u32>,
    rocm: Option<u32>,
    pub(crate) driver: i32,
    /// Major and minor version of HIP.
    pub(crate) hip: (i32, i32),
    pub(crate) missing: Vec<String>,
    pub(crate) has_peers: bool,
    pub(crate) lie: Option<Lie>,
    pub(crate) tells_leaks: bool,
    pub(crate) tells_waits: bool,
}

impl Settings {
    /// Those of this process.
    ///
    /// # Errors
    /// The word that cannot be understood.
    pub(crate) fn of_process() -> Result<Self, String> {
        Self::parse(&std::env::var("CROSSDOCK_SIM").unwrap_or_default())
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self {
            engine: Config {
                host_functions_inform: true,
                report_unrecorded: true,
                standstill: STANDSTILL,
                ..Config::default()
            },
            cuda: None,
            rocm: None,
            driver: 13_000,
            hip: (7, 0),
            missing: Vec::new(),
            has_peers: true,
            lie: None,
            tells_leaks: false,
            tells_waits: false,
        };
        for word in text.split(';').filter(|word| !word.trim().is_empty()) {
            let (name, value) = word.trim().split_once('=').unwrap_or((word.trim(), ""));
            settings
                .set(name, value)
                .ok_or_else(|| not_understood(word.trim(), name))?;
        }
        let cuda = settings.cuda.unwrap_or(u32::from(settings.rocm.is_none()));
        let rocm = settings.rocm.unwrap_or(0);
        settings.engine.devices = cuda.checked_add(rocm).ok_or("too many devices")?;
        settings.engine.vendors = vec![cuda, rocm];
        settings.check_names()?;
        settings.check_host_functions()?;
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let engine = &mut self.engine;
        match name {
            "cuda" => self.cuda = Some(value.parse().ok()?),
            "rocm" => self.rocm = Some(value.parse().ok()?),
            "hip" => {
                let (major, minor) = value.split_once('.')?;
                self.hip = (major.parse().ok()?, minor.parse().ok()?);
            }
            "mem" => engine.memory_bytes = bytes(value)?,
            "seed" => engine.seed = value.parse().ok()?,
            "schedule" => {
                engine.schedule = Some(schedule(value)?);
                engine.idle = Some(PATIENCE);
            }
            "choices" => {
                engine.notes_choices = is_on(value)?;
                engine.idle = Some(PATIENCE);
            }
            "queues" => engine.queues = value.parse().ok()?,
            "driver" => self.driver = value.parse().ok()?,
            "missing" => self.missing = value.split(',').map(str::to_owned).collect(),
            "fault" => engine.faults = faults(value)?,
            "link" => {
                value.split(',').try_for_each(|text| link(engine, text))?;
                engine.paced = true;
            }
            "peers" => {
                self.has_peers = value != "0";
                self.lie = match value {
                    "0" | "1" => None,
                    "drops" => Some(Lie::Drops),
                    "mirrors" => Some(Lie::Mirrors),
                    _ => return None,
                };
            }
            "leaks" => self.tells_leaks = is_on(value)?,
            "waits" => self.tells_waits = is_on(value)?,
            "check" => engine.checks = is_on(value)?,
            "unrecorded" => engine.report_unrecorded = is_on(value)?,
            "uninitialised" => engine.report_uninitialised = is_on(value)?,
            "policy" => {
                engine.policy = match value {
                    "threads" => Policy::Threads,
                    "seeded" => Policy::Seeded,
                    "lazy" => Policy::Lazy,
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(())
    }

    /// Refuses functions that no driver here has: a fault of one would never strike, and the test would pass.
    fn check_names(&self) -> Result<(), String> {
        let faults = self.engine.faults.iter().map(|fault| fault.name.as_str());
        let names = faults.chain(self.missing.iter().map(String::as_str));
        // A name with `*` stands for many.
        let mut plain = names.filter(|name| !name.contains('*'));
        let has = |name: &str| cuda::lookup::has(name) || hip::lookup::has(name);
        // Where `missing` hid its symbol from the loader, its first letter is another one.
        let hidden = |name: &str| name.get(1..).map(|rest| format!("_{rest}"));
        let is_known = |name: &str| has(name) || hidden(name).is_some_and(|name| has(&name));
        let unknown = plain.find(|name| !is_known(name));
        unknown.map_or(Ok(()), |name| {
            Err(format!(
                "`{name}` of CROSSDOCK_SIM is no function of the simulated drivers: give a name as reports have it"
            ))
        })
    }

    /// Refuses host functions that fail by themselves: no driver knows how one ended, and one that is never called
    /// without a lost device lets its program wait for ever.
    fn check_host_functions(&self) -> Result<(), String> {
        let is_one = |fault: &&Fault| {
            fault.moment == Moment::Run
                && !fault.loses_device
                && fault.name.contains("LaunchHostFunc")
        };
        self.engine.faults.iter().find(is_one).map_or(Ok(()), |fault| {
            Err(format!(
                "`exec:{}` of CROSSDOCK_SIM: a host function does not fail. Lose its device, by `CODE!`, or let the call \
                 fail, without `exec:`",
                fault.name
            ))
        })
    }
}

/// What to say of a word that is not understood: what it takes, or which words there are.
fn not_understood(word: &str, name: &str) -> String {
    let why = match name {
        "policy" => "it is `lazy`, `seeded` or `threads`",
        "cuda" | "rocm" | "seed" | "queues" | "driver" => "it is a number",
        "mem" => "it is a number of bytes, with K, M or G behind it or without",
        "hip" => "it is a version, as in `7.0`",
        "fault" => "it is NAME@NTH=CODE, as in `cuMemAlloc_v2@3=2`, with one `*` at most in NAME",
        "link" => "it is DEVICE:RATE or DEVICE-DEVICE:RATE, as in `0:10G,0-1:5G`",
        "peers" => "it is 0, 1, `drops` or `mirrors`",
        "schedule" => "it is STEP:CHOICE with `,` between them, as in `41.0:1`",
        "choices" | "leaks" | "waits" | "check" | "unrecorded" | "uninitialised" => "it is 0 or 1",
        _ => {
            "there is no such word; there are cuda, rocm, policy, seed, schedule, choices, queues, mem, driver, hip, \
             missing, fault, link, peers, check, unrecorded, leaks, waits and uninitialised"
        }
    };
    format!("`{word}` of CROSSDOCK_SIM is not understood: {why}")
}

fn is_on(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Sets one link.
fn link(engine: &mut Config, text: &str) -> Option<()> {
    let (ends, rate) = text.split_once(':')?;
    let rate = bytes(rate).filter(|rate| *rate > 0)?;
    let link = Link {
        bytes_per_second: rate,
        ..Link::default()
    };
    if let Some((from, to)) = ends.split_once('-') {
        let ends = (from.parse().ok()?, to.parse().ok()?);
        engine.links_between.insert(ends, link);
        return Some(());
    }
    let device: usize = ends.parse().ok().filter(|device| *device < MOST_DEVICES)?;
    // A device without one has the default.
    let count = engine.links.len().max(device + 1);
    engine.links.resize_with(count, Link::default);
    *engine.links.get_mut(device)? = link;
    Some(())
}

/// No link is looked for beyond so many.
const MOST_DEVICES: usize = 64;

/// A wait in which nothing could run for this long is reported.
const STANDSTILL: Duration = Duration::from_secs(2);

/// A program may be so slow between two calls without work running that nobody chose, where choices are repeated.
const PATIENCE: Duration = Duration::from_secs(1);

/// The choices that a text names.
fn schedule(text: &str) -> Option<Schedule> {
    let choices = text.split(',').filter(|choice| !choice.is_empty());
    let choice = |text: &str| {
        let (step, choice) = text.split_once(':')?;
        let (call, nth) = step.split_once('.')?;
        let (call, nth) = (call.parse().ok()?, nth.parse().ok()?);
        Some((Step { call, nth }, choice.parse().ok()?))
    };
    choices.map(choice).collect()
}

fn bytes(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return text.parse().ok(),
    };
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    number.checked_mul(1 << shift)
}

/// The faults that a text names.
pub(crate) fn faults(text: &str) -> Option<Vec<Fault>> {
    text.split(',').map(fault).collect()
}

fn fault(text: &str) -> Option<Fault> {
    let (call, code) = text.split_once('=')?;
    let (name, nth) = call.split_once('@')?;
    let (name, device) = match name.strip_prefix("dev") {
        Some(rest) => {
            let (device, name) = rest.split_once(':')?;
            (name, Some(device.parse().ok()?))
        }
        None => (name, None),
    };
    let (name, moment) = match name.strip_prefix("exec:") {
        Some(name) => (name, Moment::Run),
        None => (name, Moment::Call),
    };
    // A second `*` would be one of the name, which no function has.
    if name.matches('*').count() > 1 {
        return None;
    }
    let (code, loses_device) = match code.strip_suffix('!') {
        Some(code) => (code, true),
        None => (code, false),
    };
    let (nth, onwards) = match nth.strip_suffix('+') {
        Some(nth) => (nth, true),
        None => (nth, false),
    };
    let mut fault = Fault::late(name, nth.parse().ok()?, code.parse().ok()?);
    (fault.moment, fault.device) = (moment, device);
    fault.onwards = onwards;
    fault.loses_device = loses_device;
    Some(fault)
}
