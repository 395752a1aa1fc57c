//! Seeded random numbers: the order of blocks, the bootstrap and synthetic clocks draw from here.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps for 64 bits, every seed is good, and
//! results are equal on every machine. Its period of 2^64 is far beyond the roughly 10^6 numbers that one comparison
//! draws.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the upper bits of 64 become a float of 53 bits or an index"
)]

use std::f64::consts::TAU;

use warpproof_num::random::SplitMix;

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random {
    bits: SplitMix,
}

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { bits: SplitMix(seed) }
    }

    /// A separate sequence for each purpose, so that drawing more for one does not change the others.
    pub fn for_purpose(seed: u64, purpose: u64) -> Self {
        let mut outer = Self::new(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self::new(outer.bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.bits.next()
    }

    /// Uniform in the open interval (0, 1): never 0, so that its logarithm is finite.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Uniform in `0..count`, by Lemire's multiplication; its bias is below `count` / 2^64. 0 for an empty range.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// True with a probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn moments_of_uniform_and_normal() {
        let mut random = Random::new(5);
        let count = 200_000;
        let (mut mean, mut square, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..count {
            let x = random.normal();
            mean += x / f64::from(count);
            square += x * x / f64::from(count);
            uniform += random.uniform() / f64::from(count);
        }
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((square - 1.0).abs() < 0.02, "{square}");
        assert!((uniform - 0.5).abs() < 0.005, "{uniform}");
    }

    #[test]
    fn below_reaches_every_index_and_no_other() {
        let mut random = Random::new(9);
        let mut seen = [0_u32; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
