//! Copies to memory of a kind, named with the number of its device.

use crate::{
    c_plugin,
    program::{crossdock, err, npy, out},
};

const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plugins");

#[test]
fn memory_of_a_kind_is_copied_to_and_explained_by_the_number_of_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(format!("{PLUGINS}/accelerators.c")).unwrap();
    let flags = ["-I", PLUGINS];
    let plugin = c_plugin::compile(folder.path(), "accelerators", &source, &flags);
    let array = folder.path().join("a.npy");
    std::fs::write(&array, npy("2,", "False", &[7; 8])).unwrap();
    let run = |words: &[&str]| {
        let mut command = crossdock(words);
        command.env("CROSSDOCK_COSTS", "off");
        command.arg("--plugin").arg(&plugin).output().unwrap()
    };
    for target in ["cuda_host:1", "cuda_managed:2", "rocm_host:0"] {
        let copied = run(&["copy", "--to", target, array.to_str().unwrap()]);
        assert_eq!(copied.status.code(), Some(0), "{}", err(&copied));
        let route = run(&["route", "cpu", target]);
        let text = out(&route);
        assert!(text.contains(&format!("-> {target}: direct")), "{text}");
    }
    let none = run(&["copy", "--to", "rocm_host:7", array.to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("rocm:7"), "{}", err(&none));
}
