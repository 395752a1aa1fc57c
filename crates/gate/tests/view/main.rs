//! Reports of a synthetic ledger, in every form.

mod claims;
mod forms;
mod ladder;
mod refusals;
mod untrusted;
