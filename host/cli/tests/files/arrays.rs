//! Arrays that lie: nested headers, archives that unpack to anything, and what a copy keeps in memory.

use std::{fs, path::Path};

use crate::program::{err, limited, npy, npz, with_header};

/// The code and the errors of `crossdock copy` of a file, under a limit of memory.
fn copy(limit: &str, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = limited(limit, &["copy", "--to", "cpu:0"]);
    let output = command.arg(file).args(more).output().unwrap();
    (output.status.code(), err(&output))
}

#[test]
fn a_header_of_nested_brackets_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nested.npy");
    let nested = ["(", "[", "{", "{'a':", "(0,", "'"];
    for deep in nested {
        let texts = [
            deep.repeat(100),
            format!("{{'descr': {}", deep.repeat(100)),
            format!(
                "{{'descr': '<f4', 'fortran_order': False, 'shape': {}",
                deep.repeat(100)
            ),
            deep.repeat(12_000 / deep.len()),
        ];
        for text in texts {
            fs::write(&file, with_header(&text, &[])).unwrap();
            let (code, told) = copy("true", &file, &[]);
            assert_eq!(code, Some(1), "{text}: {told}");
            assert!(
                told.contains("header") || told.contains("records"),
                "{text}: {told}"
            );
        }
    }
}

#[test]
fn headers_are_read_as_numpy_and_its_older_versions_write_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.npy");
    let good = [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6), }",
        "{'shape': (4, 6), 'fortran_order': False, 'descr': '<f4'}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (24,)}",
        "{'descr':'<f4','fortran_order':True,'shape':(4L,6L,),}",
        "{ 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 96 , ) }",
    ];
    for text in good {
        fs::write(&file, with_header(text, &[7; 96])).unwrap();
        let (code, told) = copy("true", &file, &[]);
        assert_eq!(code, Some(0), "{text}: {told}");
    }
    let bad = [
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4 6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 6)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (4, 6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 24}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (24)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (24,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (24,), 'more': 1}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (24,)}",
    ];
    for text in bad {
        fs::write(&file, with_header(text, &[7; 96])).unwrap();
        let (code, told) = copy("true", &file, &[]);
        assert_eq!(code, Some(1), "{text}: {told}");
    }
}

#[test]
fn a_member_is_unpacked_as_far_as_its_array_goes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bomb.npz");
    let mut bomb = npy("4, 6", "False", &[7; 96]);
    bomb.resize(24 << 20, 0);
    npz(&file, &[("a.npy", &bomb)]);
    drop(bomb);
    let (code, told) = copy("ulimit -d 20000", &file, &[]);
    assert_eq!(code, Some(0), "{told}");
    // The other way round: a header that claims what no memory holds.
    npz(
        &file,
        &[("a.npy", &npy("1000000000000,", "False", &[7; 96]))],
    );
    let (code, told) = copy("ulimit -d 20000", &file, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the file ends before"), "{told}");
    npz(&file, &[("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{")]);
    let (code, told) = copy("ulimit -d 20000", &file, &[]);
    assert_eq!(code, Some(1), "{told}");
}

#[test]
fn a_copy_keeps_one_tensor_in_memory_and_not_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (model, archive) = (
        folder.path().join("m.safetensors"),
        folder.path().join("m.npz"),
    );
    let part = vec![3_u8; 1 << 20];
    let names: Vec<String> = (0..32).map(|number| format!("t{number}.npy")).collect();
    let view = || {
        use safetensors::{Dtype, tensor::TensorView};
        TensorView::new(Dtype::U8, vec![part.len()], &part).unwrap()
    };
    let tensors = names.iter().map(|name| (name, view()));
    safetensors::serialize_to_file(tensors, None, &model).unwrap();
    let array = npy("512, 512", "False", &part);
    let members: Vec<(&str, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), array.as_slice()))
        .collect();
    npz(&archive, &members);
    let back = folder.path().join("out");
    for more in [&[][..], &["--out", back.to_str().unwrap()]] {
        for file in [&model, &archive] {
            // The whole is 32 MiB.
            let (code, told) = copy("ulimit -d 20000", file, more);
            assert_eq!(code, Some(0), "{} {more:?}: {told}", file.display());
        }
    }
    assert_eq!(
        fs::read(back.join("m.safetensors")).unwrap(),
        fs::read(&model).unwrap()
    );
    assert_eq!(fs::read(back.join("m.t7.npy")).unwrap(), array);
}

#[test]
fn each_of_many_members_is_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("many.npz");
    let arrays: Vec<(String, Vec<u8>)> = (0..2_000_u32)
        .map(|number| {
            let array = npy("1,", "False", &number.to_le_bytes());
            (format!("t{number}.npy"), array)
        })
        .collect();
    let members: Vec<(&str, &[u8])> = arrays
        .iter()
        .map(|(name, array)| (name.as_str(), array.as_slice()))
        .collect();
    npz(&archive, &members);
    let back = folder.path().join("out");
    let (code, told) = copy("true", &archive, &["--out", back.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{told}");
    for (name, array) in &arrays {
        let copied = fs::read(back.join(format!("many.{name}"))).unwrap();
        assert_eq!(&copied, array, "{name}");
    }
}
