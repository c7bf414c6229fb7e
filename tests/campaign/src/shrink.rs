//! Makes a program that fails smaller, for as long as it fails in the same way.

use std::time::Instant;

use crate::program::{Call, Case, ClientCall, Element, Offset, Op, Way};
use crate::verdict::{Finding, Verdict};

/// How often a finding is repeated to know whether it happens every time.
const SURE: usize = 3;
/// How often a program is tried that does not fail every time.
const RARE: usize = 8;
/// Up to which call of its hook a single fault is looked for.
const NUMBERED: u32 = 12;

/// Whether a case still fails.
pub type Try<'a> = dyn FnMut(&Case) -> Verdict + 'a;

/// The smallest case that was found before `end`, and how it fails.
pub fn smallest(
    case: &Case,
    finding: &Finding,
    end: Instant,
    attempt: &mut Try<'_>,
) -> (Case, Finding) {
    // What does not happen every time is tried more often before it counts as right.
    let again = (0..SURE)
        .filter(|_| matches!(attempt(case), Verdict::Found(_)))
        .count();
    let mut best = Best {
        case: case.clone(),
        finding: finding.clone(),
        end,
        attempt,
        times: if again == SURE { 1 } else { RARE },
    };
    loop {
        let before = best.case.clone();
        best.fewer_programs();
        best.fewer_ops();
        best.fewer_views();
        best.simpler();
        best.fewer_devices();
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
    /// Takes the case over if it fails in the same way.
    fn take(&mut self, case: Case) -> bool {
        if case == self.case || Instant::now() > self.end {
            return false;
        }
        for _ in 0..self.times {
            match (self.attempt)(&case) {
                Verdict::Found(finding) if finding.what == self.finding.what => {
                    (self.case, self.finding) = (case, finding);
                    return true;
                }
                Verdict::Found(_) | Verdict::Passed { .. } => {}
            }
        }
        false
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

    /// Leaves out runs of operations, long ones first.
    fn fewer_ops(&mut self) {
        for program in 0..self.case.programs.len() {
            let mut length = self.case.programs[program].len() / 2;
            while length > 0 {
                let mut end = self.case.programs[program].len();
                // From behind: what comes later needs what came before.
                while end > 0 {
                    let start = end.saturating_sub(length);
                    let mut case = self.case.clone();
                    case.programs[program].drain(start..end);
                    self.take(case);
                    end = start;
                }
                length /= 2;
            }
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
                let mut case = self.case.clone();
                case.programs[program].remove(at);
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

    /// Leaves out rules of the fault layer, then makes the one that is left name a single call.
    fn fewer_faults(&mut self) {
        let rules = self.case.fault.clone().unwrap_or_default();
        let mut rules: Vec<&str> = rules.split(',').filter(|rule| !rule.is_empty()).collect();
        let mut length = rules.len() / 2;
        while length > 0 {
            let mut end = rules.len();
            while end > 0 {
                let mut fewer = rules.clone();
                fewer.drain(end.saturating_sub(length)..end);
                let case = Case {
                    fault: Some(fewer.join(",")),
                    ..self.case.clone()
                };
                if !fewer.is_empty() && self.take(case) {
                    rules = fewer;
                }
                end = end.saturating_sub(length);
            }
            length /= 2;
        }
        let [only] = rules.as_slice() else { return };
        let (Some((hook, when)), Some((_, status))) = (only.split_once(':'), only.split_once('='))
        else {
            return;
        };
        if when.starts_with('p') {
            (1..NUMBERED).any(|number| {
                let fault = Some(format!("{hook}:{number}={status}"));
                self.take(Case {
                    fault,
                    ..self.case.clone()
                })
            });
        }
    }

    /// One thing after the other becomes the simplest of its kind.
    fn simpler(&mut self) {
        self.fewer_faults();
        for change in [no_fault, one_runtime, large_stages] {
            let mut case = self.case.clone();
            change(&mut case);
            self.take(case);
        }
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

fn no_fault(case: &mut Case) {
    (case.fault, case.engine.fault) = (None, None);
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

/// The same operation, simpler in one way each.
fn simpler_ops(op: &Op) -> Vec<Op> {
    let (thread, runtime) = (
        Op {
            thread: 0,
            ..op.clone()
        },
        Op {
            runtime: 0,
            ..op.clone()
        },
    );
    let calls = simpler_tensors(&op.call)
        .into_iter()
        .chain(simpler_calls(&op.call))
        .chain(simpler_clients(&op.call));
    let calls = calls.map(|call| Op { call, ..op.clone() });
    [thread, runtime].into_iter().chain(calls).collect()
}

/// Smaller tensors, of simpler elements, on the first device.
fn simpler_tensors(call: &Call) -> Vec<Call> {
    let (t, seed) = match call {
        Call::Make { t, seed, .. } | Call::Foreign { t, seed, .. } => (*t, *seed),
        _ => return Vec::new(),
    };
    let mut calls = Vec::new();
    match call {
        Call::Make {
            device,
            element,
            shape,
            ..
        } => {
            let mut with = |device: usize, element: Element, shape: Vec<i64>| {
                calls.push(Call::Make {
                    t,
                    device,
                    element,
                    shape,
                    seed,
                });
            };
            with(0, *element, shape.clone());
            with(*device, Element::One, shape.clone());
            smaller_shapes(shape)
                .into_iter()
                .for_each(|shape| with(*device, *element, shape));
        }
        Call::Foreign {
            element,
            shape,
            offset,
            ..
        } => {
            let mut with = |element: Element, shape: Vec<i64>, offset: Offset| {
                calls.push(Call::Foreign {
                    t,
                    element,
                    shape,
                    seed,
                    offset,
                });
            };
            with(Element::One, shape.clone(), *offset);
            with(*element, shape.clone(), Offset::default());
            smaller_shapes(shape)
                .into_iter()
                .for_each(|shape| with(*element, shape, *offset));
        }
        _ => {}
    }
    calls
}

/// Calls without a stream, on the first device, by the best route, of fewer axes.
fn simpler_calls(call: &Call) -> Vec<Call> {
    match call {
        Call::To {
            t,
            of,
            device,
            way,
            stream,
        } => {
            let with = |device, way, stream| Call::To {
                t: *t,
                of: *of,
                device,
                way,
                stream,
            };
            vec![
                with(0, *way, *stream),
                with(*device, Way::Best, *stream),
                with(*device, *way, None),
            ]
        }
        Call::CopyFrom { t, of, stream } => simpler_copies((*t, *of), *stream),
        Call::Fill { t, seed, .. } => vec![Call::Fill {
            t: *t,
            seed: *seed,
            stream: None,
        }],
        Call::Stream { s, .. } => vec![Call::Stream { s: *s, device: 0 }],
        Call::Default { s, device } => vec![Call::Stream {
            s: *s,
            device: *device,
        }],
        Call::Strange { .. } => simpler_layouts(call),
        _ => Vec::new(),
    }
}

/// Fewer axes of another layout, and one that begins where the elements of the tensor do.
fn simpler_layouts(call: &Call) -> Vec<Call> {
    let Call::Strange {
        t,
        of,
        shape,
        strides,
        first,
        bytes,
    } = call
    else {
        return Vec::new();
    };
    let without = |axis| {
        let (mut shape, mut strides) = (shape.clone(), strides.clone());
        shape.remove(axis);
        strides.remove(axis);
        Call::Strange {
            t: *t,
            of: *of,
            shape,
            strides,
            first: *first,
            bytes: *bytes,
        }
    };
    let aligned = Call::Strange {
        t: *t,
        of: *of,
        shape: shape.clone(),
        strides: strides.clone(),
        first: *first,
        bytes: 0,
    };
    let fewer = (0..shape.len()).map(without);
    fewer.chain([aligned]).collect()
}

/// Less memory of a client's, and simpler one.
fn simpler_memory(does: &ClientCall) -> Vec<ClientCall> {
    match does {
        ClientCall::Lend {
            t,
            element,
            shape,
            seed,
            pool,
            offset,
        } => {
            let with = |element: Element, shape: Vec<i64>, (pool, offset)| ClientCall::Lend {
                t: *t,
                element,
                shape,
                seed: *seed,
                pool,
                offset,
            };
            let (own, aligned) = ((*pool, *offset), (*pool, Offset::default()));
            let smaller = smaller_shapes(shape).into_iter();
            let smaller = smaller.map(|shape| with(*element, shape, own));
            let simpler = [
                (Element::One, own),
                (*element, (false, *offset)),
                (*element, aligned),
            ];
            let simpler = simpler.map(|(element, of)| with(element, shape.clone(), of));
            simpler.into_iter().chain(smaller).collect()
        }
        ClientCall::Take {
            t,
            of,
            pool,
            waits,
            offset,
        } => {
            let with = |pool, waits, offset| ClientCall::Take {
                t: *t,
                of: *of,
                pool,
                waits,
                offset,
            };
            vec![
                with(false, *waits, *offset),
                with(*pool, true, *offset),
                with(*pool, *waits, Offset::default()),
            ]
        }
        _ => Vec::new(),
    }
}

/// Clients of the primary context with streams of the usual kind, and less memory of theirs.
fn simpler_clients(call: &Call) -> Vec<Call> {
    let Call::Client { c, does } = call else {
        return Vec::new();
    };
    let does = match does {
        ClientCall::Come {
            device,
            own,
            blocking,
            known,
        } => {
            let with = |own, blocking| ClientCall::Come {
                device: *device,
                own,
                blocking,
                known: *known,
            };
            vec![with(false, *blocking), with(*own, false)]
        }
        ClientCall::Lend { .. } | ClientCall::Take { .. } => simpler_memory(does),
        ClientCall::Capture { .. } => vec![ClientCall::Capture { mode: 2 }],
        ClientCall::CaptureShown { s, .. } => vec![ClientCall::CaptureShown { s: *s, mode: 2 }],
        _ => Vec::new(),
    };
    let does = does.into_iter();
    does.map(|does| Call::Client { c: *c, does }).collect()
}

/// Copies without a stream, into a target of their own, or of no other tensor.
fn simpler_copies((t, of): (usize, usize), stream: Option<usize>) -> Vec<Call> {
    let way = Way::Direct;
    vec![
        Call::CopyFrom {
            t,
            of,
            stream: None,
        },
        Call::Fill { t, seed: 9, stream },
        Call::To {
            t,
            of,
            device: 0,
            way,
            stream,
        },
    ]
}

fn smaller_shapes(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut smaller = Vec::new();
    for axis in 0..shape.len() {
        for extent in [1, 2, shape[axis] / 2, shape[axis] - 1] {
            if extent > 0 && extent < shape[axis] {
                let mut one = shape.to_vec();
                one[axis] = extent;
                smaller.push(one);
            }
        }
    }
    smaller
}
