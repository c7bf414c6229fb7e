//! Whether memory may be called locked, or known: a registration that failed has locked none.

use crossdock_sdk::abi::Status;

use super::Judge;
use crate::caller::{Failed, Failure};
use crate::program::Call;
use crate::verdict::{Finding, What};

impl Judge {
    /// The memory of a tensor was locked.
    pub(super) fn is_locked_now(&mut self, of: usize) {
        let memory = self.tensors.get(&of).map(|view| view.memory);
        self.told_of.extend(memory);
    }

    /// Memory that no device was ever told of is not called locked.
    pub(super) fn must_not_be_locked(&self, call: &Call, error: &Failed) -> Result<(), Finding> {
        let Call::Register { of, device, .. } = call else {
            return Ok(());
        };
        // A device's own memory needs no lock, and its plugin says so.
        let is_new = self.tensors.get(of).is_some_and(|view| {
            view.device == 0 && *device != 0 && !self.told_of.contains(&view.memory)
        });
        let is_called_locked = error.kind == Failure::Hook(Status::CONFLICT);
        if is_new && is_called_locked && !self.hooks_fail {
            let why = format!(
                "memory that was never locked is called locked: {}",
                error.why
            );
            return Err(Finding::new(What::Answer, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Outcome;
    use crate::judge::tests::{did, made};
    use crate::program::{Element, Language, Offset, Way};

    const REGISTER: Call = Call::Register {
        r: 0,
        of: 0,
        device: 1,
    };

    fn refused(status: Status) -> Outcome {
        Outcome::Failed(Failed {
            kind: Failure::Hook(status),
            ..Failed::other("no".to_owned())
        })
    }

    /// A judge that knows memory of the host in place 0.
    fn with_memory() -> Judge {
        let mut judge = Judge::new(true, false, Language::Rust);
        let lent = Call::Foreign {
            t: 0,
            element: Element::Eight,
            shape: vec![2],
            seed: 1,
            offset: Offset::default(),
        };
        did(&mut judge, lent, made(false)).unwrap();
        judge
    }

    /// What the judge says where memory of the host is called locked, after these answers to registrations of it.
    fn called_locked_after(
        answers: impl IntoIterator<Item = Outcome>,
        hooks_fail: bool,
    ) -> Result<(), Finding> {
        let mut judge = with_memory();
        judge.hooks_fail = hooks_fail;
        for answer in answers {
            did(&mut judge, REGISTER, answer).unwrap();
        }
        did(&mut judge, REGISTER, refused(Status::CONFLICT))
    }

    #[test]
    fn a_registration_that_failed_has_locked_no_memory() {
        let failed = || refused(Status::PERMISSION);
        let found = called_locked_after([failed()], false).unwrap_err();
        assert_eq!(found.what, What::Answer);
        called_locked_after([failed(), Outcome::Done], false).unwrap();
        // Hooks that are made to fail do so with any status.
        called_locked_after([failed()], true).unwrap();
    }

    #[test]
    fn memory_that_a_device_has_a_name_of_may_be_called_known() {
        let copied_or_not = |alias| {
            let mut judge = with_memory();
            let moved = Call::To {
                t: 1,
                of: 0,
                device: 1,
                way: Way::Best,
                stream: None,
            };
            did(&mut judge, moved, made(alias)).unwrap();
            did(&mut judge, REGISTER, refused(Status::CONFLICT))
        };
        copied_or_not(true).unwrap();
        assert_eq!(copied_or_not(false).unwrap_err().what, What::Answer);
    }
}
