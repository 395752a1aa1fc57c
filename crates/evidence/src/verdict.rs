//! Derives one verdict from the outcomes of the stages.

use crate::record::{FigureKind, Grade, Obstacle, Outcome, Stage, StepRecord, Verdict, VerdictRecord};
use crate::vocabulary as name;
use warpproof_speed::LatencyReduction;
use warpproof_task::{Grades, Task};

/// The decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// The grade, with MERGE.
    pub grade: Option<Grade>,
    /// The reason, in one sentence.
    pub reason: String,
}

/// The rules for a decision: the stages that a task requires, in order, each with whether it may be skipped, and its
/// grades.
struct Rules<'t> {
    gates: Vec<(Stage, bool)>,
    grades: Option<&'t Grades>,
}

impl<'t> Rules<'t> {
    fn of(task: &'t Task) -> Self {
        let gates = task.gates.iter().map(|gate| (gate.stage.value, gate.optional)).collect();
        Self { gates, grades: task.timing.as_ref().and_then(|timing| timing.grades.as_ref()) }
    }
}

/// The verdict that follows from steps in the order of their stages. The first stage that does not pass decides;
/// MERGE and DEFER require speed measured on a device.
pub fn decide(task: &Task, steps: &[&StepRecord]) -> Decision {
    decide_by(&Rules::of(task), steps)
}

/// Why a verdict does not follow from its steps; `None` if it does. If the task is unknown, any verdict that some
/// task could have given is accepted.
pub fn unsupported(task: Option<&Task>, record: &VerdictRecord, steps: &[&StepRecord]) -> Option<String> {
    let stranger = |step: &&&StepRecord| {
        step.run != record.run || step.candidate != record.candidate || step.part.is_some()
    };
    if let Some(step) = steps.iter().find(stranger) {
        let (candidate, run) = (step.candidate.escape_debug(), step.run.escape_debug());
        return Some(format!(
            "it refers to a step of `{candidate}` in run {run}, which is not one of its own steps"
        ));
    }
    let mut steps = steps.to_vec();
    steps.sort_by_key(|step| step.stage);
    let found = match task {
        Some(task) => vec![decide(task, &steps)],
        None => possible(&steps),
    };
    let graded = |one: &Decision| task.is_none() || one.grade == record.grade;
    if found.iter().any(|one| one.verdict == record.verdict && graded(one)) {
        return None;
    }
    let named = |verdict: Verdict, grade: Option<Grade>| match grade {
        Some(grade) => format!("{verdict} ({grade})"),
        None => verdict.to_string(),
    };
    let first = found.first()?;
    let (said, rules) = (named(record.verdict, record.grade), named(first.verdict, first.grade));
    Some(format!(
        "the record states {said}, but its steps give {rules} by the gate's rules: {}",
        first.reason
    ))
}

/// The decisions of all tasks that could have had these steps.
fn possible(steps: &[&StepRecord]) -> Vec<Decision> {
    let present: Vec<Stage> = steps.iter().map(|step| step.stage).collect();
    let timed: Vec<Stage> = present.iter().copied().chain([Stage::Speed]).collect();
    let mut found = Vec::new();
    for stages in [&present[..], &timed[..], Stage::ALL] {
        for optional in [true, false] {
            let gates = stages.iter().map(|stage| (*stage, optional)).collect();
            found.push(decide_by(&Rules { gates, grades: None }, steps));
        }
    }
    found
}

/// The rules themselves. Ledgers are verified with them, including old ones: a change must keep the previous rules
/// for runs of the versions that had them, which [`RunRecord::warpproof`](crate::record::RunRecord::warpproof) names.
fn decide_by(rules: &Rules<'_>, steps: &[&StepRecord]) -> Decision {
    let plain = |verdict, reason: String| Decision { verdict, grade: None, reason };
    for step in steps.iter().filter(|step| step.stage != Stage::Speed) {
        let optional = rules.gates.iter().any(|(stage, optional)| *stage == step.stage && *optional);
        match step.outcome {
            Outcome::Fail => return plain(Verdict::Reject, format!("{}: {}", step.stage, step.reason)),
            Outcome::Inconclusive => {
                return plain(Verdict::Inconclusive, format!("{}: {}", step.stage, step.reason));
            }
            Outcome::Skipped if !optional && !may_be_skipped(step.stage) => {
                return plain(Verdict::Inconclusive, format!("{}: {}", step.stage, step.reason));
            }
            Outcome::Pass | Outcome::Skipped => {}
        }
    }
    let lacks = |stage: Stage| !steps.iter().any(|step| step.stage == stage);
    let before_speed = rules.gates.iter().map(|(stage, _)| *stage).filter(|stage| *stage < Stage::Speed);
    if let Some(stage) = before_speed.into_iter().find(|stage| lacks(*stage)) {
        return plain(Verdict::Inconclusive, format!("the stage {stage} has no result"));
    }
    let Some(speed) = steps.iter().find(|step| step.stage == Stage::Speed) else {
        let wanted = rules.gates.iter().any(|(stage, _)| *stage == Stage::Speed);
        return if wanted {
            let reason = "passed every stage; not timed, because its baseline did not pass";
            plain(Verdict::Inconclusive, reason.to_owned())
        } else {
            plain(Verdict::Provisional, "passed every stage; the task has no stage speed".to_owned())
        };
    };
    let reduction = speed.figures.iter().find(|figure| figure.name == name::REDUCTION);
    let measured = reduction.is_some_and(|figure| figure.kind == FigureKind::Measured);
    match speed.outcome {
        Outcome::Skipped => {
            plain(Verdict::Provisional, format!("passed every stage that needs no GPU; {}", speed.reason))
        }
        _ if reduction.is_some() && !measured => plain(
            Verdict::Provisional,
            format!("passed every stage; the speed was not measured on a device: {}", speed.reason),
        ),
        Outcome::Inconclusive => plain(Verdict::Inconclusive, format!("speed: {}", speed.reason)),
        Outcome::Fail if reduction.is_none() => plain(Verdict::Reject, format!("speed: {}", speed.reason)),
        Outcome::Fail => plain(Verdict::Defer, speed.reason.clone()),
        Outcome::Pass if !measured => {
            plain(Verdict::Inconclusive, "speed: no latency reduction was measured".to_owned())
        }
        Outcome::Pass => {
            // The minimum over the deciding cases: those whose reduction has a threshold.
            let decides = |case: &Option<String>| {
                speed.figures.iter().any(|figure| {
                    figure.name == name::REDUCTION && figure.threshold.is_some() && figure.at == *case
                })
            };
            let lows = speed.figures.iter().filter(|one| one.name == name::REDUCTION_LOW && decides(&one.at));
            let low = lows.map(|figure| figure.value.get()).reduce(f64::min).unwrap_or(0.0);
            // The task's threshold is the minimum that merges.
            let grade = rules.grades.and_then(|grades| grade(grades, low)).or(Some(Grade::Good));
            let reason = speed.reason.clone();
            Decision { verdict: Verdict::Merge, grade, reason }
        }
    }
}

/// The grade that the whole interval reaches.
fn grade(grades: &Grades, low: f64) -> Option<Grade> {
    [
        (grades.outstanding, Grade::Outstanding),
        (grades.excellent, Grade::Excellent),
        (grades.good, Grade::Good),
    ]
    .into_iter()
    .find(|(least, _)| LatencyReduction(low) >= LatencyReduction(*least))
    .map(|(_, grade)| grade)
}

/// Stages that require a GPU, and one that decides nothing.
pub fn may_be_skipped(stage: Stage) -> bool {
    matches!(stage, Stage::Model | Stage::Speed | Stage::Profile | Stage::External)
}

/// The exit code of a run: a rejected candidate first, then what Warpproof does not support, then what is undecided.
pub fn exit_code<'a>(verdicts: impl Iterator<Item = (Verdict, &'a [StepRecord])>) -> u8 {
    let code = |(verdict, steps): (Verdict, &[StepRecord])| {
        // A skipped stage does not prevent a result.
        let obstacle =
            steps.iter().filter(|step| step.outcome != Outcome::Skipped).find_map(|step| step.obstacle);
        match (verdict, obstacle) {
            (Verdict::Inconclusive, Some(Obstacle::Input)) => 2,
            (Verdict::Inconclusive, Some(Obstacle::Unsupported)) => 3,
            (Verdict::Inconclusive, Some(Obstacle::Limit)) => 4,
            (verdict, _) => verdict.exit_code(),
        }
    };
    let rank = |code: &u8| [0, 5, 4, 3, 2, 1].iter().position(|one| one == code).unwrap_or(6);
    verdicts.map(code).max_by_key(rank).unwrap_or(0)
}
