//! Memory and streams of others: taken in, moved to every device, and let go.

use crossdock::{MemoryOwner, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{DataWord, Dtype, Flags, Layout, TensorView};

use super::draw::Draw;
use super::expected::{CHOICES, expected, judged};
use super::moves::Ends;
use super::vendors::{Lent, Vendor};

const BYTES: usize = 9999;

/// Imports memory of others on each device of a vendor, in the order of a stream of theirs.
pub(super) fn all<'a>(
    runtime: &Runtime,
    vendor: &'a Vendor,
    ends: &[Ends],
    draw: &mut Draw,
) -> Vec<Lent<'a>> {
    [0, 1]
        .map(|ordinal| import(runtime, vendor, ordinal, ends, draw))
        .into()
}

fn import<'a>(
    runtime: &Runtime,
    vendor: &'a Vendor,
    ordinal: i32,
    ends: &[Ends],
    draw: &mut Draw,
) -> Lent<'a> {
    let lent = Lent::new(vendor, ordinal, BYTES);
    let id = vendor.device(ordinal);
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
            assert!(lent.is_current(), "{what}");
        }
    }
    lent
}
