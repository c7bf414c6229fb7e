//! cudarc and Crossdock exchange memory both ways, each on streams of its own: `exchange PLUGIN in|out mended|race`,
//! with the file of Crossdock's CUDA plugin. Told of each other's streams they are in order; with the word `race`
//! nobody says so, which the driver reports.

use std::error::Error;
use std::sync::Arc;

use crossdock::{CostCache, Device, MemoryOwner, RouteChoice, RouteKind, Runtime, Stream, Tensor};
use crossdock_sdk::dlpack::{DataWord, DeviceType, Dtype, Flags, Layout, TensorView};
use cudarc::driver::{CudaContext, CudaStream, DevicePtr as _};

const LENGTH: usize = 4096;
const COPY: RouteChoice = RouteChoice::Only(RouteKind::Direct);

type Outcome = Result<(), Box<dyn Error>>;

/// Both libraries on one device.
struct Both {
    runtime: Runtime,
    device: Device,
    context: Arc<CudaContext>,
    layout: Layout,
    is_racy: bool,
}

impl Both {
    fn new(plugin: &str, is_racy: bool) -> Result<Self, Box<dyn Error>> {
        let context = CudaContext::new(0)?;
        // SAFETY: the streams are ordered below, or that is what the driver has to say.
        unsafe { context.disable_event_tracking() };
        let builder = Runtime::builder().search(false).costs(CostCache::Off);
        let runtime = builder.plugin(plugin).open()?;
        let device = runtime.device(DeviceType::CUDA.device(0))?;
        let layout = Layout::compact(Dtype::UINT8, &[i64::try_from(LENGTH)?])?;
        Ok(Self {
            runtime,
            device,
            context,
            layout,
            is_racy,
        })
    }

    /// Crossdock's name of a stream of cudarc's.
    fn known(&self, stream: &CudaStream) -> Result<Stream, Box<dyn Error>> {
        // SAFETY: the caller keeps the stream until its work is over.
        Ok(unsafe { Stream::wrap(&self.device, stream.cu_stream() as u64) }?)
    }

    /// cudarc brings the bytes, Crossdock copies them on another stream.
    fn into_crossdock(&self) -> Outcome {
        let theirs = self.context.new_stream()?;
        let mut memory = theirs.alloc_zeros::<u8>(LENGTH)?;
        theirs.synchronize()?;
        // SAFETY: all of it is written before it is read.
        let mut pinned = unsafe { self.context.alloc_pinned::<u8>(LENGTH) }?;
        pinned.as_mut_slice()?.fill(7);
        theirs.memcpy_htod(&pinned, &mut memory)?;
        let address = usize::try_from(memory.device_ptr(&theirs).0)?;
        let (layout, word) = (self.layout.clone(), DataWord::from_addr(address));
        let view = TensorView::new(layout, word, 0, self.device.id(), Flags::NONE)?;
        // SAFETY: the slice has so many bytes there, and is the owner.
        let tensor =
            unsafe { Tensor::import_memory(&self.runtime, view, MemoryOwner::new(memory)) }?;
        if !self.is_racy {
            tensor.ready_on(&self.known(&theirs)?)?;
        }
        let ours = Stream::new(&self.device)?;
        let (copied, _route) = tensor.to_on(&self.device, COPY, &ours)?;
        let found = copied.read()?;
        theirs.synchronize()?;
        assert!(self.is_racy || found == [7; LENGTH]);
        Ok(())
    }

    /// Crossdock brings the bytes, cudarc reads them on another stream.
    fn out_of_crossdock(&self) -> Outcome {
        let (ours, theirs) = (Stream::new(&self.device)?, self.context.new_stream()?);
        let tensor = Tensor::empty(&self.device, &self.layout)?;
        tensor.fill(&[9], Some(&ours))?;
        let known = self.known(&theirs)?;
        if !self.is_racy {
            tensor.wait_to_read(&known)?;
        }
        let address = tensor
            .address()
            .as_pointer()
            .ok_or("the tensor has no address")?;
        // SAFETY: the tensor has so many bytes there, and outlives the slice, which is given up below.
        let memory = unsafe { theirs.upgrade_device_ptr::<u8>(address, LENGTH) };
        let found = theirs.clone_dtoh(&memory)?;
        tensor.used_on(&known)?;
        theirs.synchronize()?;
        let _address = memory.leak();
        ours.synchronize(None)?;
        assert!(self.is_racy || found == [9; LENGTH]);
        Ok(())
    }
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [plugin, way, how] = words.as_slice() else {
        return Err("PLUGIN in|out mended|race".into());
    };
    let both = Both::new(plugin, how == "race")?;
    match way.as_str() {
        "in" => both.into_crossdock(),
        _ => both.out_of_crossdock(),
    }
}
