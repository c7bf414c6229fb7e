//! What executables said of themselves, kept in the user's cache folder: to ask one takes as long as
//! to start Python. Without it `crossdock run` of an empty script took 2.3 times as long (0.19 s beside
//! 0.08 s, interleaved, on two busy cores).

use std::env;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crossdock_sdk::{regular, trust};

/// The place of one executable's answer. Few places serve all, so that nothing piles up.
pub(crate) struct Entry {
    file: PathBuf,
    /// The question, and which file was asked: the entry begins with it.
    key: Vec<u8>,
}

const ENTRIES: u64 = 64;

impl Entry {
    /// The entry of an executable whose answer depends on its file alone; a shim has none.
    pub(crate) fn of(executable: &Path, question: &str) -> Option<Self> {
        if trust::is_privileged() || !is_program(executable) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        executable.hash(&mut hasher);
        let name = format!("{:02x}", hasher.finish() % ENTRIES);
        Some(Self {
            file: folder()?.join(name),
            key: key(executable, question)?,
        })
    }

    /// The answer, where it was kept and nobody else could have written it.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let places = [self.file.parent()?, &self.file];
        let ours = places.iter().all(|place| is_ours(place));
        let mut content = Vec::new();
        let mut file = ours.then(|| regular::open(&self.file).ok()).flatten()?;
        file.read_to_end(&mut content).ok()?;
        content.strip_prefix(&*self.key).map(<[u8]>::to_vec)
    }

    /// Keeps an answer. A failure is told in the log.
    pub(crate) fn write(&self, answer: &[u8]) {
        if let Err(error) = self.replace(answer) {
            let file = self.file.display();
            log::debug!(target: "crossdock::script", "`{file}` is not kept: {error}");
        }
    }

    fn replace(&self, answer: &[u8]) -> io::Result<()> {
        regular::fits((self.key.len() + answer.len()) as u64)?;
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let fresh = self.file.with_extension(std::process::id().to_string());
        let mut create = OpenOptions::new();
        let mut file = create
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        let written = file
            .write_all(&self.key)
            .and_then(|()| file.write_all(answer));
        written
            .and_then(|()| fs::rename(&fresh, &self.file))
            .or_else(|error| {
                fs::remove_file(&fresh)?;
                Err(error)
            })
    }
}

fn folder() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = named.filter(|folder| folder.is_absolute()).or_else(home)?;
    cache.is_absolute().then(|| cache.join("crossdock/pythons"))
}

fn key(executable: &Path, question: &str) -> Option<Vec<u8>> {
    let mut key = question.as_bytes().to_vec();
    key.extend(executable.as_os_str().as_bytes());
    key.extend(stamp(&executable.metadata().ok()?).into_bytes());
    // An environment can be made again around the same executable.
    let environment = executable.parent().and_then(Path::parent);
    let settings = environment.map(|folder| folder.join("pyvenv.cfg").metadata());
    if let Some(Ok(settings)) = settings {
        key.extend(stamp(&settings).into_bytes());
    }
    Some(key)
}

/// What differs when a file was replaced or changed, whatever its date says.
fn stamp(facts: &Metadata) -> String {
    let (seconds, nanoseconds) = (facts.ctime(), facts.ctime_nsec());
    let (device, inode, size) = (facts.dev(), facts.ino(), facts.size());
    format!("\n{device} {inode} {size} {seconds} {nanoseconds}\n")
}

/// Whether it is ours, and others cannot write there.
fn is_ours(place: &Path) -> bool {
    let user = fs::metadata("/proc/self").map(|facts| facts.uid());
    let facts = place.symlink_metadata();
    facts.is_ok_and(|facts| user.is_ok_and(|user| facts.uid() == user) && facts.mode() & 0o022 == 0)
}

/// Scripts answer by what they find around them.
fn is_program(executable: &Path) -> bool {
    let mut head = [0_u8; 4];
    let read = fs::File::open(executable).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && &head == b"\x7fELF"
}
