//! Compares an output with the oracles of its plan.

use std::fmt;

use crate::attention::Answer;
use crate::inputs::{Inconsistent, Inputs, Spec};
use crate::ladder::precision;
use crate::oracle::bitwise::{self, Bits, Unfit};
use crate::oracle::exact::{self, Exact};
use crate::plan::{Plan, Request};
use crate::tolerance::Precision;
use warpproof_tolerance::Judgement;
use warpproof_tolerance::error::{Errors, NonFinite};

/// The oracles' results for one plan and its inputs.
#[derive(Clone, Debug)]
pub struct Oracles {
    /// The exact attention, with the tolerance of an output.
    pub exact: Exact,
    /// The bits that the kernel must produce.
    pub bits: Bits,
    /// Whether the request includes the log-sum-exp.
    pub lse: bool,
}

/// The result of comparing an output with the oracles.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The errors relative to the exact attention.
    pub errors: Errors,
    /// Whether the errors are within the tolerance derived from the formats and lengths.
    pub judgement: Judgement,
    /// Elements of the output that differ from the expected bits.
    pub other_bits: usize,
    /// Rows of the log-sum-exp that differ from the expected bits.
    pub other_lse_bits: usize,
    /// Rows of the log-sum-exp whose error exceeds the tolerance.
    pub lse_outside: usize,
}

impl Verdict {
    /// Whether all comparisons passed.
    pub fn passed(&self) -> bool {
        self.judgement.passed && self.other_bits + self.other_lse_bits + self.lse_outside == 0
    }
}

/// Why an oracle cannot be computed.
#[derive(Clone, Debug)]
pub enum NoVerdict {
    /// The inputs are inconsistent.
    Inputs(Inconsistent),
    /// The bits of this plan cannot be computed.
    Bits(Unfit),
}

impl fmt::Display for NoVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoVerdict::Inputs(error) => error.fmt(f),
            NoVerdict::Bits(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoVerdict {}

impl Request {
    /// The formats, scales and layouts for inputs of this request.
    pub fn spec(&self) -> Spec {
        Spec {
            format: self.format,
            q: self.scales.q,
            k: self.scales.k,
            v: self.scales.v,
            query_layout: self.layout,
            key_layout: self.layout,
            sinks: self.sinks,
            slopes: self.alibi,
        }
    }

    /// The exact attention of this request, without a tolerance.
    pub(crate) fn options(&self) -> exact::Options {
        exact::Options {
            layout: self.layout,
            scale: self.softmax_scale,
            window: self.window,
            softcap: self.softcap,
            ..exact::Options::default()
        }
    }
}

impl Plan {
    /// The exact attention for some inputs, with the tolerance of this plan.
    pub fn exact(&self, inputs: &Inputs) -> Result<Exact, NoVerdict> {
        inputs.has_heads_of(&self.request).map_err(NoVerdict::Inputs)?;
        let request = &self.request;
        let arithmetic = self.arithmetic();
        let options = exact::Options {
            precision: Some(Precision { output: request.output, ..precision(&arithmetic, request.format) }),
            ..request.options()
        };
        exact::attention(inputs, request.mask, &options).map_err(NoVerdict::Inputs)
    }

    /// The bits that an output of this plan must have.
    pub fn bits(&self, inputs: &Inputs) -> Result<Bits, NoVerdict> {
        inputs.has_heads_of(&self.request).map_err(NoVerdict::Inputs)?;
        let request = &self.request;
        let problem = bitwise::Problem {
            shape: &inputs.shape,
            mask: request.mask,
            window: request.window,
            softmax_scale: request.softmax_scale(),
            softcap: request.softcap,
            sinks: inputs.sinks.as_deref(),
            slopes: inputs.slopes.as_deref(),
            q: &inputs.q,
            k: &inputs.k,
            v: &inputs.v,
            o_layout: request.layout,
            parts: self.tiles_apart(),
            output: request.output,
        };
        let arithmetic = self.arithmetic();
        bitwise::attention(&problem, &arithmetic).map_err(NoVerdict::Bits)
    }

    /// Both oracles.
    pub fn oracles(&self, inputs: &Inputs) -> Result<Oracles, NoVerdict> {
        Ok(Oracles { exact: self.exact(inputs)?, bits: self.bits(inputs)?, lse: self.request.lse })
    }
}

impl Oracles {
    /// Compares an output with both oracles.
    pub fn judge(&self, answer: &Answer) -> Verdict {
        judge(&self.exact, &self.bits, self.lse, answer)
    }
}

/// Compares an output with oracles that several plans share. If the request includes the log-sum-exp and the
/// output has none, every row of it counts as wrong.
pub fn judge(exact: &Exact, bits: &Bits, lse: bool, answer: &Answer) -> Verdict {
    let differing = |length: usize, same: usize| length - same;
    let same = answer.output.iter().zip(&bits.output).filter(|(got, wanted)| got == wanted).count();
    let other_bits = differing(answer.output.len().max(bits.output.len()), same);
    // The exact oracle of a plan always has a tolerance; without one, no output passes.
    let Some(tolerance) = &exact.tolerance else {
        return Verdict {
            errors: Errors::default(),
            judgement: Judgement { passed: false, reasons: Vec::new() },
            other_bits,
            other_lse_bits: 0,
            lse_outside: 0,
        };
    };
    let got = |at: usize| answer.output.get(at).map(|code| bits.format.decode(*code));
    let errors = Errors::measure(got, &exact.output, exact.rows.dim, tolerance, NonFinite::Refuse);
    let (mut other_lse_bits, mut lse_outside) = (0, 0);
    if lse || answer.lse.is_some() {
        let lse = answer.lse.as_deref().unwrap_or_default();
        let same = lse.iter().zip(&bits.lse).filter(|(got, wanted)| got == wanted).count();
        other_lse_bits = differing(lse.len().max(bits.lse.len()), same);
        let values: Vec<f32> = lse.iter().map(|bits| f32::from_bits(*bits)).collect();
        lse_outside = tolerance.lse_outside(&values, &exact.lse);
    }
    Verdict { judgement: tolerance.judge(&errors), errors, other_bits, other_lse_bits, lse_outside }
}
