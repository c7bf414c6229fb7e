//! What a script says that it needs (PEP 723: a block `# /// script`), and its environment lacks.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::choice::Choice;

/// Names what is not installed, a requirement a line. Versions are for installers to judge, and so
/// are requirements with conditions; the host brings `crossdock` itself.
const QUESTION: &str = r##"
import re, sys, tomllib
from importlib.metadata import PackageNotFoundError, version
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
block = re.search(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$", text)
lines = block["content"].splitlines(keepends=True) if block else []
settings = tomllib.loads("".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
for wanted in settings.get("dependencies", []):
    name = re.match(r"[\w.-]+", wanted)
    if not name or ";" in wanted or name[0].lower() == "crossdock":
        continue
    try:
        version(name[0])
    except PackageNotFoundError:
        print(wanted)
"##;

/// The requirements of a script that are not installed in the environment of `choice`; none where
/// the script says nothing of them, or nothing that can be understood.
#[must_use]
pub fn missing_requirements(choice: &Choice, script: &Path) -> Vec<String> {
    if !says_something(script) {
        return Vec::new();
    }
    let mut ask = Command::new(&choice.executable);
    // Not isolated: what the script can import counts, wherever it lies.
    ask.args(["-P", "-c", QUESTION]).arg(script);
    match ask.stdin(Stdio::null()).output() {
        Ok(said) if said.status.success() => {
            let names = String::from_utf8_lossy(&said.stdout);
            names.lines().map(str::to_owned).collect()
        }
        Ok(said) => {
            let why = String::from_utf8_lossy(&said.stderr).into_owned();
            log::warn!(target: "crossdock::script", "the requirements of {script:?}: {why}");
            Vec::new()
        }
        Err(error) => {
            log::warn!(target: "crossdock::script", "the requirements of {script:?}: {error}");
            Vec::new()
        }
    }
}

fn says_something(script: &Path) -> bool {
    // What is no plain file, a pipe mainly, could be read only once.
    let text = script
        .is_file()
        .then(|| std::fs::read(script).ok())
        .flatten();
    let mut lines = text
        .as_deref()
        .unwrap_or_default()
        .split(|byte| *byte == b'\n');
    lines.any(|line| line == b"# /// script")
}
