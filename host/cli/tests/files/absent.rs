//! Plugins that the search found, whose devices are not here.

use serde_json::Value;

use crate::{
    c_plugin,
    program::{crossdock, err},
};

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/plugins/with_driver.c"
);

/// Its driver is looked for when somebody asks for devices, and not before.
#[test]
fn devices_tells_what_a_plugin_looked_for_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("#include \"{SOURCE}\"\n");
    let flags = ["-DABSENT", "-DNAME=\"mine\"", "-DTYPES=\"ext_dev\""];
    c_plugin::compile(
        folder.path(),
        "mine",
        &source,
        &[&flags[..], &["-DNUMBERS=12"]].concat(),
    );
    let devices = |options: &[&str]| {
        let mut command = crossdock(&["devices"]);
        command.args(options);
        command.env("CROSSDOCK_PLUGIN_PATH", folder.path());
        command.output().unwrap()
    };
    const TOLD: &str = "looked for libmine.so.1";
    let text = devices(&[]);
    let (text, told) = (String::from_utf8_lossy(&text.stdout), err(&text));
    assert!(text.contains(TOLD), "{text}{told}");
    let report: Value = serde_json::from_slice(&devices(&["--json"]).stdout).unwrap();
    let rows = |list: &str| report[list].as_array().cloned().unwrap();
    let mine = |row: &Value| row["name"] == "mine" && row["detail"] == TOLD;
    assert!(rows("absent").iter().any(mine), "{report}");
    let mut plugins = rows("plugins").into_iter().filter(mine);
    assert_eq!(plugins.next().unwrap()["state"], "absent");
}
