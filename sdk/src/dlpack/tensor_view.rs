//! A checked description of a tensor: where it is and how it lies, but not who owns it.

use super::data_word::DataWord;
use super::device_type::Device;
use super::error::DlpackError;
use super::flags::Flags;
use super::strided::{Layout, Span};

/// Where a tensor is, without how it lies: all that an export needs beside a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write its fields")]
pub struct Place {
    /// The address or handle.
    pub data: DataWord,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
    /// The device.
    pub device: Device,
    /// The flags; that for padding follows the layout.
    pub flags: Flags,
}

impl Place {
    /// Checks the place of a tensor with this layout, and completes the flags.
    #[inline]
    pub(super) fn checked(self, layout: &Layout) -> Result<Self, DlpackError> {
        check_flags(self.flags)?;
        check_place(
            layout.span(),
            layout.numel(),
            self.data,
            self.byte_offset,
            self.device,
        )?;
        let flags = self
            .flags
            .with(Flags::IS_SUBBYTE_TYPE_PADDED, layout.is_padded());
        Ok(Self { flags, ..self })
    }
}

/// Where a tensor is and how it lies. Everything in it was checked against everything else; whether the memory is
/// really there only its owner knows ([`TensorView::check_within`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorView {
    pub(super) layout: Layout,
    pub(super) data: DataWord,
    pub(super) byte_offset: u64,
    pub(super) device: Device,
    pub(super) flags: Flags,
}

impl TensorView {
    /// A tensor whose first element is `byte_offset` behind `data`.
    ///
    /// The padded flag follows the layout. Device types that DLPack does not know pass, as long as they are numbers above 0:
    /// who has a plugin for them decides.
    ///
    /// # Errors
    /// Unknown flags, an offset or address from which the span leaves 64 bits, NULL data with elements, a device that is
    /// none.
    #[inline(always)]
    pub fn new(
        layout: Layout,
        data: DataWord,
        byte_offset: u64,
        device: Device,
        flags: Flags,
    ) -> Result<Self, DlpackError> {
        check_flags(flags)?;
        check_place(layout.span(), layout.numel(), data, byte_offset, device)?;
        let flags = flags.with(Flags::IS_SUBBYTE_TYPE_PADDED, layout.is_padded());
        Ok(Self {
            layout,
            data,
            byte_offset,
            device,
            flags,
        })
    }

    /// Where it is.
    #[must_use]
    #[inline]
    pub const fn place(&self) -> Place {
        Place {
            data: self.data,
            byte_offset: self.byte_offset,
            device: self.device,
            flags: self.flags,
        }
    }

    /// Dtype, shape and strides, and nothing else of it.
    #[must_use]
    #[inline]
    pub fn into_layout(self) -> Layout {
        self.layout
    }

    /// Dtype, shape and strides.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The address or handle.
    #[must_use]
    pub const fn data(&self) -> DataWord {
        self.data
    }

    /// Bytes from [`TensorView::data`] to the first element.
    #[must_use]
    pub const fn byte_offset(&self) -> u64 {
        self.byte_offset
    }

    /// The device that the producer claims.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// The flags.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether writing is forbidden.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.flags.contains(Flags::READ_ONLY)
    }

    /// Checks that every element lies inside an allocation of `size` bytes, where `data` lies `data_at` bytes behind its start.
    ///
    /// # Errors
    /// [`DlpackError::OutsideAllocation`] with both ranges.
    pub fn check_within(&self, data_at: u64, size: u64) -> Result<(), DlpackError> {
        let span = self.layout.span();
        let first = i128::from(data_at) + i128::from(self.byte_offset);
        let (start, end) = (first + i128::from(span.min), first + i128::from(span.max));
        if self.layout.numel() > 0 && (start < 0 || end > i128::from(size)) {
            return Err(DlpackError::OutsideAllocation { start, end, size });
        }
        Ok(())
    }
}

/// Refuses flag bits without a meaning where a tensor is made: they would say nothing to anyone.
#[inline]
pub(super) fn check_flags(flags: Flags) -> Result<(), DlpackError> {
    match flags.unknown() {
        0 => Ok(()),
        unknown => Err(DlpackError::UnknownFlags {
            flags: flags.raw(),
            unknown,
        }),
    }
}

/// Checks offset, data and device against the span.
#[inline(always)]
pub(super) fn check_place(
    span: Span,
    numel: i64,
    data: DataWord,
    byte_offset: u64,
    device: Device,
) -> Result<(), DlpackError> {
    let in_range = i64::try_from(byte_offset)
        .ok()
        .and_then(|offset| offset.checked_add(span.max));
    if in_range.is_none() {
        return Err(DlpackError::Offset {
            offset: i128::from(byte_offset),
            unit: "bytes",
            end: span.max,
        });
    }
    if numel > 0 && data.is_null() {
        return Err(DlpackError::NullData { numel });
    }
    // A handle is a name, not a number: there is nothing to add to it.
    if numel > 0 && device.ty.is_addressed() && !stays_in_address_space(span, data, byte_offset) {
        return Err(DlpackError::AddressSpace {
            data: data.addr(),
            byte_offset,
            min: span.min,
            max: span.max,
        });
    }
    if device.ty.raw() <= 0 || device.id < 0 {
        return Err(DlpackError::Device { device });
    }
    Ok(())
}

#[inline]
fn stays_in_address_space(span: Span, data: DataWord, byte_offset: u64) -> bool {
    let first = u64::try_from(data.addr())
        .ok()
        .and_then(|address| address.checked_add(byte_offset));
    first.is_some_and(|first| {
        first.checked_add_signed(span.min).is_some() && first.checked_add_signed(span.max).is_some()
    })
}
