//! What a failure says, and that none was a panic.

use crossdock::Error;
use crossdock_sdk::abi::{Address, MemoryKind, Status};

use crate::allocation::free_address;
use crate::case::{Case, Verdict, ensure, failed};
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "a_failure_says_what_failed_and_why",
        "What went wrong in a hook. … The call that failed: the vendor's function, or the hook's \
         own name. … One sentence: why.",
        has_reasons,
    ),
    Case::core(
        "no_hook_panicked_in_the_whole_run",
        "A panic was caught inside the plugin, which is a mistake of the plugin",
        no_panic,
    ),
];

fn has_reasons(subject: &Subject<'_>) -> Verdict {
    let hooks = subject.hooks();
    let local = 0_u64;
    let nobodys = Address {
        form: subject.info().address_form,
        ..Address::default()
    };
    let nobodys = Address {
        word: (&raw const local).addr() as u64,
        ..nobodys
    };
    let failures = [
        ("device_info", hooks.device_info(u32::MAX).err()),
        ("allocate", hooks.allocate(subject.request(1 << 60)).err()),
        (
            "free",
            free_address(hooks, nobodys, MemoryKind::DEVICE).err(),
        ),
    ];
    for (hook, error) in failures {
        let Some(Error::Hook {
            status,
            operation,
            message,
            ..
        }) = error
        else {
            return failed(format!("`{hook}` did not fail"));
        };
        ensure!(
            status.name().is_some(),
            "`{hook}` failed with the unknown {status}"
        );
        ensure!(status != Status::PANIC, "`{hook}` panicked: {message}");
        let told = operation.starts_with(hook) && message.trim() != SILENT && !message.is_empty();
        ensure!(
            told,
            "`{hook}` failed with {status} and gave no error object"
        );
    }
    Ok(())
}

fn no_panic(subject: &Subject<'_>) -> Verdict {
    ensure!(
        !subject.hooks().is_quarantined(),
        "a hook panicked; see the failures above"
    );
    Ok(())
}

/// What the hooks say where the plugin said nothing.
const SILENT: &str = "the plugin gave no reason";
