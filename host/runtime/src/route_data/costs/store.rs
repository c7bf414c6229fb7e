//! The file of measured costs: JSON that is replaced as a whole and never believed unchecked.
#![expect(unsafe_code, reason = "locks a folder")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crossdock_sdk::plugin::read_fixed_text;
use crossdock_sdk::regular;
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::table::WayCosts;
use crate::plugins::plugin_device::PluginDevice;
use crate::process::process_state;

/// Reads and writes the file, where there is one.
#[derive(Debug)]
pub(super) struct Store {
    file: Option<PathBuf>,
    chunk_bytes: u64,
}

/// Two devices as another process finds them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PairIdentity {
    from: Identity,
    to: Identity,
}

/// What the costs of a device hang on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    plugin: String,
    version: String,
    /// The uuid; without one the place on the bus, or the name and the index.
    device: String,
    driver: String,
}

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    records: Vec<Record>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    pair: PairIdentity,
    /// Staged copies cost otherwise with other chunks.
    chunk_bytes: u64,
    class: Class,
    costs: WayCosts,
}

impl PairIdentity {
    pub(super) fn new([from, to]: [&PluginDevice; 2]) -> Self {
        Self {
            from: Identity::new(from),
            to: Identity::new(to),
        }
    }
}

impl Identity {
    fn new(device: &PluginDevice) -> Self {
        let info = &device.info;
        let uuid =
            (info.uuid != [0; 16]).then(|| format!("{:032x}", u128::from_be_bytes(info.uuid)));
        let bus = || Some(read_fixed_text(&info.pci_bus_id)).filter(|bus| !bus.is_empty());
        let name = || format!("{} {}", read_fixed_text(&info.name), device.index);
        let driver = read_fixed_text(&info.driver_version);
        let runtime = read_fixed_text(&info.runtime_version);
        Self {
            plugin: device.plugin.name().to_owned(),
            version: device.plugin.version().to_owned(),
            device: uuid.or_else(bus).unwrap_or_else(name),
            driver: format!("{driver} {runtime}"),
        }
    }
}

impl Store {
    pub(super) fn new(file: Option<&Path>, chunk_bytes: u64) -> Self {
        Self {
            file: file.map(ToOwned::to_owned),
            chunk_bytes,
        }
    }

    /// The kept costs of a class of copies between a pair; `None` also for a file that cannot be read or
    /// is not as it should be.
    pub(super) fn read(&self, pair: &PairIdentity, class: Class) -> Option<WayCosts> {
        let records = self.content()?.records;
        let record = records
            .into_iter()
            .find(|record| self.is_for(record, pair, class))?;
        Some(record.costs)
    }

    /// Keeps costs beside those that are in the file. A failure is told in the log.
    pub(super) fn write(&self, pair: &PairIdentity, class: Class, costs: &WayCosts) {
        let Some(file) = self
            .file
            .as_deref()
            .filter(|_| process_state::generation() == 0)
        else {
            return;
        };
        // What another process writes meanwhile would be lost.
        let _locked = folder(file).and_then(lock);
        let mut content = self.content().unwrap_or_default();
        content.version = VERSION;
        let is_other = |record: &Record| !self.is_for(record, pair, class);
        content.records.retain(is_other);
        content.records.push(Record {
            pair: pair.clone(),
            chunk_bytes: self.chunk_bytes,
            class,
            costs: costs.clone(),
        });
        let surplus = content.records.len().saturating_sub(MOST_RECORDS);
        content.records.drain(..surplus);
        if let Err(error) = replace(file, &content) {
            let file = file.display();
            log::debug!(target: "crossdock::route", "costs are not kept in `{file}`: {error}");
        }
    }

    fn is_for(&self, record: &Record, pair: &PairIdentity, class: Class) -> bool {
        let is_of_class = record.class == class && record.chunk_bytes == self.chunk_bytes;
        is_of_class && record.pair == *pair
    }

    fn content(&self) -> Option<Content> {
        let mut text = Vec::new();
        let file = self.file.as_deref()?;
        let mut opened = regular::open(file).ok()?.take(MOST_BYTES);
        opened.read_to_end(&mut text).ok()?;
        let content: Content = serde_json::from_slice(&text).ok()?;
        (content.version == VERSION).then_some(content)
    }
}

/// The file's folder, which is made where it is missing.
fn folder(file: &Path) -> io::Result<File> {
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    File::open(folder)
}

/// Locks a folder until the result is dropped. Who holds it writes one small file, so a longer wait is for
/// a process that was stopped, and no wait at all where the file system has no locks.
fn lock(folder: File) -> io::Result<File> {
    for _ in 0..MOMENTS {
        // SAFETY: an open file; the lock ends with it.
        if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            break;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            break;
        }
        thread::park_timeout(MOMENT);
    }
    Ok(folder)
}

/// Writes beside the file and renames: a reader sees the old content or the new one. What is no regular
/// file stays: a rename would replace the system's `/dev/null`, or a link by what it leads to.
fn replace(file: &Path, content: &Content) -> io::Result<()> {
    if file.symlink_metadata().is_ok_and(|facts| !facts.is_file()) {
        return Err(regular::not_regular());
    }
    let text = serde_json::to_vec_pretty(content)?;
    regular::fits(text.len() as u64)?;
    let mut beside = file.as_os_str().to_owned();
    let thread = thread::current().id();
    beside.push(format!(".{}.{thread:?}", std::process::id()));
    let beside = PathBuf::from(beside);
    // Only a new file: what lies there under this name may lead elsewhere.
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .and_then(|mut new| new.write_all(&text))
        .and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        // Nothing more can be done about what is left of it.
        let _removed = fs::remove_file(&beside);
    }
    written
}

/// For how many moments the lock of another process is awaited.
const MOMENTS: u32 = 1000;
/// Between two looks at the lock.
const MOMENT: Duration = Duration::from_millis(1);
/// Another version of the file is another file.
const VERSION: u32 = 2;
/// More than so many are old ones.
const MOST_RECORDS: usize = 1024;
/// A longer file is not ours.
const MOST_BYTES: u64 = 8 << 20;
