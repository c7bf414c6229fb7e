//! Who owns a word, asked while memory comes and goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crossdock_sdk::{
    abi::{Address, MemoryKind, PointerInfo, Status},
    plugin::{Plugin as _, Register as _},
};

use crate::rig::{allocate, free, opened, status};

const SIZE: u64 = 4096;

/// The object, and where the host reaches it, if anywhere.
fn names(base: Address, info: &PointerInfo) -> Vec<Address> {
    let host = (info.host_pointer != 0).then(|| Address::pointer(info.host_pointer));
    [base].into_iter().chain(host).collect()
}

#[test]
fn an_answer_is_about_memory_that_lives_while_threads_allocate_and_free() {
    const ROUNDS: u32 = 400;
    let Some(plugin) = opened() else { return };
    let ask = |address| plugin.pointer_query(address).unwrap();
    let kept = allocate(&plugin, MemoryKind::DEVICE, SIZE);
    let known = ask(kept);
    let (changing, latest) = (AtomicBool::new(true), AtomicU64::new(0));
    let read = || {
        while changing.load(SeqCst) {
            for name in names(kept, &known) {
                let found = ask(name);
                assert_eq!(
                    (found.base, found.allocation_id),
                    (kept, known.allocation_id)
                );
            }
            let word = latest.load(SeqCst);
            let found = ask(Address::handle(word, 0));
            assert!(found.kind == MemoryKind::UNOWNED || found.base.word == word);
        }
    };
    let change = || {
        for _ in 0..ROUNDS {
            let base = allocate(&plugin, MemoryKind::DEVICE, SIZE);
            latest.store(base.word, SeqCst);
            let info = ask(base);
            assert_eq!((info.base, info.size), (base, SIZE));
            assert_eq!(free(&plugin, base, MemoryKind::DEVICE), Status::OK);
            for name in names(base, &info) {
                // Another thread may have been given the same place since.
                assert_ne!(ask(name).allocation_id, info.allocation_id);
            }
        }
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let changers = [scope.spawn(change), scope.spawn(change)];
        for changer in changers {
            changer.join().unwrap();
        }
        changing.store(false, SeqCst);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(free(&plugin, kept, MemoryKind::DEVICE), Status::OK);
}

#[test]
fn host_memory_is_registered_once_and_known_until_it_is_not() {
    let Some(plugin) = opened() else { return };
    let mut bytes = vec![0_u8; 1 << 16];
    let start = bytes.as_mut_ptr();
    let register = |offset: usize, size| {
        // SAFETY: the range lies in `bytes`, which outlives its registration.
        unsafe { plugin.register_host(0, start.wrapping_add(offset).cast(), size) }
    };
    let ask = |offset: u64| {
        let address = Address::pointer(start.expose_provenance() as u64 + offset);
        plugin.pointer_query(address).unwrap()
    };
    if let Err(error) = register(4096, 8192) {
        println!("skipped: {error}");
        return;
    }
    for overlapping in [(0, 4097), (4096, 8192), (12_287, 1), (0, 1 << 16)] {
        let refused = register(overlapping.0, overlapping.1);
        assert_eq!(status(refused), Status::CONFLICT, "{overlapping:?}");
    }
    register(12_288, 4096).unwrap();
    let (first, second) = (ask(12_287), ask(12_288));
    assert_eq!((first.size, second.size), (8192, 4096));
    assert_ne!(first.allocation_id, second.allocation_id);
    assert_eq!(ask(4095).kind, MemoryKind::UNOWNED);
    plugin
        .unregister_host(0, start.wrapping_add(4096).cast())
        .unwrap();
    assert_eq!(ask(12_287).kind, MemoryKind::UNOWNED);
    assert_eq!(ask(12_288).allocation_id, second.allocation_id);
    plugin
        .unregister_host(0, start.wrapping_add(12_288).cast())
        .unwrap();
    assert_eq!(ask(12_288).kind, MemoryKind::UNOWNED);
}
