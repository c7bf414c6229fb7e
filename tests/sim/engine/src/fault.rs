//! Faults: which calls are refused and which operations fail late.

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
