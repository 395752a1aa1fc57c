//! Block-scaled multiplications: every block of elements of A and B has a factor of its own.
//!
//! The rule is that of [`rule`](super::rule), with these terms:
//!
//! - Elements of a byte (`mxf8f6f4`): the exponents of both scales are added to the exponent of each product.
//! - Elements of four bits (`mxf4`, `mxf4nvf4`): 16 products are added exactly, and their sum times both scales is one term. Its
//!   exponent is that of the scales, whatever the sum is, unless all 16 products are zero or a scale is zero.
//!
//! All of K is one block, C included. A NaN scale gives NaN.

use super::rule::{Accumulator, Element, Operand, Rounding, Rule, decode_accumulator, decode_element, round};

/// The type of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `.ue8m0`: a power of two.
    Ue8m0,
    /// `.ue4m3`: e4m3 whose sign is ignored.
    Ue4m3,
}

/// A scale: significand · 2^(exponent − fraction bits).
#[derive(Clone, Copy)]
struct Factor {
    significand: i64,
    exponent: i32,
    fraction_bits: i32,
}

/// The value of a scale; `None` for NaN.
#[inline]
fn decode_scale(scale: Scale, code: u8) -> Option<Factor> {
    match scale {
        Scale::Ue8m0 => (code != 0xff).then(|| Factor {
            significand: 1,
            exponent: i32::from(code) - 127,
            fraction_bits: 0,
        }),
        Scale::Ue4m3 => match decode_element(Element::E4m3, u32::from(code & 0x7f)) {
            Operand::Number { significand, exponent, fraction_bits } => {
                Some(Factor { significand, exponent, fraction_bits })
            }
            Operand::Infinity(_) | Operand::Nan => None,
        },
    }
}

const fn rule(fraction: i32, zero_exponent: i32) -> Rule {
    Rule { block: usize::MAX, fraction, output_fraction: 23, rounding: Rounding::Rz, zero_exponent }
}

/// The rule of `mxf8f6f4`.
const BYTES: Rule = rule(25, -133);
/// The rule of `mxf4` and `mxf4nvf4`.
const NIBBLES: Rule = rule(35, -139);

/// The terms of one output, and what their exponents and special values decide.
struct Terms<const COUNT: usize> {
    /// Integers, and the exponents of their units.
    values: [(i64, i32); COUNT],
    emax: i32,
    nan: bool,
    plus: bool,
    minus: bool,
}

impl<const COUNT: usize> Terms<COUNT> {
    fn new(rule: &Rule) -> Self {
        Self { values: [(0, 0); COUNT], emax: rule.zero_exponent, nan: false, plus: false, minus: false }
    }

    fn infinite(&mut self, negative: bool) {
        self.minus |= negative;
        self.plus |= !negative;
    }

    fn sum(mut self, rule: &Rule, c: u32) -> u32 {
        let mut own = (0, 0);
        match decode_accumulator(Accumulator::F32, c) {
            Operand::Nan => self.nan = true,
            Operand::Infinity(negative) => self.infinite(negative),
            Operand::Number { significand, exponent, fraction_bits } => {
                own = (significand, exponent - fraction_bits);
                if significand != 0 {
                    self.emax = self.emax.max(exponent);
                }
            }
        }
        if self.nan || (self.plus && self.minus) {
            return Accumulator::F32.nan();
        }
        if self.plus || self.minus {
            return 0x7f80_0000 | if self.minus { 0x8000_0000 } else { 0 };
        }
        let quantum = self.emax - rule.fraction;
        let term = |(value, unit): (i64, i32)| {
            // A term is below 2^48: it has at most 20 bits, and its unit is at most 27 above the quantum.
            let shift = unit - quantum;
            let magnitude = value.unsigned_abs();
            let aligned = if shift >= 0 { magnitude << shift.min(40) } else { magnitude >> (-shift).min(63) };
            if value < 0 { -(aligned as i64) } else { aligned as i64 }
        };
        let sum = self.values.iter().map(|value| term(*value)).sum::<i64>() + term(own);
        round(rule, Accumulator::F32, i128::from(sum), quantum)
    }
}

/// D = A·B + C of elements in bytes, 32 for each scale. Matrices are stored as in [`mod@super`], codes at the width of their
/// types; `scales.0` has one scale for each row of A, `scales.1` one for each column of B, all ue8m0.
pub fn bytes<const M: usize, const N: usize>(
    elements: (Element, Element),
    scales: (&[u8; M], &[u8; N]),
    a: &[[u8; M]; 32],
    b: &[[u8; 32]; N],
    c: &mut [[u32; M]; N],
) {
    let a = a.map(|line| line.map(|code| decode_element(elements.0, u32::from(code))));
    let b = b.map(|line| line.map(|code| decode_element(elements.1, u32::from(code))));
    let of = |code: &u8| decode_scale(Scale::Ue8m0, *code);
    let (a_scales, b_scales) = (scales.0.each_ref().map(of), scales.1.each_ref().map(of));
    for n in 0..N {
        for m in 0..M {
            let (Some(x), Some(y)) = (a_scales[m], b_scales[n]) else {
                c[n][m] = Accumulator::F32.nan();
                continue;
            };
            let scale = x.exponent + y.exponent;
            let mut terms = Terms::<32>::new(&BYTES);
            for k in 0..32 {
                match (a[k][m], b[n][k]) {
                    (Operand::Nan, _) | (_, Operand::Nan) => terms.nan = true,
                    (Operand::Infinity(x), Operand::Infinity(y)) => terms.infinite(x != y),
                    (Operand::Infinity(x), Operand::Number { significand, .. })
                    | (Operand::Number { significand, .. }, Operand::Infinity(x)) => {
                        if significand == 0 {
                            terms.nan = true;
                        } else {
                            terms.infinite(x != (significand < 0));
                        }
                    }
                    (
                        Operand::Number { significand: ma, exponent: ea, fraction_bits: fa },
                        Operand::Number { significand: mb, exponent: eb, fraction_bits: fb },
                    ) => {
                        let (product, exponent) = (ma * mb, ea + eb + scale);
                        if product != 0 {
                            terms.emax = terms.emax.max(exponent);
                        }
                        terms.values[k] = (product, exponent - fa - fb);
                    }
                }
            }
            c[n][m] = terms.sum(&BYTES, c[n][m]);
        }
    }
}

/// Twice the value of an e2m1 code.
fn doubled(code: u8) -> i32 {
    const MAGNITUDES: [i32; 8] = [0, 1, 2, 3, 4, 6, 8, 12];
    let magnitude = MAGNITUDES[usize::from(code & 7)];
    if code & 8 != 0 { -magnitude } else { magnitude }
}

/// D = A·B + C of e2m1, with S scales for the 64 elements of a row of A or a column of B.
pub fn nibbles<const M: usize, const N: usize, const S: usize>(
    scale: Scale,
    scales: (&[[u8; S]; M], &[[u8; S]; N]),
    a: &[[u8; M]; 64],
    b: &[[u8; 64]; N],
    c: &mut [[u32; M]; N],
) {
    let a = a.map(|line| line.map(doubled));
    let b = b.map(|line| line.map(doubled));
    let of = |code: u8| decode_scale(scale, code);
    let (a_scales, b_scales) = (scales.0.map(|line| line.map(of)), scales.1.map(|line| line.map(of)));
    for n in 0..N {
        for m in 0..M {
            let mut terms = Terms::<4>::new(&NIBBLES);
            for group in 0..4 {
                // A scale covers one group of 16, or two.
                let place = group * S / 4;
                let (Some(x), Some(y)) = (a_scales[m][place], b_scales[n][place]) else {
                    terms.nan = true;
                    continue;
                };
                let (mut sum, mut any) = (0, 0);
                for k in 16 * group..16 * group + 16 {
                    let product = a[k][m] * b[n][k];
                    sum += product;
                    any |= product;
                }
                let (significand, exponent) = (x.significand * y.significand, x.exponent + y.exponent);
                if any != 0 && significand != 0 {
                    terms.emax = terms.emax.max(exponent);
                }
                let unit = exponent - x.fraction_bits - y.fraction_bits - 2;
                terms.values[group] = (i64::from(sum) * significand, unit);
            }
            c[n][m] = terms.sum(&NIBBLES, c[n][m]);
        }
    }
}
