//! Runs the search: takes variants through the gate, collects the results, and computes the effect of each macro.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::judges::Judges;
use super::points::{NoPoints, Points};
use super::search::{Basis, Evolution, Score, Search, Strategy};
use crate::limits::Allowance;
use crate::session::{Options, Screened, Screening};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::{Figure, FigureKind, Outcome, Stage, StepRecord, Verdict};
use warpproof_evidence::verdict;
use warpproof_evidence::vocabulary as name;
use warpproof_speed::LatencyReduction;
use warpproof_task::{Candidate, Space, Task};

/// The stages that give the time of a variant.
const TIMED: [Stage; 3] = [Stage::Build, Stage::Budget, Stage::Model];

/// A space of at most this many points is evaluated completely: sampling a quarter of a few variants is not a search.
const SMALL: usize = 32;

/// How a search is done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How points are chosen.
    pub strategy: Strategy,
    /// What it draws from.
    pub seed: u64,
    /// The maximum number of evaluated combinations; `None`: a quarter of them and at least 32, or all with a grid.
    pub budget: Option<usize>,
    /// Every variant through all stages.
    pub full: bool,
    /// After this time, no further generation begins.
    pub time_limit: Option<Duration>,
    /// Concurrent steps; 0: the number of cores.
    pub jobs: usize,
    /// The command line, for the record.
    pub arguments: Vec<String>,
    /// What a launch may use.
    pub allowance: Allowance,
}

/// Progress events of a search.
#[derive(Clone, Debug)]
pub enum Event<'e> {
    /// A generation begins.
    Generation {
        /// Evaluations so far.
        done: usize,
        /// The budget.
        of: usize,
        /// The best so far.
        best: Option<Score>,
    },
    /// A stage of a variant has ended.
    Ended(&'e StepRecord),
    /// A variant is the current best, and goes through all stages.
    Leads(&'e str),
}

/// Why a search failed; `E` is the evaluator's error.
#[derive(Debug)]
pub enum TuneError<E> {
    /// The task has no space for the candidate.
    NoSpace(String),
    /// The space has no points.
    Points(NoPoints),
    /// The task has no stages that give a time.
    NoTimes,
    /// Variants cannot be evaluated.
    Judges(E),
}

impl<E: fmt::Display> fmt::Display for TuneError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuneError::NoSpace(candidate) => write!(f, "the task declares no [[space]] for `{candidate}`"),
            TuneError::Points(error) => error.fmt(f),
            TuneError::NoTimes => f.write_str(
                "the task must have the stages `counters` and `model`: variants are ranked by their predicted time",
            ),
            TuneError::Judges(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for TuneError<E> {}

/// The result of a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "standing")]
pub enum Standing {
    /// It has a time.
    Ranked {
        /// Its time.
        #[serde(flatten)]
        score: Score,
        /// Whether it went through all stages and passed them.
        full: bool,
    },
    /// A stage does not pass.
    Refused {
        /// Which.
        stage: Stage,
        /// Why.
        reason: String,
        /// Whether the kernel is to blame.
        failed: bool,
    },
}

/// One variant that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Its name: what `warpproof gate` takes.
    pub candidate: String,
    /// The number of its point.
    pub point: usize,
    /// Its macros.
    pub settings: BTreeMap<String, String>,
    /// Its result.
    #[serde(flatten)]
    pub standing: Standing,
    /// The variant with the same program that was evaluated instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    #[serde(skip)]
    program: Option<Hash>,
}

impl Evaluation {
    /// Its time, if it is a solution.
    pub fn score(&self) -> Option<Score> {
        match &self.standing {
            Standing::Ranked { score, .. } => Some(*score),
            Standing::Refused { .. } => None,
        }
    }
}

/// The effect of a value of a macro.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The macro.
    pub knob: String,
    /// Its value.
    pub value: String,
    /// Variants with it that were evaluated.
    pub evaluated: usize,
    /// Those of them that have a time.
    pub ranked: usize,
    /// The best of them.
    pub best_us: Option<f64>,
    /// The winner with only this value changed, if that was evaluated.
    pub alone_us: Option<f64>,
    /// Whether the winner has it.
    pub wins: bool,
}

/// Variants that one stage refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// The stage.
    pub stage: Stage,
    /// How many.
    pub count: usize,
    /// The reason of the first.
    pub first: String,
}

/// The winner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Winner {
    /// Its name.
    pub candidate: String,
    /// Its macros.
    pub settings: BTreeMap<String, String>,
    /// Its time.
    #[serde(flatten)]
    pub score: Score,
    /// Compared with the candidate as the task has it: (start − winner) / start.
    pub reduction: Option<LatencyReduction>,
    /// The gate's verdict on it.
    pub verdict: Option<Verdict>,
    /// Why.
    pub reason: String,
    /// The run in the ledger.
    pub run: String,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: &'static str,
    /// The candidate that was varied.
    pub candidate: String,
    /// The case whose time determines the ranking.
    pub case: Option<String>,
    /// How points were chosen.
    pub strategy: Strategy,
    /// What it drew from.
    pub seed: u64,
    /// Combinations of the space.
    pub combinations: usize,
    /// Those that constraints exclude in addition.
    pub forbidden: usize,
    /// The maximum number of evaluations.
    pub budget: usize,
    /// Whether each went through all stages.
    pub full: bool,
    /// Variants that went through all stages.
    pub judged: usize,
    /// The candidate as the task has it, if it is a point of the space.
    pub start: Option<Score>,
    /// The winner; `None` if no variant passes all stages.
    pub winner: Option<Winner>,
    /// All evaluated variants: the best first, then in the order of their evaluation.
    pub evaluations: Vec<Evaluation>,
    /// The effect of each value.
    pub effects: Vec<Effect>,
    /// Macros that never changed the program, with the number of comparisons.
    pub dead: Vec<(String, usize)>,
    /// Variants by the stage that refused them.
    pub refusals: Vec<Refusal>,
    /// Evaluations that were run now instead of read from the ledger.
    #[serde(skip)]
    pub fresh: usize,
    /// Whether a stop was requested.
    pub stopped: bool,
    /// Whether the time limit was reached first.
    pub out_of_time: bool,
}

impl Study {
    /// 0: the winner passes · 1: every variant was refused · 4: the time limit was reached · 5: stopped, or none
    /// could be evaluated.
    pub fn exit_code(&self) -> u8 {
        let kernels = self.evaluations.iter().any(|one| {
            matches!(&one.standing, Standing::Refused { failed: true, .. }) || one.score().is_some()
        });
        match &self.winner {
            _ if self.stopped => 5,
            _ if self.out_of_time => 4,
            Some(winner) if winner.verdict == Some(Verdict::Inconclusive) => 5,
            Some(winner) if winner.verdict == Some(Verdict::Reject) => 1,
            Some(_) => 0,
            None if kernels => 1,
            None => 5,
        }
    }
}

/// A search in progress.
struct Tuning<'t, J> {
    judges: &'t J,
    base: &'t Candidate,
    points: &'t Points,
    settings: &'t Settings,
    full: bool,
    search: Search<'t>,
    evaluations: Vec<Evaluation>,
    programs: BTreeMap<Hash, String>,
    fresh: usize,
    judged: BTreeSet<String>,
    stopped: bool,
}

/// Searches the space that the task declares for a candidate.
pub fn tune<J: Judges>(
    judges: &J,
    candidate: &str,
    settings: &Settings,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Study, TuneError<J::Error>> {
    let task = judges.task();
    let no_space = || TuneError::NoSpace(candidate.to_owned());
    let space = task.spaces.iter().find(|space| space.candidate.value == candidate).ok_or_else(no_space)?;
    let base = task.candidate(candidate).ok_or_else(no_space)?;
    let has = |stage: Stage| task.gates.iter().any(|gate| gate.stage.value == stage);
    let ranks = has(Stage::Model) && has(Stage::Counters);
    if !ranks && !judges.times() {
        return Err(TuneError::NoTimes);
    }
    judges.check_task().map_err(TuneError::Judges)?;
    let points = Points::of(space, &task.integers(base)).map_err(TuneError::Points)?;
    let budget = settings.budget.unwrap_or(match settings.strategy {
        Strategy::Grid => points.len(),
        Strategy::Random | Strategy::Evolution => (points.len() / 4).max(SMALL),
    });
    let budget = budget.min(points.len());
    let start = points.start(task, base);
    let shape = Evolution::for_budget(budget);
    let mut tuning = Tuning {
        judges,
        base,
        points: &points,
        settings,
        // Only correct variants may be timed.
        full: settings.full || judges.times(),
        search: Search::new(&points, settings.strategy, shape, settings.seed, start),
        evaluations: Vec::new(),
        programs: BTreeMap::new(),
        fresh: 0,
        judged: BTreeSet::new(),
        stopped: false,
    };
    let begun = Instant::now();
    let mut out_of_time = false;
    while tuning.evaluations.len() < budget && !tuning.stopped {
        out_of_time = settings.time_limit.is_some_and(|limit| begun.elapsed() >= limit);
        if out_of_time {
            break;
        }
        let best = tuning.search.ranking().first().map(|(_, score)| *score);
        tell(Event::Generation { done: tuning.evaluations.len(), of: budget, best });
        let next = tuning.search.ask(budget - tuning.evaluations.len());
        if next.is_empty() {
            break;
        }
        tuning.evaluate(&next, tell)?;
        // The other strategies do not use the scores.
        if settings.strategy == Strategy::Evolution && !tuning.stopped {
            tuning.lead(tell)?;
        }
    }
    let leader = if tuning.stopped { None } else { tuning.lead(tell)? };
    let winner = match leader {
        Some(leader) => tuning.winner(leader, start)?,
        None => None,
    };
    Ok(tuning.into_study(space, budget, (start, winner, out_of_time)))
}

impl<J: Judges> Tuning<'_, J> {
    /// The task with variants of points, and their names.
    fn variants(&self, numbers: &[usize]) -> (Task, Vec<String>) {
        let mut task = self.judges.task().clone();
        let mut names = Vec::new();
        for number in numbers {
            // The knobs were validated when the task was read.
            if let Ok(variant) = task.variant(&self.base.name, &self.points.settings(*number)) {
                names.push(variant.name.value.clone());
                task.candidates.push(variant);
            }
        }
        (task, names)
    }

    fn screen(
        &self,
        numbers: &[usize],
        stages: Option<&[Stage]>,
        programs: &BTreeMap<Hash, String>,
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Screened>, TuneError<J::Error>> {
        let (task, names) = self.variants(numbers);
        let screening = Screening { candidates: &names, stages, programs, names_programs: false };
        self.judges.screen(&task, &screening, &self.options(), tell).map_err(TuneError::Judges)
    }

    fn options(&self) -> Options {
        let Settings { jobs, arguments, allowance, .. } = self.settings;
        Options { jobs: *jobs, arguments: arguments.clone(), allowance: *allowance, ..Options::default() }
    }

    /// The result of a variant; `None` if a stop interrupted it.
    fn standing(&self, one: &Screened, full: bool) -> Option<Standing> {
        let Some(reason) = &one.given_up else {
            return standing(self.judges.task(), self.base, &one.steps, full);
        };
        let stage = self.judges.task().gates.first().map_or(Stage::Build, |gate| gate.stage.value);
        Some(Standing::Refused { stage, reason: reason.clone(), failed: false })
    }

    /// Takes points through the stages that give a time.
    fn evaluate(
        &mut self,
        numbers: &[usize],
        tell: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<(), TuneError<J::Error>> {
        let stages = if self.full { None } else { Some(&TIMED[..]) };
        let screened = self.screen(numbers, stages, &self.programs, tell)?;
        self.stopped |= self.judges.is_stopped();
        for (number, one) in numbers.iter().zip(screened) {
            let standing = match &one.same_as {
                Some(other) => self
                    .evaluations
                    .iter()
                    .find(|done| done.candidate == *other)
                    .map(|done| done.standing.clone()),
                None => self.standing(&one, self.full),
            };
            // A stop interrupted it.
            let Some(standing) = standing else { continue };
            if let (Some(program), None) = (one.program, &one.same_as) {
                self.programs.insert(program, one.candidate.clone());
            }
            if self.full && one.same_as.is_none() {
                self.judged.insert(one.candidate.clone());
            }
            self.fresh += usize::from(!one.known);
            let evaluation = Evaluation {
                candidate: one.candidate,
                point: *number,
                settings: self.points.settings(*number).into_iter().collect(),
                standing,
                same_as: one.same_as,
                program: one.program,
            };
            self.search.tell(*number, evaluation.score());
            self.evaluations.push(evaluation);
        }
        Ok(())
    }

    /// Takes the current best through all stages, until one passes all of them.
    fn lead(&mut self, tell: &(dyn Fn(Event<'_>) + Sync)) -> Result<Option<usize>, TuneError<J::Error>> {
        loop {
            let Some((number, _)) = self.search.ranking().first().copied() else { return Ok(None) };
            // Among equal programs, the evaluated one stands for all.
            let Some(place) = self.evaluations.iter().position(|one| one.point == number) else {
                return Ok(None);
            };
            let place = match &self.evaluations[place].same_as {
                Some(other) => {
                    self.evaluations.iter().position(|one| one.candidate == *other).unwrap_or(place)
                }
                None => place,
            };
            let leader = self.evaluations[place].clone();
            if let Standing::Ranked { full: true, .. } = leader.standing {
                return Ok(Some(leader.point));
            }
            tell(Event::Leads(&leader.candidate));
            let screened = self.screen(&[leader.point], None, &BTreeMap::new(), tell)?;
            self.stopped |= self.judges.is_stopped();
            let standing = screened.first().and_then(|one| self.standing(one, true));
            let Some(standing) = standing.filter(|_| !self.stopped) else {
                self.stopped = true;
                return Ok(None);
            };
            self.judged.insert(leader.candidate.clone());
            for one in self.evaluations.iter_mut().filter(|one| one.program == leader.program) {
                one.standing = standing.clone();
                self.search.tell(one.point, one.score());
            }
        }
    }

    /// Records the winner as its own run, which reports show next.
    fn winner(&self, number: usize, start: Option<usize>) -> Result<Option<Winner>, TuneError<J::Error>> {
        let (task, names) = self.variants(&[number]);
        let Some(name) = names.first() else { return Ok(None) };
        let judged = self.judges.decide(&task, name, &self.options()).map_err(TuneError::Judges)?;
        let Some(judged) = judged else { return Ok(None) };
        let Some(won) = self.evaluations.iter().find(|one| one.point == number) else { return Ok(None) };
        let Some(score) = won.score() else { return Ok(None) };
        let begun = start.and_then(|start| self.evaluations.iter().find(|one| one.point == start)?.score());
        let begun = begun.filter(|begun| begun.basis == score.basis);
        Ok(Some(Winner {
            candidate: won.candidate.clone(),
            settings: won.settings.clone(),
            score,
            reduction: begun.map(|begun| LatencyReduction::of(begun.us, score.us)),
            verdict: judged.decision.as_ref().map(|decision| decision.verdict),
            reason: judged.decision.map(|decision| decision.reason).unwrap_or_default(),
            run: judged.run,
        }))
    }

    fn into_study(
        self,
        space: &Space,
        budget: usize,
        (start, winner, out_of_time): (Option<usize>, Option<Winner>, bool),
    ) -> Study {
        let begun = start.and_then(|start| self.evaluations.iter().find(|one| one.point == start)?.score());
        let best = winner.as_ref().and_then(|winner| {
            self.evaluations.iter().find(|one| one.candidate == winner.candidate).map(|one| one.point)
        });
        let effects = effects(self.points, &self.evaluations, best);
        let dead = dead(self.points, &self.evaluations);
        let mut refusals: Vec<Refusal> = Vec::new();
        for one in &self.evaluations {
            let Standing::Refused { stage, reason, .. } = &one.standing else { continue };
            match refusals.iter_mut().find(|other| other.stage == *stage) {
                Some(other) => other.count += 1,
                None => refusals.push(Refusal { stage: *stage, count: 1, first: reason.clone() }),
            }
        }
        refusals.sort_by_key(|one| one.stage);
        let mut evaluations = self.evaluations;
        evaluations.sort_by(|a, b| match (a.score(), b.score()) {
            (Some(a_score), Some(b_score)) => a_score.order(&b_score).then(a.point.cmp(&b.point)),
            (a_score, b_score) => b_score.is_some().cmp(&a_score.is_some()),
        });
        Study {
            schema: super::SCHEMA,
            candidate: space.candidate.value.clone(),
            case: first_case(self.judges.task(), self.base),
            strategy: self.settings.strategy,
            seed: self.settings.seed,
            combinations: self.points.len(),
            forbidden: self.points.forbidden(),
            budget,
            full: self.full,
            judged: self.judged.len(),
            start: begun,
            winner,
            evaluations,
            effects,
            dead,
            refusals,
            fresh: self.fresh,
            stopped: self.stopped,
            out_of_time,
        }
    }
}

/// The first counted shape: its time determines the ranking.
fn first_shape<'t>(task: &'t Task, candidate: &Candidate) -> Option<&'t str> {
    let counted = task.gates.iter().find(|gate| gate.stage.value == Stage::Counters)?;
    let takes = |list: &Option<Vec<warpproof_task::At<String>>>, name: &str| {
        list.as_ref().is_none_or(|list| list.iter().any(|one| one.value == name))
    };
    let shape = task.shapes.iter().find(|shape| {
        !shape.hidden && takes(&counted.shapes, &shape.name) && takes(&candidate.shapes, &shape.name)
    })?;
    Some(&shape.name.value)
}

/// That shape and the first device, in readable form.
fn first_case(task: &Task, candidate: &Candidate) -> Option<String> {
    let device = task.target.devices.first()?;
    Some(format!("{} on {}", first_shape(task, candidate)?, device.value))
}

/// The result of a variant from its steps; `None` if steps are missing.
fn standing(task: &Task, base: &Candidate, steps: &[StepRecord], full: bool) -> Option<Standing> {
    let optional = |stage: Stage| task.gates.iter().any(|gate| gate.stage.value == stage && gate.optional);
    let red = steps.iter().find(|step| match step.outcome {
        // A variant that was timed and is not faster is a solution, though not the best; one that could not be timed
        // is not.
        Outcome::Fail | Outcome::Inconclusive => step.stage != Stage::Speed || step.figures.is_empty(),
        Outcome::Skipped => full && !optional(step.stage) && !verdict::may_be_skipped(step.stage),
        Outcome::Pass => false,
    });
    if let Some(step) = red {
        let failed = step.outcome == Outcome::Fail;
        return Some(Standing::Refused { stage: step.stage, reason: step.reason.clone(), failed });
    }
    let last = steps.last()?;
    if last.stage < Stage::Model {
        return None;
    }
    let Some(score) = score(steps, first_shape(task, base)) else {
        let model = steps.iter().find(|step| step.stage == Stage::Model).unwrap_or(last);
        let reason = if model.reason.is_empty() { "the model predicted no time" } else { &model.reason };
        return Some(Standing::Refused { stage: Stage::Model, reason: reason.to_owned(), failed: false });
    };
    Some(Standing::Ranked { score, full })
}

/// The time of the first case: measured, from the schedule, or the bound. Times of other shapes or devices do not
/// count.
fn score(steps: &[StepRecord], shape: Option<&str>) -> Option<Score> {
    let figure = |stage: Stage, wanted: &str, kind: FigureKind| {
        let figures = steps.iter().filter(|step| step.stage == stage).flat_map(|step| &step.figures);
        figures.into_iter().find(|figure: &&Figure| figure.name == wanted && figure.kind == kind)
    };
    // Figures of the first device name the shape, and the type if there are several; figures of other devices also
    // name the device.
    let of_shape = |figure: &&Figure| {
        let rest = shape.and_then(|shape| figure.at.as_deref()?.strip_prefix(shape));
        rest.is_some_and(|rest| !rest.contains(" on ") && (rest.is_empty() || rest.starts_with(',')))
    };
    let bound = figure(Stage::Model, name::LATENCY_BOUND, FigureKind::Predicted).filter(of_shape);
    let schedule = figure(Stage::Model, name::LATENCY, FigureKind::Predicted)
        .filter(|schedule| bound.is_some_and(|bound| bound.at == schedule.at));
    let measured = figure(Stage::Speed, name::LATENCY, FigureKind::Measured);
    let found = [(Basis::Measured, measured), (Basis::Schedule, schedule), (Basis::Bound, bound)];
    let (basis, figure) = found.into_iter().find_map(|(basis, figure)| Some((basis, figure?)))?;
    Some(Score { basis, us: figure.value.get() })
}

/// The effect of each value.
fn effects(points: &Points, evaluations: &[Evaluation], best: Option<usize>) -> Vec<Effect> {
    let winner = best.map(|best| points.get(best));
    let basis = best.and_then(|best| evaluations.iter().find(|one| one.point == best)?.score());
    let mut effects = Vec::new();
    for (at, knob) in points.knobs().iter().enumerate() {
        for (place, value) in knob.values.iter().enumerate() {
            let mine = || evaluations.iter().filter(|one| points.get(one.point).get(at) == Some(&place));
            let scores = || mine().filter_map(Evaluation::score);
            let comparable = |score: &Score| basis.is_none_or(|basis| basis.basis == score.basis);
            let alone = winner.and_then(|winner| {
                let mut other = winner.to_vec();
                *other.get_mut(at)? = place;
                let number = points.number(&other)?;
                evaluations.iter().find(|one| one.point == number)?.score().filter(comparable)
            });
            effects.push(Effect {
                knob: knob.name.value.clone(),
                value: value.clone(),
                evaluated: mine().count(),
                ranked: scores().count(),
                best_us: scores().filter(comparable).map(|score| score.us).min_by(f64::total_cmp),
                alone_us: alone.map(|score| score.us),
                wins: winner.is_some_and(|winner| winner.get(at) == Some(&place)),
            });
        }
    }
    effects
}

/// Macros that do not change the program in any two variants that otherwise agree.
fn dead(points: &Points, evaluations: &[Evaluation]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, knob) in points.knobs().iter().enumerate() {
        // Programs of variants that differ only in this macro.
        let mut groups: BTreeMap<Vec<usize>, Vec<Hash>> = BTreeMap::new();
        for one in evaluations {
            let Some(program) = one.program else { continue };
            let mut others = points.get(one.point).to_vec();
            if at < others.len() {
                others.remove(at);
            }
            groups.entry(others).or_default().push(program);
        }
        let compared: usize = groups.values().map(|group| group.len().saturating_sub(1)).sum();
        let alike = groups.values().all(|group| group.iter().all(|program| Some(program) == group.first()));
        if compared > 0 && alike {
            found.push((knob.name.value.clone(), compared));
        }
    }
    found
}
