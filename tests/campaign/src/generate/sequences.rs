//! Calls that follow one another: at the end of memory or of a stream that pending work uses, and on long tensors.

use super::{EVENTS, REGISTRATIONS, STREAMS, TENSORS, Writer};
use crate::model::{View, compact};
use crate::program::{Call, Element, Offset, Way};

/// So many elements of 16 bytes are more than a plugin for GPUs copies through one block.
const LONG: i64 = 70_000;

/// So many elements of 8 bytes fit into the smallest block of a plugin's pinned memory, and so many do not.
const FEW: i64 = 1000;
const MORE: i64 = 20_000;

/// The lengths of parts, in elements: some fit into one chunk of host memory, others need many chunks.
const PARTS: [i64; 4] = [100, 4100, 8300, MORE];

/// A direct copy on a stream.
pub(super) const fn direct((t, of): (usize, usize), device: usize, s: usize) -> Call {
    Call::To {
        t,
        of,
        device,
        way: Way::Direct,
        stream: Some(s),
    }
}

impl Writer {
    /// Memory that two streams read, the first of which may be held and write it before, and that nobody has then.
    pub(super) fn read_by_two(&mut self) -> Call {
        let of = self.random.index(TENSORS);
        let first = self.new_tensor(of);
        let streams = self.two_streams();
        for (step, s) in streams.into_iter().enumerate() {
            let device = self.random.index(self.setup.devices);
            self.planned.push_back(Call::Stream { s, device });
            if step == 0 {
                self.held(s);
                if self.random.once_in(2) {
                    let (t, seed, stream) = (of, self.seed(), Some(s));
                    self.planned.push_back(Call::Fill { t, seed, stream });
                }
            }
            let to = self.random.index(self.setup.devices);
            self.read_on((of + 1 + step) % TENSORS, (of, to), s);
        }
        self.tensors[of] = None;
        self.planned.push_back(Call::DropTensor { t: of });
        first
    }

    /// A stream that ends while its work is pending, of which nothing knows any more as other work comes after it; then
    /// alike work on a new stream of its device.
    pub(super) fn one_after_another(&mut self) -> Call {
        let [of, other] = [0, 3].map(|step| (self.random.index(3) + step) % TENSORS);
        let device = self.random.index(self.setup.devices);
        let to = match self.random.once_in(2) {
            true => 0,
            false => self.random.index(self.setup.devices),
        };
        let [first, second] = [of, other].map(|t| self.tensor_on(t, device));
        self.planned.push_back(second);
        let [s, later] = self.two_streams();
        for s in [s, later] {
            self.planned.push_back(Call::Stream { s, device });
        }
        self.held(s);
        let (result, stream) = ((of + 1) % TENSORS, Some(later));
        self.read_on(result, (of, to), s);
        let copy = Call::CopyFrom {
            t: result,
            of,
            stream,
        };
        let (t, seed) = (of, self.seed());
        let fill = Call::Fill { t, seed, stream };
        let ends = [Call::DropStream { s }, Call::Stream { s, device }];
        self.planned.extend([copy, fill].into_iter().chain(ends));
        self.read_on((other + 1) % TENSORS, (other, to), s);
        first
    }

    /// A new tensor, on this device unless it is memory of others.
    pub(super) fn tensor_on(&mut self, t: usize, on: usize) -> Call {
        let mut call = self.new_tensor(t);
        if let Call::Make { device, .. } = &mut call {
            *device = on;
            self.tensors[t] = self.tensors[t]
                .take()
                .map(|view| View { device: on, ..view });
        }
        call
    }

    /// Copies that are too long for one block of a plugin's pinned memory, there and back, mostly with other work on the
    /// memory between them. Nothing else is done with long tensors: a checker looks at each of their elements where those
    /// lie apart, as in fills that HIP makes byte by byte.
    pub(super) fn long_copies(&mut self) -> Call {
        let t = self.random.index(TENSORS);
        let [there, back, aside] = [1, 2, 3].map(|step| (t + step) % TENSORS);
        let (s, device) = (
            self.random.index(STREAMS),
            self.random.index(self.setup.devices),
        );
        self.planned.push_back(Call::Stream { s, device });
        self.held(s);
        self.planned.push_back(direct((there, t), device, s));
        let again = |of| Call::CopyFrom {
            t: there,
            of,
            stream: Some(s),
        };
        if !self.random.once_in(4) {
            self.planned.push_back(direct((aside, there), device, s));
            if self.random.once_in(2) {
                self.planned.push_back(again(aside));
            }
        }
        if self.random.once_in(2) {
            self.planned.push_back(again(t));
        }
        self.planned.push_back(direct((back, there), 0, s));
        // Mostly while work on them is pending; a trim gives back what they had.
        let freed = [there, aside].map(|t| Call::DropTensor { t });
        self.planned.extend(freed);
        self.planned.push_back(Call::Read { t: back });
        self.planned.push_back(Call::Trim { device, keep: 0 });
        for t in [t, back] {
            self.planned.push_back(Call::DropTensor { t });
        }
        self.are_gone([t, there, back, aside]);
        let seed = self.seed();
        Call::Foreign {
            t,
            element: Element::Sixteen,
            shape: vec![LONG],
            seed,
            offset: Offset::of_seed(seed),
        }
    }

    /// Copies a part of one tensor to a part of another one, which may be on another device. Both parts begin somewhere
    /// inside their tensors and may be longer than a chunk of host memory. The elements around a part keep their values, so
    /// the program mostly reads the whole tensor then.
    pub(super) fn copied_parts(&mut self) -> Call {
        let to = self.random.index(TENSORS);
        let [from, target, source] = [1, 2, 3].map(|step| (to + step) % TENSORS);
        let length = self.random.one(&PARTS) - self.random.below(20) as i64;
        let element = self.random.one(&Element::ALL);
        let devices = [(); 2].map(|()| self.random.index(self.setup.devices));
        let [first, slice] = self.part_on((target, to), devices[0], (element, length));
        let calls = self.part_on((source, from), devices[1], (element, length));
        self.planned.push_back(slice);
        self.planned.extend(calls);
        let stream = self.on();
        if let Some(s) = stream {
            let device = self.random.one(&devices);
            self.planned.push_back(Call::Stream { s, device });
            self.held(s);
        }
        self.planned.push_back(Call::CopyFrom {
            t: target,
            of: source,
            stream,
        });
        if !self.random.once_in(4) {
            self.planned.push_back(Call::Read { t: to });
        }
        first
    }

    /// A new tensor on this device, and a part of it: a few elements, or more than its length, lie before it.
    fn part_on(
        &mut self,
        (t, of): (usize, usize),
        device: usize,
        (element, length): (Element, i64),
    ) -> [Call; 2] {
        let most = self.random.one(&[20, 20, 20, 2 * length]);
        let [start, behind] = [most, 20].map(|most| self.random.below(most as u64) as i64);
        let (shape, axes) = (vec![start + length + behind], vec![(start, 1, length)]);
        let seed = self.seed();
        let whole = View::compact(0, element, &shape, device);
        self.tensors[t] = Some(whole.slice(&axes));
        self.tensors[of] = Some(whole);
        let made = Call::Make {
            t: of,
            device,
            element,
            shape,
            seed,
        };
        [made, Call::Slice { t, of, axes }]
    }

    /// Memory of one driver, pinned or a device's, copied to a device behind a stream that is held: mostly by another
    /// vendor's.
    pub(super) fn between_drivers(&mut self) -> Call {
        let devices = self.drivers();
        let [of, to] = [(); 2].map(|()| self.random.one(&devices));
        let t = self.random.index(TENSORS);
        let [locked, result] = [1, 2].map(|step| (t + step) % TENSORS);
        let first = self.tensor_on(t, of);
        let s = self.random.index(STREAMS);
        let e = self.random.index(EVENTS);
        let view = self.tensors[t].clone();
        for (place, device) in [(locked, of), (result, to)] {
            self.tensors[place] = view.clone().map(|view| View { device, ..view });
        }
        let moved = |t, of, device, way, stream| Call::To {
            t,
            of,
            device,
            way,
            stream,
        };
        let fails = false;
        let ways = [(locked, Way::Direct), (t, Way::Staged)];
        let (source, way) = self.random.one(&ways);
        let on = self.random.one(&[of, to]);
        self.planned.extend([
            moved(locked, t, of, Way::Own, None),
            Call::Stream { s, device: on },
            Call::Hold { e, s, fails },
            moved(result, source, to, way, Some(s)),
        ]);
        first
    }

    /// Copies of pageable memory that grow, on a stream that is held, and a small one on another stream meanwhile.
    pub(super) fn growing_copies(&mut self) -> Call {
        let t = self.random.index(TENSORS);
        let [small, large, first, second, other] = [0, 1, 2, 3, 4].map(|step| (t + step) % TENSORS);
        let (device, [s, later]) = (self.random.index(self.setup.devices), self.two_streams());
        let e = self.random.index(EVENTS);
        let make = |t, count, seed| Call::Make {
            t,
            device,
            element: Element::Eight,
            shape: vec![count],
            seed,
        };
        let read = |t, of, s| direct((t, of), 0, s);
        let [one, two] = [(); 2].map(|()| self.seed());
        let fails = false;
        self.planned.extend([
            make(large, MORE, two),
            Call::Stream { s, device },
            Call::Stream { s: later, device },
            Call::Hold { e, s, fails },
            read(first, small, s),
            read(second, large, s),
            read(other, large, later),
            Call::Read { t: other },
            Call::Open { e },
            Call::Read { t: first },
            Call::Read { t: second },
        ]);
        self.are_gone([small, large, first, second, other]);
        make(small, FEW, one)
    }

    /// Registered memory that two streams use, the first of which is held, and that is let go then: mostly by two names,
    /// so that only its plugin knows of both.
    pub(super) fn used_by_two(&mut self) -> Call {
        let of = self.random.index(TENSORS);
        let [first, second, name] = [1, 2, 3].map(|step| (of + step) % TENSORS);
        let read = match self.random.below(3) {
            0 => [of, of],
            1 => [of, name],
            _ => [name, of],
        };
        let r = self.random.index(REGISTRATIONS);
        let device = match self.drivers() {
            none if none.is_empty() => self.random.index(self.setup.devices),
            drivers => self.random.one(&drivers),
        };
        let [s, later] = self.two_streams();
        let e = self.random.index(EVENTS);
        let fails = false;
        if read.contains(&name) {
            self.planned.push_back(Call::Strange {
                t: name,
                of,
                shape: vec![FEW],
                strides: vec![1],
                first: 0,
                bytes: 0,
            });
        }
        self.planned.extend([
            Call::Register { r, of, device },
            Call::Stream { s, device },
            Call::Stream { s: later, device },
            Call::Hold { e, s, fails },
            direct((first, read[0]), device, s),
            direct((second, read[1]), device, later),
        ]);
        // Where work that the runtime knows of is pending, another thread unlocks it later, and else this one at once.
        let is_over = !self.random.once_in(4);
        self.planned
            .extend(is_over.then_some(Call::Read { t: second }));
        self.planned.extend([
            Call::Unregister { r },
            Call::Open { e },
            Call::Read { t: first },
            Call::Read { t: second },
        ]);
        self.are_gone([of, first, second, name]);
        let (element, shape, seed) = (Element::Eight, vec![FEW], self.seed());
        let offset = Offset::of_seed(seed);
        Call::Foreign {
            t: of,
            element,
            shape,
            seed,
            offset,
        }
    }

    /// Nothing more is drawn with what a sequence had in these places.
    pub(super) fn are_gone<const N: usize>(&mut self, places: [usize; N]) {
        for t in places {
            self.tensors[t] = None;
        }
    }

    /// The devices of simulated drivers.
    fn drivers(&self) -> Vec<usize> {
        let drivers = self.setup.drivers;
        let devices = 0..self.setup.devices;
        devices
            .filter(|device| drivers >> device & 1 == 1)
            .collect()
    }

    fn two_streams(&mut self) -> [usize; 2] {
        let s = self.random.index(STREAMS);
        [s, (s + 1) % STREAMS]
    }

    /// Mostly the stream waits for the host.
    pub(super) fn held(&mut self, s: usize) {
        if !self.random.once_in(3) {
            let e = self.random.index(EVENTS);
            let fails = false;
            self.planned.push_back(Call::Hold { e, s, fails });
        }
    }

    /// The values on a device, in the order of a stream.
    pub(super) fn read_on(&mut self, t: usize, (of, device): (usize, usize), s: usize) {
        let Some(source) = self.tensors[of].clone() else {
            return;
        };
        let strides = compact(&source.shape);
        self.tensors[t] = Some(View {
            device,
            strides,
            first: 0,
            ..source
        });
        self.planned.push_back(Call::To {
            t,
            of,
            device,
            way: self.random.one(&[Way::Best, Way::Direct, Way::Staged]),
            stream: Some(s),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Setup, program};
    use super::*;

    /// Whether some program has, one after the other, calls that these hold for.
    fn is_drawn(is_meant: [fn(&Call) -> bool; 3]) -> bool {
        let setup = Setup {
            devices: 3,
            runtimes: 1,
            threads: 1,
            length: 80,
            failures: false,
            drivers: 0,
        };
        let programs = (0..50).map(|seed| program(seed, setup));
        let has = |ops: Vec<crate::program::Op>| {
            ops.windows(3).any(|three| {
                let mut meant = three.iter().zip(is_meant);
                meant.all(|(op, is_meant)| is_meant(&op.call))
            })
        };
        programs.into_iter().any(has)
    }

    #[test]
    fn parts_that_are_longer_than_a_chunk_are_copied_between_devices() {
        const CHUNK: i64 = 8192;
        let setup = Setup {
            devices: 3,
            runtimes: 1,
            threads: 1,
            length: 80,
            failures: false,
            drivers: 0,
        };
        // Copies on a stream, copies without one, and those behind more elements than they have.
        let mut counts = [0; 3];
        for seed in 0..2000 {
            let ops = program(seed, setup);
            let calls: Vec<&Call> = ops.iter().map(|op| &op.call).collect();
            for (at, four) in calls.windows(4).enumerate() {
                let [
                    Call::Make {
                        device, element, ..
                    },
                    Call::Slice {
                        t: target, axes, ..
                    },
                    Call::Make { device: other, .. },
                    Call::Slice { .. },
                ] = four
                else {
                    continue;
                };
                let mut later = calls[at..].iter().take(7);
                let on = later.find_map(|call| match call {
                    Call::CopyFrom { t, stream, .. } if t == target => Some(stream.is_some()),
                    _ => None,
                });
                let (start, _, length) = axes[0];
                let is_long = length * element.bits() / 8 > CHUNK;
                if let Some(on) = on
                    && is_long
                    && start > 0
                    && device != other
                {
                    counts[usize::from(on)] += 1;
                    counts[2] += usize::from(start > length);
                }
            }
        }
        assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
    }

    #[test]
    fn memory_and_streams_end_behind_pending_work() {
        let is_read = |call: &Call| {
            matches!(
                call,
                Call::To {
                    stream: Some(_),
                    ..
                }
            )
        };
        let is_new = |call: &Call| matches!(call, Call::Stream { .. });
        let is_gone = |call: &Call| matches!(call, Call::DropTensor { .. });
        let ends = |call: &Call| matches!(call, Call::DropStream { .. });
        assert!(is_drawn([is_new, is_read, is_gone]));
        assert!(is_drawn([ends, is_new, is_read]));
    }
}
