//! This room holds runtimes: their plugins, their devices, and who owns an address.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `runtime`, `builder` | the runtime, and how one is opened |
//! | `registry`, `registering`, `published` | what it lists, how that comes there, and how it is read without a lock |
//! | `shared` | what the devices of one runtime share: known costs, idle chunks, the runtime itself |
//! | `device`, `device_sorting`, `host_device` | a device, the order that people give devices, and the host's own |
//! | `lost` | lost devices: who notices, and how later work is refused |
//! | `pointer_query`, `index` | who owns an address, and who is asked |
//!
//! # First need
//!
//! A driver is not started for nothing. A file that the search finds and whose description names
//! one (`driver=SONAME`) is loaded and listed, and its state is "not looked at". It is probed and
//! opened at the first need: a call, a claim or an order that names a type of its description, or
//! a list of devices (also the search for a uuid, and a query for the owner of an address). All
//! plugins that may serve the type, and those that share a type with one of them, are looked at
//! together, and their devices get ids in the order in which the plugins were registered
//! (`Registry::not_enumerated`): so neither ids nor lists depend on which type is asked for
//! first. The devices of a plugin that comes later get the ids after these. Loading a file by its
//! path counts as a need. The devices of a plugin that another runtime has opened get ids at
//! once; else each runtime looks for itself. A second file of a plugin's name that the search
//! finds is kept until the first was looked at, and tried where that does not work.
//!
//! *One change publishes all*: the registry first, then the plugins that are asked for owners,
//! then the index of devices, and last whether some plugin is still not looked at
//! (`Runtime::change`). A thread that finds a device in the index finds the rest; one that finds
//! none waits for a change that is under way.
//!
//! *A retirement waits for a look* that another thread has begun, and its end is kept
//! (`Plugin::never_start`): nobody looks later, and the next plugin of the same file waits too.
//!
//! *Claims of host memory* are checked by all open plugins of the process that ask their driver,
//! by one numbering of them (`open_plugins.rs`): memory goes from one runtime to another. A child
//! cannot ask those of its parent, so memory that they were not asked about stays the parent's.
//!
//! # Several runtimes
//!
//! A plugin is open once in the process, and each runtime lists it or not (`listing.rs`).
//! `Runtime::retire` takes it out of one runtime: out of the registry and the indexes, its idle
//! chunks given back, and its devices of this runtime answer `RETIRED` to new memory and streams.
//! Other runtimes keep it, and the one that retired it may load it again: that is the same open
//! plugin, with new devices. The retirement that finds no other runtime is for good, and calls
//! the hook, once. A runtime that is dropped lets go without the hook: tensors of the plugin go
//! on, a new runtime may list it, and it is closed when its last holder is gone. A load that
//! finds a plugin which the last runtime retires meanwhile opens it anew.

pub(crate) mod builder;
pub(crate) mod device;
pub(crate) mod device_sorting;
pub(crate) mod host_device;
pub(crate) mod index;
pub(crate) mod lost;
pub(crate) mod pointer_query;
pub(crate) mod published;
#[cfg(all(test, loom))]
mod published_loom_tests;
pub(crate) mod registering;
pub(crate) mod registry;
pub(crate) mod runtime;
pub(crate) mod shared;
