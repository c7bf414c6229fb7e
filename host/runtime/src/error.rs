//! The crate's error: what failed, why, and what to do.

use std::fmt;
use std::path::PathBuf;

use crossdock_layers::LayersError;
use crossdock_sdk::abi::{MemoryKind, Status};
use crossdock_sdk::dlpack::{Device, DeviceType, DlpackError};

/// Why something in the runtime failed.
///
/// `Display` says what; [`Error::why`] says why; [`Error::hint`] says what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plugin file cannot be used. Environment: fix the file or its place.
    #[error("load plugin `{}`", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A hook of a plugin failed.
    #[error("{operation} (plugin `{plugin}`)")]
    Hook {
        /// The plugin's name.
        plugin: String,
        /// The call that failed, the vendor's where it says so.
        operation: String,
        /// The result code.
        status: Status,
        /// The vendor's number, or 0.
        native_code: i64,
        /// The vendor's name of it, or empty.
        native_name: String,
        /// Why.
        message: String,
    },
    /// No plugin offers this device.
    #[error("find device `{device}`")]
    UnknownDevice {
        /// The device that was asked for.
        device: Device,
        /// What is there, and where plugins were looked for.
        here: Box<DevicesHere>,
    },
    /// No plugin knows an address, and nobody else says where it lies.
    #[error("find the device of address `{address:#x}`")]
    UnknownAddress {
        /// The address.
        address: u64,
    },
    /// A tensor from outside is not what it claims, or cannot be represented.
    #[error("exchange a tensor")]
    Exchange(#[from] DlpackError),
    /// What a producer claims and what the pointer query answers contradict each other.
    #[error("import a tensor on `{claimed}`")]
    Claim {
        /// The device in the tensor.
        claimed: Device,
        /// What the plugins say of the address.
        found: String,
    },
    /// Two plugins say that they allocated the memory at one address.
    #[error("find the owner of address `{address:#x}`")]
    Owners {
        /// The address.
        address: u64,
        /// Each plugin with the device that it names.
        owners: [String; 2],
    },
    /// No route works.
    #[error("move a tensor from `{from}` to `{to}`")]
    Refused {
        /// Source device.
        from: Device,
        /// Destination device.
        to: Device,
        /// Each route with the reason why it does not work.
        reasons: Vec<String>,
    },
    /// Something is of the process that this one was forked off. Misuse: open a runtime here.
    #[error("{operation}")]
    Forked {
        /// What was asked.
        operation: &'static str,
    },
    /// The system has no more host memory or no more threads. Environment: free some.
    #[error("{operation}")]
    Exhausted {
        /// What needed it.
        operation: &'static str,
        /// What the system said.
        why: String,
    },
    /// An argument is wrong. Misuse: fix the call.
    #[error("{operation}")]
    Misuse {
        /// What was asked.
        operation: &'static str,
        /// Why it cannot be.
        why: String,
    },
}

impl Error {
    /// Why it failed, one sentence.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Load { why, .. } | Self::Misuse { why, .. } | Self::Exhausted { why, .. } => {
                why.clone()
            }
            Self::Hook {
                status,
                native_code: 0,
                message,
                ..
            } => format!("{message} ({status})"),
            Self::Hook {
                status,
                native_code,
                native_name,
                message,
                ..
            } => {
                format!("{message} ({status}, native error {native_code} {native_name})")
            }
            Self::UnknownDevice { device, here } => match memory_called(device.ty) {
                Some((owner, _)) => format!(
                    "`{}` is a kind of memory of `{owner}` devices, and no device; {here}",
                    device.ty
                ),
                None => here.to_string(),
            },
            Self::UnknownAddress { .. } => "no plugin that is here knows it".to_owned(),
            Self::Exchange(error) => error.to_string(),
            Self::Claim { found, .. } => found.clone(),
            Self::Owners {
                owners: [one, other],
                ..
            } => {
                format!("two plugins own it: {one}, and {other}")
            }
            Self::Refused { reasons, .. } => reasons.join("; "),
            Self::Forked { .. } => "it belongs to the parent of this forked process".to_owned(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Load { hint, .. } => hint.clone(),
            // The driver failed at nothing: this is told of work, of another plugin's perhaps.
            Self::Hook {
                status: Status::VENDOR,
                native_code: 0,
                ..
            } => "fix the cause that it names, then write again what the failed work was to write"
                .to_owned(),
            Self::Hook {
                status: Status::FORKED,
                operation,
                ..
            } if operation == "open" => {
                "start the process by `spawn`, or use the driver in the child only".to_owned()
            }
            // There is no tensor yet that could be freed.
            Self::Hook {
                status: Status::OOM_DEVICE | Status::OOM_HOST,
                operation,
                ..
            } if operation == "open" => {
                "end what else uses the memory of this machine and its devices; `crossdock doctor` says whether \
                 the plugin opens then"
                    .to_owned()
            }
            Self::Hook { status, .. } => hint_for(*status).to_owned(),
            Self::UnknownDevice { device, .. } if memory_called(device.ty).is_some() => {
                "name the device that the memory belongs to; what comes in by DLPack keeps its kind"
                    .to_owned()
            }
            Self::UnknownDevice { .. } | Self::UnknownAddress { .. } => {
                "run `crossdock devices` to see what is here and what is absent".to_owned()
            }
            Self::Exchange(_) => "fix the producer, or pass a copy of the tensor".to_owned(),
            Self::Claim { .. } => {
                "export the tensor with the device that owns its memory".to_owned()
            }
            Self::Owners { .. } => {
                "retire one of the two plugins, and tell their authors".to_owned()
            }
            Self::Refused { .. } => {
                "take another route, or run `crossdock route` for the explanation".to_owned()
            }
            Self::Forked { .. } => hint_for(Status::FORKED).to_owned(),
            Self::Exhausted { .. } => "free memory or threads of this process".to_owned(),
            Self::Misuse { .. } => hint_for(Status::INVALID).to_owned(),
        }
    }

    /// The plugin file that cannot be used.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Load { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    /// Whether this says that nothing was changed and another route may work.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Hook { status, .. } if *status == Status::UNSUPPORTED)
    }

    /// The status of a failed hook, or the one that says what the process lacks.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Hook { status, .. } => Some(*status),
            Self::Forked { .. } => Some(Status::FORKED),
            Self::Exhausted { .. } => Some(Status::OOM_HOST),
            Self::Load { .. }
            | Self::UnknownDevice { .. }
            | Self::UnknownAddress { .. }
            | Self::Exchange(_)
            | Self::Claim { .. }
            | Self::Owners { .. }
            | Self::Refused { .. }
            | Self::Misuse { .. } => None,
        }
    }

    /// Whether a plugin that answers this about a stream or an event says that the work is over and has
    /// failed.
    pub(crate) fn is_failure_of_work(&self) -> bool {
        self.status().is_some_and(Status::is_failure_of_work)
    }

    /// Whether there was too little memory, of a device or of the host.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        [Some(Status::OOM_DEVICE), Some(Status::OOM_HOST)].contains(&self.status())
    }

    pub(crate) fn exhausted(operation: &'static str, why: impl ToString) -> Self {
        Self::Exhausted {
            operation,
            why: why.to_string(),
        }
    }

    pub(crate) fn misuse(operation: &'static str, why: impl Into<String>) -> Self {
        Self::Misuse {
            operation,
            why: why.into(),
        }
    }
}

impl From<LayersError> for Error {
    fn from(refused: LayersError) -> Self {
        Self::misuse(refused.operation(), refused.why())
    }
}

/// The devices that a runtime has, and where it looked for plugins. Displays as errors tell it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DevicesHere {
    /// The devices that are known.
    pub known: Vec<Device>,
    /// The plugins for the device that have none, each with what it looked for or why it does not work.
    pub without_devices: Vec<(String, String)>,
    /// The plugins that nobody needed so far.
    pub not_looked_at: Vec<String>,
    /// The folders that were searched for plugins, whether they exist or not.
    pub searched: Vec<PathBuf>,
    /// The files that were refused, and the folders that a program named and that are not there.
    pub refused: Vec<PathBuf>,
}

impl fmt::Display for DevicesHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (plugin, detail) in &self.without_devices {
            let colon = if detail.is_empty() { "" } else { ": " };
            write!(f, "`{plugin}` has no device{colon}{detail}; ")?;
        }
        let known: Vec<_> = self.known.iter().map(ToString::to_string).collect();
        match known.as_slice() {
            [] => f.write_str("no plugin offers any device")?,
            known => write!(f, "the devices here are {}", known.join(", "))?,
        }
        if !self.not_looked_at.is_empty() {
            let plugins = self.not_looked_at.join("`, `");
            write!(
                f,
                ", beside those of `{plugins}`, which nobody needed so far"
            )?;
        }
        match self.searched.as_slice() {
            [] => f.write_str("; no folder was searched for plugins")?,
            folders => write!(f, "; plugins were looked for in {}", listed(folders))?,
        }
        match self.refused.as_slice() {
            [] => Ok(()),
            refused => write!(f, ", and refused: {}", listed(refused)),
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| format!("`{}`", path.display()));
    paths.collect::<Vec<_>>().join(", ")
}

/// The devices whose memory of a kind DLPack gives this type, and that kind: here pinned and managed memory
/// belongs to its device.
pub(crate) const fn memory_called(ty: DeviceType) -> Option<(DeviceType, MemoryKind)> {
    match ty {
        DeviceType::CUDA_HOST => Some((DeviceType::CUDA, MemoryKind::PINNED)),
        DeviceType::CUDA_MANAGED => Some((DeviceType::CUDA, MemoryKind::MANAGED)),
        DeviceType::ROCM_HOST => Some((DeviceType::ROCM, MemoryKind::PINNED)),
        DeviceType::TPU_HOST => Some((DeviceType::TPU, MemoryKind::PINNED)),
        _ => None,
    }
}

const fn hint_for(status: Status) -> &'static str {
    match status {
        Status::OOM_DEVICE | Status::OOM_HOST => {
            "free tensors, wait for releases (memory that work still uses counts until then), and try \
             again; or copy in smaller parts"
        }
        Status::INVALID => "fix the call: its arguments, or when it is made",
        Status::NOT_READY => "wait until the work is done, then ask again",
        Status::PANIC => "report this to the plugin's author; the plugin is not used any more",
        Status::FORKED => {
            "use what a runtime of the child's own has; where the parent started a driver, start the \
             process by `spawn`"
        }
        Status::RETIRED => {
            "load the plugin again and find the device anew, or use another; once no runtime \
             lists the plugin, its old tensors cannot be read"
        }
        Status::CONFLICT => {
            "end what is in its way: drop the host view of mapped memory or the registration of host memory, \
             or take a copy in its place"
        }
        Status::CAPTURING => "end the capture first, or use a stream that nobody captures",
        Status::DEVICE_LOST => {
            "use another device; `crossdock doctor` says whether a new process has this one again"
        }
        Status::TIMEOUT => "wait longer, or complete what the work waits for",
        Status::UNSUPPORTED => "try another route or another device",
        Status::NOT_OWNER => {
            "pass memory that this device's plugin allocated, registered or adopted"
        }
        Status::ABI => "mend the plugin, or report this to its author",
        _ => "run `crossdock doctor` for the state of this plugin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(status: Status, native_code: i64) -> String {
        hint_of("call", status, native_code)
    }

    fn hint_of(operation: &str, status: Status, native_code: i64) -> String {
        let error = Error::Hook {
            plugin: "test".to_owned(),
            operation: operation.to_owned(),
            status,
            native_code,
            native_name: String::new(),
            message: "a reason".to_owned(),
        };
        error.hint()
    }

    #[test]
    fn only_failures_of_a_driver_lead_to_doctor() {
        let others = [
            Status::INVALID,
            Status::NOT_READY,
            Status::VENDOR,
            Status::ABI,
        ];
        for status in others {
            assert!(!hint(status, 0).contains("doctor"), "{status}");
        }
        for (status, code) in [(Status::VENDOR, -5), (Status::DEVICE_LOST, 0)] {
            assert!(hint(status, code).contains("doctor"), "{status}");
        }
    }

    #[test]
    fn what_a_caller_can_end_is_named() {
        for (status, names) in [
            (Status::CAPTURING, "end the capture"),
            (Status::CONFLICT, "host view"),
            (Status::RETIRED, "find the device anew"),
            (Status::FORKED, "spawn"),
        ] {
            assert!(hint(status, 0).contains(names), "{status}");
        }
    }

    #[test]
    fn who_has_no_memory_left_is_told_of_memory_that_work_still_uses() {
        for status in [Status::OOM_DEVICE, Status::OOM_HOST] {
            assert!(hint(status, 0).contains("wait for releases"), "{status}");
            let at_open = hint_of("open", status, 0);
            assert!(!at_open.contains("tensors"), "{at_open}");
        }
    }
}
