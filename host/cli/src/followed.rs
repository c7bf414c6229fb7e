//! A process of our own that does work which may crash or hang, tells of it line by line on its stdout,
//! and is followed until its end.

use std::{
    env,
    fs::File,
    io::{self, PipeWriter, Write as _},
    marker::PhantomData,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use crossdock_sdk::child::{Child, Lines};
use crossdock_sdk::threads::Thread;
use rustix::stdio;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{command::probe::command::signal_name, failure::Problem};

/// A child, with what it tells and how it ends.
#[derive(Debug)]
pub(crate) struct Followed<T> {
    child: Arc<Child>,
    lines: Lines,
    end: JoinHandle<io::Result<bool>>,
    words: PhantomData<T>,
}

/// A line of JSON in the pipe.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word<T> {
    /// The child's.
    Told(T),
    /// The parent's own word, behind all that the child wrote: the child has ended.
    Over,
}

impl<T: DeserializeOwned> Followed<T> {
    pub(crate) fn start(command: Command) -> Result<Self, Problem> {
        Self::started(command)
            .map_err(|error| Problem::child("start a process for the plugins", &error))
    }

    fn started(mut command: Command) -> io::Result<Self> {
        let (from_child, pipe) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(pipe.try_clone()?);
        // A group of its own, so that what it starts ends with it.
        let child = Arc::new(Child::start_group(&mut command)?);
        let waits = Arc::clone(&child);
        let end = Thread::named("child-end").spawn(move || end_of(&waits, pipe))?;
        Ok(Self {
            child,
            lines: Lines::of(from_child),
            end,
            words: PhantomData,
        })
    }

    /// The child's next word, or that it has ended; none if it says nothing for so long.
    pub(crate) fn next_within(&mut self, limit: Duration) -> Result<Option<Word<T>>, Problem> {
        // A line that is none of ours was cut off, or written by the plugin.
        let parse = |line: &[u8]| serde_json::from_slice(line).ok();
        match self.lines.next_within(limit, parse) {
            Ok(word) => Ok(word.or(Some(Word::Over))),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(Problem::child(
                "listen to the process of the plugins",
                &error,
            )),
        }
    }

    /// Ends the child and what it started.
    pub(crate) fn kill(&self) {
        self.child.kill();
    }

    pub(crate) fn status(self) -> Result<ExitStatus, Problem> {
        self.reaped()
            .map_err(|error| Problem::child("wait for the process of the plugins", &error))
    }

    fn reaped(self) -> io::Result<ExitStatus> {
        let gone = || io::Error::other("the thread that waits for the child ended");
        // Nobody reads it any more, so the last word does not wait for room in the pipe.
        drop(self.lines);
        self.end.join().map_err(|_panic| gone())??;
        Arc::into_inner(self.child).ok_or_else(gone)?.status()
    }
}

/// Waits for the child, ends what it left behind in its group, and puts a last word behind all that
/// it wrote: what left the group may hold the pipe for as long as it likes.
fn end_of(child: &Child, mut pipe: PipeWriter) -> io::Result<bool> {
    let ended = child.ends_within(None);
    child.kill();
    // The child's last line may have been cut off. Who does not listen any more needs no word.
    pipe.write_all(b"\n")
        .and_then(|()| write(&mut pipe, &Word::<()>::Over))
        .ok();
    ended
}

/// This program's file, to start it again.
pub(crate) fn this_program() -> Result<PathBuf, Problem> {
    env::current_exe().map_err(|error| Problem::child("find the file of this command", &error))
}

/// How long a child may take until its first word, in which it loads and opens the plugins: a limit of its own,
/// since drivers take their time, and no shorter one than is asked for what comes then.
pub(crate) fn start_limit(limit: Duration) -> Duration {
    // Of tests, which do not wait for minutes.
    let asked = env::var("CROSSDOCK_START_LIMIT_MS").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.map_or(START.max(limit), Duration::from_millis)
}

const START: Duration = Duration::from_secs(120);

/// How a child ended that did not do its work.
pub(crate) fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => format!("it crashed with {}", signal_name(number)),
        (None, code) => format!("it ended the process with code {}", code.unwrap_or(-1)),
    }
}

/// In the child: keeps stdout for the parent; whatever the plugin prints goes to stderr.
pub(crate) fn take_stdout() -> Result<File, Problem> {
    let kept = rustix::io::fcntl_dupfd_cloexec(stdio::stdout(), 3);
    let kept = kept.and_then(|kept| stdio::dup2_stdout(stdio::stderr()).map(|()| kept));
    kept.map(File::from)
        .map_err(|error| Problem::child("keep stdout for the results", &error.into()))
}

/// In the child: tells the parent something.
pub(crate) fn tell<T: Serialize>(parent: &mut impl io::Write, told: &T) -> Result<(), Problem> {
    write(parent, &Word::Told(told)).map_err(|error| Problem::output(&error))
}

/// Writes one line, in one piece.
fn write<T: Serialize>(to: &mut impl io::Write, word: &Word<T>) -> io::Result<()> {
    let mut line = serde_json::to_string(word)?;
    line.push('\n');
    to.write_all(line.as_bytes())
}
