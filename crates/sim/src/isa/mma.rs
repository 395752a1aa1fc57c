//! `mma`: matrix multiply and accumulate over a warp.

pub(super) mod scaled;
pub(super) mod sparse;

use super::tile::{
    Code, Nibble, a_registers, b_registers, gather_a, gather_b, gather_c, place_a, place_b, place_c,
    scatter_c,
};
use super::{Args, Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Row, Type, Warp, Width, at};
use crate::simd::Simd;
use warpproof_num::fp8::Fp8;
use warpproof_num::mma::{self, Accumulator, BitOp, IntElement, TensorCore};
use warpproof_num::round::Rounding;

const MANUAL: &str = "warp-level-matrix-instructions-mma";

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "mma.sync{.aligned}.m8n8k4.alayout.blayout.f32.f16.f16.ctype d, a, b, c; .alayout = .row .col; .blayout = .row .col; .ctype = .f16 .f32",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 4, 70),
        bind: bind!(quad_pairs),
    },
    Definition {
        form: "mma.sync{.aligned}.m8n8k4.alayout.blayout.f16.f16.f16.f16 d, a, b, c; .alayout = .row .col; .blayout = .row .col",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 4, 70),
        bind: bind!(quad_pairs),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f32.f16.f16.f32 d, a, b, c; .shape = .m16n8k8 .m16n8k16",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 5, 75),
        bind: bind!(f16),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f16.f16.f16.f16 d, a, b, c; .shape = .m16n8k8 .m16n8k16",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 5, 75),
        bind: bind!(f16),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f32.bf16.bf16.f32 d, a, b, c; .shape = .m16n8k8 .m16n8k16",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (7, 0, 80),
        bind: bind!(bf16),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f32.tf32.tf32.f32 d, a, b, c; .shape = .m16n8k4 .m16n8k8",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (7, 0, 80),
        bind: bind!(tf32),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f32.atype.btype.f32 d, a, b, c; .shape = .m16n8k16 .m16n8k32; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (8, 4, 89),
        bind: bind!(fp8),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f16.atype.btype.f16 d, a, b, c; .shape = .m16n8k16 .m16n8k32; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (8, 7, 89),
        bind: bind!(fp8),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col{.satfinite}.s32.atype.btype.s32 d, a, b, c; .shape = .m8n8k16 .m16n8k16 .m16n8k32; .atype = .u8 .s8; .btype = .u8 .s8",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 5, 75),
        bind: bind!(int8),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col{.satfinite}.s32.atype.btype.s32 d, a, b, c; .shape = .m8n8k32 .m16n8k32 .m16n8k64; .atype = .u4 .s4; .btype = .u4 .s4",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (6, 5, 75),
        bind: bind!(int4),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.s32.b1.b1.s32.op.popc d, a, b, c; .shape = .m8n8k128 .m16n8k128 .m16n8k256; .op = .xor .and",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (7, 0, 75),
        bind: bind!(single_bit),
    },
    Definition {
        form: "mma.sync{.aligned}.m8n8k4.row.col.f64.f64.f64.f64{.rnd} d, a, b, c; .rnd = .rn .rz .rm .rp",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (7, 0, 80),
        bind: bind!(f64),
    },
    Definition {
        form: "mma.sync{.aligned}.shape.row.col.f64.f64.f64.f64{.rnd} d, a, b, c; .shape = .m16n8k4 .m16n8k8 .m16n8k16; .rnd = .rn .rz .rm .rp",
        manual: MANUAL,
        unit: Unit::Tensor,
        since: (7, 8, 90),
        bind: bind!(f64),
    },
];

/// The operands of an `mma` in 32-bit registers: D, A, B, C.
fn slots(d: usize, a: usize, b: usize, c: usize) -> [Slot; 4] {
    [
        Slot::DstVec(vec![Width::W32; d]),
        Slot::SrcVec(vec![Type::B32; a]),
        Slot::SrcVec(vec![Type::B32; b]),
        Slot::SrcVec(vec![Type::B32; c]),
    ]
}

/// The position of each operand's registers in `args.all`.
#[derive(Clone, Copy)]
struct Counts {
    d: usize,
    a: usize,
    b: usize,
}

impl Counts {
    fn split<'a>(&self, args: &'a Args) -> (&'a [u32], &'a [u32], &'a [u32], &'a [u32]) {
        let (d, rest) = args.all.split_at(self.d);
        let (a, rest) = rest.split_at(self.a);
        let (b, c) = rest.split_at(self.b);
        (d, a, b, c)
    }
}

/// One multiplication of fragments of type `T`; `f` does the arithmetic. `packed` is true if C and D are f16; `given` is
/// the number of registers of A and of B if it differs from the layout's, because they hold copies.
pub(super) fn multiply<I: Simd, T: Code, const M: usize, const N: usize, const K: usize>(
    packed: (bool, bool),
    given: Option<usize>,
    f: impl Fn(&[[T; M]; K], &[[T; K]; N], &mut [[u32; M]; N]) + Send + Sync + 'static,
) -> Bound {
    let accumulators = M * N / LANES;
    let registers = |packed: bool| if packed { accumulators / 2 } else { accumulators };
    let counts = Counts {
        d: registers(packed.1),
        a: given.unwrap_or(a_registers::<T>(M, K)),
        b: given.unwrap_or(b_registers::<T>(N, K)),
    };
    Bound::new(slots(counts.d, counts.a, counts.b, registers(packed.0)), move |w, args| {
        if !w.gather_warp() {
            return Flow::Wait;
        }
        I::vectorize(|| {
            let (d, a, b, c) = counts.split(args);
            let a = gather_a::<T, M, K>(w, a);
            let b = gather_b::<T, N, K>(w, b);
            let mut c = gather_c::<M, N>(w, c, packed.0);
            f(&a, &b, &mut c);
            scatter_c(w, d, packed.1, &c);
        });
        Flow::Next
    })
}

/// The accumulator of D. C of the other type is converted first; the conversion is exact or rounds to nearest.
fn accumulators(spec: &Spec<'_>) -> (bool, bool, Accumulator) {
    let d = !spec.has("f32");
    let c = spec.get("ctype").map_or(d, |ty| ty == "f16");
    (c, d, if d { Accumulator::F16 } else { Accumulator::F32 })
}

/// Converts C to the accumulator's type.
#[inline(always)]
pub(super) fn convert_c<const M: usize, const N: usize>(
    c: &mut [[u32; M]; N],
    from_f16: bool,
    to: Accumulator,
) {
    use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
    for value in c.iter_mut().flatten() {
        *value = match (from_f16, to) {
            (true, Accumulator::F32) => cvt_f32_f16(low16(*value)),
            (false, Accumulator::F16) => u32::from(cvt_f16_f32(*value, Rounding::Rn, false)),
            _ => *value,
        };
    }
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the low half holds the f16")]
fn low16(word: u32) -> u16 {
    word as u16
}

/// An expression with the tensor core of the module's target as a constant, so that the constants of its rule are known at
/// compile time. The rules for 16-bit and wider elements are the same since Hopper.
macro_rules! on_core {
    ($spec:expr, $core:ident => $body:expr) => {
        match TensorCore::of($spec.sm) {
            TensorCore::Ada => {
                const $core: TensorCore = TensorCore::Ada;
                $body
            }
            TensorCore::Hopper | TensorCore::RtxBlackwell => {
                const $core: TensorCore = TensorCore::Hopper;
                $body
            }
        }
    };
}
pub(super) use on_core;

fn f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (c, d, acc) = accumulators(spec);
    Ok(match spec.get("shape") {
        Some("m16n8k8") => on_core!(spec, CORE => {
            multiply::<I, u16, 16, 8, 8>((c, d), None, move |a, b, m| mma::f16(CORE, acc, a, b, m))
        }),
        _ => on_core!(spec, CORE => {
            multiply::<I, u16, 16, 8, 16>((c, d), None, move |a, b, m| mma::f16(CORE, acc, a, b, m))
        }),
    })
}

fn bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.get("shape") {
        Some("m16n8k8") => on_core!(spec, CORE => {
            multiply::<I, u16, 16, 8, 8>((false, false), None, |a, b, m| mma::bf16(CORE, a, b, m))
        }),
        _ => on_core!(spec, CORE => {
            multiply::<I, u16, 16, 8, 16>((false, false), None, |a, b, m| mma::bf16(CORE, a, b, m))
        }),
    })
}

fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(match spec.get("shape") {
        Some("m16n8k4") => on_core!(spec, CORE => {
            multiply::<I, u32, 16, 8, 4>((false, false), None, |a, b, m| mma::tf32(CORE, a, b, m))
        }),
        _ => on_core!(spec, CORE => {
            multiply::<I, u32, 16, 8, 8>((false, false), None, |a, b, m| mma::tf32(CORE, a, b, m))
        }),
    })
}

pub(super) fn fp8_format(name: Option<&str>) -> Fp8 {
    if name == Some("e5m2") { Fp8::E5m2 } else { Fp8::E4m3 }
}

fn fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (c, d, acc) = accumulators(spec);
    let formats = (fp8_format(spec.get("atype")), fp8_format(spec.get("btype")));
    let small = spec.get("shape") == Some("m16n8k16");
    let core = TensorCore::of(spec.sm);
    if core == TensorCore::Hopper {
        return Ok(if small {
            multiply::<I, u8, 16, 8, 16>((c, d), None, move |a, b, m| {
                mma::fp8_by_f16::<16, 8, 16, 8>(formats, acc, a, b, m);
            })
        } else {
            multiply::<I, u8, 16, 8, 32>((c, d), None, move |a, b, m| {
                mma::fp8_by_f16::<16, 8, 32, 16>(formats, acc, a, b, m);
            })
        });
    }
    // The common pair of types has its own routine, in which the formats are constants.
    Ok(match (formats, acc, small) {
        ((Fp8::E4m3, Fp8::E4m3), Accumulator::F32, false) if core == TensorCore::Ada => {
            multiply::<I, u8, 16, 8, 32>((c, d), None, |a, b, m| {
                mma::fp8(TensorCore::Ada, (Fp8::E4m3, Fp8::E4m3), Accumulator::F32, a, b, m);
            })
        }
        (_, _, true) => {
            multiply::<I, u8, 16, 8, 16>((c, d), None, move |a, b, m| mma::fp8(core, formats, acc, a, b, m))
        }
        _ => multiply::<I, u8, 16, 8, 32>((c, d), None, move |a, b, m| mma::fp8(core, formats, acc, a, b, m)),
    })
}

pub(super) fn int_elements(spec: &Spec<'_>) -> (IntElement, IntElement) {
    let element = |name: Option<&str>| match name {
        Some("u8") => IntElement::U8,
        Some("s8") => IntElement::S8,
        Some("u4") => IntElement::U4,
        _ => IntElement::S4,
    };
    (element(spec.get("atype")), element(spec.get("btype")))
}

fn int8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    Ok(match spec.get("shape") {
        Some("m8n8k16") => multiply::<I, u8, 8, 8, 16>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, a, b, m);
        }),
        Some("m16n8k16") => multiply::<I, u8, 16, 8, 16>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, a, b, m);
        }),
        _ => multiply::<I, u8, 16, 8, 32>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, a, b, m);
        }),
    })
}

/// 4-bit elements as one byte each.
pub(super) fn widen<const OUTER: usize, const INNER: usize>(
    codes: &[[Nibble; INNER]; OUTER],
) -> [[u8; INNER]; OUTER] {
    codes.map(|line| line.map(|code| code.0))
}

fn int4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    Ok(match spec.get("shape") {
        Some("m8n8k32") => multiply::<I, Nibble, 8, 8, 32>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, &widen(a), &widen(b), m);
        }),
        Some("m16n8k32") => multiply::<I, Nibble, 16, 8, 32>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, &widen(a), &widen(b), m);
        }),
        _ => multiply::<I, Nibble, 16, 8, 64>((false, false), None, move |a, b, m| {
            mma::integer(elements, sat, &widen(a), &widen(b), m);
        }),
    })
}

fn single_bit<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let op = if spec.get("op") == Some("and") { BitOp::And } else { BitOp::Xor };
    // 32 single bits form one word, so K counts words here.
    Ok(match spec.get("shape") {
        Some("m8n8k128") => {
            multiply::<I, u32, 8, 8, 4>((false, false), None, move |a, b, m| mma::bits(op, a, b, m))
        }
        Some("m16n8k128") => {
            multiply::<I, u32, 16, 8, 4>((false, false), None, move |a, b, m| mma::bits(op, a, b, m))
        }
        _ => multiply::<I, u32, 16, 8, 8>((false, false), None, move |a, b, m| mma::bits(op, a, b, m)),
    })
}

pub(super) fn rounding(spec: &Spec<'_>) -> Rounding {
    match spec.get("rnd") {
        Some("rz") => Rounding::Rz,
        Some("rm") => Rounding::Rm,
        Some("rp") => Rounding::Rp,
        _ => Rounding::Rn,
    }
}

/// f64 fragments: one element per lane and register, laid out like 32-bit elements.
pub(super) fn multiply_f64<I: Simd, const M: usize, const K: usize>(rounding: Rounding) -> Bound {
    let wide = |n: usize| Slot::SrcVec(vec![Type::F64; n]);
    let counts = Counts { d: M / 4, a: a_registers::<u32>(M, K), b: b_registers::<u32>(8, K) };
    let slots = [Slot::DstVec(vec![Width::W64; M / 4]), wide(counts.a), wide(counts.b), wide(M / 4)];
    Bound::new(slots, move |w, args| {
        if !w.gather_warp() {
            return Flow::Wait;
        }
        let (d_rows, a_rows, b_rows, c_rows) = counts.split(args);
        I::vectorize(|| {
            let row = |row: u32| w.state.regs.w64[at(row)].0;
            let (mut a, mut b, mut c) = ([[0; M]; K], [[0; K]; 8], [[0; M]; 8]);
            for (i, values) in a_rows.iter().map(|register| row(*register)).enumerate() {
                for (lane, value) in values.into_iter().enumerate() {
                    let (m, k) = place_a::<u32>(M, K, i, lane);
                    a[k][m] = value;
                }
            }
            for (i, values) in b_rows.iter().map(|register| row(*register)).enumerate() {
                for (lane, value) in values.into_iter().enumerate() {
                    let (k, n) = place_b::<u32>(K, i, lane);
                    b[n][k] = value;
                }
            }
            for (i, values) in c_rows.iter().map(|register| row(*register)).enumerate() {
                for (lane, value) in values.into_iter().enumerate() {
                    let (m, n) = place_c(M, 8, i, lane);
                    c[n][m] = value;
                }
            }
            mma::f64(rounding, &a, &b, &mut c);
            for (i, register) in d_rows.iter().enumerate() {
                let mut d = Row([0; LANES]);
                for (lane, out) in d.0.iter_mut().enumerate() {
                    let (m, n) = place_c(M, 8, i, lane);
                    *out = c[n][m];
                }
                super::map::merge(&mut w.state.regs.w64[at(*register)], &d, w.exec);
            }
        });
        Flow::Next
    })
}

fn f64<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let rounding = rounding(spec);
    Ok(match spec.get("shape") {
        Some("m16n8k4") => multiply_f64::<I, 16, 4>(rounding),
        Some("m16n8k8") => multiply_f64::<I, 16, 8>(rounding),
        Some("m16n8k16") => multiply_f64::<I, 16, 16>(rounding),
        _ => multiply_f64::<I, 8, 4>(rounding),
    })
}

/// m8n8k4 in f16: four multiplications, each by a pair of quads (lanes 4q to 4q+3 and 16+4q to 16+4q+3).
fn quad_pairs<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if TensorCore::of(spec.sm) != TensorCore::Ada {
        let sentence = format!(
            "sm_{} has no unit for m8n8k4 of f16, and the order in which its products are added",
            spec.sm
        );
        return Err(Refusal::Gap(format!("{sentence} is not known; m8n8k4 is supported up to sm_89")));
    }
    let (c_packed, d_packed, accumulator) = accumulators(spec);
    let a_row = spec.get("alayout") == Some("row");
    let b_row = spec.get("blayout") == Some("row");
    let count = |packed: bool| if packed { 4 } else { 8 };
    let counts = Counts { d: count(d_packed), a: 2, b: 2 };
    Ok(Bound::new(slots(counts.d, 2, 2, count(c_packed)), move |w, args| {
        if !w.gather_warp() {
            return Flow::Wait;
        }
        let (d_rows, a_rows, b_rows, c_rows) = counts.split(args);
        let mut results = vec![Row([0u32; LANES]); d_rows.len()];
        for quad in 0..4 {
            let (mut a, mut b, mut c) = ([[0u16; 8]; 4], [[0u16; 4]; 8], [[0u32; 8]; 8]);
            let lanes = move || (0..8).map(move |i| (i / 4, i % 4, 4 * quad + i % 4 + 16 * (i / 4)));
            let half = |w: &Warp<'_, '_>, rows: &[u32], i: usize, lane: usize| {
                u16::take(w.state.regs.w32[at(rows[i / 2])].0[lane], i % 2)
            };
            for (high, t, lane) in lanes() {
                for i in 0..4 {
                    let (row, k) = if a_row { (t + 4 * high, i) } else { (i + 4 * high, t) };
                    a[k][row] = half(w, a_rows, i, lane);
                    let (k, column) = if b_row { (t, i + 4 * high) } else { (i, t + 4 * high) };
                    b[column][k] = half(w, b_rows, i, lane);
                }
                for i in 0..8 {
                    let (row, column) = quad_place(c_packed, high, t, i);
                    c[column][row] = if c_packed {
                        u32::from(half(w, c_rows, i, lane))
                    } else {
                        w.state.regs.w32[at(c_rows[i])].0[lane]
                    };
                }
            }
            I::vectorize(|| {
                convert_c(&mut c, c_packed, accumulator);
                mma::f16(TensorCore::Ada, accumulator, &a, &b, &mut c);
            });
            for (high, t, lane) in lanes() {
                for i in 0..8 {
                    let (row, column) = quad_place(d_packed, high, t, i);
                    let value = c[column][row];
                    if d_packed {
                        results[i / 2].0[lane] |= (value & 0xffff) << (16 * (i % 2));
                    } else {
                        results[i].0[lane] = value;
                    }
                }
            }
        }
        for (row, value) in d_rows.iter().zip(&results) {
            super::map::merge(&mut w.state.regs.w32[at(*row)], value, w.exec);
        }
        Flow::Next
    }))
}

/// Row and column of accumulator `i` of lane `t` in the low or high quad.
fn quad_place(packed: bool, high: usize, t: usize, i: usize) -> (usize, usize) {
    if packed { (t + 4 * high, i) } else { ((t & 1) + (i & 2) + 4 * high, (i & 4) + (t & 2) + (i & 1)) }
}
