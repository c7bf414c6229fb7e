//! Which code of Python is of an installed package, or of Python itself, and not of the program under test.

use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    /// Of code that was asked for, by its own address and that of the name of its file.
    static KNOWN: RefCell<BTreeMap<(usize, usize), bool>> = const { RefCell::new(BTreeMap::new()) };
}

/// Whether code is of an installed package or of Python itself. The name of its file is asked for once.
pub(crate) fn is_installed(code: (usize, usize), file: impl FnOnce() -> String) -> bool {
    let known = KNOWN.try_with(|known| known.borrow().get(&code).copied());
    match known {
        Ok(Some(is_installed)) => is_installed,
        Ok(None) => {
            let is_installed = is_of_a_package(&file());
            KNOWN.with(|known| known.borrow_mut().insert(code, is_installed));
            is_installed
        }
        // The thread ends.
        Err(_) => false,
    }
}

/// Whether a file is where packages are installed, or Python's own modules are. What has no file is Python's too, but
/// for what was given to it as text.
fn is_of_a_package(file: &str) -> bool {
    if file.starts_with('<') {
        return !["<string>", "<stdin>"].contains(&file);
    }
    ["/site-packages/", "/dist-packages/", "/lib/python3"]
        .iter()
        .any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{is_installed, is_of_a_package};

    #[test]
    fn packages_and_pythons_own_modules_are_no_program() {
        let installed = [
            "/venv/lib/python3.11/site-packages/numba/cuda/api.py",
            "/usr/lib/python3/dist-packages/numba/api.py",
            "/usr/lib/python3.12/contextlib.py",
            "/opt/packages/site-packages/a.py",
            "<frozen runpy>",
            "<interpreter trampoline>",
        ];
        assert!(installed.into_iter().all(is_of_a_package));
        let programs = ["/home/me/project/test_a.py", "a.py", "<string>", "<stdin>"];
        assert!(!programs.into_iter().any(is_of_a_package));
    }

    #[test]
    fn a_file_is_asked_for_once() {
        assert!(is_installed((1, 2), || "<frozen a>".to_owned()));
        assert!(is_installed((1, 2), || unreachable!()));
        assert!(!is_installed((1, 3), || "a.py".to_owned()));
    }
}
