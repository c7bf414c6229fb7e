//! Vector clocks: what an operation, or the host, knows to be over.

/// Host code. All its threads are one actor: the engine cannot see how they order each other.
pub(crate) const HOST: usize = 0;

/// One moment of one actor: an operation of a stream, or something host code did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) actor: usize,
    pub(crate) time: u64,
}

/// For each actor, the last of its moments that is known to be over.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn get(&self, actor: usize) -> u64 {
        self.0.get(actor).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, at: Epoch) {
        if self.0.len() <= at.actor {
            self.0.resize(at.actor + 1, 0);
        }
        if let Some(time) = self.0.get_mut(at.actor) {
            *time = at.time;
        }
    }

    /// Learns all that `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Whether `other` knows all that this one knows.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0
            .iter()
            .enumerate()
            .all(|(actor, &time)| time <= other.get(actor))
    }

    pub(crate) fn knows(&self, moment: Epoch) -> bool {
        self.get(moment.actor) >= moment.time
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Epoch};

    #[test]
    fn a_clock_knows_what_it_joined_and_nothing_later() {
        let mut one = Clock::default();
        one.set(Epoch { actor: 3, time: 7 });
        let mut two = Clock::default();
        two.set(Epoch { actor: 1, time: 2 });
        two.join(&one);
        assert!(two.knows(Epoch { actor: 3, time: 7 }));
        assert!(!two.knows(Epoch { actor: 3, time: 8 }));
        assert!(!one.knows(Epoch { actor: 1, time: 1 }));
    }
}
