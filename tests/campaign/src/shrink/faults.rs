//! The rules by which calls fail, of the fault layer and of a simulated driver: fewer of them, for earlier calls.

use std::ops::Range;

use crate::program::Case;

/// Up to which call a single fault is looked for.
const EARLY: u32 = 12;

/// The faults of a case that one of two parts makes.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    faults: fn(&mut Case) -> &mut Option<String>,
    /// A rule that lets the call of this number fail by what another rule says, as `hook:7=BUSY`.
    with_number: fn(&str, u32) -> Option<String>,
}

impl Rules {
    /// Of the fault layer: `hook:p0.03@SEED=STATUS`.
    pub(super) const LAYER: Self = Self {
        faults: |case| &mut case.fault,
        with_number: |rule, number| {
            let (hook, when) = rule.split_once(':')?;
            let (_, status) = rule.split_once('=')?;
            when.starts_with('p')
                .then(|| format!("{hook}:{number}={status}"))
        },
    };

    /// Of a simulated driver: `exec:NAME@N+=CODE!`.
    pub(super) const DRIVER: Self = Self {
        faults: |case| &mut case.engine.fault,
        with_number: |rule, number| {
            let (name, when) = rule.split_once('@')?;
            let (old, _) = when.split_once(['+', '='])?;
            let is_earlier = number < old.parse().ok()?;
            is_earlier.then(|| format!("{name}@{number}{}", &when[old.len()..]))
        },
    };

    fn read(self, case: &Case) -> Vec<String> {
        let faults = (self.faults)(&mut case.clone()).take().unwrap_or_default();
        let rules = faults.split(',').filter(|rule| !rule.is_empty());
        rules.map(str::to_owned).collect()
    }

    fn written(self, case: &Case, rules: &[String]) -> Case {
        let mut case = case.clone();
        *(self.faults)(&mut case) = (!rules.is_empty()).then(|| rules.join(","));
        case
    }

    /// How many there are.
    pub(super) fn count(self, case: &Case) -> usize {
        self.read(case).len()
    }

    /// The case without some of them.
    pub(super) fn without(self, case: &Case, some: Range<usize>) -> Case {
        let mut rules = self.read(case);
        rules.drain(some);
        self.written(case, &rules)
    }

    /// Where one rule is left: cases with it for each of the first calls alone, in their order.
    pub(super) fn of_earlier_calls(self, case: &Case) -> Vec<Case> {
        let rules = self.read(case);
        let [only] = rules.as_slice() else {
            return Vec::new();
        };
        let earlier = (1..=EARLY).filter_map(|number| (self.with_number)(only, number));
        earlier.map(|rule| self.written(case, &[rule])).collect()
    }
}
