//! Phases of a kernel: a phase begins at a comment `// phase: name` of its source and ends at the next such comment.

use std::collections::BTreeMap;

use serde::Serialize;
use warpproof_count::Counters;

use super::Place;
use super::machine::Machine;
use super::memory::Texts;
use warpproof_model::schedule::Launch;

/// How a phase begins in the source.
const MARK: &str = "// phase:";
/// The name of everything outside of phases.
const OTHER: &str = "other";

/// The cost of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Its name in the source; phases of the same name are one.
    pub name: String,
    /// Warp instructions of the PTX, over the whole launch. Counted.
    pub executions: u64,
    /// Its share of the cost, 0 to 1: of predicted warp cycles, or without a schedule of counted warp instructions.
    pub share: f64,
}

/// The line of the comment that a place is below, and the name in it.
fn mark(place: &Place, text: Texts<'_>) -> Option<(u32, String)> {
    let at = |line| text(&Place { file: place.file.clone(), line });
    place.file.as_ref()?;
    at(place.line)?;
    (1..=place.line).rev().find_map(|line| {
        let text = at(line)?;
        let name = text.split_once(MARK)?.1.trim();
        (!name.is_empty()).then(|| (line, name.to_owned()))
    })
}

#[derive(Default)]
struct Collected {
    /// The first line of the phase.
    line: u32,
    executions: u64,
    cycles: u64,
}

/// Phases in the order of the source; empty if the source marks none.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "shares of counts")]
pub(super) fn phases(
    counters: &Counters,
    costs: Option<(&Machine<'_>, &Launch)>,
    text: Texts<'_>,
) -> Vec<Phase> {
    let mut marks: BTreeMap<Place, Option<(u32, String)>> = BTreeMap::new();
    let mut of_line: BTreeMap<u32, String> = BTreeMap::new();
    let mut found: BTreeMap<String, Collected> = BTreeMap::new();
    for instruction in &counters.instructions {
        // The kernel's own line comes last: what it calls belongs to the phase of the call.
        let known = instruction.source.iter().rev().find_map(|source| {
            let place = Place { file: Some(source.file.clone()), line: source.line };
            marks.entry(place).or_insert_with_key(|place| mark(place, text)).clone()
        });
        let (line, name) = known.unwrap_or_else(|| (u32::MAX, OTHER.to_owned()));
        let phase = found.entry(name.clone()).or_insert_with(|| Collected { line, ..Collected::default() });
        phase.line = phase.line.min(line);
        phase.executions = phase.executions.saturating_add(instruction.issued.executions);
        of_line.entry(instruction.ptx_line).or_insert(name);
    }
    if found.values().all(|phase| phase.line == u32::MAX) {
        return Vec::new();
    }
    let mut all = counters.totals.issued.executions;
    if let Some((machine, launch)) = costs {
        all = launch.round.issued.saturating_add(launch.round.stalls.total());
        for (instruction, cost) in machine.function.instructions.iter().zip(&launch.round.costs) {
            let name = instruction.ptx_line.and_then(|line| of_line.get(&line));
            let name = name.map_or(OTHER, String::as_str);
            let unmarked = || Collected { line: u32::MAX, ..Collected::default() };
            let phase = found.entry(name.to_owned()).or_insert_with(unmarked);
            phase.cycles = phase.cycles.saturating_add(cost.issued).saturating_add(cost.stalls.total());
        }
    }
    let mut found: Vec<(String, Collected)> = found.into_iter().collect();
    found.sort_by_key(|(_, phase)| phase.line);
    let phases = found.into_iter().map(|(name, phase)| {
        let weight = if costs.is_some() { phase.cycles } else { phase.executions };
        Phase { name, executions: phase.executions, share: weight as f64 / all.max(1) as f64 }
    });
    phases.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_the_phase_whose_comment_is_above_it() {
        let source = ["int a;", "    // phase: load", "b();", "c(); // phase: P.V", "// phase:", "d();"];
        let text = |place: &Place| {
            let index = usize::try_from(place.line).ok()?.checked_sub(1)?;
            (place.file.as_deref() == Some("k.cu"))
                .then(|| source.get(index).map(|line| (*line).to_owned()))?
        };
        let of = |file: &str, line| mark(&Place { file: Some(file.to_owned()), line }, &text);
        assert_eq!(of("k.cu", 1), None);
        assert_eq!(of("k.cu", 3), Some((2, "load".to_owned())));
        assert_eq!(of("k.cu", 6), Some((4, "P.V".to_owned())));
        assert_eq!(of("mma.hpp", 3), None);
        assert_eq!(of("k.cu", 99), None);
    }
}
