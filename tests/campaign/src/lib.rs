//! Campaigns: random programs over any set of plugins, held against a sequential model.
//!
//! A [`program::Case`] is data. [`trial::run`] runs one in this process, [`child::Laboratory`] in a
//! process of its own, [`shrink::smallest`] makes one that fails small, and [`campaign::campaign`]
//! does all that for a [`kinds::Kind`].
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a tool of tests over small numbers: its own panic is seen like any other finding"
)]

pub mod campaign;
pub mod child;
mod foreign;
pub mod generate;
mod judge;
pub mod kinds;
pub mod model;
pub mod place;
pub mod program;
mod run;
pub mod shrink;
mod slots;
pub mod table;
pub mod trial;
pub mod verdict;
