//! How far the scaled counters of a sample may be from those of the whole grid: means and variances of each counter over the
//! sampled blocks of each stratum.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "margins are estimates; rounding beyond 2^53 is far below their own error"
)]

use super::selection::Stratum;
use std::collections::BTreeMap;

/// Mean and variance of values that come one by one. Equal values have a variance of exactly zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Adds `count` equal values.
    fn add(&mut self, value: f64, count: u64) {
        if count == 0 {
            return;
        }
        let all = self.count + count;
        let distance = value - self.mean;
        let share = count as f64 / all as f64;
        self.squares += distance * distance * self.count as f64 * share;
        self.mean += distance * share;
        self.count = all;
    }
}

/// The counters of the sampled blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Blocks of each stratum so far.
    seen: Vec<u64>,
    /// For each counter, its moments in each stratum, without trailing zeros.
    counters: BTreeMap<String, Vec<Moments>>,
}

impl Spread {
    pub(crate) fn new(strata: usize) -> Spread {
        Spread { seen: vec![0; strata], counters: BTreeMap::new() }
    }

    /// Adds a block's counters; those that it does not have are zero.
    pub(crate) fn add(&mut self, stratum: usize, counters: BTreeMap<String, u64>) {
        let strata = self.seen.len();
        let Some(seen) = self.seen.get_mut(stratum) else { return };
        *seen += 1;
        for (name, value) in counters {
            let all = self.counters.entry(name).or_insert_with(|| vec![Moments::default(); strata]);
            if let Some(moments) = all.get_mut(stratum) {
                moments.add(0.0, *seen - 1 - moments.count);
                moments.add(value as f64, 1);
            }
        }
    }

    /// Half the width of each counter's 95 % confidence interval, rounded up; zeros are omitted.
    ///
    /// The variance of a stratum is that of simple random sampling without replacement. The selection is a Latin hypercube,
    /// whose variance is at most slightly larger, by a factor of n / (n - 1), and usually much smaller (A. Owen, 1997).
    /// Student's distribution takes the degrees of freedom of Welch and Satterthwaite.
    pub(crate) fn margins(&self, strata: &[Stratum]) -> BTreeMap<String, u64> {
        let mut margins = BTreeMap::new();
        for (name, all) in &self.counters {
            let (mut variance, mut freedom) = (0.0, 0.0);
            for ((moments, seen), stratum) in all.iter().zip(&self.seen).zip(strata) {
                let mut moments = *moments;
                moments.add(0.0, seen - moments.count.min(*seen));
                if moments.count < 2 || stratum.blocks <= moments.count {
                    continue;
                }
                let (count, size) = (moments.count as f64, stratum.blocks as f64);
                let own = size * (size - count) * moments.squares / (count - 1.0) / count;
                // The factor of the bound above.
                let own = own * count / (count - 1.0);
                variance += own;
                freedom += own * own / (count - 1.0);
            }
            if variance > 0.0 {
                let freedom = variance * variance / freedom;
                margins.insert(name.clone(), (student(freedom) * variance.sqrt()).ceil() as u64);
            }
        }
        margins
    }
}

/// The 97.5 % quantile of Student's distribution, for degrees of freedom rounded down.
fn student(freedom: f64) -> f64 {
    const QUANTILES: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    let index = (freedom.max(1.0) as usize).min(1000) - 1;
    match index {
        0..20 => QUANTILES[index],
        20..60 => 2.08,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::{Chosen, Selection};
    use warpproof_num::random::SplitMix;

    fn of(values: &[u64], size: u64) -> BTreeMap<String, u64> {
        let mut spread = Spread::new(1);
        for value in values {
            let counters = if *value == 0 { vec![] } else { vec![("c".to_owned(), *value)] };
            spread.add(0, counters.into_iter().collect());
        }
        let sampled = u64::try_from(values.len()).unwrap();
        spread.margins(&[Stratum { blocks: size, sampled }])
    }

    #[test]
    fn equal_blocks_have_no_margin() {
        assert_eq!(of(&[12_345_678_901; 7], 1000), BTreeMap::new());
        // All blocks were counted.
        assert_eq!(of(&[1, 2, 3], 3), BTreeMap::new());
    }

    #[test]
    fn a_margin_by_hand() {
        // Mean 2, variance 1, three of 30 blocks: sqrt(30 · 27 · 1 / 3 · 3 / 2) = 20.12, times 4.303.
        assert_eq!(of(&[1, 2, 3], 30)["c"], 87);
        // Zeros count, wherever they are: the variance of 0, 3, 0 and of 3, 0, 0 is 3.
        assert_eq!(of(&[0, 3, 0], 30), of(&[3, 0, 0], 30));
        assert_eq!(of(&[0, 3, 0], 30)["c"], 150);
    }

    /// A counter of a block, by its position in the grid.
    type Counter<'a> = &'a dyn Fn([u64; 3]) -> u64;

    /// Whether the margin of a sample covers the total of a function of the block.
    fn covers(grid: [u32; 3], size: u64, of: Counter<'_>) -> bool {
        let at = |block: u32| {
            let [x, y, _] = grid;
            of([block % x, block / x % y, block / x / y].map(u64::from))
        };
        let selection = Selection::of(grid, size).unwrap();
        let mut spread = Spread::new(selection.strata.len());
        let mut estimate = 0;
        for Chosen { block, weight, stratum } in &selection.chosen {
            spread.add(*stratum, BTreeMap::from([("c".to_owned(), at(*block))]));
            estimate += weight * at(*block);
        }
        let truth: u64 = (0..grid.iter().product()).map(at).sum();
        let margin = spread.margins(&selection.strata).get("c").copied().unwrap_or(0);
        estimate.abs_diff(truth) <= margin
    }

    #[test]
    fn margins_cover_nearly_all_of_many_functions() {
        let noise = |[x, y, z]: [u64; 3]| SplitMix(x + 1000 * y + 1_000_000 * z).next() % 1000;
        let functions: [(&str, Counter<'_>); 7] = [
            ("triangle of x", &|[x, _, _]| x + 1),
            ("triangle of y", &|[_, y, _]| y + 1),
            ("product", &|[x, y, z]| (x + 1) * (y + 1) * (z + 1)),
            ("noise", &noise),
            ("two kinds", &|position| if noise(position) < 300 { 50 } else { 1 }),
            ("period", &|[x, _, _]| 10 + x % 8),
            ("half", &|[x, y, z]| if (x + y + z) % 2 == 0 { 9 } else { 3 }),
        ];
        let mut found = Vec::new();
        for (name, of) in functions {
            let (mut cases, mut covered) = (0u32, 0u32);
            for grid in [[512, 1, 1], [64, 32, 1], [32, 16, 4], [1, 700, 1], [128, 3, 3], [1000, 2, 1]] {
                for size in (16..200).step_by(4) {
                    cases += 1;
                    covered += u32::from(covers(grid, size, of));
                }
            }
            found.push((name, covered * 100 / cases));
        }
        // 95 % are expected of functions without any order, and more of the others.
        assert!(found.iter().all(|(_, percent)| *percent >= 92), "{found:?}");
    }

    #[test]
    fn quantiles_fall() {
        let mut last = f64::MAX;
        for freedom in 0..200 {
            let now = student(f64::from(freedom));
            assert!(now <= last && now >= 1.96);
            last = now;
        }
    }
}
