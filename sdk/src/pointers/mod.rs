//! The pointer table: which live allocation an address belongs to, answered without a lock.
//!
//! **Problem.** An import is safe only when the host knows who owns the address it was handed.
//! That question is asked for every tensor, from any thread, while others allocate and free. A
//! plugin whose vendor does not answer it keeps this table.
//!
//! **Model.** The table holds ranges that never overlap. A radix tree maps every 64 KiB page to
//! the ranges in it, by granules of 256 bytes where they are many; a range that fills a whole 256 MiB region (or 1 TiB, or 4 PiB) is written
//! once, above the pages. Each range has one record, and the record's version word is the single
//! moment at which the range begins and ends to exist: the tree only says which record to ask.
//! So an answer was right at some moment between call and return, whatever the writers did.
//!
//! **Invariants.** Every shared word is an atomic, no `unsafe` code reads or writes them, and a place
//! that held a record or a page list holds nothing else for the life of the table: a reader
//! that comes late sees another version, never another kind of data.
//!
//! Readers take no lock. Writers lock the shards of the 256 MiB regions that they touch.

mod arena;
mod chunks;
mod error;
mod granule;
mod page;
mod parts;
mod radix;
mod record;
mod table;
mod words;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use self::error::PointerError;
pub use self::record::PointerEntry;
pub use self::table::PointerTable;
