//! Task files: what is evaluated, with which reference, within which limits. The book's chapter on task files
//! describes the format.
//!
//! Files are not trusted: every problem is returned with its place, nothing panics, and sizes are limited.

#![forbid(unsafe_code)]

mod accumulate;
mod attention;
mod candidate;
mod check;
mod hash;
mod model;
mod operands;
mod policy;
mod problem;
mod read;
mod section;
mod size;
mod space;
mod standard;
mod words;

pub mod dtype;
pub mod expr;

pub use accumulate::Accumulate;
pub use attention::{
    AttentionOperator, AttentionOptions, AttentionShape, AttentionVariant, AttentionWork, WindowSize,
    shape_of,
};
pub use hash::{Identity, Incompatible, Part};
pub use model::{
    Argument, Baseline, Budget, Candidate, Data, Distribution, Extent, FigureThreshold, FileCase, Gate,
    Grades, Input, Kernel, L2, Launch, NonFinite, Notes, Operator, Output, Peer, Policy, Program, Reduction,
    Reference, Resource, Role, Scratch, Shape, Step, StructMember, Symbol, SymbolValue, Target, Task,
    TensorType, Threshold, Timing, Toggle, Tolerance, Values,
};
pub use operands::Operands;
pub use problem::nearest;
pub use problem::{At, Problem};
pub use size::{Axes, Geometry, Size};
pub use size::{dims, values_of};
pub use space::{Knob, Space};
pub use standard::standard_distributions;
pub use words::{Comparison, Stage};

use section::File;

/// Bytes of the largest task file.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum number of syntax problems returned: later ones often follow from the first.
const MAX_SYNTAX_PROBLEMS: usize = 3;
/// Maximum number of problems returned for one file; the user fixes the first ones and runs it again.
pub const MAX_PROBLEMS: usize = 200;

impl Task {
    /// Reads a task, or returns every problem in the order of the file.
    pub fn parse(text: &str) -> Result<Task, Vec<Problem>> {
        if text.len() > MAX_BYTES {
            let sentence = format!("a task file has at most {MAX_BYTES} bytes, found {}", text.len());
            return Err(vec![Problem::new(0..0, sentence)]);
        }
        let (table, errors) = toml::de::DeTable::parse_recoverable(text);
        let mut file = File { text, problems: Vec::new() };
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            file.wrong(span, error.message().trim().replace('\n', "; "));
        }
        // Syntax errors cause missing keys, so report only problems in the parts that were read.
        let syntax = file.problems.len();
        let task = read::task(&mut file, &table);
        if syntax > 0 {
            file.problems.truncate(syntax);
        } else {
            check::check(&mut file, &task);
        }
        if file.problems.is_empty() {
            return Ok(task);
        }
        file.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        file.problems.dedup();
        file.problems.truncate(if syntax > 0 { MAX_SYNTAX_PROBLEMS } else { MAX_PROBLEMS });
        Err(file.problems)
    }

    /// The files that the task names: those of candidates and of its reference. Each is relative to the task's
    /// directory.
    pub fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self
            .candidates
            .iter()
            .filter_map(|candidate| match &candidate.program {
                Program::Source { file, .. } | Program::Ptx { file, .. } => Some(file.as_str()),
                Program::Rung { .. } => None,
            })
            .collect();
        match &self.reference {
            Reference::BuiltIn { .. } => {}
            Reference::Python { file, .. } => files.push(file.as_str()),
            Reference::Files { cases } => {
                let named = cases.iter().flat_map(|case| case.inputs.values().chain(case.outputs.values()));
                // `weights.safetensors#q` names a tensor of a file.
                files.extend(named.map(|file| file.split('#').next().unwrap_or(file)));
            }
        }
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The candidate with this name.
    pub fn candidate(&self, name: &str) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.name.value == name)
    }

    /// The values of a candidate's macros, `NAME=VALUE`: every toggle, then its own.
    pub fn macros(&self, candidate: &Candidate) -> Vec<String> {
        let toggles = self.toggles.iter().filter_map(|toggle| {
            let own = candidate.toggles.get(&toggle.name.value).map(|value| &value.value);
            own.or(toggle.default.as_ref()).map(|value| format!("{}={value}", toggle.name.value))
        });
        toggles
            .chain(candidate.defines.iter().map(|(name, value)| format!("{name}={}", value.value)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
