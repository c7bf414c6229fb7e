//! Views of a tensor's bytes as other elements, and read-only views.

use crossdock_sdk::dlpack::Layout;

use crate::error::Error;
use crate::tensors::foreign::MemoryOwner;
use crate::tensors::memory::Memory;
use crate::tensors::tensor::Tensor;

impl Tensor {
    /// Views the tensor's bytes as the elements of `layout`, the first of which lies `byte_offset` bytes after the
    /// tensor's own first element. The view shares the memory, and so the order and the failures of its work.
    ///
    /// ```
    /// use crossdock::{Runtime, Tensor};
    /// use crossdock_sdk::dlpack::{Device, Dtype, Layout};
    ///
    /// let cpu = Runtime::builder().search(false).open()?.device(Device::CPU)?;
    /// let words = Tensor::from_bytes(&cpu, &Layout::compact(Dtype::UINT16, &[2])?, &[1, 2, 3, 4])?;
    /// let bytes = words.reinterpret(1, &Layout::compact(Dtype::UINT8, &[3])?)?;
    /// assert_eq!(bytes.read()?, [2, 3, 4]);
    /// # Ok::<(), crossdock::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if an element of `layout` lies outside the bytes from the tensor's first element to its
    /// last.
    pub fn reinterpret(&self, byte_offset: i64, layout: &Layout) -> Result<Self, Error> {
        if layout.numel() == 0 {
            return Ok(self.view(layout.clone(), self.offset()));
        }
        let (own, wanted) = (self.layout().span(), layout.span());
        let at = |bytes: i64| i128::from(byte_offset) + i128::from(bytes);
        let (start, end) = (at(wanted.min), at(wanted.max));
        let is_inside = i128::from(own.min) <= start && end <= i128::from(own.max);
        let offset = self.offset().checked_add_signed(byte_offset);
        match offset.filter(|_| is_inside && self.layout().numel() > 0) {
            Some(offset) => Ok(self.view(layout.clone(), offset)),
            None => {
                let (min, max) = (own.min, own.max);
                let why = format!(
                    "the view would use the bytes {start}..{end}, and the tensor has {min}..{max}"
                );
                Err(Error::misuse("reinterpret a tensor", why))
            }
        }
    }

    /// The same elements without permission to write.
    #[must_use]
    pub fn to_read_only(&self) -> Self {
        if self.is_read_only() {
            return self.clone();
        }
        let memory = || Memory::named(self.keeper().clone(), MemoryOwner::none(), true);
        Self::made(memory, || self.layout().clone(), self.offset())
    }
}
