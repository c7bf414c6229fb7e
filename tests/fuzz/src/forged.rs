//! Managed tensors made of any bytes, and what has to hold when one is imported. The fuzz target
//! and a seeded test of the sdk both include this file.
#![expect(unsafe_code, reason = "forges the structs of wrong producers")]

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossdock_sdk::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    DlpackError, Layout, Produced, Received, VERSION,
};

/// Imports the tensor that `bytes` stand for; whether it was accepted.
///
/// # Panics
/// When it is released not once, its struct is written to, or what was accepted is not what it says.
pub(crate) fn exchange(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let choice = input.byte();
    let mut numbers = Numbers::read(&mut input, choice);
    let released = AtomicUsize::new(0);
    let context = (&raw const released).cast_mut().cast();
    let tensor = numbers.tensor(&mut input);
    let accepted = if choice & LEGACY == 0 {
        let mut managed = DLManagedTensorVersioned {
            version: version(choice, &mut input),
            manager_ctx: context,
            deleter: Some(count),
            flags: u64::from(input.byte()),
            dl_tensor: tensor,
        };
        let before = format!("{managed:?}");
        // SAFETY: the struct and its numbers outlive the result; the deleter only counts.
        let result = unsafe { Received::from_versioned(NonNull::from(&mut managed)) };
        let accepted = settle(result, &released);
        assert_eq!(before, format!("{managed:?}"), "the struct was written to");
        accepted
    } else {
        let mut managed = DLManagedTensor {
            dl_tensor: tensor,
            manager_ctx: context,
            deleter: Some(count_legacy),
        };
        // SAFETY: as above.
        settle(
            unsafe { Received::from_legacy(NonNull::from(&mut managed)) },
            &released,
        )
    };
    assert_eq!(
        released.load(Ordering::SeqCst),
        1,
        "the deleter is called once"
    );
    accepted
}

/// Checks an import, and drops it.
fn settle(result: Result<Received, DlpackError>, released: &AtomicUsize) -> bool {
    match result {
        Ok(received) => {
            assert_eq!(
                released.load(Ordering::SeqCst),
                0,
                "released while it is in use"
            );
            check(&received);
            true
        }
        Err(error) => {
            assert!(
                error.to_string().contains(':'),
                "no field is named: {error}"
            );
            false
        }
    }
}

/// Demands that a layout's numbers agree with a slow model, and that an export of it comes back.
fn check(received: &Received) {
    let (view, layout) = (received.view(), received.layout());
    let extents = || layout.shape().iter().map(|&extent| i128::from(extent));
    // Where there are elements, their number fits: a product with a zero in it need not.
    let numel = if extents().any(|extent| extent == 0) {
        0
    } else {
        extents().product()
    };
    assert_eq!(i128::from(layout.numel()), numel);
    if numel > 0 {
        check_span(layout);
    }
    let axes: Vec<usize> = (0..layout.rank()).rev().collect();
    let turned = layout.permute(&axes).expect("a permutation of all axes");
    assert_eq!(
        (turned.numel(), turned.span()),
        (layout.numel(), layout.span())
    );
    let produced = Produced::<DLManagedTensorVersioned>::new(0_u8, view).expect("was accepted");
    // SAFETY: a live export that nobody else owns.
    let back = unsafe { Received::from_versioned(produced.into_raw()) }.expect("was exported");
    assert_eq!(back.layout(), layout);
    assert_eq!((back.device(), back.flags()), (view.device(), view.flags()));
    if numel > 0 {
        assert_eq!(
            (back.data(), back.byte_offset()),
            (view.data(), view.byte_offset())
        );
    }
}

/// The lowest and the highest bit of all elements, found by going to the ends of each axis.
fn check_span(layout: &Layout) {
    let bits = i128::from(layout.element_bits());
    let (mut low, mut high) = (0_i128, bits);
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let reach = i128::from(extent - 1) * i128::from(stride) * bits;
        low += reach.min(0);
        high += reach.max(0);
    }
    let span = layout.span();
    assert!(i128::from(span.min) * 8 <= low && low < i128::from(span.min) * 8 + 8);
    assert!(i128::from(span.max) * 8 >= high && high > i128::from(span.max) * 8 - 8);
}

unsafe extern "C" fn count(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the struct is alive, and its context is the counter that outlives it.
    add(unsafe { (*managed).manager_ctx });
}

unsafe extern "C" fn count_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: as above.
    add(unsafe { (*managed).manager_ctx });
}

fn add(context: *mut c_void) {
    // SAFETY: both deleters are called with the counter of `exchange`, which is alive.
    let released = unsafe { &*context.cast::<AtomicUsize>() };
    released.fetch_add(1, Ordering::SeqCst);
}

/// Exactly as many numbers as the rank says, so that a sanitizer sees a read of one more.
struct Numbers {
    ndim: i32,
    shape: Option<Box<[i64]>>,
    strides: Option<Box<[i64]>>,
}

impl Numbers {
    fn read(input: &mut Input<'_>, choice: u8) -> Self {
        let ndim = match input.byte() {
            rank @ 0..=70 => i32::from(rank % 10),
            rank @ 71..=170 => i32::from(rank) - 100,
            _ => input.number() as i32,
        };
        let rank = usize::try_from(ndim).unwrap_or(0).min(64);
        let mut numbers = || (0..rank).map(|_| input.size()).collect();
        Self {
            ndim,
            shape: (choice & NO_SHAPE == 0 || rank == 0).then(&mut numbers),
            strides: (choice & NO_STRIDES == 0).then(numbers),
        }
    }

    fn tensor(&mut self, input: &mut Input<'_>) -> DLTensor {
        let first = |numbers: &mut Option<Box<[i64]>>| {
            numbers
                .as_mut()
                .map_or(null_mut(), |numbers| numbers.as_mut_ptr())
        };
        let plain = input.byte();
        let dtype = [(2, 32, 1), (0, 8, 1), (17, 4, 1), (5, 128, 2)].get(usize::from(plain & 7));
        let (code, bits, lanes) = dtype
            .copied()
            .unwrap_or_else(|| (input.byte(), input.byte(), u16::from(input.byte())));
        let anything = plain & 0x18 == 0;
        DLTensor {
            data: std::ptr::without_provenance_mut(if anything {
                input.number() as usize
            } else {
                1 << 40
            }),
            device: DLDevice {
                device_type: if anything { input.number() as i32 } else { 1 },
                device_id: if anything { input.size() as i32 } else { 0 },
            },
            ndim: self.ndim,
            dtype: DLDataType { code, bits, lanes },
            shape: first(&mut self.shape),
            strides: first(&mut self.strides),
            byte_offset: input.size().unsigned_abs() * u64::from(plain >> 7),
        }
    }
}

fn version(choice: u8, input: &mut Input<'_>) -> DLPackVersion {
    if choice & OTHER_VERSION == 0 {
        return VERSION;
    }
    DLPackVersion {
        major: u32::from(input.byte() & 3),
        minor: u32::from(input.byte()),
    }
}

const LEGACY: u8 = 0x80;
const NO_STRIDES: u8 = 0x40;
const NO_SHAPE: u8 = 0x20;
const OTHER_VERSION: u8 = 0x10;

/// Bytes that never end: zeros follow.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> i64 {
        (0..8).fold(0, |number, _| number << 8 | i64::from(self.byte()))
    }

    /// A number that is small most of the time.
    fn size(&mut self) -> i64 {
        match self.byte() {
            small @ 0..=220 => i64::from(small % 16) - i64::from(small / 200) * 8,
            large @ 221..=245 => 1_i64 << ((large - 221) * 2 + 8),
            _ => self.number(),
        }
    }
}
