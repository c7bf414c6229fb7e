//! What `CROSSDOCK_ASYNCHRONOUS` chooses: `devices=2;queues=2;policy=seeded;seed=7;link=1:10G,1000,500;
//! fault=run:copy@3=VENDOR`.

use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sim_engine::{Config, Fault, Link, Moment, Policy};

use crate::peers::Links;

/// The variable that is read when the plugin is opened.
pub(crate) const VARIABLE: &str = "CROSSDOCK_ASYNCHRONOUS";

/// What is chosen.
#[derive(Debug)]
pub(crate) struct Settings {
    /// For the engine.
    pub(crate) engine: Config,
    /// What becomes of copies between devices.
    pub(crate) links: Links,
}

/// The choices of the process, or those that hold without any.
///
/// # Errors
/// Which part cannot be read, and what could stand there.
pub(crate) fn of_process() -> Result<Settings, String> {
    match std::env::var(VARIABLE) {
        Ok(text) => parse(&text).map_err(|why| format!("{VARIABLE}: {why}")),
        Err(std::env::VarError::NotPresent) => Ok(defaults()),
        Err(error) => Err(format!("{VARIABLE}: {error}")),
    }
}

/// Two devices with some memory; work that nobody waits for ends too.
fn defaults() -> Settings {
    Settings {
        engine: Config {
            devices: 2,
            queues: 256,
            policy: Policy::Lazy,
            idle: Some(Duration::from_millis(5)),
            ..Config::default()
        },
        links: Links::default(),
    }
}

/// Reads `KEY=VALUE;..`.
///
/// # Errors
/// Which part cannot be read, and what could stand there.
pub(crate) fn parse(text: &str) -> Result<Settings, String> {
    let mut settings = defaults();
    for part in text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` has no `=`"))?;
        set(&mut settings, key.trim(), value.trim()).map_err(|why| format!("`{part}`: {why}"))?;
    }
    Ok(settings)
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    let config = &mut settings.engine;
    match key {
        "devices" => config.devices = between(value, 1, 16)?,
        "queues" => config.queues = between(value, 1, 1024)?,
        "memory" => config.memory_bytes = bytes(value)?,
        "policy" => config.policy = policy(value)?,
        "seed" => config.seed = number(value)?,
        "workers" => config.workers = between(value, 1, 64)?,
        "delay_us" => config.delay = Duration::from_micros(number(value)?),
        "idle_ms" if value == "off" => config.idle = None,
        "idle_ms" => config.idle = Some(Duration::from_millis(number(value)?)),
        "turns" => config.turns = switch(value)?,
        "standstill_ms" => config.standstill = Duration::from_millis(number(value)?),
        "link" => link(&mut config.links, value)?,
        "paced" => config.paced = switch(value)?,
        "peer" => settings.links = links(value)?,
        "fault" => config.faults.extend(faults(value)?),
        _ => return Err(format!("no such key; the keys are {KEYS}")),
    }
    Ok(())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off".to_owned()),
    }
}

/// `DEVICE:BYTES_PER_SECOND[,LATENCY_NS[,ROW_NS]]`.
fn link(links: &mut Vec<Link>, value: &str) -> Result<(), String> {
    let unreadable = || format!("a link is {LINK}");
    let (device, speeds) = value.split_once(':').ok_or_else(unreadable)?;
    let device: usize = between(device, 0, 15)?;
    let mut speeds = speeds.split(',');
    let mut link = Link {
        bytes_per_second: bytes(speeds.next().unwrap_or_default())?,
        ..Link::default()
    };
    for slot in [&mut link.latency_ns, &mut link.row_ns] {
        *slot = speeds.next().map_or(Ok(*slot), number)?;
    }
    if speeds.next().is_some() {
        return Err(unreadable());
    }
    links.resize(links.len().max(device + 1), Link::default());
    if let Some(slot) = links.get_mut(device) {
        *slot = link;
    }
    Ok(())
}

/// The links by their name.
fn links(name: &str) -> Result<Links, String> {
    let known = Links::NAMES.iter().find(|(known, _)| *known == name);
    let known = known.map(|(_, links)| *links);
    known.ok_or_else(|| "links are on, off, drops, mirrors or all_drop".to_owned())
}

/// A policy by its name.
pub(crate) fn policy(name: &str) -> Result<Policy, String> {
    match name {
        "threads" => Ok(Policy::Threads),
        "seeded" => Ok(Policy::Seeded),
        "lazy" => Ok(Policy::Lazy),
        _ => Err("the policies are threads, seeded and lazy".to_owned()),
    }
}

/// Faults with `,` between them.
pub(crate) fn faults(text: &str) -> Result<Vec<Fault>, String> {
    text.split(',').map(|rule| fault(rule.trim())).collect()
}

/// `[run:|call:][DEVICE:]HOOK@NTH[+][%PERCENT]=STATUS[!]`.
fn fault(rule: &str) -> Result<Fault, String> {
    let unreadable = |what: &str| format!("{what} in `{rule}`; a fault is {FAULT}");
    let (struck, status) = rule.split_once('=').ok_or_else(|| unreadable("no `=`"))?;
    let (names, times) = struck.split_once('@').ok_or_else(|| unreadable("no `@`"))?;
    let (moment, names) = match names.split_once(':') {
        Some(("call", rest)) => (Moment::Call, rest),
        Some(("run", rest)) => (Moment::Run, rest),
        _ => (Moment::Run, names),
    };
    let (device, name) = match names.split_once(':') {
        Some((device, name)) => (Some(number(device).map_err(|why| unreadable(&why))?), name),
        None => (None, names),
    };
    let (times, percent) = match times.split_once('%') {
        Some((times, percent)) => (times, between(percent, 1, 100)?),
        None => (times, 100),
    };
    let (nth, onwards) = match times.strip_suffix('+') {
        Some(nth) => (nth, true),
        None => (times, false),
    };
    let (status, loses_device) = match status.strip_suffix('!') {
        Some(status) => (status, true),
        None => (status, false),
    };
    let known = Status::ALL
        .iter()
        .find(|(known, name)| *name == status && !known.is_ok());
    let (status, _) = known.ok_or_else(|| unreadable("an unknown status"))?;
    let nth = between(nth, 1, u64::MAX).map_err(|why| unreadable(&why))?;
    Ok(Fault {
        moment,
        device,
        nth,
        onwards,
        percent,
        loses_device,
        ..Fault::late(name, nth, status.raw())
    })
}

/// A number of bytes, with K, M or G behind it for powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let unit = text.strip_suffix(['K', 'M', 'G']).unwrap_or(text);
    let shift = match text.strip_prefix(unit) {
        Some("K") => 10,
        Some("M") => 20,
        Some("G") => 30,
        _ => 0,
    };
    let count: u64 = between(unit, 1, u64::MAX)?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| "too many bytes".to_owned())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_unread: T::Err| format!("`{text}` is no number that fits"))
}

fn between<T>(text: &str, low: T, high: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let found: T = number(text)?;
    if low <= found && found <= high {
        return Ok(found);
    }
    Err(format!("`{text}` is not between {low} and {high}"))
}

const KEYS: &str = "devices, queues, memory, policy, seed, workers, delay_us, idle_ms, turns, \
                    standstill_ms, link, paced, peer and fault";
const LINK: &str = "DEVICE:BYTES_PER_SECOND[,LATENCY_NS[,ROW_NS]]";
const FAULT: &str = "[run:|call:][DEVICE:]HOOK@NTH[+][%PERCENT]=STATUS[!]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "devices=3; queues=1;memory=64M;policy=lazy;seed=7;workers=4;delay_us=30;\
                    idle_ms=off;turns=on;standstill_ms=250;link=1:1K,5,7;paced=on;peer=drops";
        let settings = parse(text).unwrap();
        assert_eq!(settings.links, Links::Drop);
        let config = settings.engine;
        assert_eq!((config.devices, config.queues, config.seed), (3, 1, 7));
        assert_eq!((config.memory_bytes, config.workers), (64 << 20, 4));
        assert_eq!((config.policy, config.idle), (Policy::Lazy, None));
        assert!(config.turns && !parse("turns=off").unwrap().engine.turns);
        assert_eq!(config.delay, Duration::from_micros(30));
        assert_eq!(config.standstill, Duration::from_millis(250));
        let link = Link {
            latency_ns: 5,
            bytes_per_second: 1024,
            row_ns: 7,
        };
        assert_eq!(config.links, [Link::default(), link]);
        assert!(config.paced);
        assert_eq!(
            parse("idle_ms=9").unwrap().engine.idle,
            Some(Duration::from_millis(9))
        );
    }

    #[test]
    fn faults_are_read() {
        let read = parse("fault=copy@3=VENDOR,call:1:allocate@1+%3=OOM_DEVICE!").unwrap();
        let late = Fault::late("copy", 3, Status::VENDOR.raw());
        let refusal = Fault {
            device: Some(1),
            loses_device: true,
            ..Fault::refusal("allocate", 1, Status::OOM_DEVICE.raw()).at_percent(3)
        };
        assert_eq!(read.engine.faults, [late, refusal]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_could_stand_there() {
        for (text, wanted) in [
            ("devices", "no `=`"),
            ("devices=0", "between 1 and 16"),
            ("devices=17", "between 1 and 16"),
            ("device=2", "the keys are devices"),
            ("policy=eager", "threads, seeded and lazy"),
            ("memory=64X", "no number"),
            ("memory=99999999999G", "too many bytes"),
            ("turns=1", "on or off"),
            ("peer=lies", "on, off, drops"),
            ("link=1", "DEVICE:BYTES"),
            ("link=16:1G", "between 0 and 15"),
            ("link=1:1G,2,3,4", "DEVICE:BYTES"),
            ("fault=copy=VENDOR", "no `@`"),
            ("fault=copy@1=OK", "unknown status"),
            ("fault=copy@0=VENDOR", "not between 1"),
            ("fault=copy@1%101=VENDOR", "between 1 and 100"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(wanted) && why.contains('`'), "{text}: {why}");
        }
    }
}
