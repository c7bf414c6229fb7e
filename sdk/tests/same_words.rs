//! What the headers for C say of the contract stands in the same words in `sdk/src/abi`.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::Path;

/// How comments begin that are about C alone.
const OF_C_ALONE: [&str; 7] = [
    "\\file",
    "Makes a function visible",
    "The entry of a plugin file",
    "Writes the plugin's description",
    "The same for a plugin that starts a vendor's driver",
    "Host memory locked for a device, or NULL. (`register` is a keyword.)",
    "No stream.",
];

/// What one language calls otherwise than the other.
const NAMES: [(&str, &str); 10] = [
    ("UINT64_MAX", "u64::MAX"),
    ("`XD_ADOPT_*`", "`AdoptFlags`"),
    ("`xd_address`", "`Address`"),
    ("XD_CAP_", "Capabilities::"),
    ("XD_MEMORY_", "MemoryKind::"),
    ("XD_STREAM_", "StreamHandle::"),
    ("XD_QUERY_", "QueryCost::"),
    ("XD_", ""),
    ("Status::", ""),
    ("`]", "`"),
];

/// The words of a text, with the names of Rust, without links and with one space between two.
fn words(text: &str) -> String {
    let renamed = NAMES
        .iter()
        .fold(text.replace("[`", "`"), |text, (c, rust)| {
            text.replace(c, rust)
        });
    renamed.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The comments of a header, without their marks.
fn comments(header: &str) -> Vec<String> {
    let bodies = header.split("/**").skip(1);
    let bodies = bodies.filter_map(|rest| rest.split("*/").next());
    let line = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix('*').unwrap_or(line).to_owned()
    };
    bodies
        .map(|body| body.lines().map(line).collect::<Vec<_>>().join("\n"))
        .collect()
}

/// All that is documented in the Rust files of a folder.
fn documented(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        for line in std::fs::read_to_string(entry.unwrap().path())
            .unwrap()
            .lines()
        {
            text.push_str(line.trim_start().strip_prefix("///").unwrap_or_default());
            text.push('\n');
        }
    }
    words(&text)
}

#[test]
fn what_the_headers_say_stands_in_the_same_words_in_rust() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rust = documented(&sdk.join("src/abi"));
    let mut missing = Vec::new();
    for name in [
        "plugin.h",
        "plugin_groups.h",
        "plugin_peer.h",
        "plugin_types.h",
    ] {
        let header = std::fs::read_to_string(sdk.join("include/crossdock").join(name)).unwrap();
        let said = comments(&header).into_iter().map(|comment| words(&comment));
        missing.extend(said.filter(|comment| {
            let is_of_c = OF_C_ALONE.iter().any(|begin| comment.starts_with(begin));
            !is_of_c && !rust.contains(comment.as_str())
        }));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
