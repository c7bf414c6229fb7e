//! Who owns an address.

use std::collections::HashSet;
use std::sync::Arc;

use crossdock_sdk::abi::{
    Address, AddressForm, Capabilities, MemoryKind, PointerFlags, PointerInfo,
};

use crate::case::{Case, Verdict, ensure, same_bytes, skipped};
use crate::host_memory::is_free_for_others;
use crate::names;
use crate::random::pattern;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::core(
        "a_query_of_the_base_names_the_allocation",
        "First byte of the allocation (not of a view). … Bytes of the allocation. … What is one \
         memory has one number",
        base,
    ),
    Case::core(
        "every_byte_of_an_allocation_is_its_own",
        "First byte of the allocation (not of a view).",
        interior,
    ),
    Case::core(
        "the_byte_behind_an_allocation_is_not_its_own",
        "Bytes of the allocation.",
        one_past_end,
    ),
    Case::core(
        "memory_of_others_is_unowned",
        "Unowned is an answer, not an error",
        unowned,
    ),
    Case::core(
        "a_word_that_only_looks_like_a_handle_is_unowned",
        "no word is dereferenced on trust",
        claimed_handles,
    ),
    Case::core(
        "freed_memory_is_not_answered_for",
        "Unowned is an answer, not an error … Never reused in the process.",
        freed,
    ),
    Case::core(
        "an_allocation_id_is_never_reused",
        "Never reused in the process.",
        ids,
    ),
    Case::core(
        "a_device_address_is_no_address_of_something_else",
        "One of the device's is never an address of something else in this process: its range is reserved \
         here, by the vendor's driver or by `mmap` with `PROT_NONE`; else the device uses handles.",
        reserved,
    ),
    Case::core(
        "host_accessible_memory_says_where_the_host_reaches_it",
        "The host may dereference `host_pointer`.",
        host_accessible,
    ),
];

fn owner(subject: &Subject<'_>, info: &PointerInfo, size: u64) -> Verdict {
    let device = subject.device();
    ensure!(
        info.kind == MemoryKind::DEVICE,
        "kind {} and not DEVICE",
        names::kind(info.kind)
    );
    ensure!(
        info.device == device,
        "device {} and not {device}",
        info.device
    );
    ensure!(
        info.size >= size,
        "{} bytes, but {size} were allocated",
        info.size
    );
    ensure!(info.allocation_id != 0, "the allocation id is 0");
    ensure!(info.reserved == 0, "the reserved word is {}", info.reserved);
    Ok(())
}

fn base(subject: &Subject<'_>) -> Verdict {
    for size in [1, 4096, 70_000] {
        let memory = subject.allocate(size)?;
        let info = memory.query(0)?;
        owner(subject, &info, size)?;
        ensure!(
            info.base == memory.address(),
            "base {} and not {}",
            info.base,
            memory.address()
        );
    }
    Ok(())
}

fn interior(subject: &Subject<'_>) -> Verdict {
    let size = 10_000;
    let memory = subject.allocate(size)?;
    let first = memory.query(0)?;
    for offset in [1, 255, 4096, size - 1] {
        let info = memory.query(offset)?;
        owner(subject, &info, size)?;
        ensure!(
            info.base == memory.address(),
            "byte {offset} has the base {}",
            info.base
        );
        ensure!(
            info.allocation_id == first.allocation_id,
            "byte {offset} has another id"
        );
        for (name, start, here) in [
            ("host_pointer", first.host_pointer, info.host_pointer),
            ("device_pointer", first.device_pointer, info.device_pointer),
        ] {
            let wanted = if start == 0 { 0 } else { start + offset };
            ensure!(
                here == wanted,
                "`{name}` of byte {offset} is {here:#x} and not {wanted:#x}"
            );
        }
    }
    Ok(())
}

fn one_past_end(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    let first = memory.query(0)?;
    let behind = memory.query(first.size)?;
    let own = behind.kind != MemoryKind::UNOWNED && behind.allocation_id == first.allocation_id;
    ensure!(
        !own,
        "the byte behind {} bytes still belongs to the allocation",
        first.size
    );
    Ok(())
}

fn unowned(subject: &Subject<'_>) -> Verdict {
    let heap = vec![0_u8; 100_000];
    let local = 0_u64;
    let words = [
        ("null", 0),
        ("an address on the stack", (&raw const local).addr() as u64),
        (
            "an address of the host's allocator",
            heap.as_ptr().addr() as u64,
        ),
        (
            "an address inside the host's allocator",
            heap.as_ptr().addr() as u64 + 50_000,
        ),
        ("the last address", u64::MAX),
    ];
    for (what, word) in words {
        nobody(subject, what, Address::pointer(word))?;
    }
    nobody(
        subject,
        "an address that overflows",
        Address {
            offset: 8,
            ..Address::pointer(u64::MAX)
        },
    )
}

fn claimed_handles(subject: &Subject<'_>) -> Verdict {
    // A live object keeps its own word busy; the words around it are nobody's.
    let memory = subject.allocate(64)?;
    let word = memory.address().word;
    let heap = vec![0_u64; 64];
    for claimed in [
        0,
        1,
        word ^ 0x8,
        word.wrapping_add(4),
        heap.as_ptr().addr() as u64,
        u64::MAX,
    ] {
        nobody(
            subject,
            &format!("the word {claimed:#x}"),
            Address::handle(claimed, 0),
        )?;
    }
    let form = AddressForm(77);
    nobody(
        subject,
        "an unknown form",
        Address {
            form,
            ..Address::pointer(word)
        },
    )
}

fn nobody(subject: &Subject<'_>, what: &str, address: Address) -> Verdict {
    let info = subject.hooks().pointer_query(address)?;
    ensure!(
        info.kind == MemoryKind::UNOWNED,
        "{what} is answered for as kind {}",
        names::kind(info.kind)
    );
    Ok(())
}

fn freed(subject: &Subject<'_>) -> Verdict {
    let memory = subject.allocate(4096)?;
    let (address, before) = (memory.address(), memory.query(0)?);
    let Some(memory) = Arc::into_inner(memory) else {
        return Ok(());
    };
    memory.free()?;
    let after = subject.hooks().pointer_query(address)?;
    let same = after.kind != MemoryKind::UNOWNED && after.allocation_id == before.allocation_id;
    ensure!(
        !same,
        "freed memory is still answered for as allocation {}",
        after.allocation_id
    );
    Ok(())
}

fn ids(subject: &Subject<'_>) -> Verdict {
    let mut seen = HashSet::new();
    let mut held = Vec::new();
    for round in 0..100 {
        let memory = subject.allocate(4096)?;
        let id = memory.query(0)?.allocation_id;
        ensure!(
            seen.insert(id),
            "allocation {round} has the id {id}, which another had before"
        );
        if round % 3 == 0 {
            held.push(memory);
        }
    }
    Ok(())
}

fn reserved(subject: &Subject<'_>) -> Verdict {
    let size = 1 << 20;
    let memory = subject.allocate(size)?;
    if memory.address().form == AddressForm::HANDLE {
        return skipped("the device's addresses are handles");
    }
    for offset in [0, size / 2, size - 1] {
        let word = memory.at(offset).as_pointer().unwrap_or(0);
        ensure!(
            !is_free_for_others(word),
            "the host could get memory of its own at {word:#x}, {offset} bytes inside an allocation"
        );
    }
    Ok(())
}

fn host_accessible(subject: &Subject<'_>) -> Verdict {
    subject.needs(Capabilities::HOST_ACCESSIBLE)?;
    let memory = subject.allocate(3000)?;
    let info = memory.query(0)?;
    let flagged = info.flags.contains(PointerFlags::HOST_ACCESSIBLE);
    ensure!(
        flagged,
        "the capability is claimed, but the query does not say so"
    );
    memory.write(0, &pattern(31, 3000))?;
    same_bytes(
        "what the host sees",
        &memory.host_view(&info)?,
        &pattern(31, 3000),
    )
}
