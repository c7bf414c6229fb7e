//! Memory of others by other protocols, and ours by theirs.

pub(crate) mod buffer_in;
pub(crate) mod buffer_out;
pub(crate) mod cuda_array;
pub(crate) mod opencl;
