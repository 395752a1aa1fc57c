//! The intervals that were compared, on log-ratios of blocks whose truth is zero.

use warpproof_speed::{Random, bootstrap};

/// Shape of the noise of a batch, 5 % each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Gaussian,
    Tail,
    Contention,
}

impl Shape {
    fn log_of_batch(self, random: &mut Random) -> f64 {
        let factor = match self {
            Self::Gaussian => 1.0 + 0.05 * random.normal(),
            Self::Tail => 1.0 + 0.05 * random.normal().exp() / 2.161,
            Self::Contention => (1.0 + 0.01 * random.normal()) * if random.chance(0.15) { 1.14 } else { 1.0 },
        };
        factor.ln()
    }

    fn log_ratio(self, random: &mut Random) -> f64 {
        let mut side = || self.log_of_batch(random) + self.log_of_batch(random);
        (side() - side()) / 2.0
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "Gaussian",
            Self::Tail => "log-normal tail",
            Self::Contention => "contention",
        }
    }
}

/// The results of a method.
#[derive(Clone, Copy, Default)]
pub(crate) struct Method {
    /// Fraction of intervals that contained the truth.
    pub(crate) covered: f64,
    /// Mean of half their width.
    half_width: f64,
}

fn quantile(sorted: &[f64], permille: usize) -> f64 {
    sorted[(sorted.len() - 1) * permille / 1000]
}

/// Plain percentile intervals of the mean and the median, and the interval in use.
pub(crate) fn coverage(shape: Shape, blocks: u32, trials: u32, resamples: u32) -> [Method; 3] {
    let mut random = Random::new(u64::from(blocks) + 1000);
    let mut methods = [Method::default(); 3];
    for _ in 0..trials {
        let values: Vec<f64> = (0..blocks).map(|_| shape.log_ratio(&mut random)).collect();
        let (mut means, mut medians) = (Vec::new(), Vec::new());
        let mut resample = values.clone();
        for _ in 0..resamples {
            for value in &mut resample {
                *value = values[random.below(values.len())];
            }
            means.push(resample.iter().sum::<f64>() / f64::from(blocks));
            resample.sort_by(f64::total_cmp);
            let half = resample.len() / 2;
            let below = if resample.len().is_multiple_of(2) { half - 1 } else { half };
            medians.push(f64::midpoint(resample[below], resample[half]));
        }
        means.sort_by(f64::total_cmp);
        medians.sort_by(f64::total_cmp);
        let used = bootstrap(&values, 0.95, resamples, random.bits()).unwrap();
        let ends = [
            (quantile(&means, 25), quantile(&means, 975)),
            (quantile(&medians, 25), quantile(&medians, 975)),
            (used.low, used.high),
        ];
        for (method, (low, high)) in methods.iter_mut().zip(ends) {
            method.covered += f64::from(u8::from(low <= 0.0 && high >= 0.0)) / f64::from(trials);
            method.half_width += (high - low) / 2.0 / f64::from(trials);
        }
    }
    methods
}

/// The head of the book's table.
pub(crate) const HEAD: &str = "| noise, blocks | mean | median | the one in use |\n|---|--:|--:|--:|";

/// The rows of the book's table.
pub(crate) fn lines(trials: u32, resamples: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for shape in [Shape::Gaussian, Shape::Tail, Shape::Contention] {
        for blocks in [10, 20, 40, 100] {
            let cells = coverage(shape, blocks, trials, resamples)
                .map(|method| format!("{:.1} (±{:.2})", method.covered * 100.0, method.half_width * 100.0));
            lines.push(format!("| {}, {blocks} | {} |", shape.name(), cells.join(" | ")));
        }
    }
    lines
}
