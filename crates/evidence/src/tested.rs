//! What a step was tested on: shapes, types, distributions, seeds and schedules, for the reports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Maximum number of names stored for each kind; the rest are counted.
const MAX_NAMES: usize = 64;

/// What a step was tested on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    /// Shapes; a hidden one with its drawn extents.
    #[serde(default)]
    pub shapes: BTreeSet<String>,
    /// Types.
    #[serde(default)]
    pub dtypes: BTreeSet<String>,
    /// Distributions of the inputs.
    #[serde(default)]
    pub distributions: BTreeSet<String>,
    /// Seeds; a secret one as `secret 17`.
    #[serde(default)]
    pub seeds: BTreeSet<String>,
    /// Orders in which warps took turns, for each launch.
    #[serde(default)]
    pub schedules: u32,
    /// Sets of inputs.
    #[serde(default)]
    pub cases: u64,
}

impl Tested {
    /// Adds what another part of the same step was tested on.
    pub fn add(&mut self, other: &Tested) {
        let join = |mine: &mut BTreeSet<String>, theirs: &BTreeSet<String>| {
            let room = MAX_NAMES.saturating_sub(mine.len());
            let new: Vec<String> =
                theirs.iter().filter(|one| !mine.contains(*one)).take(room).cloned().collect();
            mine.extend(new);
        };
        join(&mut self.shapes, &other.shapes);
        join(&mut self.dtypes, &other.dtypes);
        join(&mut self.distributions, &other.distributions);
        join(&mut self.seeds, &other.seeds);
        self.schedules = self.schedules.max(other.schedules);
        self.cases = self.cases.saturating_add(other.cases);
    }

    /// Its rows for display: a name and a text for each kind.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut rows = vec![("sets of inputs", self.cases.to_string())];
        for (name, names) in [
            ("shapes", &self.shapes),
            ("types", &self.dtypes),
            ("distributions", &self.distributions),
            ("seeds", &self.seeds),
        ] {
            if !names.is_empty() {
                rows.push((name, list(names)));
            }
        }
        if self.schedules > 0 {
            rows.push(("schedules", self.schedules.to_string()));
        }
        rows
    }
}
