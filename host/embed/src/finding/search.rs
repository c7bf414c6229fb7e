//! Finding Python: which of the candidates is taken, and why the others are not.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crossdock_sdk::{
    regular,
    trust::{self, Rule},
};

use crate::finding::candidate::{self, Candidate};
use crate::finding::choice::{Choice, number, version};
use crate::finding::probe::{Answer, probe};
use crate::finding::reason::Reason;
use crate::finding::report::{Place, Search};
use crate::finding::shared_library;

/// How a caller wants Python to be found and started.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it from defaults")]
pub struct Options {
    /// An executable, an environment's folder or a program on `PATH`: this one or none.
    pub python: Option<PathBuf>,
    /// The caller is a command of a person: the project's `.venv` counts, and a Python without a
    /// shared library does too.
    pub in_cli: bool,
    /// The folder `crossdock` with the Python package that scripts shall import. Where none is
    /// named, the one that lies with the library that hands out the table is.
    pub package: Option<PathBuf>,
}

/// The oldest version that the package runs on.
pub(crate) const OLDEST: (u8, u8) = (3, 11);

/// Looks for a Python, and starts none but to ask it what it is.
#[must_use]
pub fn search(options: &Options) -> Search {
    search_for(options, None)
}

/// As [`search`]; a Python of another version than `needed` is refused.
pub(crate) fn search_for(options: &Options, needed: Option<(u8, u8)>) -> Search {
    let privileged = trust::is_privileged();
    let (candidates, mandatory) = match candidate::named(options, privileged) {
        Some(named) => (vec![named], true),
        None => (candidate::all(options, privileged), false),
    };
    let mut search = Search::new(mandatory);
    for candidate in candidates {
        if search.knows(&candidate.path) {
            continue;
        }
        let judged = judge(&candidate, options, needed);
        let refused = judged.as_ref().err().cloned();
        search.places.push(Place {
            path: candidate.path,
            why: candidate.why,
            environment: candidate.environment,
            refused,
        });
        if let Ok(choice) = judged {
            search.choice = Some(choice);
            break;
        }
    }
    search
}

/// The choice that a candidate is, or why it is none.
fn judge(
    candidate: &Candidate,
    options: &Options,
    needed: Option<(u8, u8)>,
) -> Result<Choice, Reason> {
    let path = &candidate.path;
    let rule = rule(candidate);
    let trusted = |file: &Path| trusted(file, rule.as_ref());
    environment_is_whole(path, trusted)?;
    if !path.is_file() {
        return Err(Reason::Absent);
    }
    trusted(path)?;
    let answer = probe(path)?;
    // A shim starts another one, whose modules come from these folders.
    for part in [&answer.executable, &answer.prefix, &answer.base_prefix] {
        trusted(part)?;
    }
    environment_is_whole(&answer.executable, trusted)?;
    let version = usable(&answer)?;
    if let Some(loaded) = needed.filter(|needed| *needed != version) {
        let is = number(&answer.version_text).to_owned();
        return Err(Reason::OtherVersion { is, loaded });
    }
    let libpython = shared_library::of(&answer);
    match &libpython {
        Some(file) => {
            trusted(file)?;
            if !shared_library::is_for_this_machine(file) {
                return Err(Reason::OtherMachine(file.clone()));
            }
        }
        None if options.in_cli => {}
        None => return Err(Reason::NoLibrary(library_name(&answer, version))),
    }
    Ok(Choice {
        executable: answer.executable,
        libpython,
        version,
        version_text: answer.version_text,
        prefix: answer.prefix,
        base_prefix: answer.base_prefix,
        abi_flags: answer.abi_flags,
        why: candidate.why.clone(),
    })
}

fn library_name(answer: &Answer, (major, minor): (u8, u8)) -> String {
    let name = answer.library_name.to_string_lossy();
    if name.contains(".so") {
        name.into_owned()
    } else {
        format!("libpython{major}.{minor}{}.so", answer.abi_flags)
    }
}

/// An environment is a link to the Python that made it, and that may be gone.
fn environment_is_whole(
    executable: &Path,
    trusted: impl Fn(&Path) -> Result<(), Reason>,
) -> Result<(), Reason> {
    let folder = executable.parent().and_then(Path::parent);
    let Some(environment) = folder.filter(|folder| folder.join("pyvenv.cfg").is_file()) else {
        return Ok(());
    };
    let settings = environment.join("pyvenv.cfg");
    trusted(&settings)?;
    let mut text = String::new();
    // What cannot be read names no Python that is gone.
    let _read = regular::open(&settings).and_then(|mut file| file.read_to_string(&mut text));
    let home = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    });
    match home {
        Some(home) if !home.is_dir() => Err(Reason::HomeGone {
            home,
            environment: environment.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The rule that holds for plugins, unless the user waives it: those who may write there decide what runs here.
fn rule(candidate: &Candidate) -> Option<Rule> {
    if trust::is_waived() {
        return None;
    }
    let rule = Rule::of(trust::user());
    // The folder of a privileged program can be chosen by its caller, by a hard link.
    let with_program = candidate.with_program && !trust::is_privileged();
    let program = with_program.then(|| std::env::current_exe().ok()).flatten();
    Some(match program {
        Some(program) => rule.and_of(&program),
        None => rule,
    })
}

fn trusted(file: &Path, rule: Option<&Rule>) -> Result<(), Reason> {
    match rule {
        Some(rule) if !file.as_os_str().is_empty() => {
            rule.check(file).map(drop).map_err(Reason::Untrusted)
        }
        _ => Ok(()),
    }
}

/// The version of a Python that this process can run.
fn usable(answer: &Answer) -> Result<(u8, u8), Reason> {
    let is = number(&answer.version_text).to_owned();
    if answer.implementation != "cpython" {
        return Err(Reason::Implementation(answer.implementation.clone()));
    }
    let Some(version) = version(&is) else {
        return Err(Reason::Version(is));
    };
    if version < OLDEST {
        return Err(Reason::Old(is));
    }
    if answer.free_threaded || answer.abi_flags.contains('t') {
        return Err(Reason::FreeThreaded(is));
    }
    if answer.abi_flags.contains('d') {
        return Err(Reason::Debug(is));
    }
    let musl = answer.soabi.ends_with("-musl");
    if !answer.soabi.is_empty() && musl != cfg!(target_env = "musl") {
        return Err(Reason::OtherLibc(answer.soabi.clone()));
    }
    Ok(version)
}
