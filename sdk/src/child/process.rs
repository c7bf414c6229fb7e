//! A child process by its pidfd: started, awaited, killed and reaped.
#![expect(unsafe_code, reason = "pidfds and signals are calls of the C library")]

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use std::{fs, mem};

use super::patience::Patience;
use super::started::{self, Started};

/// Whether [`reap_alone`] was called.
pub(super) static REAPS_ALONE: AtomicBool = AtomicBool::new(false);

/// Resets `SIGCHLD` to its default action, so that exit statuses reach this program alone. The system then
/// gives it each orphan among the processes that its children start.
///
/// Only a program calls this, and only if none of its code waits for all children: a library never changes
/// the dispositions of its host.
pub fn reap_alone() {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: no pointer is passed. Linux has had it since 3.4; without it orphans outlive this program.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    started::find_children();
    REAPS_ALONE.store(true, Ordering::Relaxed);
}

/// The children of this process that have not ended, whatever started them: in a program that called
/// [`reap_alone`] the orphans among the processes that its children started are children too. Where the system
/// does not tell (`CONFIG_PROC_CHILDREN`) there are none.
#[must_use]
pub fn running() -> Vec<u32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    // When a thread ends, another one has its children.
    let list = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let children = threads.filter_map(|thread| list(thread.ok()?));
    let children = children.collect::<String>();
    let children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let has_ended = |pid: &u32| waited(libc::P_PID, pid.cast_signed(), UNREAPED);
    children
        .filter(|pid| !matches!(has_ended(pid), Ok(Some(_))))
        .collect()
}

/// A child process. Dropping it kills a child that still runs.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    name: Name,
    leads_group: bool,
    started: Option<Started>,
}

/// How the kernel is asked about a child.
#[derive(Debug)]
enum Name {
    /// By a descriptor of the process.
    Pidfd(OwnedFd),
    /// By its PID: there are no pidfds.
    Pid,
    /// Not at all: it was reaped.
    Reaped,
}

impl Child {
    /// Starts a child, without a `fork` that other code of this process would notice.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::spawn(command, false)
    }

    /// Starts a child that leads its own process group. [`Child::kill`] kills the whole group only if this
    /// program called [`reap_alone`]. The system kills the child when the calling thread ends. The handlers of a
    /// `fork` run in it.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start_group(command: &mut Command) -> io::Result<Self> {
        Self::spawn(started::bound(command).process_group(0), true)
    }

    fn spawn(command: &mut Command, leads_group: bool) -> io::Result<Self> {
        let pid = command.spawn()?.id().cast_signed();
        let reaps_alone = REAPS_ALONE.load(Ordering::Relaxed);
        Ok(Self {
            pid,
            name: Name::of(pid),
            leads_group,
            started: reaps_alone.then(|| Started::new(pid, leads_group)),
        })
    }

    /// Waits up to `limit` for the child to end (`None`: no limit). Returns whether it ended. The child stays
    /// unreaped, so that its group can still be killed.
    ///
    /// # Errors
    /// What the system says of the wait.
    pub fn ends_within(&self, limit: Option<Duration>) -> io::Result<bool> {
        let mut patience = Patience::new(limit);
        match &self.name {
            Name::Pidfd(pidfd) => patience.awaits(pidfd.as_raw_fd()),
            Name::Pid => {
                while !self.has_ended() {
                    if patience.is_over() {
                        return Ok(false);
                    }
                    thread::park_timeout(MOMENT);
                    patience.spend();
                }
                Ok(true)
            }
            Name::Reaped => Ok(true),
        }
    }

    /// Whether the child has ended, reaped or not.
    fn has_ended(&self) -> bool {
        !matches!(self.wait(UNREAPED), Ok(None))
    }

    /// Kills the child. If this program called [`reap_alone`], also kills the group that the child leads, even
    /// after the child ended, and then processes that left the group. Without pidfds and without [`reap_alone`],
    /// does nothing.
    pub fn kill(&self) {
        let is_ours = REAPS_ALONE.load(Ordering::Relaxed) && self.wait(UNREAPED).is_ok();
        if is_ours && self.leads_group {
            // SAFETY: no pointer is passed. The group exists: its leader is reaped with `self` only.
            unsafe { libc::kill(-self.pid, libc::SIGKILL) };
            if self.has_ended() {
                started::kill_orphans();
            }
            return;
        }
        match &self.name {
            Name::Pidfd(pidfd) => send_kill(pidfd),
            // SAFETY: no pointer is passed. The child is reaped with `self` only.
            Name::Pid if is_ours => drop(unsafe { libc::kill(self.pid, libc::SIGKILL) }),
            Name::Pid | Name::Reaped => {}
        }
    }

    /// Waits for the child to end, and reaps it.
    ///
    /// # Errors
    /// Other code of this process reaped the child, so its exit status is lost.
    pub fn status(mut self) -> io::Result<ExitStatus> {
        self.ends_within(None)?;
        self.started = None;
        let status = self.wait(libc::WEXITED | libc::WNOHANG);
        self.name = Name::Reaped;
        let lost = || io::Error::other("other code of this process took its exit status");
        status.ok().flatten().ok_or_else(lost)
    }

    /// The exit status, or none while the child runs. It is an error if other code took it.
    fn wait(&self, options: libc::c_int) -> io::Result<Option<ExitStatus>> {
        match &self.name {
            Name::Pidfd(pidfd) => waited(libc::P_PIDFD, pidfd.as_raw_fd(), options),
            Name::Pid => waited(libc::P_PID, self.pid, options),
            Name::Reaped => Err(io::Error::from_raw_os_error(libc::ECHILD)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.name, Name::Reaped) {
            return;
        }
        self.kill();
        // A process inside of a driver may not die: it is left to the system.
        if let Ok(true) = self.ends_within(Some(GRACE)) {
            // What left the group is an orphan only now.
            self.kill();
            self.started = None;
            drop(self.wait(libc::WEXITED | libc::WNOHANG));
        }
    }
}

impl Name {
    fn of(pid: libc::pid_t) -> Self {
        // SAFETY: no pointer is passed.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let Ok(number @ 0..) = RawFd::try_from(opened) else {
            let is_gone = io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
            return if is_gone { Self::Reaped } else { Self::Pid };
        };
        // SAFETY: the kernel made this descriptor for us alone, and it closes at `exec`.
        let pidfd = unsafe { OwnedFd::from_raw_fd(number) };
        // A foreign process has the PID if the child was reaped before.
        match waited(libc::P_PIDFD, number, UNREAPED) {
            Ok(_) => Self::Pidfd(pidfd),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Self::Reaped,
            Err(_) => Self::Pid,
        }
    }
}

/// As [`Child::wait`].
pub(super) fn waited(
    by: libc::idtype_t,
    number: libc::c_int,
    options: libc::c_int,
) -> io::Result<Option<ExitStatus>> {
    // SAFETY: zeros are a valid value of this plain struct.
    let mut told: libc::siginfo_t = unsafe { mem::zeroed() };
    let number = number.cast_unsigned();
    loop {
        // SAFETY: `told` is written during the call.
        if unsafe { libc::waitid(by, number, &raw mut told, options) } == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: `waitid` filled the fields of a child, or left zeros.
    let pid = unsafe { told.si_pid() };
    // SAFETY: as above.
    let status = unsafe { told.si_status() };
    let raw = match told.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    };
    Ok((pid != 0).then(|| ExitStatus::from_raw(raw)))
}

fn send_kill(pidfd: &OwnedFd) {
    let (number, none) = (pidfd.as_raw_fd(), ptr::null::<libc::siginfo_t>());
    // SAFETY: the signal carries nothing, so the pointer is null.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, libc::SIGKILL, none, 0) };
}

/// Starts a command without input, and returns the first `longest` bytes that it writes to stdout and
/// stderr, once both are closed. The command is killed then, or when the limit passes.
///
/// # Errors
/// The command does not start, or [`io::ErrorKind::TimedOut`].
pub fn output(mut command: Command, longest: u64, limit: Duration) -> io::Result<Vec<u8>> {
    let (mut from, to) = io::pipe()?;
    command.stdin(std::process::Stdio::null());
    command.stdout(to.try_clone()?).stderr(to);
    let child = Child::start(&mut command)?;
    // It holds our copies of the end that writes, which must all close.
    drop(command);
    let said = read(&mut from, longest, Patience::new(Some(limit)));
    drop(child);
    said
}

/// Reads until the end or the limit of bytes.
fn read(from: &mut PipeReader, longest: u64, mut patience: Patience) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    while (said.len() as u64) < longest {
        if !patience.awaits(from.as_raw_fd())? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match from.read(&mut piece)? {
            0 => break,
            count => said.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(said)
}

/// Asks how a child ended, and leaves it unreaped.
pub(super) const UNREAPED: libc::c_int = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
/// Between two looks at a child for which there is no pidfd.
const MOMENT: Duration = Duration::from_millis(2);
/// How long the end of a killed process is awaited.
const GRACE: Duration = Duration::from_secs(1);
