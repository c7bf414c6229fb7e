//! Simpler calls, one step each: smaller tensors, the first device, no stream, the best route.

use crate::program::{Call, ClientCall, Element, Offset, Op, Way};

/// The same operation, simpler in one way each.
pub(super) fn simpler_ops(op: &Op) -> Vec<Op> {
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
