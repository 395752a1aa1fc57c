//! Compares the oracle with the same arithmetic written one row, one key and one element at a time.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "values are rounded on purpose"
)]

use super::*;
use crate::problem::{Lengths, Rows, ShapeError};
use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};
use warpproof_num::Rounding::Rn;
use warpproof_num::approx::{ex2_approx_f32, lg2_approx_f32};
use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
use warpproof_num::float::{add_f32, div_f32, fma_f32, mul_f32, rcp_f32, sub_f32};
use warpproof_num::fp8::{cvt_f16_fp8, cvt_f32_fp8, cvt_fp8_f32};
use warpproof_num::mma::rule::{Rule, dot};
use warpproof_num::mma::{Accumulator, Element, TensorCore};
use warpproof_num::random::SplitMix;
use warpproof_sim::simd::{Level, Vectorized};

const MINUS_INFINITY: u32 = 0xff80_0000;
const ONE: u32 = 0x3f80_0000;

/// Every arithmetic of the ladder with the formats that its rungs read.
const LADDER: [(&str, Arithmetic, &[Format]); 7] = [
    ("h0", Arithmetic::H0, &[Format::Linear8]),
    ("h2", Arithmetic::H2, &[Format::Linear8]),
    ("h3b", Arithmetic::H3B, &[Format::Linear8]),
    ("n1", Arithmetic::N1, &[Format::E4m3]),
    ("n2", Arithmetic::N2, &[Format::E4m3]),
    ("n4", Arithmetic::N4, &[Format::E4m3, Format::E5m2]),
    ("n4 one level", Arithmetic::N4_ONE_LEVEL, &[Format::E4m3, Format::E5m2]),
];

/// Pseudorandom numbers (SplitMix64).
struct Random(Cell<u64>);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Cell::new(seed))
    }

    fn next(&self) -> u64 {
        let mut random = SplitMix(self.0.get());
        let bits = random.next();
        self.0.set(random.0);
        bits
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A scale of about 2^-`bits` to 1.
    fn scale(&self, bits: usize) -> f32 {
        let fraction = f32::from(u16::try_from(self.next() & 0xffff).unwrap()) / 65536.0;
        (1.0 + fraction) * 0.5f32.powi(i32::try_from(1 + self.below(bits)).unwrap())
    }

    /// A finite code; `wild` covers the whole range, otherwise values stay around one.
    fn code(&self, format: Format, wild: bool) -> u8 {
        let byte = self.next().to_le_bytes()[0];
        match format {
            Format::Linear8 => byte,
            Format::E4m3 if wild => {
                if byte & 0x7f == 0x7f {
                    byte ^ 1
                } else {
                    byte
                }
            }
            Format::E5m2 if wild => {
                if byte & 0x7f >= 0x7c {
                    byte & 0xbf
                } else {
                    byte
                }
            }
            Format::E4m3 => (byte & 0x80) | (0x28 + (byte & 0x1f)),
            Format::E5m2 => (byte & 0x80) | (0x34 + (byte & 0x0f)),
        }
    }
}

/// A tensor as the arithmetic reads it, element by element.
struct Tensor(Quantized);

impl Deref for Tensor {
    type Target = Quantized;

    fn deref(&self) -> &Quantized {
        &self.0
    }
}

impl DerefMut for Tensor {
    fn deref_mut(&mut self) -> &mut Quantized {
        &mut self.0
    }
}

impl Tensor {
    fn random(random: &Random, rows: Rows, format: Format, granularity: Granularity, wild: bool) -> Tensor {
        let codes = (0..rows.elements()).map(|_| random.code(format, wild)).collect();
        let bits = if format == Format::Linear8 { 7 } else { 4 };
        let scales = (0..granularity.count(&rows)).map(|_| random.scale(bits)).collect();
        Tensor(Quantized { format, granularity, rows, codes, scales })
    }

    fn scale(&self, batch: usize, head: usize, row: usize) -> f32 {
        self.scales[self.granularity.index(&self.rows, batch, head, row)]
    }

    fn codes(&self, batch: usize, head: usize, row: usize) -> &[u8] {
        &self.codes[self.rows.offset(batch, head, row)..][..self.rows.dim]
    }

    /// The scale that is not yet applied.
    fn left(&self, batch: usize, head: usize, row: usize) -> u32 {
        if self.format == Format::Linear8 { ONE } else { self.scale(batch, head, row).to_bits() }
    }

    /// Codes in the form that the tensor core's rule takes.
    fn wide(&self, batch: usize, head: usize, row: usize) -> Vec<u32> {
        self.codes(batch, head, row).iter().copied().map(u32::from).collect()
    }

    /// Elements as f16 codes.
    fn halves(&self, batch: usize, head: usize, row: usize) -> Vec<u32> {
        let scale = self.scale(batch, head, row);
        let half = |&code: &u8| match self.format {
            Format::Linear8 => {
                let value = f32::from(i16::from(code) - 128);
                cvt_f16_f32(mul_f32(value.to_bits(), scale.to_bits(), Rn, false), Rn, false)
            }
            Format::E4m3 => cvt_f16_fp8(Fp8::E4m3, code, false),
            Format::E5m2 => cvt_f16_fp8(Fp8::E5m2, code, false),
        };
        self.codes(batch, head, row).iter().map(half).map(u32::from).collect()
    }

    /// Elements as f32 codes.
    fn singles(&self, batch: usize, head: usize, row: usize) -> Vec<u32> {
        self.halves(batch, head, row).iter().map(|&code| cvt_f32_f16(u16::try_from(code).unwrap())).collect()
    }

    fn element(&self) -> Element {
        match self.format {
            Format::E4m3 => Element::E4m3,
            Format::E5m2 => Element::E5m2,
            Format::Linear8 => Element::F16,
        }
    }

    /// The value of an element.
    fn value(&self, batch: usize, head: usize, row: usize, d: usize) -> f64 {
        let (code, scale) = (self.codes(batch, head, row)[d], f64::from(self.scale(batch, head, row)));
        match self.format {
            Format::Linear8 => (f64::from(code) - 128.0) * scale,
            Format::E4m3 => f64::from(f32::from_bits(cvt_f32_fp8(Fp8::E4m3, code))) * scale,
            Format::E5m2 => f64::from(f32::from_bits(cvt_f32_fp8(Fp8::E5m2, code))) * scale,
        }
    }
}

/// A problem that owns its tensors.
struct Case {
    shape: Shape,
    mask: Mask,
    softmax_scale: f64,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o_layout: Layout,
    parts: Parts,
}

impl Case {
    fn random(seed: u64, arithmetic: &Arithmetic, formats: &[Format]) -> Case {
        let random = Random::new(seed);
        let group = random.pick(&[1, 1, 2, 3]);
        let kv_heads = 1 + random.below(2);
        let dim = random.pick(&[32, 64, 96]);
        let lengths = |_| Lengths { queries: random.below(24), keys: random.below(150) };
        let sequences = (0..=random.below(2)).map(lengths).collect();
        let shape = Shape { heads: kv_heads * group, kv_heads, dim, sequences };
        let layout = || random.pick(&[Layout::Bhsd, Layout::Bshd]);
        let wild = random.below(4) == 0;
        let granularity = || random.pick(&Granularity::ALL);
        let inside = formats[0] == Format::Linear8 || arithmetic.values == Values::Fp8 { two_level: true };
        let of_values = if inside { granularity() } else { random.pick(&Granularity::ALL[..2]) };
        let format = || random.pick(formats);
        let q = Tensor::random(&random, shape.query_rows(layout()), format(), granularity(), wild);
        let k = Tensor::random(&random, shape.key_rows(layout()), format(), granularity(), wild);
        let v = Tensor::random(&random, shape.key_rows(layout()), format(), of_values, wild);
        let stream_k = StreamK::new(&shape, 5, arithmetic.tile, 1 + random.below(5));
        let stream_k = stream_k.map_or(Parts::Whole, Parts::StreamK);
        Case {
            mask: random.pick(&[Mask::Full, Mask::Causal]),
            softmax_scale: 1.0 / (dim as f64).sqrt(),
            q,
            k,
            v,
            o_layout: layout(),
            parts: random.pick(&[Parts::Whole, Parts::Tiles(1), Parts::Tiles(2), stream_k]),
            shape,
        }
    }

    fn bits(&self, arithmetic: &Arithmetic) -> Bits {
        attention(&self.problem(), arithmetic).unwrap()
    }

    fn problem(&self) -> Problem<'_> {
        Problem {
            shape: &self.shape,
            mask: self.mask,
            window: Window::default(),
            softmax_scale: self.softmax_scale,
            softcap: None,
            sinks: None,
            slopes: None,
            q: &self.q,
            k: &self.k,
            v: &self.v,
            o_layout: self.o_layout,
            parts: self.parts,
            output: OutputFormat::F16,
        }
    }

    /// Every query row: its sequence, head and place.
    fn rows(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let sequences = self.shape.sequences.iter().enumerate();
        sequences.flat_map(|(batch, lengths)| {
            let rows = lengths.queries;
            (0..self.shape.heads).flat_map(move |head| (0..rows).map(move |row| (batch, head, row)))
        })
    }
}

fn ex2(a: u32) -> u32 {
    ex2_approx_f32(a, false)
}

fn add(a: u32, b: u32) -> u32 {
    add_f32(a, b, Rn, false)
}

fn sub(a: u32, b: u32) -> u32 {
    sub_f32(a, b, Rn, false)
}

fn mul(a: u32, b: u32) -> u32 {
    mul_f32(a, b, Rn, false)
}

fn fma(a: u32, b: u32, c: u32) -> u32 {
    fma_f32(a, b, c, Rn, false)
}

fn max(a: u32, b: u32) -> u32 {
    if f32::from_bits(a) >= f32::from_bits(b) { a } else { b }
}

fn tensor_core(elements: (Element, Element), row: &[u32], column: &[u32], c: u32) -> u32 {
    dot(&Rule::of(TensorCore::Ada, elements.0, Accumulator::F32), elements, Accumulator::F32, row, column, c)
}

/// The partial result of a row over a part of the keys.
#[derive(Debug)]
struct Part {
    m: u32,
    l: u32,
    acc: Vec<u32>,
}

/// Computes one row over every tile of the part, one tile after another.
fn part(case: &Case, arithmetic: &Arithmetic, at: (usize, usize, usize), tiles: Range<usize>) -> Part {
    let (batch, head, row) = at;
    let kv_head = head / (case.shape.heads / case.shape.kv_heads);
    let lengths = case.shape.sequences[batch];
    let dim = case.shape.dim;
    let scale = ((case.softmax_scale * std::f64::consts::LOG2_E) as f32).to_bits();
    let query_scale = mul(scale, case.q.left(batch, head, row));
    let lane_of = |key: usize| match arithmetic.sum.lanes {
        Lanes::Interleaved4 => key % 4,
        Lanes::Interleaved32 => key % 32,
        Lanes::Pairs4 => (key % 8) / 2,
    };
    let lanes = if arithmetic.sum.lanes == Lanes::Interleaved32 { 32 } else { 4 };
    let q = match arithmetic.scores {
        Scores::Chain => case.q.singles(batch, head, row),
        Scores::F16 => case.q.halves(batch, head, row),
        Scores::Fp8 => case.q.wide(batch, head, row),
    };
    let mut m = MINUS_INFINITY;
    let mut l = 0;
    let mut lane_l = vec![0; lanes];
    let mut acc = vec![0; dim];
    for tile in tiles {
        let keys = tile * arithmetic.tile..(tile + 1) * arithmetic.tile;
        // Scores.
        let mut y = Vec::new();
        for key in keys.clone() {
            let seen = key < lengths.keys
                && (case.mask == Mask::Full || key + lengths.queries <= row + lengths.keys);
            if !seen {
                y.push(MINUS_INFINITY);
                continue;
            }
            let score = match arithmetic.scores {
                Scores::Chain => {
                    let k = case.k.singles(batch, kv_head, key);
                    q.iter().zip(&k).fold(0, |sum, (&q, &k)| fma(q, k, sum))
                }
                Scores::F16 => {
                    let k = case.k.halves(batch, kv_head, key);
                    tensor_core((Element::F16, Element::F16), &q, &k, 0)
                }
                Scores::Fp8 => {
                    let k = case.k.wide(batch, kv_head, key);
                    tensor_core((case.q.element(), case.k.element()), &q, &k, 0)
                }
            };
            y.push(mul(score, mul(query_scale, case.k.left(batch, kv_head, key))));
        }
        // Softmax.
        let after = y.iter().fold(m, |m, &y| max(m, y));
        let u = if after == MINUS_INFINITY { 0 } else { after };
        let alpha = ex2(sub(m, u));
        m = after;
        let base = if arithmetic.shift == 0.0 { u } else { sub(u, arithmetic.shift.to_bits()) };
        let p: Vec<u32> = y.iter().map(|&y| ex2(sub(y, base))).collect();
        // The sum.
        let mut sums: Vec<Option<u32>> = vec![None; lanes];
        for (key, &p) in p.iter().enumerate() {
            let sum = &mut sums[lane_of(key)];
            *sum = Some(sum.map_or(p, |sum| add(sum, p)));
        }
        let sums: Vec<u32> = sums.into_iter().map(Option::unwrap).collect();
        match arithmetic.sum.combine {
            Combine::EachTile => l = fma(l, alpha, exchanged(sums)),
            Combine::AtEnd => {
                for (l, sum) in lane_l.iter_mut().zip(sums) {
                    *l = fma(*l, alpha, sum);
                }
            }
        }
        // Values.
        let present: Vec<usize> = keys.clone().filter(|&key| key < lengths.keys).collect();
        let scales: Vec<f32> = present.iter().map(|&key| case.v.scale(batch, kv_head, key)).collect();
        let inside = case.v.format != Format::Linear8
            && matches!(case.v.granularity, Granularity::Block | Granularity::Row);
        let whole = scales.iter().copied().fold(0.0, f32::max).to_bits();
        let v: Vec<Vec<u32>> = keys
            .clone()
            .map(|key| match arithmetic.values {
                _ if key >= lengths.keys => vec![0; dim],
                Values::Chain => case.v.singles(batch, kv_head, key),
                Values::F16 => case.v.halves(batch, kv_head, key),
                Values::Fp8 { .. } => case.v.wide(batch, kv_head, key),
            })
            .collect();
        let p16: Vec<u32> = p.iter().map(|&p| u32::from(cvt_f16_f32(p, Rn, false))).collect();
        let p8 = p.iter().enumerate().map(|(key, &p)| {
            let by_row = inside && case.v.granularity == Granularity::Row && key < scales.len();
            let p = if by_row { mul(p, div_f32(scales[key].to_bits(), whole, Rn, false)) } else { p };
            u32::from(cvt_fp8_f32(Fp8::E4m3, p, false))
        });
        let p8: Vec<u32> = p8.collect();
        for (d, acc) in acc.iter_mut().enumerate() {
            let v: Vec<u32> = v.iter().map(|row| row[d]).collect();
            let elements = (Element::E4m3, case.v.element());
            *acc = match arithmetic.values {
                Values::Chain => p.iter().zip(v).fold(mul(*acc, alpha), |acc, (&p, v)| fma(p, v, acc)),
                Values::F16 => tensor_core((Element::F16, Element::F16), &p16, &v, mul(*acc, alpha)),
                Values::Fp8 { two_level: false } => tensor_core(elements, &p8, &v, mul(*acc, alpha)),
                Values::Fp8 { two_level: true } if inside => {
                    fma(tensor_core(elements, &p8, &v, 0), whole, mul(*acc, alpha))
                }
                Values::Fp8 { two_level: true } => fma(*acc, alpha, tensor_core(elements, &p8, &v, 0)),
            };
        }
    }
    if arithmetic.sum.combine == Combine::AtEnd {
        l = exchanged(lane_l);
    }
    Part { m, l, acc }
}

/// The value of every lane after butterfly exchanges with the lane 1, 2, 4 … away.
fn exchanged(mut lanes: Vec<u32>) -> u32 {
    let mut distance = 1;
    while distance < lanes.len() {
        lanes = (0..lanes.len()).map(|lane| add(lanes[lane], lanes[lane ^ distance])).collect();
        distance *= 2;
    }
    lanes[0]
}

/// The output and log-sum-exp of a row.
fn reference(case: &Case, arithmetic: &Arithmetic, at: (usize, usize, usize)) -> (Vec<u16>, u32) {
    let (batch, head, _) = at;
    let tiles = case.shape.sequences[batch].keys.div_ceil(arithmetic.tile);
    let starts: Option<Vec<usize>> = match case.parts {
        Parts::Whole => None,
        Parts::Tiles(each) => Some((0..tiles).step_by(each).collect()),
        Parts::StreamK(stream_k) => {
            let (batch, head, row) = at;
            stream_k.cut(stream_k.tile(batch, head, row)).map(|second| vec![0, second.min(tiles)])
        }
    };
    let whole = match starts {
        None => part(case, arithmetic, at, 0..tiles),
        Some(starts) => {
            let ends = starts.iter().skip(1).copied().chain([tiles]);
            let parts: Vec<Part> =
                starts.iter().zip(ends).map(|(first, end)| part(case, arithmetic, at, *first..end)).collect();
            let m = parts.iter().fold(MINUS_INFINITY, |m, part| max(m, part.m));
            let u = if m == MINUS_INFINITY { 0 } else { m };
            let mut whole = Part { m, l: 0, acc: vec![0; case.shape.dim] };
            for part in parts {
                let w = ex2(sub(part.m, u));
                whole.l = fma(part.l, w, whole.l);
                for (acc, part) in whole.acc.iter_mut().zip(part.acc) {
                    *acc = fma(part, w, *acc);
                }
            }
            whole
        }
    };
    if whole.l == 0 {
        return (vec![0; case.shape.dim], MINUS_INFINITY);
    }
    let inside = matches!(case.v.granularity, Granularity::Block | Granularity::Row);
    let kv_head = head / (case.shape.heads / case.shape.kv_heads);
    let v_scale = if inside { ONE } else { case.v.left(batch, kv_head, 0) };
    let factor = mul(rcp_f32(whole.l, Rn, false), v_scale);
    let output = whole.acc.iter().map(|&acc| cvt_f16_f32(mul(acc, factor), Rn, false)).collect();
    let log = add(whole.m, lg2_approx_f32(whole.l, false));
    let log = if arithmetic.shift == 0.0 { log } else { sub(log, arithmetic.shift.to_bits()) };
    (output, mul(log, std::f32::consts::LN_2.to_bits()))
}

#[test]
fn every_rung_follows_its_arithmetic_row_by_row() {
    for (name, arithmetic, formats) in LADDER {
        for seed in 0..24 {
            let case = Case::random(seed, &arithmetic, formats);
            let bits = case.bits(&arithmetic);
            let rows = case.shape.query_rows(case.o_layout);
            let longest = case.shape.max_queries();
            assert_eq!(bits.output.len(), rows.elements());
            let mut lse = vec![0; case.shape.batch() * case.shape.heads * longest];
            for at @ (batch, head, row) in case.rows() {
                let (output, row_lse) = reference(&case, &arithmetic, at);
                let first = rows.offset(batch, head, row);
                let context = format!("{name}, seed {seed}, {}, row {at:?}", case.shape);
                assert_eq!(&bits.output[first..first + case.shape.dim], output, "{context}");
                lse[(batch * case.shape.heads + head) * longest + row] = row_lse;
            }
            assert_eq!(bits.lse, lse, "{name}, seed {seed}, {}", case.shape);
        }
    }
}

/// Compares the f32 state of every row with the reference: f16 would hide most differences in the last bit.
fn compare_states<S: Core, V: Core>(case: &Case, arithmetic: &Arithmetic, cores: (S, V)) {
    let problem = case.problem();
    for at @ (batch, head, row) in case.rows() {
        let place = (batch, head / case.shape.group());
        let mut factors = [0.0; ROWS];
        factors[0] = problem.exponent_scale() * problem.q.factor(batch, head, row);
        let mut visible = [0; ROWS];
        visible[0] = case.mask.visible(case.shape.sequences[batch], row);
        let keys = &Keys::new(&problem, arithmetic.tile, cores, place);
        let queries = queries(cores.0, problem.q, batch, [(head, row)].into_iter());
        let from = [0; ROWS];
        let (shaping, sinks) = (None, None);
        let tile = RowTile { arithmetic, cores, keys, queries, factors, from, visible, shaping, sinks };
        let state = tile.run(Division::Whole);
        let tiles = case.shape.sequences[batch].keys.div_ceil(arithmetic.tile);
        let Part { m, l, acc } = part(case, arithmetic, at, 0..tiles);
        assert_eq!((state.largest[0].to_bits(), state.sum[0][0].to_bits()), (m, l), "{at:?}");
        let own: Vec<u32> =
            state.accumulator.as_flattened().iter().map(|column| column[0].to_bits()).collect();
        assert_eq!(own, acc, "{at:?}");
    }
}

#[test]
fn f32_states_follow_the_arithmetic() {
    let core = Eight { left: Fp8::E4m3, right: Fp8::E4m3 };
    for seed in 300..308 {
        let mut case = Case::random(seed, &Arithmetic::N4, &[Format::E4m3]);
        for granularity in Granularity::ALL {
            let random = Random::new(seed);
            case.v = Tensor::random(&random, case.v.rows.clone(), Format::E4m3, granularity, false);
            compare_states(&case, &Arithmetic::N4, (core, core));
        }
        let case = Case::random(seed, &Arithmetic::N2, &[Format::E4m3]);
        compare_states(&case, &Arithmetic::N2, (Half, Half));
        compare_states(&case, &Arithmetic::N1, (Chain, Chain));
    }
}

#[test]
fn other_tiles_follow_the_same_arithmetic() {
    for tile in [32, 128] {
        let arithmetic = Arithmetic { tile, ..Arithmetic::N4 };
        for seed in 100..108 {
            let mut case = Case::random(seed, &arithmetic, &[Format::E4m3]);
            let rows = case.v.rows.clone();
            case.v = Tensor::random(&Random::new(seed), rows, Format::E4m3, Granularity::Row, false);
            let bits = case.bits(&arithmetic);
            let rows = case.shape.query_rows(case.o_layout);
            for at @ (batch, head, row) in case.rows() {
                let first = rows.offset(batch, head, row);
                let output = reference(&case, &arithmetic, at).0;
                assert_eq!(&bits.output[first..first + case.shape.dim], output, "tile {tile}, seed {seed}");
            }
        }
    }
}

#[test]
fn one_key_gives_its_value() {
    for (name, arithmetic, formats) in LADDER {
        let shape = Shape::equal(2, 2, 1, 64);
        let random = Random::new(7);
        let tensor = |granularity| {
            Tensor::random(&random, shape.query_rows(Layout::Bhsd), formats[0], granularity, false)
        };
        let case = Case {
            mask: Mask::Causal,
            softmax_scale: 0.125,
            q: tensor(Granularity::Tensor),
            k: tensor(Granularity::Tensor),
            v: tensor(Granularity::Head),
            o_layout: Layout::Bhsd,
            parts: Parts::Whole,
            shape: shape.clone(),
        };
        let bits = case.bits(&arithmetic);
        for at @ (batch, head, row) in case.rows() {
            let score: f64 = (0..64)
                .map(|d| case.q.value(batch, head, row, d) * case.k.value(batch, head, row, d))
                .sum::<f64>()
                * 0.125;
            let lse = f64::from(f32::from_bits(bits.lse[batch * 2 + head]));
            assert!((lse - score).abs() < 0.02 * (1.0 + score.abs()), "{name}: {lse} against {score}");
            for d in 0..64 {
                // The product of an 8-bit code and its scale, rounded to f32 and then to f16.
                let value = case.v.value(batch, head, row, d) as f32;
                let expected = cvt_f16_f32(value.to_bits(), Rn, false);
                assert_eq!(
                    bits.output[case.q.rows.offset(batch, head, row) + d],
                    expected,
                    "{name} {at:?} {d}"
                );
            }
        }
    }
}

#[test]
fn a_row_that_sees_nothing_is_zero() {
    let sequences = vec![Lengths { queries: 20, keys: 3 }, Lengths { queries: 2, keys: 0 }];
    let shape = Shape { heads: 2, kv_heads: 1, dim: 32, sequences };
    for (name, arithmetic, formats) in LADDER {
        let random = Random::new(3);
        let tensor = |rows| Tensor::random(&random, rows, formats[0], Granularity::Head, false);
        for parts in [Parts::Whole, Parts::Tiles(1)] {
            let case = Case {
                mask: Mask::Causal,
                softmax_scale: 1.0,
                q: tensor(shape.query_rows(Layout::Bshd)),
                k: tensor(shape.key_rows(Layout::Bshd)),
                v: tensor(shape.key_rows(Layout::Bhsd)),
                o_layout: Layout::Bshd,
                parts,
                shape: shape.clone(),
            };
            let bits = case.bits(&arithmetic);
            let rows = shape.query_rows(Layout::Bshd);
            for (batch, head, row) in case.rows() {
                let output = &bits.output[rows.offset(batch, head, row)..][..32];
                let lse = bits.lse[(batch * 2 + head) * 20 + row];
                let sees = batch == 0 && row >= 17;
                assert_eq!(output.iter().any(|&code| code != 0), sees, "{name}: row {row}");
                assert_eq!(lse == MINUS_INFINITY, !sees, "{name}: row {row}");
            }
            // Rows that do not exist.
            assert!(bits.lse[42..60].iter().all(|&lse| lse == 0), "{name}");
        }
    }
}

/// Attention in f64: the output, and the log-sum-exp.
fn in_f64(case: &Case, at: (usize, usize, usize)) -> (Vec<f64>, f64) {
    let (batch, head, row) = at;
    let kv_head = head / case.shape.group();
    let seen = case.mask.visible(case.shape.sequences[batch], row);
    let dim = case.shape.dim;
    let scores: Vec<f64> = (0..seen)
        .map(|key| {
            let products =
                (0..dim).map(|d| case.q.value(batch, head, row, d) * case.k.value(batch, kv_head, key, d));
            products.sum::<f64>() * case.softmax_scale
        })
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    let output = (0..dim).map(|d| {
        let terms = scores.iter().enumerate();
        terms.map(|(key, s)| (s - largest).exp() / sum * case.v.value(batch, kv_head, key, d)).sum()
    });
    (output.collect(), largest + sum.ln())
}

#[test]
fn every_rung_is_close_to_f64() {
    for (name, arithmetic, formats) in LADDER {
        // The root mean square error relative to that of the output: 8-bit weights cost the most.
        let bound = match arithmetic.values {
            Values::Chain | Values::F16 => 2e-3,
            Values::Fp8 { two_level: true } => 3e-2,
            Values::Fp8 { two_level: false } => 4e-2,
        };
        for seed in 200..206 {
            let mut case = Case::random(seed, &arithmetic, formats);
            let calm = |tensor: &mut Tensor, seed| {
                let random = Random::new(seed);
                let format = tensor.format;
                tensor.codes.iter_mut().for_each(|code| *code = random.code(format, false));
                let scale = if format == Format::Linear8 { 0.015 } else { 0.5 };
                tensor.scales.iter_mut().for_each(|to| *to = scale);
            };
            calm(&mut case.q, seed);
            calm(&mut case.k, seed + 1);
            calm(&mut case.v, seed + 2);
            let bits = case.bits(&arithmetic);
            let rows = case.shape.query_rows(case.o_layout);
            let (mut error, mut square) = (0.0, 0.0);
            for at @ (batch, head, row) in case.rows() {
                let (output, lse) = in_f64(&case, at);
                let first = rows.offset(batch, head, row);
                let own = &bits.output[first..first + case.shape.dim];
                if case.mask.visible(case.shape.sequences[batch], row) == 0 {
                    continue;
                }
                for (exact, &code) in output.iter().zip(own) {
                    error += (f64::from(f32::from_bits(cvt_f32_f16(code))) - exact).powi(2);
                    square += exact * exact;
                }
                let at = (batch * case.shape.heads + head) * case.shape.max_queries() + row;
                let own = f64::from(f32::from_bits(bits.lse[at]));
                assert!((own - lse).abs() < 0.01, "{name}, seed {seed}: {own} against {lse}");
            }
            assert!(
                error.sqrt() <= bound * square.sqrt(),
                "{name}, seed {seed}: {}",
                (error / square).sqrt()
            );
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = |format| {
        let shape = Shape::equal(1, 2, 40, 32);
        let random = Random::new(1);
        let tensor =
            || Tensor::random(&random, shape.query_rows(Layout::Bhsd), format, Granularity::Row, false);
        Case {
            mask: Mask::Full,
            softmax_scale: 1.0,
            q: tensor(),
            k: tensor(),
            v: tensor(),
            o_layout: Layout::Bhsd,
            parts: Parts::Tiles(0),
            shape: shape.clone(),
        }
    };
    let refused = |case: &Case, arithmetic: &Arithmetic| attention(&case.problem(), arithmetic).unwrap_err();
    let eight = case(Format::E4m3);
    assert!(attention(&eight.problem(), &Arithmetic::N4).is_ok());
    assert_eq!(refused(&eight, &Arithmetic::N2), Unfit::ValueScales);
    assert_eq!(refused(&eight, &Arithmetic { tile: 48, ..Arithmetic::N4 }), Unfit::Tile);
    assert_eq!(refused(&case(Format::Linear8), &Arithmetic::N4), Unfit::Format('Q'));
    let mut short = case(Format::E4m3);
    short.v.codes.pop();
    assert_eq!(refused(&short, &Arithmetic::N4), Unfit::Inputs(Inconsistent::Tensor('V')));
    let mut heads = case(Format::E4m3);
    heads.shape.kv_heads = 0;
    assert_eq!(refused(&heads, &Arithmetic::N4), Unfit::Inputs(Inconsistent::Shape(ShapeError::Empty)));
    let mut huge = case(Format::E4m3);
    (huge.shape.heads, huge.shape.kv_heads) = (usize::MAX, usize::MAX);
    assert_eq!(refused(&huge, &Arithmetic::N4), Unfit::Inputs(Inconsistent::Shape(ShapeError::Rows)));
    let mut dim = case(Format::E4m3);
    dim.shape.dim = 40;
    for tensor in [&mut dim.q, &mut dim.k, &mut dim.v] {
        tensor.rows.dim = 40;
        let elements = tensor.rows.elements();
        tensor.codes.resize(elements, 0);
    }
    assert_eq!(refused(&dim, &Arithmetic::N4), Unfit::Dim);
}

/// Multiply-adds whose result distinguishes a fused operation from two roundings.
struct Fused([f32; 32]);

impl Vectorized for Fused {
    type Output = [u32; 32];

    #[inline(always)]
    fn run(self) -> [u32; 32] {
        self.0.map(|x| x.mul_add(x, -1.0).to_bits())
    }
}

#[test]
fn every_vector_level_gives_the_same_bits() {
    let random = Random::new(5);
    let values: [f32; 32] = std::array::from_fn(|_| 1.0 + random.scale(20));
    let expected = values.map(|x| fma(x.to_bits(), x.to_bits(), (-1.0f32).to_bits()));
    for level in Level::ALL {
        assert_eq!(level.run(Fused(values)), expected, "{level:?}");
    }
}

/// `cargo test --release -p warpproof-kernels bitwise -- --ignored --nocapture`
#[test]
#[ignore = "a benchmark, useful in a release build only"]
fn how_long_2048_rows_take() {
    let shape = Shape::equal(1, 8, 2048, 64);
    for (name, arithmetic, formats) in LADDER {
        let random = Random::new(1);
        let tensor =
            || Tensor::random(&random, shape.query_rows(Layout::Bhsd), formats[0], Granularity::Head, false);
        let case = Case {
            mask: Mask::Full,
            softmax_scale: 0.125,
            q: tensor(),
            k: tensor(),
            v: tensor(),
            o_layout: Layout::Bhsd,
            parts: Parts::Whole,
            shape: shape.clone(),
        };
        let start = std::time::Instant::now();
        case.bits(&arithmetic);
        println!("{name}: {shape}, {} ms", start.elapsed().as_millis());
    }
}
