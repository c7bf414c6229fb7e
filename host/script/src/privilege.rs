//! Who may decide what this process runs.
#![expect(unsafe_code, reason = "asks the kernel how the process was started")]

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether the process has rights that whoever started it has not.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: reads a word that the kernel left for the process; any key may be asked for.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The file, its folder, or the folder of the real file, where everybody may write there.
pub(crate) fn writable_by_all(file: &Path) -> Option<PathBuf> {
    if !is_privileged() && env::var_os("CROSSDOCK_TRUST_PATHS").is_some_and(|value| value == "1") {
        return None;
    }
    let real = file.canonicalize().ok()?;
    let places = [Some(real.as_path()), real.parent(), file.parent()];
    let open = places.into_iter().flatten().find(|place| {
        place.metadata().is_ok_and(|facts| {
            // Nobody can replace another's file in a folder such as /tmp.
            let exempt = facts.is_dir() && facts.mode() & STICKY != 0;
            facts.mode() & OTHERS_WRITE != 0 && !exempt
        })
    });
    open.map(Path::to_owned)
}
