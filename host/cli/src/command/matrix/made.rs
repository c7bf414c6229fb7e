//! Where and when a matrix was made, for who finds its files later.

use std::{
    env, fs,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// What the figures are of.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Made {
    /// The time, in UTC.
    pub(crate) at: String,
    pub(crate) host: String,
    /// The commit that a service of CI works on, by its variable; else none.
    pub(crate) commit: Option<String>,
    /// The version of the command.
    pub(crate) version: String,
}

impl Made {
    /// Now and here.
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let commits = ["GITHUB_SHA", "CI_COMMIT_SHA"].into_iter();
        let mut commits = commits.filter_map(|name| env::var(name).ok());
        Self {
            at: utc(since.map_or(0, |since| since.as_secs())),
            host: host.trim().to_owned(),
            commit: commits.find(|commit| !commit.is_empty()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// In one line.
    pub(super) fn line(&self) -> String {
        let Self {
            at,
            host,
            commit,
            version,
        } = self;
        let commit = commit.as_ref().map(|commit| format!(", commit {commit}"));
        let commit = commit.unwrap_or_default();
        format!("{at} on {host}{commit}, by crossdock {version}")
    }
}

/// A time since 1970 as people write it.
fn utc(seconds: u64) -> String {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (of_day / 3600, of_day / 60 % 60);
    format!(
        "{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC",
        day = days + 1
    )
}

const fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_as_in_calendars() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_826_154, "2000-02-29 12:09 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
