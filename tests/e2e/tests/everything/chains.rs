//! Several moves, each of what the one before gave; moves behind a stream that the host holds; and large ones.

use crossdock::{Event, Stream, Tensor};
use crossdock_sdk::abi::Status;
use crossdock_sdk::dlpack::{Dtype, Layout};

use super::draw::Draw;
use super::expected::{CHOICES, expected, judged};
use super::moves::{Ends, moved};
use super::samples::Sample;

/// How many moves one behind the other.
const HOPS: usize = 4;

/// Goes through several devices on any streams, and waits at the end alone.
pub(super) fn chain(sample: &Sample, ends: &[Ends], draw: &mut Draw) {
    let [content, _] = &sample.contents;
    let first = draw.one(ends);
    let whole = Tensor::from_bytes(&first.device, &sample.whole, content).unwrap();
    let mut here = sample.part_of(&whole);
    let mut way = format!("{}: {}", sample.name, first.device.id());
    for _ in 0..HOPS {
        let (to, choice, on) = (draw.one(ends), *draw.one(&CHOICES), draw.one(ends));
        let from = here.device().clone();
        let (moved, on) = moved(&here, to, choice, Some(on));
        way = format!("{way} -> {} by {choice:?} {on}", to.device.id());
        if let Some((moved, _)) = judged(&way, moved, expected(&from, &to.device, choice)) {
            here = moved;
        }
    }
    drop(whole);
    let found = here
        .read()
        .unwrap_or_else(|error| panic!("{way}: {error}: {}", error.why()));
    assert!(
        sample.is_same(&found, &sample.part_of_bytes(content)),
        "{way}"
    );
}

/// Moves what a stream writes that waits for the host. Another thread lets it go on, before the move or behind it.
pub(super) fn behind_a_held_stream(from: &Ends, to: &Ends, draw: &mut Draw) {
    if from.stream.is_none() {
        return;
    }
    let layout = Layout::compact(Dtype::UINT16, &[7, 333]).unwrap();
    let bytes = usize::try_from(layout.bytes()).unwrap();
    let (old, new) = (draw.bytes(bytes), draw.bytes(bytes));
    let make = |bytes: &[u8]| Tensor::from_bytes(&from.device, &layout, bytes).unwrap();
    for choice in CHOICES {
        let (tensor, content) = (make(&old), make(&new));
        let (stream, host_event) = (
            Stream::new(&from.device).unwrap(),
            Event::host(&from.device).unwrap(),
        );
        stream.wait(&host_event).unwrap();
        tensor.copy_from(&content, Some(&stream)).unwrap();
        let on = *draw.one(&[Some(&stream), to.stream.as_ref()]);
        let on = on.unwrap_or(&stream);
        let moved = std::thread::scope(|scope| {
            scope.spawn(|| host_event.complete(Status::OK).unwrap());
            tensor.to_on(&to.device, choice, on)
        });
        let (one, other) = (from.device.id(), to.device.id());
        let what = format!("behind a held stream, {one} -> {other} by {choice:?}");
        let expected = expected(&from.device, &to.device, choice);
        if let Some((moved, _)) = judged(&what, moved, expected) {
            assert!(moved.read().unwrap() == new, "{what}");
        }
    }
}

/// Moves more bytes than a plugin's or the runtime's parts have.
pub(super) fn over_many_parts(from: &Ends, to: &Ends, draw: &mut Draw) {
    let layout = Layout::compact(Dtype::UINT8, &[(2 << 20) + 1001]).unwrap();
    let content = draw.bytes(usize::try_from(layout.bytes()).unwrap());
    let choice = *draw.one(&CHOICES);
    let tensor = Tensor::from_bytes(&from.device, &layout, &content).unwrap();
    let on = *draw.one(&[from, to]);
    let (moved, on) = moved(&tensor, to, choice, Some(on));
    let (one, other) = (from.device.id(), to.device.id());
    let what = format!("large, {one} -> {other} by {choice:?} {on}");
    let expected = expected(&from.device, &to.device, choice);
    if let Some((moved, _)) = judged(&what, moved, expected) {
        assert!(moved.read().unwrap() == content, "{what}");
    }
}
