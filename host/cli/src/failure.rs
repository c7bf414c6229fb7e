//! Why a subcommand could not go on, in the three lines that people read.

use std::{error::Error, fmt, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::globals::Globals;

/// What went wrong, why, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// A lower-case fragment that names the thing.
    pub(crate) what: String,
    /// The reason.
    pub(crate) why: String,
    /// The next step.
    #[serde(rename = "try")]
    pub(crate) hint: String,
}

/// The end of a subcommand that did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    Problem(Problem),
    /// The same, where the command line is wrong.
    Usage(Problem),
}

impl Problem {
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            hint: hint.into(),
        }
    }

    /// A file that the system did not let us use.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(
            format!("{doing} `{}`", path.display()),
            error.to_string(),
            "check the path and the permissions",
        )
    }

    /// The system did not take our own output.
    pub(crate) fn output(error: &io::Error) -> Self {
        let hint = "check where the output goes";
        Self::new("write the output", chain(error), hint)
    }

    /// A child process, or a thread or pipe for it, that the system did not provide.
    pub(crate) fn child(doing: &str, error: &io::Error) -> Self {
        let hint = "check the limits on processes, threads and open files: ulimit -a";
        Self::new(doing, chain(error), hint)
    }
}

impl Problem {
    /// The same problem, with the plugin's file in its first line.
    pub(crate) fn of_plugin(mut self, path: &Path) -> Self {
        let path = path.display().to_string();
        if !self.what.contains(&path) {
            self.what = format!("{} (plugin file `{path}`)", self.what);
        }
        self
    }

    /// The same problem, whose hint names commands that meet these plugins too.
    pub(crate) fn with_plugins(mut self, globals: &Globals) -> Self {
        for command in ["crossdock devices", "crossdock doctor"] {
            let whole = globals.with_plugins(command);
            let hint = self
                .hint
                .replace(&format!("`{command}`"), &format!("`{whole}`"));
            self.hint = hint;
        }
        self
    }
}

impl Failure {
    /// What there is to tell, whatever is wrong.
    pub(crate) fn into_problem(self) -> Problem {
        match self {
            Self::Problem(problem) | Self::Usage(problem) => problem,
        }
    }

    /// The same failure, whose hint names commands that meet these plugins too.
    pub(crate) fn with_plugins(self, globals: &Globals) -> Self {
        match self {
            Self::Problem(problem) => Self::Problem(problem.with_plugins(globals)),
            Self::Usage(problem) => Self::Usage(problem.with_plugins(globals)),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  why: ", one_line(&self.what))?;
        write!(
            f,
            "{}\n  try: {}",
            one_line(&self.why),
            one_line(&self.hint)
        )
    }
}

impl From<crossdock::Error> for Problem {
    fn from(error: crossdock::Error) -> Self {
        Self::new(error.to_string(), error.why(), error.hint())
    }
}

impl From<crossdock::plugin_files::PreflightError> for Problem {
    fn from(error: crossdock::plugin_files::PreflightError) -> Self {
        Self::new(error.to_string(), error.why(), error.hint())
    }
}

impl From<crossdock_embed::Failure> for Problem {
    fn from(failure: crossdock_embed::Failure) -> Self {
        let (why, hint) = (failure.why().to_owned(), failure.hint().to_owned());
        Self::new(failure.message, why, hint)
    }
}

impl<P: Into<Problem>> From<P> for Failure {
    fn from(problem: P) -> Self {
        Self::Problem(problem.into())
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// Foreign texts may hold anything; here they take one line. What else steers is escaped on its way out.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    words
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_hint_meet_the_plugins_of_this_one() {
        let globals = Globals {
            plugin: vec!["a b.so".into(), "c.so".into()],
            plugin_path: Some("d".into()),
            require: Vec::new(),
            quiet: false,
            color: clap::ColorChoice::Auto,
        };
        let problem = Problem::new("a", "b", "run `crossdock doctor` for its state");
        let given = "`crossdock doctor --plugin 'a b.so' --plugin 'c.so' --plugin-path 'd'`";
        assert_eq!(
            problem.with_plugins(&globals).hint,
            format!("run {given} for its state")
        );
    }

    #[test]
    fn a_problem_is_three_lines_whatever_the_texts_hold() {
        let problem = Problem::new("a\nb", "c\r\nd", "e");
        assert_eq!(problem.to_string(), "a; b\n  why: c; d\n  try: e");
    }
}
