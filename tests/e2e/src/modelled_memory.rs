//! Memory on a device as others see it, and a model of what it should hold.
#![expect(unsafe_code, reason = "hands managed tensors over by their pointers")]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up has failed, and any byte will do"
)]

use crossdock::{Device, Runtime, Tensor};
use crossdock_sdk::abi::AddressForm;
use crossdock_sdk::dlpack::{DataWord, Dtype, Flags, Layout, Produced, Received, TensorView};

/// Memory on one device, and what it should hold.
#[derive(Debug)]
pub struct ModelledMemory<'a> {
    runtime: &'a Runtime,
    /// All of it, as a tensor of bytes.
    pub whole: Tensor,
    model: Vec<u8>,
}

/// An owner that is no tensor to the library, so that a view is what it claims to be.
struct OfOthers(#[expect(dead_code, reason = "held until the view is gone")] Tensor);

impl<'a> ModelledMemory<'a> {
    /// So many bytes on a device, each unlike its neighbours.
    #[must_use]
    pub fn new(runtime: &'a Runtime, device: &Device, bytes: usize) -> Self {
        let model: Vec<u8> = (0..bytes)
            .map(|at| (at as u8).wrapping_mul(151) ^ 0x5a)
            .collect();
        let layout = Layout::compact(Dtype::UINT8, &[bytes as i64]).unwrap();
        let whole = Tensor::from_bytes(device, &layout, &model).unwrap();
        Self {
            runtime,
            whole,
            model,
        }
    }

    /// A view of it as others would hand it over, whose first element is `first` bytes in: what is done
    /// through it is not in order with what is done through the tensor or another view.
    #[must_use]
    pub fn view(&self, layout: &Layout, first: u64) -> Tensor {
        let address = self.whole.address();
        let (word, offset) = match address.form {
            AddressForm::HANDLE => (address.word, address.offset),
            _ => (address.as_pointer().unwrap(), 0),
        };
        let data = DataWord::from_addr(word as usize);
        let device = self.whole.device().id();
        let view = TensorView::new(layout.clone(), data, offset + first, device, Flags::NONE);
        let produced = Produced::new(OfOthers(self.whole.clone()), &view.unwrap()).unwrap();
        // SAFETY: a live export that nobody else owns.
        let received = unsafe { Received::from_versioned(produced.into_raw()) }.unwrap();
        Tensor::import(self.runtime, received).unwrap()
    }

    /// Replaces the elements of such a view in the model.
    pub fn set(&mut self, layout: &Layout, first: u64, bytes: &[u8]) {
        let bits = i64::from(layout.element_bits());
        for (index, place) in places(layout).into_iter().enumerate() {
            for bit in 0..bits {
                let from = index as i64 * bits + bit;
                let to = first as i64 * 8 + place * bits + bit;
                let new = bytes[(from / 8) as usize] >> (from % 8) & 1;
                let byte = &mut self.model[(to / 8) as usize];
                *byte = *byte & !(1 << (to % 8)) | new << (to % 8);
            }
        }
    }

    /// Demands that the device holds what the model does.
    pub fn check(&self, what: &str) {
        let device = self.whole.device();
        assert!(
            self.whole.read().unwrap() == self.model,
            "{what} on {device}"
        );
    }
}

/// The place of every element, in elements from the first.
#[must_use]
pub fn places(layout: &Layout) -> Vec<i64> {
    let mut all = vec![0];
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let along = |at: &i64| (0..extent).map(|i| at + i * stride).collect::<Vec<_>>();
        all = all.iter().flat_map(along).collect();
    }
    all
}

/// Bytes for every element of a layout, with nothing behind the last one.
#[must_use]
pub fn content(layout: &Layout, seed: u8) -> Vec<u8> {
    let bytes = (0..layout.bytes()).map(|at| (at as u8).wrapping_mul(37).wrapping_add(seed));
    trimmed(layout, bytes.collect())
}

/// The same with every element equal to one whose bits are the low ones of these bytes.
#[must_use]
pub fn repeated(layout: &Layout, element: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; layout.bytes() as usize];
    let bits = layout.element_bits() as usize;
    for bit in 0..layout.numel() as usize * bits {
        let from = bit % bits;
        bytes[bit / 8] |= (element[from / 8] >> (from % 8) & 1) << (bit % 8);
    }
    bytes
}

/// What was read, without the bits behind the last packed element, which are nobody's.
#[must_use]
pub fn trimmed(layout: &Layout, mut bytes: Vec<u8>) -> Vec<u8> {
    let used = layout.numel() as u64 * u64::from(layout.element_bits()) % 8;
    if let (Some(last), 1..) = (bytes.last_mut(), used) {
        *last &= (1 << used) - 1;
    }
    bytes
}
