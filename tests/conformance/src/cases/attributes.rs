//! Open-ended numeric facts about a device.

use crossdock_sdk::abi::Status;

use crate::case::{Case, Verdict, answers, ensure, skipped, status_of};
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "an_unknown_attribute_is_unsupported",
        "`XD_UNSUPPORTED` for an unknown key.",
        unknown,
    ),
    Case::core(
        "an_attribute_is_known_or_unknown_for_good",
        "Answers one numeric attribute. … `XD_UNSUPPORTED` for an unknown key.",
        stays_known,
    ),
    Case::core(
        "no_attribute_is_told_of_a_device_that_is_not_there",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_device,
    ),
];

fn needs(subject: &Subject<'_>) -> Verdict {
    match subject.hooks().table().attributes() {
        Some(_) => Ok(()),
        None => skipped("the plugin has no group `attributes`"),
    }
}

fn unknown(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let answer = subject.hooks().device_attribute(subject.device(), u32::MAX);
    answers("the last key there is", &answer, &[Status::UNSUPPORTED])
}

fn stays_known(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    for key in 0..256 {
        let ask = || subject.hooks().device_attribute(subject.device(), key);
        let first = ask();
        let what = format!("key {key}");
        answers(&what, &first, &[Status::OK, Status::UNSUPPORTED])?;
        let (first, second) = (status_of(&first), status_of(&ask()));
        ensure!(
            first == second,
            "key {key} answered {first} and then {second}"
        );
    }
    Ok(())
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    needs(subject)?;
    let device = subject.hooks().device_count()?;
    let answer = subject.hooks().device_attribute(device, 0);
    let allowed = [Status::INVALID, Status::UNSUPPORTED];
    answers(&format!("asking device {device}"), &answer, &allowed)
}
