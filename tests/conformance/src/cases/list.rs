//! The suite's order: facts, memory, copies, streams, the rest, and the end of the plugin last.

use std::sync::LazyLock;

use crate::Case;

/// Every case of the suite, in the order in which they run.
#[must_use]
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        [
            super::life::CASES,
            super::capabilities::CASES,
            super::memory::CASES,
            super::pointers::CASES,
            super::copy::CASES,
            super::strided::CASES,
            super::fill::CASES,
            super::streams::CASES,
            super::events::CASES,
            super::failures::CASES,
            super::wrap::CASES,
            super::host_calls::CASES,
            super::async_memory::CASES,
            super::adopt::CASES,
            super::register::CASES,
            super::attributes::CASES,
            super::threads::CASES,
            super::errors::CASES,
            super::retire::CASES,
        ]
        .concat()
    });
    &CASES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossdock_sdk::abi::Status;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_a_sentence_of_its_own() {
        let mut seen = HashSet::new();
        for case in cases() {
            assert!(seen.insert(case.name), "{} is there twice", case.name);
            assert!(
                case.name.matches('_').count() >= 2,
                "{} is no sentence",
                case.name
            );
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(case.name.bytes().all(plain), "{}", case.name);
            assert!(!case.contract.is_empty(), "{} names no contract", case.name);
        }
        assert!(cases().len() >= 90, "only {} cases", cases().len());
    }

    #[test]
    fn the_contract_is_quoted_in_the_names_of_the_header_for_c() {
        for case in cases() {
            for name in case.contract.split('`').skip(1).step_by(2) {
                let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
                let known = name.strip_prefix("XD_").unwrap_or_default();
                let is_status = Status::ALL.iter().any(|(_, status)| *status == known);
                assert!(!is_type || is_status, "{}: `{name}`", case.name);
            }
        }
    }
}
