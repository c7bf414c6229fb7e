//! The look at a candidate file before it is loaded: opened once, read, and none of its code run.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    describe::{AbiVersion, Description},
    image::{self, Image},
    refused::PreflightError,
};

/// A file that may be loaded, as far as its bytes tell.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preflight {
    /// Which file it is, whatever it is called.
    pub identity: FileIdentity,
    /// The path to load it by: absolute and without links.
    pub path: PathBuf,
    /// How its table is found.
    pub flavour: Flavour,
    /// What it says of itself.
    pub description: Description,
    /// The libraries that it needs, by their names.
    pub needed: Vec<String>,
    /// What a person should know, and what refuses nothing.
    pub remarks: Vec<Remark>,
    // Held, so that the inode is not used again before the file is loaded.
    _file: File,
}

/// Device and inode: the same for every name of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FileIdentity {
    /// The number of the file system.
    pub dev: u64,
    /// The number of the file in it.
    pub inode: u64,
}

/// Which language the plugin offers its table in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavour {
    /// A root module of `abi_stable`.
    Rust,
    /// The function `crossdock_plugin`.
    C,
}

/// Something odd that does not refuse the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// It takes static thread-local storage, of which a process has little.
    StaticTls,
    /// Symbols that the linker shares between plugins, even local ones.
    UniqueSymbols {
        /// Their names.
        names: Vec<String>,
    },
    /// A run path that depends on the machine, or on the working directory when empty.
    RunPath {
        /// The entry.
        entry: String,
    },
}

impl Preflight {
    /// Refuses a plugin of another major version of the contract.
    ///
    /// # Errors
    /// [`PreflightError::Version`] with both versions.
    pub fn check_version(&self, host: AbiVersion) -> Result<(), PreflightError> {
        if self.description.fits(host) {
            return Ok(());
        }
        let (path, plugin) = (self.path.clone(), self.description.abi);
        Err(PreflightError::Version { path, plugin, host })
    }
}

impl FileIdentity {
    /// The identity of an opened file.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(file: &File) -> io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Self {
            dev: facts.dev(),
            inode: facts.ino(),
        })
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaticTls => f.write_str(
                "it uses static thread-local storage (DF_STATIC_TLS): loading fails when the \
                 process has none left; build it with `-ftls-model=global-dynamic`",
            ),
            Self::UniqueSymbols { names } => write!(
                f,
                "{} unique symbols are shared with other plugins (`{}`): \
                 build it with an export list",
                names.len(),
                names.first().map_or("", String::as_str)
            ),
            Self::RunPath { entry } if entry.is_empty() => {
                f.write_str("its run path has an empty entry, which is the working directory")
            }
            Self::RunPath { entry } => {
                write!(f, "its run path `{entry}` is absolute: use `$ORIGIN`")
            }
        }
    }
}

/// Looks at a file. A pipe or a folder is refused at once, and no bytes make it panic.
///
/// # Errors
/// What the file is instead of a plugin.
pub fn preflight(path: &Path) -> Result<Preflight, PreflightError> {
    let named = || path.to_owned();
    let canonical = path
        .canonicalize()
        .map_err(|source| unreachable_path(path, source))?;
    // Without O_NONBLOCK the open of a pipe waits for a writer.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(&canonical)
        .map_err(|source| match special_kind(&canonical) {
            // A socket cannot be opened at all.
            Some(kind) => PreflightError::NotAFile {
                path: named(),
                kind,
            },
            None => unreachable_path(path, source),
        })?;
    let read = |source| PreflightError::Read {
        path: named(),
        source,
    };
    let kind = file.metadata().map_err(read)?.file_type();
    if let Some(kind) = name_of_kind(kind) {
        return Err(PreflightError::NotAFile {
            path: named(),
            kind,
        });
    }
    let identity = FileIdentity::of(&file).map_err(read)?;
    let mut bytes = Vec::new();
    let limited = file.by_ref().take(LIMIT + 1).read_to_end(&mut bytes);
    limited.map_err(read)?;
    if bytes.len() as u64 > LIMIT {
        let source = io::Error::new(io::ErrorKind::FileTooLarge, format!("over {LIMIT} bytes"));
        return Err(read(source));
    }
    let Image {
        description,
        flavour,
        needed,
        remarks,
    } = image::inspect(path, &bytes)?;
    Ok(Preflight {
        identity,
        path: canonical,
        flavour,
        description,
        needed,
        remarks,
        _file: file,
    })
}

fn unreachable_path(path: &Path, source: io::Error) -> PreflightError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => {
            let link = fs::read_link(&path).ok();
            PreflightError::NotFound { path, link }
        }
        io::ErrorKind::PermissionDenied => PreflightError::NoPermission { path },
        _ => PreflightError::Read { path, source },
    }
}

fn special_kind(path: &Path) -> Option<&'static str> {
    name_of_kind(fs::metadata(path).ok()?.file_type())
}

/// What is no regular file, with its article.
fn name_of_kind(kind: fs::FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// No plugin is a gigabyte; a sparse file can be any size.
const LIMIT: u64 = 1 << 30;
