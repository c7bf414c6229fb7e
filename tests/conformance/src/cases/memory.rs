//! Allocating and freeing.

use crossdock_sdk::abi::{
    Address, AddressForm, AllocateArgs, Capabilities, MemoryKind, PointerFlags, Status,
};

use crate::allocation::{Allocation, free_address};
use crate::case::{Case, Verdict, answers, ensure, is_unsupported, same_bytes};
use crate::names;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "memory_begins_on_256_bytes",
        "A power of two; the result is at least 256-byte aligned all the same. … and for an alignment that it cannot keep.",
        minimal_alignment,
    ),
    Case::core(
        "a_larger_alignment_is_kept_or_unsupported",
        "A power of two; the result is at least 256-byte aligned all the same.",
        larger_alignment,
    ),
    Case::core(
        "an_address_has_the_form_that_its_device_says",
        "The form of device memory that `allocate` gives",
        form_is_kept,
    ),
    Case::core(
        "allocations_do_not_overlap",
        "the caller owns the memory until `free`.",
        no_overlap,
    ),
    Case::core(
        "an_absurd_size_is_refused_and_breaks_nothing",
        "`XD_OOM_DEVICE`, `XD_OOM_HOST`",
        absurd_size,
    ),
    Case::core(
        "memory_comes_back_after_free",
        "Frees what `allocate` gave, at its base.",
        reuse,
    ),
    Case::core(
        "free_refuses_memory_of_others",
        "`XD_NOT_OWNER` for another address or kind",
        free_of_foreign_memory,
    ),
    Case::core(
        "free_refuses_an_address_inside_an_allocation",
        "Frees what `allocate` gave, at its base.",
        free_of_interior,
    ),
    Case::core(
        "free_refuses_another_kind",
        "`XD_NOT_OWNER` for another address or kind",
        free_of_other_kind,
    ),
    Case::core(
        "free_refuses_what_was_freed",
        "`XD_NOT_OWNER` for another address or kind … The handle or address named something that \
         is gone.",
        double_free,
    ),
    Case::core(
        "pinned_memory_holds_bytes",
        "Pinned memory can be allocated.",
        |subject| kind_holds_bytes(subject, MemoryKind::PINNED, Capabilities::PINNED),
    ),
    Case::core(
        "managed_memory_holds_bytes",
        "Managed memory can be allocated.",
        |subject| kind_holds_bytes(subject, MemoryKind::MANAGED, Capabilities::MANAGED),
    ),
    Case::core("pinned_memory_has_a_host_address", ADDRESSED, |subject| {
        kind_is_addressed(subject, MemoryKind::PINNED, Capabilities::PINNED)
    }),
    Case::core("managed_memory_has_a_host_address", ADDRESSED, |subject| {
        kind_is_addressed(subject, MemoryKind::MANAGED, Capabilities::MANAGED)
    }),
];

const ADDRESSED: &str = "Pinned and managed memory is of the form pointer on every device, and the host reaches it there";
const REFUSED: &[Status] = &[Status::NOT_OWNER];

fn minimal_alignment(subject: &Subject<'_>) -> Verdict {
    let mut held = Vec::new();
    for size in [1, 255, 257, 4097] {
        for alignment in [1, 256] {
            let args = AllocateArgs {
                alignment,
                ..subject.request(size)
            };
            let memory = Allocation::new(subject.hooks(), args)?;
            aligned(&memory, 256)?;
            held.push(memory);
        }
    }
    Ok(())
}

fn larger_alignment(subject: &Subject<'_>) -> Verdict {
    for alignment in [512, 1024, 4096, 65536] {
        let args = AllocateArgs {
            alignment,
            ..subject.request(1000)
        };
        let answer = Allocation::new(subject.hooks(), args);
        if is_unsupported(&answer) {
            continue;
        }
        aligned(&answer?, alignment)?;
    }
    Ok(())
}

/// Checks the address where it is one, and where the host reaches it if it says so.
fn aligned(memory: &Allocation<'_>, alignment: u64) -> Verdict {
    let info = memory.query(0)?;
    let places = [
        ("the address", memory.address().as_pointer().unwrap_or(0)),
        ("`host_pointer`", info.host_pointer),
        ("`device_pointer`", info.device_pointer),
    ];
    for (which, place) in places {
        ensure!(
            place % alignment == 0,
            "{which} is {place:#x}, which is not a multiple of {alignment}"
        );
    }
    Ok(())
}

fn form_is_kept(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(64)?;
    let address = memory.address();
    let form = subject.info().address_form;
    ensure!(
        address.form == form,
        "form {} and not {}",
        names::form(address.form),
        names::form(form)
    );
    ensure!(address.word != 0, "the address is null");
    ensure!(
        address.reserved == 0,
        "the reserved word is {}",
        address.reserved
    );
    Ok(())
}

fn no_overlap(subject: &Subject<'_>) -> Verdict {
    let sizes = [1, 7, 256, 257, 1000, 4096, 65537, 3];
    let mut held = Vec::new();
    for (seed, size) in (1..).zip(sizes.into_iter().cycle().take(24)) {
        let memory = subject.allocate(size as u64)?;
        let bytes = pattern(seed, size);
        memory.write(0, &bytes)?;
        held.push((memory, bytes));
    }
    for (memory, bytes) in &held {
        same_bytes(
            "an allocation after others were written",
            &memory.read(0, bytes.len())?,
            bytes,
        )?;
    }
    Ok(())
}

fn absurd_size(subject: &Subject<'_>) -> Verdict {
    let allowed = [Status::OOM_DEVICE, Status::OOM_HOST, Status::INVALID];
    for size in [1 << 60, u64::MAX] {
        let answer = Allocation::new(subject.hooks(), subject.request(size));
        answers(&format!("allocate({size})"), &answer, &allowed)?;
    }
    let memory = subject.allocate(100)?;
    memory.write(0, &pattern(1, 100))?;
    same_bytes("memory afterwards", &memory.read(0, 100)?, &pattern(1, 100))
}

fn reuse(subject: &Subject<'_>) -> Verdict {
    // More in total than is held at once; a device that never frees is found on small devices.
    for seed in 0..64 {
        let Some(memory) = std::sync::Arc::into_inner(subject.allocate(1 << 20)?) else {
            continue;
        };
        memory.write(0, &pattern(seed, 64))?;
        memory.free()?;
    }
    Ok(())
}

fn free_of_foreign_memory(subject: &Subject<'_>) -> Verdict {
    let heap = vec![0_u64; 512];
    let local = 0_u64;
    let heap = heap.as_ptr().addr() as u64;
    let local = (&raw const local).addr() as u64;
    for word in [heap, local, 8] {
        let address = match subject.info().address_form {
            AddressForm::HANDLE => Address::handle(word, 0),
            _ => Address::pointer(word),
        };
        let answer = free_address(subject.hooks(), address, MemoryKind::DEVICE);
        answers(
            &format!("free of {word:#x}, which nobody allocated,"),
            &answer,
            REFUSED,
        )?;
    }
    Ok(())
}

fn free_of_interior(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    memory.write(0, &pattern(2, 4096))?;
    let answer = free_address(subject.hooks(), memory.at(256), MemoryKind::DEVICE);
    answers("free 256 bytes inside an allocation", &answer, REFUSED)?;
    same_bytes("the allocation", &memory.read(0, 4096)?, &pattern(2, 4096))
}

fn free_of_other_kind(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    for kind in [MemoryKind::PINNED, MemoryKind::MANAGED] {
        let answer = free_address(subject.hooks(), memory.address(), kind);
        answers(
            &format!("free of device memory as kind {}", names::kind(kind)),
            &answer,
            REFUSED,
        )?;
    }
    memory.write(0, &pattern(3, 4096))?;
    same_bytes("the allocation", &memory.read(0, 4096)?, &pattern(3, 4096))
}

fn double_free(subject: &Subject<'_>) -> Verdict {
    let memory = Allocation::new(subject.hooks(), subject.request(4096))?;
    let address = memory.address();
    memory.free()?;
    let answer = free_address(subject.hooks(), address, MemoryKind::DEVICE);
    answers(
        "the second free",
        &answer,
        &[Status::NOT_OWNER, Status::STALE],
    )
}

fn kind_holds_bytes(subject: &Subject<'_>, kind: MemoryKind, capability: Capabilities) -> Verdict {
    subject.needs(capability)?;
    let memory = subject.allocate_kind(kind, 5000)?;
    memory.write(1, &pattern(4, 4000))?;
    same_bytes("the bytes", &memory.read(1, 4000)?, &pattern(4, 4000))?;
    let info = memory.query(17)?;
    ensure!(
        info.kind == kind,
        "a pointer query answers kind {} and not {}",
        names::kind(info.kind),
        names::kind(kind)
    );
    let device = subject.allocate(5000)?;
    let (mut dst, mut src) = (
        crate::allocation::Place::Memory(&device, 8),
        crate::allocation::Place::Memory(&memory, 1),
    );
    crate::allocation::copy(subject.hooks(), &mut dst, &mut src, 4000)?;
    same_bytes(
        "a copy into device memory",
        &device.read(8, 4000)?,
        &pattern(4, 4000),
    )
}

fn kind_is_addressed(subject: &Subject<'_>, kind: MemoryKind, capability: Capabilities) -> Verdict {
    subject.needs(capability)?;
    let memory = subject.allocate_kind(kind, 5000)?;
    let address = memory.address();
    ensure!(
        address.form == AddressForm::POINTER,
        "form {} and not POINTER",
        names::form(address.form)
    );
    let info = memory.query(17)?;
    let flagged = info.flags.contains(PointerFlags::HOST_ACCESSIBLE);
    ensure!(flagged, "the query does not say that the host reaches it");
    let at = memory.at(17).as_pointer().unwrap_or(0);
    ensure!(
        info.host_pointer == at,
        "the host reaches byte 17 at {:#x}, and its address is {at:#x}",
        info.host_pointer
    );
    Ok(())
}
