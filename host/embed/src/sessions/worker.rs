//! How a job is worked on: into Python, and the answer out of it.

use std::ffi::{CStr, c_int};

use crate::failure::{Failure, Kind};
use crate::python::gil::{Gil, Object, Raised};
use crate::python::value::{Argument, Value, lossy};
use crate::sessions::host::Host;
use crate::sessions::job::{Answer, Work, stopped};
use crate::sessions::native;

/// The Python half: how namespaces are made and code is run in them.
const SESSIONS: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("sessions.py"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };

/// How namespaces end, which the other half calls.
const NAMESPACE: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("namespace.py"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };

/// The name under which tracebacks would show it, and by which it leaves itself out of them.
const FILE: &CStr = c"<crossdock>";

/// The script thread with Python's half at hand.
#[derive(Debug)]
pub(crate) struct Worker<'gil> {
    host: &'static Host,
    gil: &'gil Gil,
    enter: Object<'gil>,
    perform: Object<'gil>,
    leave: Object<'gil>,
    late: Object<'gil>,
    /// The signal that wakes this thread; 0: none.
    wake: c_int,
    memory_error: Object<'gil>,
    /// Stop functions of a script that trace this thread.
    untrace: [Object<'gil>; 2],
}

impl<'gil> Worker<'gil> {
    /// Loads Python's half. `signals`: to wake this thread, to ask where it is, and for the answer.
    pub(crate) fn new(
        host: &'static Host,
        gil: &'gil Gil,
        signals: (c_int, c_int, c_int),
    ) -> Result<Self, Raised> {
        let names = gil.dictionary()?;
        names.put(c"__name__", &gil.text("_crossdock_sessions")?)?;
        // Imports that C code makes look for it.
        names.put(c"__builtins__", &gil.import(c"builtins")?)?;
        gil.run(NAMESPACE, FILE, &names)?;
        gil.run(SESSIONS, FILE, &names)?;
        let builtins = gil.import(c"builtins")?;
        let interrupt = builtins.attribute(c"KeyboardInterrupt")?;
        // Never given back: threads may still raise it while the process ends.
        host.set_interrupt(interrupt.into_raw());
        let (wake, place, pipe) = signals;
        names.get(c"start")?.call(vec![
            gil.function(&native::STREAM)?,
            gil.function(&native::CALL)?,
            gil.function(&native::WAKE)?,
            gil.function(&native::IGNORED)?,
            gil.function(&native::ENDS)?,
            gil.function(&native::RESTORE)?,
            gil.empty_capsule()?,
            gil.number(wake.into())?,
            gil.number(place.into())?,
            gil.number(pipe.into())?,
        ])?;
        let untrace = names.get(c"untrace")?;
        Ok(Self {
            host,
            gil,
            enter: names.get(c"enter")?,
            perform: names.get(c"perform")?,
            leave: names.get(c"leave")?,
            late: names.get(c"late")?,
            wake,
            memory_error: builtins.attribute(c"MemoryError")?,
            untrace: [untrace.item(0)?, untrace.item(1)?],
        })
    }

    /// Does what a job asks for.
    pub(crate) fn work(&self, work: Work) -> Answer {
        if matches!(work.name, "create" | "free") {
            if self.wake != 0 && work.name == "create" {
                self.host.actions.save(self.wake);
            }
            self.undisturbed(&self.late, None);
            return self.inside(work);
        }
        let session = work.session.cast_signed();
        self.undisturbed(&self.enter, Some(session));
        let answer = self.inside(work);
        self.undisturbed(&self.leave, Some(session));
        answer
    }

    /// Calls a function that raises nothing by itself. What is raised in it comes from a signal handler or a thread
    /// that some script left behind, so the function is called again.
    fn undisturbed(&self, function: &Object<'gil>, session: Option<i64>) {
        /// More than handlers that a timer calls can disturb in a row.
        const ATTEMPTS: usize = 1000;
        for _ in 0..ATTEMPTS {
            let session = session.map(|session| self.gil.number(session)).transpose();
            let done = session.and_then(|session| function.call(session.into_iter().collect()));
            let Err(raised) = done else {
                return;
            };
            self.gil.clear(raised);
            log::warn!(
                target: "crossdock::script",
                "ignored an exception that a signal handler or a thread of a script raised late"
            );
        }
    }

    fn inside(&self, work: Work) -> Answer {
        let (title, may_lack) = (title(&work), is_of_a_name(&work));
        let no_answer = |raised| self.no_answer(raised, &title);
        let arguments = self.arguments(work).map_err(no_answer)?;
        self.host.queue.begin().map_err(stopped)?;
        let done = self.perform.call(arguments);
        let done = done.and_then(|done| Ok((done.item(0)?.to_i64()?, done)));
        let done = done.map_err(no_answer);
        let has_failed = !matches!(done, Ok((0, _)));
        let cause = self.host.queue.end(has_failed);
        self.settle(has_failed);
        let answer = done.and_then(|(kind, done)| {
            let answer = match kind {
                0 => Self::value(&done).map(Ok),
                kind => Self::failure(&done, kind, &title, may_lack).map(Err),
            };
            answer.map_err(no_answer)?
        });
        match (answer, cause) {
            (Err(failure), Some(cause)) => Err(Failure {
                exception: failure.exception,
                traceback: failure.traceback,
                ..stopped(cause)
            }),
            (answer, _) => answer,
        }
    }

    /// Why there is no answer. Forgets the exception.
    fn no_answer(&self, raised: Raised, title: &str) -> Failure {
        let lacks_memory = self.gil.is_of(&raised, &self.memory_error);
        self.gil.clear(raised);
        if lacks_memory {
            return Failure::new(Kind::Exhausted, title).because(
                "there is no host memory left for what goes to the script or comes from it",
                "pass less at a time, or a tensor, which is not copied",
            );
        }
        Failure::new(Kind::Exception, title).because(
            "a signal handler or a thread of a script raised an exception at its end",
            "end the handlers, timers and threads that scripts leave behind, or try again",
        )
    }

    /// From here on no interrupt is sent: one that was not raised yet is raised where it hits nobody.
    /// Functions of the script's that trace are stopped here where an interrupt kept `sessions.py` from it.
    fn settle(&self, has_failed: bool) {
        let untrace = self.untrace.iter().filter(|_| has_failed);
        let late = self.host.take_raised(self.gil).then_some(&self.late);
        for function in untrace.chain(late) {
            self.undisturbed(function, None);
        }
    }

    fn arguments(&self, work: Work) -> Result<Vec<Object<'gil>>, Raised> {
        let session = self.gil.number(work.session.cast_signed())?;
        let mut arguments = vec![session, self.gil.text(work.name)?];
        for argument in work.arguments {
            arguments.push(Argument::into_object(argument, self.gil)?);
        }
        Ok(arguments)
    }

    fn value(done: &Object<'gil>) -> Result<Value, Raised> {
        Value::of(done.item(1)?.to_i64()?, &done.item(2)?)
    }

    /// What a script raised. `may_lack`: it was asked for by a name that may not be there.
    fn failure(
        done: &Object<'gil>,
        kind: i64,
        title: &str,
        may_lack: bool,
    ) -> Result<Failure, Raised> {
        const EXIT: i64 = 2;
        let code = i32::try_from(done.item(1)?.to_i64()?).unwrap_or(1);
        let text = |place| Ok::<_, Raised>(lossy(done.item(place)?.to_bytes()?));
        let (class, message, traceback, place) = (text(2)?, text(3)?, text(4)?, text(5)?);
        let failure = if kind == EXIT {
            Failure::new(Kind::Exit(code), title).because(
                format!("it asked to end with {code}: {class}({message})"),
                "nothing, if that was meant",
            )
        } else {
            let hint = match place.as_str() {
                "" if may_lack && class == "AttributeError" => {
                    "run the script that defines it first, or fix the name".to_owned()
                }
                "" => "see the traceback of the error for where it was raised".to_owned(),
                place => format!(
                    "look at {place}, where it was raised; the traceback of the error has the calls"
                ),
            };
            Failure::new(Kind::Exception, title).because(format!("{class}: {message}"), hint)
        };
        Ok(Failure {
            exception: Some(class),
            traceback: Some(traceback),
            ..failure
        })
    }
}

/// Whether it is about a name that no script may have defined.
fn is_of_a_name(work: &Work) -> bool {
    matches!(work.name, "get" | "get_tensor" | "call" | "call_only")
}

/// What a caller was about to do.
fn title(work: &Work) -> String {
    let named = match work.arguments.first() {
        Some(Argument::One(Value::Text(name))) => name.as_str(),
        _ => "",
    };
    match work.name {
        "create" => "create a session".to_owned(),
        "free" => "free a session".to_owned(),
        "set" => format!("set `{named}` of a script"),
        "define" => format!("define `{named}` for scripts"),
        "reload" => "load a script again".to_owned(),
        "get" | "get_tensor" => format!("get `{named}` of a script"),
        "call" | "call_only" => format!("call `{named}` of a script"),
        _ => "run a script".to_owned(),
    }
}
