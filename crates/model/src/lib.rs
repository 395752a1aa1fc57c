//! Predicts the cost of a kernel on a named device.
//!
//! [`DEVICES`] and [`CAPABILITIES`] are tables of data; each number has its source. [`Rates`] are the
//! per-cycle rates of a multiprocessor. [`occupancy`] computes how many blocks share a multiprocessor, what
//! limits them, and what one more block requires; [`clusters`], how many clusters a device holds. [`work`] converts the counters of a launch into work per
//! resource, and [`bound`] computes the minimum time of a launch for each resource. [`sass`] reads machine
//! code and assigns the counts of a PTX run to its basic blocks; [`schedule`] predicts cycles from both. This
//! crate does not access files or GPUs, and every time is *predicted*.
#![forbid(unsafe_code)]

pub mod bound;
mod cluster;
mod device;
mod occupancy;
mod rates;
pub mod sass;
pub mod schedule;
pub mod work;

pub use cluster::{Clusters, clusters, largest_cluster};
pub use device::{CAPABILITIES, Capability, DEVICES, Device, PORTABLE_CLUSTER, Sourced};
pub use occupancy::{Change, Limit, Next, Occupancy, Resource, Usage, grouped, occupancy};
pub use rates::{Pipe, Rates, TensorRate, TensorType};
