//! A Python that is in the process already. Each test works in a process of its own, which runs this
//! file's test of the same name.
#![expect(
    unsafe_code,
    reason = "loads Python's library as other parts of a host would"
)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panic, and says why it was skipped"
)]

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr;

use crossdock_embed::{Choice, Failure, Kind, Options, Python, search};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

/// Runs `work` in a process of its own, where there is a Python with a shared library.
fn alone(name: &str, work: fn(Choice)) {
    const INSIDE: &str = "CROSSDOCK_TEST_INSIDE";
    let Ok(choice) = search(&Options::default()).into_choice() else {
        return eprintln!("skipped: no Python with a shared library is here");
    };
    if std::env::var_os(INSIDE).is_some() {
        return work(choice);
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
}

fn load(choice: &Choice, flags: c_int) -> Library {
    let file = choice.libpython.as_ref().unwrap();
    // SAFETY: a Python's own library, whose initialisers start nothing.
    unsafe { Library::open(Some(file), RTLD_NOW | flags) }.unwrap()
}

fn open(options: &Options) -> Result<&'static Python, Failure> {
    // SAFETY: nothing here imports the module that hands the table out.
    unsafe { Python::open(options, ptr::null()) }
}

/// Starts Python as a part of a host would that has it for itself.
fn start(library: &Library) {
    // SAFETY: the function of this name has had this type in every version.
    let start = unsafe { library.get::<unsafe extern "C" fn(c_int)>(b"Py_InitializeEx\0") };
    // SAFETY: Python does not run yet; 0 leaves signals alone.
    unsafe { (start.unwrap())(0) };
}

#[test]
fn local_libpython_is_promoted() {
    alone("local_libpython_is_promoted", |choice| {
        let _hidden = load(&choice, RTLD_LOCAL);
        // SAFETY: only its address is taken.
        let seen = unsafe { Library::this().get::<*const c_void>(b"PyObject_SelfIter\0") };
        assert!(seen.is_err(), "its symbols are its user's alone");
        let python = open(&Options::default()).unwrap();
        assert_eq!(python.choice().prefix, choice.prefix);
        assert!(!python.started_by_others());
        // Extension modules of the library, and of a package where it is there.
        let code = "import ctypes, decimal, importlib.util\n\
                    if importlib.util.find_spec('numpy'): import numpy";
        assert_eq!(python.main(&["-c".into(), code.into()]).unwrap(), 0);
    });
}

#[test]
fn a_local_library_whose_file_was_deleted_is_used() {
    alone("a_local_library_whose_file_was_deleted_is_used", |choice| {
        let folder = tempfile::tempdir().unwrap();
        let own = choice.libpython.clone().unwrap();
        let copy = folder.path().join(own.file_name().unwrap());
        std::fs::copy(&own, &copy).unwrap();
        // SAFETY: a Python's own library, whose initialisers start nothing.
        let hidden = unsafe { Library::open(Some(&copy), RTLD_NOW | RTLD_LOCAL) }.unwrap();
        start(&hidden);
        std::fs::remove_file(&copy).unwrap();
        let python = open(&Options::default()).unwrap();
        assert!(python.started_by_others());
    });
}

#[test]
fn a_python_that_runs_is_used() {
    alone("a_python_that_runs_is_used", |choice| {
        start(&load(&choice, RTLD_GLOBAL));
        let python = open(&Options::default()).unwrap();
        assert!(python.started_by_others());
        assert_eq!(python.choice().version, choice.version);
        assert_eq!(python.choice().why, "it runs in this process");
        let failure = python.main(&[]).unwrap_err();
        assert_eq!(failure.kind, Kind::Invalid);
    });
}

#[test]
fn there_is_one_python_a_process() {
    alone("there_is_one_python_a_process", |choice| {
        let first = open(&Options::default()).unwrap();
        let again = open(&Options::default()).unwrap();
        assert!(ptr::eq(first, again));
        let named = |python: PathBuf| Options {
            python: Some(python),
            ..Options::default()
        };
        assert!(open(&named(choice.executable.clone())).is_ok());
        let folder = tempfile::tempdir().unwrap();
        let venv = folder.path().join("venv");
        let mut make = Command::new(&choice.executable);
        make.args(["-m", "venv", "--without-pip"]).arg(&venv);
        if !make.status().unwrap().success() {
            return eprintln!("skipped: this Python makes no environments");
        }
        let failure = open(&named(venv.clone())).unwrap_err();
        assert_eq!(failure.kind, Kind::Mismatch);
        for path in [choice.prefix, venv] {
            assert!(failure.to_string().contains(path.to_str().unwrap()));
        }
    });
}

#[test]
fn a_library_that_is_loaded_is_the_one_that_starts() {
    alone(
        "a_library_that_is_loaded_is_the_one_that_starts",
        |choice| {
            let _loaded = load(&choice, RTLD_GLOBAL);
            let python = open(&Options::default()).unwrap();
            assert_eq!(python.choice().version, choice.version);
            let files = [python.choice(), &choice].map(|choice| choice.libpython.clone().unwrap());
            let [open, chosen] = files.map(|file| file.canonicalize().unwrap());
            assert_eq!(open, chosen);
            assert!(!python.started_by_others());
        },
    );
}
