//! Reports of a synthetic ledger, in every form.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod claims;
mod forms;
mod ladder;
mod refusals;
mod untrusted;
