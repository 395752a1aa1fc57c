//! Searches the macros of a candidate for the fastest variant.
//!
//! [`points`] lists the allowed combinations, [`search`] chooses which to evaluate next, [`tune`] passes
//! them to its evaluator, which runs the gate, and [`text`] renders the result. Every evaluation is a set
//! of steps of the gate, identified by content and in the ledger before the next: an interrupted search is
//! run again and reads its earlier results.
//!
//! Variants go through the stages that give a time. The current best must pass every stage to stay the best. With a
//! clock, or on request, every variant goes through all stages.

mod judges;
pub mod points;
pub mod search;
mod study;
pub mod text;

pub use judges::Judges;
pub use study::{Effect, Evaluation, Event, Refusal, Settings, Standing, Study, TuneError, Winner, tune};

/// The version of the study's fields.
pub const SCHEMA: &str = "warpproof.tune/1";
