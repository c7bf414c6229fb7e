//! DLPack, versions 1.x and 0.x: the C structs, and what is safe to know and do with them.
//!
//! # What believes whom
//!
//! A tensor made here and a tensor received are different types. [`Produced`] is ours: one allocation that holds the C
//! struct, the owner, the shape and the strides. [`Received`] is somebody else's: of it only the ownership is believed,
//! and everything else is checked before it is used ([`validate`]). What passes is a [`TensorView`]: an address, a
//! [`Device`] and a [`Layout`], all copied out of foreign memory.
//!
//! | you have | you call | you get |
//! | --- | --- | --- |
//! | memory with an owner | [`Produced::new`] (or [`export`]) | a managed tensor to hand out |
//! | a managed tensor from outside | [`Received::from_versioned`], [`Received::from_legacy`] | a checked tensor that is released once |
//! | a borrowed `DLTensor` | [`validate`] | a checked [`TensorView`] |
//!
//! # Units
//!
//! Strides count elements, sizes of elements count bits, spans and offsets count bytes. Packed 4-bit and 6-bit types are
//! therefore ordinary: see [`Dtype::bytes_for`] and [`Layout::span`].
//!
//! # Threads
//!
//! DLPack lets a consumer call the deleter from any thread; both managed types are `Send` because of that rule.

mod blocks;
mod data_word;
mod device_type;
mod dims;
mod dtype;
mod error;
mod flags;
mod layout;
mod overlap;
mod produced;
mod received;
mod strided;
mod tensor_view;
mod validate;
mod views;

pub use blocks::serial_of;
pub use data_word::DataWord;
pub use device_type::{Device, DeviceType};
pub use dtype::{Dtype, DtypeCode};
pub use error::DlpackError;
pub use flags::Flags;
pub use layout::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackCurrentWorkStream,
    DLPackDLTensorFromPyObjectNoSync, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackManagedTensorAllocator, DLPackManagedTensorFromPyObjectNoSync,
    DLPackManagedTensorToPyObjectNoSync, DLPackSetError, DLPackVersion, DLTensor, VERSION,
};
pub use produced::{Managed, Produced, export, export_legacy, is_own_export, owner_of, take_owner};
pub use received::{Deleter, Ownership, Received};
pub use strided::{Layout, MAX_RANK, Span};
pub use tensor_view::{Place, TensorView};
pub use validate::validate;
pub use views::AxisSlice;
