//! Every case, one idea a file.

mod adopt;
mod async_memory;
mod attributes;
mod begins;
mod behind;
mod capabilities;
mod copy;
mod endings;
mod errors;
mod events;
mod failures;
mod fill;
mod host_calls;
mod life;
mod list;
mod memory;
mod peer;
mod pointers;
mod pool;
mod register;
mod retire;
mod sides;
mod streams;
mod strided;
mod threads;
mod waits;
mod wrap;

pub use list::cases;
