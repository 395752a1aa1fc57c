//! The gate: takes a kernel candidate from source to verdict, and keeps the evidence from which every report is made.
#![forbid(unsafe_code)]

pub mod counterexample;
pub mod dtype;
pub mod explain;
pub mod expr;
pub mod hash;
pub mod init;
pub mod inputs;
pub mod ledger;
pub mod limits;
pub mod parameter;
pub mod record;
pub mod reference;
pub mod runner;
pub mod session;
pub mod speed;
pub mod stage;
pub mod steps;
pub mod task;
pub mod tensor_file;
pub mod tested;
pub mod tune;
pub mod variable;
pub mod verdict;
pub mod view;
