//! Python is found and started whatever happens to the children of the process.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "sets signal actions and system call filters, in tests"
)]

#[path = "../../../sdk/tests/reapers/mod.rs"]
mod reapers;

use std::path::Path;

use crossdock_embed::{Host, Options, Python, missing_requirements, search};
use reapers::in_children;

/// Every step that starts a child: the probe without its cache, the requirements of a script, and the
/// check that a variable calls for.
#[test]
fn python_starts_whoever_reaps_its_children() {
    in_children("python_starts_whoever_reaps_its_children", || {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: this process has no other thread that reads the environment.
        unsafe { std::env::set_var("XDG_CACHE_HOME", folder.path()) };
        // SAFETY: as above.
        unsafe { std::env::set_var("PYTHONNODEBUGRANGES", "1") };
        let before = action();
        let choice = search(&Options::default()).into_choice().unwrap();

        let script = folder.path().join("script.py");
        let block = "# /// script\n# dependencies = [\"absent-one>=2\"]\n# ///\n";
        std::fs::write(&script, block).unwrap();
        let missing = missing_requirements(&choice, Path::new(&script));
        assert_eq!(missing.packages, [("absent-one>=2".to_owned(), None)]);

        // SAFETY: no script of this test imports what reads the table.
        let python = unsafe { Python::open(&Options::default(), std::ptr::null()) };
        Host::start(python.unwrap()).unwrap();
        assert_eq!(
            action(),
            before,
            "a library changes no disposition of its host"
        );
    });
}

fn action() -> (libc::sighandler_t, libc::c_int) {
    // SAFETY: zeros are a valid value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the action and changes none.
    unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut action) };
    (action.sa_sigaction, action.sa_flags)
}
