//! What a kernel costs on a named device.
//!
//! [`DEVICES`] and [`CAPABILITIES`] are data, each figure with its source. [`occupancy`] says how many blocks share
//! a multiprocessor, what limits them, and what it takes to fit one more. Nothing here touches a file or a GPU.
#![forbid(unsafe_code)]

pub mod bound;
mod device;
mod occupancy;
mod rates;
pub mod sass;
pub mod schedule;

pub use device::{CAPABILITIES, Capability, DEVICES, Device, Sourced};
pub use occupancy::{Change, Limit, Next, Occupancy, Resource, Usage, grouped, occupancy};
pub use rates::{Pipe, Rates, TensorRate, TensorType};
