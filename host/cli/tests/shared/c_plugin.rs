//! The C plugin of the tests with more code in it, built by the system's compiler.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is put into the plugin.
#[derive(Default)]
pub(crate) struct Code<'a> {
    /// Runs when the file is loaded.
    pub(crate) at_load: &'a str,
    /// The name of a function of the plugin, and what that does first.
    pub(crate) first_in: (&'a str, &'a str),
    /// For the compiler.
    pub(crate) flags: &'a [&'a str],
}

/// Builds `libcrossdock_plugin_NAME.so` in `folder`.
pub(crate) fn build(folder: &Path, name: &str, code: &Code<'_>) -> PathBuf {
    let source = fs::read_to_string(SOURCE).unwrap();
    let source = source.replace("#define _POSIX_C_SOURCE 200112L", "");
    let (function, first) = code.first_in;
    let mut heads = ["xd_status", "void"]
        .map(|answer| format!("static {answer} {function}("))
        .into_iter();
    let source = match heads.find_map(|head| source.find(&head)) {
        Some(at) => {
            let (before, rest) = source.split_at(at);
            format!("{before}{}", rest.replacen('{', &format!("{{ {first}"), 1))
        }
        None => {
            assert_eq!(function, "", "the plugin has no such function");
            source
        }
    };
    let at_load = code.at_load;
    let constructor =
        format!("__attribute__((constructor)) static void at_load(void) {{ {at_load} }}");
    let source = format!("{INCLUDES}{constructor}\n{source}");
    compile(folder, name, &source, code.flags)
}

/// Compiles this source into `libcrossdock_plugin_NAME.so` in `folder`, where it lies as `NAME.c` then.
pub(crate) fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).unwrap();
    let plugin = folder.join(format!("libcrossdock_plugin_{name}.so"));
    let built = Command::new("cc")
        .args(["-std=gnu99", "-fPIC", "-shared", "-fvisibility=hidden"])
        .args(["-pthread", "-I", HEADERS])
        .args([&file, Path::new("-o"), &plugin])
        .args(flags)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{told}");
    plugin
}

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plugins/ext_dev.c");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/include");
const INCLUDES: &str = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <locale.h>\n\
                        #include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
                        #include <sys/resource.h>\n#include <unistd.h>\n";
