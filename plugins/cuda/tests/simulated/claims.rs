//! Claims: what others say of memory, beside what it is. Nothing is passed to the driver on trust.

use crossdock::{Error, Runtime, Tensor};
use crossdock_sdk::abi::{CopyArgs, MemoryKind, Side, Status, StreamHandle};
use crossdock_sdk::dlpack::{self, Dtype, Layout};
use crossdock_sdk::plugin::Plugin as _;

use crate::addresses::foreign;
use crate::driver::Driver;
use crate::hooks::{BYTES, allocate, device, download, free, host, open, round_trip, upload};
use crate::{POLICIES, over, runtime};

const KINDS: [MemoryKind; 4] = [
    MemoryKind::HOST,
    MemoryKind::DEVICE,
    MemoryKind::PINNED,
    MemoryKind::MANAGED,
];

/// How DLPack calls memory of a kind.
fn name_of(kind: MemoryKind) -> dlpack::Device {
    let name = match kind {
        MemoryKind::HOST => "cpu:0",
        MemoryKind::DEVICE => "cuda:1",
        MemoryKind::PINNED => "cuda_host:0",
        _ => "cuda_managed:0",
    };
    name.parse().unwrap()
}

/// What becomes of the import of memory of one kind that is called another.
fn check(runtime: &Runtime, (owner, truth): (&Tensor, MemoryKind), claimed: MemoryKind) {
    let told = format!("{truth:?} that is called {claimed:?}");
    let address = owner.address().as_pointer().unwrap();
    let layout = Layout::compact(Dtype::UINT8, &[64]).unwrap();
    let imported = foreign(runtime, (address, 0), &layout, name_of(claimed));
    let tensor = match imported {
        Ok(tensor) => tensor,
        Err(error) => {
            assert_ne!(claimed, truth, "{told}: {error:?}");
            return is_claim(&error, &told);
        }
    };
    match tensor.read() {
        Ok(read) => {
            // It is used as what it is, or as the host's where the host reaches it.
            let used_as = tensor.dlpack_device();
            let is_reached = truth != MemoryKind::DEVICE;
            let is_right =
                used_as == name_of(truth) || is_reached && used_as == dlpack::Device::CPU;
            assert!(is_right, "{told}: {used_as}");
            assert_eq!(
                Some(read.as_slice()),
                owner.read().unwrap().get(..64),
                "{told}"
            );
        }
        // Device memory that is called the host's is found out before its first use.
        Err(error) => {
            assert_eq!(
                (truth, claimed),
                (MemoryKind::DEVICE, MemoryKind::HOST),
                "{told}: {error:?}"
            );
            is_claim(&error, &told);
        }
    }
}

/// A refusal that says both what was claimed and whose it is.
fn is_claim(error: &Error, told: &str) {
    match error {
        Error::Claim { found, .. } => assert!(!found.is_empty(), "{told}"),
        other => unreachable!("{told}: {other:?}"),
    }
}

#[test]
fn each_kind_of_memory_under_each_name_is_used_as_it_is_or_refused() {
    let name = "claims::each_kind_of_memory_under_each_name_is_used_as_it_is_or_refused";
    if !over(name, &POLICIES) {
        return;
    }
    let runtime = runtime();
    let bytes: Vec<u8> = (0..=255).collect();
    let layout = Layout::compact(Dtype::UINT8, &[256]).unwrap();
    for truth in KINDS {
        let id = if truth == MemoryKind::HOST {
            "cpu:0"
        } else {
            "cuda:1"
        };
        let device = runtime.device(id.parse().unwrap()).unwrap();
        let owner = if truth == MemoryKind::HOST {
            Tensor::from_bytes(&device, &layout, &bytes).unwrap()
        } else {
            let owner = Tensor::empty_of(&device, &layout, truth).unwrap();
            owner.write(&bytes).unwrap();
            owner
        };
        for claimed in KINDS {
            check(&runtime, (&owner, truth), claimed);
        }
    }
}

#[test]
fn a_copy_between_sides_of_any_claimed_kind_is_right_or_refused() {
    let name = "claims::a_copy_between_sides_of_any_claimed_kind_is_right_or_refused";
    if !over(name, &POLICIES) {
        return;
    }
    let cuda = open();
    let kinds = [MemoryKind::DEVICE, MemoryKind::PINNED, MemoryKind::MANAGED];
    let target = allocate(&cuda, MemoryKind::DEVICE, 0).unwrap();
    let content: Vec<u8> = (0..BYTES).map(|at| at.to_le_bytes()[0]).collect();
    let own = content.clone();
    for truth in KINDS {
        let memory = kinds
            .contains(&truth)
            .then(|| allocate(&cuda, truth, 0).unwrap());
        let word = match memory {
            Some(memory) => {
                upload(&cuda, device(memory.word, 0), &content, StreamHandle::NONE).unwrap();
                memory.word
            }
            None => own.as_ptr().expose_provenance() as u64,
        };
        for claimed in KINDS {
            upload(
                &cuda,
                device(target.word, 0),
                &[0; BYTES],
                StreamHandle::NONE,
            )
            .unwrap();
            let src = Side {
                kind: claimed,
                ..host(word)
            };
            let args = CopyArgs {
                dst: device(target.word, 0),
                src,
                bytes: BYTES as u64,
            };
            // SAFETY: both sides live until the copy is done.
            let copied = unsafe { cuda.copy(args, StreamHandle::NONE) };
            let mut back = vec![0; BYTES];
            download(&cuda, &mut back, device(target.word, 0), StreamHandle::NONE).unwrap();
            match copied {
                Ok(()) => assert!(back == content, "{truth:?} that is called {claimed:?}"),
                Err(error) => {
                    assert_ne!(claimed, truth, "{error}");
                    assert_eq!(error.status(), Status::NOT_OWNER, "{error}");
                    assert!(back.iter().all(|byte| *byte == 0));
                }
            }
        }
        if let Some(memory) = memory {
            free(&cuda, memory, truth).unwrap();
        }
    }
    free(&cuda, target, MemoryKind::DEVICE).unwrap();
}

#[test]
fn memory_of_the_other_device_is_worked_on_where_it_is() {
    if !over(
        "claims::memory_of_the_other_device_is_worked_on_where_it_is",
        &POLICIES,
    ) {
        return;
    }
    let (cuda, driver) = (open(), Driver::open());
    let memory = allocate(&cuda, MemoryKind::DEVICE, 1).unwrap();
    // The number of the device is wrong; the address tells.
    round_trip(&cuda, device(memory.word, 0), StreamHandle::NONE).unwrap();
    let elsewhere = round_trip(&cuda, device(memory.word, 7), StreamHandle::NONE);
    assert_eq!(elsewhere.unwrap_err().status(), Status::INVALID);
    free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    drop(cuda);
    assert_eq!(driver.leaks(), 0);
}
