//! Memory between processes. A handle says where the memory is in the file of the process that has it; whoever opens
//! it maps the same bytes. Events between processes, and pools, are not simulated.
#![expect(unsafe_code, reason = "the driver's functions are exported by name")]

use crossdock_sim_engine::{Error, Export};

use super::codes::Code;
use super::contexts::wait_for_device;
use super::entry::{Answer, Call, Out, entries};
use super::objects::{Objects, objects};

/// `CUipcMemHandle`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Handle([u8; 64]);

/// What the first word of a handle is.
const MAGIC: u64 = u64::from_le_bytes(*b"xdsimipc");
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
const LAZY_PEER_ACCESS: u32 = 1;

/// Memory of another process that is open here.
#[derive(Debug)]
pub(crate) struct Import {
    export: Export,
    context: u64,
    count: u32,
}

entries! {
    fn cuIpcGetMemHandle(out: Out<Handle>, address: u64) |call| {
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let owner = call.owner_of(address).ok_or(Code::INVALID_VALUE)?;
        if !objects().is_exportable(owner.base) {
            return Err(Code::INVALID_VALUE);
        }
        out.set(Handle::new(&call.process.engine.export(call.site, address)?))
    }

    fn cuIpcOpenMemHandle(out: Out<u64>, handle: Handle, flags: u32) |call| {
        open(call, out, handle, flags)
    }

    fn cuIpcOpenMemHandle_v2(out: Out<u64>, handle: Handle, flags: u32) |call| {
        open(call, out, handle, flags)
    }

    fn cuIpcCloseMemHandle(address: u64) |call| {
        let mut objects = objects();
        objects.current(call)?;
        let import = objects.imports.get_mut(&address).ok_or(Code::INVALID_VALUE)?;
        import.count -= 1;
        if import.count > 0 {
            return Ok(());
        }
        let device = import.export.device;
        objects.imports.remove(&address);
        objects.allocations.remove(&address);
        drop(objects);
        wait_for_device(call, device)?;
        Ok(call.process.engine.close_import(call.site, address)?)
    }
}

impl Handle {
    fn new(export: &Export) -> Self {
        let Export {
            process,
            device,
            file: (descriptor, number),
            range: (offset, bytes),
            ledger,
            id,
        } = *export;
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            MAGIC,
            both(process, device),
            descriptor.into(),
            number,
            offset,
            bytes,
            ledger,
            id,
        ];
        let mut handle = [0; 64];
        for (place, word) in handle.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Self(handle)
    }

    fn export(self) -> Answer<Export> {
        let (words, _) = self.0.as_chunks();
        let words =
            std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_le_bytes(*word)));
        let [magic, both, descriptor, number, offset, bytes, ledger, id] = words;
        let word = |value: u64| u32::try_from(value).ok().ok_or(Code::INVALID_VALUE);
        if magic != MAGIC {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Export {
            process: word(both & u64::from(u32::MAX))?,
            device: word(both >> 32)?,
            file: (word(descriptor)?, number),
            range: (offset, bytes),
            ledger,
            id,
        })
    }
}

fn open(call: &Call, out: Out<u64>, handle: Handle, flags: u32) -> Answer {
    if out.is_null() || flags != LAZY_PEER_ACCESS {
        return Err(Code::INVALID_VALUE);
    }
    let export = handle.export()?;
    let mut objects = objects();
    let (context, device) = objects.current(call)?;
    // It is mapped from another process alone.
    if export.process == std::process::id() {
        return Err(Code::INVALID_CONTEXT);
    }
    let mut open = objects.imports.iter_mut();
    let again = open.find(|(_, import)| import.export == export && import.context == context);
    if let Some((address, import)) = again {
        import.count += 1;
        return out.set(*address);
    }
    if objects.is_open_elsewhere(&export, context, device) {
        return Err(Code::INVALID_CONTEXT);
    }
    let opened = call.process.engine.import(call.site, &export);
    let address = opened.map_err(|error| match error {
        Error::System { .. } | Error::Gone => Code::MAP_FAILED,
        other => other.into(),
    })?;
    let import = Import {
        export,
        context,
        count: 1,
    };
    objects.imports.insert(address, import);
    objects.allocations.insert(address, context);
    out.set(address)
}

impl Objects {
    /// Whether others may open an allocation: one of `cuMemAlloc`, and of this process.
    pub(crate) fn is_exportable(&self, base: u64) -> bool {
        self.allocations.contains_key(&base) && !self.imports.contains_key(&base)
    }

    /// Whether another context of the device has opened memory of the same device of the same process.
    fn is_open_elsewhere(&self, export: &Export, context: u64, device: u32) -> bool {
        let on_device = |other: u64| {
            let context = self.contexts.get(&other);
            context.is_some_and(|context| context.device == device)
        };
        self.imports.values().any(|import| {
            let theirs = (import.export.process, import.export.device);
            theirs == (export.process, export.device)
                && import.context != context
                && on_device(import.context)
        })
    }
}
