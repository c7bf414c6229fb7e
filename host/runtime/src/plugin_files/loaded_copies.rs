//! Two copies of one vendor's library in a process: streams, memory and contexts of one mean nothing to the
//! other, so what one library hands out is refused where a plugin asks the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files that are loaded in this process under a library's name, in any version.
pub(crate) fn copies_of(soname: &str) -> Vec<PathBuf> {
    std::fs::read_to_string("/proc/self/maps")
        .map(|maps| copies_in(&maps, soname))
        .unwrap_or_default()
}

/// The same of what the system says of a process. One file may be mapped by several names.
fn copies_in(maps: &str, soname: &str) -> Vec<PathBuf> {
    let end = soname
        .find(".so")
        .map_or(soname.len(), |at| at + ".so".len());
    let library = soname.get(..end).unwrap_or(soname);
    let is_copy = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let version = name.and_then(|name| name.strip_prefix(library));
        version.is_some_and(|version| version.is_empty() || version.starts_with('.'))
    };
    let mut files = BTreeMap::new();
    for line in maps.lines() {
        // Addresses, rights, offset, device, inode, path.
        let mut fields = line.split_ascii_whitespace();
        let (device, inode) = (fields.nth(3), fields.next());
        let path = line.find('/').and_then(|at| line.get(at..)).map(Path::new);
        if let Some(path) = path.filter(|path| is_copy(path)) {
            files.entry((device, inode)).or_insert(path);
        }
    }
    files.into_values().map(Path::to_path_buf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f00-7f01 r--p 00000000 08:01 11 /usr/lib/libcuda.so.550.54
7f01-7f02 r-xp 00001000 08:01 11 /usr/lib/libcuda.so.550.54
7f02-7f03 r--p 00000000 08:01 11 /usr/lib/libcuda.so.1
7f03-7f04 r--p 00000000 08:01 12 /usr/lib/libcudart.so.13
7f04-7f05 r--p 00000000 08:01 13 /usr/lib/libcuda.so-old
7f05-7f06 rw-p 00000000 00:00 0
7f06-7f07 r--p 00000000 00:00 0 [vdso]
";

    #[test]
    fn one_file_by_several_names_is_one_copy_and_other_libraries_are_none() {
        let one = vec![PathBuf::from("/usr/lib/libcuda.so.550.54")];
        assert_eq!(copies_in(MAPS, "libcuda.so.1"), one);
        let more = format!("{MAPS}7f10-7f11 r--p 00000000 08:02 11 /opt/my drivers/libcuda.so\n");
        let two = copies_in(&more, "libcuda.so.1");
        assert_eq!(two.len(), 2);
        assert!(
            two.contains(&PathBuf::from("/opt/my drivers/libcuda.so")),
            "{two:?}"
        );
        assert_eq!(copies_in(&more, "libvpi.so.1"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn this_process_has_one_c_library() {
        assert_eq!(copies_of("libc.so.6").len(), 1);
    }
}
