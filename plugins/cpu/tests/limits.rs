//! What the plugin keeps where the process may not have all of the machine's memory.
#![expect(unsafe_code, reason = "limits a child process")]

use std::process::Command;

use crossdock_plugin_cpu::memory::Cache;

const CHILD: &str = "CROSSDOCK_TEST_CHILD";

#[test]
fn a_limit_of_addresses_limits_what_is_kept() {
    if std::env::var_os(CHILD).is_some() {
        let limit = libc::rlimit {
            rlim_cur: 2 << 30,
            rlim_max: 2 << 30,
        };
        // SAFETY: reads the limit during the call.
        let limited = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        assert_eq!(limited, 0);
        let cache = Cache::for_machine();
        let block = cache.allocate(600 << 20, 256).unwrap();
        cache.free(block);
        assert_eq!(cache.kept_bytes(), 0, "more than a quarter is kept");
        return;
    }
    let name = "a_limit_of_addresses_limits_what_is_kept";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .status();
    assert!(child.unwrap().success());
}
