//! Layouts of every kind, read and written on every device: right, with nothing beside the elements
//! touched, or refused because elements overlap.
#![expect(unsafe_code, reason = "hands managed tensors over by their pointers")]
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot be set up has failed, and any byte will do"
)]

use std::collections::BTreeSet;

use crossdock::{Device, Error, Stream, Tensor};
use crossdock_e2e::everything;
use crossdock_e2e::modelled_memory::{ModelledMemory, content, places, repeated, trimmed};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{
    AxisSlice, DataWord, Dtype, Flags, Layout, Produced, Received, TensorView,
};

fn overlaps(layout: &Layout) -> bool {
    let places = places(layout);
    places.iter().collect::<BTreeSet<_>>().len() < places.len()
}

fn strided(dtype: Dtype, shape: &[i64], strides: &[i64]) -> Layout {
    Layout::strided(dtype, shape, strides).unwrap()
}

fn dtype(name: &str) -> Dtype {
    name.parse().unwrap()
}

/// Why it is misuse.
fn why(result: Result<(), Error>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Misuse { .. }), "{error:?}");
    error.why()
}

#[test]
fn a_tensor_that_the_host_has_no_room_for_is_read_as_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    // More than an address space holds, of one byte.
    let layout = strided(Dtype::UINT8, &[1 << 50], &[0]);
    let memory = ModelledMemory::new(&runtime, &runtime.devices()[0], 256);
    let error = memory.view(&layout, 0).read().unwrap_err();
    assert_eq!(error.status(), Some(Status::OOM_HOST), "{error:?}");
}

#[test]
fn a_destination_whose_elements_overlap_is_refused_with_its_axes() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let cases: [(&[i64], &[i64], &str); 3] = [
        (&[4], &[0], "axes [0]"),
        (&[2, 3, 4], &[0, 4, 1], "axes [0]"),
        (&[5, 3], &[1, 1], "axes [0, 1]"),
    ];
    for device in runtime.devices() {
        for (shape, strides, axes) in cases {
            let memory = ModelledMemory::new(&runtime, &device, 256);
            let layout = strided(Dtype::INT32, shape, strides);
            let view = memory.view(&layout, 16);
            let bytes = content(&layout, 3);
            let compact = Layout::compact(Dtype::INT32, shape).unwrap();
            let source = Tensor::from_bytes(&device, &compact, &bytes).unwrap();
            let refusals = [
                view.write(&bytes),
                view.fill(&[1; 4], None),
                view.copy_from(&source, None),
                view.copy_from(&view, None),
            ];
            for refusal in refusals {
                let why = why(refusal);
                assert!(why.contains(axes), "{device}: {why}");
            }
            memory.check("nothing was written");
            assert_eq!(view.read().unwrap().len(), bytes.len());
        }
    }
}

#[test]
fn axes_that_only_interleave_are_written_and_read_right() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        for name in ["int4", "int8", "int8x3", "float64", "complex128"] {
            let layout = strided(dtype(name), &[3, 3], &[2, 3]);
            let mut memory = ModelledMemory::new(&runtime, &device, 512);
            let view = memory.view(&layout, 32);
            let bytes = content(&layout, 9);
            view.write(&bytes).unwrap();
            memory.set(&layout, 32, &bytes);
            memory.check(name);
            let read = trimmed(&layout, view.read().unwrap());
            assert_eq!(read, bytes, "{name} on {device}");
        }
    }
}

#[test]
fn a_layout_of_more_parts_than_a_plugin_takes_is_written_in_several() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = strided(Dtype::UINT8, &[40, 40, 2, 2, 2], &[1400, -33, 16, -7, 3]);
    for device in runtime.devices() {
        let mut memory = ModelledMemory::new(&runtime, &device, 60_000);
        let view = memory.view(&layout, 2000);
        let bytes = content(&layout, 5);
        view.write(&bytes).unwrap();
        memory.set(&layout, 2000, &bytes);
        memory.check("a write in parts");
        assert!(view.read().unwrap() == bytes, "{device}");
    }
}

#[test]
fn strided_elements_of_any_length_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        // 72,000 bits.
        let layout = strided(dtype("uint8x9000"), &[2, 2], &[1, -3]);
        let mut memory = ModelledMemory::new(&runtime, &device, 9000 * 8);
        let view = memory.view(&layout, 9000 * 4);
        let bytes = content(&layout, 1);
        view.write(&bytes).unwrap();
        memory.set(&layout, 9000 * 4, &bytes);
        memory.check("a write");
        assert!(view.read().unwrap() == bytes, "{device}");
    }
}

#[test]
fn a_tensor_without_elements_goes_everywhere_without_a_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let layout = Layout::compact(Dtype::INT16, &[3, 0]).unwrap();
    for from in runtime.devices() {
        let tensor = Tensor::from_bytes(&from, &layout, &[]).unwrap();
        tensor.fill(&[1, 2], None).unwrap();
        tensor.write(&[]).unwrap();
        for to in runtime.devices() {
            let (moved, route) = tensor.to(&to, crossdock::RouteChoice::Best).unwrap();
            assert_eq!(moved.layout().shape(), [3, 0], "{route}");
            assert!(moved.read().unwrap().is_empty(), "{route}");
            let apart = Tensor::empty(&to, &layout).unwrap();
            apart.copy_from(&tensor, None).unwrap();
        }
    }
}

#[test]
fn packed_views_that_end_inside_a_byte_keep_their_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        for (name, count) in [("int4", 1), ("int4", 7), ("float6_e3m2fn", 5), ("uint1", 3)] {
            let layout = Layout::compact(dtype(name), &[count]).unwrap();
            let mut memory = ModelledMemory::new(&runtime, &device, 64);
            let view = memory.view(&layout, 8);
            let what = format!("{count} {name}");
            let ones = trimmed(
                &layout,
                vec![0xff; usize::try_from(layout.bytes()).unwrap()],
            );

            let bytes = content(&layout, 0xc5);
            view.write(&bytes).unwrap();
            memory.set(&layout, 8, &bytes);
            memory.check(&format!("a write of {what}"));

            view.fill(&[0x37], None).unwrap();
            memory.set(&layout, 8, &repeated(&layout, &[0x37]));
            memory.check(&format!("a fill of {what}"));

            for from in runtime.devices() {
                let bytes = content(&layout, 0x3c);
                // What is behind the source's last element is no part of it.
                let mut padded = vec![0xff; bytes.len()];
                for (byte, (given, used)) in padded.iter_mut().zip(bytes.iter().zip(&ones)) {
                    *byte = given | !used;
                }
                let source = Tensor::from_bytes(&from, &layout, &padded).unwrap();
                view.copy_from(&source, None).unwrap();
                memory.set(&layout, 8, &bytes);
                memory.check(&format!("a copy of {what} from {from}"));
            }
        }
    }
}

#[test]
fn a_fill_repeats_the_low_bits_of_an_element_of_any_width() {
    const NAMES: [&str; 12] = [
        "uint1",
        "uint2",
        "uint4",
        "int4",
        "uint1x3",
        "uint1x5",
        "float6_e3m2fn",
        "uint1x7",
        "uint4x3",
        "uint1x9",
        "uint8",
        "uint8x2",
    ];
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    for device in runtime.devices() {
        let stream = Stream::new(&device).ok();
        for (name, on) in NAMES
            .iter()
            .flat_map(|name| [(name, None), (name, stream.as_ref())])
        {
            for count in [1, 5, 6, 8, 19] {
                let layout = Layout::compact(dtype(name), &[count]).unwrap();
                // The bits above the element's do not count.
                let element = [0xd7, 0xa9][..layout.element_bits().div_ceil(8) as usize].to_vec();
                let expected = repeated(&layout, &element);
                let what = format!("{count} {name} on {device}");

                let whole = Tensor::empty(&device, &layout).unwrap();
                whole.fill(&element, on).unwrap();
                whole.synchronize(None).unwrap();
                assert_eq!(trimmed(&layout, whole.read().unwrap()), expected, "{what}");

                for layout in [&layout, &strided(dtype(name), &[count], &[3])] {
                    let mut memory = ModelledMemory::new(&runtime, &device, 256);
                    let view = memory.view(layout, 8);
                    view.fill(&element, on).unwrap();
                    view.synchronize(None).unwrap();
                    memory.set(layout, 8, &expected);
                    memory.check(&what);
                }
            }
        }
    }
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    fn layout(&mut self) -> Layout {
        const NAMES: [&str; 6] = [
            "int4",
            "int8",
            "int8x3",
            "float64",
            "complex128",
            "float6_e3m2fn",
        ];
        let dtype = dtype(NAMES.get(self.below(6)).unwrap());
        let rank = self.below(4);
        let axis = |_| {
            (
                self.below(4).cast_signed() as i64,
                self.below(7).cast_signed() as i64 - 3,
            )
        };
        let (shape, strides): (Vec<i64>, Vec<i64>) = (0..rank).map(axis).unzip();
        strided(dtype, &shape, &strides)
    }
}

/// Replaces the elements of a view in one of three ways, and gives what they are then.
fn replaced(view: &Tensor, how: usize, from: &Device, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let dtype = view.dtype();
    match how {
        0 => view.write(&bytes).map(|()| bytes),
        1 => {
            let element = content(&Layout::compact(dtype, &[1]).unwrap(), 0x44);
            let compact = Layout::compact(dtype, view.layout().shape()).unwrap();
            let all = repeated(&compact, &element);
            view.fill(&element, None).map(|()| all)
        }
        _ => {
            let compact = Layout::compact(dtype, view.layout().shape()).unwrap();
            let source = Tensor::from_bytes(from, &compact, &bytes).unwrap();
            view.copy_from(&source, None).map(|()| bytes)
        }
    }
}

#[test]
fn every_operation_on_random_layouts_is_right_or_refused_because_elements_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let (mut numbers, devices) = (Numbers(10), runtime.devices());
    for device in &devices {
        for round in 0..400_u32 {
            let layout = numbers.layout();
            let what = format!("round {round} on {device}: {layout:?}");
            let mut memory = ModelledMemory::new(&runtime, device, 1024);
            let view = memory.view(&layout, 512);
            let bytes = content(&layout, round.to_le_bytes()[0]);
            let how = numbers.below(3);
            let from = &devices[numbers.below(devices.len())];
            match replaced(&view, how, from, bytes) {
                Ok(bytes) => {
                    assert!(!overlaps(&layout), "{what}");
                    memory.set(&layout, 512, &bytes);
                    let read = trimmed(&layout, view.read().unwrap());
                    assert_eq!(read, trimmed(&layout, bytes), "{what}");
                }
                Err(error) => {
                    assert!(overlaps(&layout), "{what}: {error}: {}", error.why());
                }
            }
            memory.check(&what);
        }
    }
}

#[test]
fn threads_that_write_interleaved_views_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    const COUNT: i64 = 64;
    for device in runtime.devices() {
        let layout = Layout::compact(Dtype::INT32, &[COUNT]).unwrap();
        let whole = Tensor::from_bytes(&device, &layout, &[0; 4 * COUNT as usize]).unwrap();
        let half = |start| {
            let (step, len) = (2, COUNT / 2);
            whole.slice(&[AxisSlice { start, step, len }]).unwrap()
        };
        let start = std::sync::Barrier::new(2);
        for round in 1..100_u8 {
            let write = |part: Tensor| {
                start.wait();
                part.write(&[round; 2 * COUNT as usize]).unwrap();
            };
            std::thread::scope(|scope| {
                scope.spawn(|| write(half(0)));
                scope.spawn(|| write(half(1)));
            });
            let read = whole.read().unwrap();
            assert!(read.iter().all(|byte| *byte == round), "{device}: {read:?}");
        }
    }
}

#[test]
fn device_memory_that_came_back_as_host_memory_overlaps_itself() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = everything(folder.path());
    let cpu = runtime.device("cpu:0".parse().unwrap()).unwrap();
    for device in runtime.devices() {
        const COUNT: i64 = 1 << 20;
        let layout = Layout::compact(Dtype::UINT32, &[COUNT]).unwrap();
        let bytes: Vec<u8> = (0..COUNT as u32).flat_map(u32::to_le_bytes).collect();
        let tensor = Tensor::from_bytes(&device, &layout, &bytes).unwrap();
        let Ok((on_host, _)) = tensor.to(
            &cpu,
            crossdock::RouteChoice::Only(crossdock::RouteKind::Alias),
        ) else {
            continue;
        };
        // As an array of others, which keeps it, would hand it back.
        let produced = on_host.export().unwrap();
        let address = on_host.address().as_pointer().unwrap();
        let data = DataWord::from_addr(address as usize);
        let view = TensorView::new(layout, data, 0, cpu.id(), Flags::NONE).unwrap();
        let again = Produced::new(produced, &view).unwrap();
        // SAFETY: a live export that nobody else owns.
        let received = unsafe { Received::from_versioned(again.into_raw()) }.unwrap();
        let back = Tensor::import(&runtime, received).unwrap();
        let part = |start| {
            [AxisSlice {
                start,
                step: 1,
                len: COUNT - 1,
            }]
        };
        let (to, from) = (
            tensor.slice(&part(1)).unwrap(),
            back.slice(&part(0)).unwrap(),
        );
        to.copy_from(&from, None).unwrap();
        let shifted = [&bytes[..4], &bytes[..bytes.len() - 4]].concat();
        assert!(tensor.read().unwrap() == shifted, "{device}");
    }
}
