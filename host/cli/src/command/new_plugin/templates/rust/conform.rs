//! The contract, sentence by sentence, by `crossdock conform`: by the command that `CROSSDOCK=/path` names, else by
//! the one that wrote this project, else by the one on `PATH`.

use std::env;
use std::path::Path;
use std::process::Command;

/// The command that wrote this project, where it lay then.
const WRITER: &str = __command__;

#[test]
fn the_plugin_keeps_the_contract() {
    let test = env::current_exe().expect("this program has a path");
    let plugin = test.with_file_name("libcrossdock_plugin___name__.so");
    let writer = if Path::new(WRITER).is_file() {
        WRITER
    } else {
        "crossdock"
    };
    let command = env::var_os("CROSSDOCK").unwrap_or_else(|| writer.into());
    let ended = Command::new(&command)
        .arg("conform")
        .arg(&plugin)
        // Cargo may have written it with a umask that lets a group write, which hosts refuse.
        .env("CROSSDOCK_TRUST_PATHS", "1")
        .output();
    let ended = ended.unwrap_or_else(|error| {
        let command = command.display();
        panic!("{command}: {error}: put the folder of `crossdock` on PATH, or set CROSSDOCK=/path of it")
    });
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}
