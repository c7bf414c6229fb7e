//! Processes for tests: each runs the test's body once, with one Python.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crossdock_embed::{Failure, Host, Options, Python, Session, Settings, Stream};

/// In a child: the Python that it is to use.
const PYTHON: &str = "CROSSDOCK_TEST_CHILD_PYTHON";
/// In a child: somebody else starts Python first.
const OF_OTHERS: &str = "CROSSDOCK_TEST_CHILD_OF_OTHERS";

/// A limit for what must happen at once, on a machine that does other things as well.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// As many rounds as are quick, or as a soak wants.
pub(crate) fn rounds(quick: usize, long: usize) -> usize {
    let is_long = std::env::var_os("CROSSDOCK_LONG").is_some_and(|value| value == "1");
    if is_long { long } else { quick }
}

/// Declares tests that run in processes of their own.
macro_rules! in_children {
    ($($name:ident $(($of_others:ident))?: $body:path;)*) => {$(
        #[test]
        fn $name() {
            $crate::rig::run_in_children(
                concat!(module_path!(), "::", stringify!($name)),
                [$(stringify!($of_others))?].contains(&"of_others"),
                $body,
            );
        }
    )*};
}
pub(crate) use in_children;

/// Runs `body` in a child for each Python; in such a child, runs it.
pub(crate) fn run_in_children(test: &str, of_others: bool, body: fn(&Child)) {
    if let Some(python) = std::env::var_os(PYTHON) {
        let of_others = std::env::var_os(OF_OTHERS).is_some();
        return body(&Child::begin(Path::new(&python), of_others));
    }
    for python in pythons() {
        run_child(test, &python, of_others);
    }
}

/// A child must end well; what it says comes with a failure.
fn run_child(test: &str, python: &Path, of_others: bool) {
    let name = test.split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(PYTHON, python);
    if of_others {
        command.env(OF_OTHERS, "1");
    }
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    for line in out.lines().filter(|line| line.contains("skipped:")) {
        println!("{}: {line}", python.display());
    }
    assert!(
        output.status.success(),
        "{name} with {}: {}\n{out}{err}",
        python.display(),
        output.status
    );
}

/// One Python of each minor version that has a shared library.
fn pythons() -> Vec<PathBuf> {
    let named = std::env::var_os("CROSSDOCK_TEST_PYTHON").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let versions = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let installed = versions.into_iter().flatten().flatten();
    let mut installed: Vec<_> = installed
        .map(|entry| entry.path().join("bin/python"))
        .collect();
    installed.sort();
    let mut found: Vec<PathBuf> = Vec::new();
    for minor in 11..=14 {
        let wanted = format!("/3.{minor}.");
        let of_minor = |path: &&PathBuf| path.to_string_lossy().contains(&wanted) && path.exists();
        match installed.iter().find(of_minor) {
            Some(python) => found.push(python.clone()),
            None => println!("skipped: Python 3.{minor}: pyenv has none"),
        }
    }
    // The first is of the version of the test's own environment, which has NumPy.
    if let (Some(named), Some(first)) = (named, found.first_mut()) {
        *first = named;
    }
    if found.is_empty() {
        found.push(PathBuf::from("python3"));
    }
    found
}

/// The process of one test.
pub(crate) struct Child {
    pub(crate) host: &'static Host,
}

impl Child {
    fn begin(python: &Path, of_others: bool) -> Self {
        if of_others {
            start_python_of_others(python);
        }
        let options = Options {
            python: (!of_others).then(|| python.to_owned()),
            ..Options::default()
        };
        // SAFETY: no script of these tests imports what reads the table.
        let python = unsafe { Python::open(&options, std::ptr::null()) }.unwrap();
        assert_eq!(python.started_by_others(), of_others);
        let host = Host::start(python).unwrap();
        Self { host }
    }

    /// A session with the defaults.
    pub(crate) fn session(&self) -> Session {
        Session::open(self.host, Settings::default()).unwrap()
    }

    /// A session whose standard output comes line by line.
    pub(crate) fn heard(&self, settings: Settings) -> (Session, Receiver<String>) {
        let (said, lines) = channel();
        let settings = Settings {
            stdout: true,
            output: Some(Box::new(move |stream, bytes| {
                assert_eq!(stream, Stream::Out);
                let _nobody_listens = said.send(String::from_utf8_lossy(bytes).into_owned());
            })),
            ..settings
        };
        (Session::open(self.host, settings).unwrap(), lines)
    }
}

/// Runs a text that must work.
pub(crate) fn run(session: &Session, text: &str) {
    try_run(session, text).unwrap();
}

pub(crate) fn try_run(session: &Session, text: &str) -> Result<(), Failure> {
    session.run_text(text, "script.py", None)
}

/// Does on a thread of its own what a defect would block for ever.
pub(crate) fn soon(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let _detached = std::thread::spawn(move || {
        body();
        done.send(()).unwrap();
    });
    // Its failure, or that it takes for ever.
    ended.recv_timeout(SOON).unwrap();
}

/// What a test asks Python for, where it is an integer.
pub(crate) fn number(session: &Session, name: &str) -> i64 {
    match session.get(name).unwrap() {
        crossdock_embed::Value::Int(number) => number,
        other => panic!("{name} is {other:?}"),
    }
}

/// Whether a module can be imported; says so where it cannot.
pub(crate) fn has_module(session: &Session, module: &str) -> bool {
    let has = try_run(session, &format!("import {module}")).is_ok();
    if !has {
        println!("skipped: what needs {module}, which this Python lacks");
    }
    has
}

/// Starts Python as a program would that has it already, and lets its lock go.
fn start_python_of_others(python: &Path) {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let asked = "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'))";
    let output = Command::new(python).args(["-I", "-c", asked]).output();
    let file = String::from_utf8(output.unwrap().stdout).unwrap();
    // SAFETY: Python's own library.
    let library = unsafe { Library::open(Some(file.trim()), RTLD_NOW | RTLD_GLOBAL) }.unwrap();
    // SAFETY: the stable ABI fixes the types.
    let start = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"Py_InitializeEx\0") }.unwrap();
    // SAFETY: Python does not run yet.
    unsafe { start(0) };
    // SAFETY: as above.
    let let_go =
        unsafe { library.get::<unsafe extern "C" fn() -> *mut u8>(b"PyEval_SaveThread\0") };
    // SAFETY: this thread has the lock since it started Python.
    let _state = unsafe { let_go.unwrap()() };
    let _kept = library.into_raw();
}
