//! The process's runtime: the one that a host, its scripts and their extensions all see.
//!
//! Its handles hold it and nothing else does: it closes when the last one is given back, and the
//! next call opens another. A child of a fork does not get its parent's.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use crossdock::{Error, Runtime};

/// The holder of the process's runtime. Swapped without a lock, because opening a runtime calls
/// plugins, and freeing one may.
static DEFAULT: ArcSwapOption<Kept> = ArcSwapOption::const_empty();

struct Kept {
    process: u32,
    runtime: Weak<Runtime>,
}

impl Kept {
    fn of(runtime: &Arc<Runtime>) -> Arc<Self> {
        Arc::new(Self {
            process: std::process::id(),
            runtime: Arc::downgrade(runtime),
        })
    }

    fn live(&self) -> Option<Arc<Runtime>> {
        (self.process == std::process::id()).then(|| self.runtime.upgrade())?
    }
}

/// The process's runtime, opened with the standard search where there is none.
pub(crate) fn get_or_open() -> Result<Arc<Runtime>, Error> {
    if let Some(live) = live() {
        return Ok(live);
    }
    let opened = Arc::new(Runtime::builder().open()?);
    // Where another thread was faster, its runtime is taken, and this one closes.
    Ok(offer(&opened).unwrap_or(opened))
}

/// Makes `runtime` the process's; where another one is, gives that.
pub(crate) fn offer(runtime: &Arc<Runtime>) -> Option<Arc<Runtime>> {
    let mine = Kept::of(runtime);
    loop {
        let before = DEFAULT.load();
        if let Some(other) = before.as_ref().and_then(|kept| kept.live()) {
            return (!Arc::ptr_eq(&other, runtime)).then_some(other);
        }
        let seen = DEFAULT.compare_and_swap(&before, Some(Arc::clone(&mine)));
        if same(seen.as_ref(), before.as_ref()) {
            return None;
        }
    }
}

fn live() -> Option<Arc<Runtime>> {
    DEFAULT.load().as_ref().and_then(|kept| kept.live())
}

fn same(one: Option<&Arc<Kept>>, other: Option<&Arc<Kept>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
