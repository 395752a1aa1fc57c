//! A run of the gate: takes candidates through the stages, identifies every step by its content, and records
//! everything.
//!
//! A step whose content was evaluated before is read from the ledger instead of repeated. Each result is in the
//! ledger before the next step begins, so an interrupted run loses only the parts in progress.
//!
//! **Secrets.** Hidden shapes, secret seeds and measured inputs are drawn for each run and stored in its record. A
//! step's key does not include the secret: every result was obtained with a secret that the candidate's author did
//! not know, and a changed candidate is new content with a new secret. A secret that the user chooses adds cases to
//! the drawn ones.

mod adopt;
mod error;
mod keys;
mod known;
mod screen;
mod store;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use warpproof_model::Device;
use warpproof_toolchain::{Part, Toolchain};

pub use adopt::{Elsewhere, adopt};
pub use error::SessionError;
pub use known::lasting;
pub use screen::{Screen, Screened, Screening};

use crate::limits::Allowance;
use crate::reference::python::Workers;
use crate::stage::{Bench, Built, Clocks, Ending, Trouble, compile};
use crate::steps::{self, Done, Rules, Step};
use keys::Keys;
use store::Store;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{Index, Ledger, utc};
use warpproof_evidence::record::{
    Body, Finite, NoteRecord, Obstacle, Outcome, RunRecord, Stage, StepRecord, Verdict, VerdictRecord,
};
use warpproof_evidence::verdict::{Decision, decide};
use warpproof_evidence::vocabulary as topic;
use warpproof_task::{Candidate, Peer, Role, Task};

/// What a run is about.
pub struct Session<'a> {
    /// The task.
    pub task: &'a Task,
    /// Its text, which is stored.
    pub text: &'a str,
    /// The directory of its files.
    pub directory: &'a Path,
    /// NVIDIA's compiler.
    pub toolchain: &'a Toolchain,
    /// The ledger that receives all records.
    pub ledger: &'a Ledger,
    /// The clocks that time kernels, if available.
    pub clocks: Option<&'a dyn Clocks>,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
}

/// How a run is done.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The candidates; empty: all.
    pub candidates: Vec<String>,
    /// Continue the newest unfinished run of this task.
    pub resume: bool,
    /// Repeat steps whose results are known.
    pub fresh: bool,
    /// Concurrent steps; 0: the number of cores.
    pub jobs: usize,
    /// A secret that the user chose. It adds hidden shapes and secret seeds to the drawn ones and does not replace
    /// any.
    pub chosen: Option<u64>,
    /// The command line, for the record.
    pub arguments: Vec<String>,
    /// Refuse to run a Python reference unless the operating system confines it completely; a fleet requires this.
    pub confined: bool,
    /// What a launch may use.
    pub allowance: Allowance,
}

/// Progress events of a run, sent from any thread.
#[derive(Clone, Debug)]
pub enum Event<'e> {
    /// The plan is ready, with this number of steps.
    Planned {
        /// The run's name.
        run: &'e str,
        /// Steps.
        steps: usize,
    },
    /// A stage begins.
    Begun {
        /// The candidate.
        candidate: &'e str,
        /// The stage.
        stage: Stage,
    },
    /// A part of a stage begins.
    Part {
        /// The candidate.
        candidate: &'e str,
        /// The stage.
        stage: Stage,
        /// The part.
        part: &'e str,
    },
    /// A stage has ended.
    Ended {
        /// Its record.
        step: &'e StepRecord,
        /// Whether it was known before.
        known: bool,
    },
    /// A candidate has its verdict.
    Decided {
        /// The candidate.
        candidate: &'e str,
        /// What was decided.
        decision: &'e Decision,
    },
}

/// One candidate at the end of a run.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The candidate.
    pub candidate: String,
    /// The run that holds its verdict.
    pub run: String,
    /// The decision; `None` if the run was stopped before.
    pub decision: Option<Decision>,
    /// Its steps.
    pub steps: Vec<StepRecord>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run; if all candidates were known, the run that evaluated them last.
    pub run: String,
    /// The candidates, in the task's order.
    pub judged: Vec<Judged>,
    /// Steps that were done.
    pub done: usize,
    /// Steps that were known.
    pub known: usize,
    /// Whether a stop was requested before the end.
    pub stopped: bool,
    /// Whether an earlier run was continued.
    pub resumed: bool,
    /// Whether nothing was written because everything was known.
    pub unchanged: bool,
    /// The secret that the user chose, whose cases were added to the drawn ones.
    pub chosen: Option<u64>,
}

impl RunSummary {
    /// The exit code of the run.
    pub fn exit_code(&self) -> u8 {
        let verdicts = self.judged.iter().map(|one| {
            (one.decision.as_ref().map_or(Verdict::Inconclusive, |decision| decision.verdict), &*one.steps)
        });
        warpproof_evidence::verdict::exit_code(verdicts)
    }
}

/// A candidate after compiling.
struct Compiled<'a> {
    candidate: &'a Candidate,
    built: Result<Built, Ending>,
}

type Told<'t> = &'t (dyn Fn(Event<'_>) + Sync);

impl Session<'_> {
    /// Takes candidates through the stages.
    pub fn run(&self, options: &Options, tell: Told<'_>) -> Result<RunSummary, SessionError> {
        let index = Index::new(self.ledger)?;
        let earlier = known::runs(self.ledger, &index)?;
        let files = keys::files(self)?;
        self.check_version(&index, &earlier, &files)?;
        let chosen = self.chosen(&options.candidates)?;
        let resumed = if options.resume { known::unfinished(self, &index, &earlier)? } else { None };
        let chosen = match &resumed {
            // A run is continued with all its candidates.
            Some(run) => self.chosen(&run.candidates)?,
            None => chosen,
        };
        // A resumed run keeps the chosen secret from its beginning.
        let added = match &resumed {
            Some(run) => run.chosen.as_ref().map(|_| number_of(run, run.chosen.as_ref())).transpose()?,
            None => options.chosen,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = if options.jobs == 0 { cores } else { options.jobs };
        let python = Workers::new((cores / jobs).max(1), options.confined);
        let mut bench = Bench {
            task: self.task,
            directory: self.directory,
            toolchain: self.toolchain,
            secret: 0,
            allowance: options.allowance,
            chosen: added,
            threads: (cores / jobs).max(1),
            clocks: self.clocks,
            stop: self.stop,
            python: &python,
        };
        bench.secret = match &resumed {
            Some(run) => secret_of(run)?,
            None => draw()?,
        };
        // Compile all candidates, so that duplicate programs are found whichever candidates are requested.
        let compiled = compile_all(&bench, &self.in_order(), jobs);
        // Without a clock, a baseline is needed only as a program.
        let judged = if self.clocks.is_some() { self.with_baselines(&chosen) } else { chosen.clone() };
        let keys = Keys::new(self, &compiled, &files, added);
        let programs = programs(&compiled, &chosen);
        if let Some(run) = &resumed {
            // The record already contains the secret, so the author of a candidate that changed since may know it.
            let changed =
                programs.iter().find(|(name, hash)| run.programs.get(*name).is_some_and(|own| own != *hash));
            if let Some((name, _)) = changed {
                return Err(SessionError::Changed(run.run.clone(), format!("candidate `{name}`")));
            }
        }
        if !options.fresh
            && resumed.is_none()
            && let Some(report) = known::all(self, &index, &earlier, &chosen, (&keys, added))?
        {
            return Ok(report);
        }
        if options.fresh {
            // Retry earlier failures with the secret they failed on.
            if let Some(secret) = known::failing_secret(self, &index, &earlier, &compiled, &chosen, &keys)? {
                bench.secret = secret;
            }
        }
        // Plans of hidden shapes depend on the secret.
        let compiled = if options.fresh { compile_all(&bench, &self.in_order(), jobs) } else { compiled };
        let store = Store::new(self.ledger, &index, options.fresh);
        let resumes = resumed.is_some();
        let run = match resumed {
            Some(run) => run.run,
            None => self.begin(&store, &chosen, (bench.secret, programs), options)?,
        };
        self.conduct(
            &Conduct {
                bench: &bench,
                compiled: &compiled,
                keys: &keys,
                store: &store,
                judged: &judged,
                stages: None,
                run: &run,
                resumes,
                jobs,
            },
            tell,
        )
    }

    /// All results of one version of a task must come from the same rules.
    fn check_version(
        &self,
        index: &Index,
        earlier: &[(Hash, RunRecord)],
        files: &str,
    ) -> Result<(), SessionError> {
        let identity = self.task.identity_with(files);
        let mut seen: Vec<Hash> = Vec::new();
        for (_, run) in earlier.iter().filter(|(_, run)| run.task == identity.name) {
            let Some(hash) = run.objects.get("identity").filter(|hash| !seen.contains(hash)) else {
                continue;
            };
            // A run without a decision is not binding: a reference may have been written since.
            if !known::decided(self.ledger, index, &run.run)? {
                continue;
            }
            seen.push(*hash);
            let bytes = self.ledger.object(hash)?;
            if let Ok(known) = serde_json::from_slice::<warpproof_task::Identity>(&bytes) {
                identity.may_follow(&known).map_err(|error| SessionError::Task(error, run.run.clone()))?;
            }
        }
        Ok(())
    }

    fn chosen(&self, names: &[String]) -> Result<Vec<&Candidate>, SessionError> {
        if self.task.candidates.is_empty() {
            return Err(SessionError::NoCandidates);
        }
        for name in names {
            if self.task.candidate(name).is_none() {
                let known = self.task.candidates.iter().map(|one| one.name.value.clone()).collect();
                return Err(SessionError::NoCandidate(name.clone(), known));
            }
        }
        let wanted = |one: &&Candidate| names.is_empty() || names.contains(&one.name.value);
        Ok(self.task.candidates.iter().filter(wanted).collect())
    }

    /// The candidates and, transitively, the baselines they are compared with, in [`in_order`](Self::in_order).
    fn with_baselines(&self, chosen: &[&Candidate]) -> Vec<&Candidate> {
        let mut needed: Vec<&Candidate> = chosen.to_vec();
        let mut next = 0;
        while let Some(candidate) = needed.get(next).copied() {
            next += 1;
            for role in [Role::Speed, Role::Bitwise] {
                let baseline = self.baseline(candidate, role);
                needed.extend(baseline.filter(|one| !needed.iter().any(|other| other.name == one.name)));
            }
        }
        self.in_order().into_iter().filter(|one| needed.iter().any(|other| other.name == one.name)).collect()
    }

    /// All candidates, each after its baselines, otherwise in the task's order.
    fn in_order(&self) -> Vec<&Candidate> {
        let mut order: Vec<&Candidate> = Vec::new();
        // One round per candidate is sufficient: candidates that still wait then form a cycle.
        for last in (0..self.task.candidates.len()).map(|round| round + 1 == self.task.candidates.len()) {
            for candidate in &self.task.candidates {
                let there = |one: &Candidate| order.iter().any(|other| other.name == one.name);
                let roles = [Role::Speed, Role::Bitwise];
                let ready = roles.iter().all(|role| self.baseline(candidate, *role).is_none_or(there));
                if !there(candidate) && (ready || last) {
                    order.push(candidate);
                }
            }
        }
        order
    }

    /// The baseline that a candidate is compared with in a role.
    fn baseline(&self, candidate: &Candidate, role: Role) -> Option<&Candidate> {
        self.task.baselines.iter().filter(|one| one.role == role).find_map(|one| match &one.who {
            Peer::Candidate(name)
                if *name != candidate.name
                    && (one.candidates.is_empty() || candidate.is_among(&one.candidates)) =>
            {
                self.task.candidate(name)
            }
            _ => None,
        })
    }

    /// Records the start of a run and the hypotheses about its candidates.
    fn begin(
        &self,
        store: &Store<'_>,
        chosen: &[&Candidate],
        (secret, programs): (u64, BTreeMap<String, Hash>),
        options: &Options,
    ) -> Result<String, SessionError> {
        let started = utc(SystemTime::now());
        let digits: String = format!("{:016x}", draw()?).chars().take(8).collect();
        let run = format!("{}-{digits}", started.replace([':', '-'], "").trim_end_matches('Z'));
        let mut host: BTreeMap<String, String> = BTreeMap::new();
        host.insert("system".into(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
        for part in [Part::Nvrtc, Part::Ptxas] {
            if let Some(found) = self.toolchain.part(part) {
                host.insert(part.name().to_lowercase(), found.version.to_string());
            }
        }
        if let Some(clocks) = self.clocks {
            let fact = if clocks.predicted() { topic::EVENT_CLOCK } else { topic::DEVICE };
            host.insert(fact.into(), clocks.device());
        }
        let device = self.task.target.devices.first().and_then(|id| Device::named(id));
        host.extend(device.map(|device| (topic::MODEL_DEVICE.to_owned(), device.name.to_owned())));
        let files = keys::files(self)?;
        let identity = serde_json::to_vec(&self.task.identity_with(&files)).unwrap_or_default();
        let objects = BTreeMap::from([
            ("task".to_owned(), self.ledger.put_object(self.text.as_bytes())?),
            ("identity".to_owned(), self.ledger.put_object(&identity)?),
        ]);
        let record = RunRecord {
            run: run.clone(),
            task: self.task.name.value.clone(),
            task_version: u64::from(self.task.version.value),
            task_hash: Hash::of(self.text.as_bytes()),
            warpproof: env!("CARGO_PKG_VERSION").to_owned(),
            started: Some(started),
            arguments: options.arguments.clone(),
            candidates: chosen.iter().map(|one| one.name.value.clone()).collect(),
            programs,
            secret: Some(format!("{secret:016x}")),
            chosen: options.chosen.map(|secret| format!("{secret:016x}")),
            host,
            objects,
        };
        store.append(&Body::Run(record))?;
        for candidate in chosen {
            let notes = &candidate.notes;
            let parent = candidate.parent.as_ref().map(|parent| parent.value.clone());
            let topics = [
                (topic::HYPOTHESIS, notes.hypothesis.clone()),
                (topic::EXPECTED_GAIN, notes.expected.clone()),
                (topic::COST, notes.cost.clone()),
                (topic::PARENT, parent),
            ];
            for (topic, text) in topics.into_iter().filter_map(|(topic, text)| Some((topic, text?))) {
                let note = NoteRecord {
                    topic: topic.to_owned(),
                    text,
                    run: None,
                    candidate: Some(candidate.name.value.clone()),
                    about: Vec::new(),
                    ..NoteRecord::default()
                };
                store.note(note)?;
            }
        }
        Ok(run)
    }
}

/// Compiles everything, and finds duplicate programs.
fn compile_all<'c>(bench: &Bench<'_>, all: &[&'c Candidate], jobs: usize) -> Vec<Compiled<'c>> {
    let plan = all
        .iter()
        .map(|candidate| Step {
            key: (),
            needs: Vec::new(),
            work: Box::new(move || compile(bench, candidate)),
        })
        .collect();
    let never = AtomicBool::new(false);
    let rules =
        Rules { threads: jobs, green: &|_: &Result<Built, Ending>| true, known: &|()| None, stop: &never };
    let done = steps::run(plan, &rules, |_| {});
    let mut compiled: Vec<Compiled<'c>> = Vec::new();
    for (candidate, done) in all.iter().zip(done) {
        let (Done::Fresh(mut built) | Done::Known(mut built)) = done else { continue };
        // A variant may equal another one: a search discovers that.
        if let Ok(built) = &mut built
            && candidate.variant_of.is_none()
        {
            let same = compiled
                .iter()
                .find(|other| other.built.as_ref().is_ok_and(|other| other.identity == built.identity));
            built.same_as = same.map(|other| other.candidate.name.value.clone());
        }
        compiled.push(Compiled { candidate, built });
    }
    compiled
}

/// Everything needed to execute the steps.
struct Conduct<'c, 'a> {
    bench: &'c Bench<'a>,
    compiled: &'c [Compiled<'a>],
    keys: &'c Keys,
    store: &'c Store<'c>,
    /// The candidates that go through the stages.
    judged: &'c [&'c Candidate],
    /// The stages to run; `None`: all. A subset gives a verdict only if a stage fails.
    stages: Option<&'c [Stage]>,
    run: &'c str,
    resumes: bool,
    jobs: usize,
}

/// A stage of a candidate in the plan.
#[derive(Clone, Copy)]
struct Slot<'a> {
    /// The candidate's index among the compiled ones.
    at: usize,
    candidate: &'a Candidate,
    stage: Stage,
}

impl Session<'_> {
    fn conduct(&self, conduct: &Conduct<'_, '_>, tell: Told<'_>) -> Result<RunSummary, SessionError> {
        let Conduct { compiled, keys, store, run, .. } = conduct;
        let mut slots: Vec<Slot<'_>> = Vec::new();
        let wanted = |one: &Candidate| conduct.judged.iter().any(|other| other.name == one.name);
        for (at, one) in compiled.iter().enumerate().filter(|(_, one)| wanted(one.candidate)) {
            let stages = self.task.gates.iter().map(|gate| gate.stage.value);
            let stages = stages.filter(|stage| conduct.stages.is_none_or(|some| some.contains(stage)));
            slots.extend(stages.map(|stage| Slot { at, candidate: one.candidate, stage }));
        }
        tell(Event::Planned { run, steps: slots.len() });
        let plan: Vec<Step<'_, Hash, Option<(Hash, StepRecord)>>> = slots
            .iter()
            .enumerate()
            .map(|(place, slot)| {
                let slot = *slot;
                Step {
                    key: keys.of(slot.at, slot.stage),
                    needs: self.needs(&slots, place),
                    work: Box::new(move || self.step(conduct, slot, tell)),
                }
            })
            .collect();
        let green = |done: &Option<(Hash, StepRecord)>| {
            done.as_ref().is_some_and(|(_, step)| matches!(step.outcome, Outcome::Pass | Outcome::Skipped))
        };
        let known = |key: &Hash| store.step(key, run).map(Some);
        let rules = Rules { threads: conduct.jobs, green: &green, known: &known, stop: self.stop };
        let mut steps: Vec<Option<(Hash, StepRecord)>> = slots.iter().map(|_| None).collect();
        let mut ended = vec![false; slots.len()];
        let mut judged: Vec<Judged> = compiled
            .iter()
            .map(|one| Judged {
                candidate: one.candidate.name.value.clone(),
                run: (*run).to_owned(),
                decision: None,
                steps: Vec::new(),
            })
            .collect();
        let (mut done, mut from_before) = (0, 0);
        steps::run(plan, &rules, |event| {
            let steps::Event::Ended(place, end) = event else { return };
            let Some(slot) = slots.get(place) else { return };
            let is_known = matches!(end, Done::Known(_));
            if let Some(Some((hash, step))) = end.result() {
                let step = if is_known {
                    store.taken(hash, step, run, &slot.candidate.name)
                } else {
                    Some((*hash, step.clone()))
                };
                if step.is_none() {
                    self.stop.store(true, Ordering::Relaxed);
                }
                if let Some((hash, step)) = step {
                    if is_known {
                        from_before += 1;
                    } else {
                        done += 1;
                    }
                    tell(Event::Ended { step: &step, known: is_known });
                    steps[place] = Some((hash, step));
                }
            }
            ended[place] = !matches!(end, Done::Stopped);
            let mine =
                || slots.iter().enumerate().filter(|(_, other)| other.at == slot.at).map(|(place, _)| place);
            // A slot without a result that is not blocked was stopped.
            let complete = conduct.stages.is_none()
                && mine().all(|place| ended[place])
                && !self.stop.load(Ordering::Relaxed);
            let finished =
                complete || mine().any(|place| steps[place].as_ref().is_some_and(|(_, step)| decisive(step)));
            if let Some(one) = judged.get_mut(slot.at).filter(|one| finished && one.decision.is_none()) {
                let (hashes, records): (Vec<Hash>, Vec<StepRecord>) =
                    mine().filter_map(|place| steps[place].clone()).unzip();
                let decision = decide(self.task, &records.iter().collect::<Vec<_>>());
                let record = VerdictRecord {
                    run: (*run).to_owned(),
                    candidate: one.candidate.clone(),
                    verdict: decision.verdict,
                    grade: decision.grade,
                    reason: decision.reason.clone(),
                    steps: hashes,
                };
                if !records.is_empty() && store.try_append(&Body::Verdict(record)).is_some() {
                    tell(Event::Decided { candidate: &one.candidate, decision: &decision });
                    one.decision = Some(decision);
                    one.steps = records;
                }
            }
        });
        store.failure()?;
        for (slot, step) in slots.iter().zip(steps).filter(|_| conduct.stages.is_some()) {
            if let Some(one) = judged.get_mut(slot.at).filter(|one| one.decision.is_none()) {
                one.steps.extend(step.map(|(_, step)| step));
            }
        }
        let stopped = self.stop.load(Ordering::Relaxed);
        judged.retain(|one| conduct.judged.iter().any(|other| other.name.value == one.candidate));
        let place =
            |one: &Judged| self.task.candidates.iter().position(|other| other.name.value == one.candidate);
        judged.sort_by_key(place);
        Ok(RunSummary {
            run: (*run).to_owned(),
            judged,
            done,
            known: from_before,
            stopped,
            resumed: conduct.resumes,
            unchanged: false,
            chosen: conduct.bench.chosen,
        })
    }

    /// The previous stage, and for speed also the baseline's own stages: only programs that pass are timed.
    fn needs(&self, slots: &[Slot<'_>], place: usize) -> Vec<usize> {
        let Some(slot) = slots.get(place) else { return Vec::new() };
        let before =
            place.checked_sub(1).filter(|before| slots.get(*before).is_some_and(|one| one.at == slot.at));
        let mut needs: Vec<usize> = before.into_iter().collect();
        if slot.stage == Stage::Speed
            && self.clocks.is_some()
            && let Some(baseline) = self.baseline(slot.candidate, Role::Speed)
        {
            let stages = slots.iter().enumerate().filter(|(other, one)| {
                *other < place && one.candidate.name == baseline.name && one.stage < Stage::Speed
            });
            needs.extend(stages.map(|(place, _)| place));
        }
        needs
    }

    /// Runs one stage of one candidate and records it.
    fn step(&self, conduct: &Conduct<'_, '_>, slot: Slot<'_>, tell: Told<'_>) -> Option<(Hash, StepRecord)> {
        let Conduct { bench, compiled, store, .. } = conduct;
        let start = Instant::now();
        let name = slot.candidate.name.value.as_str();
        tell(Event::Begun { candidate: name, stage: slot.stage });
        let one = compiled.get(slot.at)?;
        let role = if slot.stage == Stage::Correct { Role::Bitwise } else { Role::Speed };
        let baseline = self.baseline(slot.candidate, role).and_then(|peer| {
            let peer = compiled.iter().find(|other| other.candidate.name == peer.name)?;
            peer.built.as_ref().ok().map(|built| (peer.candidate, built))
        });
        let ending = match &one.built {
            Err(ending) => Ok(ending.clone()),
            Ok(built) => {
                let parts = bench.parts(slot.candidate, slot.stage);
                if parts.is_empty() {
                    bench.stage(slot.stage, slot.candidate, built, baseline)
                } else {
                    self.parts(conduct, slot, (built, baseline), parts, tell)
                }
            }
        };
        let ending = match ending {
            Ok(ending) => ending,
            Err(Trouble::Ends(ending)) => *ending,
            Err(Trouble::Stopped) => return None,
        };
        let key = conduct.keys.of(slot.at, slot.stage);
        let about = (conduct.run, name, slot.stage, None);
        store.write(about, key, ending, start.elapsed()).or_else(|| {
            // A ledger that cannot be written ends the run: only recorded results count.
            self.stop.store(true, Ordering::Relaxed);
            None
        })
    }

    /// Runs the parts of a stage that are not known yet. The first part that fails ends the stage.
    fn parts(
        &self,
        conduct: &Conduct<'_, '_>,
        slot: Slot<'_>,
        (built, baseline): (&Built, Option<(&Candidate, &Built)>),
        parts: Vec<crate::stage::Part>,
        tell: Told<'_>,
    ) -> Result<Ending, Trouble> {
        let Conduct { bench, store, .. } = conduct;
        let name = slot.candidate.name.value.as_str();
        let mut ends = Vec::new();
        for part in parts {
            let key = conduct.keys.of_part(slot.at, slot.stage, &part, bench);
            let ending = if let Some(ending) = store.part(&key) {
                ending
            } else {
                tell(Event::Part { candidate: name, stage: slot.stage, part: &part.name });
                let start = Instant::now();
                let ending = bench.part(slot.stage, slot.candidate, built, baseline, &part)?;
                let about = (conduct.run, name, slot.stage, Some(part.name.as_str()));
                if store.write(about, key, ending.clone(), start.elapsed()).is_none() {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(Trouble::Stopped);
                }
                ending
            };
            // A candidate that reaches a limit here also reaches it on the next size.
            let wrong = ending.outcome == Outcome::Fail || ending.obstacle == Some(Obstacle::Limit);
            ends.push((part.name, ending));
            if wrong {
                break;
            }
        }
        Ok(bench.whole(slot.stage, ends))
    }
}

/// Whether later steps cannot change the verdict.
fn decisive(step: &StepRecord) -> bool {
    matches!(step.outcome, Outcome::Fail | Outcome::Inconclusive)
}

/// A duration, for a record.
pub(crate) fn seconds(duration: std::time::Duration) -> Finite {
    Finite::new(duration.as_secs_f64()).unwrap_or(Finite::ZERO)
}

/// The program that each candidate was compiled to.
fn programs(compiled: &[Compiled<'_>], chosen: &[&Candidate]) -> BTreeMap<String, Hash> {
    let mine = compiled.iter().filter(|one| chosen.iter().any(|other| other.name == one.candidate.name));
    mine.map(|one| (one.candidate.name.value.clone(), Hash::of(keys::program(one).as_bytes()))).collect()
}

/// The secret that a run's hidden shapes and secret seeds were drawn from.
fn secret_of(run: &RunRecord) -> Result<u64, SessionError> {
    number_of(run, run.secret.as_ref())
}

/// A number of a run's record, in hexadecimal.
fn number_of(run: &RunRecord, text: Option<&String>) -> Result<u64, SessionError> {
    let number = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    number.ok_or_else(|| SessionError::NoSecret(run.run.clone()))
}

/// A number from the system's random source, which is unpredictable.
fn draw() -> Result<u64, SessionError> {
    getrandom::u64().map_err(|error| SessionError::NoRandom(error.to_string()))
}
