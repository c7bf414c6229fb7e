//! This room takes tensors of others in. The way out is one call of `Tensor`.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `adopt` | a native memory object of others, by its handle |
//! | `import` | a managed tensor of others: taken, checked against what the plugins say, made a tensor of ours |

pub(crate) mod adopt;
pub(crate) mod import;
