//! Result codes of hooks, numbered once and for all.

use abi_stable::StableAbi;

/// What a hook answers. Zero is success; a number is never reused. A reader meets numbers that it does
/// not know.
///
/// So it is a newtype and not an enum.
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(i32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Every status with its name, in numeric order.
            pub const ALL: &'static [(Self, &'static str)] =
                &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

statuses! {
    /// It worked.
    OK = 0;
    /// Work is still pending (an answer of a query, not a failure).
    NOT_READY = 1;
    /// An argument is wrong: fix the caller.
    INVALID = 2;
    /// Not offered for these arguments. Nothing was changed; try another route.
    UNSUPPORTED = 3;
    /// The device has too little memory.
    OOM_DEVICE = 4;
    /// The host has too little memory.
    OOM_HOST = 5;
    /// The vendor's driver library is not there.
    NO_DRIVER = 6;
    /// The vendor's driver is older than the plugin can use.
    DRIVER_TOO_OLD = 7;
    /// The driver library is a build-time stub.
    DRIVER_STUB = 8;
    /// The driver is there and offers no device.
    NO_DEVICE = 9;
    /// The device stopped working. It stays so for the plugin, which answers it from then on for all
    /// that needs the device; the host keeps no record of it, and asks again each time. What is given
    /// back, and what the plugin knows by itself, needs no device: memory of a lost one is gone with it,
    /// and `free` succeeds. Memory of the host is not gone: see `unregister_host`.
    DEVICE_LOST = 10;
    /// The address does not belong to this plugin or to the kind that was claimed.
    NOT_OWNER = 11;
    /// The handle or address named something that is gone.
    STALE = 12;
    /// It overlaps or contradicts something that exists.
    CONFLICT = 13;
    /// The stream is being captured: nothing was put on it, and it cannot be synchronized.
    CAPTURING = 14;
    /// The system forbids it.
    PERMISSION = 15;
    /// The time limit passed first.
    TIMEOUT = 16;
    /// Plugin and host disagree about the contract.
    ABI = 17;
    /// A panic was caught inside the plugin, which is a mistake of the plugin: the host calls no hook of
    /// it from then on, but to complete its own events.
    PANIC = 18;
    /// The process is a fork of the one that opened the plugin.
    FORKED = 19;
    /// The process is exiting: nothing was called.
    EXITING = 20;
    /// The plugin was retired.
    RETIRED = 21;
    /// The vendor's call failed; the error object has its code and name.
    VENDOR = 22;
}

impl Status {
    /// The status with this number, known or not.
    #[must_use]
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The number that crosses the boundary.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Whether the hook succeeded.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether a query or a wait that answers this says that the work is over and has failed.
    ///
    /// Every other failure is one of the call, and does not say whether the work is over.
    #[must_use]
    pub const fn is_failure_of_work(self) -> bool {
        matches!(self, Self::VENDOR | Self::DEVICE_LOST | Self::OOM_DEVICE)
    }

    /// The status that waiters get for work that failed with this one. Every other one becomes `VENDOR`,
    /// `OK` too: ask [`Self::is_ok`] first.
    #[must_use]
    pub const fn as_failure_of_work(self) -> Self {
        if self.is_failure_of_work() {
            self
        } else {
            Self::VENDOR
        }
    }

    /// The name as it stands in the C header without `XD_`, or `None` for an unknown number.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::ALL
            .iter()
            .find(|(status, _)| *status == self)
            .map(|(_, name)| *name)
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl core::fmt::Debug for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
