//! What a failure says, and that none was a panic.

use crossdock::Error;
use crossdock_sdk::abi::Status;

use super::retire::opened;
use crate::case::{Case, Verdict, ensure, failed};
use crate::event::LIMIT_NS;
use crate::raw_call::{Answer, failing, succeeding};
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "a_failure_says_what_failed_and_why",
        "What went wrong in a hook. … The call that failed: the vendor's function, or the hook's \
         own name. … One sentence: why.",
        has_reasons,
    ),
    Case::core(
        "an_error_object_never_says_ok",
        "What went wrong in a hook. … Never `XD_OK`.",
        never_ok,
    ),
    Case::core(
        "a_success_gives_no_error_object",
        "Written on failure only.",
        on_failure_only,
    ),
    Case::core(
        "a_failure_needs_no_room_for_an_error_object",
        "NULL, or where a failing hook may put an error object",
        without_room,
    ),
];

/// Behind all others.
pub(super) const LAST: &[Case] = &[Case::core(
    "no_hook_panicked_in_the_whole_run",
    "A panic was caught inside the plugin, which is a mistake of the plugin",
    no_panic,
)
.behind_a_panic()];

fn has_reasons(subject: &Subject<'_>) -> Verdict {
    for Answer {
        hook,
        status,
        object,
    } in failing(subject, true)?
    {
        let Some(object) = object else {
            return failed(format!(
                "`{hook}` failed with {status} and gave no error object"
            ));
        };
        let told = object.has_message;
        ensure!(
            told,
            "`{hook}` failed with {status}, and its error object has no message"
        );
    }
    // And as the host hands it on.
    let error = subject.hooks().device_info(u32::MAX).err();
    let Some(Error::Hook { message, .. }) = error else {
        return failed("`device_info` did not fail");
    };
    ensure!(
        !message.trim().is_empty(),
        "the message of `device_info` is blank"
    );
    Ok(())
}

fn never_ok(subject: &Subject<'_>) -> Verdict {
    for Answer { hook, object, .. } in failing(subject, true)? {
        let says_ok = object.is_some_and(|object| object.status.is_ok());
        ensure!(
            !says_ok,
            "`{hook}` failed, and its error object has the status OK"
        );
    }
    Ok(())
}

fn on_failure_only(subject: &Subject<'_>) -> Verdict {
    for Answer { hook, object, .. } in succeeding(subject)? {
        ensure!(
            object.is_none(),
            "`{hook}` answered OK, and gave an error object"
        );
    }
    Ok(())
}

fn without_room(subject: &Subject<'_>) -> Verdict {
    failing(subject, false).map(drop)
}

/// The plugin that is looked at ends behind this case, so another one is ended here.
fn no_panic(subject: &Subject<'_>) -> Verdict {
    let hooks = subject.hooks();
    ensure!(
        !hooks.is_quarantined(),
        "a hook panicked; see the failures above"
    );
    let Ok(mut fresh) = opened(subject) else {
        return Ok(());
    };
    for (hook, ended) in [("retire", fresh.retire(LIMIT_NS)), ("close", fresh.close())] {
        // What else is wrong with an end is the matter of other cases.
        if let Err(error) = ended
            && error.status() == Some(Status::PANIC)
        {
            return failed(format!("`{hook}` panicked: {}", error.why()));
        }
    }
    Ok(())
}
