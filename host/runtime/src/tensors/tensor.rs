//! Tensors: typed views of memory on one device.
#![expect(
    unsafe_code,
    reason = "lends memory that a copy initialises, and makes words of tensors for C"
)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crossdock_sdk::abi::{Address, AddressForm, MemoryKind};
use crossdock_sdk::dlpack::{
    self, AxisSlice, DataWord, Dtype, Flags, Layout, Managed, Place, Produced, TensorView,
};
// A tensor has no weak pointers, for which the standard library's would count too.
use triomphe::Arc as Shared;

use crate::devices::device::Device;
use crate::error::Error;
use crate::tensors::foreign::LentBytes;
use crate::tensors::inherited;
use crate::tensors::memory::Memory;

/// A typed view of memory on one device. Cheap to clone: clones share the memory.
///
/// ```
/// use crossdock::{Runtime, Tensor};
/// use crossdock_sdk::dlpack::{AxisSlice, Device, Dtype, Layout};
///
/// let cpu = Runtime::builder().search(false).open()?.device(Device::CPU)?;
/// let layout = Layout::compact(Dtype::UINT8, &[2, 3])?;
/// let tensor = Tensor::from_bytes(&cpu, &layout, &[1, 2, 3, 4, 5, 6])?;
/// let columns = tensor.permute(&[1, 0])?; // the same memory
/// assert_eq!(columns.read()?, [1, 4, 2, 5, 3, 6]);
/// let last = columns.slice(&[AxisSlice { start: 2, step: 1, len: 1 }, AxisSlice::all(2)])?;
/// last.write(&[7, 8])?;
/// assert_eq!(tensor.read()?, [1, 2, 7, 4, 5, 8]);
/// # Ok::<(), crossdock::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tensor(Shared<View>);

/// One allocation for all clones and their memory, so that an export or an import of one moves a
/// pointer.
#[derive(Debug)]
struct View {
    home: Home,
    layout: Layout,
    /// Bytes from the memory's start to the element with index 0 in every dimension.
    offset: u64,
}

/// Where the memory is kept.
#[derive(Debug)]
enum Home {
    /// Here, with the tensor that was made of it.
    Here(Memory),
    /// With all tensors that name the same native object.
    Object(Arc<Memory>),
    /// With that tensor, which this one is a view of.
    Of(Tensor),
}

impl Tensor {
    /// The tensor as one word, for embeddings in C: it keeps the tensor until
    /// [`Tensor::from_word`] takes it back.
    #[must_use]
    #[inline]
    pub fn into_word(self) -> NonNull<c_void> {
        let view = Shared::into_raw(self.0);
        // SAFETY: it points to a view.
        unsafe { NonNull::new_unchecked(view.cast_mut()) }.cast()
    }

    /// The tensor that such a word keeps.
    ///
    /// # Safety
    /// - [`Tensor::into_word`] gave the word, and it is taken back once. Until then it may be
    ///   looked at through a [`ManuallyDrop`](std::mem::ManuallyDrop), also on several threads.
    #[must_use]
    #[inline]
    pub unsafe fn from_word(word: NonNull<c_void>) -> Self {
        let view = word.cast::<View>();
        // SAFETY: `into_word` had it from `into_raw`, and it is taken back once.
        Self(unsafe { Shared::from_raw(view.as_ptr()) })
    }

    /// Allocates a compact tensor with the dtype and shape of `layout`; its content is undefined.
    ///
    /// # Errors
    /// [`Error::Hook`] when the device has too little memory.
    pub fn empty(device: &Device, layout: &Layout) -> Result<Self, Error> {
        Self::empty_of(device, layout, MemoryKind::DEVICE)
    }

    /// The same in memory of this kind: `DEVICE`, or `PINNED` or `MANAGED` where the device offers it.
    /// DLPack has a name of its own for some kinds on some devices ([`Tensor::dlpack_device`]).
    ///
    /// # Errors
    /// [`Error::Misuse`] for a kind that nobody allocates here, or that this device does not offer;
    /// [`Error::Hook`] when there is too little memory.
    pub fn empty_of(device: &Device, layout: &Layout, kind: MemoryKind) -> Result<Self, Error> {
        device.check_offers(kind)?;
        let layout = compact(layout)?;
        let memory = Memory::allocate(device, layout.bytes(), kind)?;
        Ok(Self::of(memory, layout, 0))
    }

    /// Views host memory that `owner` keeps alive, without a copy and read-only, from
    /// `byte_offset` on. `device` is a device whose memory the host addresses.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another device; [`Error::Exchange`] when `layout` leaves the memory.
    pub(crate) fn from_host_owner(
        device: &Device,
        owner: LentBytes,
        byte_offset: u64,
        layout: &Layout,
    ) -> Result<Self, Error> {
        let memory = Memory::host(device, owner);
        let data = data_word(memory.address.word)?;
        let view = TensorView::new(
            layout.clone(),
            data,
            byte_offset,
            device.id(),
            Flags::READ_ONLY,
        )?;
        view.check_within(0, memory.size)?;
        Ok(Self::of(memory, layout.clone(), byte_offset))
    }

    /// A tensor in `memory`; the caller has checked that `layout` lies inside.
    #[inline]
    pub(crate) fn of(memory: Memory, layout: Layout, offset: u64) -> Self {
        if memory.address.form == AddressForm::HANDLE && memory.size != 0 {
            let (word, memory) = (memory.address.word, Arc::new(memory));
            // It was made just now, so nobody else has it.
            let _nobody = memory.enter_object([word; 2]);
            return Self::of_object(memory, layout, offset);
        }
        Self::made(|| memory, || layout, offset)
    }

    /// A tensor in the memory of a native object that was adopted just now, which others named by `word`
    /// and the plugin perhaps by another one. Where another thread adopted it too, it is a view of the
    /// memory that this made.
    pub(crate) fn of_adopted(
        memory: Memory,
        word: u64,
        layout: Layout,
        offset: u64,
    ) -> Result<Self, Error> {
        let (words, mut memory) = ([word, memory.address.word], Arc::new(memory));
        if let Some(first) = memory.enter_object(words) {
            let first = Self::keeping(first)?;
            // Not entered, so it is this one's alone.
            if let Some(memory) = Arc::get_mut(&mut memory) {
                memory.set_whole(first);
            }
        }
        Ok(Self::of_object(memory, layout, offset))
    }

    /// A tensor that keeps the memory of an object, and has no elements.
    pub(crate) fn keeping(memory: Arc<Memory>) -> Result<Self, Error> {
        Ok(Self::of_object(
            memory,
            Layout::compact(Dtype::UINT8, &[0])?,
            0,
        ))
    }

    /// As [`Tensor::of`], of an object that other tensors may be of too.
    pub(crate) fn of_object(memory: Arc<Memory>, layout: Layout, offset: u64) -> Self {
        Self(Shared::new(View {
            home: Home::Object(memory),
            layout,
            offset,
        }))
    }

    /// As [`Tensor::of`], with both made in their places.
    #[inline(always)]
    pub(crate) fn made(
        memory: impl FnOnce() -> Memory,
        layout: impl FnOnce() -> Layout,
        offset: u64,
    ) -> Self {
        Self(Shared::new(View {
            home: Home::Here(memory()),
            layout: layout(),
            offset,
        }))
    }

    /// A view of the same memory; the caller has checked that `layout` lies inside.
    pub(crate) fn view(&self, layout: Layout, offset: u64) -> Self {
        Self(Shared::new(View {
            home: Home::Of(self.keeper().clone()),
            layout,
            offset,
        }))
    }

    /// The tensor that keeps the memory.
    #[inline]
    pub(crate) fn keeper(&self) -> &Self {
        match &self.0.home {
            Home::Here(_) | Home::Object(_) => self,
            Home::Of(keeper) => keeper,
        }
    }

    /// The memory as this process has it.
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        let memory = self.own_memory();
        if memory.is_inherited() {
            return inherited::here(memory);
        }
        memory
    }

    /// The memory that it was made with, perhaps before a fork.
    #[inline]
    pub(crate) fn own_memory(&self) -> &Memory {
        match &self.0.home {
            Home::Here(memory) => memory,
            Home::Object(memory) => memory,
            Home::Of(keeper) => keeper.own_memory(),
        }
    }

    /// The tensor that the memory was made for, whichever device's view of it this is.
    fn root(&self) -> &Self {
        let mut root = self.keeper();
        while let Some(of) = root.own_memory().viewed() {
            root = of;
        }
        root
    }

    /// Whether its elements are all that its memory has. Bits of the last byte that are behind them
    /// belong to nobody where the memory was made for no more elements.
    pub(crate) fn is_whole(&self) -> bool {
        let layout = self.layout();
        layout.is_contiguous()
            && self.nbytes() == self.memory().root().size
            && (layout.element_bits().is_multiple_of(8) || self.bits() >= self.root().bits())
    }

    /// How many bits its elements have together.
    pub(crate) fn bits(&self) -> i128 {
        i128::from(self.layout().numel()) * i128::from(self.layout().element_bits())
    }

    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Dtype, shape and strides.
    #[must_use]
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The dtype.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.layout().dtype()
    }

    /// The device that holds it. In the child of a fork that is the child's `cpu:0` where the host has
    /// the memory and no work was running on it at the fork; else the parent's device, which answers
    /// `FORKED`.
    #[must_use]
    #[inline]
    pub fn device(&self) -> &Device {
        &self.memory().device
    }

    /// Where DLPack says that it is: on its device, or, for pinned and managed memory, on the one
    /// that stands for this kind (`cuda_host:0`).
    #[must_use]
    #[inline]
    pub fn dlpack_device(&self) -> dlpack::Device {
        self.memory().dlpack_device()
    }

    /// Whether writing is refused.
    #[must_use]
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.memory().read_only
    }

    /// Bytes of its elements, packed.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.layout().bytes()
    }

    /// Whose memory it is.
    #[must_use]
    pub fn memory_kind(&self) -> MemoryKind {
        self.memory().kind
    }

    /// Where its first element is.
    #[must_use]
    #[inline]
    pub fn address(&self) -> Address {
        self.memory().at(self.offset())
    }

    /// Refuses what nobody may write, and where one element has the place of another: which of their
    /// values stayed would be chance.
    pub(crate) fn check_not_read_only(&self, operation: &'static str) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::misuse(operation, "it is read-only"));
        }
        Ok(())
    }

    pub(crate) fn check_writable(&self, operation: &'static str) -> Result<(), Error> {
        self.check_not_read_only(operation)?;
        let axes = self.layout().overlapping_axes();
        if axes.is_empty() {
            return Ok(());
        }
        let (shape, strides) = (self.layout().shape(), self.layout().strides());
        let why = format!(
            "its elements overlap along the axes {axes:?} of shape {shape:?} and strides \
             {strides:?}: write the tensor that it is a view of, or a copy"
        );
        Err(Error::misuse(operation, why))
    }

    pub(crate) fn check_length(&self, operation: &'static str, length: usize) -> Result<(), Error> {
        if length as u64 == self.nbytes() {
            return Ok(());
        }
        let why = format!("it holds {} bytes, {length} were given", self.nbytes());
        Err(Error::misuse(operation, why))
    }

    /// A view with its axes in another order.
    ///
    /// # Errors
    /// [`Error::Exchange`] when `axes` is no permutation.
    pub fn permute(&self, axes: &[usize]) -> Result<Self, Error> {
        Ok(self.with_layout(self.layout().permute(axes)?))
    }

    /// A view of a part; one slice an axis.
    ///
    /// # Errors
    /// [`Error::Exchange`] when a slice leaves its axis.
    pub fn slice(&self, slices: &[AxisSlice]) -> Result<Self, Error> {
        let (layout, elements) = self.layout().slice(slices)?;
        let bytes = self.layout().byte_offset_of(elements)?;
        let Some(offset) = self.offset().checked_add_signed(bytes) else {
            return Err(Error::misuse(
                "slice a tensor",
                "the part lies before its memory",
            ));
        };
        Ok(self.view(layout, offset))
    }

    /// A view with another shape.
    ///
    /// # Errors
    /// [`Error::Misuse`] when that would need a copy.
    pub fn reshape(&self, shape: &[i64]) -> Result<Self, Error> {
        let Some(layout) = self.layout().reshape(shape) else {
            return Err(Error::misuse("reshape a tensor", self.no_shape(shape)));
        };
        Ok(self.with_layout(layout))
    }

    /// Why it cannot have this shape.
    fn no_shape(&self, shape: &[i64]) -> String {
        if let Some(extent) = shape.iter().find(|extent| **extent < 0) {
            return format!("{shape:?} has an extent of {extent}, and none is found by itself");
        }
        let elements = |shape: &[i64]| {
            let mut extents = shape.iter();
            extents.try_fold(1_i64, |count, extent| count.checked_mul(*extent))
        };
        match (elements(shape), elements(self.layout().shape())) {
            (Some(asked), Some(own)) if asked != own => {
                format!("{shape:?} has {asked} elements, and the tensor {own}")
            }
            (None, _) => format!("{shape:?} has more elements than there can be"),
            _ => "this shape needs a copy".to_owned(),
        }
    }

    fn with_layout(&self, layout: Layout) -> Self {
        self.view(layout, self.offset())
    }

    /// Hands the tensor out as a DLPack 1.3 managed tensor that shares its memory, without looking
    /// at the work on it: the consumer keeps the order, as DLPack's stream -1 asks.
    ///
    /// The memory lives until the managed tensor's deleter ran. Addresses are exported with offset
    /// 0; a handle (`cl_mem`) keeps its word and carries the offset. One allocation.
    ///
    /// # Errors
    /// [`Error::Exchange`] when DLPack cannot represent it.
    #[inline]
    pub fn export_unordered(&self) -> Result<Produced, Error> {
        self.export_as()
    }

    /// The same as either of DLPack's two structs.
    ///
    /// # Errors
    /// [`Error::Exchange`] when DLPack, or its struct of 0.x, cannot represent it.
    #[inline]
    pub fn export_as<M: Managed>(&self) -> Result<Produced<M>, Error> {
        self.export_in(self.memory())
    }

    /// The same where the caller has asked for its memory already.
    #[inline]
    pub(crate) fn export_in<M: Managed>(&self, memory: &Memory) -> Result<Produced<M>, Error> {
        memory.check_claim()?;
        let address = memory.at(self.offset());
        let (word, byte_offset) = match address.form {
            AddressForm::HANDLE => (address.word, address.offset),
            _ => (address.as_pointer().unwrap_or(0), 0),
        };
        let data = data_word(word)?;
        let flags = Flags::default().with(Flags::READ_ONLY, memory.read_only);
        let place = Place {
            data,
            byte_offset,
            device: memory.dlpack_device(),
            flags,
        };
        Ok(Produced::at(self.clone(), self.layout(), place)?)
    }
}

/// A word of the contract as DLPack carries it.
fn data_word(word: u64) -> Result<DataWord, Error> {
    usize::try_from(word)
        .map(DataWord::from_addr)
        .map_err(|error| Error::misuse("export a tensor", error.to_string()))
}

/// The compact layout with the same dtype, padding and shape.
pub(crate) fn compact(layout: &Layout) -> Result<Layout, Error> {
    Ok(Layout::compact(layout.dtype(), layout.shape())?.with_padding(layout.is_padded())?)
}
