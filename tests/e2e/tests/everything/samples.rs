//! What is moved: elements of every dtype in each layout, and what arrives, found without the runtime.

use crossdock::Tensor;
use crossdock_sdk::dlpack::{AxisSlice, Dtype, DtypeCode, Layout};

use super::draw::Draw;

/// A dtype, and whether elements smaller than a byte take whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) dtype: Dtype,
    is_padded: bool,
}

impl Element {
    fn packed(dtype: Dtype) -> Self {
        Self {
            dtype,
            is_padded: false,
        }
    }

    /// A compact layout.
    pub(super) fn layout(self, shape: &[i64]) -> Layout {
        let packed = Layout::compact(self.dtype, shape).unwrap();
        packed.with_padding(self.is_padded).unwrap()
    }

    pub(super) fn bits(self) -> usize {
        usize::try_from(self.layout(&[1]).element_bits()).unwrap()
    }
}

/// Every dtype that has a meaning, those smaller than a byte both packed and padded, and some of several lanes.
pub(super) fn elements() -> Vec<Element> {
    let scalars = (0..=u8::MAX).flat_map(|code| {
        let code = DtypeCode::from_raw(code);
        (0..=u8::MAX).filter_map(move |bits| Dtype::new(code, bits, 1).ok())
    });
    let scalars: Vec<Dtype> = scalars.collect();
    assert!(scalars.len() >= 39, "{scalars:?}");
    let lanes = [
        (DtypeCode::UINT, 8, 3),
        (DtypeCode::UINT, 1, 3),
        (DtypeCode::INT, 4, 3),
        (DtypeCode::FLOAT, 32, 4),
        (DtypeCode::FLOAT6_E2M3FN, 6, 4),
        (DtypeCode::COMPLEX, 128, 2),
    ];
    let lanes = lanes.map(|(code, bits, lanes)| Dtype::new(code, bits, lanes).unwrap());
    let padded = scalars.iter().filter(|dtype| dtype.bits() < 8);
    let padded = padded.map(|dtype| Element {
        dtype: *dtype,
        is_padded: true,
    });
    let all = scalars.iter().copied().chain(lanes).map(Element::packed);
    all.chain(padded).collect()
}

/// How the elements lie that are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    Compact,
    /// Rows with gaps between them.
    Pitched,
    /// Elements with gaps between them, in another order, some backwards.
    Scattered,
}

pub(super) const ARRANGEMENTS: [Arrangement; 3] = [
    Arrangement::Compact,
    Arrangement::Pitched,
    Arrangement::Scattered,
];

/// A compact tensor with two contents, and which part of it is moved.
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) whole: Layout,
    pub(super) contents: [Vec<u8>; 2],
    slices: [AxisSlice; 3],
    axes: [usize; 3],
}

impl Sample {
    /// One of odd extents, as the seed draws them. Rows of packed elements fill whole bytes where the part begins
    /// behind some of them: none begins inside a byte.
    pub(super) fn drawn(element: Element, arrangement: Arrangement, draw: &mut Draw) -> Self {
        let is_whole = element.bits().is_multiple_of(8) || arrangement == Arrangement::Compact;
        let row = if is_whole { [33, 37, 41] } else { [40, 48, 56] };
        let shape = [2 + draw.below(3), 4 + draw.below(3), *draw.one(&row)];
        let [planes, rows, row] = shape;
        let axis = |start, step, len| AxisSlice { start, step, len };
        let (slices, axes) = match arrangement {
            Arrangement::Compact => (shape.map(AxisSlice::all), [0, 1, 2]),
            Arrangement::Pitched => {
                let (rows, row) = (axis(1, 1, rows - 2), axis(8, 1, row - 8 - draw.below(9)));
                ([AxisSlice::all(planes), rows, row], [0, 1, 2])
            }
            Arrangement::Scattered => {
                let slices = [AxisSlice::reversed(planes), axis(1, 2, 2), axis(8, 3, 8)];
                let axes = [[0, 2, 1], [2, 1, 0], [1, 2, 0], [0, 1, 2]];
                (slices, *draw.one(&axes))
            }
        };
        let whole = element.layout(&shape);
        let bytes = usize::try_from(whole.bytes()).unwrap();
        Self {
            name: format!("{:?} {arrangement:?} of {shape:?}", element.dtype),
            element,
            contents: [draw.bytes(bytes), draw.bytes(bytes)],
            whole,
            slices,
            axes,
        }
    }

    /// The part of a tensor that is moved.
    pub(super) fn part_of(&self, whole: &Tensor) -> Tensor {
        let part = whole.slice(&self.slices).unwrap();
        part.permute(&self.axes).unwrap()
    }

    /// The elements of the part, one after the other.
    pub(super) fn part_of_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let extents = self.whole.shape();
        let indexes = self.slices.map(|AxisSlice { start, step, len }| {
            (0..len)
                .map(move |at| start + at * step)
                .collect::<Vec<_>>()
        });
        let bits = self.element.bits();
        let mut part = Bits::new(bits);
        let [first, second, third] = self.axes;
        for one in &indexes[first] {
            for two in &indexes[second] {
                for three in &indexes[third] {
                    let mut index = [0; 3];
                    (index[first], index[second], index[third]) = (*one, *two, *three);
                    let at = (index[0] * extents[1] + index[1]) * extents[2] + index[2];
                    part.push(bytes, usize::try_from(at).unwrap());
                }
            }
        }
        part.bytes
    }

    /// Whether these are the part's bytes. Bits behind the last element are nobody's.
    pub(super) fn is_same(&self, found: &[u8], wanted: &[u8]) -> bool {
        let count = self.slices.iter().map(|slice| slice.len).product::<i64>();
        let bits = usize::try_from(count).unwrap() * self.element.bits();
        let (whole, rest) = (bits / 8, bits % 8);
        let mask = (1_u8 << rest) - 1;
        let last = |bytes: &[u8]| bytes.get(whole).map_or(0, |last| last & mask);
        found.len() == wanted.len()
            && found.get(..whole) == wanted.get(..whole)
            && last(found) == last(wanted)
    }
}

/// Elements one after the other, the first in the lowest bits.
struct Bits {
    width: usize,
    count: usize,
    bytes: Vec<u8>,
}

impl Bits {
    const fn new(width: usize) -> Self {
        Self {
            width,
            count: 0,
            bytes: Vec::new(),
        }
    }

    /// Adds the element that is `at` in `from`.
    fn push(&mut self, from: &[u8], at: usize) {
        let width = self.width;
        if width.is_multiple_of(8) {
            let element = at * width / 8..(at + 1) * width / 8;
            self.bytes.extend(&from[element]);
            return;
        }
        for bit in 0..width {
            let (source, target) = (at * width + bit, self.count * width + bit);
            self.bytes.resize(target / 8 + 1, 0);
            self.bytes[target / 8] |= (from[source / 8] >> (source % 8) & 1) << (target % 8);
        }
        self.count += 1;
    }
}
