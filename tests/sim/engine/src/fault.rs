//! Faults: which calls are refused and which operations fail late.

use crate::Site;
use crate::random::Random;

/// When a fault strikes: as the call is made, or as the operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Moment {
    /// The call is refused and changes nothing.
    Call,
    /// The call succeeds, and what it submitted fails as it runs.
    Run,
}

/// One fault. It counts the calls (or operations) that it matches and strikes as the rest says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// As the call is made, or as its operation runs.
    pub moment: Moment,
    /// The function's name, as in [`crate::Site::name`]; one `*` stands for any text.
    pub name: String,
    /// Only calls for this device.
    pub device: Option<u32>,
    /// The first that it strikes, counted from 1 since the fault was set.
    pub nth: u64,
    /// Whether it strikes all that follow too.
    pub onwards: bool,
    /// Of those it would strike, how many of a hundred it does.
    pub percent: u8,
    /// What the failure says.
    pub status: i32,
    /// Whether the device is lost from then on: everything for it fails with this status.
    pub loses_device: bool,
}

impl Fault {
    /// The `nth` operation of the function `name` fails, as it runs, with `status`.
    #[must_use]
    pub fn late(name: &str, nth: u64, status: i32) -> Self {
        Self {
            moment: Moment::Run,
            name: name.to_owned(),
            device: None,
            nth,
            onwards: false,
            percent: 100,
            status,
            loses_device: false,
        }
    }

    /// The `nth` call of the function `name` is refused with `status`.
    #[must_use]
    pub fn refusal(name: &str, nth: u64, status: i32) -> Self {
        Self {
            moment: Moment::Call,
            ..Self::late(name, nth, status)
        }
    }

    /// The same fault at `percent` of a hundred of all that match, from the first on.
    #[must_use]
    pub fn at_percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self.onwards = true;
        self.nth = 1;
        self
    }
}

/// A fault with what it has counted.
#[derive(Debug)]
struct Counted {
    fault: Fault,
    count: u64,
    /// The number of the call that it counted last: one call may enter the engine more than once.
    call: u64,
}

impl Counted {
    fn new(fault: &Fault) -> Self {
        Self {
            fault: fault.clone(),
            count: 0,
            call: 0,
        }
    }
}

/// The faults of an engine with what each has counted.
#[derive(Debug)]
pub(crate) struct Plan {
    faults: Vec<Counted>,
    random: Random,
    struck: u64,
}

impl Plan {
    pub(crate) fn new(faults: &[Fault], seed: u64) -> Self {
        let faults = faults.iter().map(Counted::new).collect();
        Self {
            faults,
            random: Self::random(seed),
            struck: 0,
        }
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(Counted::new(&fault));
    }

    /// Begins the choices anew.
    pub(crate) const fn reseed(&mut self, seed: u64) {
        self.random = Self::random(seed);
    }

    const fn random(seed: u64) -> Random {
        Random::new(seed ^ 0x0FAD_7BAD)
    }

    /// Removes all faults; how often one struck since this was done last.
    pub(crate) fn clear(&mut self) -> u64 {
        self.faults.clear();
        std::mem::take(&mut self.struck)
    }

    /// Counts a call or an operation; the status, and whether the device is lost, where one strikes.
    pub(crate) fn strikes(
        &mut self,
        moment: Moment,
        site: Site,
        device: Option<u32>,
    ) -> Option<(i32, bool)> {
        let mut struck = None;
        for counted in &mut self.faults {
            let fault = &counted.fault;
            let here = fault.device.is_none() || fault.device == device;
            // A device is lost by a call that is about one.
            let is_about_one = device.is_some() || !fault.loses_device;
            if fault.moment != moment
                || !here
                || !is_about_one
                || !matches(&fault.name, site.name())
            {
                continue;
            }
            if moment == Moment::Call && site.number() != 0 && counted.call == site.number() {
                continue;
            }
            counted.call = site.number();
            counted.count += 1;
            let due = counted.count == fault.nth || fault.onwards && counted.count > fault.nth;
            if due && self.random.below(100) < u64::from(fault.percent) {
                struck.get_or_insert((fault.status, fault.loses_device));
            }
        }
        self.struck += u64::from(struck.is_some());
        struck
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::{Fault, Moment, Plan};
    use crate::Site;

    #[test]
    fn the_nth_of_a_name_is_struck_and_no_other() {
        let mut plan = Plan::new(&[Fault::late("copy*", 2, 7)], 1);
        let mut run = |name| plan.strikes(Moment::Run, Site::new(name), Some(0));
        assert_eq!(run("copy"), None);
        assert_eq!(run("fill"), None);
        assert_eq!(run("copy_strided"), Some((7, false)));
        assert_eq!(run("copy"), None);
        assert_eq!(plan.strikes(Moment::Call, Site::new("copy"), Some(0)), None);
        assert_eq!([plan.clear(), plan.clear()], [1, 0]);
    }

    #[test]
    fn a_call_is_counted_once_however_often_it_enters_the_engine() {
        let mut plan = Plan::new(&[Fault::refusal("copy", 2, 7)], 1);
        let mut enter =
            |call| plan.strikes(Moment::Call, Site::new("copy").numbered(call), Some(0));
        assert_eq!([enter(1), enter(1), enter(1)], [None; 3]);
        assert_eq!(enter(2), Some((7, false)));
    }

    #[test]
    fn a_device_is_lost_by_a_call_that_is_about_one() {
        let mut lost = Fault::refusal("query", 1, 7);
        lost.loses_device = true;
        let mut plan = Plan::new(&[lost], 1);
        let query = Site::new("query").numbered(1);
        assert_eq!(plan.strikes(Moment::Call, query, None), None);
        assert_eq!(plan.strikes(Moment::Call, query, Some(0)), Some((7, true)));
    }

    #[test]
    fn a_share_of_all_is_struck() {
        let mut plan = Plan::new(&[Fault::refusal("*", 1, 3).at_percent(10)], 1);
        let struck = (0..1000)
            .filter(|_| plan.strikes(Moment::Call, Site::new("f"), None).is_some())
            .count();
        assert!(
            (50..200).contains(&struck),
            "{struck} of 1000 at ten percent"
        );
    }
}
