//! The suite on plugins behind layers: a layer changes nothing of what a sound plugin does.
#![expect(
    unsafe_code,
    reason = "reads the table of the plugin that is linked in"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where its plugin cannot be made"
)]

use crossdock::{Hooks, Layer, Table, trace};
use crossdock_conformance::{Level, Subject, run};
use crossdock_plugin_cpu::table;

/// The CPU plugin on its own, open behind `layers`, passes and leaves nothing behind.
fn passes(layers: &[Layer]) {
    // SAFETY: the table is a constant of this program.
    let table = unsafe { Table::read(table()) }.unwrap();
    let mut hooks = Hooks::new("cpu".to_owned(), table);
    hooks.open().unwrap();
    hooks.wrap(layers);
    let subject = Subject::new(&hooks, 0).unwrap();
    let report = run(&subject, Level::Full, None);
    assert!(report.passed(), "{report}");
    if let Some(live) = hooks.live_objects() {
        assert_eq!(live.count(), 0, "{live}");
    }
    hooks.close().unwrap();
}

#[test]
fn a_sound_plugin_passes_behind_validation() {
    passes(&[Layer::Validate]);
}

#[test]
fn a_sound_plugin_passes_behind_layers_that_do_nothing() {
    let never = "*:p0=VENDOR".parse().unwrap();
    passes(&[Layer::Fault(never), Layer::Validate, Layer::Validate]);
}

#[test]
fn a_sound_plugin_passes_while_it_is_traced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    trace::start(&file).unwrap();
    passes(&[]);
    passes(&[Layer::Validate]);
    trace::stop().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let copies = events.iter().filter(|event| event["name"] == "copy");
    assert!(copies.count() > 100, "{} events", events.len());
}
