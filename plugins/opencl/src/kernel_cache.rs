//! The folder in which `PoCL` caches kernels: its platform has no device while the folder cannot be written.
#![expect(unsafe_code, reason = "asks the system for permissions")]

use std::{
    env,
    ffi::{CString, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Why a platform without a device has none, if the reason is its cache folder.
pub(crate) fn fault_of(platform: &str) -> Option<String> {
    let folder = folder(|name| env::var_os(name).filter(|value| !value.is_empty()));
    // `PoCL` has just tried to make the folder.
    (platform == "Portable Computing Language" && !is_writable(&folder)).then(|| {
        format!(
            "the OpenCL platform `{platform}` has no device because its cache folder `{}` is not writable; \
             set POCL_CACHE_DIR to a writable folder",
            folder.display()
        )
    })
}

/// The folder that `PoCL` chooses by these variables.
fn folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(chosen) = variable("POCL_CACHE_DIR") {
        return chosen.into();
    }
    let caches = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")));
    caches.map_or_else(
        || "/tmp/pocl/kcache".into(),
        |caches| caches.join("pocl/kcache"),
    )
}

fn is_writable(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `path` ends with NUL and outlives the call, which only reads it.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_variables_in_their_order() {
        let cases = [
            (&[][..], "/tmp/pocl/kcache"),
            (&[("HOME", "/h")], "/h/.cache/pocl/kcache"),
            (
                &[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")],
                "/x/pocl/kcache",
            ),
            (&[("POCL_CACHE_DIR", "/p"), ("XDG_CACHE_HOME", "/x")], "/p"),
        ];
        for (variables, expected) in cases {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(folder(value), Path::new(expected));
        }
    }

    #[test]
    fn a_folder_counts_as_writable_only_if_it_exists() {
        assert!(is_writable(&env::temp_dir()));
        assert!(!is_writable(Path::new("/proc/none")));
        assert_eq!(fault_of("Intel(R) OpenCL"), None);
    }
}
