//! What clients do beside Crossdock: other libraries over a simulated driver, where devices of one take part.

use super::{EVENTS, STREAMS, TENSORS, Writer};
use crate::model::View;
use crate::program::{Call, ClientCall, Element, Offset, Op, Way};

/// Places of clients.
const CLIENTS: usize = 3;
/// Calls beside a capture, before it may end.
const BESIDE: u64 = 4;

/// A client as the writer knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub(super) device: usize,
    pub(super) is_known: bool,
    is_own: bool,
    /// The thread that began its capture.
    captures: Option<usize>,
}

/// All clients of a program.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) here: [Option<Client>; CLIENTS],
    /// The threads that have a context of a client.
    entered: Vec<(usize, usize)>,
}

/// The operations of a program that are made while a stream captures, or a client's context is current.
#[must_use]
pub fn ops_beside_clients(ops: &[Op]) -> Vec<usize> {
    let (mut open, mut ops_beside_clients) = (0_usize, Vec::new());
    for (index, op) in ops.iter().enumerate() {
        if open > 0 {
            ops_beside_clients.push(index);
        }
        let Call::Client { does, .. } = &op.call else {
            continue;
        };
        match does {
            ClientCall::Capture { .. } | ClientCall::CaptureShown { .. } | ClientCall::Enter => {
                open += 1
            }
            ClientCall::EndCapture | ClientCall::Leave => open = open.saturating_sub(1),
            _ => {}
        }
    }
    ops_beside_clients
}

impl Writer {
    /// The thread that has to make a call: what began on one ends there.
    pub(super) fn thread_of(&mut self, call: &Call, drawn: usize) -> usize {
        let Call::Client { c, does } = call else {
            return drawn;
        };
        let clients = &mut self.clients;
        match does {
            ClientCall::Capture { .. } | ClientCall::CaptureShown { .. } => {
                if let Some(client) = &mut clients.here[*c] {
                    client.captures = Some(drawn);
                }
                drawn
            }
            ClientCall::EndCapture => {
                let client = clients.here[*c].as_mut();
                let thread = client.and_then(|client| client.captures.take());
                thread.unwrap_or(drawn)
            }
            ClientCall::Enter => {
                clients.entered.push((*c, drawn));
                drawn
            }
            ClientCall::Leave => {
                let at = clients
                    .entered
                    .iter()
                    .rposition(|(entered, _)| entered == c);
                at.map_or(drawn, |at| clients.entered.remove(at).1)
            }
            _ => drawn,
        }
    }

    /// Something that a client does, and maybe calls around it.
    pub(super) fn client(&mut self) -> Option<Call> {
        let c = self.random.index(CLIENTS);
        let Some(client) = self.clients.here[c] else {
            return Some(self.coming(c));
        };
        let does = match self.random.below(16) {
            _ if client.captures.is_some() => ClientCall::EndCapture,
            12 => ClientCall::SetLastError,
            13 => ClientCall::ClearLastError,
            11 if self.may_go(c) => {
                // Where somebody still has something of it, this and its next arrival are left out.
                self.clients.here[c] = None;
                ClientCall::Go
            }
            0..=2 => return Some(self.lending(c, client)),
            3..=5 | 14 => return Some(self.taking(c, client)),
            6..=8 => return Some(self.capturing(c, client)),
            9 if client.is_known => ClientCall::Wrap {
                s: self.random.index(STREAMS),
            },
            9 | 10 => match self.clients.entered.last() {
                Some(&(c, _)) => {
                    let does = ClientCall::Leave;
                    return Some(Call::Client { c, does });
                }
                None => ClientCall::Enter,
            },
            _ => ClientCall::Enter,
        };
        Some(Call::Client { c, does })
    }

    fn may_go(&mut self, c: usize) -> bool {
        let mut entered = self.clients.entered.iter();
        !entered.any(|(entered, _)| *entered == c) && self.random.once_in(2)
    }

    fn coming(&mut self, c: usize) -> Call {
        let drivers = self.setup.drivers;
        let devices = (0..self.setup.devices).filter(|device| drivers >> device & 1 == 1);
        let devices: Vec<usize> = devices.collect();
        let device = self.random.one(&devices);
        let (is_known, is_own) = (!self.random.once_in(3), !self.random.once_in(3));
        let client = Client {
            device,
            is_known,
            is_own,
            captures: None,
        };
        self.clients.here[c] = Some(client);
        let does = ClientCall::Come {
            device,
            own: is_own,
            // With several runtimes a blocking stream's capture would make other programs' calls on the default stream
            // fail.
            blocking: self.setup.runtimes == 1 && self.random.once_in(3),
            known: is_known,
        };
        if is_known && self.random.once_in(3) {
            // Nothing else keeps its stream yet.
            self.ending_behind_copies(c, device);
        } else if self.random.once_in(5) {
            self.going_after_copies(c, client);
        } else if is_known {
            let s = self.random.index(STREAMS);
            self.plan(c, ClientCall::Wrap { s });
        }
        Call::Client { c, does }
    }

    pub(super) fn plan(&mut self, c: usize, does: ClientCall) {
        self.planned.push_back(Call::Client { c, does });
    }

    /// Device memory of the client, which mostly is read by pending work when the tensor ends.
    fn lending(&mut self, c: usize, client: Client) -> Call {
        let (t, s) = (self.random.index(TENSORS), self.random.index(STREAMS));
        let (element, shape) = (self.random.one(&Element::ALL), self.shape());
        self.tensors[t] = Some(View::compact(0, element, &shape, client.device));
        let offset = Offset::drawn(&mut self.random);
        if offset.bytes() > 0 {
            let (seed, stream) = (self.seed(), self.on());
            self.planned.push_back(match self.random.once_in(4) {
                true => Call::Write { t, seed },
                false => Call::Fill { t, seed, stream },
            });
        }
        if !self.random.once_in(3) {
            let device = self.random.index(self.setup.devices);
            if self.random.once_in(2) {
                self.planned.push_back(Call::Stream { s, device });
            }
            self.held(s);
            let to = self.random.index(self.setup.devices);
            self.read_on((t + 1) % TENSORS, (t, to), s);
            if !self.random.once_in(3) {
                self.tensors[t] = None;
                self.planned.push_back(Call::DropTensor { t });
            }
        }
        let does = ClientCall::Lend {
            t,
            element,
            shape,
            seed: self.seed(),
            pool: self.random.once_in(2),
            offset,
        };
        Call::Client { c, does }
    }

    /// A fill on a stream that something mostly holds.
    fn pending_fill(&mut self, t: usize, s: usize) {
        self.held(s);
        let (seed, stream) = (self.seed(), Some(s));
        self.planned.push_back(Call::Fill { t, seed, stream });
    }

    /// The client reads a tensor of its device, which mostly is written by pending work and ends meanwhile.
    fn taking(&mut self, c: usize, client: Client) -> Call {
        let (of, s) = (self.random.index(TENSORS), self.random.index(STREAMS));
        let t = (of + 1) % TENSORS;
        let first = self.tensor_on(of, client.device);
        if !self.random.once_in(3) {
            self.pending_fill(of, s);
        }
        self.tensors[t] = self.tensors[of].clone();
        let does = ClientCall::Take {
            t,
            of,
            pool: self.random.once_in(2),
            waits: self.random.once_in(4),
            offset: Offset::drawn(&mut self.random),
        };
        self.plan(c, does);
        match self.random.below(3) {
            0 => {
                self.tensors[of] = None;
                self.planned.push_back(Call::DropTensor { t: of });
            }
            1 => {
                let (seed, stream) = (self.seed(), self.on());
                self.planned.push_back(Call::Fill {
                    t: of,
                    seed,
                    stream,
                });
            }
            _ => {}
        }
        first
    }

    /// The client captures its stream, mostly while Crossdock has it and work is pending there.
    fn capturing(&mut self, c: usize, client: Client) -> Call {
        let s = self.random.index(STREAMS);
        let mode = self.random.below(3) as u8;
        let (of, device) = (self.random.index(TENSORS), client.device);
        let first = self.tensor_on(of, device);
        let is_shown = !client.is_own && !self.random.once_in(3);
        if is_shown {
            self.planned.push_back(Call::Stream { s, device });
        } else if client.is_known {
            self.plan(c, ClientCall::Wrap { s });
        }
        if (is_shown || client.is_known) && self.random.once_in(2) {
            self.pending_fill(of, s);
        }
        let captures = match is_shown {
            true => ClientCall::CaptureShown { s, mode },
            false => ClientCall::Capture { mode },
        };
        self.plan(c, captures);
        for _ in 0..self.random.below(BESIDE) + 2 {
            let call = self.beside((of, s), device);
            self.planned.push_back(call);
        }
        if !self.random.once_in(4) {
            self.plan(c, ClientCall::EndCapture);
            if is_shown {
                self.pending_fill(of, s);
            }
        }
        first
    }

    /// A call beside a capture, on the stream or not.
    fn beside(&mut self, (of, s): (usize, usize), device: usize) -> Call {
        let (seed, stream) = (self.seed(), Some(s));
        let other = (of + 1 + self.random.index(TENSORS - 1)) % TENSORS;
        match self.random.below(14) {
            0 => Call::Fill {
                t: of,
                seed,
                stream,
            },
            1 => Call::To {
                t: other,
                of,
                device: self.random.index(self.setup.devices),
                way: self.random.one(&Way::ALL),
                stream: self.random.one(&[stream, None]),
            },
            2 => Call::Export {
                x: 0,
                of,
                stream: self.random.one(&[stream, None]),
            },
            3 => Call::Record {
                e: self.random.index(EVENTS),
                s,
            },
            4 => Call::Ask { s },
            5 => Call::SyncStream { s },
            6 => Call::SyncDevice { device },
            7 => Call::DropTensor { t: of },
            8 => Call::UsedOn { t: of, s },
            9 => Call::WaitToWrite { t: of, s },
            10 => Call::DropStream { s },
            11 => Call::Write { t: of, seed },
            12 => Call::Trim { device, keep: 0 },
            _ => self.tensor_on(other, device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Setup, program};
    use super::*;

    fn programs(drivers: u64) -> Vec<Vec<Op>> {
        let setup = Setup {
            devices: 3,
            runtimes: 1,
            threads: 4,
            length: 60,
            failures: false,
            drivers,
        };
        (0..200).map(|seed| program(seed, setup)).collect()
    }

    fn does(op: &Op) -> Option<(usize, &ClientCall)> {
        match &op.call {
            Call::Client { c, does } => Some((*c, does)),
            _ => None,
        }
    }

    #[test]
    fn many_programs_have_captures_contexts_and_memory_of_clients() {
        let programs = programs(0b110);
        let with = |is_meant: fn(&ClientCall) -> bool| {
            let has = |ops: &&Vec<Op>| ops.iter().filter_map(does).any(|(_, does)| is_meant(does));
            programs.iter().filter(has).count()
        };
        let captures = with(|does| {
            matches!(
                does,
                ClientCall::Capture { .. } | ClientCall::CaptureShown { .. }
            )
        });
        let lends = with(|does| matches!(does, ClientCall::Lend { .. }));
        let takes = with(|does| matches!(does, ClientCall::Take { .. }));
        let enters = with(|does| matches!(does, ClientCall::Enter));
        let beside = programs
            .iter()
            .filter(|ops| ops_beside_clients(ops).len() > 2)
            .count();
        let shown = with(|does| matches!(does, ClientCall::CaptureShown { .. }));
        let errs = with(|does| matches!(does, ClientCall::SetLastError));
        let ends = |ops: &&Vec<Op>| {
            let mut pairs = ops.windows(2);
            // Only then is the same stream given up right behind what it read.
            pairs.any(|pair| {
                matches!(pair[0].call, Call::DropTensor { .. })
                    && matches!(pair[1].call, Call::DropStream { .. })
            })
        };
        let ends = programs.iter().filter(ends).count();
        assert!(ends >= 20, "{ends}");
        let goes = with(|does| matches!(does, ClientCall::Go));
        assert!(goes >= 20, "{goes}");
        let often = [captures, lends, takes, beside];
        assert!(often.iter().all(|programs| *programs >= 40), "{often:?}");
        assert!(enters >= 40, "{enters}");
        assert!(shown >= 10 && errs >= 12, "{shown} {errs}");
        let is_aside = |does: &ClientCall| match does {
            ClientCall::Lend { offset, .. } | ClientCall::Take { offset, .. } => offset.bytes() > 0,
            _ => false,
        };
        let aside = with(is_aside);
        assert!(aside >= 40, "{aside}");
    }

    #[test]
    fn a_capture_and_a_context_end_on_the_thread_that_began_them() {
        for ops in programs(0b110) {
            let (mut captures, mut entered) = ([None; CLIENTS], Vec::new());
            for op in &ops {
                match does(op) {
                    Some((c, ClientCall::Capture { .. } | ClientCall::CaptureShown { .. })) => {
                        captures[c] = Some(op.thread)
                    }
                    Some((c, ClientCall::EndCapture)) => {
                        assert_eq!(captures[c].take(), Some(op.thread), "{ops:?}");
                    }
                    Some((c, ClientCall::Enter)) => entered.push((c, op.thread)),
                    Some((c, ClientCall::Leave)) => {
                        assert_eq!(entered.pop(), Some((c, op.thread)), "{ops:?}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn no_client_comes_where_there_is_no_simulated_driver() {
        let mut ops = programs(0).into_iter().flatten();
        assert!(ops.all(|op| does(&op).is_none()));
    }
}
