//! Every small layout of every element width on every device: each operation is right or refused.

use crate::generate::Random;
use crate::program::{Call, Case, Element, Ending, Engine, Language, Op, Way};

/// Extents and strides of one axis: what up to two axes can be is tried wholly.
const EXTENTS: i64 = 4;
const STRIDES: i64 = 7;
const AXES: i64 = EXTENTS * STRIDES;
/// Elements before and after the first: the furthest of rows in planes, which is more than three axes of two steps
/// by three each.
const REACH: i64 = 32;
/// The most bytes by which a layout's first element may lie beside a place of the room's elements.
const ASIDE: i64 = 3;

/// Layouts of at most two axes: all there are.
const FEW: i64 = 1 + AXES + AXES * AXES;

/// All layouts of at most two axes, and 16 draws for a seed, of three axes or of rows in planes; of each width on each
/// device.
pub(super) fn count(devices: &[String], seeds: u64) -> u64 {
    (FEW as u64 + seeds * 16) * (Element::ALL.len() * devices.len()) as u64
}

/// Widths and devices in turns, so that a part of the campaign meets all of them.
pub(super) fn case(devices: &[String], number: u64) -> Case {
    let turns = Element::ALL.len() * devices.len();
    let (turn, number) = (number as usize % turns, number as i64 / turns as i64);
    let (element, device) = (Element::ALL[turn / devices.len()], turn % devices.len());
    let mut random = Random::new(number as u64);
    let (axes, others) = if number < FEW {
        (layout(number), None)
    } else if random.once_in(2) {
        let axes = (0..3).map(|_| axis(random.below(AXES as u64) as i64));
        (axes.collect(), None)
    } else {
        let (axes, others) = planes(&mut random);
        (axes, Some(others))
    };
    // Every second layout begins where its elements are aligned.
    let bytes = random.one(&[0, 0, 0, 1, 2, ASIDE]);
    let layout = (&axes[..], others);
    program(devices, (number as usize, element, device), layout, bytes)
}

/// Rows in planes, and the steps of another tensor of that shape. Elements of a row may lie apart, and the rows of a
/// plane are seldom whole steps of the elements apart: a driver that counts the one by the other cannot copy that.
fn planes(random: &mut Random) -> (Vec<(i64, i64)>, Vec<i64>) {
    let mut up_to = |least: i64, most: i64| least + random.below((most - least + 1) as u64) as i64;
    let shape = [up_to(2, 3), up_to(2, 3), up_to(1, 2)];
    let mut steps = || {
        let [_, rows, columns] = shape;
        // Where there are two columns, they are mostly neighbours: then a row is longer than an element.
        let column = up_to(1, 2).min(columns);
        let row = (column * (columns - 1) + 1).max(up_to(1, 3));
        let plane = row * rows + up_to(0, row);
        vec![plane, row, column]
    };
    let (own, others) = (steps(), steps());
    let turn = up_to(0, 2) as usize;
    let turned = |mut all: Vec<i64>| {
        all.rotate_left(turn);
        all
    };
    let shape = turned(shape.to_vec());
    let axes = shape.into_iter().zip(turned(own)).collect();
    (axes, turned(others))
}

fn axis(number: i64) -> (i64, i64) {
    (number % EXTENTS, number / EXTENTS - 3)
}

/// The layout of at most two axes with this number.
fn layout(number: i64) -> Vec<(i64, i64)> {
    match number {
        0 => Vec::new(),
        one if one <= AXES => vec![axis(one - 1)],
        two => vec![axis((two - 1 - AXES) / AXES), axis((two - 1 - AXES) % AXES)],
    }
}

fn program(
    devices: &[String],
    (number, element, device): (usize, Element, usize),
    (axes, others): (&[(i64, i64)], Option<Vec<i64>>),
    bytes: i64,
) -> Case {
    let (shape, strides): (Vec<i64>, Vec<i64>) = axes.iter().copied().unzip();
    let trial = Trial {
        element,
        shape,
        others: others.unwrap_or_else(|| strides.clone()),
        strides,
        bytes,
    };
    let mut calls = trial.alone(device);
    calls.extend(trial.aside(1 + number as i64 % ASIDE));
    calls.extend(trial.with_others(device, (device + 1) % devices.len()));
    Case {
        name: format!("d layout {number} of {element:?} on {}", devices[device]),
        language: Language::Rust,
        devices: devices.to_vec(),
        fresh: false,
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: Ending::Return,
        engine: Engine::default(),
        programs: vec![
            calls
                .into_iter()
                .map(|call| Op {
                    thread: 0,
                    runtime: 0,
                    call,
                })
                .collect(),
        ],
    }
}

/// Tensors 0 and 6 are rooms with neighbours, 1 and 7 the layouts inside them, the others compact.
struct Trial {
    element: Element,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The steps of tensor 7.
    others: Vec<i64>,
    /// How far aside both lie.
    bytes: i64,
}

impl Trial {
    fn room(&self, t: usize, device: usize, seed: u8) -> Call {
        Call::Make {
            t,
            device,
            element: self.element,
            // Half a byte has two of its elements.
            shape: vec![2 * REACH + 2 + 2 * ASIDE],
            seed,
        }
    }

    fn compact(&self, t: usize, device: usize, seed: u8) -> Call {
        Call::Make {
            t,
            device,
            element: self.element,
            shape: self.shape.clone(),
            seed,
        }
    }

    fn inside(&self, (t, of): (usize, usize), strides: &[i64]) -> Call {
        // Also packed elements begin at a byte there.
        Call::Strange {
            t,
            of,
            shape: self.shape.clone(),
            strides: strides.to_vec(),
            first: REACH,
            bytes: self.bytes,
        }
    }

    /// Fills, writes and reads. The room is read after each: what is beside the elements stays.
    fn alone(&self, device: usize) -> Vec<Call> {
        let read = |t| Call::Read { t };
        let fill = |seed, stream| Call::Fill { t: 1, seed, stream };
        let mut calls = vec![
            self.room(0, device, 1),
            self.inside((1, 0), &self.strides),
            read(1),
        ];
        calls.extend([
            fill(2, None),
            read(0),
            Call::Write { t: 1, seed: 3 },
            read(0),
        ]);
        calls.extend([Call::Stream { s: 0, device }, fill(6, Some(0)), read(0)]);
        calls
    }

    /// Elements one behind the other, of which none is aligned, whatever the layout is: fills and writes, and copies in
    /// and out. The room is read as above.
    fn aside(&self, bytes: i64) -> Vec<Call> {
        let read = |t| Call::Read { t };
        let fill = |seed, stream| Call::Fill { t: 8, seed, stream };
        let copy = |t, of, stream| Call::CopyFrom { t, of, stream };
        let all = Call::Strange {
            t: 8,
            of: 0,
            shape: vec![2 * REACH],
            strides: vec![1],
            first: 0,
            bytes,
        };
        let other = Call::Make {
            t: 9,
            device: 0,
            element: self.element,
            shape: vec![2 * REACH],
            seed: 10,
        };
        let calls = [all, fill(8, None), read(0), fill(9, Some(0)), read(0)];
        let copies = [
            other,
            copy(8, 9, None),
            read(0),
            Call::Write { t: 8, seed: 11 },
            copy(9, 8, Some(0)),
            read(9),
        ];
        calls.into_iter().chain(copies).collect()
    }

    /// Copies to and from compact tensors, another device, and another tensor of this shape.
    fn with_others(&self, device: usize, other: usize) -> Vec<Call> {
        let read = |t| Call::Read { t };
        let copy = |t, of, stream| Call::CopyFrom { t, of, stream };
        let to = |t, of, device, way| Call::To {
            t,
            of,
            device,
            way,
            stream: None,
        };
        let mut calls = vec![self.compact(2, device, 4), copy(1, 2, None), read(0)];
        calls.extend([copy(2, 1, None), read(2), copy(2, 1, Some(0)), read(2)]);
        calls.extend([
            to(3, 1, other, Way::Best),
            read(3),
            to(4, 3, device, Way::Staged),
            read(4),
        ]);
        calls.extend([self.compact(5, other, 5), copy(1, 5, None), read(0)]);
        calls.extend([
            self.room(6, device, 7),
            self.inside((7, 6), &self.others),
            copy(7, 1, Some(0)),
            read(6),
        ]);
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_fills_and_copies_elements_that_are_not_aligned() {
        let devices = ["cpu", "cuda:0"].map(str::to_owned);
        let mut offsets = std::collections::BTreeSet::new();
        for number in 0..500 {
            let case = case(&devices, number);
            let at = |call: &Call| match call {
                Call::Strange { t: 8, bytes, .. } => Some(*bytes),
                _ => None,
            };
            let calls: Vec<&Call> = case.programs[0].iter().map(|op| &op.call).collect();
            let aside = calls.iter().position(|call| at(call).is_some()).unwrap();
            offsets.insert(at(calls[aside]).unwrap());
            let rest = &calls[aside..];
            assert!(matches!(
                rest[1],
                Call::Fill {
                    t: 8,
                    stream: None,
                    ..
                }
            ));
            assert!(
                rest.iter()
                    .any(|call| matches!(call, Call::CopyFrom { t: 8, .. }))
            );
            assert!(
                rest.iter()
                    .any(|call| matches!(call, Call::CopyFrom { of: 8, .. }))
            );
        }
        assert_eq!(offsets, [1, 2, 3].into());
    }

    #[test]
    fn rows_in_planes_lie_in_their_room_and_many_planes_are_no_whole_number_of_rows() {
        let mut uneven = 0;
        for seed in 0..400 {
            let (axes, others) = planes(&mut Random::new(seed));
            let (shape, own): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
            for steps in [&own, &others] {
                let reach = |(step, extent): (&i64, &i64)| step * (extent - 1);
                let reach: i64 = steps.iter().zip(&shape).map(reach).sum();
                assert!(reach <= REACH, "{shape:?} {steps:?}");
            }
            let mut sorted: Vec<(i64, i64)> = own.into_iter().zip(shape).collect();
            sorted.retain(|(_, extent)| *extent > 1);
            sorted.sort_unstable();
            let last = sorted.len() - 1;
            uneven += usize::from(sorted[last].0 % sorted[last - 1].0 != 0);
        }
        assert!(uneven >= 100, "{uneven} of 400");
    }
}
