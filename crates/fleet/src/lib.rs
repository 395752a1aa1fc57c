//! The fleet: many machines, one ledger.
//!
//! A server keeps jobs, leases and evidence in PostgreSQL; workers dial out to it, and evaluate candidates as the gate does.
//! This is the only crate with an async runtime, and the runtime is the server's alone. Its program is `warpproof-fleet`; the
//! protocol and the client are `warpproof-fleet-client`.
#![forbid(unsafe_code)]

pub mod evaluate;
#[cfg(unix)]
pub mod postgres;
pub mod server;
pub mod worker;

use warpproof_fleet_client::random;
pub use warpproof_fleet_client::{bundle, client, exchange, search, submit, wire};
