//! The timer's resolution, found from the times it gave.
//!
//! A timer that ticks gives multiples of its tick, so differences of times are also multiples of it, and the tick is
//! their greatest common divisor. Times may include rounding (CUDA gives an event's time as a 32-bit float of
//! milliseconds), so Euclid's algorithm runs with error bounds: a remainder within its bound counts as zero.
//!
//! With few samples the result can be a multiple of the tick, never a fraction: the error is on the safe side.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are far below 2^53 ps, and the divisor is positive"
)]

use serde::{Deserialize, Serialize};

/// Fraction of differences that must be multiples of the tick.
const AGREE: f64 = 0.95;

/// How the resolution is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// All times lie on a grid of this tick.
    Grid,
    /// The times are not on a grid; the resolution is at least as fine as this.
    Fine,
    /// From the clock's documentation; samples show nothing coarser.
    Stated,
    /// All times were equal and nothing is stated.
    Unknown,
}

/// The timer's resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// One tick, picoseconds; 0 if it is unknown.
    pub tick_ps: u64,
    /// How it is known.
    pub evidence: Evidence,
}

impl Resolution {
    /// One tick as a fraction of a time; 1 if it is unknown or the time is zero.
    pub fn share_of(&self, elapsed_ps: f64) -> f64 {
        if self.evidence == Evidence::Unknown || elapsed_ps <= 0.0 {
            return 1.0;
        }
        (self.tick_ps as f64 / elapsed_ps).min(1.0)
    }
}

/// The resolution of the timer that gave these times; the coarser of the observed one and the stated one.
pub fn resolution(times_ps: &[u64], stated_ps: Option<u64>) -> Resolution {
    let seen = seen(times_ps);
    match (seen, stated_ps) {
        (Some(seen), Some(stated)) if stated > seen.tick_ps => {
            Resolution { tick_ps: stated, evidence: Evidence::Stated }
        }
        (Some(seen), _) => seen,
        (None, Some(stated)) => Resolution { tick_ps: stated, evidence: Evidence::Stated },
        (None, None) => Resolution { tick_ps: 0, evidence: Evidence::Unknown },
    }
}

/// The observed resolution; `None` if all times are equal.
fn seen(times_ps: &[u64]) -> Option<Resolution> {
    let mut sorted = times_ps.to_vec();
    sorted.sort_unstable();
    let largest = *sorted.last()? as f64;
    // Half a unit of a 32-bit float, and half a picosecond, each way.
    let rounding = 2.0 * (largest * f64::from(f32::EPSILON) / 2.0 + 0.5);
    // Times that differ only by rounding are one time.
    let differences: Vec<f64> = sorted
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]) as f64)
        .filter(|&difference| difference > rounding)
        .collect();
    let mut divisor: Option<Bounded> = None;
    for &value in &differences {
        let next = Bounded { value, error: rounding };
        divisor = Some(divisor.map_or(next, |so_far| so_far.common_divisor(next)));
    }
    let divisor = refine(divisor?.value, &differences);
    let whole = |difference: &&f64| {
        let multiple = (**difference / divisor).round().max(1.0);
        (**difference - multiple * divisor).abs() <= rounding.max(0.05 * divisor)
    };
    let agree = differences.iter().filter(whole).count() as f64 >= AGREE * differences.len() as f64;
    // A divisor as small as the rounding is not a grid, and neither is one found from two or three times that never
    // recur.
    let recurs = differences.len() * 2 < times_ps.len() || differences.len() >= 8;
    if agree && recurs && divisor > 8.0 * rounding {
        return Some(Resolution { tick_ps: divisor.round() as u64, evidence: Evidence::Grid });
    }
    let smallest = differences.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Resolution { tick_ps: smallest.round() as u64, evidence: Evidence::Fine })
}

/// The divisor that fits all differences best: their sum over the number of ticks in it.
fn refine(divisor: f64, differences: &[f64]) -> f64 {
    let mut refined = divisor.max(1.0);
    for _ in 0..3 {
        let ticks: f64 = differences.iter().map(|difference| (difference / refined).round()).sum();
        let total: f64 = differences.iter().filter(|&&it| (it / refined).round() > 0.0).sum();
        if ticks > 0.0 {
            refined = total / ticks;
        }
    }
    refined
}

/// A number and its error bound.
#[derive(Clone, Copy)]
struct Bounded {
    value: f64,
    error: f64,
}

impl Bounded {
    fn common_divisor(self, other: Self) -> Self {
        let (mut a, mut b) = if self.value >= other.value { (self, other) } else { (other, self) };
        // Each round at least halves the larger; 64 rounds reduce any u64 to zero.
        for _ in 0..64 {
            let quotient = (a.value / b.value).floor();
            let rest =
                Self { value: a.value - quotient * b.value, error: a.error + (quotient + 1.0) * b.error };
            if rest.value <= rest.error || b.value - rest.value <= rest.error {
                return b;
            }
            (a, b) = (b, rest);
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use super::{super::random::Random, *};

    const TICK: u64 = 1_024_000;

    #[test]
    fn finds_the_tick_of_noisy_times() {
        let mut random = Random::new(1);
        let times: Vec<u64> =
            (0..60).map(|_| ((1000.0 + 30.0 * random.normal()).floor() as u64) * TICK).collect();
        assert_eq!(resolution(&times, None), Resolution { tick_ps: TICK, evidence: Evidence::Grid });
    }

    #[test]
    fn finds_the_tick_from_two_times_one_tick_apart() {
        let times: Vec<u64> = (0..20).map(|i| (640 + i % 2) * TICK).collect();
        assert_eq!(resolution(&times, None), Resolution { tick_ps: TICK, evidence: Evidence::Grid });
    }

    #[test]
    fn finds_the_tick_from_batches_of_growing_length_alone() {
        // 5 µs without noise: 4, 9, 14, 19, 24 … ticks.
        let times: Vec<u64> = (1..=16).flat_map(|n| [n * 5_000_000 / TICK * TICK; 2]).collect();
        assert_eq!(resolution(&times, None).tick_ps, TICK);
    }

    #[test]
    fn rounding_to_a_32_bit_float_of_milliseconds_hides_no_tick() {
        let mut random = Random::new(3);
        for scale in [40.0, 640.0, 20_000.0] {
            let times: Vec<u64> = (0..60)
                .map(|_| {
                    let ticks = (scale * (1.0 + 0.03 * random.normal())).floor();
                    let ms = (ticks * 1.024e-3) as f32;
                    (f64::from(ms) * 1e9).round() as u64
                })
                .collect();
            let found = resolution(&times, None);
            assert_eq!(found.evidence, Evidence::Grid, "{scale}");
            assert!(found.tick_ps.abs_diff(TICK) < TICK / 1000, "{scale}: {found:?}");
        }
    }

    #[test]
    fn continuous_times_lie_on_no_grid() {
        let mut random = Random::new(4);
        let times: Vec<u64> =
            (0..80).map(|_| (1e9 * (1.0 + 0.05 * random.normal())).round() as u64).collect();
        let found = resolution(&times, None);
        assert_eq!(found.evidence, Evidence::Fine);
        assert!(found.tick_ps < 10_000_000, "{found:?}");
    }

    #[test]
    fn equal_times_tell_nothing_unless_the_clock_states_its_tick() {
        assert_eq!(resolution(&[7; 9], None).evidence, Evidence::Unknown);
        assert_eq!(resolution(&[], None).evidence, Evidence::Unknown);
        assert_eq!(resolution(&[7; 9], Some(TICK)), Resolution { tick_ps: TICK, evidence: Evidence::Stated });
    }

    #[test]
    fn the_coarser_of_stated_and_seen_is_used() {
        let times: Vec<u64> = (0..40).map(|i| (500 + i % 7) * TICK).collect();
        assert_eq!(resolution(&times, Some(TICK / 2)).tick_ps, TICK);
        assert_eq!(resolution(&times, Some(TICK * 2)).tick_ps, TICK * 2);
    }

    #[test]
    fn extreme_times_do_not_panic() {
        assert_eq!(resolution(&[u64::MAX, 0, u64::MAX], None).evidence, Evidence::Grid);
        let _ = resolution(&[0, 1, 2, u64::MAX], Some(u64::MAX));
    }
}
