//! Opening Python, once a process: the one that is here, or the one that was found.
#![expect(unsafe_code, reason = "calls functions of Python's library")]

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::Library;

use crate::failure::{Failure, Kind};
use crate::finding::choice::{Choice, number, version};
use crate::finding::search::{Options, search, search_for};
use crate::python::libpython::{Functions, NoFunction};
use crate::{python::host_module, python::loaded, python::package, python::running};

/// The Python of this process: opened, and started at first need.
pub struct Python {
    pub(crate) functions: Functions,
    choice: Choice,
    started_by_others: bool,
    table: AtomicPtr<c_void>,
    package: Option<PathBuf>,
}

static OPENED: OnceLock<Python> = OnceLock::new();

impl Python {
    /// Finds Python, opens its library and prepares the built-in modules; it is not started.
    ///
    /// A Python that is in the process already is used, whatever loaded it. There is one Python a
    /// process: opening it again gives the same one, and naming another one is refused.
    ///
    /// # Errors
    /// [`Kind::NoPython`] where none is found, [`Kind::Mismatch`] where the library and the
    /// environment do not belong together or another Python is open.
    ///
    /// # Safety
    /// `table` is the function table of the host (`xd_get_api`), which lives as long as the process.
    pub unsafe fn open(options: &Options, table: *const c_void) -> Result<&'static Self, Failure> {
        Self::open_by(options, table, || search(options).into_choice())
    }

    /// As [`open`](Self::open), by a choice that was made already.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn open_choice(
        choice: Choice,
        options: &Options,
        table: *const c_void,
    ) -> Result<&'static Self, Failure> {
        Self::open_by(options, table, || Ok(choice))
    }

    fn open_by(
        options: &Options,
        table: *const c_void,
        choose: impl FnOnce() -> Result<Choice, Failure>,
    ) -> Result<&'static Self, Failure> {
        static OPENING: Mutex<()> = Mutex::new(());
        // One that runs says what it is under its own lock, so none of ours is held meanwhile.
        if OPENED.get().is_none()
            && let Some(python) = Self::of_others(options, table)?
        {
            return Ok(OPENED.get_or_init(|| python));
        }
        let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = OPENED.get() {
            fits(opened.choice(), options)?;
            return Ok(opened);
        }
        let python = match loaded::python() {
            Some((library, file)) => Self::of_library(options, library, file, table)?,
            None => Self::of_choice(options, choose()?, table)?,
        };
        host_module::prepare(&python)?;
        Ok(OPENED.get_or_init(|| python))
    }

    /// Which Python it is.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Whether it ran before it was opened here: then it is not ours to start or to end.
    #[must_use]
    pub fn started_by_others(&self) -> bool {
        self.started_by_others
    }

    /// The Python of this process, once it was opened.
    pub(crate) fn opened() -> Option<&'static Self> {
        OPENED.get()
    }

    /// The function table of the host.
    pub(crate) fn table(&self) -> *mut c_void {
        self.table.load(Ordering::Relaxed)
    }

    /// The folder of the package that goes with the host, where it lies with it.
    pub(crate) fn package(&self) -> Option<&Path> {
        self.package.as_deref()
    }

    /// The Python that somebody else started in this process, where there is one.
    fn of_others(options: &Options, table: *const c_void) -> Result<Option<Self>, Failure> {
        let Some((library, file)) = loaded::python().filter(|(library, _)| runs(library)) else {
            return Ok(None);
        };
        let functions = functions(library, &file)?;
        let choice = running::choice(&functions, file)?;
        fits(&choice, options)?;
        Ok(Some(Self::new(functions, choice, true, options, table)))
    }

    /// A library that is in the process, and that nobody has started.
    fn of_library(
        options: &Options,
        library: Library,
        file: PathBuf,
        table: *const c_void,
    ) -> Result<Self, Failure> {
        let functions = functions(library, &file)?;
        let needed = version(number(&version_text(&functions)));
        let mut choice = search_for(options, needed).into_choice()?;
        choice.libpython = Some(file);
        Ok(Self::new(functions, choice, false, options, table))
    }

    fn of_choice(options: &Options, choice: Choice, table: *const c_void) -> Result<Self, Failure> {
        let Some(file) = &choice.libpython else {
            let what = format!(
                "run Python inside this process: {}",
                choice.executable.display()
            );
            let why = "it was built without a shared library";
            return Err(
                Failure::new(Kind::NoPython, what).because(why, "install its shared library")
            );
        };
        let library = loaded::open(file).map_err(|error| {
            Failure::new(Kind::NoPython, format!("open `{}`", file.display())).because(
                loaded::cause(&error),
                "install this Python again, or name another one",
            )
        })?;
        let functions = functions(library, file)?;
        same_version(&choice, file, number(&version_text(&functions)))?;
        Ok(Self::new(functions, choice, false, options, table))
    }

    fn new(
        functions: Functions,
        choice: Choice,
        started_by_others: bool,
        options: &Options,
        table: *const c_void,
    ) -> Self {
        let beside = || loaded::file_of(table).and_then(|file| package::beside(&file));
        Self {
            functions,
            choice,
            started_by_others,
            table: AtomicPtr::new(table.cast_mut()),
            package: options.package.clone().or_else(beside),
        }
    }
}

impl fmt::Debug for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Python")
            .field("choice", &self.choice)
            .field("started_by_others", &self.started_by_others)
            .field("package", &self.package)
            .finish_non_exhaustive()
    }
}

/// Whether the Python of a library was started.
fn runs(library: &Library) -> bool {
    // SAFETY: the function of this name has had this type in every version.
    let asked = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"Py_IsInitialized\0") };
    // SAFETY: may be asked at any time.
    asked.is_ok_and(|is_initialized| unsafe { is_initialized() } != 0)
}

/// The functions of a library that is never unloaded: threads of Python may run in it until the end.
fn functions(library: Library, file: &Path) -> Result<Functions, Failure> {
    let functions = Functions::of(&library).map_err(|NoFunction(missing)| {
        let what = format!("use `{}`", file.display());
        let why = format!("it has no function `{missing}`");
        Failure::new(Kind::Mismatch, what).because(why, "use CPython 3.11 or later")
    })?;
    let _handle = library.into_raw();
    Ok(functions)
}

pub(crate) fn version_text(functions: &Functions) -> String {
    // SAFETY: may be asked at any time.
    let text = unsafe { functions.Py_GetVersion() };
    // SAFETY: a text of the library that lives as long as it does.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// An environment of another version would be without its packages, and nothing would say so.
fn same_version(choice: &Choice, file: &Path, found: &str) -> Result<(), Failure> {
    let (executable, is) = (choice.executable.display(), choice.number());
    if version(found) != Some(choice.version) {
        let what = format!("use the environment of `{executable}`");
        let why = format!(
            "it is {is}, and its library `{}` is {found}",
            file.display()
        );
        let hint = "install this Python again, or recreate the environment";
        return Err(Failure::new(Kind::Mismatch, what).because(why, hint));
    }
    if found != is {
        log::warn!(
            target: "crossdock::script",
            "`{executable}` is {is}, and its library `{}` is {found}", file.display()
        );
    }
    Ok(())
}

/// Whether what a caller names is the Python that is open.
fn fits(open: &Choice, options: &Options) -> Result<(), Failure> {
    if options.python.is_none() {
        return Ok(());
    }
    let named = search(options).into_choice()?;
    if named.prefix == open.prefix && named.version == open.version {
        return Ok(());
    }
    let what = format!("use the Python `{}`", named.executable.display());
    let why = format!(
        "{} runs in this process already, in the environment `{}`, and there is one a process; \
         the named one is {}",
        open.number(),
        open.prefix.display(),
        named.number()
    );
    let hint = "name the same one, or none";
    Err(Failure::new(Kind::Mismatch, what).because(why, hint))
}
