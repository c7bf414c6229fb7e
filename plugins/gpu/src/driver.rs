//! The driver: looked for, opened, and whether it may still be called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossdock_sdk::abi::Status;

use crate::device::Device;
use crate::fault::Fault;
use crate::vendor::{Code, ErrorKind, Unusable, Vendor};

/// Whether the driver is here.
#[derive(Debug)]
pub(crate) enum Presence {
    /// At least one device, and the driver's version.
    Ready { devices: u32, version: String },
    /// There is no driver or no device, which is no error. What was looked for, and where.
    Absent(String),
    /// Why it does not work.
    Broken(Fault),
}

impl Presence {
    /// Why a driver cannot be used.
    fn without<V: Vendor>(unusable: Unusable) -> Self {
        let broken = |status, why| Self::Broken(Fault::new(status, V::LIBRARY, why));
        match unusable {
            Unusable::Absent(what) => Self::Absent(what),
            Unusable::TooOld(why) => broken(Status::DRIVER_TOO_OLD, why),
            Unusable::Broken(why) => broken(Status::NO_DRIVER, why),
        }
    }
}

/// Whether the driver may be called in this process, now.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    is_exiting: AtomicBool,
    is_forked: AtomicBool,
}

impl Process {
    /// Answers `FORKED` in a child and `EXITING` once the process is ending.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), Fault> {
        if self.is_exiting.load(Ordering::Acquire) {
            let why = "the process is ending; the driver is not called any more";
            return Err(Fault::new(Status::EXITING, operation, why));
        }
        if self.is_forked.load(Ordering::Acquire) || std::process::id() != self.pid {
            self.is_forked.store(true, Ordering::Release);
            let why =
                "the driver was started by the parent of this process, and does not survive a fork";
            return Err(Fault::new(Status::FORKED, operation, why));
        }
        Ok(())
    }

    /// The process ends: from here on nothing of the vendor's is called.
    pub(crate) fn exit(&self) {
        self.is_exiting.store(true, Ordering::Release);
    }

    /// Called in the child of a fork: nothing that was inherited may be used.
    pub(crate) fn fork(&self) {
        self.is_forked.store(true, Ordering::Release);
    }
}

/// A driver, and all its devices.
pub(crate) type Opened<V> = (Arc<Driver<V>>, Vec<Arc<Device<V>>>);

/// A driver that was opened.
#[derive(Debug)]
pub(crate) struct Driver<V> {
    vendor: V,
    pub(crate) version: String,
    pub(crate) process: Arc<Process>,
}

impl<V: Vendor> Driver<V> {
    pub(crate) const fn vendor(&self) -> &V {
        &self.vendor
    }

    /// The failure that a result stands for, where it is about no single device.
    pub(crate) fn fault(&self, code: Code) -> Fault {
        let (name, text) = self.vendor.name_and_text(code);
        let status = match V::error_kind(code) {
            ErrorKind::NotReady => Status::NOT_READY,
            ErrorKind::Invalid => Status::INVALID,
            ErrorKind::Stale => Status::STALE,
            ErrorKind::OutOfMemory => Status::OOM_DEVICE,
            ErrorKind::Unsupported => Status::UNSUPPORTED,
            ErrorKind::Permission => Status::PERMISSION,
            ErrorKind::Capturing => Status::CAPTURING,
            ErrorKind::AlreadyRegistered => Status::CONFLICT,
            ErrorKind::NotRegistered => Status::NOT_OWNER,
            ErrorKind::NoDevice => Status::NO_DEVICE,
            ErrorKind::Stub => Status::DRIVER_STUB,
            ErrorKind::TooOld => Status::DRIVER_TOO_OLD,
            ErrorKind::Exiting => Status::EXITING,
            ErrorKind::Fatal | ErrorKind::Other => Status::VENDOR,
        };
        let (call, number) = (code.call, code.number);
        let what = if name.is_empty() {
            format!("`{call}` returned {number}, which the driver has no name for")
        } else {
            format!("`{call}` returned {number} ({name}): {text}")
        };
        Fault {
            status,
            operation: call,
            code: number,
            name,
            message: what,
        }
    }

    /// Opens the library and starts the driver.
    fn start() -> Result<Self, Presence> {
        let vendor = V::load().map_err(Presence::without::<V>)?;
        let driver = Self {
            vendor,
            version: String::new(),
            process: Arc::new(Process {
                pid: std::process::id(),
                is_exiting: AtomicBool::new(false),
                is_forked: AtomicBool::new(false),
            }),
        };
        let told = driver.vendor.version().map_err(|code| driver.refused(code));
        let version = told?.map_err(Presence::without::<V>)?;
        let started = driver.vendor.start();
        started.map_err(|code| driver.refused(code))?;
        Ok(Self { version, ..driver })
    }

    /// What it means that a call fails by which the driver is started or asked what there is, whichever call it is.
    fn refused(&self, code: Code) -> Presence {
        if V::error_kind(code) == ErrorKind::NoDevice {
            let why = self.fault(code).message;
            return Presence::Absent(format!("a device of `{}`: {why}", V::LIBRARY));
        }
        Presence::Broken(self.unusable(code))
    }

    fn count(&self) -> Result<u32, Presence> {
        match self.vendor.count() {
            Ok(0) => {
                let what = format!("a device of `{}`: it offers none", V::LIBRARY);
                Err(Presence::Absent(what))
            }
            Ok(count) => Ok(count),
            Err(code) => Err(self.refused(code)),
        }
    }

    /// Why the driver does not start, and what to do about it.
    fn unusable(&self, code: Code) -> Fault {
        let advice = match V::error_kind(code) {
            ErrorKind::Stub => {
                "it is a stub to link programs with: take its folder out of LD_LIBRARY_PATH"
            }
            ErrorKind::TooOld => {
                "update the driver, and restart the machine where that was done already"
            }
            ErrorKind::Permission => "ask for the right to use the devices",
            ErrorKind::OutOfMemory => "free memory of this machine",
            _ => "restart the machine, or reinstall the driver",
        };
        let fault = self.fault(code);
        let message = format!("{}; {advice}", fault.message);
        Fault { message, ..fault }
    }

    /// Looks for the driver and its devices.
    pub(crate) fn look() -> Presence {
        let found = Self::start().and_then(|driver| Ok((driver.count()?, driver.version)));
        match found {
            Ok((devices, version)) => Presence::Ready { devices, version },
            Err(presence) => presence,
        }
    }

    /// Opens the driver with all its devices.
    pub(crate) fn open() -> Result<Opened<V>, Fault> {
        let found = Self::start().and_then(|driver| {
            let count = driver.count()?;
            Ok((Arc::new(driver), count))
        });
        let (driver, count) = found.map_err(|presence| match presence {
            Presence::Broken(fault) => fault,
            Presence::Absent(what) => {
                let status = if what.starts_with("a device") {
                    Status::NO_DEVICE
                } else {
                    Status::NO_DRIVER
                };
                Fault::new(status, "open", format!("looked for {what}"))
            }
            Presence::Ready { .. } => Fault::new(Status::VENDOR, "open", "no answer"),
        })?;
        let devices = (0..count).map(|index| Device::new(&driver, index).map(Arc::new));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        Ok((driver, devices))
    }
}
