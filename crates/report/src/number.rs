//! Numbers with their sources.

use super::error::ViewError;
use super::evidence::Evidence;
use serde::{Deserialize, Serialize};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Body, Figure, FigureKind, Threshold};
use warpproof_evidence::vocabulary as name;
use warpproof_speed::LatencyReduction;

/// The source of a number: one place of one record, or two places and a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum Source {
    /// A figure of a step, by its index.
    Figure {
        /// The step.
        record: Hash,
        /// Which figure.
        figure: usize,
    },
    /// The threshold of a figure of a step.
    Threshold {
        /// The step.
        record: Hash,
        /// Which figure.
        figure: usize,
    },
    /// The duration of a step.
    Seconds {
        /// The step.
        record: Hash,
    },
    /// The version of a run's task.
    TaskVersion {
        /// The run.
        record: Hash,
    },
    /// The latency reduction from one figure to another.
    Reduction {
        /// The baseline's latency: step and figure.
        baseline: (Hash, usize),
        /// The candidate's latency.
        candidate: (Hash, usize),
    },
    /// A number of records.
    Count {
        /// The records.
        records: Vec<Hash>,
    },
    /// A number of figures.
    Figures {
        /// The figures: record and index.
        figures: Vec<(Hash, usize)>,
        /// Whether only those count that meet their thresholds.
        held: bool,
    },
    /// The sum of figures of one unit and kind.
    Sum {
        /// The figures: record and index.
        figures: Vec<(Hash, usize)>,
    },
    /// One figure in percent of another of the same unit and kind.
    Share {
        /// The part: record and figure.
        part: (Hash, usize),
        /// The whole.
        whole: (Hash, usize),
    },
}

/// A number, computed from its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// Whether it was counted, predicted, measured or reported; `None` for thresholds, versions and similar.
    pub kind: Option<FigureKind>,
    /// Whether it is a latency reduction, which is printed differently.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reduction: bool,
    /// Its source.
    pub source: Source,
}

impl Source {
    /// The records it names, each once.
    pub fn records(&self) -> Vec<Hash> {
        match self {
            Self::Figure { record, .. }
            | Self::Threshold { record, .. }
            | Self::Seconds { record }
            | Self::TaskVersion { record } => vec![*record],
            Self::Reduction { baseline, candidate } => vec![baseline.0, candidate.0],
            Self::Count { records } => records.clone(),
            Self::Figures { figures, .. } | Self::Sum { figures } => {
                let mut records: Vec<Hash> = figures.iter().map(|(record, _)| *record).collect();
                records.dedup();
                records
            }
            Self::Share { part, whole } if part.0 == whole.0 => vec![part.0],
            Self::Share { part, whole } => vec![part.0, whole.0],
        }
    }

    /// Computes the number from the records.
    pub fn number(self, evidence: &Evidence) -> Result<Number, ViewError> {
        let number = |value: f64, unit: &str, kind, reduction| Number {
            value,
            unit: unit.to_owned(),
            kind,
            reduction,
            source: self.clone(),
        };
        match &self {
            Self::Figure { record, figure } => {
                let figure = figure_of(evidence, *record, *figure)?;
                Ok(number(figure.value.get(), &figure.unit, Some(figure.kind), is_reduction(figure)))
            }
            Self::Threshold { record, figure } => {
                let figure = figure_of(evidence, *record, *figure)?;
                let Some(Threshold { value, .. }) = &figure.threshold else {
                    return Err(ViewError::NotThere(*record, format!("threshold of `{}`", figure.name)));
                };
                Ok(number(value.get(), &figure.unit, None, is_reduction(figure)))
            }
            Self::Seconds { record } => match evidence.body(record)? {
                Body::Step(step) => Ok(number(step.seconds.get(), "s", Some(FigureKind::Measured), false)),
                _ => Err(ViewError::NotThere(*record, "duration".into())),
            },
            Self::TaskVersion { record } => match evidence.body(record)? {
                Body::Run(run) => Ok(number(whole(run.task_version), "", None, false)),
                _ => Err(ViewError::NotThere(*record, "task version".into())),
            },
            Self::Reduction { baseline, candidate } => {
                let one = figure_of(evidence, baseline.0, baseline.1)?;
                let other = figure_of(evidence, candidate.0, candidate.1)?;
                let like = one.unit == other.unit && one.kind == other.kind;
                if !like || one.value.get() <= 0.0 || other.value.get() <= 0.0 {
                    return Err(ViewError::NotThere(
                        candidate.0,
                        "latency that compares with its baseline".into(),
                    ));
                }
                let reduction = LatencyReduction::of(one.value.get(), other.value.get());
                Ok(number(reduction.0, "", Some(one.kind), true))
            }
            Self::Figures { figures, held } => {
                let mut count = 0_u64;
                for (record, place) in figures {
                    let figure = figure_of(evidence, *record, *place)?;
                    count += u64::from(!held || figure.holds() == Some(true));
                }
                Ok(number(whole(count), "", Some(FigureKind::Counted), false))
            }
            Self::Sum { figures } => {
                let mut found: Option<(f64, &Figure)> = None;
                for (record, place) in figures {
                    let figure = figure_of(evidence, *record, *place)?;
                    let like = found
                        .is_none_or(|(_, first)| (&first.unit, first.kind) == (&figure.unit, figure.kind));
                    if !like {
                        return Err(ViewError::NotThere(*record, "figure of the sum's unit and kind".into()));
                    }
                    found = Some((found.map_or(0.0, |(sum, _)| sum) + figure.value.get(), figure));
                }
                let (sum, unit, kind) =
                    found.map_or((0.0, "", None), |(sum, one)| (sum, &*one.unit, Some(one.kind)));
                Ok(number(sum, unit, kind, false))
            }
            Self::Share { part, whole } => {
                let one = figure_of(evidence, part.0, part.1)?;
                let all = figure_of(evidence, whole.0, whole.1)?;
                if (&one.unit, one.kind) != (&all.unit, all.kind) || all.value.get() <= 0.0 {
                    return Err(ViewError::NotThere(part.0, "figure that is a part of the other".into()));
                }
                Ok(number(100.0 * one.value.get() / all.value.get(), "%", Some(one.kind), false))
            }
            Self::Count { records } => {
                for record in records {
                    evidence.body(record)?;
                }
                Ok(number(
                    whole(u64::try_from(records.len()).unwrap_or(u64::MAX)),
                    "",
                    Some(FigureKind::Counted),
                    false,
                ))
            }
        }
    }
}

pub(super) fn is_reduction(figure: &Figure) -> bool {
    [name::REDUCTION, name::REDUCTION_LOW, name::REDUCTION_HIGH].contains(&&*figure.name)
        && figure.unit.is_empty()
}

/// Versions and counts of records are far below 2^53.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "what is larger is only shown rounded"
)]
fn whole(count: u64) -> f64 {
    count as f64
}

/// A figure of a step or a note.
pub(super) fn figure_of(evidence: &Evidence, record: Hash, figure: usize) -> Result<&Figure, ViewError> {
    let figures = match evidence.body(&record)? {
        Body::Step(step) => &step.figures,
        Body::Note(note) => &note.figures,
        _ => return Err(ViewError::NotThere(record, "figures".into())),
    };
    figures.get(figure).ok_or_else(|| ViewError::NotThere(record, format!("figure {figure}")))
}

impl Number {
    /// The number and its unit, for display.
    pub fn shown(&self) -> String {
        if self.reduction {
            return LatencyReduction(self.value).to_string();
        }
        let value = shown(self.value);
        match &*self.unit {
            "" => value,
            unit => format!("{value} {unit}"),
        }
    }
}

/// Four significant digits, without trailing zeros; whole numbers in full.
pub(super) fn shown(value: f64) -> String {
    let size = value.abs();
    let text = if size != 0.0 && !(1e-3..1e15).contains(&size) {
        format!("{size:.2e}")
    } else if size.fract() == 0.0 {
        grouped(&format!("{size:.0}"))
    } else {
        let decimals = match size {
            100.0.. => 1,
            10.0.. => 2,
            1.0.. => 3,
            0.1.. => 4,
            0.01.. => 5,
            _ => 6,
        };
        let text = format!("{size:.decimals$}");
        let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
        match rest.trim_end_matches('0') {
            "" => grouped(whole),
            rest => format!("{}.{rest}", grouped(whole)),
        }
    };
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Commas between thousands, for five digits or more.
fn grouped(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let cases = [
            (0.0, "0"),
            (96.0, "96"),
            (-3.0, "−3"),
            (65536.0, "65,536"),
            (1234567.0, "1,234,567"),
            (4.8125, "4.812"),
            (26.014, "26.01"),
            (656.04, "656"),
            (0.0543, "0.0543"),
            (1.25e-5, "1.25e-5"),
            (12345.67, "12,345.7"),
            (2e18, "2.00e18"),
        ];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
    }
}
