//! Whether the dynamic linker will find a library that a plugin needs, told without opening it.

use std::ffi::CString;
use std::path::Path;

use crossdock_sdk::trust;

use super::dynamic_linker;

/// Whether a needed library is loaded already, or lies where the linker looks.
pub(super) fn is_found(name: &str, plugin: &Path, run_path: &[String]) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    let origin = plugin.parent().unwrap_or(Path::new("/"));
    let origin = origin.to_string_lossy();
    let own = run_path.iter().map(|entry| {
        entry
            .replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin)
    });
    let variable = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let named = variable
        .split([':', ';'])
        .filter(|_| !trust::is_privileged());
    own.chain(named.map(ToOwned::to_owned))
        .chain(STANDARD.map(ToOwned::to_owned))
        .any(|folder| Path::new(&folder).join(name).exists())
        || is_in_cache(name)
        || CString::new(name).is_ok_and(|name| dynamic_linker::is_loaded(&name))
}

/// Whether the linker's cache has the name: it holds names that each end with NUL.
fn is_in_cache(name: &str) -> bool {
    let Ok(cache) = std::fs::read("/etc/ld.so.cache") else {
        return false;
    };
    let name = [b"\0", name.as_bytes(), b"\0"].concat();
    cache.windows(name.len()).any(|window| window == name)
}

const STANDARD: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
