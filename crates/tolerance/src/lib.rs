//! How far an output may be from the exact one, and how far it is.
//!
//! Limits are derived from formats and lengths of sums, never tuned: an operator gives the moments of each row, and
//! [`Tolerance`] derives limits that a correct output exceeds with probability e^-[`CONFIDENCE`].
#![forbid(unsafe_code)]
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts and limits as floating-point numbers, small enough for f64"
)]

pub mod error;

use crate::error::Errors;
use std::fmt;

/// The exponent t of the probability e^-t that a correct output is rejected.
pub const CONFIDENCE: f64 = 18.0;

/// The moments of one row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowMoments {
    /// The mean variance of its elements.
    pub variance: f64,
    /// The mean variance of its elements minus their mean.
    pub spread: f64,
    /// The variance of the mean of its elements.
    pub mean_variance: f64,
    /// The mean of B.
    pub systematic: f64,
    /// The mean of B².
    pub systematic_squared: f64,
    /// The mean of f16(o) − o.
    pub rounding: f64,
}

/// How far an output may be from the exact one.
#[derive(Clone, Debug)]
pub struct Tolerance {
    /// For each element, in the output's layout, the maximum of |e|.
    pub limits: Vec<f32>,
    /// The maximum root mean square.
    pub rmse: f64,
    /// The maximum root mean square of errors minus their row's mean.
    pub spread: f64,
    /// The maximum mean error.
    pub bias: f64,
    /// The standard error of the mean error, without systematic errors.
    pub standard_error: f64,
    /// For each row `[batch][head][longest]`, the maximum error of the log-sum-exp.
    pub lse: Vec<f32>,
}

impl Tolerance {
    /// Uses the given limits of elements and of the log-sum-exp; derives the others from the rows.
    pub fn new(limits: Vec<f32>, lse: Vec<f32>, rows: &[RowMoments]) -> Tolerance {
        let count = (rows.len() as f64).max(1.0);
        let mean = |of: fn(&RowMoments) -> f64| rows.iter().map(of).sum::<f64>() / count;
        let root = |of: fn(&RowMoments) -> f64| {
            let squares = rows.iter().map(|row| of(row).powi(2)).sum::<f64>();
            let largest = rows.iter().map(of).fold(0.0, f64::max);
            let above = 2.0 * (CONFIDENCE * squares).sqrt() + 2.0 * CONFIDENCE * largest;
            (mean(of) + above / count).sqrt()
        };
        let systematic = mean(|row| row.systematic_squared).sqrt();
        let standard_error = (mean(|row| row.mean_variance) / count).sqrt();
        Tolerance {
            limits,
            rmse: root(|row| row.variance) + systematic,
            spread: root(|row| row.spread) + systematic,
            bias: mean(|row| row.systematic)
                + mean(|row| row.rounding).abs()
                + (2.0 * CONFIDENCE).sqrt() * standard_error,
            standard_error,
            lse,
        }
    }

    /// Whether errors are within the limits.
    pub fn judge(&self, errors: &Errors) -> Judgement {
        let mut reasons = Vec::new();
        if errors.outside > 0.0 {
            reasons.push(Reason::Outside { fraction: errors.outside, worst: errors.worst });
        }
        let mut hold = |what, value: f64, limit: f64| {
            // NaN never meets a limit.
            let holds = value.abs() <= limit;
            if !holds {
                reasons.push(Reason::Above { what, value, limit });
            }
        };
        hold("rmse", errors.rmse, self.rmse);
        hold("rmse within rows", errors.spread, self.spread);
        hold("bias", errors.bias, self.bias);
        Judgement { passed: reasons.is_empty(), reasons }
    }

    /// The number of rows of a log-sum-exp outside their limit; both are laid out as `[batch][head][longest]`, and
    /// rows outside any sequence are ignored.
    pub fn lse_outside(&self, lse: &[f32], exact: &[f64]) -> usize {
        if lse.len() != exact.len() || self.lse.len() != exact.len() {
            return exact.len().max(1);
        }
        let rows = lse.iter().zip(exact).zip(&self.lse).filter(|(_, limit)| !limit.is_nan());
        rows.filter(|((got, exact), limit)| {
            let same = f64::from(**got).total_cmp(exact).is_eq();
            let near = (f64::from(**got) - **exact).abs() <= f64::from(**limit);
            !(same || near)
        })
        .count()
    }
}

/// Whether an output is correct, and why not.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether all limits hold.
    pub passed: bool,
    /// The limits that are exceeded.
    pub reasons: Vec<Reason>,
}

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Elements are outside their own limits.
    Outside {
        /// The fraction of all elements.
        fraction: f64,
        /// The largest error of an element relative to its limit.
        worst: f64,
    },
    /// A statistic over all elements is too large.
    Above {
        /// The statistic.
        what: &'static str,
        /// Its value.
        value: f64,
        /// Its maximum.
        limit: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Outside { fraction, worst } => {
                write!(
                    f,
                    "{:.3} % of elements are outside tolerance, by up to {worst:.1} times",
                    fraction * 100.0
                )
            }
            Reason::Above { what, value, limit } => {
                write!(f, "{what} is {value:.3e}; the limit is {limit:.3e}")
            }
        }
    }
}
