//! What the devices of one runtime share for moving tensors, as data: it calls no copy.
//!
//! | file or folder | what it holds |
//! | --- | --- |
//! | `kinds` | the kinds of routes, and the ways to make a copy |
//! | `costs` | what copies cost: found, kept, and looked up |
//! | `chunk`, `chunks` | a piece of host memory for staged copies, and those that are idle |
//! | `ring` | the chunks that copies on one stream use one after another |

pub(crate) mod chunk;
pub(crate) mod chunks;
pub(crate) mod costs;
pub(crate) mod kinds;
pub(crate) mod ring;
