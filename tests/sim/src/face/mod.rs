//! What the functions of all vendors have in common: a face is what one vendor's clients see of the one engine. Words:
//! a client is the program that calls the functions; a twin is the form of a function whose default stream is the
//! thread's own (`_ptds`, `_ptsz`, `_spt`); a place is where a client wants an answer written.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `entry` | how a function is written, and what every call has in common |
//! | `codes` | results, with their names and texts |
//! | `objects`, `gone`, `stream_ends` | contexts, streams and events, the order of default streams; objects that were destroyed; streams that end |
//! | `captures` | streams whose work is captured |
//! | `whose` | which devices, memory and objects are which vendor's |

pub(crate) mod captures;
pub(crate) mod codes;
pub(crate) mod entry;
mod gone;
pub(crate) mod objects;
mod stream_ends;
mod whose;

pub(crate) use whose::Face;
