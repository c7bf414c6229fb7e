//! What a plugin says of itself and of its device.

use crossdock::plugin_files::AbiVersion;
use crossdock_sdk::abi::{AddressForm, ProbeState, Status};

use crate::case::{Case, Verdict, answers, ensure, failed};
use crate::description;
use crate::names;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_plugin_with_a_device_probes_ready",
        "Looks for the driver and its devices and changes nothing. … Driver and at least one \
         device are there.",
        probes_ready,
    ),
    Case::core(
        "a_probe_finds_as_many_devices_as_there_are",
        "Looks for the driver and its devices and changes nothing. … Devices found: as many as \
         `device_count` counts, so after the vendor's masks.",
        probe_counts,
    ),
    Case::core(
        "a_table_has_the_description_of_its_file",
        "The bytes of the section `.crossdock`.",
        is_described,
    ),
    Case::core(
        "the_device_count_is_fixed_from_open_on",
        "Counts devices, after the vendor's masks. Fixed from `open` on.",
        count_is_fixed,
    ),
    Case::core(
        "every_text_of_a_device_is_terminated_utf8",
        "Texts are NUL-terminated UTF-8.",
        texts_are_terminated,
    ),
    Case::core(
        "a_device_has_a_type_a_name_and_memory",
        "The DLPack device type that the plugin claims. … Name for people. … Bytes of device \
         memory.",
        facts_are_sane,
    ),
    Case::core(
        "a_device_describes_itself_the_same_twice",
        "Describes a device, the same each time.",
        facts_are_stable,
    ),
    Case::core(
        "free_memory_is_at_most_all_memory",
        "Free bytes; `UINT64_MAX` when the vendor does not say.",
        memory_is_sane,
    ),
    Case::core(
        "capabilities_name_groups_that_exist",
        "A bit for a group that the plugin lacks refuses the plugin",
        capabilities_have_groups,
    ),
    Case::core(
        "a_device_that_is_not_there_is_invalid",
        "`XD_INVALID` for an index that is not there.",
        index_out_of_range,
    ),
    Case::core(
        "nothing_is_allocated_on_a_device_that_is_not_there",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_memory_out_of_range,
    ),
];

fn probes_ready(subject: &Subject<'_>) -> Verdict {
    let found = subject.hooks().probe()?;
    ensure!(
        found.state == ProbeState::READY,
        "the state is {} and not READY",
        names::state(found.state)
    );
    ensure!(found.device_count > 0, "READY with no device");
    text("detail", &found.detail)?;
    text("driver_version", &found.driver_version).map(drop)
}

fn probe_counts(subject: &Subject<'_>) -> Verdict {
    let (found, count) = (subject.hooks().probe()?, subject.hooks().device_count()?);
    ensure!(
        found.device_count == count,
        "`probe` found {}, and `device_count` says {count}",
        found.device_count
    );
    Ok(())
}

fn is_described(subject: &Subject<'_>) -> Verdict {
    let table = subject.hooks().table();
    let said = description::read(table)?;
    let built = AbiVersion {
        major: table.raw().abi_major,
        minor: table.raw().abi_minor,
    };
    ensure!(
        said.abi == built,
        "`description` says ABI {}, and the table {built}",
        said.abi
    );
    Ok(())
}

fn count_is_fixed(subject: &Subject<'_>) -> Verdict {
    let (first, second) = (
        subject.hooks().device_count()?,
        subject.hooks().device_count()?,
    );
    ensure!(first == second, "first {first} devices, then {second}");
    let device = subject.device();
    ensure!(
        device < first,
        "device {device} is looked at, but there are {first}"
    );
    Ok(())
}

fn texts_are_terminated(subject: &Subject<'_>) -> Verdict {
    let info = subject.info();
    text("name", &info.name)?;
    text("pci_bus_id", &info.pci_bus_id)?;
    text("driver_version", &info.driver_version)?;
    text("runtime_version", &info.runtime_version).map(drop)
}

fn facts_are_sane(subject: &Subject<'_>) -> Verdict {
    let info = subject.info();
    ensure!(info.dl_type > 0, "the DLPack type is {}", info.dl_type);
    ensure!(info.dl_id >= 0, "the DLPack id is {}", info.dl_id);
    ensure!(!text("name", &info.name)?.is_empty(), "the name is empty");
    ensure!(info.total_memory > 0, "the device has no memory");
    let forms = [AddressForm::POINTER, AddressForm::HANDLE];
    ensure!(
        forms.contains(&info.address_form),
        "address form {}",
        names::form(info.address_form)
    );
    ensure!(info.reserved == 0, "the reserved word is {}", info.reserved);
    Ok(())
}

fn facts_are_stable(subject: &Subject<'_>) -> Verdict {
    let (before, now) = (
        subject.info(),
        subject.hooks().device_info(subject.device())?,
    );
    ensure!(before.uuid == now.uuid, "the uuid changed");
    ensure!(before.name == now.name, "the name changed");
    ensure!(
        (before.dl_type, before.dl_id) == (now.dl_type, now.dl_id),
        "the DLPack pair changed"
    );
    ensure!(
        before.capabilities == now.capabilities,
        "the capabilities changed"
    );
    ensure!(
        before.total_memory == now.total_memory,
        "the size of its memory changed"
    );
    Ok(())
}

fn memory_is_sane(subject: &Subject<'_>) -> Verdict {
    let memory = subject.hooks().memory_info(subject.device())?;
    ensure!(memory.total > 0, "no memory in total");
    let known = memory.free != u64::MAX;
    ensure!(
        !known || memory.free <= memory.total,
        "{} of {} free",
        memory.free,
        memory.total
    );
    Ok(())
}

fn capabilities_have_groups(subject: &Subject<'_>) -> Verdict {
    let table = subject.hooks().table();
    if let Some((capability, group)) = table.lacking(subject.info().capabilities) {
        return failed(format!("{capability} without the group `{group}`"));
    }
    let streams = table.streams().is_some();
    ensure!(
        streams || table.timing().is_none(),
        "`timing` without `streams`"
    );
    ensure!(
        streams || table.host_events().is_none(),
        "`host_events` without `streams`"
    );
    Ok(())
}

fn index_out_of_range(subject: &Subject<'_>) -> Verdict {
    let count = subject.hooks().device_count()?;
    for index in [count, u32::MAX] {
        let answer = subject.hooks().device_info(index);
        answers(
            &format!("device_info({index})"),
            &answer,
            &[Status::INVALID],
        )?;
    }
    Ok(())
}

fn no_memory_out_of_range(subject: &Subject<'_>) -> Verdict {
    let device = subject.hooks().device_count()?;
    let mut args = subject.request(4096);
    args.device = device;
    let answer = subject.hooks().allocate(args);
    answers(
        &format!("allocate on device {device}"),
        &answer,
        &[Status::INVALID],
    )
}

/// A fixed text up to its NUL.
fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, crate::case::Unmet> {
    let Ok(text) = std::ffi::CStr::from_bytes_until_nul(bytes) else {
        return failed(format!("`{what}` has no NUL"));
    };
    match text.to_str() {
        Ok(text) => Ok(text),
        Err(error) => failed(format!("`{what}`: {error}")),
    }
}
