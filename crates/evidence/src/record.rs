//! The records of a ledger: runs, steps, verdicts and notes, with their figures.
//!
//! Writing is strict: [`Body::check`] refuses what a reader could misunderstand. Reading is lenient, because a later
//! Warpproof may write fields and kinds that this one does not know: unknown fields are ignored, and a body of an
//! unknown kind, or one that does not parse as its kind, is a [`Raw`] that keeps every field.

use crate::counterexample::Counterexample;
use crate::hash::Hash;
use crate::tested::Tested;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

pub use warpproof_task::{Comparison, Stage};

/// The content of one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One invocation of the gate.
    Run(RunRecord),
    /// One stage of one candidate.
    Step(StepRecord),
    /// The decision about a candidate.
    Verdict(VerdictRecord),
    /// A text by a person or a program: a hypothesis, an expected gain, a cost.
    Note(NoteRecord),
    /// A body that this Warpproof does not understand.
    Raw(Raw),
}

/// One invocation of the gate: what was evaluated, with which version, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its name, unique.
    pub run: String,
    /// The task's name.
    pub task: String,
    /// The task's version; results of different versions are not comparable.
    pub task_version: u64,
    /// The hash of the task file.
    pub task_hash: Hash,
    /// The version of Warpproof.
    pub warpproof: String,
    /// When it started, for display; nothing is ordered by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The command line after the program's name.
    pub arguments: Vec<String>,
    /// The candidates to evaluate; the run is complete when each has a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The hash of each candidate's program when the run began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Hash>,
    /// The secret from which seeds and hidden shapes are drawn, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// A secret that the user chose, in hexadecimal: it added cases to the drawn ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Facts about the machine: system, processor, device, driver.
    pub host: BTreeMap<String, String>,
    /// Files stored with it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Hash>,
}

/// One stage of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The run it belongs to.
    pub run: String,
    /// The hash of everything the step depends on; equal keys mean equal work.
    pub key: Hash,
    /// The candidate.
    pub candidate: String,
    /// The stage.
    pub stage: Stage,
    /// The part of the stage, such as one shape; `None` for the whole stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, in one sentence. Only PASS may omit it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What prevented a result, if neither the kernel nor the measurement did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
    /// Its numbers.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Its artifacts: samples, PTX, logs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Hash>,
    /// A counterexample, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<Box<Counterexample>>,
    /// What it was tested on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Box<Tested>>,
    /// How long it took.
    pub seconds: Finite,
    /// The record it was taken from, if the step was not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Hash>,
}

/// The decision about a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// The run it belongs to.
    pub run: String,
    /// The candidate.
    pub candidate: String,
    /// The decision.
    pub verdict: Verdict,
    /// The grade; only with MERGE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Why, in one sentence.
    pub reason: String,
    /// The records of the steps it refers to.
    pub steps: Vec<Hash>,
}

/// A note about a candidate, a run or other records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoteRecord {
    /// What kind of note: hypothesis, expected gain, cost.
    pub topic: String,
    /// The text.
    pub text: String,
    /// The run it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The candidate it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The records it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<Hash>,
    /// Further facts by name: the device of a reported figure, the risk of an option.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Its numbers, all of them reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// Files stored with it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Hash>,
}

/// A body that is kept unchanged because it could not be understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Its kind.
    pub kind: String,
    /// The whole body, every field in its order.
    pub json: Value,
    /// Why it could not be parsed, if its kind is known.
    pub why: Option<String>,
}

/// A number with its name, its unit and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The number.
    pub value: Finite,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// Its origin.
    pub kind: FigureKind,
    /// The threshold it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// Which case it belongs to: shape, seed, distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The threshold that a figure was compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The required relation of the figure to the value.
    pub op: Comparison,
    /// The value.
    pub value: Finite,
    /// The source of the value.
    pub source: String,
}

/// A number that is neither infinite nor NaN.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Finite(f64);

/// A number that cannot be a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFinite {
    /// It is infinite or NaN.
    NonFinite,
    /// It is a count above 2^53, which 64-bit floating point does not hold exactly.
    Inexact,
}

warpproof_task::words! {
    /// How a stage ended.
    Outcome {
        /// The candidate passes the stage.
        Pass = "PASS",
        /// The candidate fails the stage.
        Fail = "FAIL",
        /// The result is unknown.
        Inconclusive = "INCONCLUSIVE",
        /// It was not run, for the given reason.
        Skipped = "SKIPPED",
    }
}

warpproof_task::words! {
    /// What can prevent a stage from giving a result.
    Obstacle {
        /// A feature that Warpproof does not support.
        Unsupported = "unsupported",
        /// A limit of time or memory.
        Limit = "limit",
        /// The task, or a file it names.
        Input = "input",
        /// A program or a package that is not installed on this machine.
        Absent = "absent",
    }
}

warpproof_task::words! {
    /// The decision about a candidate.
    Verdict {
        /// Passes every stage, and is faster by the task's threshold.
        Merge = "MERGE",
        /// Passes every stage, but is not fast enough: a valid negative result.
        Defer = "DEFER",
        /// A stage failed.
        Reject = "REJECT",
        /// Passes every stage, but no device was available for a measurement.
        Provisional = "PROVISIONAL",
        /// The measurement does not decide.
        Inconclusive = "INCONCLUSIVE",
    }
}

warpproof_task::words! {
    /// The grade of an improvement, by the task's own thresholds.
    Grade {
        /// The minimum that merges.
        Good = "good",
        /// Better.
        Excellent = "excellent",
        /// The best.
        Outstanding = "outstanding",
    }
}

warpproof_task::words! {
    /// The origin of a figure. The four are never mixed.
    FigureKind {
        /// Counted by the software GPU or by a compiler: exact.
        Counted = "counted",
        /// Computed by a model of a named device.
        Predicted = "predicted",
        /// Measured on a named device.
        Measured = "measured",
        /// Taken from a file; Warpproof did not produce it. Only notes have such figures, and no verdict rests on one.
        Reported = "reported",
    }
}

impl Finite {
    /// Zero.
    pub const ZERO: Self = Self(0.0);

    /// This number, unless it is infinite or NaN.
    pub const fn new(value: f64) -> Result<Self, NotFinite> {
        if value.is_finite() { Ok(Self(value)) } else { Err(NotFinite::NonFinite) }
    }

    /// This count, unless it is so large that it would be rounded.
    pub fn count(value: u64) -> Result<Self, NotFinite> {
        let (high, low) = (u32::try_from(value >> 32), u32::try_from(value & 0xffff_ffff));
        match (high, low) {
            (Ok(high), Ok(low)) if value <= 1 << 53 => {
                Ok(Self(f64::from(high) * 4294967296.0 + f64::from(low)))
            }
            _ => Err(NotFinite::Inexact),
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Finite {
    type Error = NotFinite;

    fn try_from(value: f64) -> Result<Self, NotFinite> {
        Self::new(value)
    }
}

impl From<Finite> for f64 {
    fn from(value: Finite) -> Self {
        value.0
    }
}

impl From<u32> for Finite {
    fn from(value: u32) -> Self {
        Self(f64::from(value))
    }
}

impl fmt::Display for Finite {
    /// The shortest text that parses back to the same number; a whole number of ordinary size without its `.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        f.pad(text.strip_suffix(".0").unwrap_or(&text))
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NonFinite => "a figure must be a finite number",
            Self::Inexact => "a count above 2^53 cannot be a figure without being rounded",
        })
    }
}

impl std::error::Error for NotFinite {}

impl Figure {
    /// A figure without threshold and case. Infinite numbers and NaN are refused.
    pub fn new(name: &str, value: f64, unit: &str, kind: FigureKind) -> Result<Self, NotFinite> {
        let value = Finite::new(value)?;
        Ok(Self { name: name.to_owned(), value, unit: unit.to_owned(), kind, threshold: None, at: None })
    }

    /// A count, which is exact.
    pub fn counted(name: &str, count: u64, unit: &str) -> Result<Self, NotFinite> {
        let (value, kind) = (Finite::count(count)?, FigureKind::Counted);
        Ok(Self { name: name.to_owned(), value, unit: unit.to_owned(), kind, threshold: None, at: None })
    }

    /// The same figure, compared with a threshold.
    pub fn held_to(mut self, op: Comparison, value: f64, source: &str) -> Result<Self, NotFinite> {
        self.threshold = Some(Threshold { op, value: Finite::new(value)?, source: source.to_owned() });
        Ok(self)
    }

    /// The same figure, of one case.
    #[must_use]
    pub fn at(mut self, case: &str) -> Self {
        self.at = Some(case.to_owned());
        self
    }

    /// Whether it meets its threshold; `None` if it has none.
    pub fn holds(&self) -> Option<bool> {
        self.threshold.as_ref().map(|threshold| threshold.op.holds(self.value, threshold.value))
    }
}

impl Verdict {
    /// The exit code of a run that ends with it.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Merge | Self::Defer | Self::Provisional => 0,
            Self::Reject => 1,
            Self::Inconclusive => 5,
        }
    }
}

/// Why a body may not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub Cow<'static, str>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

fn given(text: &str, what: &'static str) -> Result<(), Invalid> {
    if text.trim().is_empty() { Err(Invalid(format!("{what} is empty").into())) } else { Ok(()) }
}

impl Body {
    /// Its kind, as the ledger spells it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Run(_) => "run",
            Self::Step(_) => "step",
            Self::Verdict(_) => "verdict",
            Self::Note(_) => "note",
            Self::Raw(raw) => &raw.kind,
        }
    }

    /// The run it belongs to, if it names one.
    pub fn run(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(&run.run),
            Self::Step(step) => Some(&step.run),
            Self::Verdict(verdict) => Some(&verdict.run),
            Self::Note(note) => note.run.as_deref(),
            Self::Raw(raw) => raw.json.get("run")?.as_str(),
        }
    }

    /// The candidate it is about, if it names one.
    pub fn candidate(&self) -> Option<&str> {
        match self {
            Self::Run(_) => None,
            Self::Step(step) => Some(&step.candidate),
            Self::Verdict(verdict) => Some(&verdict.candidate),
            Self::Note(note) => note.candidate.as_deref(),
            Self::Raw(raw) => raw.json.get("candidate")?.as_str(),
        }
    }

    /// The objects it names. Every kind names them in a map `objects`, so those of unknown kinds are found too.
    pub fn objects(&self) -> Vec<(&str, Hash)> {
        let map = match self {
            Self::Run(run) => &run.objects,
            Self::Step(step) => &step.objects,
            Self::Note(note) => &note.objects,
            Self::Verdict(_) => return Vec::new(),
            Self::Raw(raw) => {
                let map = raw.json.get("objects").and_then(Value::as_object);
                let hash = |value: &Value| value.as_str()?.parse().ok();
                return map
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, v)| Some((name.as_str(), hash(v)?)))
                    .collect();
            }
        };
        map.iter().map(|(name, hash)| (name.as_str(), *hash)).collect()
    }

    /// The records it names, each with its role.
    pub fn references(&self) -> Vec<(&'static str, Hash)> {
        match self {
            Self::Step(step) => step.from.iter().map(|hash| ("from", *hash)).collect(),
            Self::Verdict(verdict) => verdict.steps.iter().map(|hash| ("step", *hash)).collect(),
            Self::Note(note) => note.about.iter().map(|hash| ("about", *hash)).collect(),
            Self::Run(_) | Self::Raw(_) => Vec::new(),
        }
    }

    /// The conditions for writing it.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Self::Run(run) => {
                given(&run.run, "the name of the run")?;
                given(&run.task, "the name of the task")?;
                given(&run.warpproof, "the version of warpproof")
            }
            Self::Step(step) => {
                given(&step.run, "the name of the run")?;
                given(&step.candidate, "the candidate of the step")?;
                if step.outcome != Outcome::Pass {
                    given(&step.reason, "the reason of a step that did not pass")?;
                }
                if step.seconds < Finite::ZERO {
                    return Err(Invalid("the duration of a step is negative".into()));
                }
                step.figures.iter().try_for_each(|figure| {
                    given(&figure.name, "the name of a figure")?;
                    if figure.kind == FigureKind::Reported {
                        return Err(Invalid("a step has a reported figure".into()));
                    }
                    figure
                        .threshold
                        .as_ref()
                        .map_or(Ok(()), |t| given(&t.source, "the source of a threshold"))
                })
            }
            Self::Verdict(verdict) => {
                given(&verdict.run, "the name of the run")?;
                given(&verdict.candidate, "the candidate of the verdict")?;
                given(&verdict.reason, "the reason of the verdict")?;
                if verdict.steps.is_empty() {
                    return Err(Invalid("a verdict refers to no step".into()));
                }
                if verdict.grade.is_some() != (verdict.verdict == Verdict::Merge) {
                    return Err(Invalid(
                        "MERGE requires a grade, and other verdicts must not have one".into(),
                    ));
                }
                Ok(())
            }
            Self::Note(note) => {
                given(&note.topic, "the topic of the note")?;
                given(&note.text, "the text of the note")?;
                note.figures.iter().try_for_each(|figure| {
                    given(&figure.name, "the name of a figure")?;
                    if figure.kind != FigureKind::Reported {
                        return Err(Invalid("a note has a figure that is not reported".into()));
                    }
                    Ok(())
                })
            }
            Self::Raw(raw) => {
                Err(Invalid(format!("records of kind `{}` can be read but not written", raw.kind).into()))
            }
        }
    }

    /// The text that the ledger stores.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Tagged<'a, T> {
            kind: &'a str,
            #[serde(flatten)]
            fields: &'a T,
        }
        let kind = self.kind();
        match self {
            Self::Run(fields) => serde_json::to_string(&Tagged { kind, fields }),
            Self::Step(fields) => serde_json::to_string(&Tagged { kind, fields }),
            Self::Verdict(fields) => serde_json::to_string(&Tagged { kind, fields }),
            Self::Note(fields) => serde_json::to_string(&Tagged { kind, fields }),
            Self::Raw(raw) => serde_json::to_string(&raw.json),
        }
    }

    /// Parses a body. Only a body without a kind is an error.
    pub(crate) fn from_json(json: &RawValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            kind: Cow<'a, str>,
        }
        let text = json.get();
        let kind = serde_json::from_str::<Kind>(text).map_err(|error| error.to_string())?.kind;
        let body = match &*kind {
            "run" => serde_json::from_str(text).map(Self::Run),
            "step" => serde_json::from_str(text).map(Self::Step),
            "verdict" => serde_json::from_str(text).map(Self::Verdict),
            "note" => serde_json::from_str(text).map(Self::Note),
            _ => return Self::raw(kind.into_owned(), text, None),
        };
        body.or_else(|error| Self::raw(kind.into_owned(), text, Some(error.to_string())))
    }

    fn raw(kind: String, text: &str, why: Option<String>) -> Result<Self, String> {
        let json = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self::Raw(Raw { kind, json, why }))
    }
}

impl fmt::Display for Body {
    /// One line with the most important content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "{} of task {} version {}", run.run, run.task, run.task_version),
            Self::Step(step) => {
                write!(f, "{} {} {}", step.candidate, step.stage, step.outcome)?;
                if !step.reason.is_empty() {
                    write!(f, ": {}", step.reason)?;
                }
                step.from.map_or(Ok(()), |from| write!(f, " (from {})", from.short()))
            }
            Self::Verdict(verdict) => {
                write!(f, "{} {}", verdict.candidate, verdict.verdict)?;
                verdict.grade.map_or(Ok(()), |grade| write!(f, " ({grade})"))?;
                write!(f, ": {}", verdict.reason)
            }
            Self::Note(note) => {
                note.candidate.as_ref().map_or(Ok(()), |candidate| write!(f, "{candidate} "))?;
                write!(f, "{}: {}", note.topic, note.text)
            }
            Self::Raw(raw) => match &raw.why {
                None => f.write_str("of an unknown kind"),
                Some(why) => write!(f, "cannot be parsed as its kind: {why}"),
            },
        }
    }
}
