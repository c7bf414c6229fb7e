//! How much memory this process may have: what the machine has, or less where a limit says so.
#![expect(unsafe_code, reason = "asks for a limit of this process")]

use std::fs;
use std::path::Path;

use crate::pages;

/// The machine's memory in bytes, or the smallest limit: of the process's addresses (`RLIMIT_AS`), and of its
/// control groups.
pub(crate) fn allowed_bytes() -> usize {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = of_groups(Path::new("/sys/fs/cgroup"), &groups);
    let limits = [of_addresses(), groups];
    limits
        .into_iter()
        .flatten()
        .fold(pages::total_bytes(), usize::min)
}

fn of_addresses() -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written during the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    usize::try_from(limit.rlim_cur).ok().filter(|_| known)
}

/// The smallest limit of the groups in these lines of `/proc/self/cgroup`, and of the groups that they are in.
/// A container may see its own group as the root, whatever the line says.
fn of_groups(root: &Path, lines: &str) -> Option<usize> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let (folder, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let groups = Path::new(group.trim_start_matches('/')).ancestors();
        let limit = |group| {
            let text = fs::read_to_string(folder.join(group).join(file)).ok()?;
            text.trim().parse::<usize>().ok()
        };
        groups.filter_map(limit).min()
    };
    lines.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_a_group_and_those_around_it_counts() {
        let root = std::env::temp_dir().join(format!("crossdock-groups-{}", std::process::id()));
        for (file, text) in [
            ("one/memory.max", "max\n"),
            ("one/two/memory.max", "5000\n"),
            ("one/two/three/memory.max", "7000\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/old/memory.limit_in_bytes", "3000\n"),
        ] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        for (lines, expected) in [
            ("", None),
            ("0::/\n", None),
            ("0::/one\n", None),
            ("0::/one/two\n", Some(5000)),
            ("0::/one/two/three\n", Some(5000)),
            ("0::/not/here\n", None),
            ("4:memory:/old/within\n", Some(3000)),
            ("4:memory:/elsewhere\n", Some(9_223_372_036_854_771_712)),
            ("3:cpuset:/old\n4:memory:/old\n0::/one/two\n", Some(3000)),
            ("nonsense\n:\n::\n", None),
        ] {
            assert_eq!(of_groups(&root, lines), expected, "{lines:?}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
