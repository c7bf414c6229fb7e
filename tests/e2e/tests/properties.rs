//! Tensors of any shape, strides, offset and dtype: what comes back is what went in, element by
//! element, or it is refused with a reason.
#![expect(unsafe_code, reason = "hands managed tensors over by their pointers")]
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up has failed, and any byte will do"
)]

use std::sync::{Arc, LazyLock};

use crossdock::{RouteChoice, Runtime, Tensor};
use crossdock_e2e::everything;
use crossdock_e2e::modelled_memory::trimmed;
use crossdock_sdk::dlpack::{
    DataWord, Device, Dtype, Flags, Layout, Produced, Received, TensorView,
};
use proptest::prelude::*;

/// Bytes of somebody else's memory; every tensor of this file lies inside or is refused.
const MEMORY_BYTES: usize = 32_768;
const START: i64 = 16_384;

/// A tensor as anybody might hand it over.
#[derive(Debug, Clone)]
struct Given {
    dtype: Dtype,
    padded: bool,
    axes: Vec<(i64, i64)>,
    byte_offset: i64,
    seed: u8,
}

fn given() -> impl Strategy<Value = Given> {
    let names = [
        "float4_e2m1fn",
        "int4",
        "uint4",
        "float6_e3m2fn",
        "bool",
        "int8",
        "float16",
        "bfloat16",
        "float32",
        "complex128",
        "int8x4",
    ];
    let dtypes: Vec<Dtype> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let axes = prop::collection::vec((0..6_i64, -20..20_i64), 0..5);
    (
        prop::sample::select(dtypes),
        any::<bool>(),
        axes,
        -40..40_i64,
        any::<u8>(),
    )
        .prop_map(|(dtype, padded, axes, byte_offset, seed)| Given {
            dtype,
            padded,
            axes,
            byte_offset,
            seed,
        })
}

impl Given {
    fn layout(&self) -> Layout {
        let (shape, strides): (Vec<i64>, Vec<i64>) = self.axes.iter().copied().unzip();
        let layout = Layout::strided(self.dtype, &shape, &strides).unwrap();
        layout.with_padding(self.padded).unwrap()
    }

    fn memory(&self) -> Arc<Vec<u8>> {
        let byte =
            |at: usize| (at as u8).wrapping_mul(31).wrapping_add(self.seed) ^ (at >> 8) as u8;
        Arc::new((0..MEMORY_BYTES).map(byte).collect())
    }

    /// The tensor over `memory`, in the hands of somebody else.
    fn received(&self, memory: &Arc<Vec<u8>>) -> Received {
        let data = DataWord::from_addr(memory.as_ptr().expose_provenance());
        let offset = u64::try_from(START + self.byte_offset).unwrap();
        let view = TensorView::new(self.layout(), data, offset, Device::CPU, Flags::NONE).unwrap();
        let produced = Produced::new(Arc::clone(memory), &view).unwrap();
        receive(produced)
    }
}

fn receive(produced: Produced) -> Received {
    // SAFETY: a live export that nobody else owns.
    unsafe { Received::from_versioned(produced.into_raw()) }.unwrap()
}

/// The bits of all elements in row-major order, each one picked by itself; compact and padded as
/// the layout says.
fn model(layout: &Layout, memory: &[u8], first: i64) -> Vec<u8> {
    let bits = i64::from(layout.element_bits());
    let mut places = vec![0_i64];
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let along = |place: &i64| {
            (0..extent)
                .map(|index| place + index * stride)
                .collect::<Vec<_>>()
        };
        places = places.iter().flat_map(along).collect();
    }
    let mut out = vec![0_u8; usize::try_from(layout.bytes()).unwrap()];
    let picked = places
        .iter()
        .flat_map(|place| (0..bits).map(move |bit| place * bits + bit));
    for (to, from) in picked.enumerate() {
        let at = first * 8 + from;
        let byte = memory[usize::try_from(at.div_euclid(8)).unwrap()];
        let bit = byte >> at.rem_euclid(8) & 1;
        out[to / 8] |= bit << (to % 8);
    }
    out
}

/// Demands that `tensor` holds `wanted`, or that reading it is refused with a reason.
fn holds(tensor: &Tensor, wanted: &[u8]) -> Result<bool, TestCaseError> {
    match tensor.read() {
        Ok(bytes) => {
            prop_assert_eq!(trimmed(tensor.layout(), bytes), wanted);
            Ok(true)
        }
        Err(error) => {
            prop_assert!(!error.why().is_empty() && !error.to_string().is_empty());
            Ok(false)
        }
    }
}

fn runtime() -> Runtime {
    Runtime::builder().search(false).open().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_imported_exported_and_copied_holds_what_went_in_or_is_refused(given in given()) {
        let runtime = runtime();
        let cpu = runtime.device(Device::CPU).unwrap();
        let memory = given.memory();
        let layout = given.layout();
        let wanted = model(&layout, &memory, START + given.byte_offset);

        let imported = Tensor::import(&runtime, given.received(&memory)).unwrap();
        let is_read = holds(&imported, &wanted)?;
        // Whole bytes are always possible on the CPU.
        prop_assert!(is_read || given.dtype.is_sub_byte());

        // SAFETY: a live export that nobody else owns.
        let own = unsafe {
            Tensor::import_managed(&runtime, imported.export().unwrap().into_raw())
        }.unwrap();
        prop_assert_eq!((own.layout(), own.address()), (imported.layout(), imported.address()));

        let received = receive(imported.export().unwrap());
        if layout.numel() > 0 {
            prop_assert_eq!(received.layout().shape(), layout.shape());
            prop_assert_eq!(received.layout().strides(), layout.strides());
        }
        prop_assert_eq!(received.layout().dtype(), given.dtype);
        drop((imported, received));

        let copied = Tensor::empty(&cpu, own.layout()).unwrap();
        match copied.copy_from(&own, None) {
            Ok(()) => prop_assert!(holds(&copied, &wanted)?),
            Err(error) => prop_assert!(given.dtype.is_sub_byte() && !error.why().is_empty()),
        }
        drop(own);
        prop_assert_eq!(Arc::strong_count(&memory), 1, "the owner was not released");
    }

    #[test]
    fn what_is_written_through_a_view_is_what_its_elements_hold(
        given in given().prop_filter("each element is there once", |given| {
            given.axes.iter().all(|&(_, stride)| stride != 0)
        }),
        order in any::<prop::sample::Index>(),
    ) {
        let runtime = runtime();
        let cpu = runtime.device(Device::CPU).unwrap();
        let shape: Vec<i64> = given.axes.iter().map(|&(extent, _)| extent).collect();
        let compact = Layout::compact(given.dtype, &shape).unwrap().with_padding(given.padded).unwrap();
        let tensor = Tensor::empty(&cpu, &compact).unwrap();
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        let turns = if axes.is_empty() { 0 } else { order.index(shape.len()) };
        axes.rotate_left(turns);
        let view = tensor.permute(&axes).unwrap();
        let length = usize::try_from(view.nbytes()).unwrap();
        let bytes: Vec<u8> = given.memory().iter().copied().take(length).collect();
        let bytes = trimmed(view.layout(), bytes);
        match view.write(&bytes) {
            Ok(()) => {
                prop_assert!(holds(&view, &bytes)?);
            }
            Err(error) => prop_assert!(given.dtype.is_sub_byte() && !error.why().is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_moves_to_a_device_and_back_holds_what_went_in_or_is_refused(given in given()) {
        let runtime = everywhere();
        let memory = given.memory();
        let layout = given.layout();
        let wanted = model(&layout, &memory, START + given.byte_offset);
        let imported = Tensor::import(runtime, given.received(&memory)).unwrap();
        for device in runtime.devices() {
            match imported.to(&device, RouteChoice::Best) {
                Ok((moved, route)) => {
                    let is_read = holds(&moved, &wanted)?;
                    prop_assert!(is_read || given.dtype.is_sub_byte(), "{}", route);
                }
                Err(error) => {
                    prop_assert!(given.dtype.is_sub_byte(), "{}: {}", device, error.why());
                }
            }
        }
    }
}

/// Every plugin of these tests, opened once.
fn everywhere() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        everything(folder.path())
    });
    &RUNTIME
}
