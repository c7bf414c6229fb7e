//! Child processes of the host: started, awaited and ended in one place.
//!
//! Other code may reap any child of the process: a `SIGCHLD` handler that waits for all children, or the
//! kernel if `SIGCHLD` is ignored. The exit status is lost then, and the PID can name a foreign process as
//! soon as the child has ended. So the output of a child counts, whatever a wait for it returns; and a
//! signal goes through a pidfd, which names the same process forever.
//!
//! Without pidfds (Linux before 5.4, some sandboxes) only a program that called [`reap_alone`] signals by
//! PID: none of its children is reaped before it waits for it. A library leaves such a child running.
//!
//! A limit on a wait counts only the time in which this process runs: Ctrl-Z stops the process, and not its
//! children.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `lines` | the lines that a child writes |
//! | `process` | a child: its start, its end, its status |
//! | `patience` | waits for a descriptor, with a limit |
//! | `started` | the children of a program, and the end of them all |

mod lines;
mod patience;
mod process;
mod started;

pub use lines::Lines;
pub use process::{Child, output, reap_alone, running};
pub use started::kill_all;
