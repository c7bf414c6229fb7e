//! Bytes arrive, in the order of the stream, by every policy.

use crossdock_sim_engine::Strided;

use crate::machine::{Machine, POLICIES, address, address_mut};

#[test]
fn bytes_go_to_the_device_and_back_in_the_order_of_the_stream() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let stream = machine.stream();
        let (device, source) = (machine.allocate(64), [7_u8; 64]);
        let mut target = [0_u8; 64];
        machine.copy("in", stream, device, address(&source), 64);
        machine.fill("half", stream, device + 32, 32, 9);
        machine.copy("out", stream, address_mut(&mut target), device, 64);
        machine.synchronize(stream).unwrap();
        assert_eq!(target[..32], [7; 32], "{policy:?}");
        assert_eq!(target[32..], [9; 32], "{policy:?}");
        assert_eq!(machine.0.reports(), [], "{policy:?}");
    }
}

#[test]
#[expect(
    unsafe_code,
    reason = "submits a copy of memory that the test keeps alive"
)]
fn elements_of_four_bits_are_copied_with_any_strides() {
    for policy in POLICIES {
        let machine = Machine::new(policy);
        let stream = machine.stream();
        let source = [0x10_u8, 0x32, 0x54];
        let mut target = [0xFF_u8; 3];
        let from = Strided {
            address: address(&source),
            bit_offset: 20,
            strides: vec![-1],
        };
        let to = Strided {
            address: address_mut(&mut target),
            bit_offset: 4,
            strides: vec![1],
        };
        let site = crossdock_sim_engine::Site::here("copy_strided");
        // SAFETY: both arrays live until the stream was synchronized.
        unsafe { machine.0.copy_strided(site, stream, 4, &[4], (&to, &from)) }.unwrap();
        machine.synchronize(stream).unwrap();
        assert_eq!(target, [0x5F, 0x34, 0xF2], "{policy:?}");
    }
}
