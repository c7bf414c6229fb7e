//! Every hook once: the call as data, and one table around another.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `call` | the call as data, the C function, the table |
//! | `arguments` | a hook's arguments, and its answers until they are judged |
//! | `describe` | arguments and answers in words and numbers |
//! | `layer_hooks` | what a layer does around each call |
//! | `target`, `layered` | a table with its handle, and one table around another |
//! | `live_objects` | what a plugin's caller has not given back |

pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod describe;
pub(crate) mod layer_hooks;
pub(crate) mod layered;
pub(crate) mod live_objects;
pub(crate) mod target;
