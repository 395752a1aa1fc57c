//! The fleet: many machines, one ledger.
//!
//! A server keeps jobs, leases and evidence in PostgreSQL; workers connect to it and evaluate candidates like the local gate. This
//! is the only crate with an async runtime, and only the server uses it. The program is `warpproof-fleet`; the protocol and the
//! client are in `warpproof-fleet-client`.
#![forbid(unsafe_code)]

pub mod evaluate;
#[cfg(unix)]
pub mod postgres;
pub mod server;
pub mod worker;

use warpproof_fleet_client::random;
pub use warpproof_fleet_client::{bundle, client, exchange, search, submit, wire};
