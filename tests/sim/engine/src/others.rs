//! The other threads of this process, and whether all of them sleep.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// The other threads of this process, as the system tells of them; two open files for each.
#[derive(Debug, Default)]
pub struct Others {
    threads: BTreeMap<u32, Thread>,
}

/// What the system tells of one thread.
#[derive(Debug)]
struct Thread {
    /// Its state is in here.
    stat: File,
    /// How long and how often it ran: every run changes one of these.
    runs: File,
}

/// How long and how often each thread ran.
type Runs = BTreeMap<u32, Vec<u8>>;

impl Others {
    /// Nothing is known yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            threads: BTreeMap::new(),
        }
    }

    /// Whether every other thread sleeps. Nothing happens then before this thread does something, or
    /// a limit of a sleeper passes. False also where the system does not tell.
    pub fn sleep(&mut self) -> bool {
        // One that is seen awake answers before all have to be asked, and twice. What another thread left
        // here may have ended since, or be this one.
        let own = own_id();
        let is_awake = |(id, thread): (&u32, &Thread)| {
            *id != own && matches!(thread.sleeps(), Ok(Some(false)))
        };
        !self.threads.iter().any(is_awake) && self.sleep_during(|| ()).1
    }

    /// What a wait answers, and whether every other thread slept all the while.
    pub fn sleep_during<T>(&mut self, wait: impl FnOnce() -> T) -> (T, bool) {
        let before = self.runs();
        let answer = wait();
        // Who was seen asleep may have been woken by one that was looked at later: that one ran.
        let sleeps = |thread: &Thread| matches!(thread.sleeps(), Ok(Some(true)));
        let all_sleep = before.is_ok() && self.threads.values().all(sleeps);
        let did_not_run =
            || matches!((before, self.runs()), (Ok(before), Ok(now)) if before == now);
        (answer, all_sleep && did_not_run())
    }

    fn runs(&mut self) -> io::Result<Runs> {
        let own = own_id();
        let mut runs = Runs::new();
        for entry in fs::read_dir("/proc/self/task")? {
            let name = entry?.file_name();
            let id: Option<u32> = name.to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.filter(|id| *id != own) else {
                continue;
            };
            if let Some(told) = there(self.thread(id).and_then(|thread| told(&thread.runs)))? {
                runs.insert(id, told);
            }
        }
        self.threads.retain(|id, _| runs.contains_key(id));
        Ok(runs)
    }

    fn thread(&mut self, id: u32) -> io::Result<&Thread> {
        Ok(match self.threads.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let open = |file| File::open(format!("/proc/self/task/{id}/{file}"));
                new.insert(Thread {
                    stat: open("stat")?,
                    runs: open("schedstat")?,
                })
            }
        })
    }
}

impl Thread {
    /// Whether it sleeps; nothing of one that ended.
    fn sleeps(&self) -> io::Result<Option<bool>> {
        let told = there(told(&self.stat))?;
        Ok(told.map(|told| {
            // The name is in parentheses, and may hold any byte.
            let state = told.iter().rposition(|byte| *byte == b')');
            let state = state.and_then(|at| told.get(at + 2));
            matches!(state, Some(b'S' | b'Z' | b'X'))
        }))
    }
}

/// The id of the calling thread.
pub(crate) fn own_id() -> u32 {
    #[expect(unsafe_code, reason = "the standard library does not tell")]
    // SAFETY: it takes nothing and always succeeds.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

/// Nothing of a thread that ended meanwhile.
fn there<T>(told: io::Result<T>) -> io::Result<Option<T>> {
    match told {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        told => told.map(Some),
    }
}

fn told(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = [0; 512];
    let count = file.read_at(&mut bytes, 0)?;
    Ok(bytes.get(..count).unwrap_or_default().to_vec())
}
