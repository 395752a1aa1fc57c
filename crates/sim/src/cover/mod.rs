//! Coverage: which lines of a kernel were executed, and which outcomes its conditions had.
//!
//! A condition is the predicate of a branch, of another guarded instruction, or of a `selp`, to which compilers convert
//! short branches. It has two outcomes, and conditions of one line that read the same predicate count as one. [`Points`]
//! finds them in a program, [`Watch`] observes a block, and [`Coverage`] adds up launches, in any order.

mod condition;

pub use condition::{Environment, Slice};

use crate::isa::Op;
use crate::machine::{Outcome, at};
use crate::observe::{Issue, Observer};
use crate::program::Program;
use crate::{Device, Launch};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// A line of a source file; a line of the PTX if the file has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file without its directories.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.file.is_empty() {
            write!(f, "PTX line {}", self.line)
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// A condition of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The instruction that it controls.
    pub pc: u32,
    /// The row of the predicate.
    pub row: u32,
    /// Its location.
    pub line: Line,
}

/// The lines and conditions of a program.
#[derive(Clone, Debug)]
pub struct Points {
    lines: Vec<Line>,
    /// By instruction: whether its line counts. An instruction without a line counts only if no instruction has one.
    counts: Vec<bool>,
    /// By instruction: the predicate's row.
    rows: Vec<Option<u32>>,
    /// By instruction: whether it is a select (`selp`) rather than a guarded instruction.
    selects: Vec<bool>,
}

impl Points {
    /// The conditions of a kernel.
    pub fn of(program: &Program) -> Points {
        let mut points =
            Points { lines: Vec::new(), counts: Vec::new(), rows: Vec::new(), selects: Vec::new() };
        let lined = points_have_lines(program);
        for pc in 0..program.code.len().min(program.metas.len()) {
            let inst = &program.code[pc];
            let select = matches!(program.metas[pc].op, Op::Select(_));
            let chooses = inst.args.all.get(3).copied().filter(|_| select);
            points.rows.push(inst.guard.map(|(row, _)| row).or(chooses));
            points.selects.push(select && inst.guard.is_none());
            let written = program.metas[pc].span.0 < program.metas[pc].span.1;
            points.counts.push(written && (!lined || has_line(program, pc)));
            points.lines.push(line(program, u32::try_from(pc).unwrap_or(u32::MAX)));
        }
        points
    }

    /// All conditions, in the order of the program.
    pub fn conditions(&self) -> impl Iterator<Item = Point> + '_ {
        let all = (0u32..).zip(&self.rows).zip(&self.lines);
        all.filter_map(|((pc, row), line)| Some(Point { pc, row: (*row)?, line: line.clone() }))
    }
}

fn has_line(program: &Program, pc: usize) -> bool {
    u32::try_from(pc).is_ok_and(|pc| !program.source(pc).is_empty())
}

fn points_have_lines(program: &Program) -> bool {
    (0..program.metas.len()).any(|pc| has_line(program, pc))
}

/// The line of an instruction; for code inlined from a header, the line in the user's file.
fn line(program: &Program, pc: u32) -> Line {
    let source = program.source(pc);
    let own = source.iter().find(|line| !line.file.starts_with('/')).or(source.first());
    match own {
        Some(line) => Line { file: line.name().to_owned(), line: line.line },
        None => Line { file: String::new(), line: program.place(pc).map_or(0, |place| place.ptx_line) },
    }
}

/// What a block reached, by instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Instructions that some lane executed.
    pub executed: Vec<bool>,
    /// Warp instructions.
    pub issued: u64,
    /// Conditions that were true in some lane, and those that were false.
    outcomes: [Vec<bool>; 2],
}

impl Reached {
    /// Adds the coverage of another block or launch of the same kernel.
    pub fn merge(&mut self, other: &Reached) {
        let join = |all: &mut Vec<bool>, one: &[bool]| {
            all.resize(all.len().max(one.len()), false);
            all.iter_mut().zip(one).for_each(|(all, one)| *all |= one);
        };
        join(&mut self.executed, &other.executed);
        for (all, one) in self.outcomes.iter_mut().zip(&other.outcomes) {
            join(all, one);
        }
        self.issued = self.issued.saturating_add(other.issued);
    }
}

/// Observes one block.
#[derive(Debug)]
pub struct Watch {
    points: Arc<Points>,
    reached: Reached,
}

impl Watch {
    /// An observer for the conditions of a kernel.
    pub fn new(points: Arc<Points>) -> Watch {
        let none = vec![false; points.rows.len()];
        let reached = Reached { executed: none.clone(), issued: 0, outcomes: [none.clone(), none] };
        Watch { points, reached }
    }

    fn decided(&mut self, issue: &Issue<'_>) {
        let pc = at(issue.pc);
        let Some(Some(row)) = self.points.rows.get(pc).copied() else { return };
        let value = issue.registers.preds.get(at(row)).copied().unwrap_or(0);
        // A guard applies to all lanes that reach the instruction, a select to the lanes that execute it.
        let lanes = if self.points.selects.get(pc) == Some(&true) { issue.exec } else { issue.here };
        for (outcome, lanes) in self.reached.outcomes.iter_mut().zip([lanes & !value, lanes & value]) {
            if let Some(seen) = outcome.get_mut(pc) {
                *seen |= lanes != 0;
            }
        }
    }
}

impl Observer for Watch {
    fn issue(&mut self, issue: &Issue<'_>) {
        self.reached.issued += 1;
        if let Some(executed) = self.reached.executed.get_mut(at(issue.pc)) {
            *executed = true;
        }
        self.decided(issue);
    }

    fn pass(&mut self, issue: &Issue<'_>) {
        self.decided(issue);
    }
}

/// The outcomes that a condition had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// It was false.
    pub no: bool,
    /// It was true.
    pub yes: bool,
}

/// What launches of one kernel covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCoverage {
    /// Whether an instruction of a line was executed.
    pub lines: BTreeMap<Line, bool>,
    /// The outcomes of the conditions of a line, by the row of the predicate.
    pub conditions: BTreeMap<(Line, u32), Outcomes>,
}

/// What launches covered, by kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By the kernel's name.
    pub kernels: BTreeMap<String, KernelCoverage>,
}

/// An outcome that no launch had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kernel.
    pub kernel: String,
    /// The line of the condition.
    pub line: Line,
    /// The row of the predicate.
    pub row: u32,
    /// The outcome.
    pub outcome: bool,
}

/// Numbers of lines and outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lines with instructions.
    pub lines: u64,
    /// Those that were executed.
    pub lines_reached: u64,
    /// Outcomes of conditions.
    pub outcomes: u64,
    /// Outcomes that occurred.
    pub outcomes_reached: u64,
}

impl Coverage {
    /// Adds the coverage of launches of a kernel; `name` identifies the kernel.
    pub fn add(&mut self, name: &str, points: &Points, reached: &Reached) {
        let kernel = self.kernels.entry(name.to_owned()).or_default();
        let counted = points.lines.iter().enumerate().filter(|(pc, _)| points.counts.get(*pc) == Some(&true));
        for (pc, line) in counted {
            *kernel.lines.entry(line.clone()).or_default() |= reached.executed.get(pc) == Some(&true);
        }
        for point in points.conditions() {
            let [no, yes] = [0, 1].map(|i: usize| reached.outcomes[i].get(at(point.pc)) == Some(&true));
            let outcomes = kernel.conditions.entry((point.line, point.row)).or_default();
            outcomes.no |= no;
            outcomes.yes |= yes;
        }
    }

    /// Adds the coverage of other launches.
    pub fn merge(&mut self, other: &Coverage) {
        for (name, theirs) in &other.kernels {
            let ours = self.kernels.entry(name.clone()).or_default();
            for (line, executed) in &theirs.lines {
                *ours.lines.entry(line.clone()).or_default() |= executed;
            }
            for (key, outcomes) in &theirs.conditions {
                let own = ours.conditions.entry(key.clone()).or_default();
                own.no |= outcomes.no;
                own.yes |= outcomes.yes;
            }
        }
    }

    /// The covered share.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for kernel in self.kernels.values() {
            for executed in kernel.lines.values() {
                totals.lines += 1;
                totals.lines_reached += u64::from(*executed);
            }
            for outcomes in kernel.conditions.values() {
                totals.outcomes += 2;
                totals.outcomes_reached += u64::from(outcomes.no) + u64::from(outcomes.yes);
            }
        }
        totals
    }

    /// The outcomes that never occurred.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (kernel, covered) in &self.kernels {
            for ((line, row), outcomes) in &covered.conditions {
                for (outcome, seen) in [(false, outcomes.no), (true, outcomes.yes)] {
                    if !seen {
                        let (kernel, line) = (kernel.clone(), line.clone());
                        missing.push(Missing { kernel, line, row: *row, outcome });
                    }
                }
            }
        }
        missing
    }

    /// The lines with outcomes that never occurred, with their number; then the lines that were never executed.
    pub fn gaps(&self) -> (BTreeMap<Line, u64>, Vec<Line>) {
        let mut outcomes: BTreeMap<Line, u64> = BTreeMap::new();
        for missing in self.missing() {
            *outcomes.entry(missing.line).or_default() += 1;
        }
        let kernels = self.kernels.values().flat_map(|kernel| &kernel.lines);
        let lines = kernels.filter(|(_, executed)| !**executed).map(|(line, _)| line.clone());
        (outcomes, lines.collect())
    }

    /// "96 % of lines, 22 of 24 branch outcomes".
    pub fn sentence(&self) -> String {
        let totals = self.totals();
        let share = (100 * totals.lines_reached).checked_div(totals.lines).unwrap_or(100);
        format!("{share} % of lines, {} of {} branch outcomes", totals.outcomes_reached, totals.outcomes)
    }

    /// The text format that [`Coverage::read`] parses: a line for each line and condition.
    pub fn write(&self) -> String {
        let mut text = String::new();
        for (name, kernel) in &self.kernels {
            // Writing to a string does not fail.
            for (line, executed) in &kernel.lines {
                let _ = writeln!(text, "line\t{name}\t{}\t{}\t{executed}", line.file, line.line);
            }
            for ((line, row), Outcomes { no, yes }) in &kernel.conditions {
                let _ = writeln!(text, "condition\t{name}\t{}\t{}\t{row}\t{no}\t{yes}", line.file, line.line);
            }
        }
        text
    }

    /// Parses the output of [`Coverage::write`]; skips malformed lines.
    pub fn read(text: &str) -> Coverage {
        let mut coverage = Coverage::default();
        for entry in text.lines() {
            let fields: Vec<&str> = entry.split('\t').collect();
            match fields[..] {
                ["line", name, file, line, executed] => {
                    let Ok(line) = line.parse() else { continue };
                    let kernel = coverage.kernels.entry(name.to_owned()).or_default();
                    kernel.lines.insert(Line { file: file.to_owned(), line }, executed == "true");
                }
                ["condition", name, file, line, row, no, yes] => {
                    let (Ok(line), Ok(row)) = (line.parse(), row.parse()) else { continue };
                    let kernel = coverage.kernels.entry(name.to_owned()).or_default();
                    let outcomes = Outcomes { no: no == "true", yes: yes == "true" };
                    kernel.conditions.insert((Line { file: file.to_owned(), line }, row), outcomes);
                }
                _ => {}
            }
        }
        coverage
    }
}

impl Device {
    /// Runs a launch and returns its coverage.
    pub fn cover(&mut self, launch: &Launch, points: &Arc<Points>) -> (Outcome, Reached) {
        let mut reached = Reached::default();
        let listen = |_| -> Option<Box<dyn Observer>> { Some(Box::new(Watch::new(points.clone()))) };
        let outcome = self.run_observed(launch, &listen, &mut |observer| {
            let any: Box<dyn Any> = observer;
            if let Ok(watch) = any.downcast::<Watch>() {
                reached.merge(&watch.reached);
            }
        });
        (outcome, reached)
    }
}
