//! Reports of a synthetic ledger, in every form.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod collect;
mod forms;
mod ladder;
mod refusals;
mod stage;
mod untrusted;
