//! Hooks from several threads at once.

use std::sync::Barrier;

use crate::case::{Case, Unmet, Verdict, failed, same_bytes, skipped};
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "four_threads_allocate_copy_and_free_at_once",
        "The comment of each hook says which threads may call it … Threads: any.",
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
    Case::full(
        "four_threads_map_one_memory_at_once",
        "One memory may be mapped several times at once, also at one address; each ends by its own `unmap`.",
        map_at_once,
    ),
];

const THREADS: [u64; 4] = [0, 1, 2, 3];
const ROUNDS: u64 = 25;
const MAP_ROUNDS: u64 = 500;
const MAP_BYTES: usize = 4096;
const BYTES: usize = 65_536;

fn at_once<'a>(
    subject: &Subject<'a>,
    work: impl Fn(&Subject<'a>, u64) -> Verdict + Sync,
) -> Verdict {
    let work = &work;
    std::thread::scope(|scope| {
        let started: Vec<_> = THREADS
            .into_iter()
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
        let mut stream = subject.stream()?;
        let bytes = pattern(thread * 2000 + round, BYTES);
        stream.upload(&memory, bytes.clone())?;
        stream.download(&memory)?;
        let what = format!("thread {thread}, round {round}");
        for found in stream.finish()? {
            same_bytes(&what, &found, &bytes)?;
        }
    }
    Ok(())
}

fn map_at_once(subject: &Subject<'_>) -> Verdict {
    if subject.hooks().table().map().is_none() {
        return skipped("the plugin has no group `map`");
    }
    let memory = subject.allocate(MAP_BYTES as u64)?;
    let bytes = pattern(3000, MAP_BYTES);
    memory.write(0, &bytes)?;
    subject.or_skip("map", memory.map().and_then(|view| memory.unmap(view)))?;
    let all_have_one = Barrier::new(THREADS.len());
    at_once(subject, |_, thread| {
        let mut verdict = Ok(());
        for round in 0..MAP_ROUNDS {
            let view = memory.map();
            if round == 0 {
                // A thread that failed comes too: the others wait here. Later rounds meet as they may.
                all_have_one.wait();
            }
            let found = view.and_then(|view| {
                let shown = view.shown();
                memory.unmap(view).and(shown)
            });
            let what = format!("thread {thread}, round {round}");
            let found = found.map_err(Unmet::from);
            verdict = verdict.and(found.and_then(|found| same_bytes(&what, &found, &bytes)));
        }
        verdict
    })?;
    same_bytes("what is there after", &memory.read(0, MAP_BYTES)?, &bytes)
}
