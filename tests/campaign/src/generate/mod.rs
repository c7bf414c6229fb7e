//! Random programs: the same for the same seed, and mostly of calls that are not refused.

mod client_ends;
mod clients;
mod sequences;

use std::collections::VecDeque;

use self::clients::Clients;
pub use self::clients::ops_beside_clients;
use crate::model::{View, compact};
use crate::program::{Call, Element, Offset, Op, Way};

/// Random numbers of a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Scattered, for else the sequences of neighbours are one sequence from two places on.
        let mut first = Self(seed ^ 0x6a09_e667_f3bc_c908);
        Self(first.below(u64::MAX))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end.max(1)
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }
}

/// What programs may do.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "kinds write its fields")]
pub struct Setup {
    /// Devices to name.
    pub devices: usize,
    /// Runtimes to name them in.
    pub runtimes: usize,
    /// Threads to call from.
    pub threads: usize,
    /// How many operations.
    pub length: usize,
    /// Whether host events may be completed with a failure, or dropped.
    pub failures: bool,
    /// The devices of simulated drivers, where clients may come: a bit for each.
    pub drivers: u64,
}

/// Those of the devices that a simulated driver has.
#[must_use]
pub fn drivers(devices: &[String]) -> u64 {
    let is_of_one = |name: &str| name.starts_with("cuda") || name.starts_with("rocm");
    let devices = devices.iter().enumerate();
    devices.fold(0, |all, (device, name)| {
        all | u64::from(is_of_one(name)) << device
    })
}

const TENSORS: usize = 6;
const STREAMS: usize = 4;
const EVENTS: usize = 4;
const EXPORTS: usize = 2;
const REGISTRATIONS: usize = 2;

/// A program of a seed.
#[must_use]
pub fn program(seed: u64, setup: Setup) -> Vec<Op> {
    let random = Random::new(seed);
    let mut writer = Writer {
        random,
        setup,
        tensors: vec![None; TENSORS],
        exports: vec![None; EXPORTS],
        planned: VecDeque::new(),
        clients: Clients::default(),
    };
    let mut ops = Vec::with_capacity(setup.length);
    for s in 0..2 {
        let call = writer.stream(s);
        ops.push(writer.op(call));
    }
    for t in 0..2 {
        let call = writer.new_tensor(t);
        ops.push(writer.op(call));
    }
    while ops.len() < setup.length {
        if let Some(call) = writer.any() {
            ops.push(writer.op(call));
        }
    }
    ops
}

struct Writer {
    random: Random,
    setup: Setup,
    tensors: Vec<Option<View>>,
    exports: Vec<Option<View>>,
    /// Calls that follow one another.
    planned: VecDeque<Call>,
    clients: Clients,
}

impl Writer {
    fn op(&mut self, call: Call) -> Op {
        let thread = self.random.index(self.setup.threads);
        let thread = self.thread_of(&call, thread);
        let runtime = self.random.index(self.setup.runtimes);
        Op {
            thread,
            runtime,
            call,
        }
    }

    fn seed(&mut self) -> u8 {
        self.random.below(255) as u8 + 1
    }

    fn stream(&mut self, s: usize) -> Call {
        let device = self.random.index(self.setup.devices);
        if self.random.once_in(4) {
            return Call::Default { s, device };
        }
        Call::Stream { s, device }
    }

    fn new_tensor(&mut self, t: usize) -> Call {
        let element = self.random.one(&Element::ALL);
        let shape = self.shape();
        let seed = self.seed();
        let is_foreign = self.random.once_in(4);
        let device = if is_foreign {
            0
        } else {
            self.random.index(self.setup.devices)
        };
        self.tensors[t] = Some(View::compact(0, element, &shape, device));
        if is_foreign {
            return Call::Foreign {
                t,
                element,
                shape,
                seed,
                offset: Offset::of_seed(seed),
            };
        }
        Call::Make {
            t,
            device,
            element,
            shape,
            seed,
        }
    }

    fn shape(&mut self) -> Vec<i64> {
        if self.random.once_in(3) {
            return vec![
                self.random
                    .one(&[0, 1, 2, 17, 256, 1000, 4097, 8200, 20_000]),
            ];
        }
        let rank = self.random.below(4);
        (0..rank)
            .map(|_| self.random.below(7) as i64 + i64::from(!self.random.once_in(9)))
            .collect()
    }

    /// A place with a tensor, and the tensor.
    fn some(&mut self) -> Option<(usize, View)> {
        let start = self.random.index(TENSORS);
        let places = (0..TENSORS).map(|step| (start + step) % TENSORS);
        places
            .into_iter()
            .find_map(|t| Some((t, self.tensors[t].clone()?)))
    }

    /// A stream to work on, or none.
    fn on(&mut self) -> Option<usize> {
        (!self.random.once_in(3)).then(|| self.random.index(STREAMS))
    }

    fn any(&mut self) -> Option<Call> {
        if let Some(next) = self.planned.pop_front() {
            return Some(next);
        }
        if self.setup.drivers != 0 && self.random.once_in(6) {
            return self.client();
        }
        match self.random.below(100) {
            0..=5 => {
                let t = self.random.index(TENSORS);
                Some(self.new_tensor(t))
            }
            6..=9 => {
                let s = self.random.index(STREAMS);
                Some(self.stream(s))
            }
            10..=31 => self.moving(),
            32 | 33 => self.registered(),
            34 | 35 => self.between_names(),
            36 | 37 => Some(self.read_by_two()),
            39 if self.setup.drivers != 0 => Some(self.between_drivers()),
            38 | 39 => Some(self.one_after_another()),
            40 => Some(self.long_copies()),
            41 => Some(self.growing_copies()),
            42 => Some(self.used_by_two()),
            43 => Some(self.copied_parts()),
            44..=52 => self.content(),
            53..=65 => self.view(),
            66..=85 => Some(self.order()),
            86..=92 => self.handing(),
            _ => self.ending(),
        }
    }

    fn moving(&mut self) -> Option<Call> {
        let (of, source) = self.some()?;
        let stream = self.on();
        if self.random.once_in(2) {
            let alike: Vec<usize> = (0..TENSORS)
                .filter(|&t| {
                    let to = self.tensors[t].as_ref();
                    to.is_some_and(|to| to.shape == source.shape && to.element == source.element)
                })
                .collect();
            return Some(Call::CopyFrom {
                t: self.random.one(&alike),
                of,
                stream,
            });
        }
        let (t, device) = (
            self.random.index(TENSORS),
            self.random.index(self.setup.devices),
        );
        let way = self.random.one(&Way::ALL);
        self.tensors[t] = Some(View {
            device,
            strides: compact(&source.shape),
            first: 0,
            ..source
        });
        Some(Call::To {
            t,
            of,
            device,
            way,
            stream,
        })
    }

    /// Memory that is locked, a copy of it, and maybe the end of the lock before that of the copy.
    fn registered(&mut self) -> Option<Call> {
        let (of, _) = self.some()?;
        let (r, device) = (
            self.random.index(REGISTRATIONS),
            self.random.index(self.setup.devices),
        );
        // The first one may fail, and then it has locked nothing.
        let again = self.random.once_in(2);
        self.planned
            .extend(again.then_some(Call::Register { r, of, device }));
        let moving = self.moving();
        self.planned.extend(moving);
        if !self.random.once_in(3) {
            self.planned.push_back(Call::Unregister { r });
        }
        Some(Call::Register { r, of, device })
    }

    /// A second name of a tensor's memory, and a copy from a part of the one to a part of the other.
    fn between_names(&mut self) -> Option<Call> {
        let (of, source) = self.some()?;
        let extent = source.shape.first().copied().filter(|&extent| extent > 1)?;
        let [name, to, from] = [1, 2, 3].map(|step| (of + step) % TENSORS);
        let device = self.random.index(self.setup.devices);
        let call = match self.random.below(3) {
            0 => Call::Strange {
                t: name,
                of,
                shape: source.shape.clone(),
                strides: source.strides.clone(),
                first: 0,
                bytes: 0,
            },
            _ => Call::To {
                t: name,
                of,
                device,
                way: Way::Alias,
                stream: None,
            },
        };
        let named = View {
            device,
            ..source.clone()
        };
        let length = 1 + self.random.below(extent as u64 / 2) as i64;
        let starts = [0; 2].map(|_: i64| self.random.below((extent - length) as u64 + 1) as i64);
        let names = match self.random.once_in(2) {
            true => [(of, source.clone()), (name, named.clone())],
            false => [(name, named.clone()), (of, source.clone())],
        };
        self.tensors[name] = Some(named);
        for ((place, (of, view)), start) in [to, from].into_iter().zip(names).zip(starts) {
            let mut axes: Vec<_> = view.shape.iter().map(|&extent| (0, 1, extent)).collect();
            axes[0] = (start, 1, length);
            self.tensors[place] = Some(view.slice(&axes));
            self.planned.push_back(Call::Slice { t: place, of, axes });
        }
        let stream = self.on();
        self.planned.push_back(Call::CopyFrom {
            t: to,
            of: from,
            stream,
        });
        Some(call)
    }

    fn content(&mut self) -> Option<Call> {
        let (t, _) = self.some()?;
        let (seed, stream) = (self.seed(), self.on());
        Some(match self.random.below(6) {
            0 | 1 => Call::Fill { t, seed, stream },
            2 | 3 => Call::Write { t, seed },
            4 => Call::Read { t },
            _ => Call::Peek { t },
        })
    }

    fn view(&mut self) -> Option<Call> {
        let (of, source) = self.some()?;
        let t = self.random.index(TENSORS);
        let rank = source.shape.len();
        let call = match self.random.below(8) {
            0..=3 => {
                let axes: Vec<_> = source
                    .shape
                    .iter()
                    .map(|&extent| self.part(extent))
                    .collect();
                self.tensors[t] = Some(source.slice(&axes));
                Call::Slice { t, of, axes }
            }
            4 | 5 if rank > 1 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.rotate_left(self.random.index(rank));
                axes.swap(0, rank - 1);
                self.tensors[t] = Some(source.permute(&axes));
                Call::Permute { t, of, axes }
            }
            6 => {
                let count = source.count() as i64;
                let shape = if count % 2 == 0 && count > 0 {
                    vec![count / 2, 2]
                } else {
                    vec![count]
                };
                let strides = compact(&shape);
                self.tensors[t] = Some(View {
                    shape: shape.clone(),
                    strides,
                    ..source
                });
                Call::Reshape { t, of, shape }
            }
            _ => {
                self.tensors[t] = Some(source);
                Call::Clone { t, of }
            }
        };
        Some(call)
    }

    /// Some indexes of an axis, forwards or backwards.
    fn part(&mut self, extent: i64) -> (i64, i64, i64) {
        if extent == 0 || self.random.once_in(3) {
            return (0, 1, extent);
        }
        let (start, step) = (
            self.random.below(extent as u64) as i64,
            self.random.one(&[1, 1, 2, 3, -1, -2]),
        );
        let most = if step > 0 {
            (extent - start + step - 1) / step
        } else {
            start / -step + 1
        };
        (start, step, self.random.below(most as u64 + 1) as i64)
    }

    fn order(&mut self) -> Call {
        let (s, e) = (self.random.index(STREAMS), self.random.index(EVENTS));
        match self.random.below(12) {
            0..=3 => Call::Hold {
                e,
                s,
                fails: self.setup.failures && self.random.once_in(8),
            },
            4 | 5 => Call::Open { e },
            6 | 7 => Call::Record { e, s },
            8 | 9 => Call::Wait { s, e },
            10 => Call::SyncEvent { e },
            _ if self.setup.failures && self.random.once_in(4) => Call::Abandon { e },
            _ => Call::SyncStream { s },
        }
    }

    fn handing(&mut self) -> Option<Call> {
        let (t, view) = self.some()?;
        let (s, x) = (self.random.index(STREAMS), self.random.index(EXPORTS));
        Some(match self.random.below(9) {
            0 | 1 => {
                self.exports[x] = Some(view);
                Call::Export {
                    x,
                    of: t,
                    stream: self.on(),
                }
            }
            2 | 3 => {
                let view = self.exports[x].take()?;
                self.tensors[t] = Some(view);
                Call::Import { t, x }
            }
            4 => {
                self.exports[x] = None;
                Call::Release { x }
            }
            5 => Call::WaitToRead { t, s },
            6 => Call::WaitToWrite { t, s },
            7 => Call::UsedOn { t, s },
            _ => Call::WrittenOn { t, s },
        })
    }

    fn ending(&mut self) -> Option<Call> {
        let (t, _) = self.some()?;
        Some(match self.random.below(7) {
            6 => Call::Unregister {
                r: self.random.index(REGISTRATIONS),
            },
            0..=2 => {
                self.tensors[t] = None;
                Call::DropTensor { t }
            }
            4 => Call::Trim {
                device: self.random.index(self.setup.devices),
                keep: self.random.one(&[0, 0, 4096, u64::MAX]),
            },
            3 => Call::DropStream {
                s: self.random.index(STREAMS),
            },
            _ => Call::SyncTensor { t },
        })
    }
}
