//! Numbers and flags that cross as words. A number is never reused, and a reader may meet others.

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident, $prefix:literal {
        $($(#[$item:meta])* $constant:ident = $number:literal;)*
    }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$item])* pub const $constant: Self = Self($number);)*

            /// Every number with its name in C.
            pub const NAMES: &'static [(Self, &'static str)] =
                &[$((Self::$constant, concat!($prefix, stringify!($constant))),)*];
        }
    };
}

numbers!(
    /// What kind of failure an error is.
    ErrorKind, "XD_ERROR_" {
        /// No error: the answer for a NULL handle.
        NONE = 0;
        /// An argument is wrong: fix the call.
        MISUSE = 1;
        /// A plugin file cannot be used: fix the file or its place.
        LOAD = 2;
        /// A hook of a plugin failed; native code and name say more.
        HOOK = 3;
        /// No plugin offers this device.
        UNKNOWN_DEVICE = 4;
        /// A tensor is not what it claims, or DLPack cannot represent it.
        EXCHANGE = 5;
        /// A producer's claim and the pointer query contradict each other.
        CLAIM = 6;
        /// No route works.
        REFUSED = 7;
        /// It would take a copy, and copies were forbidden.
        COPY_REQUIRED = 8;
        /// A panic was caught in this library: a bug in Crossdock.
        PANIC = 9;
        /// Another failure, newer than this list.
        OTHER = 10;
        /// No usable Python: the reason names each place that was looked at.
        NO_PYTHON = 11;
        /// A Python that is not what it should be, or a second one in the process.
        PYTHON_MISMATCH = 12;
        /// A script raised an exception.
        SCRIPT = 13;
        /// A script asked to end, with an exit code.
        SCRIPT_EXIT = 14;
        /// A script was interrupted.
        SCRIPT_INTERRUPTED = 15;
        /// A script took too long and was stopped.
        SCRIPT_TIMEOUT = 16;
        /// A script took too long and still runs.
        SCRIPT_STUCK = 17;
        /// Another script runs.
        SCRIPT_BUSY = 18;
        /// Python, or the process, ends.
        SCRIPT_CLOSED = 19;
    }
);

numbers!(
    /// How a tensor reaches a device, or is to reach it.
    RouteKind, "XD_ROUTE_" {
        /// As a wish: the best that works. Never an answer.
        BEST = 0;
        /// The same memory; nothing is copied.
        ALIAS = 1;
        /// One copy, made by one plugin.
        DIRECT = 2;
        /// Through host memory, in chunks.
        STAGED = 3;
        /// As an answer: none works.
        REFUSED = 4;
    }
);

numbers!(
    /// Whether a move may or must copy, as the array API's `copy` says it.
    CopyMode, "XD_COPY_" {
        /// `None`: only where it is needed.
        IF_NEEDED = 0;
        /// `False`: an error where it is needed.
        NEVER = 1;
        /// `True`: always, also on the same device.
        ALWAYS = 2;
    }
);

numbers!(
    /// Who keeps the order when a tensor is handed out.
    Order, "XD_ORDER_" {
        /// It is ready when the function returns: the CPU waits for work that writes it.
        READY = 0;
        /// The given stream waits: what comes on it later may read the tensor, and write it unless
        /// it is read-only.
        STREAM = 1;
        /// The consumer: nothing waits, as DLPack's stream -1 asks.
        UNORDERED = 2;
    }
);

numbers!(
    /// How a stream waits for an event.
    WaitKind, "XD_WAIT_" {
        /// Inside one plugin; or not at all: the event had happened already.
        NATIVE = 0;
        /// By an event that the host completes; no thread waits.
        HOST_EVENT = 1;
        /// By an event that a thread of the host completes when it has waited.
        HOST_THREAD = 2;
        /// The caller waited: the event has happened.
        BLOCKED = 3;
    }
);

numbers!(
    /// Bits of [`XdRuntimeOptions`](crate::XdRuntimeOptions).
    RuntimeFlags, "XD_RUNTIME_" {
        /// Search no folder but those of the options: neither `CROSSDOCK_PLUGIN_PATH` nor the
        /// standard folders. Other variables of the environment count all the same.
        NO_SEARCH = 1;
    }
);

numbers!(
    /// Bits of [`XdMemory`](crate::XdMemory).
    MemoryFlags, "XD_MEMORY_FLAG_" {
        /// Nobody may write through the tensor.
        READ_ONLY = 1;
        /// The plugin that owns the address says on which device it lies: the named one counts only where
        /// there is no element.
        FIND_DEVICE = 2;
    }
);

numbers!(
    /// Bits of [`XdExportOptions`](crate::XdExportOptions).
    ExportFlags, "XD_EXPORT_" {
        /// The tensor is a copy that was made for the consumer: DLPack's flag `IS_COPIED`.
        IS_COPIED = 1;
    }
);

numbers!(
    /// Which kind of value an [`XdValue`](crate::XdValue) is.
    ValueKind, "XD_VALUE_" {
        /// `None`.
        NONE = 0;
        /// `bool`.
        BOOL = 1;
        /// `int`, of at most 64 bits.
        INT = 2;
        /// `float`.
        FLOAT = 3;
        /// `str`.
        TEXT = 4;
        /// `bytes`.
        BYTES = 5;
        /// A tensor: `crossdock.Tensor` in the script.
        TENSOR = 6;
        /// `list`; of a script also `tuple`.
        LIST = 7;
        /// `dict`, in its order.
        DICT = 8;
    }
);

numbers!(
    /// What an interrupt came to.
    StopOutcome, "XD_STOP_" {
        /// The script was stopped, or handled the exception; what waited was not begun.
        DELIVERED = 0;
        /// Nothing ran, or it had ended before the interrupt came.
        IDLE = 1;
        /// It runs on for now: in native code, or it catches the exception.
        PENDING = 2;
    }
);

numbers!(
    /// What a session does.
    SessionStateKind, "XD_SESSION_" {
        /// Nothing.
        IDLE = 0;
        /// It waits for its turn.
        WAITING = 1;
        /// It runs a script.
        RUNNING = 2;
        /// Its script was asked to stop and has not yet.
        STOPPING = 3;
        /// Its script did not stop, and nobody waits for it any more.
        STUCK = 4;
    }
);

numbers!(
    /// Bits of [`XdSessionOptions`](crate::XdSessionOptions).
    SessionFlags, "XD_SESSION_FLAG_" {
        /// While another script runs, calls fail and do not wait for their turn.
        NEVER_WAITS = 1;
    }
);
