//! DLPack in both directions.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `import`, `negotiate`, `producers`, `peek` | `from_dlpack`: the short way, how a producer is asked, what is known of its type |
//! | `failure` | which side ended an exchange: the producer refused, or its export was rejected |
//! | `sign_bits` | tensors whose values differ from those in memory |
//! | `producer_order` | behind which streams such a tensor is ready |
//! | `export`, `export_format`, `kwargs_cache` | `__dlpack__`: which struct a consumer asks for, and calls that were seen before |
//! | `exchange_table` | the C exchange table of DLPack 1.3 |
//! | `vectorcall` | calls of a producer's methods without a tuple, a dict or a new text |

pub(crate) mod exchange_table;
pub(crate) mod export;
pub(crate) mod export_format;
pub(crate) mod failure;
pub(crate) mod import;
pub(crate) mod kwargs_cache;
pub(crate) mod negotiate;
pub(crate) mod peek;
pub(crate) mod producer_order;
pub(crate) mod producers;
pub(crate) mod sign_bits;
pub(crate) mod vectorcall;
