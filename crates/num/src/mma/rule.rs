//! The rule of the tensor cores since Ampere, as published (arXiv 2511.10909 and 2512.07004) and confirmed by captures of
//! hardware. Its constants differ between generations ([`Rule::of`]).
//!
//! K is split into blocks, in increasing k. Each block adds its exact products and the running value: every term is
//! truncated toward zero to a multiple of 2^(emax − F), where emax is the largest exponent among the terms; the sum is
//! exact, and is rounded to the accumulator. Products are not normalized: the exponent of a product is the sum of the
//! exponents of its factors, and a subnormal has the exponent of the smallest normal. This module computes one output at a
//! time and is deliberately simple.

pub(super) use crate::round::Rounding;
use crate::round::{F16, F32, Format, pack};

/// The type of an operand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.tf32`, as an f32 code whose 13 low bits are ignored
    Tf32,
    /// `.e4m3`
    E4m3,
    /// `.e5m2`
    E5m2,
    /// `.e3m2`, in six bits
    E3m2,
    /// `.e2m3`, in six bits
    E2m3,
    /// `.e2m1`, in four bits
    E2m1,
}

/// A generation of tensor cores, as far as its arithmetic differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorCore {
    /// Ampere and Ada: sm_80 to sm_89, and what is older.
    Ada,
    /// Hopper, and `mma` on the Blackwell of data centers: sm_90 to sm_110.
    Hopper,
    /// The Blackwell of workstations: sm_120 and later.
    RtxBlackwell,
}

impl TensorCore {
    /// The tensor core of an architecture, by its `sm_` number.
    pub const fn of(sm: u32) -> Self {
        match sm {
            0..90 => Self::Ada,
            90..120 => Self::Hopper,
            _ => Self::RtxBlackwell,
        }
    }
}

/// The type of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// `.f32`
    F32,
    /// `.f16`
    F16,
}

impl Accumulator {
    /// The code of NaN in this type.
    pub const fn nan(self) -> u32 {
        match self {
            Self::F32 => 0x7fff_ffff,
            Self::F16 => 0x7fff,
        }
    }

    const fn format(self) -> Format {
        match self {
            Self::F32 => F32,
            Self::F16 => F16,
        }
    }
}

/// The constants of the rule for one pair of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Products per block.
    pub block: usize,
    /// F: the distance of a term's last kept bit below emax.
    pub fraction: i32,
    /// Fraction bits of the result.
    pub output_fraction: u32,
    /// How the sum is rounded to them.
    pub rounding: Rounding,
    /// The exponent of a term of value zero.
    pub zero_exponent: i32,
}

impl Rule {
    /// The rule of a tensor core for operands like `element` (both 8-bit formats share theirs) and an accumulator. For
    /// 8-bit formats on Hopper it is the rule of `wgmma`; `mma` is composed of others there ([`fp8_by_f16`](super::fp8_by_f16)).
    pub const fn of(core: TensorCore, element: Element, accumulator: Accumulator) -> Self {
        let (block, fraction, f32_fraction) = match (core, element) {
            (TensorCore::Ada, Element::F16 | Element::Bf16) => (8, 24, 23),
            (TensorCore::Ada, Element::Tf32) => (4, 24, 23),
            (TensorCore::Ada, Element::E4m3 | Element::E5m2) => (16, 13, 13),
            (_, Element::F16 | Element::Bf16) => (16, 25, 23),
            (_, Element::Tf32) => (8, 25, 23),
            (TensorCore::Hopper, Element::E4m3 | Element::E5m2) => (32, 13, 13),
            (TensorCore::RtxBlackwell, Element::E4m3 | Element::E5m2)
            | (_, Element::E3m2 | Element::E2m3 | Element::E2m1) => (32, 25, 23),
        };
        let zero = match core {
            TensorCore::Ada => 0,
            TensorCore::Hopper | TensorCore::RtxBlackwell => 1,
        };
        let (output_fraction, rounding, zero_exponent) = match accumulator {
            Accumulator::F32 => (f32_fraction, Rounding::Rz, -132 - zero),
            Accumulator::F16 => (10, Rounding::Rn, -20 - zero),
        };
        Self { block, fraction, output_fraction, rounding, zero_exponent }
    }
}

/// An operand: significand · 2^(exponent − fraction bits).
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Number { significand: i64, exponent: i32, fraction_bits: i32 },
    Infinity(bool),
    Nan,
}

/// Which codes of a format are not numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// The topmost exponent: infinities and NaNs.
    Ieee,
    /// The code of all ones is NaN.
    OneNan,
    /// None.
    None,
}

#[inline]
fn decode(format: Format, specials: Specials, code: u32) -> Operand {
    let magnitude = u64::from(code) & (format.sign() - 1);
    let negative = u64::from(code) & format.sign() != 0;
    if specials == Specials::Ieee && magnitude >= format.infinity() {
        return if magnitude == format.infinity() { Operand::Infinity(negative) } else { Operand::Nan };
    }
    if specials == Specials::OneNan && magnitude == format.sign() - 1 {
        return Operand::Nan;
    }
    let field = (magnitude >> format.fraction_bits) as i32;
    let fraction = (magnitude & ((1 << format.fraction_bits) - 1)) as i64;
    let significand = fraction | i64::from(field != 0) << format.fraction_bits;
    Operand::Number {
        significand: if negative { -significand } else { significand },
        exponent: field.max(1) - format.bias(),
        fraction_bits: format.fraction_bits as i32,
    }
}

#[inline]
pub(super) fn decode_element(element: Element, code: u32) -> Operand {
    use crate::round::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2};
    match element {
        Element::F16 => decode(F16, Specials::Ieee, code),
        Element::Bf16 => decode(BF16, Specials::Ieee, code),
        Element::Tf32 => decode(F32, Specials::Ieee, code & 0xffff_e000),
        Element::E4m3 => decode(E4M3, Specials::OneNan, code),
        Element::E5m2 => decode(E5M2, Specials::Ieee, code),
        Element::E3m2 => decode(E3M2, Specials::None, code),
        Element::E2m3 => decode(E2M3, Specials::None, code),
        Element::E2m1 => decode(E2M1, Specials::None, code),
    }
}

/// The value of an accumulator.
#[inline]
pub(super) fn decode_accumulator(accumulator: Accumulator, code: u32) -> Operand {
    decode(accumulator.format(), Specials::Ieee, code)
}

/// One output: the dot product of a row of A and a column of B, given as codes, added to c.
pub fn dot(
    rule: &Rule,
    elements: (Element, Element),
    accumulator: Accumulator,
    row: &[u32],
    column: &[u32],
    c: u32,
) -> u32 {
    let block = rule.block.max(1);
    row.chunks(block)
        .zip(column.chunks(block))
        .fold(c, |c, (row, column)| add_block(rule, elements, accumulator, row, column, c))
}

fn add_block(
    rule: &Rule,
    elements: (Element, Element),
    accumulator: Accumulator,
    row: &[u32],
    column: &[u32],
    c: u32,
) -> u32 {
    let format = accumulator.format();
    let products = row.iter().zip(column).map(|(&a, &b)| {
        match (decode_element(elements.0, a), decode_element(elements.1, b)) {
            (Operand::Nan, _) | (_, Operand::Nan) => Operand::Nan,
            (Operand::Infinity(x), Operand::Infinity(y)) => Operand::Infinity(x != y),
            (Operand::Infinity(x), Operand::Number { significand, .. })
            | (Operand::Number { significand, .. }, Operand::Infinity(x)) => {
                if significand == 0 {
                    Operand::Nan
                } else {
                    Operand::Infinity(x != (significand < 0))
                }
            }
            (
                Operand::Number { significand: ma, exponent: ea, fraction_bits: fa },
                Operand::Number { significand: mb, exponent: eb, fraction_bits: fb },
            ) => Operand::Number { significand: ma * mb, exponent: ea + eb, fraction_bits: fa + fb },
        }
    });
    let terms = products.chain(std::iter::once(decode_accumulator(accumulator, c)));

    let (mut nan, mut plus, mut minus) = (false, false, false);
    let mut emax = i32::MIN;
    for term in terms.clone() {
        match term {
            Operand::Nan => nan = true,
            Operand::Infinity(negative) => {
                minus |= negative;
                plus |= !negative;
            }
            Operand::Number { significand, exponent, .. } => {
                emax = emax.max(if significand == 0 { rule.zero_exponent } else { exponent });
            }
        }
    }
    let sign = format.sign() as u32;
    let infinity = format.infinity() as u32;
    if nan || (plus && minus) {
        return accumulator.nan();
    }
    if plus || minus {
        return infinity | if minus { sign } else { 0 };
    }

    let quantum = emax - rule.fraction;
    let mut sum = 0i128;
    for term in terms {
        if let Operand::Number { significand, exponent, fraction_bits } = term
            && significand != 0
        {
            let shift = exponent - fraction_bits - quantum;
            let magnitude = u128::from(significand.unsigned_abs());
            let aligned =
                if shift >= 0 { magnitude << shift.min(64) } else { magnitude >> (-shift).min(127) };
            sum += if significand < 0 { -(aligned as i128) } else { aligned as i128 };
        }
    }

    round(rule, accumulator, sum, quantum)
}

/// `sum` · 2^`quantum` in the accumulator's type.
#[inline]
pub(super) fn round(rule: &Rule, accumulator: Accumulator, sum: i128, quantum: i32) -> u32 {
    let format = accumulator.format();
    let (sign, infinity) = (format.sign() as u32, format.infinity() as u32);
    let magnitude = sum.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    // Overflow gives infinity even if the rounding is toward zero.
    let top = quantum + 127 - magnitude.leading_zeros() as i32;
    let negative = sum < 0;
    if top > format.bias() {
        return infinity | if negative { sign } else { 0 };
    }
    let kept = Format { fraction_bits: rule.output_fraction.min(format.fraction_bits), ..format };
    let dropped = format.fraction_bits - kept.fraction_bits;
    let code = (pack(kept, negative, quantum, magnitude, rule.rounding) & (kept.sign() - 1)) << dropped;
    if code == 0 { 0 } else { code as u32 | if negative { sign } else { 0 } }
}
