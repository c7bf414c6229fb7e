//! Every call that takes a stream, on a stream that is held: nothing happens early, nothing hangs.

use crate::program::{Call, Case, Element, Ending, Engine, Language, Offset, Op, Way};
use crate::world::MANY_QUEUES;

/// How the elements lie that a call works on.
#[derive(Debug, Clone, Copy)]
enum Form {
    Whole,
    EverySecond,
    Reversed,
    Turned,
}

const FORMS: [Form; 4] = [Form::Whole, Form::EverySecond, Form::Reversed, Form::Turned];
const SHAPE: [i64; 2] = [6, 8];

/// The tensor that work is pending on, and the form of it that calls see.
const WRITTEN: usize = 0;
const SEEN: usize = 2;
/// Where results go, and the form of it.
const RESULT: usize = 3;
const RESULT_SEEN: usize = 4;
const STREAM: usize = 0;
const OTHER: usize = 1;

/// How many calls there are to try.
const BODIES: usize = 44;

/// Every call for every stream, device and width; the form turns, so each call meets each of them
/// with each width and between each two devices.
pub(super) fn count(devices: &[String]) -> u64 {
    (devices.len().pow(3) * Element::ALL.len() * BODIES) as u64
}

/// The cases of each call with each element, on the first of so many devices.
pub(crate) fn each_call(devices: usize) -> impl Iterator<Item = u64> {
    let step = BODIES * devices.pow(3);
    let elements = (0..Element::ALL.len()).map(move |element| element * step);
    elements.flat_map(|first| (first..first + BODIES).map(|number| number as u64))
}

/// The case of a number below the count.
pub(super) fn case(devices: &[String], language: Language, number: u64) -> Case {
    let mut left = number as usize;
    let mut digit = |base: usize| {
        let digit = left % base;
        left /= base;
        digit
    };
    let count = devices.len();
    let (index, place) = (digit(BODIES), [digit(count), digit(count), digit(count)]);
    let width = digit(Element::ALL.len());
    let element = Element::ALL[width];
    let form = FORMS[(index + place.iter().sum::<usize>() + width) % FORMS.len()];
    let body = bodies(place[2], form).swap_remove(index);
    let [stream, from, to] = place.map(|device| &devices[device]);
    Case {
        name: format!(
            "a {} {index}: {element:?} {form:?}, stream of {stream}, {from} to {to}",
            language.name()
        ),
        language,
        devices: devices.to_vec(),
        fresh: false,
        runtimes: 1,
        staging: 65_536,
        fault: None,
        ending: Ending::Return,
        engine: Engine {
            queues: MANY_QUEUES,
            ..Engine::default()
        },
        programs: vec![in_language(language, whole(place, (element, form), &body))],
    }
}

const fn copy(t: usize, of: usize, stream: usize) -> Call {
    Call::CopyFrom {
        t,
        of,
        stream: Some(stream),
    }
}

const fn fill(t: usize) -> Call {
    Call::Fill {
        t,
        seed: 9,
        stream: Some(STREAM),
    }
}

const fn peek(t: usize) -> Call {
    Call::Peek { t }
}

/// The calls to try; `to` is the device of results.
fn bodies(to: usize, form: Form) -> Vec<Vec<Call>> {
    let read = Call::Read { t: SEEN };
    let export = |stream| {
        vec![
            Call::Export {
                x: 0,
                of: SEEN,
                stream,
            },
            Call::Import { t: 5, x: 0 },
        ]
    };
    let record = |s| Call::Record { e: 1, s };
    let write = |t| Call::Write { t, seed: 9 };
    let mut bodies = vec![
        vec![copy(RESULT_SEEN, SEEN, STREAM), peek(RESULT)],
        // Nothing but the stream itself is to be waited for.
        vec![view(5, 1, form), copy(RESULT_SEEN, 5, STREAM), peek(RESULT)],
        vec![copy(SEEN, RESULT_SEEN, STREAM), peek(WRITTEN)],
        vec![fill(SEEN), peek(WRITTEN)],
        vec![fill(RESULT_SEEN), peek(RESULT)],
        export(Some(STREAM)),
        export(None),
        vec![read.clone()],
        vec![write(SEEN)],
        vec![
            Call::WaitToWrite { t: SEEN, s: OTHER },
            record(OTHER),
            Call::SyncEvent { e: 1 },
        ],
        vec![
            Call::UsedOn {
                t: RESULT,
                s: STREAM,
            },
            write(RESULT_SEEN),
        ],
        vec![
            record(STREAM),
            Call::Wait { s: OTHER, e: 1 },
            copy(RESULT_SEEN, SEEN, OTHER),
            peek(RESULT),
        ],
        vec![copy(RESULT_SEEN, SEEN, OTHER)],
        vec![copy(RESULT_SEEN, SEEN, STREAM), copy(WRITTEN, 1, OTHER)],
        vec![Call::DropStream { s: STREAM }, read],
    ];
    for way in Way::ALL {
        for stream in [Some(STREAM), Some(OTHER), None] {
            let moved = Call::To {
                t: 5,
                of: SEEN,
                device: to,
                way,
                stream,
            };
            bodies.push(vec![moved, Call::DropTensor { t: SEEN }]);
        }
    }
    bodies.extend([lent(to, STREAM), lent(to, OTHER)]);
    bodies.extend(read_twice(to).into_iter().chain(others(to)));
    bodies
}

/// Calls that say what others do, or ask.
fn others(to: usize) -> [Vec<Call>; 10] {
    let (s, read) = (STREAM, |t| Call::Read { t });
    let take = |native| Call::Take {
        t: 5,
        of: 1,
        s,
        native,
    };
    [
        vec![
            Call::WaitToRead { t: SEEN, s: OTHER },
            Call::Record { e: 1, s: OTHER },
            Call::SyncEvent { e: 1 },
        ],
        vec![Call::WrittenOn { t: RESULT, s }, read(RESULT_SEEN)],
        vec![Call::ReadyOn { t: RESULT, s }, read(RESULT_SEEN)],
        vec![take(false), read(5)],
        vec![take(true), read(5)],
        vec![Call::Draft { t: 5, of: SEEN, s }],
        vec![Call::Explain {
            of: SEEN,
            device: to,
            s,
        }],
        vec![Call::Ask { s }],
        vec![Call::SyncStream { s }],
        vec![
            Call::Record { e: 1, s },
            Call::Wait { s: OTHER, e: 1 },
            Call::Ask { s: OTHER },
        ],
    ]
}

/// Python's copies into a tensor follow no stream: work is pending by a fill there.
fn in_language(language: Language, mut ops: Vec<Op>) -> Vec<Op> {
    if language != Language::Python {
        return ops;
    }
    for op in &mut ops {
        match &mut op.call {
            Call::CopyFrom { t, of: 1, stream } if *t == WRITTEN => {
                op.call = Call::Fill {
                    t: WRITTEN,
                    seed: 11,
                    stream: *stream,
                };
            }
            Call::CopyFrom { stream, .. } => *stream = None,
            _ => {}
        }
    }
    ops
}

/// What was read on the held stream is read on another one before it is written, or given back.
fn read_twice(to: usize) -> [Vec<Call>; 2] {
    let mut twice = lent(to, STREAM);
    twice.insert(3, read_on_other(6, to));
    let write = Call::Write { t: 1, seed: 9 };
    [vec![read_on_other(1, to), write], twice]
}

const fn read_on_other(of: usize, to: usize) -> Call {
    Call::To {
        t: 5,
        of,
        device: to,
        way: Way::Direct,
        stream: Some(OTHER),
    }
}

/// Memory of others is given back behind the work on it.
fn lent(to: usize, stream: usize) -> Vec<Call> {
    let (shape, element) = (SHAPE.to_vec(), Element::One);
    vec![
        Call::Foreign {
            t: 6,
            element,
            shape: shape.clone(),
            seed: 7,
            offset: Offset::default(),
        },
        Call::Make {
            t: 7,
            device: to,
            element,
            shape,
            seed: 8,
        },
        copy(7, 6, stream),
        Call::DropTensor { t: 6 },
        Call::Read { t: 7 },
    ]
}

/// Puts a call behind a stream that is held, with a write pending on what it reads.
fn whole(
    [stream, from, to]: [usize; 3],
    (element, form): (Element, Form),
    body: &[Call],
) -> Vec<Op> {
    let make = |t, device, seed| Call::Make {
        t,
        device,
        element,
        shape: SHAPE.to_vec(),
        seed,
    };
    let mut calls = vec![
        make(WRITTEN, from, 1),
        make(1, from, 2),
        make(RESULT, to, 3),
        view(SEEN, WRITTEN, form),
        view(RESULT_SEEN, RESULT, form),
        Call::Stream {
            s: STREAM,
            device: stream,
        },
        Call::Stream {
            s: OTHER,
            device: to,
        },
        Call::Hold {
            e: 0,
            s: STREAM,
            fails: false,
        },
        Call::CopyFrom {
            t: WRITTEN,
            of: 1,
            stream: Some(STREAM),
        },
        Call::Peek { t: WRITTEN },
    ];
    calls.extend_from_slice(body);
    calls.push(Call::Open { e: 0 });
    calls
        .into_iter()
        .map(|call| Op {
            thread: 0,
            runtime: 0,
            call,
        })
        .collect()
}

fn view(t: usize, of: usize, form: Form) -> Call {
    let [rows, columns] = SHAPE;
    match form {
        Form::Whole => Call::Clone { t, of },
        Form::EverySecond => Call::Slice {
            t,
            of,
            axes: vec![(0, 1, rows), (1, 2, columns / 2)],
        },
        Form::Reversed => Call::Slice {
            t,
            of,
            axes: vec![(rows - 1, -1, rows), (0, 1, columns)],
        },
        Form::Turned => Call::Permute {
            t,
            of,
            axes: vec![1, 0],
        },
    }
}
