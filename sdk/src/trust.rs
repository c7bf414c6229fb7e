//! Whose files may decide what a process runs.
//!
//! A file, every link that leads to it and every folder on the way belong to root or to the user, and no other
//! user can write to them:
//!
//! - A group may write if the owner is its only user, as with the umask `002` of many systems. Root's group is
//!   judged like all others.
//! - The sticky bit exempts the folder that has it, such as /tmp: others can add entries there but cannot
//!   replace them, so the owners of the entries count all the more.
//! - In a user namespace that has no number for the system's root, the number for all such users counts as root,
//!   but not as the owner of an entry in a folder that others can write to.
//! - Next to a file that the process has loaded already, those who can change that file can change others, too
//!   ([`Rule::and_of`]).
#![expect(unsafe_code, reason = "asks the C library who this process is")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::accounts;
use crate::shown::shell_word;

/// Why a file is not trusted: everything on the way to it that breaks the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untrusted {
    /// In the order of the way; never empty.
    pub offenders: Vec<Offender>,
    /// The user who wants to run the file.
    user: u32,
}

/// A file, a link or a folder that breaks the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Offender {
    /// It belongs to another user.
    #[error("`{}` belongs to user {owner}", .at.display())]
    Owner {
        /// Where it is.
        at: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Other users can change it.
    #[error(
        "{} can write to `{}` (its mode is {:04o})",
        writers(*.mode, *.group), .at.display(), .mode & 0o7777
    )]
    Writable {
        /// Where it is.
        at: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Its owner: root, the user, or another trusted one.
        owner: u32,
        /// Its group.
        group: u32,
    },
    /// The system does not say whose it is.
    #[error("the owner of `{}` cannot be seen: {why}", .at.display())]
    Look {
        /// The path.
        at: PathBuf,
        /// What the system said.
        why: String,
    },
}

fn writers(mode: u32, group: u32) -> String {
    if mode & WORLD_WRITE == 0 {
        format!("users of group {}", accounts::group_name(group))
    } else {
        "all users".to_owned()
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for offender in &self.offenders {
            write!(f, "{offender}; ")?;
        }
        f.write_str(
            "only root and you may be able to change what runs here and the folders above it",
        )
    }
}

impl std::error::Error for Untrusted {}

impl From<Offender> for Untrusted {
    fn from(offender: Offender) -> Self {
        Self {
            offenders: vec![offender],
            user: user(),
        }
    }
}

impl Untrusted {
    /// What to do about it. It changes nothing but what the user owns, and no folder of the system.
    #[must_use]
    pub fn hint(&self) -> String {
        let mut ours = String::new();
        for offender in &self.offenders {
            match offender {
                Offender::Look { at, .. } => {
                    return format!("check that this user can reach `{}`", at.display());
                }
                Offender::Writable { at, owner, .. }
                    if *owner == self.user && !is_of_the_system(at) =>
                {
                    ours.push(' ');
                    ours.push_str(&shell_word(at).to_string());
                }
                Offender::Owner { .. } | Offender::Writable { .. } => {
                    return format!("put it where only root and you can write, or set {RELAX}");
                }
            }
        }
        format!("chmod go-w{ours}, or set {RELAX}")
    }
}

/// Whether a path is one of those that every system has, such as `/usr/local/lib`.
fn is_of_the_system(at: &Path) -> bool {
    let most = match at.components().nth(1) {
        Some(Component::Normal(name)) if name == "usr" || name == "var" => 3,
        _ => 1,
    };
    at.components().count() <= most + 1
}

/// The effective user.
#[must_use]
pub fn user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether the process has rights that its caller does not have (set-user-id, capabilities).
#[must_use]
pub fn is_privileged() -> bool {
    // SAFETY: it reads a vector that the kernel wrote before the program began.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the user waives the rule: `CROSSDOCK_TRUST_PATHS=1`, in a process without more rights.
#[must_use]
pub fn is_waived() -> bool {
    !is_privileged() && std::env::var_os("CROSSDOCK_TRUST_PATHS").is_some_and(|value| value == "1")
}

/// The real path of a file that only root and `user` can have put there.
///
/// # Errors
/// Everything on the way that breaks the rule.
pub fn check(path: &Path, user: u32) -> Result<PathBuf, Untrusted> {
    Rule::of(user).check(path)
}

/// Who may change what a process runs.
#[derive(Debug, Clone)]
pub struct Rule {
    user: u32,
    /// Users and groups besides root and the user, and whether that is all users.
    users: Vec<u32>,
    groups: Vec<u32>,
    everyone: bool,
}

impl Rule {
    /// Root and this user.
    #[must_use]
    pub const fn of(user: u32) -> Self {
        Self {
            user,
            users: Vec::new(),
            groups: Vec::new(),
            everyone: false,
        }
    }

    /// Also those who can change this file or folder. It is one that the process has loaded already, so they
    /// decide what runs here without any other file.
    #[must_use]
    pub fn and_of(mut self, loaded: &Path) -> Self {
        for offender in self.walk(loaded).1 {
            match offender {
                Offender::Owner { owner, .. } => self.users.push(owner),
                Offender::Writable { mode, group, .. } => {
                    self.everyone |= mode & WORLD_WRITE != 0;
                    self.groups.push(group);
                }
                Offender::Look { .. } => {}
            }
        }
        self
    }

    /// The real path of a file that only these can have put there.
    ///
    /// # Errors
    /// Everything on the way that breaks the rule.
    pub fn check(&self, path: &Path) -> Result<PathBuf, Untrusted> {
        let (at, offenders) = self.walk(path);
        if offenders.is_empty() {
            return Ok(at);
        }
        Err(Untrusted {
            offenders,
            user: self.user,
        })
    }

    /// Follows a path to its end, and lists what breaks the rule on the way.
    fn walk(&self, path: &Path) -> (PathBuf, Vec<Offender>) {
        let mut offenders = Vec::new();
        let mut at = PathBuf::from("/");
        if let Err(last) = self.follow(path, &mut at, &mut offenders) {
            offenders.push(last);
        }
        (at, offenders)
    }

    /// Fails where the way ends early.
    fn follow(
        &self,
        path: &Path,
        at: &mut PathBuf,
        offenders: &mut Vec<Offender>,
    ) -> Result<(), Offender> {
        let absolute = std::path::absolute(path).map_err(|error| look(path, &error))?;
        let mut to_go: VecDeque<OsString> = words(&absolute);
        let mut links = 0;
        offenders.extend(self.judge(at, &facts_of(at)?));
        while let Some(word) = to_go.pop_front() {
            if word == ".." {
                at.pop();
                continue;
            }
            at.push(word);
            let facts = facts_of(at)?;
            let offender = self.judge(at, &facts);
            // Links can lead through a folder more than once.
            offenders.extend(offender.filter(|offender| !offenders.contains(offender)));
            if !facts.is_symlink() {
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(look(at, &io::Error::from_raw_os_error(libc::ELOOP)));
            }
            let target = fs::read_link(&*at).map_err(|error| look(at, &error))?;
            if target.is_absolute() {
                *at = PathBuf::from("/");
            } else {
                at.pop();
            }
            for word in words(&target).into_iter().rev() {
                to_go.push_front(word);
            }
        }
        Ok(())
    }

    /// How a place breaks the rule.
    fn judge(&self, at: &Path, facts: &Metadata) -> Option<Offender> {
        let (owner, group, mode) = (facts.uid(), facts.gid(), facts.mode());
        if !self.may_own(at, owner) {
            let at = at.to_owned();
            return Some(Offender::Owner { at, owner });
        }
        // The mode of a link means nothing: it is replaced where it lies.
        if facts.is_symlink() || (facts.is_dir() && mode & STICKY != 0) {
            return None;
        }
        let world = mode & WORLD_WRITE != 0 && !self.everyone;
        let shared = mode & GROUP_WRITE != 0 && !self.may_write(group, owner);
        (world || shared).then(|| Offender::Writable {
            at: at.to_owned(),
            mode,
            owner,
            group,
        })
    }

    fn may_own(&self, at: &Path, owner: u32) -> bool {
        // Where others can add entries, one of an unknown user is not taken for root's.
        let in_open_folder = || {
            let folder = at.parent().map(Path::symlink_metadata);
            folder.is_some_and(|facts| {
                facts.map_or(true, |facts| {
                    facts.mode() & (GROUP_WRITE | WORLD_WRITE) != 0
                })
            })
        };
        owner == 0
            || owner == self.user
            || self.users.contains(&owner)
            || (accounts::is_unmapped_root(owner) && !in_open_folder())
    }

    fn may_write(&self, group: u32, owner: u32) -> bool {
        self.everyone || self.groups.contains(&group) || accounts::is_private(group, owner)
    }
}

/// The names of a path and its steps upwards.
fn words(path: &Path) -> VecDeque<OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts = path.components().filter(named);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

fn facts_of(at: &Path) -> Result<Metadata, Offender> {
    at.symlink_metadata().map_err(|error| look(at, &error))
}

fn look(at: &Path, error: &io::Error) -> Offender {
    Offender::Look {
        at: at.to_owned(),
        why: error.to_string(),
    }
}

const STICKY: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const WORLD_WRITE: u32 = 0o002;
/// As many as the kernel follows.
const MOST_LINKS: u32 = 40;
const RELAX: &str = "CROSSDOCK_TRUST_PATHS=1 if you trust these users";
