//! Where the Python package lies that goes with this copy of the library.

use std::path::{Path, PathBuf};

/// The folder `crossdock` of the package, found from the file that hands out the function table: it
/// lies inside of the package (the wheel), or in an install prefix beside `lib/crossdock/python`.
pub(crate) fn beside(file: &Path) -> Option<PathBuf> {
    let file = file.canonicalize().ok()?;
    let folder = file.parent()?;
    let mut places = vec![folder.to_owned(), folder.join("crossdock/python/crossdock")];
    if let Some(prefix) = folder.parent() {
        places.push(prefix.join("lib/crossdock/python/crossdock"));
    }
    places.into_iter().find(|place| is_package(place))
}

fn is_package(folder: &Path) -> bool {
    folder.ends_with("crossdock") && folder.join("__init__.py").is_file()
}
