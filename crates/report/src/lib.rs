//! Reports as pure functions of records.
//!
//! A view takes [`Evidence`], records in the order of the ledger, and returns a [`Document`]. Every number in a
//! document names the record it comes from ([`Source`]) and is computed from it, never typed; every quotation also
//! names its record. A document is returned only after each of them was looked up again, and our own words may not
//! contain a digit: a report whose numbers do not resolve is an error. A document stored as JSON can be compared with
//! the ledger later ([`Document::check`]).
//!
//! Views: [`summary`], [`checklist`], [`validation`], [`comparison`], [`history`], [`negatives`], [`attempts`],
//! [`next_step`]. Forms: [`Document::markdown`], [`Document::html`], [`Document::text`], [`Document::json`]; texts
//! for other programs: [`merge_message`], [`pull_request_comment`], [`junit`], [`sarif`]. [`claims`] checks prose
//! against the ledger.
//!
//! [`vocabulary`](warpproof_evidence::vocabulary) defines the names by which views find entries in records.
#![forbid(unsafe_code)]

mod attempts;
pub mod claims;
mod collect;
mod comparison;
mod coverage;
mod document;
mod error;
pub mod escape;
mod evidence;
mod history;
pub mod html;
mod junit;
mod legend;
mod markdown;
mod message;
mod number;
mod plot;
mod reported;
mod rungs;
mod sarif;
pub mod scale;
mod shown;
mod stage;
mod standing;
mod summary;
mod text;
mod validation;

pub use attempts::{attempts, negatives};
pub use comparison::{Baseline, Candidate, Refusal, Subject, comparison};
pub use document::{Block, Document, FORMAT, Inline, Item, Phrase, Row, Status, Table};
pub use error::ViewError;
pub use escape::markup;
pub use evidence::{Evidence, Judged};
pub use history::history;
pub use html::{STYLE, verdict_class};
pub use junit::junit;
pub use message::{COMMENT_MARK, merge_message, pull_request_comment};
pub use number::{Number, Source};
pub use plot::{Bar, Bound, Plot};
pub use rungs::rungs;
pub use sarif::sarif;
pub use shown::{Shown, text as counterexample_text};
pub use stage::{newest_subject, stage};
pub use standing::{Standing, standings};
pub use summary::{checklist, next_step, summary};
pub use validation::validation;
