//! Reports as pure functions of records.
//!
//! A view takes [`Evidence`], records in the order of the ledger, and gives a [`Document`]. Every number in a document names
//! the record it comes from ([`Source`]) and is computed from it, never typed; every quoted word names its record too. A
//! document is handed out only after each of them was looked up again, and words of ours may not hold a digit: a report
//! whose numbers do not resolve is an error. A document that was kept as JSON can be held against the ledger later
//! ([`Document::check`]).
//!
//! Views: [`summary`], [`checklist`], [`validation`], [`comparison`], [`history`], [`negatives`], [`attempts`], [`next_step`].
//! Forms: [`Document::markdown`], [`Document::html`], [`Document::text`], [`Document::json`]; texts for other programs:
//! [`merge_message`], [`pull_request_comment`], [`junit`], [`sarif`]. [`claims`] holds prose against the ledger.
//!
//! What records must hold for a view to find it is in [`vocabulary`].

mod attempts;
pub mod claims;
mod collect;
mod comparison;
mod coverage;
mod document;
mod error;
pub(crate) mod escape;
mod evidence;
mod history;
mod html;
mod junit;
mod legend;
mod markdown;
mod message;
mod number;
mod plot;
mod rungs;
mod sarif;
pub(crate) mod scale;
mod shown;
mod standing;
mod summary;
mod text;
mod validation;
pub mod vocabulary;

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
pub use standing::{Standing, standings};
pub use summary::{checklist, next_step, summary};
pub use validation::validation;
