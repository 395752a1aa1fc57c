//! f32 and f64 arithmetic in the four IEEE roundings.
//!
//! `.rn` is the host's own operation, which IEEE 754 defines to the bit; the other roundings compute the exact result in
//! integers and round it once. `.ftz` replaces subnormal inputs, and results that are subnormal after rounding, by zeros of
//! the same sign.

use super::round::{F32, F64, Format, Rounding, pack};

/// The NaN that f32 instructions produce.
pub const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN that f64 instructions produce when no operand is one.
pub const NAN_F64: u64 = 0xfff8_0000_0000_0000;

const QUIET_F64: u64 = 0x0008_0000_0000_0000;

/// Replaces a subnormal f32 by a zero of the same sign.
#[inline(always)]
pub fn flush_f32(a: u32) -> u32 {
    if a & 0x7f80_0000 == 0 { a & 0x8000_0000 } else { a }
}

/// [`flush_f32`] if `ftz`.
#[inline(always)]
pub fn flush_f32_if(ftz: bool, a: u32) -> u32 {
    if ftz { flush_f32(a) } else { a }
}

/// Whether the f32 code is a NaN.
#[inline(always)]
pub fn is_nan_f32(a: u32) -> bool {
    a & 0x7fff_ffff > 0x7f80_0000
}

/// Whether the f64 code is a NaN.
#[inline(always)]
pub fn is_nan_f64(a: u64) -> bool {
    a & !(1 << 63) > F64.infinity()
}

/// The bits of a result of host arithmetic, with the canonical NaN. The test for NaN is on the bits: with a test on the
/// number, LLVM replaces "NaN, or else the root" by the root, whose NaN differs on x86.
#[inline(always)]
pub fn canonical_f32(r: f32) -> u32 {
    let bits = r.to_bits();
    if is_nan_f32(bits) { NAN_F32 } else { bits }
}

/// The NaN that results from f64 operands: the first NaN made quiet, or the canonical one.
#[inline(always)]
fn nan_from(operands: [u64; 3]) -> u64 {
    let [a, b, c] = operands;
    let last = if is_nan_f64(c) { c | QUIET_F64 } else { NAN_F64 };
    let last = if is_nan_f64(b) { b | QUIET_F64 } else { last };
    if is_nan_f64(a) { a | QUIET_F64 } else { last }
}

#[inline(always)]
fn canonical_f64(r: f64, operands: [u64; 3]) -> u64 {
    let bits = r.to_bits();
    if is_nan_f64(bits) { nan_from(operands) } else { bits }
}

/// `.sat` on f32: clamps to [0, 1]; NaN and −0 become +0.
#[inline(always)]
pub fn sat_f32(a: u32) -> u32 {
    let x = f32::from_bits(a);
    let low = if x > 0.0 { x } else { 0.0 };
    let both = if low < 1.0 { low } else { 1.0 };
    both.to_bits()
}

/// `.sat` on f64 (`cvt` only): clamps to [0, 1]; NaN and −0 become +0.
#[inline(always)]
pub fn sat_f64(a: u64) -> u64 {
    let x = f64::from_bits(a);
    let low = if x > 0.0 { x } else { 0.0 };
    let both = if low < 1.0 { low } else { 1.0 };
    both.to_bits()
}

// ---- exact arithmetic in integers, for the roundings the host does not offer ----

/// A number (−1)^negative · significand · 2^exponent; a finite operand.
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    exponent: i32,
    significand: u128,
}

#[derive(Clone, Copy)]
enum Class {
    Finite(Number),
    Infinite(bool),
    Nan,
}

#[inline]
fn classify(format: Format, bits: u64) -> Class {
    let negative = bits & format.sign() != 0;
    let abs = bits & (format.sign() - 1);
    if abs > format.infinity() {
        return Class::Nan;
    }
    if abs == format.infinity() {
        return Class::Infinite(negative);
    }
    let field = (abs >> format.fraction_bits) as i32;
    let fraction = abs & ((1 << format.fraction_bits) - 1);
    let hidden = u64::from(field != 0) << format.fraction_bits;
    Class::Finite(Number {
        negative,
        exponent: field.max(1) - format.bias() - format.fraction_bits as i32,
        significand: u128::from(fraction | hidden),
    })
}

/// The result of an exact operation: a code, or an invalid operation.
type Exact = Option<u64>;

const TOP: i32 = 125;

fn normalize(n: Number) -> Number {
    let shift = n.significand.leading_zeros() as i32 - (127 - TOP);
    if shift >= 0 {
        Number { significand: n.significand << shift, exponent: n.exponent - shift, ..n }
    } else {
        n
    }
}

fn add_numbers(format: Format, x: Number, y: Number, rounding: Rounding) -> u64 {
    let zero_sign = |n: Number| if n.negative { format.sign() } else { 0 };
    match (x.significand == 0, y.significand == 0) {
        (true, true) => {
            return if x.negative == y.negative {
                zero_sign(x)
            } else if rounding == Rounding::Rm {
                format.sign()
            } else {
                0
            };
        }
        (true, false) => return pack(format, y.negative, y.exponent, y.significand, rounding),
        (false, true) => return pack(format, x.negative, x.exponent, x.significand, rounding),
        (false, false) => {}
    }
    // Both at bit 125: an operand of at most 106 bits keeps 20 zero bits below it, so whenever alignment discards bits, the
    // difference is large enough for a single sticky bit to decide every rounding.
    let (mut x, mut y) = (normalize(x), normalize(y));
    if x.exponent < y.exponent {
        std::mem::swap(&mut x, &mut y);
    }
    let distance = (x.exponent - y.exponent) as u32;
    let aligned = if distance > 126 {
        1
    } else {
        let kept = y.significand >> distance;
        kept | u128::from(kept << distance != y.significand)
    };
    if x.negative == y.negative {
        return pack(format, x.negative, x.exponent, x.significand + aligned, rounding);
    }
    match x.significand.cmp(&aligned) {
        std::cmp::Ordering::Equal => {
            if rounding == Rounding::Rm {
                format.sign()
            } else {
                0
            }
        }
        std::cmp::Ordering::Greater => {
            pack(format, x.negative, x.exponent, x.significand - aligned, rounding)
        }
        std::cmp::Ordering::Less => pack(format, y.negative, x.exponent, aligned - x.significand, rounding),
    }
}

fn infinity(format: Format, negative: bool) -> u64 {
    format.infinity() | if negative { format.sign() } else { 0 }
}

fn exact_add(format: Format, a: u64, b: u64, rounding: Rounding) -> Exact {
    Some(match (classify(format, a), classify(format, b)) {
        (Class::Nan, _) | (_, Class::Nan) => return None,
        (Class::Infinite(x), Class::Infinite(y)) if x != y => return None,
        (Class::Infinite(x), _) | (_, Class::Infinite(x)) => infinity(format, x),
        (Class::Finite(x), Class::Finite(y)) => add_numbers(format, x, y, rounding),
    })
}

fn exact_mul(format: Format, a: u64, b: u64, rounding: Rounding) -> Exact {
    let negative = (a ^ b) & format.sign() != 0;
    Some(match (classify(format, a), classify(format, b)) {
        (Class::Nan, _) | (_, Class::Nan) => return None,
        (Class::Infinite(_), Class::Finite(n)) | (Class::Finite(n), Class::Infinite(_))
            if n.significand == 0 =>
        {
            return None;
        }
        (Class::Infinite(_), _) | (_, Class::Infinite(_)) => infinity(format, negative),
        (Class::Finite(x), Class::Finite(y)) => {
            pack(format, negative, x.exponent + y.exponent, x.significand * y.significand, rounding)
        }
    })
}

fn exact_fma(format: Format, a: u64, b: u64, c: u64, rounding: Rounding) -> Exact {
    let negative = (a ^ b) & format.sign() != 0;
    let addend = classify(format, c);
    let product = match (classify(format, a), classify(format, b)) {
        (Class::Nan, _) | (_, Class::Nan) => return None,
        (Class::Infinite(_), Class::Finite(n)) | (Class::Finite(n), Class::Infinite(_))
            if n.significand == 0 =>
        {
            return None;
        }
        (Class::Infinite(_), _) | (_, Class::Infinite(_)) => Class::Infinite(negative),
        (Class::Finite(x), Class::Finite(y)) => Class::Finite(Number {
            negative,
            exponent: x.exponent + y.exponent,
            significand: x.significand * y.significand,
        }),
    };
    Some(match (product, addend) {
        (Class::Nan, _) | (_, Class::Nan) => return None,
        (Class::Infinite(x), Class::Infinite(y)) if x != y => return None,
        (Class::Infinite(x), _) | (_, Class::Infinite(x)) => infinity(format, x),
        (Class::Finite(x), Class::Finite(y)) => add_numbers(format, x, y, rounding),
    })
}

fn exact_div(format: Format, a: u64, b: u64, rounding: Rounding) -> Exact {
    let negative = (a ^ b) & format.sign() != 0;
    Some(match (classify(format, a), classify(format, b)) {
        (Class::Nan, _) | (_, Class::Nan) | (Class::Infinite(_), Class::Infinite(_)) => return None,
        (Class::Infinite(_), Class::Finite(_)) => infinity(format, negative),
        (Class::Finite(_), Class::Infinite(_)) => pack(format, negative, 0, 0, rounding),
        (Class::Finite(x), Class::Finite(y)) => match (x.significand, y.significand) {
            (0, 0) => return None,
            (_, 0) => infinity(format, negative),
            (0, _) => pack(format, negative, 0, 0, rounding),
            _ => {
                // 126 bits over at most 53 leave a quotient of at least 73 bits.
                let x = normalize(x);
                let quotient = x.significand / y.significand;
                let inexact = quotient * y.significand != x.significand;
                pack(
                    format,
                    negative,
                    x.exponent - y.exponent - 1,
                    quotient << 1 | u128::from(inexact),
                    rounding,
                )
            }
        },
    })
}

fn exact_sqrt(format: Format, a: u64, rounding: Rounding) -> Exact {
    Some(match classify(format, a) {
        Class::Nan | Class::Infinite(true) => return None,
        Class::Infinite(false) => format.infinity(),
        Class::Finite(n) if n.significand == 0 => a,
        Class::Finite(n) if n.negative => return None,
        Class::Finite(n) => {
            let n = normalize(n);
            // An even exponent; the significand keeps at least 125 bits, its root 62.
            let odd = n.exponent & 1;
            let (significand, exponent) = (n.significand << odd, n.exponent - odd);
            let root = significand.isqrt();
            let inexact = root * root != significand;
            pack(format, false, exponent / 2 - 1, root << 1 | u128::from(inexact), rounding)
        }
    })
}

#[inline(never)]
fn directed_f32(exact: Exact) -> u32 {
    exact.map_or(NAN_F32, |code| code as u32)
}

// ---- the instructions ----

/// `add.f32`
#[inline(always)]
pub fn add_f32(a: u32, b: u32, rounding: Rounding, ftz: bool) -> u32 {
    let (a, b) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b));
    let r = if rounding == Rounding::Rn {
        canonical_f32(f32::from_bits(a) + f32::from_bits(b))
    } else {
        directed_f32(exact_add(F32, u64::from(a), u64::from(b), rounding))
    };
    flush_f32_if(ftz, r)
}

/// `sub.f32`
#[inline(always)]
pub fn sub_f32(a: u32, b: u32, rounding: Rounding, ftz: bool) -> u32 {
    add_f32(a, b ^ 0x8000_0000, rounding, ftz)
}

/// `mul.f32`
#[inline(always)]
pub fn mul_f32(a: u32, b: u32, rounding: Rounding, ftz: bool) -> u32 {
    let (a, b) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b));
    let r = if rounding == Rounding::Rn {
        canonical_f32(f32::from_bits(a) * f32::from_bits(b))
    } else {
        directed_f32(exact_mul(F32, u64::from(a), u64::from(b), rounding))
    };
    flush_f32_if(ftz, r)
}

/// `fma.f32` and `mad.f32`
#[inline(always)]
pub fn fma_f32(a: u32, b: u32, c: u32, rounding: Rounding, ftz: bool) -> u32 {
    let (a, b, c) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b), flush_f32_if(ftz, c));
    let r = if rounding == Rounding::Rn {
        canonical_f32(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)))
    } else {
        directed_f32(exact_fma(F32, u64::from(a), u64::from(b), u64::from(c), rounding))
    };
    flush_f32_if(ftz, r)
}

/// `div.rnd.f32`
#[inline(always)]
pub fn div_f32(a: u32, b: u32, rounding: Rounding, ftz: bool) -> u32 {
    let (a, b) = (flush_f32_if(ftz, a), flush_f32_if(ftz, b));
    let r = if rounding == Rounding::Rn {
        canonical_f32(f32::from_bits(a) / f32::from_bits(b))
    } else {
        directed_f32(exact_div(F32, u64::from(a), u64::from(b), rounding))
    };
    flush_f32_if(ftz, r)
}

/// `rcp.rnd.f32`
#[inline(always)]
pub fn rcp_f32(a: u32, rounding: Rounding, ftz: bool) -> u32 {
    div_f32(0x3f80_0000, a, rounding, ftz)
}

/// `sqrt.rnd.f32`
#[inline(always)]
pub fn sqrt_f32(a: u32, rounding: Rounding, ftz: bool) -> u32 {
    let a = flush_f32_if(ftz, a);
    if rounding == Rounding::Rn {
        canonical_f32(f32::from_bits(a).sqrt())
    } else {
        directed_f32(exact_sqrt(F32, u64::from(a), rounding))
    }
}

/// `add.f64`
#[inline(always)]
pub fn add_f64(a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a) + f64::from_bits(b), [a, b, b])
    } else {
        exact_add(F64, a, b, rounding).unwrap_or_else(|| nan_from([a, b, b]))
    }
}

/// `sub.f64`
#[inline(always)]
pub fn sub_f64(a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a) - f64::from_bits(b), [a, b, b])
    } else {
        exact_add(F64, a, b ^ (1 << 63), rounding).unwrap_or_else(|| nan_from([a, b, b]))
    }
}

/// `mul.f64`
#[inline(always)]
pub fn mul_f64(a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a) * f64::from_bits(b), [a, b, b])
    } else {
        exact_mul(F64, a, b, rounding).unwrap_or_else(|| nan_from([a, b, b]))
    }
}

/// `fma.f64` and `mad.f64`
#[inline(always)]
pub fn fma_f64(a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)), [a, b, c])
    } else {
        exact_fma(F64, a, b, c, rounding).unwrap_or_else(|| nan_from([a, b, c]))
    }
}

/// `div.rnd.f64`
#[inline(always)]
pub fn div_f64(a: u64, b: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a) / f64::from_bits(b), [a, b, b])
    } else {
        exact_div(F64, a, b, rounding).unwrap_or_else(|| nan_from([a, b, b]))
    }
}

/// `rcp.rnd.f64`
#[inline(always)]
pub fn rcp_f64(a: u64, rounding: Rounding) -> u64 {
    div_f64(1.0f64.to_bits(), a, rounding)
}

/// `sqrt.rnd.f64`
#[inline(always)]
pub fn sqrt_f64(a: u64, rounding: Rounding) -> u64 {
    if rounding == Rounding::Rn {
        canonical_f64(f64::from_bits(a).sqrt(), [a, a, a])
    } else {
        exact_sqrt(F64, a, rounding).unwrap_or_else(|| nan_from([a, a, a]))
    }
}
