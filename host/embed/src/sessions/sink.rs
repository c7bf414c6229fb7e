//! Where captured streams end: a function of the host, which is not called any more once it is
//! closed.

use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One of the two streams that a session can capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Stream {
    /// `sys.stdout`.
    Out,
    /// `sys.stderr`.
    Err,
}

/// Takes what a script writes: UTF-8, unless the script writes other bytes to `sys.stdout.buffer`.
///
/// Called on threads of Python, without the interpreter's lock, also on several at once.
pub type Output = Box<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// An output, and who is in it.
pub(crate) struct Sink {
    output: Output,
    calls: Mutex<Calls>,
    idle: Condvar,
}

#[derive(Default)]
struct Calls {
    active: usize,
    is_closed: bool,
}

thread_local! {
    /// The sinks whose functions this thread is in, by their addresses, the innermost last: a function
    /// may write to another sink, and to its own.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is in a function that takes what a script writes.
pub(crate) fn is_inside() -> bool {
    inside(|sinks| !sinks.is_empty())
}

/// Looks at the sinks that this thread is in. At the very end of a thread it is in none.
fn inside<T: Default>(look: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    let found = INSIDE.try_with(|inside| look(&mut inside.borrow_mut()));
    found.unwrap_or_default()
}

impl Sink {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            calls: Mutex::default(),
            idle: Condvar::new(),
        }
    }

    /// Passes on what was written, unless the sink is closed.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut calls = self.lock();
        if calls.is_closed {
            return;
        }
        calls.active += 1;
        drop(calls);
        inside(|sinks| sinks.push(self.address()));
        let _ends = Call { sink: self };
        (self.output)(stream, bytes);
    }

    /// From here on nothing is passed on. Waits for calls that are under way, but not for those that
    /// this thread is in.
    pub(crate) fn close(&self) {
        let mut calls = self.lock();
        calls.is_closed = true;
        let is_own = |address: &&usize| **address == self.address();
        let own = inside(|sinks| sinks.iter().filter(is_own).count());
        while calls.active > own {
            calls = self
                .idle
                .wait(calls)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of the function, which ends by a panic as well.
struct Call<'a> {
    sink: &'a Sink,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        inside(Vec::pop);
        self.sink.lock().active -= 1;
        self.sink.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A sink's function that was not given yet.
    type Later = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

    fn sink() -> (Arc<Sink>, Later) {
        let later = Later::default();
        let then = Arc::clone(&later);
        let output = move |_: Stream, _: &[u8]| {
            if let Some(then) = then.get() {
                then();
            }
        };
        (Arc::new(Sink::new(Box::new(output))), later)
    }

    fn set(later: &Later, body: impl Fn() + Send + Sync + 'static) {
        assert!(later.set(Box::new(body)).is_ok());
    }

    /// Writes on a thread that a defect would block for ever.
    fn write_soon(sink: Arc<Sink>) {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            sink.write(Stream::Out, b"x");
            done.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_close_from_within_another_sinks_function_does_not_wait_for_itself() {
        let ((outer, in_outer), (inner, in_inner)) = (sink(), sink());
        let closed = Arc::clone(&outer);
        set(&in_inner, move || closed.close());
        set(&in_outer, move || inner.write(Stream::Out, b"y"));
        write_soon(outer);
    }

    #[test]
    fn a_close_from_within_a_function_that_writes_to_itself_does_not_wait_for_itself() {
        let (only, in_only) = sink();
        let again = Arc::clone(&only);
        let depth = std::sync::atomic::AtomicU32::new(0);
        set(&in_only, move || {
            match depth.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => again.write(Stream::Out, b"y"),
                _ => again.close(),
            }
        });
        write_soon(only);
    }

    #[test]
    fn a_close_waits_for_a_call_on_another_thread() {
        let (sink, in_sink) = sink();
        let (entered, is_in) = mpsc::sync_channel(0);
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        set(&in_sink, move || {
            entered.send(()).unwrap();
            may_go.lock().unwrap().recv().unwrap();
        });
        let writes = thread::spawn({
            let sink = Arc::clone(&sink);
            move || sink.write(Stream::Out, b"x")
        });
        is_in.recv().unwrap();
        let closes = thread::spawn({
            let sink = Arc::clone(&sink);
            move || {
                sink.close();
                assert_eq!(sink.lock().active, 0);
            }
        });
        go.send(()).unwrap();
        closes.join().unwrap();
        writes.join().unwrap();
    }
}
