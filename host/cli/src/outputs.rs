//! The files that a command writes: each once, never over one that it reads, whole or not at all.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crossdock_sdk::regular;

use crate::{
    failure::{Failure, Problem},
    temporary::Temporary,
};

/// What is read, and what is or will be written.
#[derive(Debug)]
pub(crate) struct Outputs {
    inputs: HashSet<Identity>,
    claimed: HashSet<PathBuf>,
    /// Which file each of them is now.
    written: HashMap<Identity, PathBuf>,
    /// The same by name.
    identities: HashMap<PathBuf, Identity>,
}

/// Device and inode: the same for every name of one file.
type Identity = (u64, u64);

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    temporary: Temporary,
}

impl Outputs {
    /// For a command that reads these files.
    pub(crate) fn beside<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Self {
        Self {
            inputs: inputs.into_iter().filter_map(identity).collect(),
            claimed: HashSet::new(),
            written: HashMap::new(),
            identities: HashMap::new(),
        }
    }

    /// Says which of the outputs goes to stdout, which is `-` for them: one at most.
    pub(crate) fn stdout_of<T>(
        named: impl IntoIterator<Item = (T, bool)>,
    ) -> Result<Option<T>, Failure> {
        let mut on_stdout = named.into_iter().filter(|(_, is_on)| *is_on);
        let first = on_stdout.next().map(|(output, _)| output);
        if on_stdout.next().is_some() {
            let why = "two of them would be written to stdout, and neither could be read";
            let problem = Problem::new("write to `-`", why, "give one of them the name of a file");
            return Err(Failure::Usage(problem));
        }
        Ok(first)
    }

    /// Says that a file will be written, before there is any work for it.
    pub(crate) fn claim(&mut self, path: &Path) -> Result<(), Failure> {
        self.check(path)?;
        if !self.claimed.insert(real_name(path)) {
            let why = "two of them would be written to it, and one would be lost";
            let problem = refuse(path, why, "give them different names or folders");
            return Err(Failure::Usage(problem));
        }
        Ok(())
    }

    /// Begins a file that was claimed.
    pub(crate) fn begin(&self, path: &Path) -> Result<Output, Failure> {
        self.check(path)?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let temporary = Temporary::new_in(folder.unwrap_or(Path::new(".")))
            .map_err(|error| Problem::file("write", path, &error))?;
        Ok(Output {
            target: path.to_owned(),
            temporary,
        })
    }

    /// Writes a whole file that was claimed, again where it was written before.
    pub(crate) fn write(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let mut output = self.begin(path)?;
        output.write(text.as_bytes())?;
        self.finish(output)
    }

    /// Puts a file into its place.
    pub(crate) fn finish(&mut self, output: Output) -> Result<(), Failure> {
        let Output { target, temporary } = &output;
        // A folder may take two names for one; names alone do not show it.
        self.check(target)?;
        let failed = |error| Problem::file("write", target, &error);
        let facts = temporary.file.metadata().map_err(failed)?;
        fs::rename(&temporary.path, target).map_err(failed)?;
        let identity = (facts.dev(), facts.ino());
        if let Some(before) = self.identities.insert(target.clone(), identity) {
            // That file is gone, and its number may be another file's by now.
            if self.written.get(&before) == Some(target) {
                self.written.remove(&before);
            }
        }
        self.written.insert(identity, target.clone());
        Ok(())
    }

    fn check(&self, path: &Path) -> Result<(), Problem> {
        let found = identity(path);
        if found.is_some_and(|file| self.inputs.contains(&file)) {
            let why = "it is a file that is being read";
            return Err(refuse(
                path,
                why,
                "name another file or folder for the output",
            ));
        }
        let written = found.and_then(|file| self.written.get(&file));
        if written.is_some_and(|written| written != path) {
            let why = "it was written just now, for another one";
            return Err(refuse(path, why, "give them different names or folders"));
        }
        // A rename would replace a pipe, a device or a link, and not go through it.
        if path.symlink_metadata().is_ok_and(|facts| !facts.is_file()) {
            let why = regular::not_regular().to_string();
            return Err(refuse(
                path,
                &why,
                "name a file; results go to stdout without one",
            ));
        }
        Ok(())
    }
}

impl Output {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.temporary.file.write_all(bytes);
        Ok(written.map_err(|error| Problem::file("write", &self.target, &error))?)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let facts = path.metadata().ok()?;
    Some((facts.dev(), facts.ino()))
}

/// The path with its folder's own name, where there is that folder.
fn real_name(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute
        .parent()
        .and_then(|folder| folder.canonicalize().ok());
    match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

fn refuse(path: &Path, why: &str, hint: &str) -> Problem {
    Problem::new(format!("write `{}`", path.display()), why, hint)
}
