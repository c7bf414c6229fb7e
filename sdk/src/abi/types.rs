//! Handles, addresses, and the argument and answer structs of hooks.

use core::fmt;

use abi_stable::StableAbi;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(u64);

        impl $name {
            /// No object.
            pub const NONE: Self = Self(0);

            /// Wraps the plugin's own word; 0 means none.
            #[must_use]
            pub const fn from_raw(word: u64) -> Self {
                Self(word)
            }

            /// The plugin's word.
            #[must_use]
            pub const fn raw(self) -> u64 {
                self.0
            }

            /// Whether this names no object.
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }
        }
    };
}

handle!(
    /// What `open` returned; every later hook takes it first. 0 is none.
    PluginHandle
);
handle!(
    /// A stream of one device. [`StreamHandle::NONE`] asks for a synchronous call.
    StreamHandle
);
handle!(
    /// An event of one device. 0 is none.
    EventHandle
);

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $constant:ident = $number:literal;)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$item])* pub const $constant: Self = Self($number);)*
        }
    };
}

numbers!(
    /// What an answer of a plugin's pointer query costs. The same numbers in C: `XD_QUERY_*`.
    QueryCost {
        /// An answer takes a call of the driver, or longer. The host asks about memory that others call the
        /// host's once, before it first uses that memory.
        DRIVER = 0;
        /// An answer comes from a table of the plugin's own. The host asks whenever it learns of an address.
        TABLE = 1;
    }
);
numbers!(
    /// Whose memory an address names. The same numbers in C: `XD_MEMORY_*`.
    MemoryKind {
        /// Nobody's that the plugin knows: an answer of the pointer query.
        UNOWNED = 0;
        /// Owned by one device.
        DEVICE = 1;
        /// Host memory locked for a device.
        PINNED = 2;
        /// Migrates on demand.
        MANAGED = 3;
        /// Ordinary host memory.
        HOST = 4;
    }
);

numbers!(
    /// How an [`Address`] is to be read: one device may have memory of both forms, as its hooks say.
    AddressForm {
        /// `word + offset` is an address of this process or of the device. One of the device's is never
        /// an address of something else in this process: its range is reserved here, by the vendor's
        /// driver or by `mmap` with `PROT_NONE`; else the device uses handles.
        POINTER = 0;
        /// `word` is an opaque handle (`cl_mem`); only `offset` takes arithmetic.
        HANDLE = 1;
    }
);

numbers!(
    /// What `probe` found.
    ProbeState {
        /// The host has not asked yet: never an answer of the hook.
        NOT_LOOKED_AT = 0;
        /// Driver and at least one device are there.
        READY = 1;
        /// The driver or its devices are not there: an answer, not an error.
        ABSENT = 2;
        /// Something is there and does not work.
        BROKEN = 3;
    }
);

numbers!(
    /// Which default stream is meant.
    DefaultStream {
        /// The device's own default.
        LEGACY = 0;
        /// That of the calling thread, of which each has its own. The host does not ask for it.
        PER_THREAD = 1;
    }
);

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident($word:ty) {
        $($(#[$item:meta])* $constant:ident = $bit:literal;)*
    }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub $word);

        impl $name {
            $($(#[$item])* pub const $constant: Self = Self(1 << $bit);)*

            /// Every named bit.
            pub const NAMES: &'static [(Self, &'static str)] =
                &[$((Self::$constant, stringify!($constant)),)*];

            /// No bit.
            #[must_use]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Whether every bit of `other` is set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        /// The bits of all.
        impl FromIterator<Self> for $name {
            fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
                all.into_iter().fold(Self::empty(), Self::with)
            }
        }
    };
}

bits!(
    /// What works on a device. A bit for a group that the plugin lacks refuses the plugin, with all its devices.
    Capabilities(u64) {
        /// Device memory can be read and written by the host at its address.
        HOST_ACCESSIBLE = 0;
        /// Copies on a stream return before they are done.
        ASYNC_COPY = 1;
        /// `copy_strided` works.
        STRIDED_COPY = 2;
        /// `fill` works.
        FILL = 3;
        /// Pinned memory can be allocated.
        PINNED = 4;
        /// Managed memory can be allocated.
        MANAGED = 5;
        /// Host memory can be registered.
        REGISTER = 6;
        /// Host memory can be adopted without a copy.
        ADOPT_HOST = 7;
        /// Native memory objects of others can be adopted.
        ADOPT_NATIVE = 8;
        /// Events carry times.
        TIMING = 9;
        /// Events that the host completes.
        HOST_EVENTS = 10;
        /// `copy_strided` packs sub-byte elements: the first of a byte lies in its lowest bits.
        SUB_BYTE_STRIDES = 11;
        /// The driver calls no host function once the device is lost, and the plugin learns of a loss only when it is
        /// called. The host calls `stream_query` from time to time while it waits for a host function.
        POLLED_HOST_CALLS = 12;
    }
);

bits!(
    /// Facts about an allocation, as a pointer query answers them.
    PointerFlags(u32) {
        /// The host may dereference `host_pointer`.
        HOST_ACCESSIBLE = 0;
        /// Migrates on demand.
        MANAGED = 1;
        /// Known to be read-only.
        READ_ONLY = 2;
        /// The plugin did not make it: the driver knows it from others in the process, or it was registered
        /// or adopted. Host memory that was registered stays the host's to free.
        FOREIGN = 3;
    }
);

bits!(
    /// How host memory is adopted.
    AdoptFlags(u32) {
        /// Its owner forbids writes: nobody asks the plugin for one. The vendor's object is made
        /// read-only where there is such a thing, so that kernels and other libraries are refused too.
        READ_ONLY = 0;
    }
);

/// A place in memory: an address, or a handle with a byte offset.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// Address or opaque handle, by `form`.
    pub word: u64,
    /// Bytes past `word`.
    pub offset: u64,
    /// How to read `word`.
    pub form: AddressForm,
    /// Zero.
    pub reserved: u32,
}

/// `0x7f00` for a pointer, `handle 0x7f00 + 16` for the rest.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_pointer() {
            Some(address) => write!(f, "{address:#x}"),
            None => write!(f, "handle {:#x} + {}", self.word, self.offset),
        }
    }
}

impl Address {
    /// The address `word` of a pointer.
    #[must_use]
    pub const fn pointer(word: u64) -> Self {
        Self {
            word,
            offset: 0,
            form: AddressForm::POINTER,
            reserved: 0,
        }
    }

    /// Byte `offset` behind the opaque handle `word`.
    #[must_use]
    pub const fn handle(word: u64, offset: u64) -> Self {
        Self {
            word,
            offset,
            form: AddressForm::HANDLE,
            reserved: 0,
        }
    }

    /// The same place `bytes` further on, or `None` when that overflows.
    #[must_use]
    #[inline]
    pub fn advanced(self, bytes: u64) -> Option<Self> {
        Some(Self {
            offset: self.offset.checked_add(bytes)?,
            ..self
        })
    }

    /// `word + offset` of a pointer; `None` for a handle or on overflow.
    #[must_use]
    #[inline]
    pub fn as_pointer(self) -> Option<u64> {
        if self.form == AddressForm::POINTER {
            self.word.checked_add(self.offset)
        } else {
            None
        }
    }
}

/// One side of a copy.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Side {
    /// Where the first element is.
    pub address: Address,
    /// Whose memory it is. [`MemoryKind::HOST`] may be memory that the plugin has never seen.
    pub kind: MemoryKind,
    /// The device's index in its plugin; ignored for host memory.
    pub device: u32,
}

/// Arguments of `allocate`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocateArgs {
    /// Bytes; never 0.
    pub size: u64,
    /// A power of two; the result is at least 256-byte aligned all the same.
    pub alignment: u64,
    /// Device, pinned or managed.
    pub kind: MemoryKind,
    /// The device's index in its plugin.
    pub device: u32,
}

/// Arguments of `copy`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyArgs {
    /// Written.
    pub dst: Side,
    /// Read.
    pub src: Side,
    /// Length; never 0.
    pub bytes: u64,
}

/// Arguments of `copy_strided`. The arrays hold `rank` numbers each and are borrowed for the call.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct StridedArgs {
    /// Written; its address is that of the element with index 0 in every dimension.
    pub dst: Side,
    /// Read; likewise.
    pub src: Side,
    /// Bits of one element, lanes included; no multiple of 8 is `UNSUPPORTED` without sub-byte strides.
    pub element_bits: u32,
    /// Number of dimensions, 1 to 64.
    pub rank: u32,
    /// Extents; none is 0.
    pub shape: *const i64,
    /// Strides of `dst` in elements; no two elements overlap.
    pub dst_strides: *const i64,
    /// Strides of `src` in elements.
    pub src_strides: *const i64,
}

/// Arguments of `fill`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillArgs {
    /// Written.
    pub dst: Side,
    /// Length; a multiple of `pattern_bytes`, never 0.
    pub bytes: u64,
    /// The first `pattern_bytes` bytes count.
    pub pattern: [u8; 16],
    /// 1, 2, 4, 8 or 16.
    pub pattern_bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// What `probe` found. Texts are NUL-terminated UTF-8.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct ProbeInfo {
    /// Ready, absent or broken.
    pub state: ProbeState,
    /// Devices found: as many as `device_count` counts, so after the vendor's masks.
    pub device_count: u32,
    /// What was looked for and where (absent), or why it does not work (broken).
    pub detail: [u8; 1024],
    /// The driver's version, or empty.
    pub driver_version: [u8; 64],
}

/// What a device is. Texts are NUL-terminated UTF-8.
///
/// Made by [`DeviceInfo::new`], texts by [`fixed_text`](crate::plugin::fixed_text).
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct DeviceInfo {
    /// The DLPack device type that the plugin claims.
    pub dl_type: i32,
    /// The DLPack id that the plugin claims; the host may give another.
    pub dl_id: i32,
    /// Identity across processes; all zero when the device has none.
    pub uuid: [u8; 16],
    /// Name for people.
    pub name: [u8; 128],
    /// `domain:bus:device.function`, or empty.
    pub pci_bus_id: [u8; 32],
    /// The driver's version, or empty.
    pub driver_version: [u8; 64],
    /// The runtime's or platform's version, or empty.
    pub runtime_version: [u8; 128],
    /// Bytes of device memory.
    pub total_memory: u64,
    /// What works here.
    pub capabilities: Capabilities,
    /// The form of device memory that `allocate` gives; `pointer_query` answers that of others. Pinned and
    /// managed memory is of the form pointer on every device, and the host reaches it there.
    pub address_form: AddressForm,
    /// The DLPack type of its pinned memory, or 0.
    pub pinned_dl_type: i32,
    /// The DLPack type of its managed memory, or 0.
    pub managed_dl_type: i32,
    /// Zero.
    pub reserved: u32,
}

/// Device memory now, in bytes: a hint, stale when it is read.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryInfo {
    /// Free bytes; `u64::MAX` when the vendor does not say.
    pub free: u64,
    /// All bytes.
    pub total: u64,
}

/// What a plugin has of a device's memory, in bytes; `u64::MAX` for a number that it does not know.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUsage {
    /// What it has of the driver or the system: used memory and cached memory.
    pub reserved: u64,
    /// The part of it that is allocated.
    pub used: u64,
    /// The most that `reserved` was.
    pub peak_reserved: u64,
    /// The most that `used` was.
    pub peak_used: u64,
}

impl MemoryUsage {
    /// The answer that knows nothing.
    pub const UNKNOWN: Self = Self {
        reserved: u64::MAX,
        used: u64::MAX,
        peak_reserved: u64::MAX,
        peak_used: u64::MAX,
    };
}

/// Who owns an address.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PointerInfo {
    /// [`MemoryKind::UNOWNED`] makes every other field meaningless.
    pub kind: MemoryKind,
    /// The owning device's index in its plugin.
    pub device: u32,
    /// First byte of the allocation (not of a view). By the host's address or the device's.
    pub base: Address,
    /// Bytes of the allocation.
    pub size: u64,
    /// Never reused in the process. What is one memory has one number, under whatever handle: an object
    /// and a part of it.
    pub allocation_id: u64,
    /// Where the host reaches the asked address, or 0.
    pub host_pointer: u64,
    /// Where the device reaches the asked address, or 0: a handle is no address, and has none.
    pub device_pointer: u64,
    /// The vendor's context, or 0.
    pub context: u64,
    /// Further facts.
    pub flags: PointerFlags,
    /// Zero.
    pub reserved: u32,
}
