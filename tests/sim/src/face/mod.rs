//! What the functions of all vendors have in common: a face is what one vendor's clients see of the one engine.
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
