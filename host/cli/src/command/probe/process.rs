//! What a probed plugin inherits: a cleaned environment, no open file, no input, and a limit on output.
#![expect(unsafe_code, reason = "runs between fork and exec")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crossdock::plugin_files::Environment;

/// Makes `command` the start of a process that a plugin may do what it likes in.
pub(super) fn prepare(command: &mut Command, named: &[OsString]) {
    let privileged = Environment::of_process().privileged;
    let passes = |name: &OsStr| is_kept(name, named, privileged);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| passes(name)))
        .stdin(Stdio::null());
    // SAFETY: the function makes system calls only, as it must between fork and exec.
    unsafe { command.pre_exec(close_at_exec) };
}

/// The names of the variables that a probed plugin does not get.
pub(crate) fn cleared(named: &[OsString]) -> Vec<String> {
    let privileged = Environment::of_process().privileged;
    let names = std::env::vars_os().map(|(name, _)| name);
    let cleared = names.filter(|name| !is_kept(name, named, privileged));
    let mut cleared: Vec<String> = cleared
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    cleared.sort();
    cleared
}

/// Whether a variable is kept; in a privileged process a name by itself keeps none.
fn is_kept(name: &OsStr, named: &[OsString], privileged: bool) -> bool {
    let is_named = !privileged && named.iter().any(|one| one == name);
    is_named
        || name
            .to_str()
            .is_some_and(|name| is_passed(name, privileged))
}

/// Whether a variable is one of the system, of a loader, of a vendor or of Crossdock.
fn is_passed(name: &str, privileged: bool) -> bool {
    let by_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    by_prefix || NAMES.contains(&name) || (name == "LD_PRELOAD" && !privileged)
}

/// Marks every file but the three standard ones to be closed.
fn close_at_exec() -> io::Result<()> {
    // SAFETY: no pointer is passed.
    let done = unsafe { libc::close_range(3, libc::c_uint::MAX, CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // A kernel before 5.11; most processes have no more than these.
    for file in 3..1024 {
        // SAFETY: as above; a number that is no file is an error without effect.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

const CLOEXEC: libc::c_int = libc::CLOSE_RANGE_CLOEXEC.cast_signed();

const NAMES: [&str; 11] = [
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "RUST_BACKTRACE",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
];

const PREFIXES: [&str; 20] = [
    "AMD_",
    "ASAN_",
    "CL_",
    "CROSSDOCK_",
    "CUDA_",
    "GPU_",
    "HIP_",
    "HSA_",
    "LC_",
    "LSAN_",
    "NVIDIA_",
    "OCL_",
    "ONEAPI_",
    "OPENCL_",
    "POCL_",
    "ROCM_",
    "ROCR_",
    "RUSTICL_",
    "SYCL_",
    "ZE_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_and_masks_and_loader_paths_pass() {
        for name in [
            "CUDA_VISIBLE_DEVICES",
            "OCL_ICD_VENDORS",
            "LD_LIBRARY_PATH",
            "LC_ALL",
        ] {
            assert!(is_passed(name, true), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "LD_AUDIT",
            "PYTHONPATH",
            "GITHUB_TOKEN",
        ] {
            assert!(!is_passed(name, false), "{name}");
        }
        assert!(is_passed("LD_PRELOAD", false) && !is_passed("LD_PRELOAD", true));
    }
}
