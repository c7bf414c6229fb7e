//! Hooks from several threads at once.

use crate::case::{Case, Unmet, Verdict, failed, same_bytes};
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "four_threads_allocate_copy_and_free_at_once",
        "A hook may be called from any thread unless its doc says otherwise.",
        |subject| at_once(subject, memory_rounds),
    ),
    Case::full(
        "four_threads_each_use_a_stream_at_once",
        "Threads: any; one call at a time for one stream.",
        |subject| {
            subject.needs_streams()?;
            at_once(subject, stream_rounds)
        },
    ),
];

const THREADS: u64 = 4;
const ROUNDS: u64 = 25;
const BYTES: usize = 65_536;

fn at_once(subject: &Subject<'_>, work: fn(&Subject<'_>, u64) -> Verdict) -> Verdict {
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(subject, thread)))
            .collect();
        let ended = started.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| failed::<()>("a thread of the suite panicked"))
        });
        // Every thread is joined before the first failure is told.
        ended
            .collect::<Vec<Result<(), Unmet>>>()
            .into_iter()
            .collect()
    })
}

fn memory_rounds(subject: &Subject<'_>, thread: u64) -> Verdict {
    for round in 0..ROUNDS {
        let memory = subject.allocate(BYTES as u64)?;
        let bytes = pattern(thread * 1000 + round, BYTES);
        memory.write(0, &bytes)?;
        let info = memory.query(BYTES as u64 / 2)?;
        crate::case::ensure!(
            info.base == memory.address(),
            "thread {thread} sees another's base"
        );
        let what = format!("thread {thread}, round {round}");
        same_bytes(&what, &memory.read(0, BYTES)?, &bytes)?;
    }
    Ok(())
}

fn stream_rounds(subject: &Subject<'_>, thread: u64) -> Verdict {
    let memory = subject.allocate(BYTES as u64)?;
    for round in 0..ROUNDS {
        let mut lane = subject.lane()?;
        let bytes = pattern(thread * 2000 + round, BYTES);
        lane.upload(&memory, bytes.clone())?;
        lane.download(&memory)?;
        let what = format!("thread {thread}, round {round}");
        for found in lane.finish()? {
            same_bytes(&what, &found, &bytes)?;
        }
    }
    Ok(())
}
