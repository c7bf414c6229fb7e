//! `xd_session`: a namespace in which scripts run.
#![expect(
    unsafe_code,
    reason = "exports functions by name, and reads arrays of callers"
)]

use std::sync::Arc;
use std::time::Duration;

use crossdock::Runtime;
use crossdock_api::{
    Failure, Out, Owned, PlaceText, Ref, SessionFlags, SessionStateKind, StopOutcome, Text,
    XdArguments, XdDevice, XdRunOptions, XdScript, XdSession, XdSessionOptions, XdSessionState,
    XdTensor, XdValue,
};
use crossdock_embed::{Limits, Outcome, Session, Settings, State, Value};
use crossdock_sdk::deadline;
use crossdock_sdk::fence::fence;

use crate::crossing::boundary::{fence_call, fence_free, fence_into, optional};
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{Handle, borrow, borrow_tensor, give, look, shared};
use crate::functions::scripts::session_output;
use crate::functions::scripts::value;

impl Handle for XdSession {
    type Object = SessionObject;
    const NAME: &'static str = "session";
}

/// A session with the runtime whose tensors it shares.
pub(crate) struct SessionObject {
    pub(super) session: Session,
    pub(super) runtime: Arc<Runtime>,
    limits: Limits,
}

/// A share of the session: a function that a script calls may free it during the call.
pub(super) fn hold(session: Ref<'_, XdSession>) -> Result<Arc<SessionObject>, Refusal> {
    shared(session).ok_or_else(|| Refusal::no_handle(XdSession::NAME))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_session_create(
    script: Ref<'_, XdScript>,
    options: Ref<'_, XdSessionOptions<'_>>,
    out: Out<'_, Owned<XdSession>>,
) -> Failure {
    fence_into("xd_session_create", out, || {
        let script = borrow(script)?;
        let settings = match input::options(options)? {
            // SAFETY: the header asks for live arrays.
            Some(options) => unsafe { settings(&options) }?,
            None => Settings::default(),
        };
        let limits = settings.limits;
        Ok(give(SessionObject {
            session: Session::open(script.host, settings)?,
            runtime: Arc::clone(&script.runtime),
            limits,
        }))
    })
}

/// # Safety
/// - The arrays of `options` are live.
unsafe fn settings(options: &XdSessionOptions<'_>) -> Result<Settings, Refusal> {
    input::check_flags(options.flags.0, SessionFlags::NEVER_WAITS.0)?;
    let (first, count) = (options.arguments, options.argument_count);
    // SAFETY: the caller's promise.
    let words = unsafe { input::array(first, count, "arguments") }?;
    let words = words
        .iter()
        .map(|word| Ok(input::text(*word, "an argument")?.to_owned()));
    let name = options
        .name
        .to_c_str()
        .map(|_| input::text(options.name, "a name"));
    Ok(Settings {
        name: name.transpose()?.map(str::to_owned),
        arguments: words.collect::<Result<_, Refusal>>()?,
        stdout: options.on_stdout.is_some(),
        stderr: options.on_stderr.is_some(),
        output: session_output::output(options),
        limits: limits(Limits::default(), options.timeout_ns, options.grace_ns),
        never_waits: options.flags == SessionFlags::NEVER_WAITS,
    })
}

/// The default where a number is 0.
fn limits(default: Limits, timeout_ns: u64, grace_ns: u64) -> Limits {
    Limits {
        timeout: match timeout_ns {
            0 => default.timeout,
            limit => deadline::limit(limit),
        },
        grace: match grace_ns {
            0 => default.grace,
            grace => Duration::from_nanos(grace),
        },
    }
}

impl SessionObject {
    fn limits(&self, options: Ref<'_, XdRunOptions>) -> Result<Option<Limits>, Refusal> {
        let options = input::options(options)?;
        let limits =
            |options: XdRunOptions| limits(self.limits, options.timeout_ns, options.grace_ns);
        Ok(options.map(limits))
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_run_text(
    session: Ref<'_, XdSession>,
    program: Text<'_>,
    name: Text<'_>,
    options: Ref<'_, XdRunOptions>,
) -> Failure {
    fence_call("xd_session_run_text", || {
        let session = hold(session)?;
        let program = input::text(program, "the program")?;
        let name = match name.to_c_str() {
            Some(_) => input::text(name, "the name")?,
            None => "<script>",
        };
        let limits = session.limits(options)?;
        Ok(session.session.run_text(program, name, limits)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_run_file(
    session: Ref<'_, XdSession>,
    path: Text<'_>,
    options: Ref<'_, XdRunOptions>,
) -> Failure {
    fence_call("xd_session_run_file", || {
        let session = hold(session)?;
        let path = input::text(path, "the path")?;
        Ok(session
            .session
            .run_file(path.as_ref(), session.limits(options)?)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_run_module(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    options: Ref<'_, XdRunOptions>,
) -> Failure {
    fence_call("xd_session_run_module", || {
        let session = hold(session)?;
        let name = input::text(name, "the module's name")?;
        Ok(session.session.run_module(name, session.limits(options)?)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_reload(
    session: Ref<'_, XdSession>,
    options: Ref<'_, XdRunOptions>,
) -> Failure {
    fence_call("xd_session_reload", || {
        let session = hold(session)?;
        Ok(session.session.reload(session.limits(options)?)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_session_set(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    value: Ref<'_, XdValue>,
) -> Failure {
    fence_call("xd_session_set", || {
        let session = hold(session)?;
        let name = input::text(name, "the name")?;
        // SAFETY: the header asks for a live value with live content.
        Ok(session.session.set(name, unsafe { value::lent(value) }?)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_get(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    out: Out<'_, XdValue>,
) -> Failure {
    fence_into("xd_session_get", out, || {
        let session = hold(session)?;
        let found = session.session.get(input::text(name, "the name")?)?;
        value::given(&session.runtime, found)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_set_tensor(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    tensor: Ref<'_, XdTensor>,
) -> Failure {
    fence_call("xd_session_set_tensor", || {
        let session = hold(session)?;
        let name = input::text(name, "the name")?;
        let tensor = value::exported(&*borrow_tensor(tensor)?)?;
        Ok(session.session.set(name, Value::Tensor(tensor))?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_get_tensor(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    device: Ref<'_, XdDevice>,
    out: Out<'_, Owned<XdTensor>>,
) -> Failure {
    fence_into("xd_session_get_tensor", out, || {
        let session = hold(session)?;
        let name = input::text(name, "the name")?;
        let device = look(device).map(|device| device.id().to_string());
        let tensor = session.session.get_tensor(name, device.as_deref())?;
        value::imported(&session.runtime, tensor)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_session_call(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    arguments: Ref<'_, XdArguments<'_>>,
    options: Ref<'_, XdRunOptions>,
    out: Out<'_, XdValue>,
) -> Failure {
    fence_call("xd_session_call", || {
        let session = hold(session)?;
        let name = input::text(name, "the name")?;
        let limits = session.limits(options)?;
        let (by_place, by_name) = match input::options(arguments)? {
            // SAFETY: the header asks for live arrays of live values.
            Some(arguments) => unsafe { call_arguments(&arguments) }?,
            None => Default::default(),
        };
        let place = optional(out);
        if !place.is_wanted() {
            return Ok(session.session.call_only(name, by_place, by_name, limits)?);
        }
        let answer = session.session.call(name, by_place, by_name, limits)?;
        place.put(value::given(&session.runtime, answer)?);
        Ok(())
    })
}

type CallArguments = (Vec<Value>, Vec<(String, Value)>);

/// # Safety
/// - The arrays of `arguments` are live, and so is what their values point to.
unsafe fn call_arguments(arguments: &XdArguments<'_>) -> Result<CallArguments, Refusal> {
    let (first, count) = (arguments.values, arguments.count);
    // SAFETY: the caller's promise.
    let by_place = unsafe { input::array(first, count, "values") }?;
    let count = arguments.named_count;
    // SAFETY: the caller's promise.
    let names = unsafe { input::array(arguments.names, count, "names") }?;
    // SAFETY: the caller's promise.
    let named = unsafe { input::array(arguments.named_values, count, "named values") }?;
    // SAFETY: the caller's promise.
    let taken = |value| unsafe { value::taken(value) };
    let by_place = by_place.iter().map(taken).collect::<Result<_, _>>()?;
    let pairs = names.iter().zip(named).map(|(name, value)| {
        let name = input::text(*name, "an argument's name")?;
        Ok((name.to_owned(), taken(value)?))
    });
    Ok((by_place, pairs.collect::<Result<_, Refusal>>()?))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_interrupt(
    session: Ref<'_, XdSession>,
    out: Out<'_, StopOutcome>,
) -> Failure {
    fence_call("xd_session_interrupt", || {
        let outcome = match hold(session)?.session.interrupt()? {
            Outcome::Delivered => StopOutcome::DELIVERED,
            Outcome::Idle => StopOutcome::IDLE,
            _ => StopOutcome::PENDING,
        };
        optional(out).put(outcome);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_describe(
    session: Ref<'_, XdSession>,
    out: Out<'_, XdSessionState>,
) -> Failure {
    fence_into("xd_session_describe", out, || {
        let state = hold(session)?.session.state()?;
        let (kind, running, place) = match &state {
            State::Waiting => (SessionStateKind::WAITING, Duration::ZERO, ""),
            State::Running(since) => (SessionStateKind::RUNNING, *since, ""),
            State::Stopping(since) => (SessionStateKind::STOPPING, *since, ""),
            State::Stuck(since, place) => (SessionStateKind::STUCK, *since, place.as_str()),
            _ => (SessionStateKind::IDLE, Duration::ZERO, ""),
        };
        Ok(XdSessionState {
            kind,
            reserved: 0,
            running_ns: u64::try_from(running.as_nanos()).unwrap_or(u64::MAX),
            place: PlaceText::new(place),
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn xd_session_free(session: Owned<XdSession>) {
    // A call that is under way holds the object.
    fence(|| {
        if let Some(object) = look(session.lend()) {
            object.session.close();
        }
    })
    .unwrap_or_default();
    fence_free(session);
}
