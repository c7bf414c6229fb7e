//! Calls that submit work to streams.
#![expect(
    unsafe_code,
    reason = "the engine takes raw addresses, as the vendors' calls do"
)]

use crate::engine::unbuilt;
use crate::{Condition, Engine, Error, Site, Stream, Strided, Word};

impl Engine {
    /// Copies `bytes` from `source` to `target` in the stream's order. Each is in memory of the
    /// engine, or any host memory.
    ///
    /// # Safety
    ///
    /// Host memory stays valid until the operation is over. Memory of the engine is checked.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Invalid`] for engine memory that is not allocated, which is also
    /// reported.
    pub unsafe fn copy(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        source: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let _ = (site, stream, target, source, bytes);
        unbuilt()
    }

    /// Copies elements of `element_bits` between strided places, in the stream's order.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for strides that are not as many as extents.
    pub unsafe fn copy_strided(
        &self,
        site: Site,
        stream: Stream,
        element_bits: u32,
        shape: &[u64],
        sides: (&Strided, &Strided),
    ) -> Result<(), Error> {
        let _ = (site, stream, element_bits, shape, sides);
        unbuilt()
    }

    /// Repeats `pattern` over `bytes` at `target`, in the stream's order. The last may be cut.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for an empty pattern.
    pub unsafe fn fill(
        &self,
        site: Site,
        stream: Stream,
        target: u64,
        bytes: u64,
        pattern: &[u8],
    ) -> Result<(), Error> {
        let _ = (site, stream, target, bytes, pattern);
        unbuilt()
    }

    /// Calls `function` once the stream reaches it: exactly once, also after a failure, on a thread
    /// of the engine. It may block, and blocks its hardware queue; it must not call the engine.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; the function was dropped then, not called.
    pub fn host_call(
        &self,
        site: Site,
        stream: Stream,
        function: Box<dyn FnOnce() + Send>,
    ) -> Result<(), Error> {
        let _ = (site, stream, function);
        unbuilt()
    }

    /// Makes the stream wait until a word in memory satisfies a condition.
    ///
    /// # Safety
    ///
    /// As [`Engine::copy`]; others change the word atomically, or by [`Engine::write_word`] and
    /// [`Engine::store_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::copy`], and [`Error::Invalid`] for a width or an alignment that is none.
    pub unsafe fn wait_word(
        &self,
        site: Site,
        stream: Stream,
        word: Word,
        condition: Condition,
    ) -> Result<(), Error> {
        let _ = (site, stream, word, condition);
        unbuilt()
    }

    /// Writes a word in the stream's order, all before it included.
    ///
    /// # Safety
    ///
    /// As [`Engine::wait_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::wait_word`].
    pub unsafe fn write_word(&self, site: Site, stream: Stream, word: Word) -> Result<(), Error> {
        let _ = (site, stream, word);
        unbuilt()
    }

    /// Writes a word from the host, at once, and wakes what waits for it. Host code may store it by
    /// itself too; a wait then ends at the next call of the engine, or when it is idle.
    ///
    /// # Safety
    ///
    /// As [`Engine::wait_word`].
    ///
    /// # Errors
    ///
    /// As [`Engine::wait_word`].
    pub unsafe fn store_word(&self, site: Site, word: Word) -> Result<(), Error> {
        let _ = (site, word);
        unbuilt()
    }
}
