//! Sessions: namespaces in which a host runs scripts, and through which it talks to them.

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::{Failure, Kind};
use crate::process;
use crate::python::gil::without_lock;
use crate::python::tensor::Managed;
use crate::python::value::{Argument, Value};
use crate::sessions::host::Host;
use crate::sessions::host_function::{Function, Output};
use crate::sessions::job::{Answer, Limits, Outcome, State, Turn, Work};

/// How a session is made.
#[derive(Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it from defaults")]
pub struct Settings {
    /// Its module is `__xd_NAME__`; none: its number. The first of a Python that runs for the host
    /// alone is `__main__`, whatever its name.
    pub name: Option<String>,
    /// `sys.argv`; where it is empty, its first word is the script that is run.
    pub arguments: Vec<String>,
    /// Where `sys.stdout` goes; none: to the process's own.
    pub stdout: bool,
    /// Where `sys.stderr` goes; none: to the process's own.
    pub stderr: bool,
    /// What captured streams write to.
    pub output: Option<Output>,
    /// How long each script may take, unless it is said with it.
    pub limits: Limits,
    /// While another script runs, a call fails as [`Kind::Busy`] and does not wait for its turn.
    pub never_waits: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A namespace that is a real module. Its scripts run one at a time, and one at a time with those of
/// other sessions, on the host's script thread.
///
/// Any thread may call it; one that a script started is refused as [`Kind::Busy`] while a script runs,
/// which may wait for it. A caller that holds the interpreter's lock lets it go while it waits.
/// Dropping it forgets the namespace; what others still hold of it stays.
#[derive(Debug)]
pub struct Session {
    host: &'static Host,
    number: u64,
    limits: Limits,
    never_waits: bool,
    /// The exit of the process is noticed before what its owner registered for the exit.
    watches_exit: AtomicBool,
    is_closed: AtomicBool,
}

/// How long what a session leaves may take to end, where its scripts may take for ever.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl Session {
    /// Makes a session.
    ///
    /// # Errors
    /// [`Kind::Exception`] where its name is in use; [`Kind::Closed`], [`Kind::Forked`] and
    /// [`Kind::Stuck`] as every call.
    pub fn open(host: &'static Host, settings: Settings) -> Result<Self, Failure> {
        process::refuse_forks()?;
        let session = Self {
            host,
            number: host.number(),
            limits: settings.limits,
            never_waits: settings.never_waits,
            watches_exit: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        };
        if let Some(output) = settings.output {
            host.enter_output(session.number, output);
        }
        let name = settings.name.unwrap_or_else(|| session.number.to_string());
        let words = settings.arguments.into_iter().map(Value::Text).collect();
        let arguments = vec![
            Argument::One(Value::Text(name)),
            Argument::Several(words),
            Argument::One(Value::Bool(settings.stdout)),
            Argument::One(Value::Bool(settings.stderr)),
        ];
        session.ask("create", arguments, None)?;
        Ok(session)
    }

    /// Runs a program's text in the namespace. `name` is the file that tracebacks show, with the lines of this text
    /// even if several texts have the name.
    ///
    /// # Errors
    /// How the script ended, where it did not just end: [`Kind::Exception`], [`Kind::Exit`] also
    /// with 0, [`Kind::Interrupted`], [`Kind::Timeout`], [`Kind::Stuck`]. What kept it from
    /// running: [`Kind::Busy`], [`Kind::Closed`], [`Kind::Forked`].
    pub fn run_text(&self, text: &str, name: &str, limits: Option<Limits>) -> Result<(), Failure> {
        self.ask("run_text", vec![text.into(), name.into()], limits)?;
        Ok(())
    }

    /// Runs a file in the namespace, with its folder as the first place for modules.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub fn run_file(&self, path: &Path, limits: Option<Limits>) -> Result<(), Failure> {
        let path = path.to_str().ok_or_else(|| {
            let what = format!("run the file `{}`", path.display());
            Failure::new(Kind::Invalid, what).because("its name is not UTF-8", "rename it")
        })?;
        self.ask("run_file", vec![path.into()], limits)?;
        Ok(())
    }

    /// Runs a module in the namespace, as `python -m` does.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub fn run_module(&self, name: &str, limits: Option<Limits>) -> Result<(), Failure> {
        self.ask("run_module", vec![name.into()], limits)?;
        Ok(())
    }

    /// Runs the file or module that ran last once more, as it is now: modules that lie beside it are loaded
    /// anew, and so is what it defines; variables that the host set stay. What fails leaves everything as
    /// it was.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub fn reload(&self, limits: Option<Limits>) -> Result<(), Failure> {
        self.ask("reload", Vec::new(), limits)?;
        Ok(())
    }

    /// Sets a variable to a function that scripts can call until the session is dropped, or the name is
    /// defined anew. The function is dropped when neither a call nor the session needs it any more, also
    /// where this fails.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub fn define(&self, name: &str, function: Function) -> Result<(), Failure> {
        process::refuse_forks()?;
        let number = self.host.enter_function(self.number, function);
        let argument = Value::Int(number.cast_signed());
        let defined = self.ask("define", vec![name.into(), argument.into()], None);
        let gone = match &defined {
            Ok(Value::Int(before)) => Some(before.cast_unsigned()),
            Ok(_) => None,
            Err(_) => Some(number),
        };
        if let Some(gone) = gone {
            without_lock(self.host.functions(), || self.host.remove_function(gone));
        }
        defined.map(drop)
    }

    /// Sets a variable. A tensor is given away, whatever the result.
    ///
    /// # Errors
    /// As [`Self::run_text`]: a tensor needs the package `crossdock`, which is imported.
    pub fn set(&self, name: &str, value: Value) -> Result<(), Failure> {
        self.ask("set", vec![name.into(), value.into()], None)?;
        Ok(())
    }

    /// Reads a variable, an attribute of one (`model.bias`), or one of a module (`math:pi`).
    ///
    /// # Errors
    /// [`Kind::Exception`] where there is none, or its type is none of [`Value`]'s.
    pub fn get(&self, name: &str) -> Answer {
        self.ask("get", vec![name.into()], None)
    }

    /// Reads a tensor: anything that `crossdock.asarray` takes, moved to `device` if one is named.
    ///
    /// # Errors
    /// [`Kind::Exception`] where there is none, or it is none.
    pub fn get_tensor(&self, name: &str, device: Option<&str>) -> Result<Managed, Failure> {
        let device = device.map_or(Value::None, |device| Value::Text(device.to_owned()));
        match self.ask("get_tensor", vec![name.into(), device.into()], None)? {
            Value::Tensor(tensor) => Ok(tensor),
            _ => {
                let why = format!("`{name}` came as something else");
                Err(Failure::new(Kind::Invalid, "get a tensor")
                    .because(why, "report this as a bug"))
            }
        }
    }

    /// Calls what [`Self::get`] would find. Tensors are given away, whatever the result.
    ///
    /// # Errors
    /// As [`Self::run_text`], and [`Kind::Invalid`] for a name with a NUL.
    pub fn call(
        &self,
        name: &str,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
        limits: Option<Limits>,
    ) -> Answer {
        self.call_by("call", name, arguments, named, limits)
    }

    /// The same where nobody wants the answer, which may be of any type.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_only(
        &self,
        name: &str,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
        limits: Option<Limits>,
    ) -> Result<(), Failure> {
        self.call_by("call_only", name, arguments, named, limits)
            .map(drop)
    }

    fn call_by(
        &self,
        work: &'static str,
        name: &str,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
        limits: Option<Limits>,
    ) -> Answer {
        let named = named
            .into_iter()
            .map(|(name, value)| Ok((CString::new(name)?, value)));
        let named: Result<Vec<_>, std::ffi::NulError> = named.collect();
        let named = named.map_err(|error| {
            Failure::new(Kind::Invalid, format!("call `{name}` of a script"))
                .because(error.to_string(), "name arguments without NUL")
        })?;
        let arguments = vec![
            name.into(),
            Argument::Several(arguments),
            Argument::Named(named),
        ];
        self.ask(work, arguments, limits)
    }

    /// Stops what the session runs, by a `KeyboardInterrupt`, and forgets what waits for its turn.
    ///
    /// Waits a little for the script to notice, and never for the interpreter's lock. An interrupt
    /// that comes too late hits nobody else.
    ///
    /// # Errors
    /// [`Kind::Forked`].
    pub fn interrupt(&self) -> Result<Outcome, Failure> {
        process::refuse_forks()?;
        let may_wait = !self.host.is_inside_script();
        let interrupt = || self.host.queue.interrupt(self.number, may_wait);
        Ok(without_lock(self.host.functions(), interrupt))
    }

    /// What the session does now. Never waits.
    ///
    /// # Errors
    /// [`Kind::Forked`].
    pub fn state(&self) -> Result<State, Failure> {
        process::refuse_forks()?;
        Ok(self.host.queue.state(self.number))
    }

    /// Forgets the namespace, as dropping the session does, while other threads may still be in its calls. Waits
    /// for calls of its functions on other threads.
    pub fn close(&self) {
        if process::is_forked() || self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let work = Work {
            session: self.number,
            name: "free",
            arguments: Vec::new(),
        };
        let limits = Limits {
            timeout: Some(self.limits.timeout.unwrap_or(LAST_WAIT)),
            ..self.limits
        };
        without_lock(self.host.functions(), || {
            self.host.remove_functions(self.number);
            // A closed queue has forgotten all namespaces.
            let _closed = self.host.queue.post(work, Some(limits), Turn::Any);
        });
    }

    fn ask(&self, name: &'static str, arguments: Vec<Argument>, limits: Option<Limits>) -> Answer {
        process::refuse_forks()?;
        // Who makes a session registers its end behind that.
        if name != "create" && !self.watches_exit.swap(true, Ordering::Relaxed) {
            process::watch_exit();
        }
        self.host.refuse_inside_script()?;
        let work = Work {
            session: self.number,
            name,
            arguments,
        };
        let queue = &self.host.queue;
        let turn = match (self.host.is_started_by_script(), self.never_waits) {
            (true, _) => Turn::OfScript,
            (false, true) => Turn::Now,
            (false, false) => Turn::Any,
        };
        without_lock(self.host.functions(), || {
            let ticket = queue.post(work, None, turn)?;
            let limits = limits.unwrap_or(self.limits);
            let answer = queue.answer(ticket, limits);
            answer.map_err(|failure| within(failure, limits))
        })
    }
}

/// The failure with the limit that was passed.
fn within(mut failure: Failure, limits: Limits) -> Failure {
    if let (Kind::Timeout, Some(limit), Some(advice)) =
        (failure.kind, limits.timeout, &mut failure.advice)
    {
        advice.why = match limit.as_nanos() {
            // What is left of a deadline that has passed.
            0 | 1 => "its time was over before it began".to_owned(),
            _ => format!("it took longer than the {limit:?} that it may"),
        };
    }
    failure
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
