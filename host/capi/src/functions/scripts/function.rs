//! `xd_session_define`: functions of the caller that scripts call, and `xd_answer`, what they answer with.
#![expect(
    unsafe_code,
    reason = "exports functions by name, and calls those of callers"
)]

use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crossdock::Runtime;
use crossdock_api::{
    Failure, Owned, Ref, ScriptFunction, Status, Text, WordRelease, XdAnswer, XdArguments, XdError,
    XdSession, XdValue,
};
use crossdock_embed::{FunctionFailure, Value};

use crate::crossing::boundary::fence_call;
use crate::crossing::error_object::{ErrorObject, c_text};
use crate::crossing::failure::Refusal;
use crate::crossing::input;
use crate::crossing::object::{Handle, borrow, look, release};
use crate::functions::scripts::session::hold;
use crate::functions::scripts::value::{self, Items};

impl Handle for XdAnswer {
    type Object = AnswerObject;
    const NAME: &'static str = "answer";
}

/// The place for an answer, which lives for one call.
#[derive(Default)]
pub(crate) struct AnswerObject {
    value: Mutex<Value>,
}

type Call = unsafe extern "C" fn(
    word: *mut c_void,
    arguments: Ref<'_, XdArguments<'_>>,
    answer: Ref<'_, XdAnswer>,
) -> Failure;

/// The caller's word, given back once.
struct Word {
    word: *mut c_void,
    release: WordRelease,
}

// SAFETY: the word is only passed back, and the header asks for functions that any thread may call.
unsafe impl Send for Word {}
// SAFETY: as above, also on several threads at once.
unsafe impl Sync for Word {}

impl Drop for Word {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller of `xd_session_define` promised that it may be called once with its word,
            // on any thread.
            unsafe { release(self.word) };
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_session_define(
    session: Ref<'_, XdSession>,
    name: Text<'_>,
    function: ScriptFunction,
    word: *mut c_void,
    release: WordRelease,
) -> Failure {
    let word = Word { word, release };
    fence_call("xd_session_define", move || {
        let session = hold(session)?;
        let name = input::text(name, "the name")?;
        let function = function.ok_or_else(|| Refusal::null("function"))?;
        let runtime = Arc::clone(&session.runtime);
        let call = move |values, named| call(function, &word, &runtime, values, named);
        Ok(session.session.define(name, Box::new(call))?)
    })
}

/// Calls the caller's function with what a script gave.
fn call(
    function: Call,
    word: &Word,
    runtime: &Runtime,
    values: Vec<Value>,
    named: Vec<(String, Value)>,
) -> Result<Value, FunctionFailure> {
    let refused = |refusal: Refusal| failure(refusal.into_object("call a function of the host"));
    let given = |value| value::given(runtime, value).map_err(refused);
    let (names, named): (Vec<CString>, Vec<Value>) = named
        .into_iter()
        .map(|(name, value)| (c_text(name), value))
        .unzip();
    let (mut by_place, mut by_name) = (Items(Vec::new()), Items(Vec::new()));
    for value in values {
        by_place.0.push(given(value)?);
    }
    for value in named {
        by_name.0.push(given(value)?);
    }
    let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let arguments = XdArguments {
        struct_size: size_of::<XdArguments<'_>>() as u64,
        values: by_place.0.as_ptr(),
        count: by_place.0.len() as u64,
        names: names.as_ptr().cast::<Text<'_>>(),
        named_values: by_name.0.as_ptr(),
        named_count: by_name.0.len() as u64,
    };
    let answer = AnswerObject::default();
    let place = std::ptr::from_ref(&answer).cast::<XdAnswer>();
    // SAFETY: a live object of this handle's type, lent for the call.
    let place = unsafe { Ref::from_raw(place) };
    // SAFETY: the caller of `xd_session_define` promised a function that may be called with its word, on any
    // thread; arguments and answer live for the call.
    let error = unsafe { function(word.word, Ref::from(&arguments), place) };
    if !error.is_null() {
        return Err(failure(error));
    }
    let answer = answer.value.into_inner();
    Ok(answer.unwrap_or_else(PoisonError::into_inner))
}

/// What an error is in the script.
fn failure(error: Owned<XdError>) -> FunctionFailure {
    let told = look(error.lend()).map(|error: &ErrorObject| FunctionFailure {
        text: error.line(),
        is_out_of_memory: matches!(error.status(), Status::OOM_DEVICE | Status::OOM_HOST),
    });
    release(error);
    told.unwrap_or(FunctionFailure {
        text: String::new(),
        is_out_of_memory: false,
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xd_answer_set(
    answer: Ref<'_, XdAnswer>,
    value: Ref<'_, XdValue>,
) -> Failure {
    fence_call("xd_answer_set", || {
        let answer = borrow(answer)?;
        // SAFETY: the header asks for a live value with live content.
        let value = unsafe { value::lent(value) }?;
        *answer.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
        Ok(())
    })
}
