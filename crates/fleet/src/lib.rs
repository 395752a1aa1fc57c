//! The fleet: many machines, one ledger.
//!
//! A server keeps jobs, leases and evidence in PostgreSQL; workers dial out to it, and judge candidates as the gate does.
//! This is the only crate with an async runtime and a network, and the runtime is the server's alone.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod client;
pub mod evaluate;
pub mod exchange;
#[cfg(unix)]
pub mod postgres;
mod random;
pub mod search;
pub mod server;
pub mod submit;
pub mod wire;
pub mod worker;
