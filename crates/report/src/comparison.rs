//! Compares two candidates, each in a stated role.

use super::document::{Block, Document, Phrase, Table};
use super::error::ViewError;
use super::evidence::{Evidence, Found, Judged};
use super::number::Source;
use super::{reported, summary};
use std::collections::BTreeSet;
use std::fmt;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{FigureKind, Stage, Verdict};
use warpproof_evidence::vocabulary as name;

/// A candidate in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The run.
    pub run: String,
    /// The candidate.
    pub candidate: String,
}

impl Subject {
    /// Parses `RUN:CANDIDATE`, a run that has one candidate, or a candidate, which means its newest verdict. Names
    /// may contain colons: the ledger decides where a run's name ends.
    pub fn resolve(evidence: &Evidence, text: &str) -> Result<Self, ViewError> {
        let of = |run: &str, candidate: &str| Self { run: run.to_owned(), candidate: candidate.to_owned() };
        let mut nearest = None;
        for (colon, _) in text.match_indices(':') {
            let (run, candidate) = (&text[..colon], &text[colon + 1..]);
            if evidence.run(run).is_err() {
                continue;
            }
            match evidence.judged(run, candidate) {
                Ok(_) => return Ok(of(run, candidate)),
                Err(error) => nearest = Some(error),
            }
        }
        if evidence.run(text).is_ok() {
            return match &*evidence.candidates_of(text) {
                [one] => Ok(of(text, one)),
                many => {
                    Err(ViewError::Several(text.to_owned(), many.iter().map(ToString::to_string).collect()))
                }
            };
        }
        match evidence.newest(text) {
            Ok(judged) => Ok(of(&judged.run.run, text)),
            Err(error) => Err(nearest.unwrap_or(error)),
        }
    }
}

/// The baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline(pub Subject);

/// The candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate(pub Subject);

/// Why two candidates may not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are of different tasks.
    Task(String, String),
    /// They were evaluated by different versions of the task.
    TaskVersion(u64, u64),
    /// The version is the same, but the task file differs.
    TaskChanged(u64),
    /// The figures are for different devices, or the device is not named.
    Device(Option<String>, Option<String>),
    /// They have no shape in common.
    Shape(Vec<String>, Vec<String>),
    /// One was measured and the other was not.
    Kind(FigureKind, FigureKind),
    /// Their latencies have different units.
    Unit(String, String),
    /// The given baseline is newer than the given candidate.
    SwappedRoles {
        /// The given baseline.
        baseline: String,
        /// The given candidate.
        candidate: String,
    },
    /// They are the same program.
    Identical(Hash),
    /// They are the same candidate.
    Same(String),
}

impl Refusal {
    /// The reason in a few words.
    pub(super) fn short(&self) -> &'static str {
        match self {
            Self::Task(..) => "another task",
            Self::TaskVersion(..) => "another task version",
            Self::TaskChanged(_) => "another task file",
            Self::Device(..) => "another device",
            Self::Shape(..) => "another shape",
            Self::Kind(..) => "measured against predicted",
            Self::Unit(..) => "another unit",
            Self::SwappedRoles { .. } => "swapped roles",
            Self::Identical(_) => "the same program",
            Self::Same(_) => "the same candidate",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| super::escape::plain(text).into_owned();
        let list = |shapes: &[String]| match shapes {
            [] => "none".to_owned(),
            shapes => plain(&shapes.join(", ")),
        };
        let device = |device: &Option<String>| device.as_deref().map_or("an unnamed device".into(), plain);
        match self {
            Self::Task(one, other) => write!(
                f,
                "not comparable: the baseline was evaluated for task {}, the candidate for task {}",
                plain(one),
                plain(other)
            ),
            Self::TaskVersion(one, other) => write!(
                f,
                "not comparable: the baseline was evaluated with version {one} of the task, the candidate with version {other}; \
                 evaluate both with the same version"
            ),
            Self::TaskChanged(version) => write!(
                f,
                "not comparable: the task file changed between the two runs, but its version is {version} in both; a changed task \
                 needs a new version"
            ),
            Self::Device(None, None) => {
                f.write_str("not comparable: neither run names the device of its latencies")
            }
            Self::Device(one, other) => write!(
                f,
                "not comparable: the baseline's latency is for {}, the candidate's for {}",
                device(one),
                device(other)
            ),
            Self::Shape(one, other) => write!(
                f,
                "not comparable: the two have no shape in common (baseline: {}; candidate: {})",
                list(one),
                list(other)
            ),
            Self::Kind(one, other) => write!(
                f,
                "not comparable: the baseline's latency is {one}, the candidate's is {other}; the two kinds are never compared"
            ),
            Self::Unit(one, other) => write!(
                f,
                "not comparable: the baseline's latency is in `{}`, the candidate's in `{}`",
                plain(one),
                plain(other)
            ),
            Self::SwappedRoles { baseline, candidate } => write!(
                f,
                "the roles are swapped: {} comes after {}, so it is the candidate and not the baseline",
                plain(baseline),
                plain(candidate)
            ),
            Self::Identical(hash) => write!(
                f,
                "not comparable: both are the same program (PTX {}), so any difference is noise",
                hash.short()
            ),
            Self::Same(candidate) => {
                write!(f, "not comparable: {} cannot be compared with itself", plain(candidate))
            }
        }
    }
}

/// Compares two candidates, possibly of two runs, figure by figure. Incomparable ones are refused.
pub fn comparison(
    evidence: &Evidence,
    Baseline(baseline): &Baseline,
    Candidate(candidate): &Candidate,
) -> Result<Document, ViewError> {
    let one = evidence.judged(&baseline.run, &baseline.candidate)?;
    let other = evidence.judged(&candidate.run, &candidate.candidate)?;
    let pairs = pairs(evidence, &one, &other)?;
    roles(evidence, &one, &other)?;

    let title = Phrase::new().words("Comparison: baseline ").then(summary::candidate(&one));
    let title = title.words(", candidate ").then(summary::candidate(&other));
    let mut document = Document::new(title);
    document.status = summary::status(&other);
    let red = [&one, &other]
        .into_iter()
        .find(|one| one.verdict.is_none_or(|(_, record)| record.verdict == Verdict::Reject));
    if let Some(red) = red {
        let line = Phrase::new().words("No speed is shown: ").then(summary::candidate(red));
        document.headline.push(line.words(" did not pass."));
    } else if let Some((first, second)) = pairs.first() {
        let reduction = evidence.number(reduction(first, second))?;
        let mut line =
            Phrase::new().number(reduction).words(", from ").number(evidence.number(first.source())?);
        line = line.words(" to ").number(evidence.number(second.source())?);
        if let Some(at) = &second.figure.at {
            line = line.words(" at ").quote(at, second.record);
        }
        document.headline.push(line);
        let device = other.device(second.figure.kind);
        if let Some(device) = device {
            document.headline.push(Phrase::new().words("Device: ").name(device, other.run_hash));
        }
        if one.run.run != other.run.run && second.figure.kind == FigureKind::Measured {
            let line = "The two were measured in different runs, so clocks and temperature may differ: only the speed stage, \
                        which measures both in turns, decides.";
            document.blocks.push(Block::Paragraph(line.into()));
        }
    } else {
        document.headline.push("No common latency is known; other figures are compared below.".into());
    }
    let mut verdicts = Table::new(&["role", "candidate", "run", "verdict", "reason"]);
    for (role, one) in [("baseline", &one), ("candidate", &other)] {
        let reason =
            one.verdict.map_or(Phrase::new(), |(hash, record)| Phrase::new().quote(&record.reason, hash));
        let run = Phrase::new().name(&one.run.run, one.run_hash);
        verdicts.rows.push(vec![role.into(), summary::candidate(one), run, summary::decision(one), reason]);
    }
    document.blocks.push(Block::Table(verdicts));
    document.blocks.push(Block::Heading("Figures".into()));
    document.blocks.push(Block::Table(figures(evidence, &one, &other, red.is_none(), |_| true)?));
    let both = [one.candidate, other.candidate];
    let reported = reported::of(evidence, |candidate, note| {
        both.contains(&candidate) && reported::is_for(note, &one.run.task)
    });
    document.blocks.extend(reported::section(evidence, &reported)?);
    if red.is_none() && !pairs.is_empty() {
        let two = [one, other];
        document.blocks.extend(summary::bars(evidence, &two, "Latency of both")?.map(Block::Plot));
    }
    document.seal(evidence)
}

pub(super) fn reduction(baseline: &Found, candidate: &Found) -> Source {
    Source::Reduction {
        baseline: (baseline.record, baseline.place),
        candidate: (candidate.record, candidate.place),
    }
}

fn refuse<T>(refusal: Refusal) -> Result<T, ViewError> {
    Err(ViewError::Refused(refusal))
}

fn program(one: &Judged, evidence: &Evidence) -> Result<Option<Hash>, ViewError> {
    let Some((hash, step)) = one.stage(Stage::Build) else { return Ok(None) };
    let mut held = step;
    if held.objects.is_empty() && held.from.is_some() {
        held = evidence.holder(hash, step)?.1;
    }
    Ok(held.objects.get(name::PTX).copied())
}

/// The latencies of both, shape by shape, after all required equalities were checked.
pub(super) fn pairs<'a>(
    evidence: &'a Evidence,
    one: &Judged<'a>,
    other: &Judged<'a>,
) -> Result<Vec<(Found<'a>, Found<'a>)>, ViewError> {
    let (first, second) = (one.run, other.run);
    if one.candidate == other.candidate && first.run == second.run {
        return refuse(Refusal::Same(one.candidate.to_owned()));
    }
    if first.task != second.task {
        return refuse(Refusal::Task(first.task.clone(), second.task.clone()));
    }
    if first.task_version != second.task_version {
        return refuse(Refusal::TaskVersion(first.task_version, second.task_version));
    }
    if first.task_hash != second.task_hash {
        return refuse(Refusal::TaskChanged(first.task_version));
    }
    if let (Some(program), Some(another)) = (program(one, evidence)?, program(other, evidence)?)
        && program == another
    {
        return refuse(Refusal::Identical(program));
    }
    let of = |judged: &Judged<'a>, kind| latencies(evidence, judged, kind);
    for kind in [FigureKind::Measured, FigureKind::Predicted] {
        let (left, right) = (of(one, kind)?, of(other, kind)?);
        if left.is_empty() || right.is_empty() {
            continue;
        }
        let (device, another) = (one.device(kind), other.device(kind));
        if device != another || device.is_none() {
            return refuse(Refusal::Device(device.map(str::to_owned), another.map(str::to_owned)));
        }
        let mut pairs = Vec::new();
        for found in &left {
            let like = right.iter().find(|other| other.figure.at == found.figure.at);
            pairs.extend(like.map(|other| (*found, *other)));
        }
        let Some((found, like)) = pairs.first() else {
            let shapes = |all: &[Found]| all.iter().filter_map(|found| found.figure.at.clone()).collect();
            return refuse(Refusal::Shape(shapes(&left), shapes(&right)));
        };
        if found.figure.unit != like.figure.unit {
            return refuse(Refusal::Unit(found.figure.unit.clone(), like.figure.unit.clone()));
        }
        return Ok(pairs);
    }
    if let (Some(left), Some(right)) = (one.latency(evidence)?, other.latency(evidence)?) {
        return refuse(Refusal::Kind(left.figure.kind, right.figure.kind));
    }
    Ok(Vec::new())
}

fn latencies<'a>(
    evidence: &'a Evidence,
    one: &Judged<'a>,
    kind: FigureKind,
) -> Result<Vec<Found<'a>>, ViewError> {
    let stage = if kind == FigureKind::Measured { Stage::Speed } else { Stage::Model };
    let mut all = one.figures(evidence, stage)?;
    all.retain(|found| found.figure.name == name::LATENCY && found.figure.kind == kind);
    Ok(all)
}

/// The candidate descends from the baseline, or at least was not evaluated before it.
fn roles(evidence: &Evidence, one: &Judged, other: &Judged) -> Result<(), ViewError> {
    let swapped = if evidence.descends(one.candidate, other.candidate) {
        true
    } else if evidence.descends(other.candidate, one.candidate) || one.run.run == other.run.run {
        false
    } else {
        evidence.place(&one.run_hash) > evidence.place(&other.run_hash)
    };
    if swapped {
        let (baseline, candidate) = (one.candidate.to_owned(), other.candidate.to_owned());
        return refuse(Refusal::SwappedRoles { baseline, candidate });
    }
    Ok(())
}

/// Every figure of either candidate, next to each other.
pub(super) fn figures(
    evidence: &Evidence,
    one: &Judged,
    other: &Judged,
    green: bool,
    of: impl Fn(Stage) -> bool,
) -> Result<Table, ViewError> {
    let mut table = Table::new(&["stage", "figure", "case", "baseline", "candidate", "change"]);
    for stage in Stage::ALL.iter().filter(|stage| of(**stage)) {
        let (left, right) = (one.figures(evidence, *stage)?, other.figures(evidence, *stage)?);
        let mut seen = BTreeSet::new();
        for found in left.iter().chain(&right) {
            let same = |other: &&Found| {
                let (a, b) = (other.figure, found.figure);
                (&a.name, &a.at, &a.unit, a.kind) == (&b.name, &b.at, &b.unit, b.kind)
            };
            if !seen.insert((&found.figure.name, &found.figure.at, &found.figure.unit, found.figure.kind)) {
                continue;
            }
            let (first, second) = (left.iter().find(same), right.iter().find(same));
            let cell = |found: Option<&Found>| match found {
                Some(found) => evidence.number(found.source()).map(Phrase::from),
                None => Ok("–".into()),
            };
            let change = match (first, second) {
                (Some(a), Some(b)) if a.figure.name == name::LATENCY => {
                    // A kind other than the headline's may be for another device.
                    let device = one.device(a.figure.kind);
                    if green && device.is_some() && device == other.device(b.figure.kind) {
                        evidence.number(reduction(a, b))?.into()
                    } else {
                        "not stated".into()
                    }
                }
                (Some(a), Some(b)) if a.figure.value == b.figure.value => "same".into(),
                (Some(a), Some(b)) if a.figure.value < b.figure.value => "higher".into(),
                (Some(_), Some(_)) => "lower".into(),
                _ => "–".into(),
            };
            let case =
                found.figure.at.as_ref().map_or("–".into(), |at| Phrase::new().quote(at, found.record));
            let label = Phrase::new().name(&found.figure.name, found.record);
            table.rows.push(vec![stage.as_str().into(), label, case, cell(first)?, cell(second)?, change]);
        }
    }
    Ok(table)
}
