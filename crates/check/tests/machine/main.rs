//! One outcome, the same findings and the same counters, however a kernel is executed.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod bundles;
mod communicating;
mod reductions;
