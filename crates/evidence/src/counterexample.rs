//! Counterexamples, which show that a kernel is wrong: the case, the elements that differ, and the lines that checks
//! name.
//!
//! A failed step has one, so that reports can show it later. Its size is bounded: two elements, a small map, and a
//! few findings with the source lines they name.

mod mismatch;
mod pattern;

pub use mismatch::{Element, Mismatch, Output};

use serde::{Deserialize, Serialize};

/// Maximum number of findings stored.
pub const MAX_FINDINGS: usize = 8;
/// Maximum characters of a source line stored.
const MAX_LINE: usize = 200;

/// The evidence that a step failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counterexample {
    /// The case, as `--case` takes it.
    pub case: String,
    /// Where an output is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<Mismatch>,
    /// What the checks found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// A finding of the checks with the source lines that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its class, as `shared-race`.
    pub class: String,
    /// The error.
    pub sentence: String,
    /// Its places, the most important first.
    pub places: Vec<Excerpt>,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The file and the line, as `softmax.cu:41`.
    pub place: String,
    /// The text of that line; empty if the file is not the task's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// What happens there.
    pub label: String,
    /// The thread, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
}

impl Counterexample {
    /// A counterexample with only its case.
    pub fn of_case(case: impl Into<String>) -> Self {
        Self { case: case.into(), ..Self::default() }
    }

    /// The command that runs only this case and shows the error.
    pub fn command(&self, task: &str, candidate: &str) -> String {
        let verb = if self.findings.is_empty() { "run" } else { "check" };
        let (task, case, candidate) = (quoted(task), quoted(&self.case), quoted(candidate));
        format!("warpproof {verb} --task {task} --case {case} --candidate {candidate}")
    }
}

impl Excerpt {
    /// A source line without its indentation, truncated if it is long.
    pub fn shortened(line: &str) -> String {
        let line = line.trim();
        match line.char_indices().nth(MAX_LINE) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
            None => line.to_owned(),
        }
    }
}

/// A shell argument: unchanged if that is safe, else in single quotes.
fn quoted(word: &str) -> String {
    let safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '=' | ':' | ',' | '+');
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_safe_to_paste() {
        let shown = Counterexample::of_case("rows/shape=surprise(m=3,n=4)/seed=1");
        assert_eq!(
            shown.command("my task.toml", "it's[T=1]"),
            "warpproof run --task 'my task.toml' --case 'rows/shape=surprise(m=3,n=4)/seed=1' --candidate 'it'\\''s[T=1]'"
        );
        let plain = Counterexample::of_case("rows/shape=main:m=3/dtype=f16/dist=wide/seed=1");
        assert_eq!(
            plain.command("t.toml", "rows"),
            "warpproof run --task t.toml --case rows/shape=main:m=3/dtype=f16/dist=wide/seed=1 --candidate rows"
        );
    }
}
