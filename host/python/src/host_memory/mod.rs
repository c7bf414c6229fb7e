//! Memory of others by other protocols than DLPack, and ours by theirs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `buffer_in`, `buffer_out` | the buffer protocol and `__array_interface__` |
//! | `cuda_array` | the CUDA array interface |
//! | `opencl` | native memory objects |

pub(crate) mod buffer_in;
pub(crate) mod buffer_out;
pub(crate) mod cuda_array;
pub(crate) mod opencl;
