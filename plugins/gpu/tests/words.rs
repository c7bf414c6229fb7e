//! No vendor is in what all vendors share: no name, no function, no library.

use std::path::Path;

/// Whether a character is of a name.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Names of vendors and their interfaces, in any case, and the beginnings of their functions.
fn is_vendors(word: &str) -> bool {
    let lower = word.to_lowercase();
    let names = ["cuda", "nvidia", "rocm", "amd", "hip", "gpu_driver"];
    let function = |prefix: &str| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    names
        .iter()
        .any(|name| lower == *name || lower.starts_with(&format!("{name}_")))
        || lower.contains("cuda")
        || lower.contains("nvidia")
        || function("cu")
        || function("CU")
        || function("hip")
}

#[test]
fn no_source_names_a_vendor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, content) in text.lines().enumerate() {
            let mut words = content.split(|character| !is_of_name(character));
            let found = words.find(|word| is_vendors(word));
            assert_eq!(found, None, "{}:{}", path.display(), line + 1);
        }
        read += 1;
    }
    assert!(read > 10);
    assert!(is_vendors("cuInit") && is_vendors("hipInit") && is_vendors("libcuda"));
    assert!(!is_vendors("current") && !is_vendors("chip"));
}
