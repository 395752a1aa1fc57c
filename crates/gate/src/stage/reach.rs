//! Further cases, which reach outcomes of conditions that the task's own cases do not reach.
//!
//! There are two kinds. A condition on kernel parameters is evaluated for sizes that a hidden shape of the task may
//! have, until one gives the outcome. A condition on loaded values is compared with constants; those constants, and
//! numbers next to them, are planted into the inputs. Both are proposals: a case that misses its goal is an ordinary
//! case. They are drawn from the run's secret, and their number is bounded.

use warpproof_num::random::SplitMix;
use warpproof_sim::Module as Loaded;
use warpproof_sim::cover::{Coverage, Environment, Missing, Points, Slice};

use super::build::Module;
use super::layout::{Layout, Planned};
use super::{Bench, Case, Part, Trouble, stopped};
use crate::inputs::Input;
use crate::limits::Purpose;
use warpproof_evidence::record::Stage;
use warpproof_task::{Candidate, Extent, NonFinite, Policy, Reference, Size};

/// Further cases of each kind.
const MOST: usize = 8;
/// Sizes tried for a condition.
const SIZES: usize = 128;

/// Values that a case puts into its inputs; none if its size is what matters.
#[derive(Clone, Debug, Default)]
pub(super) struct Planted {
    /// The values.
    pub(super) values: Vec<f64>,
}

impl Planted {
    /// Puts the values at drawn places of every input that accepts any number, in its first half; the other half
    /// stays unchanged.
    pub(super) fn plant(&self, bench: &Bench<'_>, inputs: &mut [Input], seed: u64) {
        let mut random = SplitMix(seed ^ 0x9a17_ed00);
        let ranged = |name: &str| {
            bench.task.data.inputs.iter().any(|input| input.name.value == name && input.range.is_some())
        };
        // A scale is positive and finite.
        let scale = |name: &str| bench.task.data.is_implied() && name.ends_with("_scale");
        // Stated limits assume magnitudes like those of the task's own inputs.
        let stated = matches!(bench.task.tolerance.policy, Policy::Stated { .. });
        for input in inputs.iter_mut().filter(|input| !ranged(&input.name) && !scale(&input.name)) {
            let largest = input.tensor.values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let fits = |value: f64| !stated || !value.is_finite() || value.abs() <= 4.0 * largest;
            let half = input.tensor.values.len().div_ceil(2);
            let count = (2 * self.values.len()).max(half / 64).min(half);
            for i in 0..count {
                let place = random.next() % u64::try_from(half).unwrap_or(1).max(1);
                let Some(value) = self.values.get(i % self.values.len().max(1)) else { return };
                let slot = usize::try_from(place).ok().and_then(|place| input.tensor.values.get_mut(place));
                if let Some(slot) = slot.filter(|_| fits(*value)) {
                    *slot = input.dtype.round(*value);
                }
            }
        }
    }
}

/// An outcome that no case reached, and its kernel.
struct Goal<'m> {
    missing: &'m Missing,
    symbol: &'m str,
    pc: u32,
}

/// Cases, beyond those of a size, that may reach the missing outcomes.
pub(super) fn further<'a>(
    bench: &Bench<'a>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    covered: &Coverage,
) -> Result<Vec<(Part, Vec<Case<'a>>)>, Trouble> {
    let missing = covered.missing();
    if missing.is_empty() || matches!(bench.task.reference, Reference::Files { .. }) {
        return Ok(Vec::new());
    }
    let loaded = bench
        .device(Purpose::Run)
        .load(module.ptx)
        .map_err(|stop| Trouble::from(stopped(&stop, &part.name)))?;
    let mut goals = Vec::new();
    for missing in &missing {
        let symbol = missing.kernel.rsplit(' ').next().unwrap_or_default();
        let Ok(kernel) = loaded.kernel(symbol) else { continue };
        let same =
            |point: &warpproof_sim::cover::Point| (&point.line, point.row) == (&missing.line, missing.row);
        let point = Points::of(kernel.program()).conditions().find(same);
        goals.extend(point.map(|point| Goal { missing, symbol, pc: point.pc }));
    }
    let mut cases = Vec::new();
    let first = bench.parts(candidate, Stage::Correct).first().is_some_and(|first| first.name == part.name);
    if first {
        cases
            .extend(values(bench, candidate, &loaded, &goals).into_iter().map(|cases| (part.clone(), cases)));
    }
    if part.size.hidden && !part.name.contains(':') {
        cases.extend(sizes(bench, candidate, module, &loaded, part, &goals)?);
    }
    Ok(cases)
}

/// The source of further cases: the run's secret, if the task has secret cases at all.
fn secret(bench: &Bench<'_>) -> u64 {
    if bench.task.data.secret_seeds > 0 { bench.secret } else { 0 }
}

/// The first case of each type, with a drawn seed.
fn drawn<'a>(bench: &Bench<'a>, candidate: &Candidate, planted: &Planted, number: u64) -> Vec<Case<'a>> {
    let seed = SplitMix(secret(bench) ^ (number << 32) ^ 0x5eed).next();
    let mut cases = bench.first_cases(candidate);
    for case in &mut cases {
        case.seed = seed;
        let shown: Vec<String> = planted.values.iter().take(1).map(ToString::to_string).collect();
        let shown =
            if shown.is_empty() { String::new() } else { format!(" with {} planted", shown.join(", ")) };
        case.name = format!("{}{shown}, drawn seed {seed}", case.distribution.name.value);
        case.planted = Some(planted.clone());
    }
    cases
}

/// A case for each constant that loaded values are compared with.
fn values<'a>(
    bench: &Bench<'a>,
    candidate: &Candidate,
    loaded: &Loaded,
    goals: &[Goal<'_>],
) -> Vec<Vec<Case<'a>>> {
    let mut constants: Vec<f64> = Vec::new();
    for goal in goals {
        let Ok(kernel) = loaded.kernel(goal.symbol) else { continue };
        for constant in Slice::of(kernel.program()).constants(goal.pc, goal.missing.row).unwrap_or_default() {
            let accepted = constant.is_finite() || bench.task.tolerance.non_finite == NonFinite::Match;
            if accepted && !constants.iter().any(|known| known.to_bits() == constant.to_bits()) {
                constants.push(constant);
            }
        }
    }
    let planted = constants.iter().take(MOST).map(|constant| Planted { values: beside(*constant) });
    (0u64..).zip(planted).map(|(i, planted)| drawn(bench, candidate, &planted, i)).collect()
}

/// A number, and others on both sides of it.
fn beside(constant: f64) -> Vec<f64> {
    if !constant.is_finite() {
        return vec![constant];
    }
    if constant == 0.0 {
        return vec![0.0, 1e-3, -1e-3, 1.0, -1.0];
    }
    let mut values = vec![constant, 1.001 * constant, 0.999 * constant, 2.0 * constant, -constant];
    if constant.fract() == 0.0 && constant.abs() < 1e6 {
        values.extend([constant + 1.0, constant - 1.0]);
    }
    values
}

/// Sizes of a hidden shape under which conditions have an outcome that none of the task's own sizes gives.
fn sizes<'a>(
    bench: &Bench<'a>,
    candidate: &Candidate,
    module: Module<'_>,
    loaded: &Loaded,
    part: &Part,
    goals: &[Goal<'_>],
) -> Result<Vec<(Part, Vec<Case<'a>>)>, Trouble> {
    let Some(shape) = bench.task.shapes.iter().find(|shape| shape.name.value == part.name) else {
        return Ok(Vec::new());
    };
    let cases = bench.first_cases(candidate);
    let Some(dtype) = cases.first().map(|case| case.dtype) else { return Ok(Vec::new()) };
    let layout = |size: &Size| Layout::new(bench, candidate, module, loaded.kernels(), size, dtype);
    let reaches = |goal: &Goal<'_>, size: &Size| {
        let Ok(kernel) = loaded.kernel(goal.symbol) else { return false };
        let slice = Slice::of(kernel.program());
        let Ok(layout) = layout(size) else { return false };
        let launches = layout.launches.iter().filter(|planned| planned.symbol == goal.symbol);
        launches.flat_map(environments).any(|environment| {
            slice.value(goal.pc, goal.missing.row, &environment) == Some(goal.missing.outcome)
        })
    };
    let own = bench.sizes(candidate, Some(Stage::Correct));
    let mut found: Vec<Size> = Vec::new();
    for goal in goals {
        bench.check_stop()?;
        if found.len() >= MOST || own.iter().chain(&found).any(|size| reaches(goal, size)) {
            continue;
        }
        let ranges = shape.axes.iter().filter_map(|(axis, extent)| match extent {
            Extent::Range(low, high) => Some((axis, *low, *high)),
            Extent::Fixed(_) => None,
        });
        let mut tried = ranges.flat_map(|(axis, low, high)| {
            let now = part.size.axes.get(axis).copied().unwrap_or(low);
            extents(low, high, now, secret(bench)).into_iter().map(move |extent| {
                let mut size = part.size.clone();
                size.axes.insert(axis.clone(), extent);
                size.name = format!("{}:{axis}={extent}", part.name);
                size
            })
        });
        found.extend(tried.find(|size| reaches(goal, size)));
    }
    let parts = (MOST..).zip(found).map(|(number, size)| {
        let number = u64::try_from(number).unwrap_or(0);
        let part = Part { name: size.name.clone(), size };
        (part, drawn(bench, candidate, &Planted::default(), number))
    });
    Ok(parts.collect())
}

/// Extents of an axis to try: those near the drawn one, then others of the range.
fn extents(low: u64, high: u64, now: u64, secret: u64) -> Vec<u64> {
    let mut random = SplitMix(secret ^ low ^ (high << 20));
    let near =
        (1..u64::try_from(SIZES / 4).unwrap_or(0)).flat_map(|by| [now.checked_add(by), now.checked_sub(by)]);
    let mut extents: Vec<u64> = near.flatten().chain([low, high]).collect();
    let span = high.saturating_sub(low).saturating_add(1);
    extents.extend((extents.len()..SIZES).map(|_| low + random.next() % span.max(1)));
    extents.retain(|extent| (low..=high).contains(extent));
    extents
}

/// Some threads of a launch: the first, the last, and some between.
fn environments(planned: &Planned) -> Vec<Environment> {
    // An argument that holds an address is unknown.
    let parameters: Vec<Option<Vec<u8>>> = planned
        .arguments
        .iter()
        .map(|argument| argument.addresses().is_empty().then(|| argument.bytes(|_| 0)))
        .collect();
    let last = |all: [u32; 3]| all.map(|extent| extent.saturating_sub(1));
    let threads = [0, 1, 31, planned.block[0] / 2, planned.block[0].saturating_sub(1)];
    let mut environments = Vec::new();
    for block in [[0; 3], last(planned.grid)] {
        for x in threads.into_iter().filter(|x| *x < planned.block[0]) {
            environments.push(Environment {
                parameters: parameters.clone(),
                blocks: planned.grid,
                threads: planned.block,
                block,
                thread: [x, 0, 0],
            });
        }
    }
    environments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_stay_in_the_range() {
        let all = extents(34, 500, 100, 7);
        assert!(all.iter().all(|extent| (34..=500).contains(extent)));
        assert!((0..4).all(|residue| all.iter().any(|extent| extent % 4 == residue)));
        assert_eq!(extents(3, 3, 3, 7).iter().max(), Some(&3));
    }

    #[test]
    fn numbers_beside_a_constant_are_on_both_sides() {
        for constant in [1234.5, -2.0, 1e9] {
            let values = beside(constant);
            assert!(values.contains(&constant));
            assert!(
                values.iter().any(|value| *value < constant) && values.iter().any(|value| *value > constant)
            );
        }
        assert_eq!(beside(f64::NEG_INFINITY), [f64::NEG_INFINITY]);
    }
}
