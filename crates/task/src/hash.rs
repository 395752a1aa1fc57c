//! Hashes of a task's canonical form, which identify what its results depend on: comments, order of keys and
//! formatting do not matter.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::{Candidate, Task};
use crate::Stage;

/// A part of a task file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of the parts")]
pub enum Part {
    Shapes,
    Data,
    Reference,
    Tolerance,
    Budgets,
    Toggles,
    Target,
    Baselines,
    Gates,
    Timing,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 10] = [
        Part::Shapes,
        Part::Data,
        Part::Reference,
        Part::Tolerance,
        Part::Budgets,
        Part::Toggles,
        Part::Target,
        Part::Baselines,
        Part::Gates,
        Part::Timing,
    ];

    /// Parts that define the meaning of an outcome: if one differs, results are not comparable.
    const COMPARED: [Part; 4] = [Part::Shapes, Part::Data, Part::Reference, Part::Tolerance];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Shapes => "shapes",
            Part::Data => "data",
            Part::Reference => "reference",
            Part::Tolerance => "tolerance",
            Part::Budgets => "budgets",
            Part::Toggles => "toggles",
            Part::Target => "target",
            Part::Baselines => "baselines",
            Part::Gates => "gates",
            Part::Timing => "timing",
        })
    }
}

/// What a ledger stores of a task, to decide whether results are comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The task's name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// [`Task::hash`].
    pub hash: String,
    /// The hash of each part.
    pub parts: BTreeMap<Part, String>,
}

/// Why results are not comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incompatible {
    /// They are of different tasks.
    Name(String, String),
    /// They are of different versions.
    Version(u32, u32),
    /// A part changed but the version did not.
    Changed {
        /// The version of both.
        version: u32,
        /// What changed.
        parts: Vec<Part>,
    },
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incompatible::Name(a, b) => write!(f, "results of tasks `{a}` and `{b}` are not comparable"),
            Incompatible::Version(a, b) => write!(f, "results of versions {a} and {b} are not comparable"),
            Incompatible::Changed { version, parts } => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                let parts = parts.join(", ");
                write!(
                    f,
                    "the task's {parts} changed, but its version is still {version}; increase the version"
                )
            }
        }
    }
}

impl std::error::Error for Incompatible {}

impl Identity {
    /// Whether results of both are comparable.
    pub fn compatible(&self, other: &Identity) -> Result<(), Incompatible> {
        if self.name != other.name {
            return Err(Incompatible::Name(self.name.clone(), other.name.clone()));
        }
        if self.version != other.version {
            return Err(Incompatible::Version(self.version, other.version));
        }
        let changed = Part::COMPARED.into_iter().filter(|part| self.parts.get(part) != other.parts.get(part));
        let parts: Vec<Part> = changed.collect();
        if parts.is_empty() { Ok(()) } else { Err(Incompatible::Changed { version: self.version, parts }) }
    }

    /// Whether this task may be recorded after an earlier one: the parts that define outcomes may change only
    /// together with the version.
    pub fn may_follow(&self, earlier: &Identity) -> Result<(), Incompatible> {
        match self.compatible(earlier) {
            Err(error @ Incompatible::Changed { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The version of the canonical form; a new version changes all hashes.
const FORM: &str = "warpproof task 1";

fn digest<T: Serialize>(what: &str, value: &T) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(FORM.as_bytes());
    hasher.update(&[0]);
    hasher.update(what.as_bytes());
    hasher.update(&[0]);
    // Serializing a task cannot fail: keys are strings and numbers are finite.
    hasher.update(&serde_json::to_vec(value).unwrap_or_default());
    hasher.finalize().to_hex().to_string()
}

impl Task {
    /// The hash of everything except candidates' notes.
    pub fn hash(&self) -> String {
        digest("task", self)
    }

    /// The hash of one part.
    pub fn part_hash(&self, part: Part) -> String {
        let name = part.to_string();
        match part {
            // The choice of evaluated shapes defines an outcome as much as the shapes themselves.
            Part::Shapes => {
                let judged = self
                    .gates
                    .iter()
                    .filter(|gate| matches!(gate.stage.value, Stage::Correct | Stage::Checks));
                let judged: Vec<_> = judged.map(|gate| (gate.stage.value.as_str(), &gate.shapes)).collect();
                digest(&name, &(&self.shapes, judged))
            }
            Part::Data => digest(&name, &self.data),
            Part::Reference => digest(&name, &self.reference),
            Part::Tolerance => digest(&name, &self.tolerance),
            Part::Budgets => digest(&name, &self.budgets),
            Part::Toggles => digest(&name, &self.toggles),
            Part::Target => digest(&name, &self.target),
            Part::Baselines => digest(&name, &self.baselines),
            Part::Gates => digest(&name, &self.gates),
            Part::Timing => digest(&name, &self.timing),
        }
    }

    /// The hash of one candidate's description; its files have their own hashes.
    pub fn candidate_hash(&self, candidate: &Candidate) -> String {
        digest("candidate", candidate)
    }

    /// The hash of the parts of the task that a stage of a candidate uses. Together with the hashes of its files it
    /// is a step's key.
    pub fn stage_hash(&self, stage: Stage, candidate: &Candidate) -> String {
        let parts: &[Part] = match stage {
            Stage::Build => &[Part::Toggles, Part::Target],
            Stage::Budget => &[Part::Toggles, Part::Target, Part::Budgets, Part::Shapes],
            Stage::Correct => &[
                Part::Toggles,
                Part::Target,
                Part::Shapes,
                Part::Data,
                Part::Reference,
                Part::Tolerance,
                Part::Baselines,
            ],
            Stage::Checks | Stage::Counters | Stage::Model => {
                &[Part::Toggles, Part::Target, Part::Shapes, Part::Data, Part::Reference]
            }
            Stage::Speed | Stage::Profile | Stage::External => &[
                Part::Toggles,
                Part::Target,
                Part::Shapes,
                Part::Data,
                Part::Reference,
                Part::Tolerance,
                Part::Baselines,
                Part::Timing,
            ],
        };
        let gate = self.gates.iter().find(|gate| gate.stage.value == stage);
        let parts: Vec<String> = parts.iter().map(|part| self.part_hash(*part)).collect();
        if stage == Stage::Model {
            // The prediction uses the counts of the stage `counters`, on its shapes.
            let counters = self.gates.iter().find(|gate| gate.stage.value == Stage::Counters);
            // No stage and a stage for all shapes both serialize to null, so hash separately whether the stage
            // exists.
            let counted = (counters.is_some(), counters.map(|gate| &gate.shapes));
            return digest(stage.as_str(), &(parts, gate, counted, self.candidate_hash(candidate)));
        }
        digest(stage.as_str(), &(parts, gate, self.candidate_hash(candidate)))
    }

    /// What a ledger stores of it.
    pub fn identity(&self) -> Identity {
        Identity {
            name: self.name.value.clone(),
            version: self.version.value,
            hash: self.hash(),
            parts: Part::ALL.into_iter().map(|part| (part, self.part_hash(part))).collect(),
        }
    }

    /// Like [`identity`](Self::identity), including the contents of the reference's files.
    pub fn identity_with(&self, files: &str) -> Identity {
        let mut identity = self.identity();
        let reference = digest("reference and files", &(self.part_hash(Part::Reference), files));
        identity.parts.insert(Part::Reference, reference);
        identity
    }

    /// Whether results of both are comparable.
    pub fn compatible(&self, other: &Task) -> Result<(), Incompatible> {
        self.identity().compatible(&other.identity())
    }
}
