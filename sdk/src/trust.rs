//! Whose files may decide what a process runs.
//!
//! A file, every link that leads to it and every folder on the way belong to root or to the user, and
//! neither their group nor others can write to them. The sticky bit exempts the folder that has it, such
//! as /tmp: nobody can replace another's entry there, but everybody can add one, so the owners of the
//! entries count all the more.
#![expect(unsafe_code, reason = "asks the C library who this process is")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::shown::shell_word;

/// Why a file is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// Something on the way belongs to somebody else.
    #[error(
        "`{}` belongs to user {owner}; what is run and the folders above it must belong to root or \
         to you, since their owner could run any code here", .at.display()
    )]
    Owner {
        /// The file, the link or the folder that breaks the rule.
        at: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others can change something on the way.
    #[error(
        "others can write to `{}` (its mode is {:04o}), so they could put their code there",
        .at.display(), .mode & 0o7777
    )]
    Writable {
        /// The file or the folder that breaks the rule.
        at: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Something on the way cannot be looked at.
    #[error("the owner of `{}` cannot be seen: {why}", .at.display())]
    Look {
        /// The path.
        at: PathBuf,
        /// What the system said.
        why: String,
    },
}

impl Untrusted {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Owner { at, .. } => {
                format!("chown -h \"$(id -un)\" {}, or set {RELAX}", shell_word(at))
            }
            Self::Writable { at, .. } => {
                format!("chmod go-w {}, or set {RELAX}", shell_word(at))
            }
            Self::Look { at, .. } => format!("make `{}` readable for this user", at.display()),
        }
    }
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
/// The first thing on the way that breaks the rule.
pub fn check(path: &Path, user: u32) -> Result<PathBuf, Untrusted> {
    let absolute = std::path::absolute(path).map_err(|error| look(path, &error))?;
    let mut to_go: VecDeque<OsString> = words(&absolute);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    check_place(&at, &facts_of(&at)?, user)?;
    while let Some(word) = to_go.pop_front() {
        if word == ".." {
            at.pop();
            continue;
        }
        at.push(word);
        let facts = facts_of(&at)?;
        check_place(&at, &facts, user)?;
        if !facts.is_symlink() {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(look(&at, &io::Error::from_raw_os_error(libc::ELOOP)));
        }
        let target = fs::read_link(&at).map_err(|error| look(&at, &error))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        } else {
            at.pop();
        }
        for word in words(&target).into_iter().rev() {
            to_go.push_front(word);
        }
    }
    Ok(at)
}

/// The names of a path and its steps upwards.
fn words(path: &Path) -> VecDeque<OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts = path.components().filter(named);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

fn check_place(at: &Path, facts: &Metadata, user: u32) -> Result<(), Untrusted> {
    let (at, owner, mode) = (at.to_owned(), facts.uid(), facts.mode());
    if owner != 0 && owner != user {
        return Err(Untrusted::Owner { at, owner });
    }
    // The mode of a link means nothing: it is replaced where it lies.
    let exempt = facts.is_symlink() || (facts.is_dir() && mode & STICKY != 0);
    if mode & OTHERS_WRITE != 0 && !exempt {
        return Err(Untrusted::Writable { at, mode });
    }
    Ok(())
}

fn facts_of(at: &Path) -> Result<Metadata, Untrusted> {
    at.symlink_metadata().map_err(|error| look(at, &error))
}

fn look(at: &Path, error: &io::Error) -> Untrusted {
    Untrusted::Look {
        at: at.to_owned(),
        why: error.to_string(),
    }
}

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
/// As many as the kernel follows.
const MOST_LINKS: u32 = 40;
const RELAX: &str = "CROSSDOCK_TRUST_PATHS=1 for a checkout of your own";
