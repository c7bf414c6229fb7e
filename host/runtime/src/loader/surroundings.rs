//! What belongs to the whole process and not to a plugin: its working folder and its environment.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::plugin_files::Remark;

/// Both as they were at one time.
pub(super) struct Surroundings {
    folder: Option<PathBuf>,
    environment: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    pub(super) fn now() -> Self {
        Self {
            // A folder that was removed has no name.
            folder: env::current_dir().ok(),
            environment: env::vars_os().collect(),
        }
    }

    /// What is different by now.
    pub(super) fn changes(&self) -> Vec<Remark> {
        let now = Self::now();
        let folder = now
            .folder
            .filter(|folder| self.folder.as_ref() != Some(folder));
        let all = self.environment.iter().chain(&now.environment);
        let changed =
            all.filter(|(name, _)| self.environment.get(*name) != now.environment.get(*name));
        let mut names: Vec<_> = changed
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.dedup();
        let folder = folder.map(|folder| Remark::ChangesFolder { folder });
        let environment = (!names.is_empty()).then_some(Remark::ChangesEnvironment { names });
        folder.into_iter().chain(environment).collect()
    }
}
