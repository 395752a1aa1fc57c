//! Checks prose against the ledger: every number with a unit must be one that a record holds.
//!
//! A number resolves if a figure, or the threshold of a figure, has its value within the written precision and in the
//! same kind of unit; a percentage also needs a word of the figure's name in its sentence, so that no other share of
//! that size matches. A percentage or a factor also resolves as the latency reduction or the ratio of two figures, if
//! both are in the same paragraph, resolve themselves, and have the same name, unit and kind. A prediction must be
//! called a prediction in the same sentence, and a statement about speed must be measured.
//!
//! Code is skipped unless requested; addresses and comments are always skipped. A line with `<!-- claims: ignore
//! REASON -->` is skipped; alone on its line, the mark applies to the next line. It needs a reason.

mod prose;
mod sentence;
mod source;
mod written;

use super::evidence::Evidence;
use prose::Line;
use sentence::{SPEED, Sentence, Sentences};
pub use source::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Body, FigureKind};
use warpproof_evidence::vocabulary as name;
use warpproof_speed::LatencyReduction;
use written::{Dimension, Written};

/// What to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether numbers in code are claims too.
    pub code: bool,
}

/// A claim that failed the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// The column in characters, from one.
    pub column: usize,
    /// The written text.
    pub text: String,
    /// The fault.
    pub fault: Fault,
}

/// The fault of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No record holds it.
    Unresolved {
        /// The nearest figure of the same unit, as it would be written.
        nearest: Option<String>,
    },
    /// It is a prediction, and the sentence does not call it one.
    Predicted(Hash),
    /// The sentence is about speed, but the figure was not measured.
    Unmeasured(Hash),
    /// A line has an ignore mark without a reason.
    NoReason,
}

impl Problem {
    /// The fault, without the place.
    pub fn sentence(&self) -> String {
        let text = super::escape::plain(&self.text);
        match &self.fault {
            Fault::Unresolved { nearest: None } => format!("no record contains `{text}`"),
            Fault::Unresolved { nearest: Some(nearest) } => {
                format!("no record contains `{text}`; the nearest is {}", super::escape::plain(nearest))
            }
            Fault::Predicted(hash) => {
                format!(
                    "`{text}` is a prediction (record {}), but the sentence does not mark it as one",
                    hash.short()
                )
            }
            Fault::Unmeasured(hash) => {
                format!(
                    "`{text}` is a statement about speed, but record {} is not a measurement",
                    hash.short()
                )
            }
            Fault::NoReason => "the ignore mark has no reason".to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, .. } = self;
        write!(f, "{}:{line}:{column}: {}", super::escape::plain(file), self.sentence())
    }
}

/// A number of the ledger that prose may state.
#[derive(Clone, Debug)]
struct Known {
    /// In the base unit of its dimension.
    value: f64,
    kind: Option<FigureKind>,
    record: Hash,
    /// Name, case and kind: two figures may form a ratio only if these are equal.
    like: usize,
    /// Words of its name, one of which must be in the sentence of a percentage.
    words: Rc<[String]>,
    shown: String,
}

impl Known {
    /// Whether a sentence can refer to this number: a share is identified by its name, and a limit by a word for a
    /// limit.
    fn meant_by(&self, dimension: Dimension, sentence: &Sentence) -> bool {
        match (dimension, self.kind) {
            (Dimension::Percent, None) => sentence.limit,
            (Dimension::Percent, Some(_)) => sentence.names(&self.words),
            _ => true,
        }
    }

    /// Whether it supports a sentence about speed.
    fn tells_speed(&self, sentence: &Sentence) -> bool {
        match self.kind {
            Some(FigureKind::Measured) => true,
            Some(FigureKind::Predicted) => sentence.predicted,
            Some(FigureKind::Counted | FigureKind::Reported) => false,
            None => sentence.limit,
        }
    }
}

/// The numbers of the ledger, indexed for lookup.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// For each dimension by value.
    known: BTreeMap<Dimension, Vec<Known>>,
}

impl Claims {
    /// The numbers of these records.
    pub fn new(evidence: &Evidence) -> Self {
        let mut claims = Self::default();
        let mut likes: BTreeMap<(String, Option<String>, Option<FigureKind>), usize> = BTreeMap::new();
        for (record, body) in evidence.entries() {
            let Body::Step(step) = body else { continue };
            for figure in &step.figures {
                let stated = [(figure.value.get(), Some(figure.kind))];
                let held = figure.threshold.iter().map(|threshold| (threshold.value.get(), None));
                for (value, kind) in stated.into_iter().chain(held) {
                    let next = likes.len();
                    let name =
                        if figure.name == name::BASELINE_LATENCY { name::LATENCY } else { &figure.name };
                    let like = *likes.entry((name.to_owned(), figure.at.clone(), kind)).or_insert(next);
                    let reduction = super::number::is_reduction(figure);
                    let mut words = sentence::words(&figure.name);
                    words.retain(|word| !UNNAMING.contains(&word.as_str()));
                    if reduction {
                        words.extend(SPEED.iter().map(|word| (*word).to_owned()));
                    }
                    let words: Rc<[String]> = words.into();
                    let shown = match &*figure.unit {
                        "" if reduction => format!("{} of {}", LatencyReduction(value), figure.name),
                        "" => format!("{} of {}", super::number::shown(value), figure.name),
                        unit => format!("{} {unit} of {}", super::number::shown(value), figure.name),
                    };
                    let known = |value| Known {
                        value,
                        kind,
                        record,
                        like,
                        words: words.clone(),
                        shown: shown.clone(),
                    };
                    if reduction {
                        // A reduction is written as the change of the latency, which has the opposite sign, or as a
                        // factor.
                        claims.add(Dimension::Percent, known(-value * 100.0));
                        if value < 1.0 {
                            claims.add(Dimension::Factor, known(1.0 / (1.0 - value)));
                        }
                        continue;
                    }
                    for (dimension, factor) in written::dimensions(&figure.unit, &figure.name) {
                        claims.add(dimension, known(value * factor));
                    }
                }
            }
        }
        for list in claims.known.values_mut() {
            list.sort_by(|a, b| a.value.total_cmp(&b.value));
        }
        claims
    }

    fn add(&mut self, dimension: Dimension, known: Known) {
        self.known.entry(dimension).or_default().push(known);
    }

    /// The claims of a text that fail the check, in order.
    pub fn check(&self, file: &str, text: &str, options: Options) -> Vec<Problem> {
        let mut problems = Vec::new();
        let problem = |line: usize, column: usize, text: &str, fault| Problem {
            file: file.to_owned(),
            line,
            column,
            text: text.to_owned(),
            fault,
        };
        let lines = prose::lines(text, options.code);
        for paragraph in lines.split(|line| line.blank) {
            for line in paragraph.iter().filter(|line| line.bare_mark) {
                problems.push(problem(line.number, 1, "", Fault::NoReason));
            }
            let claims: Vec<(&Line, Written)> = paragraph
                .iter()
                .filter(|line| !line.ignored)
                .flat_map(|line| written::find(&line.text).into_iter().map(move |written| (line, written)))
                .collect();
            let sentences = Sentences::of(paragraph);
            let unsaid = Sentence::default();
            let around =
                |line: &Line, written: &Written| sentences.at(line.number, written.column).unwrap_or(&unsaid);
            // The figures that this paragraph states, from which a ratio may be formed.
            let stated: Vec<&Known> = claims
                .iter()
                .flat_map(|(line, written)| self.matching(written, around(line, written)))
                .collect();
            for (line, written) in &claims {
                let sentence = around(line, written);
                if let Some(fault) = self.fault(written, sentence, &stated) {
                    problems.push(problem(line.number, written.column, &written.text, fault));
                }
            }
        }
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }

    /// The fault of a claim in a sentence, in a paragraph that states these figures.
    fn fault(&self, written: &Written, sentence: &Sentence, stated: &[&Known]) -> Option<Fault> {
        let found: Vec<&Known> = self.matching(written, sentence).collect();
        let speed = sentence.speed
            && matches!(written.dimension, Dimension::Time | Dimension::Percent | Dimension::Factor);
        let bears = |known: &Known| !speed || known.tells_speed(sentence);
        let made_of: Vec<&Known> = stated.iter().copied().filter(|known| bears(known)).collect();
        let Some(first) = found.first() else {
            let made = derived(written, &made_of);
            return (!made).then(|| Fault::Unresolved { nearest: self.nearest(written) });
        };
        if !sentence.predicted && found.iter().all(|known| known.kind == Some(FigureKind::Predicted)) {
            return Some(Fault::Predicted(first.record));
        }
        let told = found.iter().any(|known| bears(known)) || derived(written, &made_of);
        (!told).then_some(Fault::Unmeasured(first.record))
    }

    /// The numbers of the ledger that equal this one within its precision and that the sentence can refer to.
    fn matching<'a>(
        &'a self,
        written: &'a Written,
        sentence: &'a Sentence,
    ) -> impl Iterator<Item = &'a Known> {
        let list = self.known.get(&written.dimension).map_or(&[][..], Vec::as_slice);
        let near = |value: f64| {
            let from = list.partition_point(|known| known.value < value - written.half);
            let to = list.partition_point(|known| known.value <= value + written.half);
            list.get(from..to).unwrap_or_default()
        };
        // A change without a sign may mean either direction.
        let other =
            (written.dimension == Dimension::Percent && !written.signed).then(|| near(-written.value));
        let meant = |known: &&Known| known.meant_by(written.dimension, sentence);
        near(written.value).iter().chain(other.into_iter().flatten()).filter(meant).take(MAX_MATCHES)
    }

    fn nearest(&self, written: &Written) -> Option<String> {
        let list = self.known.get(&written.dimension)?;
        let at = list.partition_point(|known| known.value < written.value);
        let sides = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|i| list.get(i));
        let far = |known: &Known| (known.value - written.value).abs();
        sides.min_by(|a, b| far(a).total_cmp(&far(b))).map(|known| known.shown.clone())
    }
}

/// Words of a figure's name that do not identify it.
const UNNAMING: [&str; 14] =
    ["a", "of", "the", "at", "in", "on", "per", "and", "for", "low", "high", "max", "min", "mean"];
/// Maximum number of figures that one claim is matched with.
const MAX_MATCHES: usize = 64;
/// Maximum number of figures of a paragraph that are paired.
const MAX_STATED: usize = 512;

/// Whether a claim is the reduction or the ratio of two figures of its paragraph.
fn derived(written: &Written, stated: &[&Known]) -> bool {
    let stated = || stated.iter().take(MAX_STATED).enumerate();
    let close = |value: f64| (value - written.value).abs() <= written.half;
    stated().any(|(i, one)| {
        stated().any(|(j, other)| {
            // Figures of one place are one number; only two with the same name and kind, both above zero, form a
            // ratio.
            if one.like != other.like || one.kind.is_none() || one.value <= 0.0 || other.value <= 0.0 {
                return false;
            }
            match written.dimension {
                Dimension::Factor => one.value > other.value && close(one.value / other.value),
                Dimension::Percent => {
                    let change = (other.value - one.value) / one.value * 100.0;
                    // An increase goes from the number written first to the later one: in the opposite direction,
                    // every reduction would be a larger gain.
                    (change < 0.0 || i < j)
                        && change != 0.0
                        && (close(change) || (!written.signed && change < 0.0 && close(-change)))
                }
                _ => false,
            }
        })
    })
}
