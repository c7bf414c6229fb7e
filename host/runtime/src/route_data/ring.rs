//! The chunks of the pending copies on one stream between two devices.
//!
//! The copies use the chunks one after another. The stream orders them, but not in every case: where its plugin breaks
//! down it goes on although the work that it waits for still runs. So the next copy waits for the last one's
//! [end](Ring::written) itself. Another stream never gets the chunks: it would have to wait for whatever holds this one.
//! Each copy keeps the ring until it is over on both devices. So the chunks
//! are idle again behind the last copy, whether the stream still exists by then or not.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossdock_sdk::abi::Side;

use crate::error::Error;
use crate::plugins::plugin::Plugin;
use crate::plugins::plugin_device::PluginDevice;
use crate::plugins::stream_core::StreamCore;
use crate::route_data::chunk::Chunk;
use crate::route_data::chunks::Chunks;

/// Chunks of one size, in the order of one stream.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Its address is not used again while this is here.
    stream: Weak<StreamCore>,
    devices: [(Arc<Plugin>, u32); 2],
    chunk_bytes: u64,
    chunks: Mutex<Vec<Chunk>>,
    /// The event at the end of the last copy: behind it nothing uses the chunks. Only copies know its type.
    written: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    home: Arc<Chunks>,
}

/// The stream of a copy, and the devices at its ends.
#[derive(Debug)]
pub(crate) struct RingUser<'a> {
    pub(crate) stream: Weak<StreamCore>,
    pub(crate) devices: [&'a PluginDevice; 2],
}

impl Ring {
    /// A ring without chunks so far.
    pub(crate) fn new(home: &Arc<Chunks>, user: &RingUser<'_>, chunk_bytes: u64) -> Arc<Self> {
        let device = |device: &PluginDevice| (Arc::clone(&device.plugin), device.index);
        Arc::new(Self {
            stream: Weak::clone(&user.stream),
            devices: user.devices.map(device),
            chunk_bytes,
            chunks: Mutex::default(),
            written: Mutex::default(),
            home: Arc::clone(home),
        })
    }

    /// Whether the ring is this user's, and its chunks have at least so many bytes.
    pub(super) fn fits(&self, user: &RingUser<'_>, bytes: u64) -> bool {
        let mut ends = self.devices.iter().zip(user.devices);
        self.chunk_bytes >= bytes
            && self.stream.ptr_eq(&user.stream)
            && ends.all(|((plugin, index), device)| {
                Arc::ptr_eq(plugin, &device.plugin) && *index == device.index
            })
    }

    /// So many of its chunks, as sides of copies. Chunks that are missing are made, and locked for both devices.
    pub(crate) fn sides(&self, count: usize, user: &RingUser<'_>) -> Result<Vec<Side>, Error> {
        let known = self.with_chunks(|chunks| chunks.len());
        for _ in known..count {
            let mut chunk = self.home.take(self.chunk_bytes)?;
            chunk.lock_for(user.devices);
            self.with_chunks(|chunks| chunks.push(chunk));
        }
        Ok(self.with_chunks(|chunks| chunks.iter().take(count).map(Chunk::side).collect()))
    }

    /// The event at the end of the last copy through the chunks.
    pub(crate) fn written<E: Any + Send + Sync>(&self) -> Option<Arc<E>> {
        let written = self.written.lock();
        let written = written.unwrap_or_else(PoisonError::into_inner).clone();
        written?.downcast().ok()
    }

    /// Remembers the event at the end of the last copy, before the ring is shared.
    pub(crate) fn set_written<E: Any + Send + Sync>(&self, end: E) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let before = written.replace(Arc::new(end));
        // After the lock: dropping an event calls a hook.
        drop(written);
        drop(before);
    }

    fn with_chunks<T>(&self, act: impl FnOnce(&mut Vec<Chunk>) -> T) -> T {
        act(&mut self.chunks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let chunks = self.with_chunks(std::mem::take);
        chunks
            .into_iter()
            .for_each(|chunk| self.home.take_back(chunk));
    }
}
