//! The end of a plugin, on a second open of its own.

use crossdock::Hooks;
use crossdock_sdk::abi::Status;

use crate::allocation::Allocation;
use crate::case::{Case, Verdict, answers, skipped};
use crate::point::LIMIT_NS;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[Case::full(
    "a_retired_plugin_refuses_work_and_frees_memory",
    "Refuses new work, drains or gives up after `deadline_ns`. Memory stays freeable.",
    retired,
)];

fn retired(subject: &Subject<'_>) -> Verdict {
    let hooks = subject.hooks();
    let mut fresh = Hooks::new(hooks.name().to_owned(), *hooks.table());
    if let Err(error) = fresh.open() {
        return skipped(format!("the plugin does not open twice: {}", error.why()));
    }
    let verdict = retire(subject, &fresh);
    let closed = fresh.close();
    verdict?;
    Ok(closed?)
}

fn retire(subject: &Subject<'_>, fresh: &Hooks) -> Verdict {
    let memory = Allocation::new(fresh, subject.request(4096))?;
    memory.write(0, &pattern(91, 4096))?;
    fresh.retire(LIMIT_NS)?;
    let refused = fresh.allocate(subject.request(4096));
    answers("allocate after retire", &refused, &[Status::RETIRED])?;
    if fresh.table().streams().is_some() {
        let stream = fresh.stream_create(subject.device());
        answers("stream_create after retire", &stream, &[Status::RETIRED])?;
    }
    memory.free()?;
    // The plugin that is looked at is another open one, and goes on.
    let other = subject.allocate(64)?;
    Ok(other.write(0, &[1; 64])?)
}
