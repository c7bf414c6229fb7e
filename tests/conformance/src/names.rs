//! Numbers of the contract by their names, for what is told of a plugin.

use std::fmt;

use crossdock_sdk::abi::{AddressForm, MemoryKind, ProbeState};

/// A number with the names that there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    number: u32,
    names: &'static [&'static str],
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = usize::try_from(self.number).unwrap_or(usize::MAX);
        match self.names.get(index) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.number),
        }
    }
}

/// A kind of memory.
pub(crate) const fn kind(kind: MemoryKind) -> Named {
    Named {
        number: kind.0,
        names: &["UNOWNED", "DEVICE", "PINNED", "MANAGED", "HOST"],
    }
}

/// A form of an address.
pub(crate) const fn form(form: AddressForm) -> Named {
    Named {
        number: form.0,
        names: &["POINTER", "HANDLE"],
    }
}

/// What a probe found.
pub(crate) const fn state(state: ProbeState) -> Named {
    Named {
        number: state.0,
        names: &["NOT_LOOKED_AT", "READY", "ABSENT", "BROKEN"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_that_of_its_constant() {
        for (shown, wanted) in [
            (kind(MemoryKind::UNOWNED), "UNOWNED"),
            (kind(MemoryKind::DEVICE), "DEVICE"),
            (kind(MemoryKind::PINNED), "PINNED"),
            (kind(MemoryKind::MANAGED), "MANAGED"),
            (kind(MemoryKind::HOST), "HOST"),
            (kind(MemoryKind(99)), "99"),
            (form(AddressForm::POINTER), "POINTER"),
            (form(AddressForm::HANDLE), "HANDLE"),
            (state(ProbeState::READY), "READY"),
            (state(ProbeState::ABSENT), "ABSENT"),
            (state(ProbeState::BROKEN), "BROKEN"),
        ] {
            assert_eq!(shown.to_string(), wanted);
        }
    }
}
