//! One OpenCL device: what it is, what it can do, and the context it shares with its platform.
#![expect(unsafe_code, reason = "contexts of others arrive as raw handles")]

use std::{
    ffi::c_void,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use opencl3::{context::context as cl_context, device as cl};

use crate::{
    backing,
    fault::Fault,
    handle::{Context, DriverState, Queue, word_of},
    pool::Pool,
    stream,
    turns::Turns,
    usm::Usm,
};

/// A platform with the one context that all its devices share.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) context: Context,
    /// Where all devices have the extension.
    pub(crate) usm: Option<Usm>,
    /// Whether all devices are CPUs, so that none keeps a copy of its own of memory that the host sees.
    pub(crate) only_cpus: bool,
    /// The turns of all objects of the vendor's platform, whatever their context.
    pub(crate) turns: Arc<Turns>,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    pub(crate) facts: Facts,
    pub(crate) platform: Arc<Platform>,
    /// Serves copies that name no stream.
    pub(crate) queue: Arc<Queue>,
    /// Whether a buffer made over host memory is that memory: proved at open.
    pub(crate) aliases_host: bool,
    /// Freed host memory for the next objects over memory of ours.
    pub(crate) pool: Arc<Pool>,
    /// The device in contexts of others, by their word.
    elsewhere: Mutex<Vec<(u64, Weak<Self>)>>,
}

impl Device {
    pub(crate) fn open(
        id: DeviceId,
        facts: Facts,
        platform: &Arc<Platform>,
    ) -> Result<Self, Fault> {
        let kept = usize::try_from(facts.memory_bytes / KEPT_SHARE).unwrap_or(0);
        let mut device = Self {
            id,
            facts,
            platform: Arc::clone(platform),
            queue: Arc::new(stream::create_queue(&platform.context, id)?),
            aliases_host: false,
            pool: Arc::new(Pool::new(kept)),
            elsewhere: Mutex::default(),
        };
        device.aliases_host = device.facts.class == Class::Cpu && backing::proves_alias(&device);
        Ok(device)
    }

    /// The same device as objects of another context see it, with a queue of its own there.
    ///
    /// # Safety
    /// `context` is a live context.
    pub(crate) unsafe fn inside(
        self: &Arc<Self>,
        context: *mut c_void,
        operation: &'static str,
    ) -> Result<Arc<Self>, Fault> {
        if word_of(context) == self.context().word() {
            return Ok(Arc::clone(self));
        }
        let known = find(&self.elsewhere(), word_of(context));
        if let Some(known) = known {
            return Ok(known);
        }
        // SAFETY: `retain` needs a live context: the caller promises it.
        let context = unsafe { Context::retain(context, self.driver_state()) }?;
        if !devices_of(&context)?.contains(&self.id) {
            return Err(Fault::unsupported(
                operation,
                "it belongs to a context without this device",
            ));
        }
        let platform = Arc::new(Platform {
            name: self.platform.name.clone(),
            version: self.platform.version.clone(),
            context,
            usm: self.platform.usm,
            only_cpus: self.platform.only_cpus,
            turns: Arc::clone(&self.platform.turns),
        });
        let made = Arc::new(Self {
            id: self.id,
            facts: self.facts.clone(),
            queue: Arc::new(stream::create_queue(&platform.context, self.id)?),
            platform,
            aliases_host: self.aliases_host,
            pool: Arc::clone(&self.pool),
            elsewhere: Mutex::default(),
        });
        // Of two threads that do this at once, one throws its own away.
        let mut elsewhere = self.elsewhere();
        let word = made.context().word();
        let known = find(&elsewhere, word);
        if known.is_none() {
            elsewhere.retain(|(_, device)| device.strong_count() > 0);
            elsewhere.push((word, Arc::downgrade(&made)));
        }
        drop(elsewhere);
        Ok(known.unwrap_or(made))
    }

    fn elsewhere(&self) -> MutexGuard<'_, Vec<(u64, Weak<Self>)>> {
        self.elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn driver_state(&self) -> &Arc<DriverState> {
        self.platform.context.driver_state()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.platform.context
    }

    /// Whether memory and events of `other` mean something here.
    pub(crate) fn shares_context(&self, other: &Self) -> bool {
        self.context().word() == other.context().word()
    }
}

/// The live one in this context, which it keeps alive.
fn find(devices: &[(u64, Weak<Device>)], context: u64) -> Option<Arc<Device>> {
    let mut same = devices.iter().filter(|(word, _)| *word == context);
    same.find_map(|(_, device)| device.upgrade())
}

fn devices_of(context: &Context) -> Result<Vec<DeviceId>, Fault> {
    let bytes = cl_context::get_context_data(context.raw(), cl_context::CL_CONTEXT_DEVICES)
        .map_err(|code| Fault::native("clGetContextInfo", code))?;
    let words = bytes
        .chunks_exact(size_of::<usize>())
        .filter_map(|word| word.try_into().ok());
    Ok(words
        .map(|word| DeviceId(usize::from_ne_bytes(word)))
        .collect())
}

/// The vendor's name for a device; root devices need no counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct DeviceId(usize);

impl DeviceId {
    pub(crate) fn new(raw: *mut c_void) -> Self {
        Self(raw.expose_provenance())
    }

    pub(crate) fn raw(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// What sort of device it is, in the order in which devices are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Gpu,
    Accelerator,
    Cpu,
    Other,
}

/// What the driver says about a device, read once.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) class: Class,
    pub(crate) name: String,
    pub(crate) driver_version: String,
    pub(crate) runtime_version: String,
    pub(crate) uuid: [u8; 16],
    /// Whether the driver gave the uuid; otherwise it is made from names.
    pub(crate) uuid_is_native: bool,
    /// Domain, bus, device, function.
    pub(crate) pci: Option<[u32; 4]>,
    pub(crate) memory_bytes: u64,
    pub(crate) largest_allocation_bytes: u64,
    pub(crate) alignment_bytes: u64,
    pub(crate) available: bool,
    pub(crate) fine_grained_svm: bool,
    pub(crate) any_svm: bool,
    pub(crate) usm: bool,
}

impl Facts {
    /// Reads them all; a fact that the driver cannot tell is left at its default.
    pub(crate) fn read(id: DeviceId, platform: &str) -> Result<Self, Fault> {
        let class = match number(id, cl::CL_DEVICE_TYPE)? {
            bits if bits & cl::CL_DEVICE_TYPE_GPU != 0 => Class::Gpu,
            bits if bits & cl::CL_DEVICE_TYPE_ACCELERATOR != 0 => Class::Accelerator,
            bits if bits & cl::CL_DEVICE_TYPE_CPU != 0 => Class::Cpu,
            _ => Class::Other,
        };
        let name = text(id, cl::CL_DEVICE_NAME)?;
        let extensions = text(id, cl::CL_DEVICE_EXTENSIONS).unwrap_or_default();
        let has = |wanted: &str| extensions.split_whitespace().any(|have| have == wanted);
        let native = has("cl_khr_device_uuid")
            .then(|| data(id, cl::CL_DEVICE_UUID_KHR).ok())
            .flatten()
            .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let pci = has("cl_khr_pci_bus_info")
            .then(|| data(id, cl::CL_DEVICE_PCI_BUS_INFO_KHR).ok())
            .flatten()
            .and_then(|bytes| quad(&bytes));
        let svm = number(id, cl::CL_DEVICE_SVM_CAPABILITIES).unwrap_or(0);
        Ok(Self {
            class,
            driver_version: text(id, cl::CL_DRIVER_VERSION).unwrap_or_default(),
            runtime_version: text(id, cl::CL_DEVICE_VERSION).unwrap_or_default(),
            uuid: native.unwrap_or_else(|| made_up_uuid(platform, &name, 0)),
            uuid_is_native: native.is_some(),
            pci,
            memory_bytes: number(id, cl::CL_DEVICE_GLOBAL_MEM_SIZE).unwrap_or(0),
            largest_allocation_bytes: number(id, cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE).unwrap_or(0),
            alignment_bytes: number(id, cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN).unwrap_or(1024) / 8,
            available: number(id, cl::CL_DEVICE_AVAILABLE).unwrap_or(0) != 0,
            fine_grained_svm: svm & cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0,
            any_svm: svm != 0,
            usm: has("cl_intel_unified_shared_memory"),
            name,
        })
    }
}

/// A uuid from names, the same in every process, for drivers that give none.
///
/// Two FNV-1a sums over the platform, the device and its place among devices of that name; marked
/// as version 8 (RFC 9562, section 5.8), which is the one for home-made schemes.
pub(crate) fn made_up_uuid(platform: &str, device: &str, ordinal: u32) -> [u8; 16] {
    let sum = |seed: u64| {
        let head = platform.bytes().chain([0]).chain(device.bytes());
        head.chain([0])
            .chain(ordinal.to_le_bytes())
            .fold(seed, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
    };
    let whole =
        (u128::from(sum(0xcbf2_9ce4_8422_2325)) << 64) | u128::from(sum(0x6c62_272e_07bb_0142));
    let versioned = (whole & !(0xf << 76)) | (0x8 << 76);
    ((versioned & !(0x3 << 62)) | (0x2 << 62)).to_be_bytes()
}

/// A text fact, without the trailing NUL and blanks.
fn text(id: DeviceId, fact: u32) -> Result<String, Fault> {
    data(id, fact).map(|bytes| clean(&bytes))
}

/// Driver text as Rust text.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

/// A whole-number fact of four or eight bytes.
fn number(id: DeviceId, fact: u32) -> Result<u64, Fault> {
    let bytes = data(id, fact)?;
    if let Ok(wide) = <[u8; 8]>::try_from(bytes.as_slice()) {
        return Ok(u64::from_ne_bytes(wide));
    }
    <[u8; 4]>::try_from(bytes.as_slice())
        .map(|narrow| u64::from(u32::from_ne_bytes(narrow)))
        .ok()
        .ok_or_else(|| Fault::invalid("clGetDeviceInfo", "a number of an unexpected size"))
}

fn data(id: DeviceId, fact: u32) -> Result<Vec<u8>, Fault> {
    cl::get_device_data(id.raw(), fact).map_err(|code| Fault::native("clGetDeviceInfo", code))
}

fn quad(bytes: &[u8]) -> Option<[u32; 4]> {
    let mut out = [0; 4];
    for (slot, chunk) in out.iter_mut().zip(bytes.chunks_exact(4)) {
        *slot = u32::from_ne_bytes(chunk.try_into().ok()?);
    }
    (bytes.len() == 16).then_some(out)
}

/// The part of a device's memory that may be kept in freed blocks.
const KEPT_SHARE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_uuids_are_stable_distinct_and_marked_as_such() {
        let first = made_up_uuid("platform", "device", 0);
        assert_eq!(first, made_up_uuid("platform", "device", 0));
        assert_ne!(first, made_up_uuid("platform", "device", 1));
        assert_ne!(first, made_up_uuid("platformd", "evice", 0));
        assert_eq!(first[6] >> 4, 8);
        assert_eq!(first[8] >> 6, 2);
    }

    #[test]
    fn driver_text_ends_at_its_nul_and_is_trimmed() {
        assert_eq!(clean(b"  a name \0rubbish"), "a name");
        assert_eq!(clean(b""), "");
    }
}
