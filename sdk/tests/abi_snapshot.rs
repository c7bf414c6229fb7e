//! A field of the contract that moves fails here: the layouts against the checked-in `abi_snapshot.txt`.
//!
//! `CROSSDOCK_BLESS=1` writes the file anew, for a deliberate change of the contract.
#![expect(
    clippy::unwrap_used,
    reason = "every function of this file is part of a test"
)]

use std::fmt::Write as _;
use std::path::Path;

#[path = "layouts/abi.rs"]
mod layouts;

fn snapshot() -> String {
    let mut text = String::new();
    for (module, layout) in layouts::all() {
        let (name, c_name) = (layout.rust_name, layout.c_name);
        let (size, align) = (layout.size, layout.align);
        writeln!(
            text,
            "{module}::{name} ({c_name}) size {size} align {align}"
        )
        .unwrap();
        for (field, offset) in layout.fields {
            writeln!(text, "    {offset:>5} {field}").unwrap();
        }
    }
    text
}

#[test]
fn no_field_moved() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi_snapshot.txt");
    let now = snapshot();
    if std::env::var_os("CROSSDOCK_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (kept, now)) in kept.lines().zip(now.lines()).enumerate() {
        assert_eq!(kept, now, "line {} of {}", line + 1, path.display());
    }
    assert_eq!(
        kept.lines().count(),
        now.lines().count(),
        "{}",
        path.display()
    );
}
