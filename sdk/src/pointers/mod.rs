//! The pointer table: which live allocation an address belongs to, answered without a lock.
//!
//! **Problem.** An import is safe only when the host knows who owns the address it was handed.
//! That question is asked for every tensor, from any thread, while others allocate and free. A
//! plugin whose vendor does not answer it keeps this table.
//!
//! **Model.** The table holds ranges that never overlap. A radix tree leads from an address to its
//! page of 1 MiB, and a page that has many ranges is cut into ever smaller blocks; a range that
//! fills a whole 256 MiB region (or 1 TiB, or 4 PiB) is written once, above the pages. Each range
//! has one record, and the record's version word is the single moment at which the range begins
//! and ends to exist: the tree only says which record to ask. So an answer was right at some moment
//! between call and return, whatever the writers did.
//!
//! **Speed.** With many ranges alive a query waits for memory, and what makes many of them fast is
//! that the next one starts before the first is done. So a query takes few steps, has no branch
//! that follows no pattern, and goes to memory for the slot of a page, the list of its owners, and
//! the record, of which the slots are few enough for a cache.
//!
//! **Invariants.** Every shared word is an atomic, memory is given back with the table only, and a line
//! that held a record or a list holds nothing else for the life of the table: a reader
//! that comes late sees another version, never another kind of data.
//!
//! Readers take no lock. Writers lock the shards of the 256 MiB regions that they touch.

mod arena;
mod error;
mod list;
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
