//! Memory and streams of others: taken in, moved to every device, and let go.

use crossdock::{MemoryOwner, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{DataWord, Device, DeviceType, Dtype, Flags, Layout, TensorView};

use super::draw::Draw;
use super::expected::{CHOICES, expected, judged};
use super::moves::Ends;
use crate::driver::Driver;

/// What others made. Giving it back waits for its device, as the driver has it.
pub(super) struct Lent<'a> {
    driver: &'a Driver,
    context: u64,
    address: u64,
    stream: u64,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.driver.enter(self.context);
        self.driver.destroy_stream(self.stream);
        self.driver.free(self.address);
        self.driver.destroy_context(self.context);
    }
}

const BYTES: usize = 9999;

/// Imports memory of a context of others on each device, in the order of a stream of theirs.
pub(super) fn all<'a>(
    runtime: &Runtime,
    driver: &'a Driver,
    ends: &[Ends],
    draw: &mut Draw,
) -> Vec<Lent<'a>> {
    [0, 1]
        .map(|ordinal| import(runtime, driver, ordinal, ends, draw))
        .into()
}

fn import<'a>(
    runtime: &Runtime,
    driver: &'a Driver,
    ordinal: i32,
    ends: &[Ends],
    draw: &mut Draw,
) -> Lent<'a> {
    let lent = Lent {
        driver,
        context: driver.create_context(ordinal),
        address: driver.allocate(BYTES),
        stream: driver.create_stream(),
    };
    let id = Device::new(DeviceType::CUDA, ordinal);
    let device = runtime.device(id).unwrap();
    let content = draw.bytes(BYTES);
    for to in ends {
        for choice in CHOICES {
            let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(BYTES).unwrap()]).unwrap();
            let data = DataWord::from_addr(usize::try_from(lent.address).unwrap());
            let view = TensorView::new(layout, data, 0, id, Flags::NONE).unwrap();
            // SAFETY: the memory is there until `lent` is dropped, and nobody else uses it.
            let tensor = unsafe { Tensor::import_memory(runtime, view, MemoryOwner::new(())) };
            let tensor = tensor.unwrap();
            tensor.write(&content).unwrap();
            // SAFETY: a live stream, which outlives its wrap; nobody else puts work on it.
            let stream = unsafe { Stream::wrap(&device, lent.stream) }.unwrap();
            tensor.ready_on(&stream).unwrap();
            let moved = match draw.below(2) {
                0 => tensor.to_on(&to.device, choice, &stream),
                _ => tensor.to(&to.device, choice),
            };
            drop(tensor);
            let what = format!("memory of others, {id} -> {} by {choice:?}", to.device.id());
            let expected = expected(&device, &to.device, choice);
            if let Some((moved, _)) = judged(&what, moved, expected) {
                assert!(moved.read().unwrap() == content, "{what}");
            }
            assert_eq!(driver.current(), lent.context);
        }
    }
    lent
}
