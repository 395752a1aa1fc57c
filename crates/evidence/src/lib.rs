//! Evidence: the records of a run, the ledger that stores them, and the rules by which a verdict follows from them.
#![forbid(unsafe_code)]

pub mod counterexample;
pub mod hash;
pub mod ledger;
pub mod record;
pub mod tested;
pub mod verdict;
pub mod vocabulary;
