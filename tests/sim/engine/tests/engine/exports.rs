//! Memory of one engine that another one opens, as another process does.

use crossdock_sim_engine::{Error, Policy, ReportKind, Site};

use crate::machine::{Machine, address_mut};

/// All bytes of memory, as a copy brings them.
fn bytes(machine: &Machine, memory: u64) -> [u8; 300] {
    let mut bytes = [0_u8; 300];
    let stream = machine.stream();
    machine.copy("read", stream, address_mut(&mut bytes), memory, 300);
    machine.drain();
    bytes
}

#[test]
fn exported_memory_is_the_same_in_both_until_it_is_freed() {
    let (one, other) = (Machine::new(Policy::Lazy), Machine::new(Policy::Seeded));
    // Behind something else, so that it begins inside of a page.
    one.allocate(100);
    let memory = one.allocate(300);
    let (stream, there) = (one.stream(), other.stream());
    one.fill("fill", stream, memory, 300, 7);
    one.drain();
    let export = one.0.export(Site::here("export"), memory + 9).unwrap();
    let free = other.0.memory_info(0).unwrap();
    let opened = other.0.import(Site::here("import"), &export).unwrap();
    let owner = other.0.owner_of(opened + 299).unwrap();
    assert_eq!((owner.base, owner.bytes, owner.device), (opened, 300, 0));
    assert_eq!(other.0.memory_info(0).unwrap(), free);
    assert_eq!(bytes(&other, opened), [7; 300]);
    other.fill("fill", there, opened, 300, 8);
    other.drain();
    assert_eq!(bytes(&one, memory), [8; 300]);
    // What is opened is not opened by others in turn, nor freed.
    let refused = other.0.export(Site::here("export"), opened);
    assert!(matches!(refused, Err(Error::Invalid { .. })));
    let again = other.0.import(Site::here("import"), &export).unwrap();
    assert_ne!(again, opened);
    other.0.close_import(Site::here("close"), opened).unwrap();
    assert_eq!(other.0.owner_of(opened), None);
    assert_eq!(bytes(&one, memory), [8; 300]);
    one.0.free(Site::here("free"), memory).unwrap();
    let gone = other.0.import(Site::here("import"), &export);
    assert!(matches!(gone, Err(Error::Gone)));
    // The bytes stay as long as somebody has them.
    assert_eq!(bytes(&other, again), [0xDD; 300]);
    drop(one);
    assert_eq!(bytes(&other, again), [0xDD; 300]);
    assert_eq!(other.0.take_reports(), []);
}

#[test]
fn memory_that_is_closed_in_use_is_reported_and_then_not_used() {
    let (one, other) = (Machine::new(Policy::Lazy), Machine::new(Policy::Lazy));
    let memory = one.allocate(300);
    let export = one.0.export(Site::here("export"), memory).unwrap();
    let opened = other.0.import(Site::here("import"), &export).unwrap();
    let stream = other.stream();
    other.fill("fill", stream, opened, 300, 8);
    other.0.close_import(Site::here("close"), opened).unwrap();
    other.drain();
    let report = other.only_report();
    assert_eq!(
        (report.kind, report.first.name()),
        (ReportKind::FreeInUse, "fill"),
        "{report}"
    );
    let closed = other.0.close_import(Site::here("close"), opened);
    assert!(matches!(closed, Err(Error::Invalid { .. })));
    let fresh = other.allocate(300);
    assert_eq!(bytes(&other, fresh), [0xCD; 300]);
}
