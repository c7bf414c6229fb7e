//! What a script says that it needs (PEP 723: a block `# /// script`), and its environment lacks.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use crate::finding::choice::Choice;
use crate::finding::question;

/// Says what is not installed or too old, a requirement and what is there a line; a line without the
/// first is the version of Python. Versions and conditions are judged where the environment has
/// `packaging`, which comes with pip; else names alone count. The host brings `crossdock` itself.
const QUESTION: &str = r##"
import platform, re, sys, tomllib
from importlib.metadata import PackageNotFoundError, version
try:
    from packaging import requirements, specifiers
except ImportError:
    try:
        from pip._vendor.packaging import requirements, specifiers
    except ImportError:
        requirements = None
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
block = re.search(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$", text)
lines = block["content"].splitlines(keepends=True) if block else []
settings = tomllib.loads("".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))

def fits(wanted, found):
    return requirements is None or specifiers.SpecifierSet(wanted).contains(found, prereleases=True)

def parts(wanted):
    "The name, which versions, and whether it is wanted here."
    if requirements is None:
        name = re.match(r"[\w.-]+", wanted)
        return name and name[0], "", ";" not in wanted
    parsed = requirements.Requirement(wanted)
    return parsed.name, str(parsed.specifier), parsed.marker is None or parsed.marker.evaluate()

answer = []
for wanted in settings.get("dependencies", []):
    name, versions, counts = parts(wanted)
    if not name or not counts or name.lower() == "crossdock":
        continue
    try:
        found = version(name)
    except PackageNotFoundError:
        answer.append(wanted + "\t\n")
    else:
        if not fits(versions, found):
            answer.append(f"{wanted}\t{found}\n")
python = settings.get("requires-python", "")
if not fits(python, platform.python_version()):
    answer.append(f"\t{python}\n")
sys.stdout.buffer.write(b"\0crossdock:" + "".join(answer).encode() + b"\0:crossdock\n")
"##;

/// What a script needs and its environment does not have.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The versions of Python that it runs on, where the environment's is none of them.
    pub python: Option<String>,
    /// Each requirement with the version that is installed instead, if one is.
    pub packages: Vec<(String, Option<String>)>,
}

impl Missing {
    fn of(said: &str) -> Self {
        let mut missing = Self::default();
        for (wanted, found) in said.lines().filter_map(|line| line.split_once('\t')) {
            if wanted.is_empty() {
                missing.python = Some(found.to_owned());
            } else {
                let found = (!found.is_empty()).then(|| found.to_owned());
                missing.packages.push((wanted.to_owned(), found));
            }
        }
        missing
    }

    /// Whether nothing is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.python.is_none() && self.packages.is_empty()
    }
}

/// What a script requires that the environment of `choice` lacks; nothing where the script says
/// nothing of it, or nothing that can be understood.
#[must_use]
pub fn missing_requirements(choice: &Choice, script: &Path) -> Missing {
    if !says_something(script) {
        return Missing::default();
    }
    let mut ask = Command::new(&choice.executable);
    // Not isolated: what the script can import counts, wherever it lies.
    ask.args(["-P", "-c", QUESTION]).arg(script);
    let why = match question::ask(ask) {
        Ok(said) => match question::answer(&said) {
            Some(answer) => return Missing::of(&String::from_utf8_lossy(answer)),
            None => question::reason(&said),
        },
        Err(error) => error.to_string(),
    };
    log::warn!(target: "crossdock::script", "the requirements of {script:?}: {why}");
    Missing::default()
}

/// The script among the words of Python's command line, where they name one.
#[must_use]
pub fn script_of(arguments: &[OsString]) -> Option<&Path> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"-" => return None,
            b"--" => return words.next().map(Path::new),
            b"--check-hash-based-pycs" => drop(words.next()),
            [b'-', b'-', ..] => {}
            [b'-', letters @ ..] => {
                match letters.iter().position(|letter| b"cmWX".contains(letter)) {
                    Some(at) if b"cm".contains(letters.get(at)?) => return None,
                    // Its value is the rest of the word, or the next one.
                    Some(at) if at + 1 == letters.len() => drop(words.next()),
                    _ => {}
                }
            }
            _ => return Some(Path::new(word)),
        }
    }
    None
}

/// Such a block stands near the beginning; an archive may be large.
const BEGINNING: u64 = 1 << 20;

fn says_something(script: &Path) -> bool {
    // What is no plain file, a pipe mainly, could be read only once.
    let file = script.is_file().then(|| File::open(script).ok()).flatten();
    let mut text = Vec::new();
    let read = file.map(|file| file.take(BEGINNING).read_to_end(&mut text));
    let mut lines = text.split(|byte| *byte == b'\n');
    read.is_some_and(|read| read.is_ok()) && lines.any(|line| line == b"# /// script")
}
