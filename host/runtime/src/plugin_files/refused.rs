//! Why a file was refused before it was loaded: what, why and what to do, each in a line. Why its table was
//! refused afterwards is a `TableError` (`contract/table.rs`).

use std::{io, path::PathBuf};

use crossdock_sdk::{shown::shell_word, trust::Untrusted};

use super::describe::{AbiVersion, DescribeError};

/// A file that is no plugin for this host. None of its code ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// Nothing has this name, or the link leads nowhere.
    #[error("find the plugin `{}`", .path.display())]
    NotFound {
        /// The file as it was named.
        path: PathBuf,
        /// Where the link leads, when it is one.
        link: Option<PathBuf>,
    },
    /// Somebody else could have put it there.
    #[error("trust the plugin `{}`", .path.display())]
    Untrusted {
        /// The file as it was named.
        path: PathBuf,
        /// What breaks the rule of owners.
        #[source]
        source: Untrusted,
    },
    /// The system does not let this user read it.
    #[error("open the plugin `{}` without permission", .path.display())]
    NoPermission {
        /// The file.
        path: PathBuf,
    },
    /// A folder, a pipe, a socket or a device.
    #[error("read the plugin `{}`, which is {kind}", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is, with its article.
        kind: &'static str,
    },
    /// The system failed to read it.
    #[error("read the plugin `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A text file or something else that is no library.
    #[error("read `{}` as a shared library", .path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What was seen instead.
        seen: &'static str,
    },
    /// Built for another machine.
    #[error("use the plugin `{}` on this machine", .path.display())]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// What it was built for.
        found: String,
        /// What this host is.
        wanted: String,
    },
    /// Its end is missing.
    #[error("read the plugin `{}` to its end", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How long it must be at least.
        needs: u64,
        /// How long it is.
        has: u64,
        /// The part that is not there.
        part: &'static str,
    },
    /// Whole in length, but what it says cannot be.
    #[error("make sense of the plugin `{}`", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What cannot be.
        detail: String,
    },
    /// A library without a self-description.
    #[error("find the section `.crossdock` in `{}`", .path.display())]
    NoDescription {
        /// The file.
        path: PathBuf,
    },
    /// The self-description cannot be read.
    #[error("read the section `.crossdock` of `{}`", .path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: DescribeError,
    },
    /// A library that describes itself and offers no table.
    #[error("find the root symbol of the plugin `{}`", .path.display())]
    NoRoot {
        /// The file.
        path: PathBuf,
    },
    /// Built for another major version of the contract.
    #[error("use the plugin `{}` of ABI {plugin} in a host of ABI {host}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The plugin's version.
        plugin: AbiVersion,
        /// The host's version.
        host: AbiVersion,
    },
    /// A library that it needs is not on this machine; told from its list of needed libraries.
    #[error("find `{library}`, which the plugin `{}` needs", .path.display())]
    MissingDependency {
        /// The file.
        path: PathBuf,
        /// The library that was not found.
        library: String,
    },
}

impl PreflightError {
    /// Why it is refused.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::NotFound { link: None, .. } => "there is no such file".to_owned(),
            Self::NotFound { link: Some(to), .. } => {
                format!("it is a link to `{}`, which does not exist", to.display())
            }
            Self::NoPermission { .. } => "this user may not read it".to_owned(),
            Self::NotAFile { .. } => "a plugin is a regular file".to_owned(),
            Self::Untrusted { source, .. } => source.to_string(),
            Self::Read { source, .. } => source.to_string(),
            Self::NotALibrary { seen, .. } => format!("it is {seen}"),
            Self::WrongMachine { found, wanted, .. } => {
                format!("it was built for {found}, and this host is {wanted}")
            }
            Self::Truncated {
                needs, has, part, ..
            } => {
                format!("it has {has} bytes, and its {part} ends at byte {needs}")
            }
            Self::Damaged { detail, .. } => detail.clone(),
            Self::NoDescription { .. } => {
                "it is a library, but it does not describe itself as a plugin".to_owned()
            }
            Self::Description { source, .. } => source.to_string(),
            Self::NoRoot { .. } => format!(
                "it exports neither `{}` (C) nor `{}` (Rust)",
                super::image::C_ROOT,
                super::image::RUST_ROOT
            ),
            Self::Version { .. } => "the major versions of the contract differ".to_owned(),
            Self::MissingDependency { library, .. } => format!(
                "it needs `{library}`, which is neither loaded nor in the folders of the dynamic \
                 linker"
            ),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => "check the path".to_owned(),
            Self::Untrusted { source, .. } => source.hint(),
            Self::NoPermission { path } => format!("chmod u+r {}", shell_word(path)),
            Self::NotAFile { .. } => {
                "name the plugin's file; folders go into `CROSSDOCK_PLUGIN_PATH`".to_owned()
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                "check the path: one of its folders is a file".to_owned()
            }
            Self::Read { .. } => "check the disk or the mount it lies on".to_owned(),
            Self::NotALibrary { .. } => {
                "name a shared library; a source is compiled and linked with `-shared` first"
                    .to_owned()
            }
            Self::WrongMachine { wanted, .. } => format!("install its build for {wanted}"),
            Self::Truncated { .. } | Self::Damaged { .. } => {
                "copy, download or build it again".to_owned()
            }
            Self::NoDescription { .. } => {
                "export it: `crossdock_sdk::export_plugin!(YourType);` in Rust, in a crate of the type \
                 `cdylib`, or `XD_PLUGIN_DESCRIBE` in C"
                    .to_owned()
            }
            Self::Description { source, .. } => source.hint(),
            Self::NoRoot { .. } => {
                "export one, and check that no export list and no `strip` removes it".to_owned()
            }
            Self::Version { host, .. } => {
                format!(
                    "build the plugin against version {}.x of the sdk",
                    host.major
                )
            }
            Self::MissingDependency { library, .. } => {
                format!("install the package with `{library}`, or put its folder into the run path")
            }
        }
    }
}
