//! The engine's calls, a file for each kind of thing they are about.

mod control;
mod events;
mod exports;
mod memory;
mod streams;
mod usage;
mod work;
