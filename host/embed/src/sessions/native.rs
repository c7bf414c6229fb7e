//! The functions of the host that `sessions.py` is given.
#![expect(unsafe_code, reason = "functions that Python calls")]

use std::time::Duration;

use crossdock_sdk::fence::fence;

use crate::process;
use crate::python::gil::{Gil, Object, Raised};
use crate::python::libpython::PyObject;
use crate::python::method::MethodDefinition;
use crate::python::value::Value;
use crate::sessions::host::Host;
use crate::sessions::host_function::Stream;

macro_rules! definitions {
    ($($constant:ident = $name:literal, $method:ident;)*) => {$(
        pub(crate) static $constant: MethodDefinition = MethodDefinition::new($name, $method);
    )*};
}

definitions! {
    STREAM = c"stream", stream;
    WRITE = c"write", write;
    CALL = c"call", call;
    WAKE = c"wake", wake;
    IGNORED = c"ignored", ignored;
    ENDS = c"ends", ends;
    RESTORE = c"restore", restore;
}

/// How long the end of a Python of others waits for a script of ours.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// `stream(session, which)`: the function `write` of a captured stream.
unsafe extern "C" fn stream(_module: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|_host, gil| {
            // SAFETY: Python lends the tuple of arguments for the call.
            let arguments = unsafe { gil.borrowed(arguments) }?;
            gil.function_of(&WRITE, &arguments)
        })
    })
    .unwrap_or(FAILED)
}

/// `write(data)`: passes on what a captured stream got, and answers how much that was. `own` is the session and
/// the stream.
unsafe extern "C" fn write(own: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            // SAFETY: Python lends the object that the function is of for the call.
            let own = unsafe { gil.borrowed(own) }?;
            // SAFETY: as above, the tuple of arguments.
            let arguments = unsafe { gil.borrowed(arguments) }?;
            let session = own.item(0)?.to_i64()?.cast_unsigned();
            let stream = match own.item(1)?.to_i64()? {
                1 => Stream::Out,
                _ => Stream::Err,
            };
            let data = gil.bytes_of(&arguments.item(0)?)?.to_bytes()?;
            gil.released(|| host.write(session, stream, &data));
            gil.number(i64::try_from(data.len()).unwrap_or(i64::MAX))
        })
    })
    .unwrap_or(FAILED)
}

/// `call(function, arguments, named)`: what a function of the host's answers: `(answer, why there is none,
/// whether memory lacks)`.
unsafe extern "C" fn call(_module: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            // SAFETY: Python lends the tuple of arguments for the call.
            let arguments = unsafe { gil.borrowed(arguments) }?;
            let number = arguments.item(0)?.to_i64()?.cast_unsigned();
            let values = Value::items(&arguments.item(1)?)?;
            let named = Value::named(&arguments.item(2)?)?;
            let (answer, why) = match gil.released(|| host.call(number, values, named)) {
                Ok(answer) => (answer, None),
                Err(failure) => (Value::None, Some(failure)),
            };
            let lacks_memory = why.as_ref().is_some_and(|why| why.is_out_of_memory);
            let why = why.map_or(Value::None, |why| Value::Text(why.text));
            gil.tuple(vec![
                answer.into_object(gil)?,
                why.into_object(gil)?,
                gil.truth(lacks_memory)?,
            ])
        })
    })
    .unwrap_or(FAILED)
}

/// `wake(signal, frame)`: the handler of the signal that wakes the script thread.
unsafe extern "C" fn wake(_module: *mut PyObject, _arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            if !process::is_forked() && host.queue.claim() {
                return Err(host.raise_interrupt(gil));
            }
            gil.truth(true)
        })
    })
    .unwrap_or(FAILED)
}

/// `ignored()`: Python ignores the exception of an interrupt. Whether it is the host's, which raises it again.
unsafe extern "C" fn ignored(_module: *mut PyObject, _arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            let is_ours = !process::is_forked() && host.is_script_thread();
            gil.truth(is_ours && host.queue.raise_again())
        })
    })
    .unwrap_or(FAILED)
}

/// `ends()`: Python begins to end, because a host that started it wants it to.
unsafe extern "C" fn ends(_module: *mut PyObject, _arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            if !process::is_forked() {
                process::python_ends();
                gil.released(|| host.close(LAST_WAIT));
            }
            gil.truth(true)
        })
    })
    .unwrap_or(FAILED)
}

/// `restore(signal)`: sets the action that the host had for a signal.
unsafe extern "C" fn restore(_module: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    fence(|| {
        called(|host, gil| {
            // SAFETY: Python lends the tuple of arguments for the call.
            let arguments = unsafe { gil.borrowed(arguments) }?;
            let signal = arguments.item(0)?.to_i64()?;
            host.actions.restore(i32::try_from(signal).unwrap_or(0));
            gil.truth(true)
        })
    })
    .unwrap_or(FAILED)
}

/// With an exception, or with one that Python makes of its absence.
const FAILED: *mut PyObject = std::ptr::null_mut();

/// Runs a function that Python called; its failures are exceptions that are set already.
fn called(
    body: impl for<'gil> FnOnce(&'static Host, &'gil Gil) -> Result<Object<'gil>, Raised>,
) -> *mut PyObject {
    let Some(host) = Host::started() else {
        return FAILED;
    };
    // SAFETY: Python calls its functions with the lock held.
    let gil = unsafe { Gil::assume(host.functions()) };
    body(host, &gil).map_or(FAILED, Object::into_raw)
}
