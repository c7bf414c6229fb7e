//! The panic fence: the one place where an unwind is stopped before it reaches foreign code.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;

/// Runs `f` and stops a panic; `None` says that there was one.
#[inline]
pub fn fence<R>(f: impl FnOnce() -> R) -> Option<R> {
    fence_with_message(f).ok()
}

/// Runs `f` and stops a panic, keeping its message.
///
/// The panic's payload is dropped behind a second fence, because its own `Drop` may panic. A
/// payload that does so is replaced by a second one, which is leaked: dropping payloads could go
/// on without end.
///
/// # Errors
/// The message of the panic; a fixed text where it carried none.
#[inline]
pub fn fence_with_message<R>(f: impl FnOnce() -> R) -> Result<R, PanicMessage> {
    catch(f).map_err(read)
}

#[cold]
fn read(payload: Box<dyn Any + Send>) -> PanicMessage {
    let message = message_of(payload.as_ref());
    if let Err(second) = catch(move || drop(payload)) {
        // Kept in memory for ever: its destructor is as little to be trusted as the first's.
        let _leaked = ManuallyDrop::new(second);
    }
    message
}

/// What a caught panic said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanicMessage(String);

impl std::fmt::Display for PanicMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn message_of(payload: &(dyn Any + Send)) -> PanicMessage {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    PanicMessage(text.unwrap_or_else(|| "a panic without a message".to_owned()))
}

#[inline]
#[expect(
    clippy::disallowed_methods,
    reason = "the fence is the one place that catches panics"
)]
fn catch<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
    std::panic::catch_unwind(AssertUnwindSafe(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_value_comes_through() {
        assert_eq!(fence(|| 7), Some(7));
    }

    #[test]
    fn a_panic_ends_at_the_fence() {
        assert_eq!(fence(|| -> i32 { panic!("stop") }), None);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_ends_there_too() {
        assert_eq!(
            fence(|| -> i32 { std::panic::panic_any(PanicsWhenDropped) }),
            None
        );
    }
}
