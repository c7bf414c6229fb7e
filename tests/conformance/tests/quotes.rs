//! What a case quotes as the contract stands in the headers, word by word.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

use std::path::Path;

/// The words of the headers, with one space between two and without the marks of comments.
fn headers() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/include/crossdock");
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "h") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let words = text.split_whitespace();
    let words: Vec<_> = words
        .filter(|word| !["*", "/**", "*/"].contains(word))
        .collect();
    words.join(" ")
}

#[test]
fn every_sentence_that_a_case_quotes_stands_in_the_headers() {
    let headers = headers();
    let quotes = crossdock_conformance::cases().iter().flat_map(|case| {
        let parts = case.contract.split('…').map(str::trim);
        parts.map(move |part| (case.name, part))
    });
    let unknown: Vec<_> = quotes
        .filter(|(_, part)| part.is_empty() || !headers.contains(part))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}
