//! A search over the macros of a candidate for the variant that takes the least time.
//!
//! [`points`] lists the combinations that make sense, [`search`] says which of them is next, [`tune`] has them taken through the
//! gate by whoever is its [`Judges`], and [`text`] renders what was found. Every evaluation is steps of the gate, known by their content and in the ledger
//! before the next: a search that was ended, however, is run again and reads what it did.
//!
//! Variants go through the stages that say how long they take; whoever leads goes through all of them, and leads no more if one
//! fails. With a clock, and where it is asked for, every variant goes through all stages.

mod judges;
pub mod points;
pub mod search;
mod study;
pub mod text;

pub use judges::Judges;
pub use study::{Effect, Evaluation, Event, Refusal, Settings, Standing, Study, TuneError, Winner, tune};

/// The version of the study's fields.
pub const SCHEMA: &str = "warpproof.tune/1";
