//! Random programs: right ones make no report and give the right bytes; a missing edge is reported in
//! every schedule, and one that was not needed is not.

use crossdock_sim_engine::Policy;

use crate::machine::POLICIES;
use crate::model::{BYTES, How, Model, Part, Step};
use crate::runner::run;

/// How many right programs, and how many wrong ones, run by default. `CROSSDOCK_SIM_PROGRAMS` asks
/// for more: 10000 take about a minute.
const PROGRAMS: u64 = 1_500;

/// A program with what it runs on.
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) streams: usize,
    pub(crate) devices: usize,
    pub(crate) memories: usize,
    pub(crate) policy: Policy,
    pub(crate) queues: usize,
    pub(crate) seed: u64,
}

/// Numbers for a program (xorshift), of no kinship with the engine's.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        for _ in 0..3 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
        }
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}

impl Program {
    /// A program in which everything that must be ordered is.
    fn right(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let (streams, devices) = (2 + dice.below(4), 2 + dice.below(2));
        let memories = devices + 2;
        let mut model = Model::new(streams, memories);
        let mut program = Self {
            steps: Vec::new(),
            streams,
            devices,
            memories,
            policy: POLICIES[dice.below(3)],
            queues: [1, 2, 8][dice.below(3)],
            seed,
        };
        for _ in 0..5 + dice.below(30) {
            let step = program.random_step(&mut dice);
            if let Step::Change { stream } = step {
                program.push(
                    &mut model,
                    Step::Edge {
                        from: stream,
                        to: 0,
                        how: How::Host,
                    },
                );
            }
            while let Some(&from) = model.missing(step).first() {
                let to = step.stream();
                let how = match dice.below(8) {
                    0 => How::Host,
                    1 => How::HostEvent,
                    even if to == 0 && even % 2 == 0 => How::Host,
                    _ if to == 0 => How::HostEvent,
                    2 | 3 => How::Word,
                    _ => How::Event,
                };
                program.push(&mut model, Step::Edge { from, to, how });
            }
            program.push(&mut model, step);
        }
        assert!(
            !model.is_wrong,
            "seed {seed}: the generator made a wrong program"
        );
        program
    }

    fn push(&mut self, model: &mut Model, step: Step) {
        model.take(step);
        self.steps.push(step);
    }

    fn random_step(&self, dice: &mut Dice) -> Step {
        let stream = 1 + dice.below(self.streams);
        let bytes = 1 + dice.below(BYTES / 2);
        let value = u8::try_from(dice.below(255)).unwrap_or(0);
        let mut part = |memories: std::ops::Range<usize>| Part {
            memory: memories.start + dice.below(memories.len()),
            from: dice.below(BYTES - bytes + 1),
            bytes,
        };
        let (to, from) = (part(0..self.memories), part(0..self.memories));
        let (device, host) = (part(0..self.devices), part(self.devices..self.memories));
        // The sides of a copy must not overlap: what it gives would be left open.
        let apart = to.memory != from.memory;
        match dice.below(20) {
            0..=5 if apart => Step::Copy { stream, to, from },
            6..=8 if apart => Step::Comb { stream, to, from },
            0..=11 => Step::Fill { stream, to, value },
            12 => Step::Late {
                stream,
                to: host,
                value,
            },
            13 | 14 => Step::Look { at: to },
            15 => Step::Renew {
                memory: device.memory,
                stream: 0,
            },
            16 => Step::Renew {
                memory: device.memory,
                stream,
            },
            17 => Step::Query { stream },
            18 => Step::Call { stream },
            _ => Step::Change { stream },
        }
    }

    /// The same without one of its edges, and without queries: what they tell is not foreseeable.
    fn without_an_edge(mut self, dice: &mut Dice) -> Self {
        self.steps
            .retain(|step| !matches!(step, Step::Query { .. }));
        let steps = self.steps.iter().enumerate();
        let edges = steps.filter(|(_, step)| matches!(step, Step::Edge { .. }));
        let edges: Vec<usize> = edges.map(|(at, _)| at).collect();
        if !edges.is_empty() {
            self.steps.remove(edges[dice.below(edges.len())]);
        }
        self
    }

    /// What the model says of it.
    pub(crate) fn judged(&self) -> Model {
        let mut model = Model::new(self.streams, self.memories);
        self.steps.iter().for_each(|&step| model.take(step));
        model
    }

    pub(crate) fn describe(&self) -> String {
        let (seed, policy, queues) = (self.seed, self.policy, self.queues);
        format!(
            "seed {seed}, {policy:?}, {queues} queues: {:#?}",
            self.steps
        )
    }
}

impl Step {
    fn stream(self) -> usize {
        match self {
            Self::Copy { stream, .. }
            | Self::Comb { stream, .. }
            | Self::Fill { stream, .. }
            | Self::Renew { stream, .. } => stream,
            _ => 0,
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("CROSSDOCK_SIM_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok());
    0..asked.unwrap_or(PROGRAMS)
}

#[test]
fn right_programs_make_no_report_and_give_the_right_bytes() {
    for seed in seeds() {
        let program = Program::right(seed);
        let outcome = run(&program, true);
        assert_eq!(outcome.reports, [], "{}", program.describe());
        assert!(
            outcome.wrong_bytes.is_empty(),
            "{:?}, {}",
            outcome.wrong_bytes,
            program.describe()
        );
        assert_eq!(outcome.leaks, 0, "{}", program.describe());
    }
}

#[test]
fn a_missing_edge_is_reported_in_every_schedule_and_one_too_many_is_not() {
    let (mut wrong, mut right) = (0, 0);
    for seed in seeds() {
        let mut dice = Dice::new(!seed);
        let mut program = Program::right(seed).without_an_edge(&mut dice);
        let is_wrong = program.judged().is_wrong;
        for policy in POLICIES {
            program.policy = policy;
            let outcome = run(&program, !is_wrong);
            let found = outcome
                .reports
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>();
            assert_eq!(
                !found.is_empty(),
                is_wrong,
                "{found:#?} in {}",
                program.describe()
            );
        }
        *(if is_wrong { &mut wrong } else { &mut right }) += 1;
    }
    assert!(
        wrong > right && right > 0,
        "{wrong} wrong programs and {right} right ones"
    );
}
