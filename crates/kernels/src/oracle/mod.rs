//! Oracles: reference results that outputs are compared with.

pub mod bitwise;
pub mod exact;
mod parallel;
mod product;
pub mod quantize;
mod softmax;
