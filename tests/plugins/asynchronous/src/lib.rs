//! A plugin for tests: simulated devices on which work is never done at once.
//!
//! All of its work is done by [`crossdock_sim_engine`]. Nothing runs when it is submitted; order is
//! kept inside a stream and by events, nowhere else; what fails fails late, and the waiter is
//! told. Device memory is in an arena that the host cannot touch: a load or store there ends the
//! process. A copy on a stream never blocks, also where host memory is a side of it. A checker knows
//! who used each byte last, and reports two uses that nothing orders.
//!
//! The devices are of DLPack's type `vpi`, which no vendor's plugin claims. The first one shares
//! memory with the host: it adopts host memory, maps its own, has managed memory and copies any
//! strides. The others copy rows of whole bytes only, and fill on their pattern's grid.
//!
//! # Choices
//!
//! `CROSSDOCK_ASYNCHRONOUS="KEY=VALUE;.."` is read at `probe` and `open`; what cannot be read is `INVALID`.
//!
//! | key | value | without it |
//! | --- | --- | --- |
//! | `devices` | 1 to 16 | 2 |
//! | `queues` | hardware queues of each device: streams share them, a wait blocks its queue | 256 |
//! | `memory` | bytes of each device, with `K`, `M` or `G` | 1G |
//! | `policy` | `threads`, `seeded` or `lazy`: who runs work, and when | `lazy` |
//! | `seed` | of every choice that is made | 1 |
//! | `workers`, `delay_us` | threads of `threads`, and their longest delay | 2, 0 |
//! | `idle_ms` | time without a call after which everything runs, or `off` for exact replays | 5 |
//! | `turns` | `on`: one thread of the process at a time, in an order of the seed; not with `threads` | off |
//! | `standstill_ms` | time of a wait in which nothing can run, before that is reported | 5000 |
//! | `peer` | links between the devices: `on`, `off`, `drops` (what goes over one does not arrive), `mirrors` (it arrives where its writer alone sees it), `all_drop` (nothing arrives from another device, with a link or without) | `on` |
//! | `fault` | see below, with `,` between | none |
//!
//! A fault is `[run:|call:][DEVICE:]HOOK@NTH[+][%PERCENT]=STATUS[!]`. It strikes the NTH operation of
//! a hook as it runs (`run:`, and without either), or refuses the NTH call (`call:`). A `*` in HOOK
//! stands for any text. `+` means all that follow too, `%` how many percent of those it would strike
//! it does, and `!` that the device is lost from then on. What fails as it runs is told as
//! `DEVICE_LOST`, `OOM_DEVICE` or `VENDOR`.
//!
//! # Control
//!
//! A test in the same process holds the devices still, moves them on, adds faults, and takes the
//! reports by a table of C functions, whose address is the attribute [`CONTROL`]; see [`Control`] and
//! [`Controlled`].
//!
//! | file | what it holds |
//! | --- | --- |
//! | `settings` | what `CROSSDOCK_ASYNCHRONOUS` chooses |
//! | `plugin`, `device` | the life of the plugin, and what its devices can do |
//! | `memory`, `transfer`, `streams`, `shared` | the hooks |
//! | `lent`, `uses` | what is alive: lent host memory, and the work that may use it |
//! | `region` | strided copies, checked before they are submitted |
//! | `peers` | links between devices, sound ones and others |
//! | `answer` | from the engine's failures to the contract's |
//! | `control` | the table for tests |

mod answer;
mod control;
mod device;
mod lent;
mod memory;
mod peers;
mod plugin;
mod region;
mod settings;
mod shared;
mod streams;
mod transfer;
mod uses;

pub use control::{CONTROL, Control, Controlled, Sink};
pub use plugin::{Asynchronous, table};

crossdock_sdk::export_plugin!(Asynchronous);
