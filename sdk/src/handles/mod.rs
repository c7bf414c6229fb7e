//! Objects by the words that hooks carry: what a plugin's streams and events are kept in.
//!
//! A hook gets a word back that the plugin gave out, or one that is wrong: of an object that is gone, of
//! another sort, or of nobody. A table tells them apart: a word is no address, and names a place, the object's
//! number among those that had the place, and the table. One table gives no word twice. Two tables have no word in
//! common, unless 4096 tables were made between them, as a word has room for so many.
//! What is wrong is answered with `STALE`.
//!
//! ```
//! use crossdock_sdk::abi::StreamHandle;
//! use crossdock_sdk::handles::Handles;
//! use crossdock_sdk::plugin::Error;
//!
//! let streams: Handles<StreamHandle, String> = Handles::new();
//! let handle = streams.insert("stream_create", "an object".to_owned())?;
//! assert_eq!(*streams.find("stream_query", handle)?, "an object");
//!
//! // The vendor refuses, so the object lives on, and so does its handle.
//! let refused = streams.remove_after("stream_destroy", handle, |_| {
//!     Err(Error::unsupported("stream_destroy"))
//! });
//! assert!(refused.is_err());
//! streams.remove("stream_destroy", handle)?;
//! let gone: Error = streams.find("stream_query", handle).unwrap_err().into();
//! assert_eq!(gone.to_string(), "stream_query: there is no such stream");
//! # Ok::<(), Error>(())
//! ```
//!
//! **Locks.** Nothing of the caller's runs under one: an object is handed out as a counted reference, and
//! what is removed is dropped by the thread that removed it. A reader takes the lock of its own word's place, to copy one
//! reference, so it can only meet a thread that makes or ends that very object; words of other objects are other places on
//! other cache lines. To count readers in the place instead would be the same two atomic steps and `unsafe`.

mod error;
mod handle;
mod table;

#[cfg(all(test, not(loom)))]
mod tests;

pub use self::error::HandleError;
pub use self::handle::Handle;
pub use self::table::Handles;
