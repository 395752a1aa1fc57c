//! The stages: each takes a compiled candidate and returns PASS, FAIL, INCONCLUSIVE or SKIPPED, with its figures.
//!
//! A stage does not depend on the ledger or on the other stages. Its input is [`Bench`]; its result is an [`Ending`].
//! Long stages work in parts, one for each size, so that a stopped run loses at most one part.

mod audit;
mod budget;
mod build;
mod case;
pub(crate) mod checks;
pub(crate) mod correct;
mod counters;
mod covered;
mod draw;
mod external;
mod identity;
mod launch;
mod layout;
mod model;
mod profile;
mod reach;
mod rehearse;
mod room;
mod speed;
mod staged;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use warpproof_sim::Device;
use warpproof_sim::memory::{HEAP_BASE, Heap};
use warpproof_sim::stop::{Stop, StopKind};
use warpproof_toolchain::Toolchain;

pub use build::{Built, Programs, compile};
pub use case::CaseName;
use draw::Places;
pub use rehearse::Rehearsal;
pub use speed::{Clocks, Profiled, Side};
pub use staged::{Compared, Staged, StagedBuffer, StagedLaunch};

use crate::limits::{Allowance, Purpose, flag_of};
use crate::reference::python::Workers;
use warpproof_evidence::counterexample::Counterexample;
use warpproof_evidence::record::{Comparison, Figure, FigureKind, Obstacle, Outcome, Stage};
use warpproof_evidence::tested::Tested;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Candidate, Distribution, FigureThreshold, Problem, Size, Task};

/// Device memory begins at a page drawn for the run, out of this number.
const PAGE: u64 = 4096;
const PAGES: u64 = 1 << 20;

/// What all stages of a run share.
pub struct Bench<'a> {
    /// The task.
    pub task: &'a Task,
    /// The directory of the task's files.
    pub directory: &'a Path,
    /// NVIDIA's compiler.
    pub toolchain: &'a Toolchain,
    /// Drawn for this run: the source of secret seeds, hidden shapes and measured inputs.
    pub secret: u64,
    /// What a launch may use.
    pub allowance: Allowance,
    /// A secret that the user chose: it adds seeds and hidden shapes to the drawn ones.
    pub chosen: Option<u64>,
    /// Threads of the host that a launch on the software GPU may use.
    pub threads: usize,
    /// The clocks that time kernels, if available.
    pub clocks: Option<&'a dyn Clocks>,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
    /// The processes that call a reference in Python.
    pub python: &'a Workers,
}

/// How a stage, or a part of it, ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, in one sentence. Only PASS may omit it.
    pub reason: String,
    /// What prevented a result.
    pub obstacle: Option<Obstacle>,
    /// Its numbers.
    pub figures: Vec<Figure>,
    /// Objects to store, by name.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// A counterexample, if it failed.
    pub counterexample: Option<Box<Counterexample>>,
    /// What it was tested on.
    pub tested: Option<Box<Tested>>,
}

impl Ending {
    /// The candidate passed.
    pub fn pass(figures: Vec<Figure>) -> Ending {
        Ending { outcome: Outcome::Pass, ..Ending::fail(String::new(), figures) }
    }

    /// The kernel is wrong.
    pub fn fail(reason: impl Into<String>, figures: Vec<Figure>) -> Ending {
        let reason = reason.into();
        let (obstacle, objects, counterexample, tested) = (None, BTreeMap::new(), None, None);
        Ending { outcome: Outcome::Fail, reason, obstacle, figures, objects, counterexample, tested }
    }

    /// The stage was not run.
    pub fn skipped(reason: impl Into<String>) -> Ending {
        Ending { outcome: Outcome::Skipped, ..Ending::fail(reason, Vec::new()) }
    }

    /// Not run for lack of something that may be installed next time.
    pub fn absent(reason: impl Into<String>) -> Ending {
        Ending { obstacle: Some(Obstacle::Absent), ..Ending::skipped(reason) }
    }

    /// The result is unknown.
    pub fn inconclusive(reason: impl Into<String>, obstacle: Option<Obstacle>) -> Ending {
        Ending { outcome: Outcome::Inconclusive, obstacle, ..Ending::fail(reason, Vec::new()) }
    }

    /// Adds the failing case, unless one is set.
    #[must_use]
    pub fn shown_by(mut self, case: &CaseName) -> Ending {
        if self.outcome != Outcome::Pass && self.counterexample.is_none() {
            self.counterexample = Some(Box::new(Counterexample::of_case(case.to_string())));
        }
        self
    }

    /// Adds an object to store.
    #[must_use]
    pub fn with_object(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Ending {
        self.objects.insert(name.to_owned(), bytes.into());
        self
    }

    /// Compares figures with the task's limits for this stage. An exceeded limit fails; a missing figure makes the
    /// stage inconclusive.
    fn held_to(mut self, limits: &[FigureThreshold]) -> Ending {
        for limit in limits {
            let op = limit.threshold.comparison;
            let (mut found, mut broken) = (false, None);
            for figure in self.figures.iter_mut().filter(|figure| figure.name == limit.figure.value) {
                found = true;
                let held = figure.clone().held_to(op, limit.threshold.value, &limit.threshold.source);
                if let Ok(held) = held {
                    *figure = held;
                }
                if figure.holds() == Some(false) && broken.is_none() {
                    let at = figure.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                    broken = Some(format!("{} {}", figure.value, figure.unit).trim_end().to_owned() + &at);
                }
            }
            let name = &limit.figure.value;
            if let Some(value) = broken.filter(|_| self.outcome == Outcome::Pass) {
                self.outcome = Outcome::Fail;
                let (limit, source) = (limit.threshold.value, &limit.threshold.source);
                self.reason = format!("{name} is {value}; the task requires {op} {limit}: {source}");
            } else if !found && self.outcome == Outcome::Pass {
                self.outcome = Outcome::Inconclusive;
                self.obstacle = Some(Obstacle::Input);
                let mut names: Vec<&str> = self.figures.iter().map(|figure| figure.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                let names = names.join(", ");
                self.reason = format!(
                    "the task limits the figure `{name}`, which this stage does not report; it reports {names}"
                );
            }
        }
        self
    }
}

/// Why a stage or a part of it cannot continue.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It ends here.
    Ends(Box<Ending>),
    /// A stop was requested: partial results are discarded.
    Stopped,
}

impl From<Ending> for Trouble {
    fn from(ending: Ending) -> Trouble {
        Trouble::Ends(Box::new(ending))
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        unfit(problem.sentence)
    }
}

/// The task requests something that is not possible.
pub(crate) fn unfit(reason: impl Into<String>) -> Trouble {
    Ending::inconclusive(reason, Some(Obstacle::Input)).into()
}

/// The ending for a launch that did not complete.
pub(crate) fn stopped(stop: &Stop, case: &str) -> Ending {
    let place = stop.place.as_ref().map(|place| format!(" at {}", place_of(place))).unwrap_or_default();
    let reason = format!("{case}: {}{place}", stop.sentence);
    match stop.kind {
        StopKind::Unsupported | StopKind::Internal => Ending::inconclusive(
            format!("{reason}; not supported by warpproof, not a bug in the kernel"),
            Some(Obstacle::Unsupported),
        ),
        StopKind::Limit => {
            let flag = flag_of(stop).map(|flag| format!("; raise the limit with {flag}")).unwrap_or_default();
            Ending::inconclusive(format!("{reason}{flag}"), Some(Obstacle::Limit))
        }
        StopKind::Launch => Ending::inconclusive(reason, Some(Obstacle::Input)),
        _ => Ending::fail(reason, Vec::new()),
    }
}

/// The CUDA line of a place, innermost call first, or its PTX line.
fn place_of(place: &warpproof_sim::stop::Place) -> String {
    // Prefer the line in the kernel's own file: a toolkit header is seldom the cause.
    let own = place.source.iter().find(|line| !line.file.starts_with('/')).or(place.source.first());
    own.map_or_else(|| format!("PTX line {}", place.ptx_line), |line| format!("{}:{}", line.file, line.line))
}

/// A part of a stage: one size of the task.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name: the size's.
    pub name: String,
    /// The size.
    pub size: Size,
}

impl<'a> Bench<'a> {
    /// Whether a stop was requested.
    pub(crate) fn check_stop(&self) -> Result<(), Trouble> {
        if self.stop.load(Ordering::Relaxed) { Err(Trouble::Stopped) } else { Ok(()) }
    }

    /// The stage's limits in the task.
    fn limits(&self, stage: Stage) -> &'a [FigureThreshold] {
        let gate = self.task.gates.iter().find(|gate| gate.stage.value == stage);
        gate.map_or(&[], |gate| &gate.thresholds)
    }

    /// The sizes a candidate takes in a stage; without a stage, in any.
    pub fn sizes(&self, candidate: &Candidate, stage: Option<Stage>) -> Vec<Size> {
        let gate = stage.and_then(|stage| self.task.gates.iter().find(|gate| gate.stage.value == stage));
        let mut sizes = self.all_sizes();
        let named = |list: Option<&Vec<warpproof_task::At<String>>>, size: &Size| {
            let shape = size.name.split(':').next().unwrap_or_default();
            list.is_none_or(|list| list.iter().any(|name| name.value == shape))
        };
        sizes.retain(|size| {
            named(candidate.shapes.as_ref(), size) && named(gate.and_then(|gate| gate.shapes.as_ref()), size)
        });
        sizes
    }

    /// The parts of a stage that has parts.
    pub fn parts(&self, candidate: &Candidate, stage: Stage) -> Vec<Part> {
        match stage {
            Stage::Correct | Stage::Checks | Stage::Counters => {
                let mut sizes = self.sizes(candidate, Some(stage));
                // Counts are compared between runs, so they use declared shapes only, not tails or drawn sizes.
                sizes.retain(|size| stage != Stage::Counters || !(size.hidden || size.name.contains(':')));
                sizes.into_iter().map(|size| Part { name: size.name.clone(), size }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Runs one part of a stage.
    pub fn part(
        &self,
        stage: Stage,
        candidate: &Candidate,
        built: &Built,
        baseline: Option<(&Candidate, &Built)>,
        part: &Part,
    ) -> Result<Ending, Trouble> {
        if let Some(ending) = room::refused(self, candidate, &part.size) {
            return Ok(ending);
        }
        let done = match (stage, &built.programs) {
            (Stage::Counters, _) => counters::part(self, (candidate, built), baseline, part),
            (_, Programs::Launched { .. }) => self.modules(stage, candidate, built, baseline, part),
            (Stage::Correct, Programs::Family { .. }) => {
                built.plan(part).and_then(|(plan, ptx)| plan.correct(self, ptx, part))
            }
            (_, Programs::Family { .. }) => {
                built.plan(part).and_then(|(plan, ptx)| plan.checks(self, candidate, ptx, part))
            }
        };
        match done {
            Err(Trouble::Ends(ending)) => Ok(*ending),
            done => done,
        }
    }

    /// A part of a launched candidate, on each of its modules.
    fn modules(
        &self,
        stage: Stage,
        candidate: &Candidate,
        built: &Built,
        baseline: Option<(&Candidate, &Built)>,
        part: &Part,
    ) -> Result<Ending, Trouble> {
        let modules = built.distinct();
        let several = modules.len() > 1;
        let mut ends = Vec::new();
        for module in modules {
            let mut ending = self.on_module(stage, candidate, module, baseline, (part, None))?;
            for (place, small) in Bench::residues(part) {
                if ending.outcome != Outcome::Pass {
                    break;
                }
                let one = self.on_module(stage, candidate, module, baseline, (&small, Some(place)))?;
                // Record their figures only if something is wrong.
                if one.outcome != Outcome::Pass {
                    ending = one;
                }
            }
            if several && !ending.reason.is_empty() {
                ending.reason = format!("{}: {}", module.arch, ending.reason);
            }
            ends.push((module.arch.to_owned(), ending));
        }
        if ends.is_empty() {
            return Err(unfit("the task names no architecture"));
        }
        Ok(sum(ends))
    }

    /// The cases of a part, or one of them, on a module.
    fn on_module(
        &self,
        stage: Stage,
        candidate: &Candidate,
        module: build::Module<'_>,
        baseline: Option<(&Candidate, &Built)>,
        (part, one): (&Part, Option<usize>),
    ) -> Result<Ending, Trouble> {
        let done = if stage == Stage::Correct {
            correct::part(self, candidate, module, baseline, (part, one))
        } else {
            checks::part(self, candidate, module, (part, one), checks::schedules(self))
        };
        let mut ending = match done {
            Ok(ending) => ending,
            Err(Trouble::Ends(ending)) => *ending,
            Err(Trouble::Stopped) => return Err(Trouble::Stopped),
        };
        if stage == Stage::Correct && ending.outcome == Outcome::Fail {
            self.explain(&mut ending, candidate, module, (part, one));
        }
        Ok(ending)
    }

    /// Adds findings of the checks to wrong values, which seldom show the cause: first from the failing case, else
    /// from any other. A finding of another case is reported with that case, because the command for the failing case
    /// does not show it.
    fn explain(
        &self,
        ending: &mut Ending,
        candidate: &Candidate,
        module: build::Module<'_>,
        (part, one): (&Part, Option<usize>),
    ) {
        let fails =
            |checked: Result<Ending, Trouble>| checked.ok().filter(|end| end.outcome == Outcome::Fail);
        let wrong = ending.counterexample.as_ref().map(|shown| shown.case.clone());
        let mut cases = self.cases_of(candidate, one);
        cases.retain(|case| Some(self.case_name(part, case).to_string()) == wrong);
        let same = (!cases.is_empty()).then(|| checks::on(self, candidate, module, part, cases, 1));
        let Some(checked) =
            same.and_then(fails).or_else(|| fails(checks::part(self, candidate, module, (part, one), 1)))
        else {
            return;
        };
        let found = checked.counterexample;
        let elsewhere = found.as_ref().map(|found| &found.case).filter(|case| Some(*case) != wrong.as_ref());
        let place = elsewhere.map(|case| format!(" in another case, {case}")).unwrap_or_default();
        ending.reason =
            format!("{}; possible cause, found by the checks{place}: {}", ending.reason, checked.reason);
        ending.objects.extend(checked.objects);
        if let (None, Some(own), Some(found)) = (elsewhere, &mut ending.counterexample, &found) {
            own.findings.clone_from(&found.findings);
        }
    }

    /// Combines the parts of a stage.
    pub fn whole(&self, stage: Stage, parts: Vec<(String, Ending)>) -> Ending {
        let summed = match stage {
            Stage::Correct => covered::sum(correct::sum(parts)),
            _ => sum(parts),
        };
        summed.held_to(self.limits(stage))
    }

    /// Runs a stage that has no parts.
    pub fn stage(
        &self,
        stage: Stage,
        candidate: &Candidate,
        built: &Built,
        baseline: Option<(&Candidate, &Built)>,
    ) -> Result<Ending, Trouble> {
        self.check_stop()?;
        let done = match stage {
            Stage::Build => Ok(build::ending(built)),
            Stage::Budget => budget::judge(self, candidate, built),
            Stage::Model => model::judge(self, candidate, built),
            Stage::Speed => speed::judge(self, candidate, built, baseline),
            Stage::Profile => profile::judge(self, candidate, built),
            Stage::External => external::judge(self, candidate),
            Stage::Counters if !self.sizes(candidate, Some(stage)).is_empty() => {
                Ok(Ending::skipped("the stage uses only declared shapes, and all selected shapes are hidden"))
            }
            Stage::Counters | Stage::Correct | Stage::Checks => {
                Ok(Ending::skipped("the candidate supports none of the shapes of this stage"))
            }
        };
        match done {
            Err(Trouble::Ends(ending)) => Ok(*ending),
            done => done,
        }
        .map(|ending| ending.held_to(self.limits(stage)))
    }

    /// A software GPU for a launch, with limits that a non-terminating kernel reaches in about a minute. The
    /// placement of arrays is drawn for the run.
    pub(crate) fn device(&self, purpose: Purpose) -> Device {
        self.device_at(Places::Drawn, purpose)
    }

    /// A software GPU with arrays at other addresses.
    fn device_at(&self, places: Places, purpose: Purpose) -> Device {
        let base = HEAP_BASE + PAGE * (self.places(places) % PAGES);
        let heap = Heap::at(base, self.allowance.arrays(purpose));
        self.allowance.device(purpose).with_threads(self.threads).with_heap(heap)
    }
}

/// One set of inputs.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    dtype: Dtype,
    distribution: &'a Distribution,
    seed: u64,
    /// A readable name.
    name: String,
    /// The values planted into its inputs, if the case is not one of the task's own.
    planted: Option<reach::Planted>,
}

/// Combines parts: the first that is wrong decides, and all figures are kept.
fn sum(parts: Vec<(String, Ending)>) -> Ending {
    let mut all = Ending::pass(Vec::new());
    // A wrong kernel is wrong, whatever else is unknown.
    let rank = |outcome: Outcome| match outcome {
        Outcome::Fail => 3,
        Outcome::Inconclusive => 2,
        Outcome::Skipped => 1,
        Outcome::Pass => 0,
    };
    for (_, part) in parts {
        if rank(part.outcome) > rank(all.outcome) {
            all.outcome = part.outcome;
            all.reason = part.reason;
            all.obstacle = part.obstacle;
            all.counterexample = part.counterexample;
        }
        if let Some(tested) = &part.tested {
            all.tested.get_or_insert_default().add(tested);
        }
        all.figures.extend(part.figures);
        all.objects.extend(part.objects);
    }
    all
}

/// A number that is counted or computed exactly from counts; a number that is not finite is left out.
fn computed(figures: &mut Vec<Figure>, name: &str, value: f64, unit: &str, at: &str) {
    figures.extend(Figure::new(name, value, unit, FigureKind::Counted).map(|figure| figure.at(at)));
}

/// Like [`computed`], with a limit. Returns whether the limit is met; a value that is not finite meets none.
fn limited(
    figures: &mut Vec<Figure>,
    figure: (&str, f64, &str),
    (op, limit, source): (Comparison, f64, &str),
    at: Option<&str>,
) -> bool {
    let (name, value, unit) = figure;
    let made =
        Figure::new(name, value, unit, FigureKind::Counted).and_then(|made| made.held_to(op, limit, source));
    let Ok(made) = made else { return false };
    let made = match at {
        Some(at) => made.at(at),
        None => made,
    };
    let held = made.holds().unwrap_or(false);
    figures.push(made);
    held
}
