//! Copies around the end of a client, or of what Crossdock has of its stream.

use super::clients::Client;
use super::sequences::direct;
use super::{EVENTS, STREAMS, TENSORS, Writer};
use crate::model::View;
use crate::program::{Call, ClientCall, Element, Offset};

impl Writer {
    /// Crossdock gives up the client's stream between the ends of two copies there into pageable memory; then it makes
    /// an alike copy on a stream of its own, before the second may begin.
    pub(super) fn ending_behind_copies(&mut self, c: usize, device: usize) {
        let t = self.random.index(TENSORS);
        let [of, first, second, other, last] = [0, 1, 2, 3, 4].map(|step| (t + step) % TENSORS);
        let (s, e) = (self.random.index(STREAMS), self.random.index(EVENTS));
        let (own, later) = ((s + 1) % STREAMS, (e + 1) % EVENTS);
        let element = self.random.one(&[Element::Four, Element::Eight]);
        let shape = vec![self.random.one(&[64, 1000, 4097])];
        let seeds = [(); 2].map(|()| self.seed());
        let make = |t, seed| Call::Make {
            t,
            device,
            element,
            shape: shape.clone(),
            seed,
        };
        let read = |t, of, s| direct((t, of), 0, s);
        let fails = false;
        self.plan(c, ClientCall::Wrap { s });
        self.planned.extend([
            make(of, seeds[0]),
            make(other, seeds[1]),
            Call::Hold { e, s, fails },
            read(first, of, s),
            Call::Hold { e: later, s, fails },
            read(second, of, s),
            Call::Open { e },
            Call::SyncTensor { t: first },
        ]);
        let gone = [first, second, of].map(|t| Call::DropTensor { t });
        self.planned.extend(gone);
        self.planned.extend([
            Call::DropStream { s },
            Call::Stream { s: own, device },
            read(last, other, own),
            Call::Open { e: later },
        ]);
        self.are_left(
            [of, first, second],
            [(other, device), (last, 0)],
            (element, &shape),
        );
    }

    /// The client goes after copies that need a bounce through memory of the host: of its own memory on a stream of
    /// Crossdock's, or of Crossdock's on its stream. Then an alike copy, on the same stream of Crossdock's or a new one.
    pub(super) fn going_after_copies(&mut self, c: usize, client: Client) {
        let device = client.device;
        let t = self.random.index(TENSORS);
        let [of, there, back, other, last] = [0, 1, 2, 3, 4].map(|step| (t + step) % TENSORS);
        let s = self.random.index(STREAMS);
        let element = self.random.one(&[Element::Four, Element::Eight]);
        let shape = vec![self.random.one(&[64, 1000, 4097])];
        let seeds = [(); 2].map(|()| self.seed());
        let make = |t, device, seed| Call::Make {
            t,
            device,
            element,
            shape: shape.clone(),
            seed,
        };
        let moved = |t, of, device| direct((t, of), device, s);
        let lends = !client.is_known || self.random.once_in(2);
        if lends {
            let lent = ClientCall::Lend {
                t: there,
                element,
                shape: shape.clone(),
                seed: seeds[0],
                offset: Offset::default(),
                pool: false,
            };
            self.plan(c, lent);
            self.planned.push_back(Call::Stream { s, device });
        } else {
            self.plan(c, ClientCall::Wrap { s });
            let first = [make(of, 0, seeds[0]), moved(there, of, device)];
            self.planned.extend(first);
        }
        let copied = [moved(back, there, 0), Call::SyncStream { s }];
        let gone = [of, there, back].map(|t| Call::DropTensor { t });
        self.planned.extend(copied.into_iter().chain(gone));
        if !lends {
            self.planned.push_back(Call::DropStream { s });
        }
        self.plan(c, ClientCall::Go);
        if !lends || self.random.once_in(2) {
            self.planned.push_back(Call::Stream { s, device });
        }
        self.planned.extend([
            make(other, device, seeds[1]),
            moved(last, other, 0),
            Call::Read { t: last },
        ]);
        self.clients.here[c] = None;
        self.are_left(
            [of, there, back],
            [(other, device), (last, 0)],
            (element, &shape),
        );
    }

    /// Of a sequence's tensors these are gone, and those left.
    fn are_left(
        &mut self,
        gone: [usize; 3],
        left: [(usize, usize); 2],
        (element, shape): (Element, &[i64]),
    ) {
        self.are_gone(gone);
        for (t, device) in left {
            self.tensors[t] = Some(View::compact(0, element, shape, device));
        }
    }
}
