//! The table of files that the command and the package's `load` read alike: `tests/files/cases.json`.

use std::{fs, path::Path};

use serde_json::Value;

use crate::program::{crossdock, err, npz};

const TABLE: &str = include_str!("../../../../tests/files/cases.json");

#[test]
fn every_file_of_the_table_is_read_or_refused() {
    let table: Value = serde_json::from_str(TABLE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for format in ["npy", "npz", "safetensors"] {
        let path = folder.path().join(format!("a.{format}"));
        for case in table[format].as_array().unwrap() {
            match format {
                "npy" => fs::write(&path, npy(case)).unwrap(),
                "npz" => archive(&path, case),
                _ => fs::write(&path, safetensors(case)).unwrap(),
            }
            let expected = case.get("command").unwrap_or(&case["accepted"]);
            let ended = crossdock(&["copy", "--to", "cpu:0"]).arg(&path).output();
            let ended = ended.unwrap();
            let code = if expected == true { 0 } else { 1 };
            assert_eq!(ended.status.code(), Some(code), "{case}: {}", err(&ended));
        }
    }
}

#[test]
fn a_member_that_another_method_packed_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    for (method, name) in [(12, "bzip2"), (14, "LZMA"), (99, "an unknown method")] {
        let member = serde_json::json!({"name": "a.npy", "text": "", "method": method});
        archive(&path, &serde_json::json!({"members": [member]}));
        let ended = crossdock(&["copy", "--to", "cpu:0"]).arg(&path).output();
        let told = err(&ended.unwrap());
        let sentence = format!(
            "its member `a.npy`: it is packed by {name}; only stored and deflated members are read\n"
        );
        assert!(told.contains(&sentence), "{told}");
    }
}

/// Ones and zeros: a bool is nothing else.
fn data(count: &Value) -> Vec<u8> {
    let count = usize::try_from(count.as_u64().unwrap()).unwrap();
    [1, 0].into_iter().cycle().take(count).collect()
}

fn npy(case: &Value) -> Vec<u8> {
    let version = case.get("version").map_or((1, 0), |version| {
        (version[0].as_u64().unwrap(), version[1].as_u64().unwrap())
    });
    let mut header = case["header"].as_str().unwrap().to_owned();
    let length = case.get("pad").map_or(0, |pad| pad.as_u64().unwrap());
    while (header.len() as u64) + 1 < length {
        header.push(' ');
    }
    header.push('\n');
    let length = u32::try_from(header.len()).unwrap().to_le_bytes();
    let length = length.get(..if version.0 == 1 { 2 } else { 4 });
    let length = length.unwrap();
    let version = [version.0, version.1].map(|number| u8::try_from(number).unwrap());
    let data = data(&case["bytes"]);
    [b"\x93NUMPY", &version[..], length, header.as_bytes(), &data].concat()
}

fn safetensors(case: &Value) -> Vec<u8> {
    let header = case["header"].as_str().unwrap();
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &data(&case["bytes"])].concat()
}

/// An archive of stored members, of which the first then says what it has for a method and flags.
fn archive(path: &Path, case: &Value) {
    let members = case["members"].as_array().unwrap();
    let content = |member: &Value| match member.get("text") {
        Some(text) => text.as_str().unwrap().as_bytes().to_vec(),
        None => npy(member),
    };
    let contents: Vec<Vec<u8>> = members.iter().map(content).collect();
    let names = members
        .iter()
        .map(|member| member["name"].as_str().unwrap());
    let named: Vec<(&str, &[u8])> = names.zip(contents.iter().map(Vec::as_slice)).collect();
    npz(path, &named);
    let Some(first) = members.first() else { return };
    let number = |key: &str| first.get(key).map_or(0, |number| number.as_u64().unwrap());
    let (method, flags) = (number("method"), number("flags"));
    if method == 8 {
        return crate::program::packed_npz(path, &named);
    }
    let mut whole = fs::read(path).unwrap();
    for (sign, at) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let begin = whole.windows(4).position(|part| part == sign).unwrap();
        for (at, number) in [(begin + at, flags), (begin + at + 2, method)] {
            whole.splice(at..=at, [u8::try_from(number).unwrap()]);
        }
    }
    fs::write(path, whole).unwrap();
}
