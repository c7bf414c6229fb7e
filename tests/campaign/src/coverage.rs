//! Whether the calls on a held stream are all there are: the functions with a stream are read from
//! where each language lists them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::caller::{Stop, called};
use crate::in_python::Python;
use crate::kinds::{Kind, each_call};
use crate::plan::{Faults, Plan};
use crate::program::Language;
use crate::trial::{self, Kept};
use crate::verdict::Verdict;
use crate::world::present;

/// The header that every program in C includes.
const HEADER: &str = include_str!("../../../host/capi/include/crossdock/crossdock.h");

/// The functions with a stream that no case calls, after one case for each call.
///
/// # Errors
/// A case that fails, or a language that cannot be covered.
pub fn uncovered(language: Language, limit: Duration) -> Result<Vec<String>, String> {
    // Python holds a stream by its native handle, which those of the CPU do not have.
    let devices = present(&["cpu", "asynchronous"], Path::new(""));
    let plan = Plan {
        seeds: 0..1,
        language,
        faults: Faults::All,
        searching: None,
        begin: 0,
        only: None,
        part: (1, 1),
        shrinking: Duration::ZERO,
        folder: "found".into(),
    };
    let mut kept = Kept::default();
    for number in each_call(devices.len()) {
        let case = Kind::Blocked.case(&devices, &plan, number);
        if let Verdict::Found(finding) = trial::run(&case, limit, &mut kept) {
            return Err(format!("{}: {}", case.name, finding.text));
        }
    }
    match language {
        Language::Rust => Err("what takes a stream in Rust is listed nowhere".to_owned()),
        Language::C => Ok(of_header(HEADER)
            .into_iter()
            .filter(|function| !called(language).contains(function))
            .collect()),
        Language::Python => {
            let python = Python::opened().ok_or("Python was not started")?;
            python.uncovered().map_err(Stop::into_text)
        }
    }
}

/// Whether the package is where this process's Python looks for it.
#[must_use]
pub fn python_is_here() -> bool {
    let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join("crossdock/__init__.py").exists())
}

/// The functions of a header, without `xd_`, that take a stream, or a struct with one.
fn of_header(header: &str) -> BTreeSet<String> {
    let code = without_comments(header);
    let mut kinds = vec!["xd_stream".to_owned()];
    for part in code.split("typedef struct ").skip(1) {
        if let Some((body, _)) = part.split_once('}')
            && let Some((name, fields)) = body.split_once('{')
            && fields.contains("xd_stream *")
            && !name.contains("xd_api")
        {
            kinds.push(name.trim().to_owned());
        }
    }
    let functions = code.split(';').filter_map(|text| {
        let (before, parameters) = text.split_once('(')?;
        let name = before
            .rsplit([' ', '*', '\n'])
            .next()?
            .strip_prefix("xd_")?;
        let takes = |kind: &String| {
            let parameters = parameters.split(',');
            // What a function gives has two stars.
            let mut taken = parameters.filter(|parameter| !parameter.contains("**"));
            taken.any(|parameter| parameter.contains(&format!("{kind} *")))
        };
        kinds.iter().any(takes).then(|| name.to_owned())
    });
    functions.collect()
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| {
        code + part.split_once("*/").map_or("", |(_, code)| code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_lists_what_takes_a_stream() {
        let functions = of_header(HEADER);
        // By itself, in options, and in a struct with a producer's stream.
        for function in ["stream_wait", "tensor_to", "tensor_adopt_native"] {
            assert!(functions.contains(function), "{functions:?}");
        }
        for function in ["stream_create", "event_complete"] {
            assert!(!functions.contains(function), "{functions:?}");
        }
        assert!(functions.len() > 20, "{functions:?}");
    }

    #[test]
    fn every_function_of_c_with_a_stream_is_called_behind_one_that_is_held() {
        let missing = uncovered(Language::C, Duration::from_secs(10));
        assert_eq!(missing, Ok(Vec::new()));
    }
}
