//! What a driver answers and takes, in types of our own.

/// A result of the driver that is no success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors make it; both are of one build"
)]
pub struct Code {
    /// The driver's number.
    pub number: i32,
    /// The driver's function that answered it.
    pub call: &'static str,
}

/// What a result of the driver stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The work is still pending.
    NotReady,
    /// The arguments are wrong.
    Invalid,
    /// A handle is wrong, or its object is gone.
    Stale,
    /// There is too little memory, of the host or of the device: which, the call that was made tells.
    OutOfMemory,
    /// Not offered here.
    Unsupported,
    /// The system or the vendor forbids it.
    Permission,
    /// A failure after which the context answers nothing else. Whether the device is lost is asked separately.
    Fatal,
    /// A stream that captures forbids it.
    Capturing,
    /// The memory, or a part of it, is registered already.
    AlreadyRegistered,
    /// The memory is not registered.
    NotRegistered,
    /// There is no device.
    NoDevice,
    /// The library is a stub to link programs with, and not a driver.
    Stub,
    /// The driver is too old.
    TooOld,
    /// The process ends.
    Exiting,
    /// Anything else.
    Other,
}

/// Why the driver's library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// It is not there, or none that this plugin is for: what was looked for, and where. Like the others a part of a
    /// sentence, without a full stop, which people are shown.
    Absent(String),
    /// It is too old: which version it has, and which is needed.
    TooOld(String),
    /// It is there and does not work: why.
    Broken(String),
}

/// What the driver says of a device without a context.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors make it; both are of one build"
)]
pub struct Facts {
    /// The device's name.
    pub name: String,
    /// The same in every process; zeros where there is none.
    pub uuid: [u8; 16],
    /// `domain:bus:device.function`, or empty.
    pub pci_bus_id: String,
    /// Its memory, in bytes.
    pub total_memory: u64,
    /// Whether it has pools of memory in stream order.
    pub has_pools: bool,
    /// Whether it has managed memory that the host uses together with it.
    pub has_managed: bool,
    /// Whether its streams can wait for 32 bits of pinned memory: else the plugin has no host events.
    pub has_wait_value32: bool,
    /// The longest distance between rows of a copy, in bytes. Crossdock packs what has a longer one.
    pub longest_pitch: u64,
}

/// What memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "vendors make it; both are of one build"
)]
pub enum Kind {
    /// A device's.
    Device,
    /// The host's, locked.
    Pinned,
    /// Managed: it migrates between the host and devices. In copies it counts as a device's.
    Managed,
}

/// What the driver knows of an address.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors make it; both are of one build"
)]
pub struct Known {
    /// What memory it is.
    pub kind: Kind,
    /// The ordinal of the device whose it is, or that host memory was allocated or registered for.
    pub ordinal: i32,
    /// First byte of the allocation; the asked address where `size` is 0.
    pub base: u64,
    /// Bytes of the allocation; 0 where the driver does not say, and no bounds are checked.
    pub size: u64,
    /// A number of this allocation, which no other one of the process has that is alive, without the highest bit; 0 where
    /// the driver has none.
    pub id: u64,
    /// The context that it was allocated in; 0 where the driver does not say.
    pub context: u64,
    /// Where the host reaches the asked address, or 0.
    pub host_pointer: u64,
    /// Where the device reaches it, or 0.
    pub device_pointer: u64,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "vendors match it; both are of one build"
)]
pub enum CopyDirection {
    /// From the host to a device.
    HostToDevice,
    /// From a device to the host.
    DeviceToHost,
    /// From device memory to device memory of the same context.
    DeviceToDevice,
    /// From one memory of the host to another, both pinned or registered.
    HostToHost,
}

/// One side of a copy of rows and planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors read it; both are of one build"
)]
pub struct Rows {
    /// Its first byte.
    pub address: u64,
    /// Whether it is the host's.
    pub is_host: bool,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Rows from plane to plane.
    pub rows: u64,
}

/// A copy of rows and planes, whose sides do not overlap. All extents are at least 1, each pitch at least `width`. One
/// plane may be copied by a call for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors read it; both are of one build"
)]
pub struct Region {
    /// Written.
    pub dst: Rows,
    /// Read.
    pub src: Rows,
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a plane.
    pub height: u64,
    /// Planes.
    pub depth: u64,
}

/// A fill of units, one after the other or with gaps between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors read it; both are of one build"
)]
pub struct Column {
    /// Its first byte, a multiple of `unit`.
    pub address: u64,
    /// 1, 2 or 4 bytes; with gaps `WIDEST_WITH_GAPS` at most.
    pub unit: u64,
    /// Its low `unit` bytes, in the processor's order.
    pub value: u32,
    /// How many units, at least 1.
    pub count: u64,
    /// Bytes from unit to unit: `unit` where there are no gaps.
    pub pitch: u64,
}

/// Bytes that a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "vendors make it; both are of one build"
)]
pub struct PoolBytes {
    /// Bytes that it has from the driver now.
    pub reserved: u64,
    /// The most that it had since the peak was reset.
    pub peak_reserved: u64,
}
