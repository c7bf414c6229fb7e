//! Where a Python may be, in the order in which the places are tried.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::finding::search::Options;

/// One executable that may be a Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    /// Which rule names it.
    pub(crate) why: String,
    /// The user named it: it is this one or none.
    pub(crate) mandatory: bool,
    /// It is an environment that the user chose to be in.
    pub(crate) environment: bool,
    /// It came with this program, so the users who can change the program can change it, too.
    pub(crate) with_program: bool,
}

impl Candidate {
    fn new(path: PathBuf, why: impl Into<String>) -> Self {
        Self {
            path,
            why: why.into(),
            mandatory: false,
            environment: false,
            with_program: false,
        }
    }

    fn with_program(self) -> Self {
        Self {
            with_program: true,
            ..self
        }
    }

    fn environment(path: PathBuf, why: impl Into<String>) -> Self {
        Self {
            environment: true,
            ..Self::new(path, why)
        }
    }

    fn mandatory(path: PathBuf, why: &str) -> Self {
        Self {
            mandatory: true,
            ..Self::new(path, why)
        }
    }
}

/// What the user named, where something is named: then nothing else counts.
pub(crate) fn named(options: &Options, privileged: bool) -> Option<Candidate> {
    let host = if options.in_cli {
        "`--python` says so"
    } else {
        "the host program says so"
    };
    if let Some(python) = &options.python {
        return Some(chosen(python, host));
    }
    let variable = env::var_os("CROSSDOCK_PYTHON").filter(|value| !value.is_empty());
    variable
        .filter(|_value| !privileged)
        .map(|python| chosen(Path::new(&python), "`CROSSDOCK_PYTHON` is set"))
}

fn chosen(python: &Path, why: &str) -> Candidate {
    let path = resolved(python);
    if is_bare(python) && !path.exists() {
        let why = format!("{why}, and no folder of `PATH` has it");
        return Candidate::mandatory(path, &why);
    }
    Candidate::mandatory(path, why)
}

/// All other places; a privileged process looks only beside its own file.
pub(crate) fn all(options: &Options, privileged: bool) -> Vec<Candidate> {
    let mut all = Vec::new();
    if !privileged {
        all.extend(options.in_cli.then(installed_in).flatten());
        all.extend(activated("VIRTUAL_ENV"));
        let conda = activated("CONDA_PREFIX");
        // Conda's `base` is always active for those who have it, and says nothing about a project.
        let base = env::var_os("CONDA_DEFAULT_ENV").is_some_and(|name| name == "base");
        let project = if options.in_cli { project() } else { None };
        if base {
            all.extend(project.into_iter().chain(conda));
        } else {
            all.extend(conda.into_iter().chain(project));
        }
        for name in ["python3", "python"] {
            let found = on_path(OsStr::new(name));
            all.extend(
                found
                    .into_iter()
                    .map(|path| Candidate::new(path, format!("`{name}` is on `PATH`"))),
            );
        }
    }
    all.extend(shipped());
    all
}

/// An executable, the folder of an environment, or the name of a program on `PATH`.
fn resolved(python: &Path) -> PathBuf {
    if python.is_dir() {
        return interpreter_of(python);
    }
    let found = is_bare(python).then(|| on_path(python.as_os_str()).into_iter().next());
    let path = found.flatten().unwrap_or_else(|| python.to_owned());
    std::path::absolute(&path).unwrap_or(path)
}

/// A name that is looked for on `PATH`: without a folder, and of nothing that lies here.
fn is_bare(python: &Path) -> bool {
    python.components().count() == 1 && !python.is_absolute() && !python.exists()
}

/// The interpreter in an environment's folder, whether it is there or not.
fn interpreter_of(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let names = ["bin/python3", "bin/python"].map(|name| folder.join(name));
    let there = names.iter().find(|path| path.symlink_metadata().is_ok());
    there.unwrap_or(&folder.join("bin/python3")).clone()
}

fn activated(variable: &str) -> Option<Candidate> {
    let folder = env::var_os(variable).filter(|value| !value.is_empty())?;
    let path = interpreter_of(Path::new(&folder));
    Some(Candidate::environment(path, format!("`{variable}` is set")))
}

/// The environment `.venv` of the project that the working directory lies in.
fn project() -> Option<Candidate> {
    let here = env::current_dir().ok()?;
    let found = here.ancestors().map(|folder| folder.join(".venv"));
    let folder = found
        .into_iter()
        .find(|venv| venv.join("pyvenv.cfg").is_file())?;
    let why = format!("`{}` is the project's environment", folder.display());
    Some(Candidate::environment(interpreter_of(&folder), why))
}

/// The environment into which the program was installed as part of the package: the command of an
/// environment runs that environment's Python, as all its other commands do.
fn installed_in() -> Option<Candidate> {
    let own = env::current_exe().ok()?;
    let packages = own.parent()?.parent()?;
    let versioned = packages.parent()?;
    if !packages.ends_with("site-packages") {
        return None;
    }
    let python = versioned
        .parent()?
        .parent()?
        .join("bin")
        .join(versioned.file_name()?);
    let why = "this command is installed in its environment";
    python
        .is_file()
        .then(|| Candidate::environment(python, why).with_program())
}

fn on_path(name: &OsStr) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(name))
        .filter(|file| file.is_file())
        .collect()
}

/// The Python that an application brings.
fn shipped() -> Option<Candidate> {
    let own = env::current_exe().ok()?;
    let folder = own.parent()?.join("crossdock/python");
    folder
        .is_dir()
        .then(|| Candidate::new(interpreter_of(&folder), "the application ships it").with_program())
}
