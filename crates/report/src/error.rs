//! Errors of reports.

use super::comparison::Refusal;
use std::fmt;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;

/// Why a report failed.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewError {
    /// No record of this run.
    NoRun(String),
    /// No record of this candidate, in this run if one is named.
    NoCandidate(String, Option<String>),
    /// A run was given for its only candidate, but it has these.
    Several(String, Vec<String>),
    /// A record that is named is not in the evidence.
    NoRecord(Hash),
    /// The record exists but does not contain the requested item.
    NotThere(Hash, String),
    /// Numbers, quotations or words of a document that the records do not support.
    Unresolved(Vec<String>),
    /// A verdict that does not follow from its steps by the gate's own rules, and why.
    Unsupported(Hash, String),
    /// Records form a cycle, or a chain that is too long.
    Circle(Hash),
    /// The two may not be compared.
    Refused(Refusal),
    /// The candidate cannot be merged: it has another verdict.
    NotMerged(String, Verdict),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRun(run) => write!(f, "the ledger has no run `{}`", run.escape_debug()),
            Self::NoCandidate(candidate, None) => {
                write!(f, "the ledger has no verdict about `{}`", candidate.escape_debug())
            }
            Self::NoCandidate(candidate, Some(run)) => {
                let (run, candidate) = (run.escape_debug(), candidate.escape_debug());
                write!(f, "run `{run}` has no record of `{candidate}`")
            }
            Self::Several(run, candidates) => {
                let names: Vec<String> =
                    candidates.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                write!(f, "expected a run with one candidate; run `{}` has {names}", run.escape_debug())
            }
            Self::NoRecord(hash) => write!(f, "record {} is missing from the ledger", hash.short()),
            Self::NotThere(hash, what) => write!(f, "record {} has no {what}", hash.short()),
            Self::Unresolved(what) => {
                write!(f, "the records do not support the report: {}", what.join("; "))
            }
            Self::Unsupported(hash, why) => {
                write!(f, "verdict {} does not follow from its steps: {why}", hash.short())
            }
            Self::Circle(hash) => {
                write!(f, "record {} is taken from a cycle or an endless chain of records", hash.short())
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotMerged(candidate, verdict) => {
                write!(f, "`{}` cannot be merged: its verdict is {verdict}", candidate.escape_debug())
            }
        }
    }
}

impl std::error::Error for ViewError {}
