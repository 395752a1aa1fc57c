//! `cargo xtask hopper` and `cargo xtask blackwell`: run our own kernels for these generations against exact results, and count which
//! changes of them the checks find.
//!
//! The kernels are `tests/hopper`: a GEMM with the structure of CUTLASS 3, attention with that of FlashAttention 3, a reduction over
//! distributed shared memory, and a multicast; and `tests/blackwell`: a GEMM and attention with the structure of FlashAttention 4. Each must have no findings and results within derived limits. Then
//! the study changes one call or one index of the source at a time, compiles the mutant, and checks it. A mutant without a finding
//! and with correct results must be explained in `hopper/survivor.rs`.

mod kernels;
mod mutation;
mod page;
mod problem;
mod survivor;

use std::{fs, path::Path, sync::OnceLock, time::Instant};

use warpproof_check::Severity;
use warpproof_sim::StopKind;
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

use crate::part::Part;
use crate::root;
pub(crate) use kernels::Generation;
use kernels::{KERNELS, Kernel};
use mutation::{Family, Mutation, mutations};
use problem::{Problem, Ran};
use survivor::{Reason, SURVIVORS, explanation};

/// Schedules for the second try of a survivor: warps forward and backward, interleaved, and one after the other, with copies as late and as
/// early as allowed.
const SCHEDULES: u32 = 4;
/// Threads that check mutants.
const WORKERS: usize = 2;

/// The outcome of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// A check found it under one schedule; the classes of its findings.
    Check(Vec<String>),
    /// A check found it only under one of several schedules.
    Schedules(Vec<String>),
    /// The launch stopped: no thread can continue.
    Deadlock,
    /// It never ended.
    Limit,
    /// No check found it, but its results are outside the limits.
    Value,
    /// No check found it, and its results are within the limits.
    Survived,
    /// The program is the same.
    Same,
}

/// A mutant with its outcome.
struct Tried {
    kernel: &'static str,
    family: Family,
    line: u32,
    label: String,
    fate: Fate,
}

impl Tried {
    fn reason(&self) -> Option<Reason> {
        explanation(self.kernel, self.line, &self.label).map(|known| known.reason)
    }
}

/// The result of an item of the study.
enum Tested {
    Sound(Sound),
    Mutant(Tried),
}

/// A kernel without a mutation.
struct Sound {
    kernel: &'static Kernel,
    instructions: u64,
    /// The largest error in units of its limit.
    worst: f64,
}

/// Runs the kernels of a generation whose name begins with `filter`; unless only the sound ones are asked for, tries their mutants too, and compares the
/// book's page with the outcome, or writes it.
pub(crate) fn run(
    part: &Part,
    generation: Generation,
    bless: bool,
    filter: Option<&str>,
    list: bool,
    sound_only: bool,
) -> Result<String, String> {
    let options = Options::from_env().with_cuda(generation.cuda());
    let toolchain = Toolchain::find(&options).map_err(|error| error.to_string())?;
    let chosen: Vec<&'static Kernel> = KERNELS
        .iter()
        .filter(|kernel| kernel.generation == generation)
        .filter(|kernel| filter.is_none_or(|filter| kernel.name.starts_with(filter)))
        .collect();
    let studies =
        chosen.iter().map(|kernel| Study::new(kernel, &toolchain)).collect::<Result<Vec<_>, String>>()?;
    // The kernel itself, and its mutants.
    let mut items: Vec<(&Study<'_>, Option<Mutation>)> = Vec::new();
    for study in &studies {
        items.push((study, None));
        if !sound_only && study.kernel.mutated {
            items.extend(mutations(&study.source).into_iter().map(|mutation| (study, Some(mutation))));
        }
    }
    let results = part.each(WORKERS, &items, |(study, mutation)| {
        let Some(mutation) = mutation else { return study.sound().map(Tested::Sound) };
        let result = study.fate(mutation);
        if let (true, Ok(one)) = (list, &result) {
            println!("{}:{}: {}: {:?}", one.kernel, one.line, one.label, one.fate);
        }
        result.map(Tested::Mutant)
    });
    let results = results.all()?;
    let note = results.note("kernels and mutants");
    let (mut sound, mut tried) = (Vec::new(), Vec::new());
    for tested in results.into_results() {
        match tested {
            Tested::Sound(one) => sound.push(one),
            Tested::Mutant(one) => tried.push(one),
        }
    }
    if sound_only {
        return Ok(note);
    }
    print!("{}", page::summary(&tried));
    let mut wrong: Vec<String> = tried
        .iter()
        .filter(|mutant| mutant.fate == Fate::Survived && mutant.reason().is_none())
        .map(|mutant| {
            format!(
                "{}:{}: {} survived without a reason in hopper/survivor.rs",
                mutant.kernel, mutant.line, mutant.label
            )
        })
        .collect();
    if filter.is_none() && part.is_whole() {
        wrong.extend(stale(generation, &tried));
        wrong.extend(page::compare_or_write(generation, &sound, &tried, bless).err());
    }
    if wrong.is_empty() { Ok(note) } else { Err(wrong.join("\n")) }
}

/// Reasons for mutants that no longer survive.
fn stale(generation: Generation, tried: &[Tried]) -> Vec<String> {
    let of_it = |known: &&survivor::Survivor| {
        KERNELS.iter().any(|kernel| kernel.generation == generation && kernel.name == known.kernel)
    };
    let survives = |known: &survivor::Survivor| {
        tried.iter().any(|mutant| {
            mutant.fate == Fate::Survived
                && (mutant.kernel, mutant.line, mutant.label.as_str())
                    == (known.kernel, known.line, known.label)
        })
    };
    SURVIVORS
        .iter()
        .filter(of_it)
        .filter(|known| !survives(known))
        .map(|known| {
            format!(
                "{}:{}: {}: in hopper/survivor.rs, but not a survivor",
                known.kernel, known.line, known.label
            )
        })
        .collect()
}

/// One kernel with its problems.
struct Study<'t> {
    kernel: &'static Kernel,
    toolchain: &'t Toolchain,
    source: String,
    /// The text of its entry function, when first needed.
    entry: OnceLock<String>,
    problems: Vec<Problem>,
}

impl<'t> Study<'t> {
    fn new(kernel: &'static Kernel, toolchain: &'t Toolchain) -> Result<Self, String> {
        let path = root().join(kernel.generation.folder()).join(kernel.file);
        let source =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let problems = (kernel.problems)();
        Ok(Study { kernel, toolchain, source, entry: OnceLock::new(), problems })
    }

    fn entry(&self) -> Result<&str, String> {
        if let Some(entry) = self.entry.get() {
            return Ok(entry);
        }
        let entry = self.entry_of(&self.compile(&self.source)?);
        Ok(self.entry.get_or_init(|| entry))
    }

    fn compile(&self, text: &str) -> Result<String, String> {
        let file = format!("{}/{}", self.kernel.generation.folder(), self.kernel.file);
        let path = root().join(&file);
        let source = Source { directory: path.parent().map(Path::to_owned), ..Source::new(file, text) };
        let mut options = CompileOptions::new(self.kernel.generation.target());
        // `hopper.cuh` is for both.
        options.include_dirs = vec![root().join(Generation::Hopper.folder())];
        let compiled = self.toolchain.compile(&source, &options);
        compiled.map(|compiled| compiled.ptx).map_err(|error| error.to_string())
    }

    /// The instructions of the kernel in a module, without lines of the source.
    fn entry_of(&self, ptx: &str) -> String {
        let name = self.problems.first().map_or("", |problem| problem.kernel);
        let begins = |line: &&str| line.contains(".entry") && line.contains(&format!("{name}("));
        let mut lines = ptx.lines().skip_while(|line| !begins(line));
        let first = lines.next();
        // Inline assembly has braces too, so the function ends where the next one begins.
        let rest =
            lines.take_while(|line| !line.contains(".entry") && !line.trim_start().starts_with(".file"));
        first
            .into_iter()
            .chain(rest)
            .filter(|line| !line.trim_start().starts_with(".loc"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Checks the kernel as it is.
    fn sound(&self) -> Result<Sound, String> {
        let name = self.kernel.name;
        let ptx = self.compile(&self.source)?;
        let (mut instructions, mut worst) = (0, 0f64);
        let (mut plain, mut checking) = (0.0, 0.0);
        for problem in &self.problems {
            let begin = Instant::now();
            let ran = problem.run(&ptx)?;
            plain += begin.elapsed().as_secs_f64();
            if let Some(stop) = &ran.stop {
                return Err(format!("{name}: {stop}"));
            }
            for schedules in [1, SCHEDULES] {
                let begin = Instant::now();
                let (checked, again) = problem.check(&ptx, schedules)?;
                checking += if schedules == 1 { begin.elapsed().as_secs_f64() } else { 0.0 };
                if let Some(finding) = checked.findings.first() {
                    let places: Vec<String> =
                        finding.places.iter().map(|label| format!("{label:?}")).collect();
                    return Err(format!("{name} has findings: {}\n{}", finding.sentence, places.join("\n")));
                }
                if again.bits != ran.bits {
                    return Err(format!("{name}: the checks change its results"));
                }
            }
            if ran.worst > 1.0 {
                return Err(format!("{name}: an error of {} times its limit", ran.worst));
            }
            instructions += ran.instructions;
            worst = worst.max(ran.worst);
        }
        println!(
            "{name}: {instructions} warp instructions, {plain:.2} s, with checks {checking:.2} s; largest error {worst:.3} of its limit"
        );
        Ok(Sound { kernel: self.kernel, instructions, worst })
    }

    fn fate(&self, mutation: &Mutation) -> Result<Tried, String> {
        let Mutation { family, line, label, source } = mutation;
        let named = |error: String| format!("{}:{line}: {label}: {error}", self.kernel.name);
        let ptx = self.compile(source).map_err(named)?;
        let fate = if self.entry_of(&ptx) == self.entry()? {
            Fate::Same
        } else {
            self.outcome(&ptx).map_err(named)?
        };
        Ok(Tried { kernel: self.kernel.name, family: *family, line: *line, label: label.clone(), fate })
    }

    fn outcome(&self, ptx: &str) -> Result<Fate, String> {
        let mut is_wrong = false;
        for problem in &self.problems {
            let (classes, ran) = checked(problem, ptx, 1)?;
            if let Some(fate) = stopped(&ran)? {
                return Ok(fate);
            }
            if !classes.is_empty() {
                return Ok(Fate::Check(classes));
            }
            is_wrong |= ran.worst > 1.0;
        }
        for problem in &self.problems {
            let (classes, ran) = checked(problem, ptx, SCHEDULES)?;
            match stopped(&ran)? {
                Some(Fate::Deadlock) => return Ok(Fate::Schedules(vec!["deadlock".to_owned()])),
                Some(fate) => return Ok(fate),
                None if !classes.is_empty() => return Ok(Fate::Schedules(classes)),
                None => is_wrong |= ran.worst > 1.0,
            }
        }
        Ok(if is_wrong { Fate::Value } else { Fate::Survived })
    }
}

/// Distinct classes of the findings, and what the launch did.
fn checked(problem: &Problem, ptx: &str, schedules: u32) -> Result<(Vec<String>, Ran), String> {
    let (checked, ran) = problem.check(ptx, schedules)?;
    let mut classes = Vec::new();
    for finding in &checked.findings {
        let note = if finding.severity == Severity::Note { " (note)" } else { "" };
        let class = format!("{}{note}", finding.class.name());
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    Ok((classes, ran))
}

/// The outcome of a mutant whose launch stopped early.
fn stopped(ran: &Ran) -> Result<Option<Fate>, String> {
    let Some(stop) = &ran.stop else { return Ok(None) };
    Ok(match stop.exit_code() {
        1 if stop.kind == StopKind::Deadlock => Some(Fate::Deadlock),
        1 => Some(Fate::Check(vec![stop.kind.name().to_owned()])),
        4 => Some(Fate::Limit),
        _ => return Err(format!("the mutant cannot be checked: {stop}")),
    })
}
