//! What a search tried, for people: each place with its outcome, and the failure that it may be.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Kind};
use crate::finding::choice::Choice;
use crate::finding::reason::Reason;

/// A search for Python: every place that was tried, and what was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Search {
    /// In the order in which they were tried; the last is the choice, where there is one.
    pub places: Vec<Place>,
    /// What was found.
    pub choice: Option<Choice>,
    /// Somebody named a Python, so that no other one counts.
    mandatory: bool,
}

/// One place of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The executable.
    pub path: PathBuf,
    /// Which rule names it.
    pub why: String,
    /// It is an environment that is active, or the project's.
    pub environment: bool,
    /// Why it was not taken.
    pub refused: Option<Reason>,
}

impl Search {
    pub(crate) fn new(mandatory: bool) -> Self {
        Self {
            places: Vec::new(),
            choice: None,
            mandatory,
        }
    }

    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.places.iter().any(|place| place.path == path)
    }

    /// The environments that somebody is in, and that are not used in spite of it.
    pub fn passed_over(&self) -> impl Iterator<Item = &Place> {
        let refused = |place: &&Place| place.environment && place.refused.is_some();
        self.places.iter().filter(refused)
    }

    /// The choice, or a failure that names each place.
    ///
    /// # Errors
    /// [`Kind::NoPython`].
    pub fn into_choice(self) -> Result<Choice, Failure> {
        match self.choice {
            Some(choice) => Ok(choice),
            None => Err(self.failure()),
        }
    }

    fn failure(&self) -> Failure {
        let mut why: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        if why.is_empty() {
            why.push("no python3 is on PATH, and no environment is active".to_owned());
        }
        let (what, hint) = if self.mandatory {
            (
                "use the Python that was named",
                "name another one, or none to search for one",
            )
        } else {
            (
                "find a Python",
                "install Python 3.11 or later with its shared library, activate an environment \
                 that has it, or name one (`--python` of the command, or `CROSSDOCK_PYTHON`)",
            )
        };
        Failure::new(Kind::NoPython, what).because(why.join("; "), hint)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.path.display(), self.why)?;
        match &self.refused {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// One line a place, then the choice with what is known of it.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.places.iter().filter(|place| place.refused.is_some()) {
            writeln!(f, "not {place}")?;
        }
        let Some(choice) = &self.choice else {
            return write!(f, "no Python was found");
        };
        writeln!(f, "{}, because {}", choice.executable.display(), choice.why)?;
        writeln!(f, "  version      {}", choice.version_text)?;
        writeln!(f, "  environment  {}", choice.prefix.display())?;
        writeln!(f, "  installation {}", choice.base_prefix.display())?;
        match &choice.libpython {
            Some(library) => write!(f, "  library      {}", library.display()),
            None => write!(f, "  library      none: its executable is started instead"),
        }
    }
}
