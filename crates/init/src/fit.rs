//! Fits formulas to observed numbers: extents of arrays and counts of blocks, in terms of the sizes of the runs.
//!
//! A run has a value for each variable. The first run is the base; in run `v + 1` only variable `v` is larger.

/// The values of the variables in each run.
pub(super) type Runs = [Vec<u64>];

/// An extent over the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// `factor` times the product of some variables; without variables, a constant.
    Product { variables: Vec<usize>, factor: u64 },
    /// `factor * variable + more`.
    Linear { variable: usize, factor: u64, more: u64 },
    /// Rows that begin `stride` apart, the last one with `row` elements.
    Strided { rows: Box<Extent>, stride: usize, row: Row },
}

/// The length of a row that differs from its stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Variable(usize),
    Constant(u64),
}

impl Extent {
    /// Its value in a run.
    pub(super) fn value(&self, run: &[u64]) -> u64 {
        let of = |variable: &usize| run.get(*variable).copied().unwrap_or(0);
        match self {
            Extent::Product { variables, factor } => {
                variables.iter().map(of).fold(*factor, u64::saturating_mul)
            }
            Extent::Linear { variable, factor, more } => {
                factor.saturating_mul(of(variable)).saturating_add(*more)
            }
            Extent::Strided { rows, stride, row } => {
                let row = row.value(run);
                rows.value(run).saturating_sub(1).saturating_mul(of(stride)).saturating_add(row)
            }
        }
    }
}

impl Row {
    fn value(self, run: &[u64]) -> u64 {
        match self {
            Row::Variable(variable) => run.get(variable).copied().unwrap_or(0),
            Row::Constant(value) => value,
        }
    }
}

/// The variables that a number depends on.
pub(super) fn depends(runs: &Runs, seen: &[u64]) -> Vec<usize> {
    let variables = runs.first().map_or(0, Vec::len);
    (0..variables).filter(|variable| seen.get(variable + 1) != seen.first()).collect()
}

/// The simplest formula that matches every run.
pub(super) fn extent(runs: &Runs, seen: &[u64]) -> Option<Extent> {
    let fits = |extent: &Extent| runs.iter().zip(seen).all(|(run, seen)| extent.value(run) == *seen);
    let variables = depends(runs, seen);
    let (base, first) = (runs.first()?, *seen.first()?);
    if let Some(product) = product(base, first, &variables).filter(fits) {
        return Some(product);
    }
    if let [variable] = variables.as_slice() {
        let (from, to) = (*base.get(*variable)?, *runs.get(variable + 1)?.get(*variable)?);
        let factor = seen.get(variable + 1)?.checked_sub(first)?.checked_div(to.checked_sub(from)?)?;
        let more = first.checked_sub(factor.checked_mul(from)?)?;
        return Some(Extent::Linear { variable: *variable, factor, more })
            .filter(|_| factor > 0)
            .filter(fits);
    }
    variables.iter().find_map(|stride| strided(runs, seen, &variables, *stride))
}

fn product(base: &[u64], first: u64, variables: &[usize]) -> Option<Extent> {
    let all = variables.iter().try_fold(1u64, |all, variable| all.checked_mul(*base.get(*variable)?))?;
    let factor = first.checked_div(all)?;
    (factor > 0 && factor.checked_mul(all)? == first)
        .then(|| Extent::Product { variables: variables.to_vec(), factor })
}

fn strided(runs: &Runs, seen: &[u64], variables: &[usize], stride: usize) -> Option<Extent> {
    let (base, first) = (runs.first()?, *seen.first()?);
    let (from, to) = (*base.get(stride)?, *runs.get(stride + 1)?.get(stride)?);
    let gaps = seen.get(stride + 1)?.checked_sub(first)?.checked_div(to.checked_sub(from)?)?;
    let last = first.checked_sub(gaps.checked_mul(from)?).filter(|last| *last > 0)?;
    let lengths = variables.iter().filter(|variable| base.get(**variable) == Some(&last));
    let lengths = lengths.map(|variable| Row::Variable(*variable)).chain([Row::Constant(last)]);
    for row in lengths {
        // The number of rows of each run, assuming this row length.
        let rows: Option<Vec<u64>> = runs
            .iter()
            .zip(seen)
            .map(|(run, seen)| {
                let (apart, rest) = (*run.get(stride)?, seen.checked_sub(row.value(run))?);
                (rest.checked_rem(apart)? == 0).then(|| rest / apart + 1)
            })
            .collect();
        let Some(rows) = rows else { continue };
        let counted = depends(runs, &rows);
        if counted.contains(&stride) {
            continue;
        }
        let Some(rows) = product(base, *rows.first()?, &counted) else { continue };
        let found = Extent::Strided { rows: Box::new(rows), stride, row };
        if runs.iter().zip(seen).all(|(run, seen)| found.value(run) == *seen) {
            return Some(found);
        }
    }
    None
}

/// Blocks along one direction of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    /// One for each tile of a product of variables.
    Tiles { variables: Vec<usize>, tile: u64 },
    /// One for each tile of a plane.
    Plane([(usize, u64); 2]),
}

/// Common tiles, the most likely first.
const TILES: [u64; 13] = [1, 32, 64, 128, 256, 16, 512, 1024, 8, 2048, 4096, 4, 2];

/// The number of working blocks, in terms of some of the variables. `likely` tiles are preferred if several match.
pub(super) fn blocks(samples: &[(Vec<u64>, u64)], variables: &[usize], likely: &[u64]) -> Option<Blocks> {
    let of = |run: &[u64], variable: usize| run.get(variable).copied().unwrap_or(1);
    if samples.iter().all(|(_, count)| *count == 1) {
        return Some(Blocks::Tiles { variables: Vec::new(), tile: 1 });
    }
    for chosen in subsets(variables) {
        let (mut low, mut high) = (1, u64::MAX);
        for (run, count) in samples {
            let all = chosen.iter().map(|variable| of(run, *variable)).fold(1, u64::saturating_mul);
            low = low.max(all.div_ceil((*count).max(1)));
            if let Some(most) = all.saturating_sub(1).checked_div(count.saturating_sub(1)) {
                high = high.min(most);
            }
        }
        if low <= high {
            let tile = likely.iter().chain(&TILES).find(|tile| (low..=high).contains(tile));
            return Some(Blocks::Tiles { variables: chosen, tile: tile.copied().unwrap_or(low) });
        }
    }
    let tiles = [8, 16, 32, 64, 128, 256];
    for (at, first) in variables.iter().enumerate() {
        for second in variables.iter().skip(at + 1) {
            for one in tiles {
                for other in tiles {
                    let count =
                        |run: &[u64]| of(run, *first).div_ceil(one) * of(run, *second).div_ceil(other);
                    if samples.iter().all(|(run, seen)| count(run) == *seen) {
                        return Some(Blocks::Plane([(*first, one), (*second, other)]));
                    }
                }
            }
        }
    }
    None
}

/// One, two or three of some variables, the fewest first.
fn subsets(variables: &[usize]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = variables.iter().map(|one| vec![*one]).collect();
    let mut from = 0;
    for _ in 0..2 {
        let to = all.len();
        for at in from..to {
            let shorter = all[at].clone();
            let last = shorter.last().and_then(|last| variables.iter().position(|one| one == last));
            for next in variables.iter().skip(last.map_or(0, |last| last + 1)) {
                let mut longer = shorter.clone();
                longer.push(*next);
                all.push(longer);
            }
        }
        from = to;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base, and each variable larger once.
    fn runs(base: &[u64]) -> Vec<Vec<u64>> {
        let mut all = vec![base.to_vec()];
        for at in 0..base.len() {
            let mut run = base.to_vec();
            run[at] += 3;
            all.push(run);
        }
        all
    }

    #[test]
    fn extents_are_explained() {
        let runs = runs(&[37, 41, 43]);
        let seen = |of: &dyn Fn(u64, u64, u64) -> u64| -> Vec<u64> {
            runs.iter().map(|run| of(run[0], run[1], run[2])).collect()
        };
        let product = |variables: &[usize], factor| Extent::Product { variables: variables.to_vec(), factor };
        for (numbers, expected) in [
            (seen(&|_, _, _| 256), Some(product(&[], 256))),
            (seen(&|a, _, c| a * c), Some(product(&[0, 2], 1))),
            (seen(&|a, b, c| 2 * a * b * c), Some(product(&[0, 1, 2], 2))),
            (seen(&|a, _, _| a + 2), Some(Extent::Linear { variable: 0, factor: 1, more: 2 })),
            (
                seen(&|a, b, c| (a - 1) * c + b),
                Some(Extent::Strided { rows: Box::new(product(&[0], 1)), stride: 2, row: Row::Variable(1) }),
            ),
            (
                seen(&|a, _, c| (a - 1) * c + 64),
                Some(Extent::Strided { rows: Box::new(product(&[0], 1)), stride: 2, row: Row::Constant(64) }),
            ),
            (seen(&|a, b, c| a * b + c * c), None),
        ] {
            assert_eq!(extent(&runs, &numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn grids_are_explained() {
        let mut runs = runs(&[37, 41]);
        runs.push(vec![1031, 41]);
        runs.push(vec![37, 1031]);
        let seen = |of: &dyn Fn(u64, u64) -> u64| -> Vec<(Vec<u64>, u64)> {
            runs.iter().map(|run| (run.clone(), of(run[0], run[1]))).collect()
        };
        let tiles = |variables: &[usize], tile| Some(Blocks::Tiles { variables: variables.to_vec(), tile });
        assert_eq!(blocks(&seen(&|_, _| 1), &[0, 1], &[]), tiles(&[], 1));
        assert_eq!(blocks(&seen(&|a, _| a), &[0, 1], &[]), tiles(&[0], 1));
        assert_eq!(blocks(&seen(&|_, b| b.div_ceil(32)), &[0, 1], &[]), tiles(&[1], 32));
        assert_eq!(blocks(&seen(&|a, _| a.div_ceil(4)), &[0, 1], &[4]), tiles(&[0], 4));
        assert_eq!(blocks(&seen(&|a, b| (a * b).div_ceil(96)), &[0, 1], &[96]), tiles(&[0, 1], 96));
        let plane = Some(Blocks::Plane([(0, 64), (1, 32)]));
        assert_eq!(blocks(&seen(&|a, b| a.div_ceil(64) * b.div_ceil(32)), &[0, 1], &[]), plane);
        assert_eq!(blocks(&seen(&|a, b| a * a + b), &[0, 1], &[]), None);
    }
}
