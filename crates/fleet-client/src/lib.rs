//! The client of a fleet's server: submits candidates, waits for their verdicts, fetches the records.
//!
//! It uses the protocol (`wire`), never the database. Requests block; there is no async runtime.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod client;
pub mod exchange;
pub mod random;
pub mod search;
pub mod submit;
pub mod wire;
