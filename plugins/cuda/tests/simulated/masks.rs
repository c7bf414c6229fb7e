//! `CUDA_VISIBLE_DEVICES`: the device that a number means is the one with the expected uuid.

use crossdock_plugin_cuda::Plugin as Cuda;
use crossdock_sdk::abi::{MemoryKind, ProbeState, StreamHandle};
use crossdock_sdk::plugin::{Plugin as _, read_fixed_text};

use crate::hooks::{allocate, device, free, open, query, round_trip};
use crate::{is_inside, run_over};

const TEST: &str = "masks::the_device_of_a_number_is_the_one_that_the_mask_names";
const WANTED: &str = "CROSSDOCK_WANTED";

/// The beginning of the uuid of the third device, which no other one has.
const THIRD: &str = "GPU-73696d75-6c61-7465-642d-637564610002";
/// What all uuids begin with.
const ANY: &str = "GPU-73696d75";

#[test]
fn the_device_of_a_number_is_the_one_that_the_mask_names() {
    if is_inside(TEST) {
        let wanted = std::env::var(WANTED).unwrap();
        let wanted: Vec<u8> = wanted
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        return names(&wanted);
    }
    let masks = [
        (None, "0 1 2"),
        (Some("1"), "1"),
        (Some("2,1,0"), "2 1 0"),
        (Some(THIRD), "2"),
        (Some("0, 2"), "0 2"),
        // What is no device ends the list.
        (Some("1,7,0"), "1"),
        (Some("1,-1,0"), "1"),
        // A beginning that several have names none.
        (Some(ANY), ""),
        (Some(""), ""),
        (Some("0,0"), ""),
    ];
    for (mask, wanted) in masks {
        let mut words = vec![(WANTED, wanted)];
        words.extend(mask.map(|mask| ("CUDA_VISIBLE_DEVICES", mask)));
        let Some((code, told)) = run_over(TEST, &["--cuda", "3"], &words) else {
            return;
        };
        assert_eq!(code, Some(0), "{mask:?}: {told}");
    }
}

/// The devices that the plugin has, in this order, by their numbers in the machine.
fn names(wanted: &[u8]) {
    let probe = Cuda::probe().unwrap();
    if wanted.is_empty() {
        assert_eq!(
            probe.state,
            ProbeState::ABSENT,
            "{}",
            read_fixed_text(&probe.detail)
        );
        return;
    }
    assert_eq!(
        probe.state,
        ProbeState::READY,
        "{}",
        read_fixed_text(&probe.detail)
    );
    let cuda = open();
    assert_eq!(usize::try_from(cuda.device_count()).unwrap(), wanted.len());
    for (index, number) in (0..).zip(wanted) {
        let info = cuda.device_info(index).unwrap();
        assert_eq!(info.uuid[15], *number);
        assert_eq!(
            read_fixed_text(&info.name),
            format!("Simulated GPU {number}")
        );
        let bus = read_fixed_text(&info.pci_bus_id);
        assert!(bus.contains(&format!("{:02x}:00.0", number + 1)), "{bus}");
        // Its memory says the number by which the process knows it, also where that is not the first.
        assert_eq!(u32::try_from(info.dl_id).unwrap(), index);
        let memory = allocate(&cuda, MemoryKind::DEVICE, index).unwrap();
        assert_eq!(query(&cuda, memory.word).device, index);
        round_trip(&cuda, device(memory.word, index), StreamHandle::NONE).unwrap();
        free(&cuda, memory, MemoryKind::DEVICE).unwrap();
    }
}
