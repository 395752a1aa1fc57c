//! What a kernel costs on a named device.
//!
//! [`DEVICES`] and [`CAPABILITIES`] are data, each figure with its source; [`Rates`] are what a multiprocessor does in a cycle.
//! [`occupancy`] says how many blocks share a multiprocessor, what limits them, and what it takes to fit one more.
//! [`work`] is what a launch did as counted, [`bound`] is the least time a launch can take by each resource; [`sass`] reads machine code and gives its blocks the counts of a
//! PTX run; [`schedule`] predicts cycles from both. Nothing here touches a file or a GPU, and every time is *predicted*.
#![forbid(unsafe_code)]

pub mod bound;
mod device;
mod occupancy;
mod rates;
pub mod sass;
pub mod schedule;
pub mod work;

pub use device::{CAPABILITIES, Capability, DEVICES, Device, Sourced};
pub use occupancy::{Change, Limit, Next, Occupancy, Resource, Usage, grouped, occupancy};
pub use rates::{Pipe, Rates, TensorRate, TensorType};
