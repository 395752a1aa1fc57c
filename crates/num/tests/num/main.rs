//! The arithmetic, compared with wide arithmetic, an independent soft-float, the manual's own definitions, and captures of
//! hardware.

mod approx;
mod convert;
mod float;
mod int;
mod mma;
mod narrow;
mod tensor;
#[path = "../golden/vectors.rs"]
mod vectors;
