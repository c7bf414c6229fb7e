//! What memory holds after each operation, one operation after the other: bytes, or nothing known.

use crate::program::{Call, Element, bytes_of, pattern_of};

/// A number of bits at a place, and which of them are known.
type Bits = (u128, u128);

/// The bytes of one allocation.
#[derive(Debug, Clone)]
pub struct Memory {
    value: Vec<u8>,
    known: Vec<u8>,
    /// Several memories of the runtime name these bytes, so that it orders nothing between them.
    pub shared: bool,
    /// Work that was accepted and may have failed since: a write makes its failure be forgotten.
    pub doubtful: bool,
}

/// A tensor: where the elements lie in which memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Which memory.
    pub memory: usize,
    /// What one element is.
    pub element: Element,
    /// Extents.
    pub shape: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// The first element's place, in bits.
    pub first: i64,
    /// Index of the device.
    pub device: usize,
    /// Whether writing is refused.
    pub read_only: bool,
}

/// All memories of a program.
#[derive(Debug, Default)]
pub struct Model {
    memories: Vec<Memory>,
}

/// Strides of compact elements.
#[must_use]
pub fn compact(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

impl View {
    /// A compact tensor of these elements, over the whole of some new memory.
    #[must_use]
    pub fn compact(memory: usize, element: Element, shape: &[i64], device: usize) -> Self {
        Self {
            memory,
            element,
            shape: shape.to_vec(),
            strides: compact(shape),
            first: 0,
            device,
            read_only: false,
        }
    }

    /// How many elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Bytes of its elements, packed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.count() * self.element.bits() as usize).div_ceil(8)
    }

    /// The place of each element in bits, in row-major order.
    #[must_use]
    pub fn places(&self) -> Vec<i64> {
        let mut places = vec![self.first];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let step = stride * self.element.bits();
            places = places
                .iter()
                .flat_map(|&at| (0..extent).map(move |index| at + index * step))
                .collect();
        }
        places
    }

    /// Whether two of its elements are at one place.
    #[must_use]
    pub fn overlaps_itself(&self) -> bool {
        let mut places = self.places();
        places.sort_unstable();
        places.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether its elements are compact.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        let places = self.places();
        places
            .windows(2)
            .all(|pair| pair[1] - pair[0] == self.element.bits())
    }

    /// Whether no element lies before the other's first or behind its last one.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let (own, others) = (self.places(), other.places());
        let ends = |places: &[i64]| (places.iter().min().copied(), places.iter().max().copied());
        let ((first, last), (from, to)) = (ends(&own), ends(&others));
        first.is_none() || (first >= from && last <= to)
    }

    /// A part of it.
    #[must_use]
    pub fn slice(&self, axes: &[(i64, i64, i64)]) -> Self {
        let mut part = self.clone();
        for (axis, &(start, step, len)) in axes.iter().enumerate() {
            if len > 0 {
                part.first += start * self.strides[axis] * self.element.bits();
            }
            part.shape[axis] = len;
            part.strides[axis] = self.strides[axis] * step;
        }
        part
    }

    /// Its axes in another order.
    #[must_use]
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut view = self.clone();
        view.shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        view.strides = axes.iter().map(|&axis| self.strides[axis]).collect();
        view
    }
}

/// The view that a call makes of a tensor. `strides` are the runtime's, where a shape can have several.
pub(crate) fn part_of(call: &Call, source: View, strides: Vec<i64>) -> Option<(usize, View)> {
    Some(match call {
        Call::Strange {
            t,
            shape,
            strides,
            first,
            bytes,
            ..
        } => {
            let first = source.first + first * source.element.bits() + bytes * 8;
            let (shape, strides) = (shape.clone(), strides.clone());
            (
                *t,
                View {
                    shape,
                    strides,
                    first,
                    ..source
                },
            )
        }
        Call::Slice { t, axes, .. } => (*t, source.slice(axes)),
        Call::Permute { t, axes, .. } => (*t, source.permute(axes)),
        Call::Reshape { t, shape, .. } => {
            let strides = if source.is_compact() {
                compact(shape)
            } else {
                strides
            };
            (
                *t,
                View {
                    shape: shape.clone(),
                    strides,
                    ..source
                },
            )
        }
        Call::Clone { t, .. }
        | Call::Import { t, .. }
        | Call::Draft { t, .. }
        | Call::Take { t, .. } => (*t, source),
        _ => return None,
    })
}

impl Model {
    /// A new memory with these bytes, and a compact tensor over all of it.
    pub fn make(&mut self, element: Element, shape: &[i64], device: usize) -> View {
        let view = View::compact(self.memories.len(), element, shape, device);
        let bytes = view.bytes();
        self.memories.push(Memory {
            value: vec![0; bytes],
            known: vec![0; bytes],
            shared: false,
            doubtful: false,
        });
        view
    }

    /// The memory of a tensor.
    pub fn memory(&mut self, view: &View) -> &mut Memory {
        &mut self.memories[view.memory]
    }

    /// The whole memory as bytes and which bits of them are known.
    #[must_use]
    pub fn whole(&self, view: &View) -> (&[u8], &[u8]) {
        let memory = &self.memories[view.memory];
        (&memory.value, &memory.known)
    }

    /// The elements of a tensor.
    #[must_use]
    pub fn elements(&self, view: &View) -> Vec<Bits> {
        let memory = &self.memories[view.memory];
        view.places()
            .iter()
            .map(|&at| memory.get(at, view.element))
            .collect()
    }

    /// Replaces the elements of a tensor.
    pub fn put(&mut self, view: &View, elements: &[Bits]) {
        let memory = &mut self.memories[view.memory];
        if memory.doubtful {
            memory.known.fill(0);
            memory.doubtful = false;
        }
        for (&at, &bits) in view.places().iter().zip(elements) {
            memory.set(at, view.element, bits);
        }
    }

    /// Nothing is known of the elements any more.
    pub fn spoil(&mut self, view: &View) {
        let count = view.count();
        self.put(view, &vec![(0, 0); count]);
    }

    /// Whether compact bytes are what the tensor holds; else the first element that differs.
    ///
    /// # Errors
    /// A sentence with both values.
    pub fn compare(&self, view: &View, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() != view.bytes() {
            return Err(format!(
                "{} bytes were read of {}",
                bytes.len(),
                view.bytes()
            ));
        }
        for (index, (value, known)) in self.elements(view).into_iter().enumerate() {
            let at = index as i64 * view.element.bits();
            let found = bits_at(bytes, at, view.element);
            if (found ^ value) & known != 0 {
                return Err(format!(
                    "element {index} is {found:#x}, and {value:#x} was put there"
                ));
            }
        }
        Ok(())
    }
}

/// The elements that compact bytes are.
#[must_use]
pub fn elements_of(bytes: &[u8], element: Element, count: usize) -> Vec<Bits> {
    let mask = mask_of(element);
    let at = |index: usize| bits_at(bytes, index as i64 * element.bits(), element);
    (0..count).map(|index| (at(index), mask)).collect()
}

/// The bytes that a seed gives a tensor; the bits behind its last element are none of its own.
#[must_use]
pub fn content(view: &View, seed: u8) -> Vec<u8> {
    let mut bytes = bytes_of(seed, view.bytes());
    if let (Element::Half, 1, Some(last)) = (view.element, view.count() % 2, bytes.last_mut()) {
        *last &= 15;
    }
    bytes
}

/// The element that a seed gives a fill.
#[must_use]
pub fn filling(element: Element, seed: u8) -> Bits {
    elements_of(&pattern_of(seed, element), element, 1)[0]
}

const fn mask_of(element: Element) -> u128 {
    u128::MAX >> (128 - element.bits())
}

fn bits_at(bytes: &[u8], at: i64, element: Element) -> u128 {
    let first = (at / 8) as usize;
    if element == Element::Half {
        return u128::from(bytes[first] >> (at % 8) & 15);
    }
    let mut word = [0; 16];
    let length = element.bits() as usize / 8;
    word[..length].copy_from_slice(&bytes[first..first + length]);
    u128::from_le_bytes(word)
}

fn set_bits(bytes: &mut [u8], at: i64, element: Element, bits: u128) {
    let first = (at / 8) as usize;
    if element == Element::Half {
        let shift = at % 8;
        bytes[first] = bytes[first] & !(15 << shift) | (bits as u8 & 15) << shift;
        return;
    }
    let length = element.bits() as usize / 8;
    bytes[first..first + length].copy_from_slice(&bits.to_le_bytes()[..length]);
}

impl Memory {
    fn get(&self, at: i64, element: Element) -> Bits {
        (
            bits_at(&self.value, at, element),
            bits_at(&self.known, at, element),
        )
    }

    fn set(&mut self, at: i64, element: Element, (value, known): Bits) {
        set_bits(&mut self.value, at, element, value);
        set_bits(&mut self.known, at, element, known);
    }
}
