//! Where the shared library of a Python lies, and whether this process can open it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::finding::probe::Answer;

/// The library that goes with an executable, from the surest place to the least sure.
pub(crate) fn of(answer: &Answer) -> Option<PathBuf> {
    let name = &answer.library_name;
    // A static build names an archive here, and one without any name may be anything.
    let shared = name.to_string_lossy().contains(".so");
    let mut places = places(answer).into_iter().map(|folder| folder.join(name));
    places.find(|file| shared && file.is_file())
}

fn places(answer: &Answer) -> Vec<PathBuf> {
    let of_prefix = |prefix: &Path| {
        let names = [
            "lib".into(),
            Path::new("lib").join(&answer.multiarch),
            "lib64".into(),
        ];
        names.map(|name| prefix.join(name))
    };
    let mut places = vec![answer.library_folder.clone()];
    // A build that was moved still names the place that it was made for.
    places.extend(of_prefix(&answer.base_prefix));
    let real = answer.executable.canonicalize().ok();
    if let Some(folder) = real.as_deref().and_then(Path::parent) {
        places.push(folder.to_owned());
        places.extend(folder.parent().into_iter().flat_map(of_prefix));
    }
    let loader = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    places.extend(std::env::split_paths(&loader).filter(|folder| folder.is_absolute()));
    for folder in ["/usr/lib", "/lib", "/usr/lib64", "/usr/local/lib"] {
        places.push(Path::new(folder).join(&answer.multiarch));
        places.push(PathBuf::from(folder));
    }
    places
}

/// What in an ELF file's head says for which processor it is: the class, the byte order, the machine.
#[derive(Debug, PartialEq, Eq)]
struct Machine([u8; 2], [u8; 2]);

/// Whether a library is for the processor that this process runs on; what cannot be read is not.
pub(crate) fn is_for_this_machine(library: &Path) -> bool {
    let ours = std::env::current_exe().ok().and_then(|own| machine(&own));
    machine(library).is_some_and(|machine| ours.is_none_or(|ours| ours == machine))
}

fn machine(file: &Path) -> Option<Machine> {
    let mut head = [0_u8; 20];
    File::open(file).ok()?.read_exact(&mut head).ok()?;
    let [0x7f, b'E', b'L', b'F', class, order, .., low, high] = head else {
        return None;
    };
    Some(Machine([class, order], [low, high]))
}
