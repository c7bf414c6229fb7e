//! Where plugin files are looked for, and whose files are trusted.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs, io, iter,
    path::{Path, PathBuf},
};

use crossdock_sdk::trust::{self, Offender, Rule, Untrusted};

use super::dynamic_linker;

/// What the search takes from the process, apart from it so that a test can choose it.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "tests and embedders build it")]
pub struct Environment {
    /// `CROSSDOCK_PLUGIN_PATH`: folders with `:` between them.
    pub plugin_path: Option<OsString>,
    /// `CROSSDOCK_PLUGINS`: the only names to load, with `,` between them.
    pub plugins: Option<OsString>,
    /// `CROSSDOCK_DEVICE_ORDER`: the devices that get the first ids of their types.
    pub device_order: Option<OsString>,
    /// `CROSSDOCK_TRUST_PATHS=1`: skip the ownership rule.
    pub trust_paths: bool,
    /// The process has rights that its caller has not: the four above are ignored.
    pub privileged: bool,
    /// The folders of the executable and of the library with this code.
    pub beside: Vec<PathBuf>,
    /// The effective user.
    pub user: u32,
}

/// Who named a candidate; the search goes in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Origin {
    /// The program or the command line.
    Given,
    /// `CROSSDOCK_PLUGIN_PATH`.
    Variable,
    /// `crossdock/plugins` beside the executable or library.
    Beside,
    /// The install prefix's `lib/crossdock/plugins`.
    Prefix,
}

/// A file that may be a plugin. Nothing but its name was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Absolute.
    pub path: PathBuf,
    /// Who named it.
    pub origin: Origin,
}

/// What a search found, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Search {
    /// The files, given ones first, then by folder and name.
    pub candidates: Vec<Candidate>,
    /// The folders that were looked into, whether they exist or not.
    pub folders: Vec<PathBuf>,
    /// What was ignored, and why; for the log.
    pub warnings: Vec<String>,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let folder = |path: Option<PathBuf>| Some(path?.canonicalize().ok()?.parent()?.to_owned());
        let executable = folder(std::env::current_exe().ok());
        let library =
            folder(dynamic_linker::own_file()).filter(|dir| Some(dir) != executable.as_ref());
        Self {
            plugin_path: std::env::var_os("CROSSDOCK_PLUGIN_PATH"),
            plugins: std::env::var_os("CROSSDOCK_PLUGINS"),
            device_order: std::env::var_os("CROSSDOCK_DEVICE_ORDER"),
            trust_paths: std::env::var_os("CROSSDOCK_TRUST_PATHS").is_some_and(|v| v == "1"),
            privileged: trust::is_privileged(),
            beside: executable.into_iter().chain(library).collect(),
            user: trust::user(),
        }
    }

    /// Whether `CROSSDOCK_PLUGINS` leaves this name in. Explicitly given files are not asked.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        match &self.plugins {
            Some(list) if !self.privileged => list
                .to_string_lossy()
                .split(',')
                .any(|wanted| wanted.trim() == name),
            _ => true,
        }
    }

    pub(crate) fn device_order(&self) -> Option<&OsString> {
        self.device_order.as_ref().filter(|_| !self.privileged)
    }

    fn ignored(&self) -> impl Iterator<Item = String> {
        let set = [
            ("CROSSDOCK_PLUGIN_PATH", self.plugin_path.is_some()),
            ("CROSSDOCK_PLUGINS", self.plugins.is_some()),
            ("CROSSDOCK_DEVICE_ORDER", self.device_order.is_some()),
            ("CROSSDOCK_TRUST_PATHS", self.trust_paths),
        ];
        let names = set
            .into_iter()
            .filter(|(_, is_set)| self.privileged && *is_set);
        names.map(|(name, _)| format!("`{name}` is ignored: this process is privileged"))
    }
}

/// Lists the files that may be plugins: given files and folders, `CROSSDOCK_PLUGIN_PATH`, `crossdock/plugins`
/// beside the executable or library, the install prefix. Never the working directory.
#[must_use]
pub fn search(given: &[PathBuf], environment: &Environment) -> Search {
    let mut found = Search {
        warnings: environment.ignored().collect(),
        ..Search::default()
    };
    for path in given {
        // `dlopen` searches its own path for a name without a slash.
        match std::path::absolute(path) {
            Ok(path) if path.is_dir() => {
                list(&path, Origin::Given, environment, &mut found);
                found.folders.push(path);
            }
            Ok(path) => found.candidates.push(Candidate {
                path,
                origin: Origin::Given,
            }),
            Err(error) => found
                .warnings
                .push(format!("`{}`: {error}", path.display())),
        }
    }
    let mut seen = HashSet::new();
    for (folder, origin) in folders(environment, &mut found.warnings) {
        if seen.insert(folder.clone()) {
            list(&folder, origin, environment, &mut found);
            found.folders.push(folder);
        }
    }
    found
}

/// The real path of a plugin that no other user could have written, by the rule of
/// [`crossdock_sdk::trust`]; of any plugin if the environment waives it. In the folders that come with the
/// executable or the library, the users who can change that one can also add plugins.
///
/// # Errors
/// Everything on the way to the file that breaks the rule.
pub fn check_ownership(path: &Path, environment: &Environment) -> Result<PathBuf, Untrusted> {
    if environment.trust_paths && !environment.privileged {
        return path.canonicalize().map_err(|error| {
            Untrusted::from(Offender::Look {
                at: path.to_owned(),
                why: error.to_string(),
            })
        });
    }
    let rule = Rule::of(environment.user);
    // The folder of a privileged program can be chosen by its caller, by a hard link.
    let loaded = environment.beside.iter().find(|loaded| {
        !environment.privileged
            && own_folders(loaded).any(|(folder, _)| Some(&*folder) == path.parent())
    });
    match loaded {
        Some(loaded) => rule.and_of(loaded).check(path),
        None => rule.check(path),
    }
}

/// Where the plugins are that come with an executable or a library in this folder.
fn own_folders(beside: &Path) -> impl Iterator<Item = (PathBuf, Origin)> {
    let prefix = beside.parent();
    let prefix = prefix.map(|prefix| (prefix.join("lib/crossdock/plugins"), Origin::Prefix));
    iter::once((beside.join("crossdock/plugins"), Origin::Beside)).chain(prefix)
}

/// The folders in their order; relative ones of the environment become warnings.
fn folders(environment: &Environment, warnings: &mut Vec<String>) -> Vec<(PathBuf, Origin)> {
    let mut folders = Vec::new();
    let variable = environment
        .plugin_path
        .as_ref()
        .filter(|_| !environment.privileged);
    for folder in variable.into_iter().flat_map(std::env::split_paths) {
        if folder.is_absolute() {
            folders.push((folder, Origin::Variable));
        } else if !folder.as_os_str().is_empty() {
            warnings.push(format!(
                "`{}` in `CROSSDOCK_PLUGIN_PATH` is ignored: only absolute folders are searched",
                folder.display()
            ));
        }
    }
    let own = environment.beside.iter().map(PathBuf::as_path);
    folders.extend(own.flat_map(own_folders));
    folders.sort_by_key(|(_, origin)| *origin);
    folders
}

fn list(folder: &Path, origin: Origin, environment: &Environment, found: &mut Search) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            // The two folders of our own need not exist; one that a person named should.
            let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            if origin == Origin::Variable || !absent.contains(&error.kind()) {
                found
                    .warnings
                    .push(format!("`{}`: {error}", folder.display()));
            }
            return;
        }
    };
    let wanted = |name: &OsString| {
        let name = name.to_str().and_then(plugin_name);
        name.is_some_and(|name| environment.wants(name))
    };
    let mut names: Vec<OsString> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(wanted)
        .collect();
    names.sort();
    let paths = names.into_iter().map(|name| Candidate {
        path: folder.join(name),
        origin,
    });
    found.candidates.extend(paths);
}

/// `cpu` of `libcrossdock_plugin_cpu.so`.
fn plugin_name(file: &str) -> Option<&str> {
    let name = file
        .strip_prefix("libcrossdock_plugin_")?
        .strip_suffix(".so")?;
    (!name.is_empty()).then_some(name)
}
