//! Compares the tolerances with a plain emulation of the kernels' arithmetic, which must pass, and with null
//! outputs, which must not.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::as_conversions,
    reason = "an emulation in f32, and small counts"
)]
#![expect(clippy::print_stdout, reason = "numbers that are shown when a test fails or with --nocapture")]

use warpproof_kernels::format::{Format, OutputFormat};
use warpproof_kernels::inputs::{Distribution, Inputs, Spec, generate};
use warpproof_kernels::null::Null;
use warpproof_kernels::oracle::exact::{Exact, Options, attention};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape};
use warpproof_kernels::tensor::{Quantized, each_row};
use warpproof_kernels::tolerance::{InputPrecision, PFormat, Precision, ScorePrecision, ValueChain};
use warpproof_num::Rounding;
use warpproof_num::approx::ex2_approx_f32;
use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
use warpproof_num::mma::rule::{Rule, dot};
use warpproof_num::mma::{Accumulator, Element, TensorCore};
use warpproof_tolerance::error::Errors;
use warpproof_tolerance::{Judgement, Tolerance};

const FP8: Precision = Precision {
    inputs: InputPrecision::Exact,
    scores: ScorePrecision::Fp8Tensor,
    p: PFormat::E4m3,
    chain: ValueChain::Fp8Promoted,
    output: OutputFormat::F16,
};
const FP8_SINGLE: Precision = Precision { chain: ValueChain::Fp8Single, ..FP8 };
const F16: Precision = Precision {
    inputs: InputPrecision::Exact,
    scores: ScorePrecision::F16Tensor,
    p: PFormat::F16,
    chain: ValueChain::F16Tensor,
    output: OutputFormat::F16,
};
const F32: Precision = Precision {
    inputs: InputPrecision::Exact,
    scores: ScorePrecision::Chain,
    p: PFormat::F32,
    chain: ValueChain::F32,
    output: OutputFormat::F16,
};
const LINEAR: Precision = Precision { inputs: InputPrecision::F16, scores: ScorePrecision::Chain, ..F16 };
const ALL: [Precision; 5] = [FP8, FP8_SINGLE, F16, F32, LINEAR];

fn spec(precision: Precision) -> Spec {
    let format = if precision == LINEAR { Format::Linear8 } else { Format::E4m3 };
    Spec { format, ..Spec::default() }
}

fn ex2(x: f32) -> f32 {
    f32::from_bits(ex2_approx_f32(x.to_bits(), false))
}

fn f16(x: f32) -> u16 {
    cvt_f16_f32(x.to_bits(), Rounding::Rn, false)
}

fn widen(bits: u16) -> f32 {
    f32::from_bits(cvt_f32_f16(bits))
}

/// A product over consecutive elements, added to an accumulator.
fn chain(elements: Option<(Element, Element)>, a: &[u32], b: &[u32], c: f32) -> f32 {
    let Some(elements) = elements else {
        return a.iter().zip(b).fold(c, |c, (a, b)| f32::from_bits(*a).mul_add(f32::from_bits(*b), c));
    };
    let rule = Rule::of(TensorCore::Ada, elements.0, Accumulator::F32);
    f32::from_bits(dot(&rule, elements, Accumulator::F32, a, b, c.to_bits()))
}

/// A row in the form that a product takes, and the factor that remains to be applied.
type Operand = (Vec<u32>, f32);

fn operand(
    precision: Precision,
    tensor: &Quantized,
    element: Option<Element>,
    at: (usize, usize, usize),
) -> Operand {
    let (batch, head, row) = at;
    let scale = tensor.scale_of(batch, head, row);
    let value = |code: &u8| tensor.format.decode(*code);
    let dequantized = |code: &u8| f16(value(code) * scale);
    let codes = tensor.row(batch, head, row).iter();
    match (precision.inputs, element) {
        (InputPrecision::F16, None) => (codes.map(|c| widen(dequantized(c)).to_bits()).collect(), 1.0),
        (InputPrecision::F16, Some(_)) => (codes.map(|c| dequantized(c).into()).collect(), 1.0),
        (InputPrecision::Exact, None) => (codes.map(|c| value(c).to_bits()).collect(), scale),
        (InputPrecision::Exact, Some(Element::F16)) => (codes.map(|c| f16(value(c)).into()).collect(), scale),
        (InputPrecision::Exact, Some(_)) => (codes.map(|c| u32::from(*c)).collect(), scale),
    }
}

/// Attention as the kernels compute it, 64 keys at a time: output and log-sum-exp of one sequence.
fn emulate(inputs: &Inputs, mask: Mask, precision: Precision) -> (Vec<u16>, Vec<f32>) {
    let shape = &inputs.shape;
    let dim = shape.dim;
    let rows = shape.query_rows(Layout::Bhsd);
    let c = (std::f64::consts::LOG2_E / (dim as f64).sqrt()) as f32;
    let fp8 = if inputs.v.format == Format::E5m2 { Element::E5m2 } else { Element::E4m3 };
    let scores = match precision.scores {
        ScorePrecision::Chain => None,
        ScorePrecision::F16Tensor => Some(Element::F16),
        ScorePrecision::Fp8Tensor => Some(fp8),
    };
    let score_elements = scores.map(|element| (element, element));
    let (value_elements, promoted) = match precision.chain {
        ValueChain::F32 => (None, false),
        ValueChain::F16Tensor => (Some((Element::F16, Element::F16)), false),
        ValueChain::Fp8Promoted => (Some((Element::E4m3, fp8)), true),
        ValueChain::Fp8Single => (Some((Element::E4m3, fp8)), false),
    };
    let row_scales = inputs.v.granularity == Granularity::Row;
    let all = |tensor: &Quantized, element| -> Vec<Vec<Operand>> {
        let row = |head, row| operand(precision, tensor, element, (0, head, row));
        let head = |head| (0..tensor.rows.length(0)).map(|key| row(head, key)).collect();
        (0..tensor.rows.heads).map(head).collect()
    };
    let (k, v) = (all(&inputs.k, scores), all(&inputs.v, value_elements.map(|elements| elements.1)));
    let (mut output, mut lse) = (vec![0u16; rows.elements()], Vec::new());
    for (batch, head, row) in each_row(&rows) {
        let kv = head / shape.group();
        let (q, q_scale) = operand(precision, &inputs.q, scores, (batch, head, row));
        let visible = mask.visible(shape.sequences[batch], row);
        let shift = if precision.p == PFormat::E4m3 { 8.0 } else { 0.0 };
        let (mut m, mut l, mut acc, mut v_scale) = (f32::NEG_INFINITY, 0f32, vec![0f32; dim], 1.0);
        for first in (0..visible).step_by(64) {
            let keys = first..(first + 64).min(visible);
            let score = |(k, k_scale): &Operand| chain(score_elements, &q, k, 0.0) * (c * q_scale * k_scale);
            let y: Vec<f32> = k[kv][keys.clone()].iter().map(score).collect();
            let u = y.iter().copied().fold(m, f32::max);
            let alpha = ex2(m - u);
            m = u;
            let p: Vec<f32> = y.iter().map(|y| ex2(y - (u - shift))).collect();
            l = l.mul_add(alpha, p.iter().sum::<f32>());
            let values = &v[kv][keys];
            let tile = values.iter().fold(0f32, |largest, (_, scale)| largest.max(*scale));
            v_scale = if row_scales { 1.0 } else { tile };
            let cast = |(p, (_, scale)): (&f32, &Operand)| match precision.p {
                PFormat::F32 => p.to_bits(),
                PFormat::F16 => f16(*p).into(),
                PFormat::E4m3 => Format::E4m3.encode(p * (scale / tile)).into(),
            };
            let weights: Vec<u32> = p.iter().zip(values).map(cast).collect();
            for (d, acc) in acc.iter_mut().enumerate() {
                let column: Vec<u32> = values.iter().map(|(v, _)| v[d]).collect();
                *acc = if promoted {
                    let factor = if row_scales { tile } else { 1.0 };
                    chain(value_elements, &weights, &column, 0.0).mul_add(factor, *acc * alpha)
                } else {
                    chain(value_elements, &weights, &column, *acc * alpha)
                };
            }
        }
        let at = rows.offset(batch, head, row);
        for d in 0..dim {
            output[at + d] = if l > 0.0 { f16(acc[d] * (1.0 / l * v_scale)) } else { 0 };
        }
        lse.push((m + l.log2() - shift) * std::f32::consts::LN_2);
    }
    (output, lse)
}

fn exact(inputs: &Inputs, mask: Mask, precision: Precision) -> (Exact, Tolerance) {
    let options = Options { precision: Some(precision), ..Options::default() };
    let mut exact = attention(inputs, mask, &options).expect("the inputs fit");
    let tolerance = exact.tolerance.take().expect("a precision was given");
    (exact, tolerance)
}

fn judge(output: &[u16], exact: &Exact, tolerance: &Tolerance) -> (Errors, Judgement) {
    let errors = Errors::of(output, &exact.output, exact.rows.dim, tolerance);
    (errors, tolerance.judge(&errors))
}

/// Two query heads on one key head; the last queries of `keys` keys.
fn shape(keys: usize) -> Shape {
    let queries = keys.min(if keys > 256 { 12 } else { 48 });
    Shape { heads: 2, kv_heads: 1, dim: 64, sequences: vec![Lengths { queries, keys }] }
}

const KEYS: [usize; 6] = [1, 17, 33, 256, 1000, 2048];
const MASKS: [Mask; 2] = [Mask::Full, Mask::Causal];

fn correct_outputs_pass(precision: Precision, spec: Spec, seed: u64) {
    for keys in KEYS {
        for distribution in Distribution::ALL {
            // The emulation is slow, and a mask behaves the same for many keys as for few.
            for &mask in &MASKS[..if keys > 256 { 1 } else { 2 }] {
                let inputs = generate(&shape(keys), distribution, seed, spec);
                let (exact, tolerance) = exact(&inputs, mask, precision);
                let (output, lse) = emulate(&inputs, mask, precision);
                let (errors, judgement) = judge(&output, &exact, &tolerance);
                let reasons: Vec<_> = judgement.reasons.iter().map(ToString::to_string).collect();
                let case = format!("{precision:?} {spec:?} S{keys} {distribution} {mask:?} seed {seed}");
                println!(
                    "{case}: worst {:.2} rmse {:.2e}/{:.2e} within rows {:.2e}/{:.2e} bias {:.1e}/{:.1e} z {:.1}",
                    errors.worst,
                    errors.rmse,
                    tolerance.rmse,
                    errors.spread,
                    tolerance.spread,
                    errors.bias,
                    tolerance.bias,
                    errors.z
                );
                assert!(judgement.passed, "{case}: {reasons:?}");
                assert_eq!(tolerance.lse_outside(&lse, &exact.lse), 0, "{case}");
            }
        }
    }
}

#[test]
fn correct_outputs_of_fp8_pass() {
    correct_outputs_pass(FP8, Spec::default(), 11);
}

#[test]
fn correct_outputs_of_fp8_in_a_single_chain_pass() {
    correct_outputs_pass(FP8_SINGLE, Spec::default(), 11);
}

#[test]
fn correct_outputs_of_e5m2_pass() {
    correct_outputs_pass(FP8, Spec { format: Format::E5m2, ..Spec::default() }, 11);
}

#[test]
fn correct_outputs_with_scales_of_rows_pass() {
    let rows = Granularity::Row;
    correct_outputs_pass(FP8, Spec { q: rows, k: rows, v: rows, ..Spec::default() }, 11);
}

#[test]
fn correct_outputs_of_f16_pass() {
    correct_outputs_pass(F16, Spec::default(), 11);
}

#[test]
fn correct_outputs_of_f32_pass() {
    correct_outputs_pass(F32, Spec::default(), 11);
}

#[test]
fn correct_outputs_of_linear8_pass() {
    correct_outputs_pass(LINEAR, spec(LINEAR), 11);
}

/// `cargo test --release -p warpproof-kernels --test tolerance -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn correct_outputs_of_many_seeds_pass() {
    for seed in 100..120 {
        for precision in ALL {
            correct_outputs_pass(precision, spec(precision), seed);
        }
    }
}

/// Null outputs pass only for one distribution, and there only for FP8.
fn null_outputs_fail(keys: usize) {
    for mask in MASKS {
        let mut passed = [[0; Null::ALL.len()]; ALL.len()];
        for distribution in Distribution::ALL {
            for format in [Format::E4m3, Format::Linear8] {
                let inputs = generate(&shape(keys), distribution, 11, Spec { format, ..Spec::default() });
                let nulls =
                    Null::ALL.map(|null| null.output(&inputs, mask, Layout::Bhsd).expect("the inputs fit"));
                for (precision, passed) in ALL.into_iter().zip(&mut passed) {
                    if spec(precision).format != format {
                        continue;
                    }
                    let (exact, tolerance) = exact(&inputs, mask, precision);
                    for ((null, output), passed) in Null::ALL.iter().zip(&nulls).zip(passed) {
                        let judgement = judge(output, &exact, &tolerance).1;
                        if null.is_right(&inputs, mask) {
                            assert!(judgement.passed, "{null} is right");
                        } else if judgement.passed {
                            let case = format!("{precision:?} S{keys} {distribution} {mask:?} {null}");
                            // A tolerance for sums that shrink by percents hides smaller changes of an output
                            // of 1.
                            assert_eq!(distribution, Distribution::VMeanOne, "{case}");
                            assert_eq!(precision.p, PFormat::E4m3, "{case}");
                            println!("passes: {case}");
                            *passed += 1;
                        }
                    }
                }
            }
        }
        assert!(passed.iter().flatten().all(|count| *count < Distribution::ALL.len()), "{passed:?}");
    }
}

#[test]
fn null_outputs_of_few_keys_fail() {
    for keys in [1, 17, 33] {
        null_outputs_fail(keys);
    }
}

#[test]
fn null_outputs_of_256_keys_fail() {
    null_outputs_fail(256);
}

#[test]
fn null_outputs_of_1000_keys_fail() {
    null_outputs_fail(1000);
}

#[test]
fn null_outputs_of_2048_keys_fail() {
    null_outputs_fail(2048);
}
