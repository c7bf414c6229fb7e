//! The look at a candidate file before it is loaded: opened once, read, and none of its code run.

use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    content,
    describe::{AbiVersion, Description},
    image::{self, Image},
    needed,
    paths::{Environment, check_ownership},
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
    /// Where its needed libraries are looked for, beside the standard folders.
    pub(super) run_path: Vec<String>,
    // Held, so that the inode is not used again while the plugin is open, and so that what is
    // loaded can be compared with what was looked at.
    pub(crate) file: File,
    written: Written,
}

/// What changes when a file is written.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    length: u64,
    seconds: i64,
    nanoseconds: i64,
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
    /// Symbols beside the root: the program's of the same names would be used in their place.
    Exports {
        /// Their names.
        names: Vec<String>,
    },
    /// Its file has another name than searches take a plugin of its name by.
    OtherName {
        /// What it should be called.
        wanted: String,
    },
    /// Its constructors changed the process's working folder; known once it was loaded.
    ChangesFolder {
        /// What it is now.
        folder: PathBuf,
    },
    /// Its constructors changed the process's environment; known once it was loaded.
    ChangesEnvironment {
        /// The variables.
        names: Vec<String>,
    },
    /// Several copies of its driver are loaded in this process; known once it was opened.
    SeveralDrivers {
        /// The soname.
        driver: String,
        /// The files.
        files: Vec<PathBuf>,
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

    /// Whether it is another name, or another copy, of the same bytes.
    #[must_use]
    pub fn is_duplicate_of(&self, other: &Self) -> bool {
        self.identity == other.identity || self.has_the_bytes_of(other)
    }

    /// Whether another file has the same bytes.
    pub(crate) fn has_the_bytes_of(&self, other: &Self) -> bool {
        self.written.length == other.written.length && same_bytes(&self.file, &other.file)
    }

    /// Whether the file was not written between two looks at it.
    pub(crate) fn is_unchanged(&self, later: &Self) -> bool {
        self.written == later.written
    }

    /// The needed libraries that the dynamic linker will not find, as far as its folders and its
    /// cache tell.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let is_missing = |name: &&String| !needed::is_found(name, &self.path, &self.run_path);
        self.needed.iter().filter(is_missing).cloned().collect()
    }
}

fn same_bytes(one: &File, two: &File) -> bool {
    let (mut left, mut right) = ([0; 16 << 10], [0; 16 << 10]);
    let mut at = 0;
    loop {
        let (Ok(length), Ok(other)) = (one.read_at(&mut left, at), two.read_at(&mut right, at))
        else {
            return false;
        };
        if left.get(..length) != right.get(..other) {
            return false;
        }
        if length == 0 {
            return true;
        }
        at += length as u64;
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
            Self::Exports { names } => write!(
                f,
                "it exports {} symbols beside its root (`{}`), which one of the program can \
                 replace: build it with an export list",
                names.len(),
                names.first().map_or("", String::as_str)
            ),
            Self::RunPath { entry } => {
                write!(f, "its run path `{entry}` is absolute: use `$ORIGIN`")
            }
            Self::OtherName { wanted } => write!(
                f,
                "a search takes it only as `{wanted}`: give it this name, or put that of its file \
                 into its description",
            ),
            Self::ChangesFolder { folder } => write!(
                f,
                "loading it changed the working folder to `{}`, by which the program finds its \
                 files: take that out of its constructor",
                folder.display()
            ),
            Self::ChangesEnvironment { names } => write!(
                f,
                "loading it changed the environment of the process (`{}`), which is the \
                 program's: take that out of its constructor",
                names.join("`, `")
            ),
            Self::SeveralDrivers { driver, files } => {
                let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
                write!(
                    f,
                    "the process has {} copies of its driver `{driver}` (`{}`), and what one of them \
                     hands out is nothing to the other: have the program load one",
                    files.len(),
                    files.join("`, `")
                )
            }
        }
    }
}

/// Looks at a file, once it is known that nobody else could have written it. A pipe or a folder is
/// refused at once, and no bytes make it panic or take long.
///
/// # Errors
/// Whose the file is, or what it is instead of a plugin.
pub fn preflight(path: &Path, environment: &Environment) -> Result<Preflight, PreflightError> {
    let named = || path.to_owned();
    path.canonicalize()
        .map_err(|source| unreachable_path(path, source))?;
    let real = check_ownership(path, environment).map_err(|source| PreflightError::Untrusted {
        path: named(),
        source,
    })?;
    let file = open(path, &real)?;
    let read = |source| PreflightError::Read {
        path: named(),
        source,
    };
    let facts = file.metadata().map_err(read)?;
    if let Some(kind) = name_of_kind(facts.file_type()) {
        return Err(PreflightError::NotAFile {
            path: named(),
            kind,
        });
    }
    if facts.len() > LIMIT {
        let source = io::Error::new(io::ErrorKind::FileTooLarge, format!("over {LIMIT} bytes"));
        return Err(read(source));
    }
    let identity = FileIdentity::of(&file).map_err(read)?;
    let Image {
        description,
        flavour,
        needed,
        run_path,
        mut remarks,
    } = image::inspect(path, &content::read(&file, facts.len()).map_err(read)?)?;
    let wanted = format!("libcrossdock_plugin_{}.so", description.name);
    if path.file_name() != Some(OsStr::new(&wanted)) {
        remarks.push(Remark::OtherName { wanted });
    }
    Ok(Preflight {
        identity,
        path: real,
        flavour,
        description,
        needed,
        remarks,
        run_path,
        file,
        written: Written {
            length: facts.len(),
            seconds: facts.mtime(),
            nanoseconds: facts.mtime_nsec(),
        },
    })
}

/// Opens a file without waiting for what is none.
fn open(path: &Path, real: &Path) -> Result<File, PreflightError> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(real);
    opened.map_err(|source| match special_kind(real) {
        // A socket cannot be opened at all.
        Some(kind) => PreflightError::NotAFile {
            path: path.to_owned(),
            kind,
        },
        None => unreachable_path(path, source),
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

/// No plugin is so large, with code for every device there is; a sparse file can be any size.
const LIMIT: u64 = 16 << 30;
