//! How far an output may be from the exact one, derived from the formats and the length of the sums.
//!
//! # The model
//!
//! For one query row, p_j is the softmax weight of key j relative to the row's largest (0 < p_j ≤ 1), l = Σ p_j, and the
//! exact output is o_d = Σ p_j v_jd / l. The error of element (row, d) is a sum of independent roundings of mean zero, with
//! variance V in total, and a systematic part of magnitude at most B. What a kernel rounds:
//!
//! **1. The weights, when they are cast for the second product.** The sum l takes them uncast, so an error δ_j gives
//! Σ δ_j v_jd / l. |δ_j| is at most the half step h_j of the format. Kernels cast relative to the largest score *so far*,
//! which differs from the final one by any factor, so p_j lies anywhere in its binade and h_j is taken at the worst place:
//! h_j = r · min(p_j, 1/2), but at least the floor f where the format is subnormal; for E4M3, cast at the scale 2^8,
//! r = 2^-4 and f = 2^-18, for f16 r = 2^-11 and f = 2^-25, for f32 r = 2^-24. (No weight exceeds 1 when it is cast, and
//! below 1 the step is that of [1/2, 1): hence the 1/2.) The largest weight is 1 when it is cast, which all formats
//! hold: its h is 0. A uniform rounding within ±h has variance h²/3:
//!
//! > V₁ = Σ h_j² v_jd² / 3l², and in the worst case |e₁| ≤ W₁ = Σ h_j |v_jd| / l.
//!
//! Two systematic parts belong to it. Weights of at most f are cast to zero unless they came before a larger score was
//! seen: at most Σ p_j |v_jd| / l over those (they have no h). And rounding to nearest is unbiased in absolute, not in
//! relative terms: for a mantissa x in [1, 2) that is log-uniform, which an arbitrary factor makes it, the mean relative error
//! in bins of half width r is ∫ (2r²/3) x^-3 dx / ln 2 = r² / (4 ln 2): 1.4e-3 for E4M3, and nothing for the others.
//!
//! When rows of V have scales of their own, a weight is multiplied by its row's scale over the tile's largest, before the
//! cast: f is divided by that ratio, 1/2 likewise, and the largest weight is no longer exact.
//!
//! **2. The scores.** An error ε_j of the score in units of log₂ makes p_j wrong by the factor 1 + ln 2 · ε_j, in the
//! numerator and in l alike: e₂ = Σ p_j η_j (v_jd − o_d) / l with η_j = ln 2 · ε_j. With one deviation η for the row,
//!
//! > V₂ = η² Σ p_j² (v_jd − o_d)² / l².
//!
//! Let R be the largest magnitude that meets in a score of the row, in units of log₂: the largest product
//! max|q_d| · max|k_jd|, or the largest score. Then ε² is the sum of
//! - the product. FP8 tensor cores cut 16 products and the accumulator to multiples of 2^-13 of the largest and the
//!   result to 13 bits, per 16 elements: D/16 · 18/3 · (2^-13 R)². With f16 operands, 9 terms are cut to 2^-24 of the
//!   largest and the result to 2^-23, per 8 elements: D/8 · (9/4 + 1)/3 · (2^-23 R)². A chain of f32 fused multiply-adds
//!   rounds D times: D/3 · (2^-24 R)².
//! - operands that are dequantized to f16, each with a relative error of at most 2^-11: two of them in each product,
//!   2/3 · (2^-11)² · Σ (q_d k_jd)², where the last sum is at most |q|² max|k|².
//! - a soft cap C, in units of log₂. tanh has a slope of at most 1, so it does not enlarge the errors before it. It is computed as
//!   C − 2C r with r = 1/(1 + e), and e = 2^x: `ex2.approx` makes e wrong by at most 2^-22 of it, which is 2^-24 in r; the sum
//!   rounds by 2^-24 of it, which is 2^-24 in r; `rcp.approx` adds 2^-23 of r ≤ 1; together 2^-22. The last multiply-add rounds by
//!   2^-24 C. At most (2^-21 + 2^-24) C in total, which is taken as the deviation.
//! - four f32 roundings from the product to the exponent, 4/3 · (2^-24 max|y|)², and the error 2^-22 of `ex2.approx`. ALiBi has
//!   three more: log₂(e), its product with the slope, and the multiply-add; distances are exact, and max|y| includes the bias.
//!
//! A sink is a key whose value is 0: it takes part in l and in V₂, but is not cast, and max|y| includes its logit.
//!
//! **3. The sum over keys.** It runs in N steps, each of which cuts terms and the accumulator toward zero. The largest
//! term of a step is at most its largest product or the accumulator; squares of the former sum to at most Σ p²v², and the
//! accumulator grows to o:
//!
//! > V₃ = u² (Σ p_j² v_jd² / l² + o_d²),   B₃ = b |o_d|
//!
//! with u² = N · 18/3 · 2^-26 for FP8, N · 13/12 · 2^-46 for f16, n · 2^-48 / 3 for an f32 chain over n keys, and another
//! n · 2^-48 / 3 for l. Cutting toward zero shrinks a sum of one sign: each of the terms by half a unit on average, while
//! the accumulator grows in proportion to the step, so that its mean is (N + 1)/2N of the end: b = 9 · 2^-13 · (N + 1)/2
//! for FP8 (18 terms), b = 2.75 · 2^-23 · (N + 1)/2 for f16; 0 for f32, which rounds to nearest. Where sums of 64 keys are
//! promoted to f32, N = 4; in a single chain it is n/16. It is an upper bound: products of E4M3 have 8 bits, and lose none until
//! they lie 2^-7 below the largest.
//!
//! **4. V, where it is dequantized to f16**: a relative error of at most 2^-11 that is the same whenever a code recurs, and
//! so does not average out: B₄ = 2^-11 Σ p_j |v_jd| / l.
//!
//! **5. The output.** Half a step is w = max(2^-11 |o|, 2^-25) in f16 and w = max(2^-8 |o|, 2^-134) in bf16, V₅ = w²/3.
//!
//! # The limits
//!
//! Uniform roundings are sub-Gaussian with their variance, so a sum of them exceeds √(2t) deviations with a
//! probability below 2e^-t. One t for all: t = 18, that is 6 deviations and 3e-8.
//!
//! - Every element: |e| ≤ min(6 √V, W₁ + 6 √(V₂ + V₃) + w) + B. The second form bounds rows where few keys count.
//! - Root mean square: errors of a row share the δ_j, so a row counts once, with V_r its mean variance. For R rows, the sum
//!   of squares exceeds Σ V_r + 2 √(t Σ V_r²) + 2t max V_r with a probability below e^-t (Laurent and Massart);
//!   rmse ≤ √(that / R) + rms(B).
//! - Bias: the mean error of a row is Σ δ_j v̄_j / l with v̄_j the mean of V's row, so its variance is that of above with
//!   v̄_j for v_jd; what is rounded for each element counts as if it agreed within a row. Rows are independent: SE² =
//!   Σ Var_r / R². |bias| ≤ mean B + |mean (rounded o − o)| + 6 SE, where the middle term is there because roundings of
//!   the same few outputs recur, as they do with one key.
//!
//! Errors of mean zero in each row leave a large common part where V has a mean:
//! [`Tolerance::spread`](warpproof_tolerance::Tolerance::spread) therefore limits the root mean square of the errors
//! *minus their row's mean*, by the same rule with v_jd − v̄_j for v_jd.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "counts and limits as floating-point numbers, small enough to be exact enough"
)]

use crate::format::OutputFormat;
use std::f64::consts::LN_2;
use warpproof_tolerance::CONFIDENCE;

/// Where and how a kernel rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// How inputs reach the products.
    pub inputs: InputPrecision,
    /// The product of Q and K.
    pub scores: ScorePrecision,
    /// The format that weights are cast to.
    pub p: PFormat,
    /// The product of weights and V.
    pub chain: ValueChain,
    /// The format of the output.
    pub output: OutputFormat,
}

/// How inputs reach the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputPrecision {
    /// As codes or exactly widened codes; scales are applied to results.
    Exact,
    /// Multiplied by their scale and rounded to f16.
    F16,
}

/// The product of Q and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorePrecision {
    /// f32 fused multiply-adds.
    Chain,
    /// Tensor cores on f16.
    F16Tensor,
    /// Tensor cores on FP8.
    Fp8Tensor,
}

/// The format that weights are cast to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PFormat {
    /// Not cast.
    F32,
    /// f16.
    F16,
    /// E4M3, at the scale 2^8.
    E4m3,
}

/// The product of weights and V.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueChain {
    /// f32 fused multiply-adds.
    F32,
    /// Tensor cores on f16, one chain over all keys.
    F16Tensor,
    /// Tensor cores on FP8, promoted to f32 after 64 keys.
    Fp8Promoted,
    /// Tensor cores on FP8, one chain over all keys.
    Fp8Single,
}

impl PFormat {
    /// The relative half step r.
    pub fn relative(self) -> f64 {
        2f64.powi(match self {
            PFormat::F32 => -24,
            PFormat::F16 => -11,
            PFormat::E4m3 => -4,
        })
    }

    /// The absolute half step f of the smallest weights.
    pub fn floor(self) -> f64 {
        match self {
            PFormat::F32 => 0.0,
            PFormat::F16 => 2f64.powi(-25),
            PFormat::E4m3 => 2f64.powi(-18),
        }
    }

    /// The mean relative error of a log-uniform weight.
    pub fn gain(self) -> f64 {
        self.relative().powi(2) / (4.0 * LN_2)
    }
}

/// Magnitudes of a row's scores, in units of log₂.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreSizes {
    /// R: the largest product or score.
    pub(crate) reach: f64,
    /// |q| · max|k|.
    pub(crate) norm: f64,
    /// The largest score, before a soft cap.
    pub(crate) largest: f64,
    /// C: the soft cap; 0 without one.
    pub(crate) cap: f64,
    /// f32 roundings from the product to the exponent.
    pub(crate) roundings: f64,
}

/// Parameters of the model for a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowModel {
    /// η: the relative standard deviation of a weight due to the error of its score.
    pub(crate) score: f64,
    /// u².
    pub(crate) sum_variance: f64,
    /// The systematic relative error: b and the gain of the cast.
    pub(crate) shrink: f64,
    /// The relative error of V.
    pub(crate) value: f64,
    /// The format of the output.
    pub(crate) format: OutputFormat,
}

impl Precision {
    pub(crate) fn row(self, sizes: ScoreSizes, dim: usize, keys: usize) -> RowModel {
        let dim = dim as f64;
        let keys = keys as f64;
        let unit = |bits: i32| 2f64.powi(-2 * bits);
        let product = match self.scores {
            ScorePrecision::Chain => dim / 3.0 * unit(24),
            ScorePrecision::F16Tensor => (dim / 8.0).ceil() * (9.0 / 4.0 + 1.0) / 3.0 * unit(23),
            ScorePrecision::Fp8Tensor => (dim / 16.0).ceil() * 18.0 / 3.0 * unit(13),
        };
        let (operand, value) = match self.inputs {
            InputPrecision::Exact => (0.0, 0.0),
            InputPrecision::F16 => (2.0 / 3.0 * unit(11), 2f64.powi(-11)),
        };
        let score = LN_2.powi(2)
            * (product * sizes.reach.powi(2)
                + operand * sizes.norm.powi(2)
                + sizes.roundings / 3.0 * unit(24) * sizes.largest.powi(2))
            + (LN_2 * sizes.cap * (2f64.powi(-21) + 2f64.powi(-24))).powi(2)
            + unit(22);
        let steps = match self.chain {
            ValueChain::F32 => keys,
            ValueChain::F16Tensor => (keys / 8.0).ceil(),
            ValueChain::Fp8Promoted => (keys / 16.0).ceil().min(4.0),
            ValueChain::Fp8Single => (keys / 16.0).ceil(),
        };
        let (sum_variance, shrink) = match self.chain {
            ValueChain::F32 => (steps * unit(24) / 3.0, 0.0),
            ValueChain::F16Tensor => (steps * 13.0 / 12.0 * unit(23), 2.75 * 2f64.powi(-23)),
            ValueChain::Fp8Promoted | ValueChain::Fp8Single => (steps * 6.0 * unit(13), 9.0 * 2f64.powi(-13)),
        };
        RowModel {
            score: score.sqrt(),
            sum_variance: sum_variance + keys * unit(24) / 3.0,
            shrink: shrink * f64::midpoint(steps, 1.0) + self.p.gain(),
            value,
            format: self.output,
        }
    }
}

/// Sums over the keys of a row for one element, divided by l or l².
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// o
    pub(crate) output: f64,
    /// Σ p |v|, if the model needs it.
    pub(crate) magnitude: f64,
    /// Σ p² v²
    pub(crate) squares: f64,
    /// Σ p² (v − o)²
    pub(crate) scatter: f64,
    /// Σ h² v²
    pub(crate) steps_squared: f64,
    /// Σ h |v|
    pub(crate) steps: f64,
    /// Σ p |v| of the weights that are cast to zero.
    pub(crate) lost: f64,
}

/// The model's result for one element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// V
    pub(crate) variance: f64,
    /// V₃ + V₅, the part that is independent between elements of a row.
    pub(crate) own: f64,
    /// B
    pub(crate) systematic: f64,
    /// The largest admissible |e|.
    pub(crate) limit: f64,
}

impl RowModel {
    pub(crate) fn element(&self, sums: &Sums) -> Element {
        let deviations = (2.0 * CONFIDENCE).sqrt();
        let output = sums.output.abs();
        let half_step = self.format.half_step(output);
        let weights = sums.steps_squared / 3.0;
        let scores = self.score.powi(2) * sums.scatter;
        let sum = self.sum_variance * (sums.squares + output.powi(2));
        let variance = weights + scores + sum + half_step.powi(2) / 3.0;
        let systematic = self.shrink * output + sums.lost + self.value * sums.magnitude;
        let worst = sums.steps + deviations * (scores + sum).sqrt() + half_step;
        Element {
            variance,
            own: sum + half_step.powi(2) / 3.0,
            systematic,
            limit: (deviations * variance.sqrt()).min(worst) + systematic,
        }
    }
}

/// The largest admissible error of a row's log-sum-exp: its error is Σ p_j η_j / l, at most 6 η, plus five
/// f32 roundings and the 2^-22 of `lg2.approx`, at the magnitudes involved.
pub(crate) fn lse_limit(model: &RowModel, sizes: ScoreSizes, lse: f64, keys: usize) -> f32 {
    let deviations = (2.0 * CONFIDENCE).sqrt();
    let sizes = sizes.largest + lse.abs() + 1.0 + (keys.max(1) as f64).log2();
    (deviations * (model.score + (keys as f64).sqrt() * 2f64.powi(-24)) + sizes * 2f64.powi(-21)) as f32
}
