//! What the sides of a copy, and of a fill, say of their memory.

use std::sync::Arc;

use crossdock::Error;
use crossdock_sdk::abi::{Address, AddressForm, Capabilities, MemoryKind, Side, Status};

use crate::allocation::{Allocation, Place, copy, copy_strided, fill, host_side};
use crate::case::{Case, Unmet, Verdict, answers, same_bytes};
use crate::layout::Region;
use crate::names;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "memory_of_nobody_is_neither_copied_nor_filled",
        "`XD_NOT_OWNER` where it begins in none: nothing was copied. … `XD_INVALID` and `XD_NOT_OWNER` for its \
         range as `copy` answers them.",
        of_nobody,
    ),
    Case::full(
        "a_side_on_a_device_that_is_not_there_is_refused",
        "a hook answers `XD_INVALID` to any other, in its arguments too.",
        no_device,
    ),
    Case::full(
        "the_device_of_a_host_side_is_ignored",
        "The device's index in its plugin; ignored for host memory.",
        host_on_any_device,
    ),
    Case::full(
        "a_side_of_another_kind_or_device_is_copied_as_what_it_is_or_refused",
        "An allocation of the plugin that is of another kind or device than its side says is copied as what \
         it is, or refused by `XD_NOT_OWNER`, `XD_INVALID` or `XD_UNSUPPORTED`, with nothing copied",
        of_another_kind,
    ),
];

const BYTES: usize = 512;

/// A call that has a side in memory of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Copy,
    Strided,
    Fill,
}

impl Call {
    /// Those that the device offers, and that write the side.
    fn writing(subject: &Subject<'_>) -> impl Iterator<Item = Self> {
        let offered = [
            (Self::Copy, true),
            (Self::Strided, subject.can(Capabilities::STRIDED_COPY)),
            (Self::Fill, subject.can(Capabilities::FILL)),
        ];
        offered
            .into_iter()
            .filter_map(|(call, is_offered)| is_offered.then_some(call))
    }

    /// Those that read it.
    fn reading(subject: &Subject<'_>) -> impl Iterator<Item = Self> {
        Self::writing(subject).filter(|call| *call != Self::Fill)
    }

    /// Writes [`NEW`] to the side.
    fn write(self, subject: &Subject<'_>, side: Side) -> Result<(), Error> {
        let (hooks, mut dst) = (subject.hooks(), Place::Claimed(side));
        let mut src = Place::Source(&[NEW; BYTES], 0);
        match self {
            Self::Copy => copy(hooks, &mut dst, &mut src, BYTES as u64),
            Self::Strided => copy_strided(hooks, &mut dst, &mut src, &rows()),
            Self::Fill => fill(hooks, &mut dst, BYTES as u64, [NEW; 16], 1),
        }
    }

    /// Reads the side; also what there is then, where [`NEW`] stood before.
    fn read(self, subject: &Subject<'_>, side: Side) -> (Result<(), Error>, [u8; BYTES]) {
        let mut bytes = [NEW; BYTES];
        let (mut dst, mut src) = (Place::Target(&mut bytes, 0), Place::Claimed(side));
        let answer = match self {
            Self::Strided => copy_strided(subject.hooks(), &mut dst, &mut src, &rows()),
            _ => copy(subject.hooks(), &mut dst, &mut src, BYTES as u64),
        };
        (answer, bytes)
    }

    /// What stands there after it was done: `after` where it copies, and else `before`.
    fn done(self, before: &[u8], after: &[u8]) -> Vec<u8> {
        let is_copied =
            |at: usize| self != Self::Strided || (at % PITCH < ROW && at < ROWS * PITCH);
        let both = before.iter().zip(after).enumerate();
        both.map(|(at, (before, after))| *if is_copied(at) { after } else { before })
            .collect()
    }
}

/// Rows with room between them, on both sides alike.
fn rows() -> Region {
    let [rows, row, pitch] = [ROWS, ROW, PITCH].map(usize::cast_signed).map(|n| n as i64);
    Region {
        element_bits: 8,
        shape: vec![rows, row],
        dst_strides: vec![pitch, 1],
        src_strides: vec![pitch, 1],
    }
}

/// Demands that every call refuses a side by one of these statuses and leaves both memories alone.
fn is_refused(subject: &Subject<'_>, what: &str, side: Side, refused: &[Status]) -> Verdict {
    for call in Call::reading(subject) {
        let (answer, bytes) = call.read(subject, side);
        answers(&format!("{call:?} from {what}"), &answer, refused)?;
        same_bytes("the destination", &bytes, &[NEW; BYTES])?;
    }
    for call in Call::writing(subject) {
        let answer = call.write(subject, side);
        answers(&format!("{call:?} to {what}"), &answer, refused)?;
    }
    Ok(())
}

/// Memory that holds a pattern.
fn written<'h>(subject: &Subject<'h>) -> Result<Arc<Allocation<'h>>, Unmet> {
    let memory = subject.allocate(BYTES as u64)?;
    memory.write(0, &pattern(SEED, BYTES))?;
    Ok(memory)
}

fn of_nobody(subject: &Subject<'_>) -> Verdict {
    let mut heap = pattern(SEED, BYTES);
    let word = heap.as_mut_ptr().expose_provenance() as u64;
    let (address, refused) = match subject.info().address_form {
        AddressForm::HANDLE => (
            Address::handle(word, 0),
            &[Status::NOT_OWNER, Status::STALE, Status::INVALID][..],
        ),
        _ => (Address::pointer(word), &[Status::NOT_OWNER][..]),
    };
    let side = Side {
        address,
        kind: MemoryKind::DEVICE,
        device: subject.device(),
    };
    is_refused(subject, "what is called device memory", side, refused)?;
    same_bytes("memory of the host", &heap, &pattern(SEED, BYTES))
}

fn no_device(subject: &Subject<'_>) -> Verdict {
    let count = subject.hooks().device_count()?;
    let memory = written(subject)?;
    for device in [count, u32::MAX] {
        let side = Side {
            device,
            ..memory.side()
        };
        let what = format!("memory of device {device} of {count}");
        is_refused(subject, &what, side, &[Status::INVALID])?;
    }
    same_bytes("the memory", &memory.read(0, BYTES)?, &pattern(SEED, BYTES))
}

fn host_on_any_device(subject: &Subject<'_>) -> Verdict {
    let none = subject.hooks().device_count()?;
    let (hooks, bytes) = (subject.hooks(), BYTES as u64);
    let memory = subject.allocate(bytes)?;
    for device in [none, u32::MAX] {
        let (mut from, mut to) = (pattern(SEED, BYTES), vec![0; BYTES]);
        let host = |bytes: &mut Vec<u8>| Side {
            device,
            ..host_side(bytes.as_mut_ptr().expose_provenance())
        };
        let mut src = Place::Claimed(host(&mut from));
        copy(hooks, &mut Place::Memory(&memory, 0), &mut src, bytes)?;
        let mut dst = Place::Claimed(host(&mut to));
        copy(hooks, &mut dst, &mut Place::Memory(&memory, 0), bytes)?;
        same_bytes("what came back", &to, &from)?;
    }
    Ok(())
}

fn of_another_kind(subject: &Subject<'_>) -> Verdict {
    let (memory, own) = (written(subject)?, subject.device());
    let claimed = |kind, device| Side {
        kind,
        device,
        ..memory.side()
    };
    let kinds = [MemoryKind::PINNED, MemoryKind::MANAGED].map(|kind| claimed(kind, own));
    let others = (0..subject.hooks().device_count()?).filter(|device| *device != own);
    let others = others.map(|device| claimed(MemoryKind::DEVICE, device));
    let (old, new) = (pattern(SEED, BYTES), [NEW; BYTES]);
    for side in kinds.into_iter().chain(others) {
        let claim = format!(
            "memory called kind {} of device {}",
            names::kind(side.kind),
            side.device
        );
        for call in Call::reading(subject) {
            let (answer, read) = call.read(subject, side);
            let what = format!("{call:?} from {claim}");
            let wanted = found(&what, &answer, call.done(&new, &old), &new)?;
            same_bytes(&what, &read, &wanted)?;
        }
        for call in Call::writing(subject) {
            let answer = call.write(subject, side);
            let what = format!("{call:?} to {claim}");
            let wanted = found(&what, &answer, call.done(&old, &new), &old)?;
            same_bytes(&what, &memory.read(0, BYTES)?, &wanted)?;
            memory.write(0, &old)?;
        }
    }
    Ok(())
}

/// What is to be found after a call that may refuse its side: `done`, or else `before`.
fn found(
    what: &str,
    answer: &Result<(), Error>,
    done: Vec<u8>,
    before: &[u8],
) -> Result<Vec<u8>, Unmet> {
    let refused = [Status::NOT_OWNER, Status::INVALID, Status::UNSUPPORTED];
    if answer.is_ok() {
        return Ok(done);
    }
    answers(what, answer, &refused)?;
    Ok(before.to_vec())
}

const SEED: u64 = 26;
const NEW: u8 = 9;
const ROWS: usize = 4;
const ROW: usize = 16;
const PITCH: usize = 64;
