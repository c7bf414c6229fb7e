//! Waits for all work on a device.

use std::time::Duration;

use crossdock_sdk::abi::Status;
use crossdock_sdk::deadline::Deadline;

use crate::devices::device::Device;
use crate::error::Error;
use crate::streams::stream::Stream;

impl Device {
    /// Blocks the calling thread until the work on all its streams is done, its default stream and those of other
    /// runtimes among them, and work of streams whose last handle was dropped; `None` is no limit.
    ///
    /// # Errors
    /// [`Error::Hook`]: `TIMEOUT`, or the first failure of the work of a stream that has a handle.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<(), Error> {
        // Held until the end, so that it is among those that live.
        let _default = match Stream::default_of(self) {
            // Without streams every copy was done when it returned, and a retired plugin makes none.
            Err(error) if !error.is_unsupported() && error.status() != Some(Status::RETIRED) => {
                return Err(error);
            }
            default => default.ok(),
        };
        let deadline = Deadline::after(limit);
        let mut outcome = Ok(());
        for stream in Stream::all_of(self) {
            // A stream that failed, perhaps another runtime's, hides no work of the streams after it.
            outcome = outcome.and(stream.synchronize_for_device(deadline));
        }
        let ended = self.plugin().ended_streams();
        outcome = outcome.and(ended.synchronize(self.hooks(), self.index(), deadline));
        let internal = self.plugin().internal_streams();
        outcome.and(internal.synchronize(self.hooks(), self.index(), deadline))
    }
}
