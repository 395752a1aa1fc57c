//! What the ledger holds: runs, steps, verdicts and notes, with their figures.
//!
//! Writing is strict: [`Body::check`] refuses what a reader could misunderstand. Reading is lenient, because a later
//! Warpproof may write fields and kinds that this one does not know: unknown fields are passed over, and a body of an
//! unknown kind, or one that does not read as its kind, is a [`Raw`] that keeps every field.

use crate::counterexample::Counterexample;
use crate::hash::Hash;
use crate::tested::Tested;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// What one record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One invocation of the gate.
    Run(RunRecord),
    /// One stage of one candidate.
    Step(StepRecord),
    /// What was decided about a candidate.
    Verdict(VerdictRecord),
    /// A person's or a program's words: a hypothesis, an expected gain, a cost.
    Note(NoteRecord),
    /// Something this Warpproof does not understand.
    Raw(Raw),
}

/// One invocation of the gate: what was judged, by what, where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its name, unique.
    pub run: String,
    /// The task's name.
    pub task: String,
    /// The task's version; results of different versions do not compare.
    pub task_version: u64,
    /// The hash of the task file.
    pub task_hash: Hash,
    /// The version of Warpproof.
    pub warpproof: String,
    /// When it started, for people; nothing is ordered by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The command line after the program's name.
    pub arguments: Vec<String>,
    /// The candidates it is to judge; it is finished when each has a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// What each of them was compiled to when the run began, by its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Hash>,
    /// What secret seeds and hidden shapes are drawn from, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// A secret that the user chose, in hexadecimal: it added cases to the drawn ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Facts about the machine: system, processor, device, driver.
    pub host: BTreeMap<String, String>,
    /// Files kept with it, by name.
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
    /// The part of the stage that this is, such as one shape; nothing where it is the whole stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it ended so, in one sentence. Only PASS may do without.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What kept it from an answer, where that is neither the kernel nor the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
    /// Its numbers.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What it left: samples, PTX, logs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Hash>,
    /// What shows that it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<Box<Counterexample>>,
    /// What it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Box<Tested>>,
    /// How long it took.
    pub seconds: Finite,
    /// The record it was taken from, when nothing was done anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Hash>,
}

/// What was decided about a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// The run it belongs to.
    pub run: String,
    /// The candidate.
    pub candidate: String,
    /// The decision.
    pub verdict: Verdict,
    /// How good; with MERGE, and with it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Why, in one sentence.
    pub reason: String,
    /// The records of the steps it rests on.
    pub steps: Vec<Hash>,
}

/// Words about a candidate, a run or other records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteRecord {
    /// What kind of note: hypothesis, expected gain, cost.
    pub topic: String,
    /// The words.
    pub text: String,
    /// The run they are about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The candidate they are about, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The records they are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<Hash>,
}

/// A body that is kept as it is, because it could not be understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// Its kind.
    pub kind: String,
    /// The whole body, every field in its order.
    pub json: Value,
    /// Why it could not be read, when its kind is a known one.
    pub why: Option<String>,
}

/// A number with its name, its unit and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is a number of.
    pub name: String,
    /// The number.
    pub value: Finite,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// Where it comes from.
    pub kind: FigureKind,
    /// What it was held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// Which case it belongs to: shape, seed, distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// What a figure was held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// How the figure must stand to the value.
    pub op: Comparison,
    /// The value.
    pub value: Finite,
    /// Where the value comes from.
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

/// An enumeration that is one word in JSON, on the terminal and in the tables.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// The stages a candidate goes through, in their order.
    Stage {
        /// It compiles for every declared target.
        Build = "build",
        /// Registers, shared bytes, stack frame, occupancy.
        Budget = "budget",
        /// It computes what the oracles compute.
        Correct = "correct",
        /// Races, barriers, copies, under several schedules.
        Checks = "checks",
        /// What it executes and moves.
        Counters = "counters",
        /// The time that is predicted for a named device.
        Model = "model",
        /// The time that was measured against the baseline.
        Speed = "speed",
        /// What the device's own counters say.
        Profile = "profile",
        /// A named peer on the same inputs.
        External = "external",
    }
}

words! {
    /// How a stage ended.
    Outcome {
        /// The gate is open.
        Pass = "PASS",
        /// The gate is shut.
        Fail = "FAIL",
        /// It cannot be told.
        Inconclusive = "INCONCLUSIVE",
        /// It was not done, for the reason given.
        Skipped = "SKIPPED",
    }
}

words! {
    /// What can keep a stage from an answer.
    Obstacle {
        /// A gap in Warpproof.
        Unsupported = "unsupported",
        /// A limit of time or memory.
        Limit = "limit",
        /// The task, or a file it names.
        Input = "input",
        /// A program or a package that this machine has not.
        Absent = "absent",
    }
}

words! {
    /// What was decided about a candidate.
    Verdict {
        /// Green, and faster by the task's threshold.
        Merge = "MERGE",
        /// Green, and not fast enough: a valid negative.
        Defer = "DEFER",
        /// A gate failed.
        Reject = "REJECT",
        /// Green, with no device to measure on.
        Provisional = "PROVISIONAL",
        /// The measurement does not decide.
        Inconclusive = "INCONCLUSIVE",
    }
}

words! {
    /// How good an improvement is, by the task's own thresholds.
    Grade {
        /// The least that merges.
        Good = "good",
        /// Better.
        Excellent = "excellent",
        /// The best.
        Outstanding = "outstanding",
    }
}

words! {
    /// Where a figure comes from. The three are never mixed.
    FigureKind {
        /// Counted by the software GPU or by a compiler: exact.
        Counted = "counted",
        /// Computed by a model of a named device.
        Predicted = "predicted",
        /// Measured on a named device.
        Measured = "measured",
    }
}

words! {
    /// How a figure must stand to its threshold.
    Comparison {
        /// Below.
        Less = "<",
        /// At most.
        AtMost = "<=",
        /// Equal.
        Equal = "==",
        /// At least.
        AtLeast = ">=",
        /// Above.
        Greater = ">",
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
    /// The shortest text that reads back to the same number; a whole number of ordinary size without its `.0`.
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

    /// The same figure, held against a threshold.
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

    /// Whether it keeps its threshold; nothing when it has none.
    pub fn holds(&self) -> Option<bool> {
        self.threshold.as_ref().map(|threshold| threshold.op.holds(self.value, threshold.value))
    }
}

impl Comparison {
    /// As it is said before a limit.
    pub fn words(self) -> &'static str {
        match self {
            Self::Less => "less than",
            Self::AtMost => "at most",
            Self::Equal => "exactly",
            Self::AtLeast => "at least",
            Self::Greater => "more than",
        }
    }

    /// Whether `value` stands so to `bound`.
    pub fn holds(self, value: Finite, bound: Finite) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::Equal => value == bound,
            Self::AtLeast => value >= bound,
            Self::Greater => value > bound,
        }
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
pub struct Invalid(pub(crate) Cow<'static, str>);

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

    /// The run it belongs to, where it names one.
    pub fn run(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(&run.run),
            Self::Step(step) => Some(&step.run),
            Self::Verdict(verdict) => Some(&verdict.run),
            Self::Note(note) => note.run.as_deref(),
            Self::Raw(raw) => raw.json.get("run")?.as_str(),
        }
    }

    /// The candidate it is about, where it names one.
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
            Self::Verdict(_) | Self::Note(_) => return Vec::new(),
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

    /// The records it names, each with the role it has.
    pub fn references(&self) -> Vec<(&'static str, Hash)> {
        match self {
            Self::Step(step) => step.from.iter().map(|hash| ("from", *hash)).collect(),
            Self::Verdict(verdict) => verdict.steps.iter().map(|hash| ("step", *hash)).collect(),
            Self::Note(note) => note.about.iter().map(|hash| ("about", *hash)).collect(),
            Self::Run(_) | Self::Raw(_) => Vec::new(),
        }
    }

    /// What must hold before it is written.
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
                    return Err(Invalid("a step took less than no time".into()));
                }
                step.figures.iter().try_for_each(|figure| {
                    given(&figure.name, "the name of a figure")?;
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
                    return Err(Invalid("a verdict rests on no step".into()));
                }
                if verdict.grade.is_some() != (verdict.verdict == Verdict::Merge) {
                    return Err(Invalid("a grade belongs to MERGE, and to it alone".into()));
                }
                Ok(())
            }
            Self::Note(note) => {
                given(&note.topic, "the topic of the note")?;
                given(&note.text, "the text of the note")
            }
            Self::Raw(raw) => {
                Err(Invalid(format!("a body of kind `{}` can be read and not written", raw.kind).into()))
            }
        }
    }

    /// The text the ledger keeps.
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

    /// Reads a body. Only one that has no kind cannot be read.
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
    /// One line that says the most important.
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
                None => f.write_str("of a kind this warpproof does not know"),
                Some(why) => write!(f, "does not read as its kind: {why}"),
            },
        }
    }
}
