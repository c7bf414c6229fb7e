//! A function or field of the table that moves or changes fails here: `tests/api_snapshot.txt`.
//!
//! `CROSSDOCK_BLESS=1` writes the file anew. Of a released table only new lines at the end of
//! `xd_api` are right, and a higher minor version with them.

use std::fmt::Write as _;
use std::path::Path;

use crate::layouts_for_tests::{constants, signatures, structs};

fn snapshot() -> String {
    let mut text = String::new();
    for (name, number) in constants() {
        writeln!(text, "{name} = {number}").unwrap();
    }
    let signatures = signatures();
    for of in structs() {
        writeln!(text, "{} size {} align {}", of.name, of.size, of.align).unwrap();
        for (field, offset) in of.fields {
            let signature = signatures
                .iter()
                .find(|(name, _)| of.name == "xd_api" && name == field);
            let signature = signature.map_or("", |(_, signature)| signature);
            writeln!(
                text,
                "    {offset:>5} {}",
                format!("{field} {signature}").trim()
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn nothing_in_the_table_moved_or_changed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api_snapshot.txt");
    let now = snapshot();
    if std::env::var_os("CROSSDOCK_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (kept, now)) in kept.lines().zip(now.lines()).enumerate() {
        assert_eq!(kept, now, "line {} of {}", line + 1, path.display());
    }
    assert_eq!(kept.lines().count(), now.lines().count());
}

#[test]
fn the_table_is_its_head_and_one_pointer_a_function() {
    let functions = crate::XdApi::FUNCTIONS;
    for (index, (name, offset)) in functions.iter().enumerate() {
        assert_eq!(*offset, 16 + 8 * index, "{name}");
    }
    assert_eq!(size_of::<crate::XdApi>(), 16 + 8 * functions.len());
}
