//! What an output is held against.

pub mod bitwise;
pub mod exact;
mod parallel;
mod product;
