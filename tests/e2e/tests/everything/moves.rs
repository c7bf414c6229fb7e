//! One tensor to one device by each route, behind work that may be pending on a stream of its own device.

use crossdock::{Device, Error, Route, RouteChoice, RouteKind, Stream, Tensor};

use crossdock_sdk::abi::Status;

use super::draw::Draw;
use super::expected::{CHOICES, expected, judged};
use super::samples::Sample;

/// A device, and a stream of it where it has streams.
pub(super) struct Ends {
    pub(super) device: Device,
    pub(super) stream: Option<Stream>,
}

impl Ends {
    pub(super) fn new(device: Device) -> Self {
        let stream = match Stream::new(&device) {
            Err(error) if error.status() == Some(Status::UNSUPPORTED) => None,
            stream => Some(stream.unwrap()),
        };
        Self { device, stream }
    }
}

/// Moves on the stream of a device, or at once where that has none; and which of both it was.
pub(super) fn moved(
    tensor: &Tensor,
    to: &Ends,
    choice: RouteChoice,
    on: Option<&Ends>,
) -> (Result<(Tensor, Route), Error>, String) {
    let stream = on.and_then(|on| Some((&on.device, on.stream.as_ref()?)));
    match stream {
        None => (tensor.to(&to.device, choice), "at once".to_owned()),
        Some((device, stream)) => {
            let on = format!("on a stream of {}", device.id());
            (tensor.to_on(&to.device, choice, stream), on)
        }
    }
}

/// A tensor on a device, whose content changes in the order of a stream.
pub(super) struct Source<'a> {
    sample: &'a Sample,
    ends: &'a Ends,
    whole: Tensor,
    part: Tensor,
    contents: [Tensor; 2],
    /// What the part holds with each content.
    wanted: [Vec<u8>; 2],
    turn: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(sample: &'a Sample, ends: &'a Ends) -> Self {
        let [first, second] = &sample.contents;
        let make = |bytes| Tensor::from_bytes(&ends.device, &sample.whole, bytes).unwrap();
        let whole = make(second);
        Self {
            part: sample.part_of(&whole),
            contents: [make(first), make(second)],
            wanted: [first, second].map(|bytes| sample.part_of_bytes(bytes)),
            turn: 0,
            sample,
            ends,
            whole,
        }
    }

    /// Puts a content there in the order of its device's stream, and waits for nothing.
    fn write(&self, content: usize) {
        let stream = self.ends.stream.as_ref();
        self.whole
            .copy_from(&self.contents[content], stream)
            .unwrap();
    }

    /// Moves it by each route, at once or on any device's stream.
    pub(super) fn to(&mut self, to: &Ends, all: &[Ends], draw: &mut Draw) {
        let from = &self.ends.device;
        for choice in CHOICES {
            self.turn += 1;
            let content = self.turn % 2;
            self.write(content);
            let streams = [None, Some(self.ends), Some(to), Some(draw.one(all))];
            let (moved, on) = moved(&self.part, to, choice, *draw.one(&streams));
            let what = format!(
                "{}, {} -> {} by {choice:?} {on}",
                self.sample.name,
                from.id(),
                to.device.id()
            );
            let expected = expected(from, &to.device, choice);
            let Some((moved, route)) = judged(&what, moved, expected) else {
                continue;
            };
            assert!(moved.device() == &to.device, "{what}");
            self.holds(&moved, content, &what);
            if route.kind == RouteKind::Alias {
                self.is_alias(&moved, content, &what);
            } else if self.turn.is_multiple_of(5) {
                // A copy is its own.
                self.write(1 - content);
                self.holds(&moved, content, &what);
            }
        }
    }

    fn holds(&self, moved: &Tensor, content: usize, what: &str) {
        let found = moved.read().unwrap();
        assert!(self.sample.is_same(&found, &self.wanted[content]), "{what}");
    }

    /// What is written on one side is read on the other.
    fn is_alias(&self, moved: &Tensor, content: usize, what: &str) {
        self.write(1 - content);
        self.holds(moved, 1 - content, what);
        moved.write(&self.wanted[content]).unwrap();
        let found = self.part.read().unwrap();
        let is_back = self.sample.is_same(&found, &self.wanted[content]);
        assert!(is_back, "back, {what}");
    }
}
