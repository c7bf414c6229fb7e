//! DLPack's protocols, in and out.

pub(crate) mod exchange_table;
pub(crate) mod export;
pub(crate) mod export_format;
pub(crate) mod familiar;
pub(crate) mod import;
pub(crate) mod negotiate;
pub(crate) mod peek;
pub(crate) mod producers;
pub(crate) mod stream_numbers;
