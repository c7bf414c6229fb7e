//! The layer that refuses what the plugin contract forbids, on both sides of it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `rules` | what is asked of each call before the plugin sees it |
//! | `sides` | what is asked of each side of a copy |
//! | `answers` | what is asked of the plugin's answer |
//! | `objects` | calls that make or end an object: what the registry learns of them |
//! | `verdicts` | what events said of the work before them |
//! | `live_registry` | the live objects of one plugin, and those that were live lately |
//! | `ranges`, `handles` | memory by address; streams and events by handle |

mod answers;
mod handles;
mod live_registry;
mod objects;
mod ranges;
pub(crate) mod rules;
mod sides;
mod verdicts;
