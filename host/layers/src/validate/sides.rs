//! What is asked of each side of a copy: whose memory it is, and that the copy stays inside.
#![expect(unsafe_code, reason = "reads the arrays of a strided copy")]

use crossdock_sdk::abi::{
    Address, AddressForm, MemoryKind, PointerFlags, PointerInfo, Side, Status, StridedArgs,
};
use crossdock_sdk::plugin::Error;

use super::ranges::{Range, Spot, offset};
use super::rules::{Validate, invalid};
use crate::calls::describe::{address_text, kind_name};

/// How far a call reaches from an address, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    before: u128,
    after: u128,
}

impl Reach {
    pub(crate) fn ahead(bytes: u64) -> Self {
        Self {
            before: 0,
            after: bytes.into(),
        }
    }

    /// Whether a byte at `offset` of `size` bytes has this much around it.
    fn fits(self, offset: u64, size: u64) -> bool {
        let offset = u128::from(offset);
        self.before <= offset && offset + self.after <= u128::from(size)
    }

    fn text(self) -> String {
        match self.before {
            0 => format!("{} bytes", self.after),
            before => format!("{before} bytes before it and {} from it", self.after),
        }
    }
}

impl Validate {
    /// One side of a copy or fill.
    pub(crate) fn end(
        &self,
        hook: &'static str,
        name: &str,
        side: &Side,
        reach: Reach,
    ) -> Result<(), Error> {
        let subject = format!("`{name}` is claimed to be {}", claim(side));
        if Spot::of(side.address).is_none() {
            return Err(invalid(
                hook,
                format!("{subject}, and its offset overflows"),
            ));
        }
        if side.kind == MemoryKind::UNOWNED {
            return Err(invalid(hook, format!("{subject}: that is no kind to copy")));
        }
        if side.kind != MemoryKind::HOST {
            self.device(hook, side.device)?;
        }
        let ranges = self.registry().ranges_at(side.address);
        let known = ranges.iter().find(|range| fits(range, side.address, reach));
        match known.or(ranges.first()) {
            Some(range) => self.known_end(hook, &subject, (side, reach), range),
            None => self.unknown_end(hook, &subject, side, reach),
        }
    }

    /// Memory of our registry.
    fn known_end(
        &self,
        hook: &'static str,
        subject: &str,
        (side, reach): (&Side, Reach),
        range: &Range,
    ) -> Result<(), Error> {
        let plugin = &self.plugin;
        let text = range.text();
        let as_host = side.kind == MemoryKind::HOST && range.kind != MemoryKind::HOST;
        let is_handle = side.address.form != AddressForm::POINTER;
        if as_host && (is_handle || !self.is_host_accessible(side.address, range.kind)) {
            let why =
                format!("{subject}, and `{plugin}` has it as {text}, out of the host's reach");
            return Err(Error::new(Status::NOT_OWNER, hook, why));
        }
        let foreign_device = range.kind == MemoryKind::DEVICE && range.device != side.device;
        if !as_host && (range.kind != side.kind || foreign_device) {
            let why = format!("{subject}, and `{plugin}` has it as {text}");
            return Err(Error::new(Status::NOT_OWNER, hook, why));
        }
        // Host memory may go on behind the part of it that was adopted.
        let may_leave = as_host && range.from == "adopt";
        if may_leave || fits(range, side.address, reach) {
            return Ok(());
        }
        let why = format!("{subject}, and {} leave the {text}", reach.text());
        Err(invalid(hook, why))
    }

    /// Memory that the plugin may know of from elsewhere: of others in its own vendor's world.
    fn unknown_end(
        &self,
        hook: &'static str,
        subject: &str,
        side: &Side,
        reach: Reach,
    ) -> Result<(), Error> {
        let Some(info) = self.inner.pointer_query(side.address) else {
            return Ok(());
        };
        let plugin = &self.plugin;
        if info.kind == MemoryKind::UNOWNED {
            if side.kind == MemoryKind::HOST && side.address.form != AddressForm::POINTER {
                return Err(invalid(hook, format!("{subject}: that is no address")));
            }
            if side.kind == MemoryKind::HOST {
                return Ok(());
            }
            return Err(self.unowned(hook, subject, side.address));
        }
        let is_foreign = info.flags.contains(PointerFlags::FOREIGN);
        let as_host = side.kind == MemoryKind::HOST;
        let contradicts = if as_host {
            !reaches_host(&info)
        } else {
            info.kind != side.kind && !is_foreign
        };
        if contradicts {
            let (kind, device) = (kind_name(info.kind), info.device);
            let why = format!(
                "{subject}, and `{plugin}` answers for it as {kind} memory of device {device}"
            );
            return Err(Error::new(Status::NOT_OWNER, hook, why));
        }
        // Host memory may go on behind the part of it that was registered or adopted.
        let may_leave = as_host && is_foreign;
        match offset(info.base, info.size, side.address) {
            Some(offset) if !may_leave && !reach.fits(offset, info.size) => {
                let base = address_text(info.base);
                let why = format!(
                    "{subject}, and {} leave its {} bytes from {base}",
                    reach.text(),
                    info.size
                );
                Err(invalid(hook, why))
            }
            _ => Ok(()),
        }
    }

    /// An address that has to be memory of the plugin.
    pub(crate) fn owned(
        &self,
        hook: &'static str,
        address: Address,
        reach: Reach,
    ) -> Result<(), Error> {
        let subject = format!("`address` is {}", address_text(address));
        let ranges = self.registry().ranges_at(address);
        if ranges.iter().any(|range| fits(range, address, reach)) {
            return Ok(());
        }
        if let Some(range) = ranges.first() {
            let why = format!("{subject}, and {} leave the {}", reach.text(), range.text());
            return Err(invalid(hook, why));
        }
        match self.inner.pointer_query(address) {
            Some(info) if info.kind == MemoryKind::UNOWNED => {
                Err(self.unowned(hook, &subject, address))
            }
            _ => Ok(()),
        }
    }

    /// The plugin says that it does not own it: it never did, or does no more.
    fn unowned(&self, hook: &'static str, subject: &str, address: Address) -> Error {
        let plugin = &self.plugin;
        match self.registry().memory.find_gone(address) {
            Some(range) => {
                let why = format!("{subject}, and it was freed: {}", range.text());
                Error::new(Status::STALE, hook, why)
            }
            None => {
                let why = format!("{subject}, and `{plugin}` does not own it");
                Error::new(Status::NOT_OWNER, hook, why)
            }
        }
    }

    fn is_host_accessible(&self, address: Address, kind: MemoryKind) -> bool {
        if kind == MemoryKind::PINNED || kind == MemoryKind::MANAGED {
            return true;
        }
        let info = self.inner.pointer_query(address);
        info.is_none_or(|info| reaches_host(&info))
    }
}

fn reaches_host(info: &PointerInfo) -> bool {
    info.flags.contains(PointerFlags::HOST_ACCESSIBLE) || info.kind != MemoryKind::DEVICE
}

fn fits(range: &Range, address: Address, reach: Reach) -> bool {
    let offset = range.offset_of(address);
    offset.is_some_and(|offset| reach.fits(offset, range.size))
}

fn claim(side: &Side) -> String {
    let (kind, address) = (kind_name(side.kind), address_text(side.address));
    match side.kind {
        MemoryKind::HOST => format!("{kind} memory at {address}"),
        _ => format!("{kind} memory of device {} at {address}", side.device),
    }
}

/// How far both sides of a strided copy reach.
pub(crate) fn extents(args: &StridedArgs) -> Result<(Reach, Reach), Error> {
    const HOOK: &str = "copy_strided";
    if !(1..=64).contains(&args.rank) || args.element_bits == 0 {
        let (rank, bits) = (args.rank, args.element_bits);
        return Err(invalid(
            HOOK,
            format!("{rank} dimensions of {bits}-bit elements"),
        ));
    }
    // SAFETY: those that are not NULL have `rank` numbers by the hook's contract.
    let Some([shape, dst, src]) = (unsafe { args.arrays() }) else {
        return Err(invalid(HOOK, "`shape` or strides are NULL"));
    };
    if let Some(extent) = shape.iter().find(|extent| **extent <= 0) {
        return Err(invalid(HOOK, format!("an extent is {extent}")));
    }
    Ok((
        extent(shape, dst, args.element_bits),
        extent(shape, src, args.element_bits),
    ))
}

fn extent(shape: &[i64], strides: &[i64], bits: u32) -> Reach {
    let (mut lowest, mut highest) = (0_i128, 0_i128);
    for (extent, stride) in shape.iter().zip(strides) {
        let last = (i128::from(*extent) - 1) * i128::from(*stride);
        lowest = lowest.saturating_add(last.min(0));
        highest = highest.saturating_add(last.max(0));
    }
    let bytes = |elements: u128| elements.saturating_mul(bits.into()).div_ceil(8);
    Reach {
        before: bytes(lowest.unsigned_abs()),
        after: bytes(highest.unsigned_abs().saturating_add(1)),
    }
}
