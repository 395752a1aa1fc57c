//! A finding of a check: its class, a message, and the source locations and threads that explain it.

use super::class::Class;
use warpproof_sim::stop::{Place, Stop};

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Severity {
    /// The kernel is wrong.
    Error,
    /// The results are correct, but the user should know.
    Note,
}

impl Severity {
    /// The stable name, used in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Note => "note",
        }
    }
}

/// A thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Thread {
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
}

/// A source location and what happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Label {
    /// What happened there: a few lowercase words such as "the write".
    pub text: String,
    /// The location.
    pub place: Place,
    /// The thread, if a single thread did it.
    pub thread: Option<Thread>,
}

/// One bug, however often it occurred.
///
/// With the feature `serde`, it serializes as an object with the names of its fields; classes and severities are their
/// names (`"shared-race"`, `"error"`). Fields and classes may be added, the existing ones keep their names and meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Finding {
    /// Its kind.
    pub class: Class,
    /// Its severity.
    pub severity: Severity,
    /// The message: one lowercase sentence that names the bug and the threads.
    pub sentence: String,
    /// Source locations: first the one to fix, then those that explain it.
    pub places: Vec<Label>,
    /// Notes that explain it.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// How often it occurred.
    pub count: u64,
}

impl Finding {
    /// Converts a stop that the kernel caused into a finding.
    pub fn of_stop(stop: &Stop) -> Option<Finding> {
        let class = Class::of_stop(stop.kind)?;
        // What each warp waits for is shown as a label at its location, so those notes are dropped.
        let placed = !stop.others.is_empty() || stop.label.is_some();
        let notes =
            stop.notes.iter().filter(|note| !(placed && note.starts_with("warp "))).cloned().collect();
        let thread = stop.block.zip(stop.thread).map(|(block, thread)| Thread { block, thread });
        let text = stop.label.clone().unwrap_or_else(|| "here".to_owned());
        let first = stop.place.iter().map(|place| Label { text: text.clone(), place: place.clone(), thread });
        let others = stop.others.iter().map(|(place, text)| Label {
            text: text.clone(),
            place: place.clone(),
            thread: None,
        });
        Some(Finding {
            class,
            severity: Severity::Error,
            sentence: stop.sentence.clone(),
            places: first.chain(others).collect(),
            notes,
            help: stop.help.clone(),
            count: 1,
        })
    }
}

impl std::fmt::Display for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([x, y, z], [i, j, k]) = (self.thread, self.block);
        write!(f, "thread ({x},{y},{z}) of block ({i},{j},{k})")
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.sentence)?;
        for label in &self.places {
            let place = &label.place;
            match place.source.first() {
                Some(line) => {
                    write!(f, "\n  at {}:{}:{}: {}", line.file, line.line, line.column, label.text)?;
                }
                None => {
                    write!(f, "\n  at PTX line {} in {}: {}", place.ptx_line, place.function, label.text)?;
                }
            }
        }
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        if self.count > 1 {
            write!(f, "\n  {} times", self.count)?;
        }
        Ok(())
    }
}
