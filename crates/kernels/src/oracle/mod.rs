//! What an output is held against.

pub mod exact;
mod product;
