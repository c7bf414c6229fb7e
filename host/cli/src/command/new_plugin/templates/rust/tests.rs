//! The plugin's parts, called as a host calls them: for a debugger and for sanitizers.

use crossdock_sdk::abi::{Address, AllocateArgs, CopyArgs, MemoryKind, Side};

use crate::memory::Memory;

fn allocated(memory: &Memory, size: u64) -> Address {
    let args = AllocateArgs {
        size,
        alignment: 1,
        kind: MemoryKind::DEVICE,
        device: 0,
    };
    memory.allocate(&args).expect("there is memory")
}

fn side(address: Address, kind: MemoryKind) -> Side {
    Side {
        address,
        kind,
        device: 0,
    }
}

fn copy(memory: &Memory, dst: Side, src: Side, bytes: u64) -> bool {
    // SAFETY: what lies in the host's memory outlives the call.
    let copy = unsafe { memory.copy(&CopyArgs { dst, src, bytes }) };
    copy.map(|copy| copy.run()).is_ok()
}

#[test]
fn bytes_survive_the_way_there_and_back() {
    let memory = Memory::default();
    let there = allocated(&memory, 4);
    let (from, mut back) = ([1_u8, 2, 3, 4], [0_u8; 4]);
    let host = |address: *const u8| {
        side(
            Address::pointer(address.expose_provenance() as u64),
            MemoryKind::HOST,
        )
    };
    let device = side(there, MemoryKind::DEVICE);
    assert!(copy(&memory, device, host(from.as_ptr()), 4));
    assert!(copy(&memory, host(back.as_mut_ptr()), device, 4));
    assert_eq!(back, from);
    assert!(
        !copy(&memory, device, host(from.as_ptr()), 5),
        "it reaches past its allocation"
    );
    memory.free(there, MemoryKind::DEVICE).expect("it is there");
}

#[test]
fn a_query_knows_an_allocation_until_it_is_freed() {
    let memory = Memory::default();
    let address = allocated(&memory, 100);
    let inside = Address::pointer(address.as_pointer().expect("a pointer") + 99);
    assert_eq!(memory.query(inside).kind, MemoryKind::DEVICE);
    memory
        .free(address, MemoryKind::DEVICE)
        .expect("it is there");
    assert_eq!(memory.query(inside).kind, MemoryKind::UNOWNED);
    assert!(
        memory.free(address, MemoryKind::DEVICE).is_err(),
        "it is freed already"
    );
}
