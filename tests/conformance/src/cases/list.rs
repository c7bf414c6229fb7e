//! The suite's order: facts, copies, on which most of the others rest, memory, streams, the rest, the end of the
//! plugin, that of the process, and whether a hook panicked in any of it.

use std::sync::LazyLock;

use crate::Case;

/// Every case of the suite, in the order in which they run.
#[must_use]
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        let of_streams = [
            super::streams::CASES,
            super::begins::CASES,
            super::behind::CASES,
            super::events::CASES,
            super::failures::CASES,
        ];
        let of_streams = of_streams.concat().into_iter().map(Case::about_streams);
        let of_streams: Vec<_> = of_streams.collect();
        [
            super::life::CASES,
            super::capabilities::CASES,
            super::copy::CASES,
            super::memory::CASES,
            super::pointers::CASES,
            super::strided::CASES,
            super::fill::CASES,
            super::sides::CASES,
            &of_streams,
            super::wrap::CASES,
            super::host_calls::CASES,
            super::async_memory::CASES,
            super::adopt::CASES,
            super::register::CASES,
            super::attributes::CASES,
            super::pool::CASES,
            super::peer::CASES,
            super::waits::CASES,
            super::threads::CASES,
            super::errors::CASES,
            super::retire::CASES,
            super::endings::CASES,
            super::errors::LAST,
        ]
        .concat()
    });
    &CASES
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn the_contract_is_quoted_as_the_headers_for_c_name_things() {
        for case in cases() {
            let mut words = case.contract.split('`').skip(1).step_by(2);
            let is_of_c = |word: &str| {
                let is_constant =
                    word.starts_with("XD_") || ["UINT64_MAX", "PROT_NONE"].contains(&word);
                is_constant || word == word.to_lowercase()
            };
            assert!(words.all(is_of_c), "{}: {}", case.name, case.contract);
        }
    }
}
