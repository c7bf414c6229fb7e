//! The calls of a program as Python makes them, in this process: the driver in `calls.py` makes each
//! call, and this side holds streams and looks into memory, which Python cannot.
#![expect(unsafe_code, reason = "calls what a program in C calls")]

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, OnceLock};

use crossdock::{Event, Stream, Tensor};
use crossdock_api::{
    Out, Owned, Ref, Text, ValueKind, XdArguments, XdScript, XdScriptOptions, XdSession, XdTensor,
    XdValue,
};
use crossdock_capi::api;
use crossdock_sdk::abi::{Address, AddressForm, MemoryKind, Status};
use crossdock_sdk::dlpack::{Dtype, Layout};
use serde::Deserialize;
use serde_json::json;

use crate::caller::{Caller, Failed, Failure, HostEvent, HostEvents, Outcome, Seen, Stop, peek};
use crate::foreign::Lent;
use crate::handles::{Handle, Managed, Object, Table, check, made};
use crate::model::{View, content};
use crate::program::{Call, Op, bytes_of, pattern_of};
use crate::world::World;

impl Object for XdScript {
    fn free(handle: Owned<Self>) {
        (api().script_free)(handle);
    }
}

impl Object for XdSession {
    fn free(handle: Owned<Self>) {
        (api().session_free)(handle);
    }
}

/// The driver, and the interpreter in which it runs: one a process.
#[derive(Debug)]
pub(crate) struct Python {
    session: Handle<XdSession>,
    _script: Handle<XdScript>,
}

static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();

impl Python {
    /// Starts Python over a runtime, with its devices at these places.
    pub(crate) fn open(table: &Table, places: &[usize]) -> Result<&'static Self, String> {
        let python =
            PYTHON.get_or_init(|| Self::start(table, places).map_err(|stop| stop.into_text()));
        python.as_ref().map_err(Clone::clone)
    }

    /// That of this process, once it was started.
    pub(crate) fn opened() -> Option<&'static Self> {
        PYTHON.get()?.as_ref().ok()
    }

    fn start(table: &Table, places: &[usize]) -> Result<Self, Stop> {
        let python = std::env::var_os("CROSSDOCK_TEST_PYTHON").unwrap_or_default();
        let python = CString::new(python.into_encoded_bytes()).unwrap();
        let chosen = if python.is_empty() {
            Text::NULL
        } else {
            Text::new(&python)
        };
        let options = XdScriptOptions {
            struct_size: XdScriptOptions::SIZE,
            python: chosen,
        };
        let runtime = table.runtime.lend();
        let script = made(|out| (api().script_open)(runtime, (&options).into(), out))?;
        // SAFETY: no options, so no array.
        let session = made(|out| unsafe { (api().session_create)(script.lend(), Ref::NULL, out) })?;
        const DRIVER: &CStr =
            match CStr::from_bytes_with_nul(concat!(include_str!("calls.py"), "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => c"",
            };
        let (program, name) = (Text::new(DRIVER), Text::new(c"calls.py"));
        check((api().session_run_text)(
            session.lend(),
            program,
            name,
            Ref::NULL,
        ))?;
        let python = Self {
            session,
            _script: script,
        };
        python.call(c"begin", &json!(places).to_string())?;
        Ok(python)
    }

    /// Calls a function of the driver with a text; the answer is one, or nothing.
    fn call(&self, function: &CStr, text: &str) -> Result<String, Stop> {
        let value = XdValue {
            kind: ValueKind::TEXT,
            data: text.as_ptr().cast(),
            size: text.len() as u64,
            ..XdValue::NONE
        };
        let arguments = XdArguments {
            struct_size: XdArguments::SIZE,
            values: &raw const value,
            count: u64::from(!text.is_empty()),
            names: std::ptr::null(),
            named_values: std::ptr::null(),
            named_count: 0,
        };
        let mut answer = XdValue::NONE;
        let (session, name) = (self.session.lend(), Text::new(function));
        let out = Out::from(&mut answer);
        // SAFETY: live arrays of live values.
        check(unsafe { (api().session_call)(session, name, (&arguments).into(), Ref::NULL, out) })?;
        if answer.data.is_null() {
            return Ok(String::new());
        }
        // SAFETY: as many bytes as the answer says.
        let bytes = unsafe { std::slice::from_raw_parts(answer.data.cast(), answer.size as usize) };
        let text = String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: an answer, given back once.
        unsafe { (api().value_clear)(&raw mut answer) };
        Ok(text)
    }

    /// The functions with a stream that the package lists, and that were not called.
    pub(crate) fn uncovered(&self) -> Result<Vec<String>, Stop> {
        Ok(serde_json::from_str(&self.call(c"uncovered", "")?).unwrap())
    }
}

/// What the driver answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Skipped,
    Done,
    Bytes(String),
    Made {
        alias: bool,
        read_only: bool,
        strides: Vec<i64>,
    },
    /// Device, address, bytes behind it, and how many.
    Seen(usize, u64, u64, u64),
    /// Device, and the stream's native handle.
    Handle(usize, u64),
    Idle(bool),
    Failed(String, i64, String),
}

/// The places of one program, most of which the driver keeps.
#[derive(Debug)]
pub(crate) struct InPython {
    python: &'static Python,
    streams: Vec<usize>,
    host_events: HostEvents,
    lent: Vec<Lent>,
    /// How the devices' memory is named.
    forms: Vec<(AddressForm, MemoryKind)>,
    table: Arc<Table>,
    world: Arc<World>,
}

impl Caller for InPython {
    fn perform(&mut self, op: &Op, of: Option<&View>) -> Outcome {
        self.call(&op.call, of).unwrap_or_else(Outcome::from)
    }

    fn host_events(&self) -> HostEvents {
        Arc::clone(&self.host_events)
    }

    fn streams(&self) -> Vec<usize> {
        self.streams.clone()
    }

    fn clear(&mut self) {
        self.host_events.lock().unwrap().clear();
        // A driver that cannot clear leaves something, which is seen.
        drop(self.python.call(c"clear", ""));
    }

    fn lent(&self) -> &[Lent] {
        &self.lent
    }
}

impl InPython {
    pub(crate) fn new(world: Arc<World>, table: Arc<Table>, python: &'static Python) -> Self {
        let layout = Layout::compact(Dtype::UINT8, &[1]).unwrap();
        let form = |device| {
            let tensor = Tensor::from_bytes(device, &layout, &[0]).unwrap();
            (tensor.address().form, tensor.memory_kind())
        };
        Self {
            python,
            streams: Vec::new(),
            host_events: Arc::new(Mutex::default()),
            lent: Vec::new(),
            forms: world.devices[0].iter().map(form).collect(),
            table,
            world,
        }
    }

    fn call(&mut self, call: &Call, of: Option<&View>) -> Result<Outcome, Stop> {
        match call {
            Call::Make { .. } | Call::Foreign { .. } => self.lend(call)?,
            Call::Open { e } => {
                let host_event = self.host_events.lock().unwrap().remove(e);
                let (host_event, status) = host_event.ok_or(Stop::Empty)?;
                host_event.complete(status).map_err(Stop::Failed)?;
                return Ok(Outcome::Done);
            }
            _ => {}
        }
        let bytes = bytes_for(call, of);
        let message = json!({ "call": call, "bytes": hex(&bytes) }).to_string();
        let answer = self.python.call(c"perform", &message)?;
        if let Call::Stream { s, .. } | Call::Default { s, .. } = call {
            self.streams.push(*s);
        }
        match serde_json::from_str(&answer).map_err(|why| failed(&format!("{answer}: {why}")))? {
            Answer::Skipped => Err(Stop::Empty),
            Answer::Done => Ok(Outcome::Done),
            Answer::Bytes(bytes) => Ok(Outcome::Bytes(bytes_of_hex(&bytes))),
            Answer::Made {
                alias,
                read_only,
                strides,
            } => Ok(Outcome::Made {
                alias,
                read_only,
                strides,
            }),
            Answer::Seen(device, word, offset, bytes) => {
                let (form, kind) = self.forms[device];
                let address = if form == AddressForm::HANDLE {
                    Address::handle(word, offset)
                } else {
                    Address::pointer(word)
                };
                let seen = Seen {
                    device,
                    address,
                    kind,
                    bytes,
                };
                Ok(Outcome::Bytes(peek(&self.world, seen)?))
            }
            Answer::Handle(device, native) => self.hold(call, device, native),
            Answer::Idle(idle) => Ok(Outcome::Idle(idle)),
            Answer::Failed(kind, code, text) => Err(Stop::Failed(Failed {
                kind: match kind.as_str() {
                    "refused" => Failure::Refused,
                    "hook" => Failure::Hook(Status::from_raw(code as i32)),
                    _ => Failure::Other,
                },
                why: text.clone(),
                text,
            })),
        }
    }

    /// Makes the tensor that the driver is going to take.
    fn lend(&mut self, call: &Call) -> Result<(), Stop> {
        let tensor: Handle<XdTensor> = match call {
            Call::Make {
                device,
                element,
                shape,
                seed,
                ..
            } => {
                let layout = Layout::compact(element.dtype(), shape)?;
                let bytes = bytes_of(*seed, layout.bytes() as usize);
                let device = &self.world.devices[0][*device];
                let tensor = Tensor::from_bytes(device, &layout, &bytes)?;
                self.import(tensor.export()?.into_raw().as_ptr())?
            }
            Call::Foreign {
                element,
                shape,
                seed,
                offset,
                ..
            } => {
                let layout = Layout::compact(element.dtype(), shape)?;
                let bytes = bytes_of(*seed, layout.bytes() as usize);
                let (lent, produced) = Lent::new(&layout, &bytes, *offset);
                self.lent.push(lent);
                self.import(produced.into_raw().as_ptr())?
            }
            _ => return Err(Stop::Empty),
        };
        let name = Text::new(c"lent");
        check((api().session_set_tensor)(
            self.python.session.lend(),
            name,
            tensor.lend(),
        ))
    }

    fn import(
        &self,
        managed: *mut crossdock_sdk::dlpack::DLManagedTensorVersioned,
    ) -> Result<Handle<XdTensor>, Stop> {
        // SAFETY: a fresh export that nobody else owns.
        let managed = unsafe { Managed::new(managed) }.ok_or(Stop::Empty)?;
        let runtime = self.table.runtime.lend();
        // SAFETY: as above, given up here.
        made(|out| unsafe { (api().tensor_import)(runtime, managed.into_raw(), Ref::NULL, out) })
    }

    /// Holds a stream of the driver, which is found by its native handle.
    fn hold(&self, call: &Call, device: usize, native: u64) -> Result<Outcome, Stop> {
        let Call::Hold { e, fails, .. } = call else {
            return Err(Stop::Empty);
        };
        let device = &self.world.devices[0][device];
        let stream = Stream::find(device, native)
            .ok_or_else(|| failed("a stream is not found by its native handle"))?;
        let event = Event::host(device)?;
        stream.wait(&event)?;
        let status = if *fails { Status::VENDOR } else { Status::OK };
        let event: Box<dyn HostEvent> = Box::new(event);
        self.host_events.lock().unwrap().insert(*e, (event, status));
        self.python.call(c"held", "")?;
        Ok(Outcome::Done)
    }
}

fn failed(why: &str) -> Stop {
    Stop::Failed(Failed::other(why.to_owned()))
}

/// The bytes that a call writes.
fn bytes_for(call: &Call, of: Option<&View>) -> Vec<u8> {
    match (call, of) {
        (Call::Fill { seed, .. }, Some(view)) => pattern_of(*seed, view.element),
        (Call::Write { seed, .. }, Some(view)) => content(view, *seed),
        _ => Vec::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}
