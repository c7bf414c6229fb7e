//! What the numbers of users and groups stand for: accounts of this system, as a user namespace shows them.
#![expect(unsafe_code, reason = "asks the C library about accounts")]

use std::ffi::{CStr, c_char};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::ptr;

/// A user of the system.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    id: u32,
    name: Vec<u8>,
    /// The primary group.
    group: u32,
}

/// A group of the system.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    name: Vec<u8>,
    members: Vec<Vec<u8>>,
}

/// Whether this number shows files of the system's root, which this user namespace has no number for.
///
/// The number stands for all users without a number here. `/proc` belongs to the system's root, whatever
/// mounted it, so its owner tells whether root is one of them; `uid_map` tells that only for the namespace
/// above this one.
pub(crate) fn is_unmapped_root(user: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid");
    overflow.is_ok_and(|text| text.trim().parse() == Ok(user))
        && Path::new("/proc")
            .metadata()
            .is_ok_and(|at| at.uid() == user)
        && outside(&map("/proc/self/uid_map"), user).is_none()
}

/// Whether `owner` is the only user of a group: they have the same name, it is the primary group of this user
/// alone, and it lists no other member. Root's group is judged like all others.
pub(crate) fn is_private(group: u32, owner: u32) -> bool {
    let users = outside(&map("/proc/self/uid_map"), owner);
    let groups = outside(&map("/proc/self/gid_map"), group);
    let (Some(outer_owner), Some(outer_group)) = (users, groups) else {
        return false;
    };
    // `unshare -r` shows a user as root, and the accounts are still those of the system. A container has
    // accounts of its own: its numbers are those inside, and the user's own outside, by the same number.
    match account(outer_owner) {
        Some(account) => is_alone(&account, outer_group),
        None => {
            outer_owner == outer_group
                && account(owner).is_some_and(|account| is_alone(&account, group))
        }
    }
}

fn is_alone(account: &Account, number: u32) -> bool {
    let others = fs::read_to_string("/etc/passwd").unwrap_or_default();
    group(number).is_some_and(|group| has_one_user(&group, number, account, &others))
}

/// `passwd` are the lines of `/etc/passwd`: a group does not list the users whose primary group it is.
fn has_one_user(group: &Group, number: u32, account: &Account, passwd: &str) -> bool {
    let primary_of_another = passwd.lines().any(|line| {
        let mut fields = line.split(':').skip(2).map(str::parse);
        let user = fields.next().and_then(Result::ok);
        let primary = fields.next().and_then(Result::ok);
        primary == Some(number) && user != Some(account.id)
    });
    group.name == account.name
        && account.group == number
        && group.members.iter().all(|member| *member == account.name)
        && !primary_of_another
}

/// The name of a group, or its number.
pub(crate) fn group_name(number: u32) -> String {
    match group(number) {
        Some(group) => format!("`{}`", String::from_utf8_lossy(&group.name)),
        None => number.to_string(),
    }
}

/// The lines of a map: the first number inside, the first one outside, how many. Without `/proc`, all are
/// the same inside and outside.
fn map(file: &str) -> Vec<[u32; 3]> {
    let Ok(text) = fs::read_to_string(file) else {
        return vec![[0, 0, u32::MAX]];
    };
    let line = |line: &str| {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse().ok());
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    };
    text.lines().filter_map(line).collect()
}

/// The number in the namespace above this one.
fn outside(map: &[[u32; 3]], inside: u32) -> Option<u32> {
    map.iter().find_map(|[first, outer, count]| {
        let offset = inside.checked_sub(*first).filter(|offset| offset < count)?;
        outer.checked_add(offset)
    })
}

fn account(number: u32) -> Option<Account> {
    look_up(
        // SAFETY: the entry, the buffer of this length and the result are written during the call.
        |entry, buffer, length, found| unsafe {
            libc::getpwuid_r(number, entry, buffer, length, found)
        },
        |entry: &libc::passwd| Account {
            id: entry.pw_uid,
            // SAFETY: an entry that was found has a name, a C string in the buffer.
            name: unsafe { bytes(entry.pw_name) },
            group: entry.pw_gid,
        },
    )
}

fn group(number: u32) -> Option<Group> {
    look_up(
        // SAFETY: the entry, the buffer of this length and the result are written during the call.
        |entry, buffer, length, found| unsafe {
            libc::getgrgid_r(number, entry, buffer, length, found)
        },
        |entry: &libc::group| Group {
            // SAFETY: an entry that was found has a name, a C string in the buffer.
            name: unsafe { bytes(entry.gr_name) },
            // SAFETY: an entry that was found has a list of C strings in the buffer, which NULL ends.
            members: unsafe { list(entry.gr_mem) },
        },
    )
}

/// Calls a function of the C library that fills an entry and the buffer behind it.
fn look_up<E, T>(
    call: impl Fn(*mut E, *mut c_char, usize, *mut *mut E) -> i32,
    read: impl Fn(&E) -> T,
) -> Option<T> {
    const MOST: usize = 1 << 20;
    let mut size = 1 << 10;
    loop {
        let mut buffer: Vec<c_char> = vec![0; size];
        let mut entry = MaybeUninit::<E>::uninit();
        let mut found = ptr::null_mut();
        let status = call(
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        );
        if status == libc::ERANGE && size < MOST {
            size *= 4;
        } else if status != libc::EINTR {
            // SAFETY: NULL, or the address of the entry that the call has filled; both it and the buffer
            // live until the end of this block, and nobody else knows them.
            return unsafe { found.as_ref() }.map(&read);
        }
    }
}

/// # Safety
/// A C string.
unsafe fn bytes(text: *const c_char) -> Vec<u8> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

/// # Safety
/// NULL, or an array of C strings that NULL ends.
unsafe fn list(mut texts: *const *mut c_char) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !texts.is_null() {
        // SAFETY: the caller's promise: NULL has not been reached, so this element exists.
        let text = unsafe { *texts };
        if text.is_null() {
            break;
        }
        // SAFETY: the caller's promise.
        all.push(unsafe { bytes(text) });
        // SAFETY: the element was not the last one.
        texts = unsafe { texts.add(1) };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_if_only_its_namesake_is_in_it() {
        let alice = Account {
            id: 1000,
            name: b"alice".to_vec(),
            group: 1000,
        };
        let passwd = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        let with_bob = format!("{passwd}bob:x:1001:1000::/home/bob:/bin/sh\n");
        let cases: [(&str, &[&str], u32, &str, bool); 7] = [
            ("alice", &[], 1000, passwd, true),
            ("alice", &["alice"], 1000, passwd, true),
            ("alice", &["bob"], 1000, passwd, false),
            ("alice", &["alice", "bob"], 1000, passwd, false),
            ("users", &[], 1000, passwd, false),
            ("alice", &[], 100, passwd, false),
            ("alice", &[], 1000, &with_bob, false),
        ];
        for (name, members, number, passwd, expected) in cases {
            let group = Group {
                name: name.into(),
                members: members.iter().map(|&name| name.into()).collect(),
            };
            let is = has_one_user(&group, number, &alice, passwd);
            assert_eq!(is, expected, "{name} {members:?} {number}");
        }
    }

    #[test]
    fn numbers_are_translated_by_the_map_of_a_user_namespace() {
        let rootless = [[0, 1000, 1], [1, 100_000, 65_536]];
        assert_eq!(outside(&rootless, 0), Some(1000));
        assert_eq!(outside(&rootless, 7), Some(100_006));
        assert_eq!(outside(&rootless, 70_000), None);
        assert_eq!(outside(&[[0, 0, u32::MAX]], 65_534), Some(65_534));
    }

    #[test]
    fn accounts_of_this_system_are_found() {
        let root = account(0).map(|root| (root.name, root.group));
        assert_eq!(root, Some((b"root".to_vec(), 0)));
        assert_eq!(group(0).map(|root| root.name), Some(b"root".to_vec()));
        assert_eq!(account(u32::MAX - 7), None);
    }
}
