//! Flash attention in f16, bf16 and both FP8 formats.

use super::rows::modules;
use super::{Module, float, int, module};
use crate::data::{Data, exp2};
use crate::launch::Random;
use crate::reference::{EX2, U32, close_data, gamma, same_bits};

modules! {
    attention_f16_64x64: check_attention
    attention_f16_128x64_causal: check_attention
    attention_bf16_64x32_d128: check_attention
    attention_e4m3_64x64: check_attention
    attention_e5m2_128x64_causal: check_attention
}

const HEADS: usize = 2;
/// Neither a multiple of the query block nor of the key block, and more than one of each.
const SEQUENCE: usize = 150;

fn check_attention(name: &str, arch: &str) {
    let module = module(name, arch);
    check_matching(&module);
    check_random(&module);
}

fn values(module: &Module, [q, k, v]: [Data; 3], scale: f64) -> Vec<(&'static str, Data)> {
    let out = Data::unwritten(module.ty("out"), v.len());
    vec![("q", q), ("k", k), ("v", v), ("out", out), ("scale", float(scale)), ("sequence", int(SEQUENCE))]
}

fn causal(module: &Module) -> bool {
    module.constants["CAUSAL"].as_bool().unwrap()
}

/// Keys are vectors of ±1, a query is sixteen times one of the keys it sees: that key's score is 16·D, and
/// every other key's is at least 100 less (checked), so its weight vanishes in f32. The result is exactly
/// that key's value.
fn check_matching(module: &Module) {
    let (d, mut random) = (module.constant("D"), Random::new(5));
    let keys: Vec<f64> =
        (0..HEADS * SEQUENCE * d).map(|_| if random.bits() & 1 == 0 { -1.0 } else { 1.0 }).collect();
    let v: Vec<f64> = (0..keys.len()).map(|_| random.normal()).collect();
    let visible = |i: usize| if causal(module) { i + 1 } else { SEQUENCE };
    let matching: Vec<usize> = (0..HEADS * SEQUENCE)
        .map(|row| {
            let key = random.within(0, visible(row % SEQUENCE) as i64 - 1) as usize;
            row / SEQUENCE * SEQUENCE + key
        })
        .collect();
    let key = |at: usize| &keys[at * d..][..d];
    for (row, at) in matching.iter().enumerate() {
        for other in (0..visible(row % SEQUENCE)).map(|j| row / SEQUENCE * SEQUENCE + j).filter(|j| j != at) {
            let agreement: f64 = key(*at).iter().zip(key(other)).map(|(a, b)| a * b).sum();
            assert!(16.0 * (d as f64 - agreement) >= 110.0);
        }
    }
    let q = matching.iter().flat_map(|at| key(*at).iter().map(|x| 16.0 * x));
    let data = [
        Data::of_floats(module.ty("q"), q),
        Data::of_floats(module.ty("k"), keys.iter().copied()),
        Data::of_floats(module.ty("v"), v),
    ];
    module.check(&values(module, data, 1.0), &[("heads", HEADS as u32)], |run| {
        let v = run.floats("v");
        // A sum of zeros is positive, even if a value is a negative zero.
        let wanted = matching.iter().flat_map(|at| v[at * d..][..d].iter().map(|x| x + 0.0));
        same_bits(&module.name, run.after("out"), &Data::of_floats(module.ty("out"), wanted));
    });
}

/// Compares random inputs with softmax(q·kᵀ·scale)·v in f64, with inputs rounded to their format.
///
/// A weight's relative error ρ: its score carries the tensor core's error and four roundings (the scale, log2 e, their
/// product and the score's), the difference to the maximum one, `ex2.approx` 2^-22; and for each later block of keys a
/// rescaling, with an `ex2.approx`, a difference and a product. The maximum itself cancels. The weights' sum errs by the
/// mean of ρ and its additions; the product with v takes the weights in the type of v (relatively u, absolutely half of the
/// smallest subnormal) and adds them on the tensor core; `div.full` is within 2 ulp, and the result is stored.
fn check_random(module: &Module) {
    let (d, block, mut random) = (module.constant("D"), module.constant("BLOCK_N"), Random::new(6));
    let ty = module.ty("v");
    let mut normal =
        |factor: f64| Data::of_floats(ty, (0..HEADS * SEQUENCE * d).map(|_| factor * random.normal()));
    // Twice the usual spread: a few keys stand out in each row, and the result is not near zero.
    let data = [normal(2.0), normal(1.0), normal(1.0)];
    let scale = 1.0 / (d as f64).sqrt();
    let scale = f64::from(scale as f32);
    module.check(&values(module, data, scale), &[("heads", HEADS as u32)], |run| {
        let [q, k, v] = ["q", "k", "v"].map(|name| run.floats(name));
        let core = module.tensor_core(ty);
        let (weight_rounding, weight_floor) = ty.rounding();
        let least_normal = exp2(ty.least_exponent());
        let mut wanted = Vec::new();
        for row in 0..HEADS * SEQUENCE {
            let first = row / SEQUENCE * SEQUENCE;
            let visible = if causal(module) { row - first + 1 } else { SEQUENCE };
            let query = &q[row * d..][..d];
            let scores: Vec<(f64, f64)> = (first..first + visible)
                .map(|j| core.dot(query.iter().copied().zip(k[j * d..][..d].iter().copied()), 0.0))
                .map(|(score, error)| (score * scale, error * scale))
                .collect();
            let top = scores.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
            let least = scores.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
            let range = top - least;
            let blocks = SEQUENCE.div_ceil(block);
            let rescaling = blocks as f64 * (EX2 + 2.0 * U32 * range + U32);
            let total: f64 = scores.iter().map(|s| (s.0 - top).exp()).sum();
            let terms: Vec<(f64, f64)> = scores
                .iter()
                .map(|(score, error)| {
                    let moved = error + 4.0 * U32 * score.abs() + 2.0 * U32 * range + EX2 + rescaling;
                    ((score - top).exp() / total, moved / (1.0 - moved))
                })
                .collect();
            let sum_error: f64 =
                terms.iter().map(|(w, error)| w * error).sum::<f64>() + gamma(visible + 2 * blocks);
            for e in 0..d {
                let (mut value, mut magnitude, mut error, mut largest, mut sizes) =
                    (0.0, 0.0, 0.0, 0.0f64, 0.0);
                for ((w, weight_error), j) in terms.iter().zip(first..) {
                    let element = v[j * d + e];
                    let product = w * element.abs();
                    value += w * element;
                    magnitude += product;
                    error += product * (weight_error + weight_rounding * (1.0 + weight_error));
                    sizes += element.abs();
                    let weight = w.max(least_normal / total) * element.abs().max(least_normal);
                    largest = largest.max(weight);
                }
                error += weight_floor * sizes / total;
                error += core.error(blocks * block, magnitude + error, largest);
                let relative = sum_error + 4.0 * U32;
                error = (error + f64::abs(value) * relative) / (1.0 - relative);
                wanted.push((value, error));
            }
        }
        close_data(&module.name, run.after("out"), wanted);
    });
}
