//! What the devices of one runtime share for moving tensors.
//!
//! | file or folder | what it holds |
//! | --- | --- |
//! | `kinds` | the kinds of routes, and the ways to make a copy |
//! | `shared` | what they share |
//! | `costs` | what copies cost: measured, kept, and looked up |
//! | `staging` | copies through host memory, in chunks |

pub(crate) mod costs;
pub(crate) mod kinds;
pub(crate) mod shared;
pub(crate) mod staging;
