//! Makes a program that fails smaller, for as long as it fails in the same way: first what changes it most (faults,
//! threads, its second half), then single operations, then what they are made with.

mod faults;
mod simpler;

use std::ops::Range;
use std::time::Instant;

use crate::program::{Call, Case, ClientCall, Ending};
use crate::verdict::{Finding, Verdict};

use faults::Rules;
use simpler::simpler_ops;

/// How often a candidate is tried, by how many of three repeats of the finding failed: what happens seldom is tried
/// more often before it counts as right.
const TIMES: [usize; 4] = [8, 6, 3, 1];

/// Whether a case still fails.
pub type Try<'a> = dyn FnMut(&Case) -> Verdict + 'a;

/// The smallest case that was found before `end`, and how it fails. `attempt` has to answer as a replay of the file
/// would: what happens only after other trials cannot be made small.
pub fn smallest(
    case: &Case,
    finding: &Finding,
    end: Instant,
    attempt: &mut Try<'_>,
) -> (Case, Finding) {
    let mut best = Best {
        case: case.clone(),
        finding: finding.clone(),
        end,
        attempt,
        times: 1,
    };
    let repeats = (1..TIMES.len()).filter(|_| best.fails(case).is_some());
    let repeats = repeats.count();
    best.times = TIMES[repeats];
    if repeats == 0 && best.fails(case).is_none() {
        return (best.case, best.finding);
    }
    loop {
        let before = best.case.clone();
        best.simpler_setup();
        best.fewer_programs();
        best.fewer_ops();
        best.fewer_devices();
        best.fewer_views();
        best.simpler_calls();
        if best.case == before || Instant::now() > end {
            return (best.case, best.finding);
        }
    }
}

struct Best<'a, 'b> {
    case: Case,
    finding: Finding,
    end: Instant,
    attempt: &'a mut Try<'b>,
    times: usize,
}

impl Best<'_, '_> {
    /// How a case fails, where it does in the same way.
    fn fails(&mut self, case: &Case) -> Option<Finding> {
        for _ in 0..self.times {
            match (self.attempt)(case) {
                Verdict::Found(finding) if finding.what == self.finding.what => {
                    return Some(finding);
                }
                Verdict::Found(_) | Verdict::Passed { .. } => {}
            }
        }
        None
    }

    /// Takes the case over if it fails in the same way.
    fn take(&mut self, case: Case) -> bool {
        if case == self.case || Instant::now() > self.end {
            return false;
        }
        let Some(finding) = self.fails(&case) else {
            return false;
        };
        (self.case, self.finding) = (case, finding);
        true
    }

    /// Takes over what changes the whole case, so that all that follows is about less.
    fn simpler_setup(&mut self) {
        for change in [no_fault, one_thread, one_runtime, large_stages] {
            let mut case = self.case.clone();
            change(&mut case);
            self.take(case);
        }
        self.fewer_faults(Rules::LAYER);
        self.fewer_faults(Rules::DRIVER);
    }

    /// Leaves out rules of faults, then makes the one that is left name an early call.
    fn fewer_faults(&mut self, rules: Rules) {
        let longest = rules.count(&self.case).div_ceil(2);
        let count = |case: &Case| rules.count(case);
        self.leave_out_runs(longest, count, |case, some| rules.without(case, some));
        let earlier = rules.of_earlier_calls(&self.case);
        // The first that fails is the earliest one.
        let _ = earlier.into_iter().any(|case| self.take(case));
    }

    fn fewer_programs(&mut self) {
        let mut at = 0;
        while self.case.programs.len() > 1 && at < self.case.programs.len() {
            let mut case = self.case.clone();
            case.programs.remove(at);
            if !self.take(case) {
                at += 1;
            }
        }
    }

    fn fewer_ops(&mut self) {
        for program in 0..self.case.programs.len() {
            let count = |case: &Case| case.programs[program].len();
            let longest = count(&self.case) / 2;
            self.leave_out_runs(longest, count, |case, ops| without(case, program, ops));
        }
    }

    /// Leaves out runs of so many parts of a case, long ones first.
    fn leave_out_runs(
        &mut self,
        longest: usize,
        count: impl Fn(&Case) -> usize,
        without: impl Fn(&Case, Range<usize>) -> Case,
    ) {
        let mut length = longest;
        while length > 0 {
            let mut end = count(&self.case);
            // From behind: what comes later needs what came before.
            while end > 0 {
                let start = end.saturating_sub(length);
                self.take(without(&self.case, start..end));
                end = start;
            }
            length /= 2;
        }
    }

    /// Lets calls name the tensor itself where they name a view of it.
    fn fewer_views(&mut self) {
        for program in 0..self.case.programs.len() {
            let mut at = self.case.programs[program].len();
            while at > 0 {
                at -= 1;
                let Some(op) = self.case.programs[program].get(at) else {
                    continue;
                };
                let Some((view, of)) = view_of(&op.call) else {
                    continue;
                };
                let mut case = without(&self.case, program, at..at + 1);
                case.programs[program]
                    .iter_mut()
                    .for_each(|op| rename(&mut op.call, view, of));
                self.take(case);
            }
        }
        // Views of two tensors that have to fit each other go together.
        let mut case = self.case.clone();
        for program in &mut case.programs {
            while let Some(at) = program.iter().rposition(|op| view_of(&op.call).is_some()) {
                let op = program.remove(at);
                if let Some((view, of)) = view_of(&op.call) {
                    program
                        .iter_mut()
                        .for_each(|op| rename(&mut op.call, view, of));
                }
            }
        }
        self.take(case);
    }

    /// Leaves out devices that no call names: to open them takes longer than the calls. The first is
    /// where the memory of others is.
    fn fewer_devices(&mut self) {
        for device in (1..self.case.devices.len()).rev() {
            let mut case = self.case.clone();
            let mut is_named = false;
            for op in case.programs.iter_mut().flatten() {
                if let Some(named) = device_of(&mut op.call) {
                    is_named |= *named == device;
                    *named -= usize::from(*named > device);
                }
            }
            case.devices.remove(device);
            if !is_named {
                self.take(case);
            }
        }
    }

    /// One call after the other becomes the simplest of its kind.
    fn simpler_calls(&mut self) {
        for program in 0..self.case.programs.len() {
            for at in 0..self.case.programs[program].len() {
                let op = self.case.programs[program][at].clone();
                for simpler in simpler_ops(&op) {
                    let mut case = self.case.clone();
                    case.programs[program][at] = simpler;
                    self.take(case);
                }
            }
        }
    }
}

/// The device that a call names.
const fn device_of(call: &mut Call) -> Option<&mut usize> {
    match call {
        Call::Make { device, .. }
        | Call::To { device, .. }
        | Call::Stream { device, .. }
        | Call::Explain { device, .. }
        | Call::Default { device, .. }
        | Call::SyncDevice { device }
        | Call::Register { device, .. }
        | Call::Client {
            does: ClientCall::Come { device, .. },
            ..
        }
        | Call::Trim { device, .. } => Some(device),
        _ => None,
    }
}

/// The place of a view and that of its tensor.
const fn view_of(call: &Call) -> Option<(usize, usize)> {
    match call {
        Call::Slice { t, of, .. }
        | Call::Permute { t, of, .. }
        | Call::Reshape { t, of, .. }
        | Call::Clone { t, of } => Some((*t, *of)),
        _ => None,
    }
}

/// Names another tensor in a call that works on one.
fn rename(call: &mut Call, from: usize, to: usize) {
    let places: [Option<&mut usize>; 2] = match call {
        Call::CopyFrom { t, of, .. } => [Some(t), Some(of)],
        Call::To { of, .. }
        | Call::Export { of, .. }
        | Call::Draft { of, .. }
        | Call::Take { of, .. }
        | Call::Register { of, .. }
        | Call::Client {
            does: ClientCall::Take { of, .. },
            ..
        }
        | Call::Explain { of, .. } => [Some(of), None],
        Call::Fill { t, .. }
        | Call::Write { t, .. }
        | Call::Read { t }
        | Call::Peek { t }
        | Call::SyncTensor { t }
        | Call::WaitToRead { t, .. }
        | Call::WaitToWrite { t, .. }
        | Call::UsedOn { t, .. }
        | Call::WrittenOn { t, .. }
        | Call::ReadyOn { t, .. } => [Some(t), None],
        _ => [None, None],
    };
    for place in places.into_iter().flatten().filter(|place| **place == from) {
        *place = to;
    }
}

/// The case without some operations of a program. A process that exits or forks does so at the same operation as before.
fn without(case: &Case, program: usize, ops: Range<usize>) -> Case {
    let mut case = case.clone();
    if let (0, Ending::Exit(at) | Ending::Fork(at)) = (program, &mut case.ending) {
        let before = ops.start.min(*at)..ops.end.min(*at);
        *at -= before.len();
    }
    case.programs[program].drain(ops);
    case
}

fn no_fault(case: &mut Case) {
    (case.fault, case.engine.fault) = (None, None);
}

fn one_thread(case: &mut Case) {
    let ops = case.programs.iter_mut().flatten();
    ops.for_each(|op| op.thread = 0);
}

fn one_runtime(case: &mut Case) {
    case.runtimes = 1;
    case.programs
        .iter_mut()
        .flatten()
        .for_each(|op| op.runtime = 0);
}

fn large_stages(case: &mut Case) {
    case.staging = 1 << 23;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::program::{Engine, Language, Op};
    use crate::verdict::What;

    /// Reads of so many places, on two threads.
    fn case(reads: usize) -> Case {
        let op = |t| Op {
            thread: t % 2,
            runtime: 0,
            call: Call::Read { t },
        };
        Case {
            name: "planted".to_owned(),
            language: Language::Rust,
            devices: vec!["cpu".to_owned()],
            fresh: true,
            runtimes: 1,
            staging: 65_536,
            fault: None,
            ending: Ending::Return,
            engine: Engine::default(),
            programs: vec![(0..reads).map(op).collect()],
        }
    }

    /// The smallest case that still is `wrong`, and how many were tried.
    fn smallest_that_is(wrong: impl Fn(&Case) -> bool, of: &Case) -> (Case, usize) {
        let finding = Finding::new(What::Answer, "planted");
        let mut tries = 0;
        let mut attempt = |case: &Case| {
            tries += 1;
            if wrong(case) {
                return Verdict::Found(finding.clone());
            }
            Verdict::Passed {
                refused: 0,
                spent: false,
                reached: BTreeSet::new(),
            }
        };
        let end = Instant::now() + Duration::from_secs(60);
        let (small, _) = smallest(of, &finding, end, &mut attempt);
        (small, tries)
    }

    #[test]
    fn the_rule_that_counts_is_left_for_an_early_call() {
        let rules = |faults: &str| faults.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut faulty = case(1);
        faulty.engine.fault = Some("cuA@9=1,exec:cuB@40+=2!,cuC@30=3".to_owned());
        faulty.fault = Some("cpu.copy:p0.03@7=BUSY,cpu.fill:p0.03@8=VENDOR".to_owned());
        let is_wrong = |case: &Case| {
            let of_driver = rules(case.engine.fault.as_deref().unwrap_or_default());
            let of_layer = rules(case.fault.as_deref().unwrap_or_default());
            of_driver.iter().any(|rule| rule.starts_with("exec:cuB@"))
                && of_layer.iter().any(|rule| rule.starts_with("cpu.fill:"))
        };
        let (small, _) = smallest_that_is(is_wrong, &faulty);
        assert_eq!(small.engine.fault.as_deref(), Some("exec:cuB@1+=2!"));
        assert_eq!(small.fault.as_deref(), Some("cpu.fill:1=VENDOR"));
    }

    #[test]
    fn a_process_exits_at_the_same_operation_of_fewer() {
        let leaving = Case {
            ending: Ending::Exit(29),
            ..case(40)
        };
        let is_wrong = |case: &Case| {
            let Ending::Exit(at) = case.ending else {
                return false;
            };
            let op = case.programs[0].get(at);
            op.is_some_and(|op| op.call == Call::Read { t: 29 })
        };
        let (small, _) = smallest_that_is(is_wrong, &leaving);
        assert_eq!(small.ending, Ending::Exit(0));
        let [op] = small.programs[0].as_slice() else {
            unreachable!("{small:?}");
        };
        assert_eq!((op.thread, &op.call), (0, &Call::Read { t: 29 }));
    }

    #[test]
    fn two_operations_far_apart_are_left_of_many() {
        let both = |case: &Case| {
            let has = |t| {
                let mut ops = case.programs[0].iter();
                ops.any(|op| op.call == Call::Read { t })
            };
            has(3) && has(880)
        };
        let (small, tries) = smallest_that_is(both, &case(900));
        assert_eq!(small.ops(), 2);
        assert!(tries < 150, "{tries}");
    }

    #[test]
    fn what_never_happens_again_stays_as_it_was_after_a_few_tries() {
        let (same, tries) = smallest_that_is(|_| false, &case(900));
        assert_eq!(same, case(900));
        assert!(tries < 20, "{tries}");
    }
}
