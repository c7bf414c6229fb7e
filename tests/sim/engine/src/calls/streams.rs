//! Calls about streams.

use std::time::Duration;

use crate::engine::unbuilt;
use crate::{Engine, Error, Event, Site, Stream};

impl Engine {
    /// Creates a stream on a device.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for no such device.
    pub fn create_stream(&self, site: Site, device: u32) -> Result<Stream, Error> {
        let _ = (site, device);
        unbuilt()
    }

    /// Destroys a stream; work already on it completes.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn destroy_stream(&self, site: Site, stream: Stream) -> Result<(), Error> {
        let _ = (site, stream);
        unbuilt()
    }

    /// The device of a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn device_of(&self, site: Site, stream: Stream) -> Result<u32, Error> {
        let _ = (site, stream);
        unbuilt()
    }

    /// Makes what is submitted to `stream` from now on wait for the event as it is now: for its last
    /// record, or for its completion by the host. One that was never recorded is done. The event may
    /// be destroyed at once. The failure of what was waited for becomes the stream's.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`].
    pub fn wait(&self, site: Site, stream: Stream, event: Event) -> Result<(), Error> {
        let _ = (site, stream, event);
        unbuilt()
    }

    /// Whether all that was submitted to the stream is done.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`]; [`Error::Failed`] with the stream's first failure, which stays.
    pub fn query_stream(&self, site: Site, stream: Stream) -> Result<bool, Error> {
        let _ = (site, stream);
        unbuilt()
    }

    /// Makes the calling thread wait until all that was submitted to the stream so far is done.
    /// No limit is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::TimedOut`], [`Error::Standstill`]; [`Error::Failed`] with the
    /// stream's first failure, which is then forgotten.
    pub fn synchronize_stream(
        &self,
        site: Site,
        stream: Stream,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let _ = (site, stream, limit);
        unbuilt()
    }

    /// The same for all streams of a device; failures stay.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::TimedOut`], [`Error::Standstill`].
    pub fn synchronize_device(
        &self,
        site: Site,
        device: u32,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let _ = (site, device, limit);
        unbuilt()
    }
}
