//! What the simulator says of its links, and lines that tell it.
#![expect(unsafe_code, reason = "asks the simulator, which it finds by name")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::time::{Duration, Instant};

use libloading::Library;

use crate::{BOTH, Outcome, RUNS};

/// The simulated driver.
pub(crate) struct Simulator(Library);

/// What became of one run.
pub(crate) struct Run {
    /// Of the time from the first byte to the last one that the slower link was busy.
    pub(crate) share: f64,
    /// Of the two slowest links together.
    pub(crate) two: f64,
    /// Of all links together.
    pub(crate) together: f64,
    pub(crate) took: Duration,
    /// From the first byte to the last one.
    pub(crate) span: Duration,
}

impl Simulator {
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: a driver's initialisers touch nothing of ours.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: only whether it is there is asked.
        unsafe { library.get::<unsafe extern "C" fn()>("crossdock_sim_version") }.ok()?;
        Some(Self(library))
    }

    /// The lines that a function tells, each an object of JSON.
    fn lines(&self, function: &str) -> Outcome<Vec<serde_json::Value>> {
        let mut text = vec![0_u8; 1 << 16];
        type Tell = unsafe extern "C" fn(*mut c_char, usize) -> i64;
        // SAFETY: the simulator has the function, with this type.
        let tell = unsafe { self.0.get::<Tell>(function) }?;
        // SAFETY: the text has so many bytes.
        let needed = unsafe { tell(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(usize::try_from(needed)?.saturating_sub(1));
        let lines = std::str::from_utf8(&text)?.lines();
        Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Bytes of the host's memory that a driver has pinned or registered. What both have counts once.
    pub(crate) fn pinned_bytes(&self) -> Outcome<u64> {
        let left = self.lines("crossdock_sim_list_leaks")?;
        let host = left.iter().filter(|left| {
            let call = left
                .pointer("/first/function")
                .and_then(|name| name.as_str());
            call.is_some_and(|name| name.contains("Host"))
        });
        let number =
            |left: &serde_json::Value, key: &str| left.get(key).and_then(|number| number.as_u64());
        let ranges =
            host.filter_map(|left| Some((number(left, "address")?, number(left, "bytes")?)));
        Ok(ranges.collect::<BTreeMap<_, _>>().into_values().sum())
    }

    /// How each link was used since this was asked last: busy nanoseconds, first and last one.
    fn links(&self) -> Outcome<Vec<[f64; 3]>> {
        let read = |link: &serde_json::Value| {
            let number = |key: &str| link.get(key).and_then(serde_json::Value::as_f64);
            ["busy_ns", "first_ns", "last_ns"].map(|key| number(key).unwrap_or(0.0))
        };
        let links = self.lines("crossdock_sim_take_links")?;
        Ok(links.iter().map(read).collect())
    }

    /// Times work, and looks at the links that it used.
    pub(crate) fn run(&self, work: impl FnOnce() -> Outcome) -> Outcome<Run> {
        self.links()?;
        let begun = Instant::now();
        work()?;
        let took = begun.elapsed();
        let links = self.links()?;
        let [first, last] = [1, 2].map(|at| links.iter().filter_map(move |link| link.get(at)));
        let first = first.copied().fold(f64::INFINITY, f64::min);
        let last = last.copied().fold(0.0, f64::max);
        let mut busy: Vec<f64> = links.iter().map(|[busy, ..]| *busy).collect();
        busy.sort_by(|one, other| other.total_cmp(one));
        let share = |links: usize| busy.iter().take(links).sum::<f64>() / (last - first);
        Ok(Run {
            share: share(1),
            two: share(2),
            together: share(busy.len()),
            took,
            span: Duration::from_secs_f64((last - first) / 1e9),
        })
    }

    /// The best of some runs, after one that touches new memory.
    pub(crate) fn best(&self, mut work: impl FnMut() -> Outcome) -> Outcome<Run> {
        work()?;
        let mut best = self.run(&mut work)?;
        for _ in 1..RUNS {
            let run = self.run(&mut work)?;
            best = Run {
                share: best.share.max(run.share),
                two: best.two.max(run.two),
                together: best.together.max(run.together),
                took: best.took.min(run.took),
                span: best.span.min(run.span),
            };
        }
        Ok(best)
    }
}

/// The share of the slower link, in copies of so many bytes.
pub(crate) fn row(what: &str, bytes: i64, run: &Run, asked: f64) {
    let speed = bytes as f64 / run.took.as_secs_f64() / 1e9;
    println!(
        "row\t{what}\t{speed:.2} GB/s\tthe slower link's time\t{:.3}\t>= {asked}",
        run.share
    );
}

/// So many times what one way at a time would move.
pub(crate) fn ways(what: &str, bytes: i64, run: &Run, ratio: f64) {
    let speed = 2.0 * bytes as f64 / run.took.as_secs_f64() / 1e9;
    println!("row\t{what}\t{speed:.2} GB/s\tone way\t{ratio:.2}\t>= {BOTH}");
}
