//! The content of a report, independent of its output format.

use super::error::ViewError;
use super::evidence::Evidence;
use super::number::{Number, Source, figure_of};
use super::plot::Plot;
use super::shown::Shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Body, Grade, Outcome, Verdict};

/// The name and version of the JSON form.
pub const FORMAT: &str = "warpproof report 1";
/// Maximum number of unresolved items that are named.
const MAX_NAMED: usize = 8;

/// A report. [`Document::check`] compares a stored one with the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// Its subject.
    pub title: Phrase,
    /// The decision, if it is about one decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The most important lines.
    pub headline: Vec<Phrase>,
    /// The rest.
    pub blocks: Vec<Block>,
    /// Every record it names, with a one-line description.
    pub records: BTreeMap<Hash, String>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// Begins a section.
    Heading(Phrase),
    /// Begins a subsection.
    Subheading(Phrase),
    /// Sentences.
    Paragraph(Phrase),
    /// Rows and columns.
    Table(Table),
    /// Passed and failed items.
    Checklist(Vec<Item>),
    /// A plot.
    Plot(Plot),
    /// A counterexample.
    Counterexample(Box<Shown>),
    /// Paragraphs to copy, such as a commit message.
    Draft(Vec<Phrase>),
}

/// Rows and columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The titles of the columns.
    pub columns: Vec<String>,
    /// The rows; each has as many cells as there are columns.
    pub rows: Vec<Row>,
}

/// The cells of a row.
pub type Row = Vec<Phrase>;

/// A line of a checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its status.
    pub status: Status,
    /// Its text.
    pub what: Phrase,
}

/// Pieces of text, one after another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phrase(pub Vec<Inline>);

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inline {
    /// Our own words. They contain no digit.
    Words(String),
    /// A number with its record.
    Number(Number),
    /// A quotation from a record, unchanged.
    Quote {
        /// The words.
        text: String,
        /// The record.
        record: Hash,
    },
    /// A name from a record: candidate, run, figure.
    Name {
        /// The name.
        text: String,
        /// The record.
        record: Hash,
    },
    /// A status.
    Status(Status),
}

/// A status, and the record it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The outcome of a step.
    Outcome(Outcome, Hash),
    /// The verdict.
    Verdict(Verdict, Hash),
    /// MERGE with its grade.
    Merge(Grade, Hash),
    /// Whether a figure meets its threshold: step, figure, and the answer.
    Held(Hash, usize, bool),
    /// No record exists.
    Absent,
}

/// How a status looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Unsure,
    Quiet,
}

impl Tone {
    /// The tone of a verdict, the same in every report and on every page.
    pub(super) fn of(verdict: Verdict) -> Tone {
        match verdict {
            Verdict::Merge => Tone::Good,
            Verdict::Reject => Tone::Bad,
            Verdict::Inconclusive | Verdict::Provisional => Tone::Unsure,
            Verdict::Defer => Tone::Quiet,
        }
    }
}

impl Status {
    pub(super) fn record(self) -> Option<Hash> {
        match self {
            Self::Outcome(_, hash) | Self::Verdict(_, hash) | Self::Merge(_, hash) | Self::Held(hash, ..) => {
                Some(hash)
            }
            Self::Absent => None,
        }
    }

    pub(super) fn word(self) -> String {
        match self {
            Self::Outcome(outcome, _) => outcome.to_string(),
            Self::Verdict(verdict, _) => verdict.to_string(),
            Self::Merge(grade, _) => format!("MERGE ({grade})"),
            Self::Held(.., true) => "held".into(),
            Self::Held(.., false) => "not held".into(),
            Self::Absent => "not run".into(),
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Verdict(verdict, _) => Tone::of(verdict),
            Self::Outcome(Outcome::Pass, _) | Self::Merge(..) | Self::Held(.., true) => Tone::Good,
            Self::Outcome(Outcome::Fail, _) | Self::Held(.., false) => Tone::Bad,
            Self::Outcome(Outcome::Inconclusive, _) => Tone::Unsure,
            Self::Outcome(Outcome::Skipped, _) | Self::Absent => Tone::Quiet,
        }
    }

    /// A symbol that gives the same information without color.
    pub(super) fn mark(self) -> &'static str {
        match self.tone() {
            Tone::Good => "✓",
            Tone::Bad => "✗",
            Tone::Unsure => "?",
            Tone::Quiet => "–",
        }
    }

    fn stands(self, evidence: &Evidence) -> Result<bool, ViewError> {
        Ok(match self {
            Self::Outcome(outcome, hash) => {
                matches!(evidence.body(&hash)?, Body::Step(step) if step.outcome == outcome)
            }
            Self::Verdict(verdict, hash) => {
                matches!(evidence.body(&hash)?, Body::Verdict(found) if found.verdict == verdict)
            }
            Self::Merge(grade, hash) => {
                matches!(evidence.body(&hash)?, Body::Verdict(found) if found.grade == Some(grade))
            }
            Self::Held(hash, figure, held) => figure_of(evidence, hash, figure)?.holds() == Some(held),
            Self::Absent => true,
        })
    }
}

impl Phrase {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds our own words.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        self.0.push(Inline::Words(words.to_owned()));
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: Number) -> Self {
        self.0.push(Inline::Number(number));
        self
    }

    /// Adds a quotation from a record.
    #[must_use]
    pub fn quote(mut self, text: &str, record: Hash) -> Self {
        self.0.push(Inline::Quote { text: text.to_owned(), record });
        self
    }

    /// Adds a name from a record.
    #[must_use]
    pub fn name(mut self, text: &str, record: Hash) -> Self {
        self.0.push(Inline::Name { text: text.to_owned(), record });
        self
    }

    /// Adds a status.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.0.push(Inline::Status(status));
        self
    }

    /// Adds another phrase.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Phrase {
    fn from(words: &str) -> Self {
        Self::new().words(words)
    }
}

impl From<Number> for Phrase {
    fn from(number: Number) -> Self {
        Self::new().number(number)
    }
}

impl From<Status> for Phrase {
    fn from(status: Status) -> Self {
        Self::new().status(status)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }
}

impl Document {
    /// A report with only a title.
    pub(super) fn new(title: Phrase) -> Self {
        let (headline, blocks, records) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { format: FORMAT.to_owned(), title, status: None, headline, blocks, records }
    }

    /// Looks everything up again, and describes the records it names.
    pub(super) fn seal(mut self, evidence: &Evidence) -> Result<Self, ViewError> {
        let mut records = BTreeMap::new();
        let named = self.inlines().into_iter().flat_map(Inline::records);
        let shown = self.blocks.iter().filter_map(|block| match block {
            Block::Counterexample(shown) => Some(shown.record),
            _ => None,
        });
        for hash in named.chain(shown).chain(self.status.and_then(Status::record)) {
            records.insert(hash, described(evidence.body(&hash)?));
        }
        self.records = records;
        self.check(evidence)?;
        Ok(self)
    }

    /// Every piece of text, in order.
    pub(super) fn inlines(&self) -> Vec<&Inline> {
        let mut all: Vec<&Inline> = Vec::new();
        all.extend(&self.title.0);
        all.extend(self.headline.iter().flat_map(|line| &line.0));
        for block in &self.blocks {
            match block {
                Block::Heading(phrase) | Block::Subheading(phrase) | Block::Paragraph(phrase) => {
                    all.extend(&phrase.0);
                }
                Block::Table(table) => all.extend(table.rows.iter().flatten().flat_map(|cell| &cell.0)),
                Block::Checklist(items) => all.extend(items.iter().flat_map(|item| &item.what.0)),
                Block::Plot(plot) => all.extend(plot.inlines()),
                Block::Draft(lines) => all.extend(lines.iter().flat_map(|line| &line.0)),
                Block::Counterexample(_) => {}
            }
        }
        all
    }

    /// Checks that every number, quotation and status matches the records, and that our own words contain no digit.
    pub fn check(&self, evidence: &Evidence) -> Result<(), ViewError> {
        let mut wrong = Vec::new();
        let mut hold = |what: &dyn Fn() -> String, stands: Result<bool, ViewError>| match stands {
            Ok(true) => {}
            Ok(false) => wrong.push(what()),
            Err(error) => wrong.push(format!("{}: {error}", what())),
        };
        if self.format != FORMAT {
            hold(&|| format!("unknown format `{}`", self.format.escape_debug()), Ok(false));
        }
        for inline in self.inlines() {
            hold(&|| inline.describe(), inline.stands(evidence));
        }
        for block in &self.blocks {
            match block {
                Block::Table(table) => {
                    for title in &table.columns {
                        hold(&|| format!("the column `{}`", title.escape_debug()), Ok(wordy(title)));
                    }
                    let shape = table.rows.iter().all(|row| row.len() == table.columns.len());
                    hold(&|| "a row does not have one cell for each column".into(), Ok(shape));
                }
                Block::Checklist(items) => {
                    for item in items {
                        hold(&|| format!("the status {}", item.status.word()), item.status.stands(evidence));
                    }
                }
                Block::Plot(plot) => hold(&|| "a plot mixes units".into(), Ok(plot.one_unit())),
                Block::Counterexample(shown) => {
                    hold(&|| "the counterexample".into(), shown.stands(evidence));
                }
                Block::Heading(_) | Block::Subheading(_) | Block::Paragraph(_) | Block::Draft(_) => {}
            }
        }
        if let Some(status) = self.status {
            hold(&|| format!("the status {}", status.word()), status.stands(evidence));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        wrong.truncate(MAX_NAMED);
        Err(ViewError::Unresolved(wrong))
    }

    /// The report as JSON, which can be parsed again.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// A one-line description of a record, without its reason: a report shows each reason once, where it belongs.
fn described(body: &Body) -> String {
    match body {
        Body::Step(step) => {
            let from = step.from.map(|from| format!(" (from {})", from.short())).unwrap_or_default();
            format!("step {} {} {}{from}", step.candidate, step.stage, step.outcome)
        }
        Body::Verdict(verdict) => {
            let grade = verdict.grade.map(|grade| format!(" ({grade})")).unwrap_or_default();
            format!("verdict {} {}{grade}", verdict.candidate, verdict.verdict)
        }
        body => format!("{} {body}", body.kind()),
    }
}

fn wordy(text: &str) -> bool {
    !text.chars().any(char::is_numeric)
}

impl Inline {
    /// The records it names.
    pub(super) fn records(&self) -> Vec<Hash> {
        match self {
            Self::Words(_) => Vec::new(),
            Self::Number(number) => number.source.records(),
            Self::Quote { record, .. } | Self::Name { record, .. } => vec![*record],
            Self::Status(status) => status.record().into_iter().collect(),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Words(words) => format!("the words `{}` contain a number", words.escape_debug()),
            Self::Number(number) => format!("the number {}", number.shown().escape_debug()),
            Self::Quote { text, .. } => format!("the quotation `{}`", text.escape_debug()),
            Self::Name { text, .. } => format!("the name `{}`", text.escape_debug()),
            Self::Status(status) => format!("the status {}", status.word()),
        }
    }

    fn stands(&self, evidence: &Evidence) -> Result<bool, ViewError> {
        match self {
            Self::Words(words) => Ok(wordy(words)),
            Self::Number(number) => Ok(number.source.clone().number(evidence)? == *number),
            Self::Quote { text, record } | Self::Name { text, record } => evidence.says(record, text),
            Self::Status(status) => status.stands(evidence),
        }
    }
}

/// The records that numbers refer to: each list once, in the order of first use.
#[derive(Debug, Default)]
pub(super) struct References {
    lists: Vec<Vec<Hash>>,
    places: BTreeMap<Vec<Hash>, usize>,
}

impl References {
    /// The index of the list that a number refers to, counted from one.
    pub(super) fn of(&mut self, source: &Source) -> usize {
        let records = source.records();
        if let Some(place) = self.places.get(&records) {
            return *place;
        }
        self.lists.push(records.clone());
        self.places.insert(records, self.lists.len());
        self.lists.len()
    }

    /// The lists with their places.
    pub(super) fn lists(&self) -> impl Iterator<Item = (usize, &[Hash])> {
        self.lists.iter().enumerate().map(|(place, list)| (place + 1, list.as_slice()))
    }
}

impl Number {
    /// The name of its kind, if it needs one: a count of records does not.
    pub(super) fn kind_word(&self) -> Option<&'static str> {
        match self.source {
            Source::Count { .. } | Source::Figures { .. } | Source::Sum { .. } => None,
            _ => self.kind.map(warpproof_evidence::record::FigureKind::as_str),
        }
    }
}
