//! Every case, one idea a file.

mod adopt;
mod capabilities;
mod copy;
mod errors;
mod events;
mod fill;
mod life;
mod list;
mod memory;
mod pointers;
mod retire;
mod streams;
mod strided;
mod threads;

pub use list::cases;
