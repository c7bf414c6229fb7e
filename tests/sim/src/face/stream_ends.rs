//! Streams that end: those that a program destroys, and the default streams of a thread, which end with it.

use crossdock_sim_engine::{Engine, Site};

use super::codes::Code;
use super::entry::Answer;
use super::objects::{NON_BLOCKING, Objects, StreamOf, objects, take_own_streams};
use crate::fence::fence;
use crate::process::Process;

thread_local! {
    /// There once the thread has a default stream of its own.
    pub(crate) static END: EndOfThread = const { EndOfThread };
}

/// Ends the default streams of a thread with it.
#[derive(Debug)]
pub(crate) struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let _caught = fence(|| {
            let Ok(process) = Process::get() else { return };
            if process.is_forked() || Process::is_exiting() {
                return;
            }
            let site = Site::new("the end of a thread");
            let mut objects = objects();
            for key in take_own_streams().into_values() {
                if let Some(gone) = objects.streams.remove(&key) {
                    // Nobody is left to be told.
                    let _done = objects.end_stream(&process.engine, site, key, &gone);
                }
            }
        });
    }
}

impl Objects {
    /// Ends a stream that was taken out. What is on it goes on, and the legacy default stream still comes behind it.
    pub(crate) fn end_stream(
        &mut self,
        engine: &Engine,
        site: Site,
        key: u64,
        gone: &StreamOf,
    ) -> Answer {
        self.captures.forget_stream(key);
        let noted = self.note_end(engine, gone);
        engine.destroy_stream(site, gone.engine)?;
        noted
    }

    /// Notes how far a blocking stream came.
    fn note_end(&mut self, engine: &Engine, gone: &StreamOf) -> Answer {
        let is_blocking = !gone.is_legacy && gone.flags & NON_BLOCKING == 0;
        if !is_blocking || engine.submitted(gone.engine) == 0 {
            return Ok(());
        }
        let Some(context) = self.contexts.get_mut(&gone.context) else {
            return Ok(());
        };
        // What the host knows to be over is before all that it submits.
        let (known, open) = std::mem::take(&mut context.ends)
            .into_iter()
            .partition::<Vec<_>, _>(|end| engine.is_known_to_host(*end));
        context.ends = open;
        let site = Site::new("the end of a stream");
        for end in known {
            engine.destroy_event(site, end)?;
        }
        let event = engine.create_event(site, context.device)?;
        context.ends.push(event);
        Ok(engine.record(site, event, gone.engine)?)
    }

    /// Lets the legacy default stream of a context wait for the blocking ones that are gone.
    pub(crate) fn come_behind_ends(&mut self, engine: &Engine, key: u64, context: u64) -> Answer {
        let ends = std::mem::take(&mut self.context(context)?.ends);
        let stream = self.streams.get(&key).ok_or(Code::INVALID_HANDLE)?.engine;
        let site = Site::new("the legacy default stream");
        for end in ends {
            engine.wait(site, stream, end)?;
            engine.destroy_event(site, end)?;
        }
        Ok(())
    }
}
