//! Why there is no report.

use super::comparison::Refusal;
use crate::hash::Hash;
use crate::record::Verdict;
use std::fmt;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewError {
    /// No record of this run.
    NoRun(String),
    /// No record of this candidate, in this run where one is named.
    NoCandidate(String, Option<String>),
    /// A run is meant to stand for its one candidate, and has these.
    Several(String, Vec<String>),
    /// A record that is named is not in the evidence.
    NoRecord(Hash),
    /// A record is there and does not hold what is asked of it.
    NotThere(Hash, String),
    /// A number, quotation or word of a document that the records do not bear out.
    Unresolved(Vec<String>),
    /// A verdict that its steps do not give by the gate's own rules, and why.
    Unsupported(Hash, String),
    /// Records are taken from each other in a circle, or too many times.
    Circle(Hash),
    /// The two may not be compared.
    Refused(Refusal),
    /// Nothing to merge: the verdict is another.
    NotMerged(String, Verdict),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRun(run) => write!(f, "the ledger holds no run `{}`", run.escape_debug()),
            Self::NoCandidate(candidate, None) => {
                write!(f, "the ledger holds no verdict about `{}`", candidate.escape_debug())
            }
            Self::NoCandidate(candidate, Some(run)) => {
                let (run, candidate) = (run.escape_debug(), candidate.escape_debug());
                write!(f, "run `{run}` holds nothing about `{candidate}`")
            }
            Self::Several(run, candidates) => {
                let names: Vec<String> =
                    candidates.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                write!(f, "run `{}` is meant to have one candidate and has {names}", run.escape_debug())
            }
            Self::NoRecord(hash) => write!(f, "record {} is named and not in the ledger", hash.short()),
            Self::NotThere(hash, what) => write!(f, "record {} holds no {what}", hash.short()),
            Self::Unresolved(what) => {
                write!(f, "the report says what its records do not: {}", what.join("; "))
            }
            Self::Unsupported(hash, why) => {
                write!(f, "verdict {} does not follow from its steps: {why}", hash.short())
            }
            Self::Circle(hash) => write!(f, "record {} is taken from others without end", hash.short()),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotMerged(candidate, verdict) => {
                write!(f, "`{}` is not to be merged: its verdict is {verdict}", candidate.escape_debug())
            }
        }
    }
}

impl std::error::Error for ViewError {}
