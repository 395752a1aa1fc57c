//! Computes the rule for a column of outputs at a time, in host floating point.

use super::rule::{Accumulator, Element, Rule, TensorCore, dot};
use crate::convert::{cvt_f32_bf16, cvt_f32_f16};
use crate::fp8::{Fp8, cvt_f32_fp8};
use crate::round::{F16, Rounding, narrow_f32, narrow_f64};
use crate::small::{Small, cvt_f32_small};

/// The exponent of an operand that is zero: low enough that its product never reaches a real exponent.
const ZERO: i32 = -1000;

/// The value of an element as f32, exact for every type.
#[inline(always)]
fn value(element: Element, code: u32) -> f32 {
    f32::from_bits(match element {
        Element::F16 => cvt_f32_f16(code as u16),
        Element::Bf16 => cvt_f32_bf16(code as u16),
        Element::Tf32 => code & 0xffff_e000,
        Element::E4m3 => cvt_f32_fp8(Fp8::E4m3, code as u8),
        Element::E5m2 => cvt_f32_fp8(Fp8::E5m2, code as u8),
        Element::E3m2 => cvt_f32_small(Small::E3m2, code as u8),
        Element::E2m3 => cvt_f32_small(Small::E2m3, code as u8),
        Element::E2m1 => cvt_f32_small(Small::E2m1, code as u8),
    })
}

/// The exponent of an element; a subnormal has that of the smallest normal.
#[inline(always)]
fn exponent(element: Element, code: u32) -> i32 {
    let (magnitude, fraction_bits, bias) = match element {
        Element::F16 => (code & 0x7fff, 10, 15),
        Element::Bf16 => (code & 0x7fff, 7, 127),
        Element::Tf32 => (code & 0x7fff_e000, 23, 127),
        Element::E4m3 => (code & 0x7f, 3, 7),
        Element::E5m2 => (code & 0x7f, 2, 15),
        Element::E3m2 => (code & 0x1f, 2, 3),
        Element::E2m3 => (code & 0x1f, 3, 1),
        Element::E2m1 => (code & 0x7, 1, 1),
    };
    let field = (magnitude >> fraction_bits) as i32;
    field.max(1) - bias + i32::from(magnitude == 0) * ZERO
}

/// Whether an element is infinite or NaN.
#[inline(always)]
fn special(element: Element, code: u32) -> bool {
    match element {
        Element::F16 => code & 0x7fff >= 0x7c00,
        Element::Bf16 => code & 0x7fff >= 0x7f80,
        Element::Tf32 => code & 0x7fff_e000 >= 0x7f80_0000,
        Element::E4m3 => code & 0x7f == 0x7f,
        Element::E5m2 => code & 0x7f >= 0x7c,
        Element::E3m2 | Element::E2m3 | Element::E2m1 => false,
    }
}

#[inline(always)]
fn accumulator_exponent(accumulator: Accumulator, zero: i32, code: u32) -> i32 {
    let (magnitude, fraction_bits, bias) = match accumulator {
        Accumulator::F32 => (code & 0x7fff_ffff, 23, 127),
        Accumulator::F16 => (code & 0x7fff, 10, 15),
    };
    // Arithmetic instead of a branch, which would prevent vectorization.
    let exponent = ((magnitude >> fraction_bits) as i32).max(1) - bias;
    exponent + i32::from(magnitude == 0) * (zero - (1 - bias))
}

/// The host type whose vectors hold terms and sums.
pub(super) trait Lane: Copy + Default {
    /// An element's value in the type.
    fn of(value: f32) -> Self;
    /// trunc(`self` · `other` · 2^(F − emax)), the power given by [`Lane::scale`].
    fn term(self, other: Self, scale: Self) -> Self;
    /// 2^(F − emax).
    fn scale(fraction: i32, emax: i32) -> Self;
    /// The accumulator's term.
    fn start(accumulator: Accumulator, code: u32, exponent: i32, fraction: i32, emax: i32) -> Self;
    /// The sum of two exact integers.
    fn plus(self, other: Self) -> Self;
    /// The result of a block, and whether the rule itself must compute it.
    fn finish(self, accumulator: Accumulator, fraction: i32, emax: i32) -> (u32, bool);

    /// D = A·B + C.
    #[inline(always)]
    fn multiply<T: Copy + Into<u32>, const M: usize, const N: usize, const K: usize>(
        core: TensorCore,
        elements: (Element, Element),
        accumulator: Accumulator,
        a: &[[T; M]; K],
        b: &[[T; K]; N],
        c: &mut [[u32; M]; N],
    ) {
        let rule = Rule::of(core, elements.0, accumulator);
        Self::by_blocks(&rule, elements, accumulator, rule.block, a, b, c, |column, c| {
            by_rule(&rule, elements, accumulator, a, column, c)
        });
    }

    /// D = A·B + C for blocks of this number of columns of A; `exact` computes a column of D from one of B and one of C
    /// if the fast path cannot.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "operands, types and constants of one multiplication")]
    fn by_blocks<T: Copy + Into<u32>, const M: usize, const N: usize, const K: usize>(
        rule: &Rule,
        elements: (Element, Element),
        accumulator: Accumulator,
        block: usize,
        a: &[[T; M]; K],
        b: &[[T; K]; N],
        c: &mut [[u32; M]; N],
        exact: impl Fn(&[T; K], &[u32; M]) -> [u32; M],
    ) {
        let block = block.min(K).max(1);

        let mut a_value = [[Self::default(); M]; K];
        let mut a_exponent = [[0i32; M]; K];
        // Special values are collected lane by lane and checked once.
        let mut seen = [0u32; M];
        for k in 0..K {
            for m in 0..M {
                let code = a[k][m].into();
                a_value[k][m] = Self::of(value(elements.0, code));
                a_exponent[k][m] = exponent(elements.0, code);
                seen[m] |= u32::from(special(elements.0, code));
            }
        }
        let found = any(&seen);
        let limit = match accumulator {
            Accumulator::F32 => 0x7f80_0000,
            Accumulator::F16 => 0x7c00,
        };
        let magnitude = match accumulator {
            Accumulator::F32 => 0x7fff_ffff,
            Accumulator::F16 => 0x7fff,
        };

        let mut b_value = [[Self::default(); K]; N];
        let mut b_exponent = [[0i32; K]; N];
        let mut rare = [[0u32; M]; N];
        let mut leave = [found; N];
        for n in 0..N {
            let mut seen = [0u32; K];
            for k in 0..K {
                let code = b[n][k].into();
                b_value[n][k] = Self::of(value(elements.1, code));
                b_exponent[n][k] = exponent(elements.1, code);
                seen[k] = u32::from(special(elements.1, code));
            }
            for m in 0..M {
                rare[n][m] = u32::from(c[n][m] & magnitude >= limit);
            }
            leave[n] |= any(&seen);
        }

        // Columns are the inner loop: consecutive columns are independent, consecutive blocks of a column are not.
        let mut running = *c;
        let mut first = 0;
        while first < K && !found {
            let last = (first + block).min(K);
            for n in 0..N {
                running[n] = add_block(
                    (rule.fraction, rule.zero_exponent),
                    accumulator,
                    &a_value[first..last],
                    &a_exponent[first..last],
                    &b_value[n][first..last],
                    &b_exponent[n][first..last],
                    &running[n],
                    &mut rare[n],
                );
            }
            first = last;
        }
        for n in 0..N {
            c[n] = if leave[n] | any(&rare[n]) { exact(&b[n], &c[n]) } else { running[n] };
        }
    }
}

#[inline(always)]
fn any<const L: usize>(lanes: &[u32; L]) -> bool {
    lanes.iter().fold(0, |x, &y| x | y) != 0
}

/// One block of every row: the new codes. Rows that need the rule itself are marked in `rare`. The first argument is F and the
/// exponent of a zero.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "operands, types and constants of one block")]
fn add_block<L: Lane, const M: usize>(
    (fraction, zero): (i32, i32),
    accumulator: Accumulator,
    a_value: &[[L; M]],
    a_exponent: &[[i32; M]],
    b_value: &[L],
    b_exponent: &[i32],
    c: &[u32; M],
    rare: &mut [u32; M],
) -> [u32; M] {
    let mut c_exponent = [0i32; M];
    for m in 0..M {
        c_exponent[m] = accumulator_exponent(accumulator, zero, c[m]);
    }
    // Several partial maxima and sums, all exact, shorten the dependency chains. They are separate variables: with an
    // array, the compiler would vectorize over it instead of over the rows.
    let (mut p, mut q, mut r, mut s) = ([ZERO; M], [ZERO; M], [ZERO; M], [ZERO; M]);
    let (a_fours, a_rest) = a_exponent.as_chunks::<4>();
    let (b_fours, b_rest) = b_exponent.as_chunks::<4>();
    for (rows, y) in a_fours.iter().zip(b_fours) {
        // Opaque to the compiler, which would otherwise vectorize over k and gather.
        let rows = std::hint::black_box(rows);
        for m in 0..M {
            p[m] = p[m].max(rows[0][m] + y[0]);
        }
        for m in 0..M {
            q[m] = q[m].max(rows[1][m] + y[1]);
        }
        for m in 0..M {
            r[m] = r[m].max(rows[2][m] + y[2]);
        }
        for m in 0..M {
            s[m] = s[m].max(rows[3][m] + y[3]);
        }
    }
    for (rows, &y) in a_rest.iter().zip(b_rest) {
        for m in 0..M {
            p[m] = p[m].max(rows[m] + y);
        }
    }
    let mut largest = [0i32; M];
    for m in 0..M {
        largest[m] = p[m].max(q[m]).max(r[m].max(s[m])).max(c_exponent[m]);
    }
    // Below the exponent of zero, a zero term would decide, and this path does not distinguish zero terms.
    let mut emax = [0i32; M];
    let mut scale = [L::default(); M];
    let mut sum = [L::default(); M];
    for m in 0..M {
        rare[m] |= u32::from(largest[m] < zero);
        emax[m] = largest[m].max(zero);
        scale[m] = L::scale(fraction, emax[m]);
        sum[m] = L::start(accumulator, c[m], c_exponent[m], fraction, emax[m]);
    }
    let mut other = [L::default(); M];
    let (a_pairs, a_rest) = a_value.as_chunks::<2>();
    let (b_pairs, b_rest) = b_value.as_chunks::<2>();
    for (rows, y) in a_pairs.iter().zip(b_pairs) {
        for m in 0..M {
            sum[m] = sum[m].plus(rows[0][m].term(y[0], scale[m]));
        }
        for m in 0..M {
            other[m] = other[m].plus(rows[1][m].term(y[1], scale[m]));
        }
    }
    for (rows, &y) in a_rest.iter().zip(b_rest) {
        for m in 0..M {
            sum[m] = sum[m].plus(rows[m].term(y, scale[m]));
        }
    }
    let mut result = [0u32; M];
    for m in 0..M {
        let (code, corner) = sum[m].plus(other[m]).finish(accumulator, fraction, emax[m]);
        result[m] = code;
        rare[m] |= u32::from(corner);
    }
    result
}

/// A column of outputs by the rule itself.
#[cold]
#[inline(never)]
fn by_rule<T: Copy + Into<u32>, const M: usize, const K: usize>(
    rule: &Rule,
    elements: (Element, Element),
    accumulator: Accumulator,
    a: &[[T; M]; K],
    b: &[T; K],
    c: &[u32; M],
) -> [u32; M] {
    let column: [u32; K] = std::array::from_fn(|k| b[k].into());
    std::array::from_fn(|m| {
        let row: [u32; K] = std::array::from_fn(|k| a[k][m].into());
        dot(rule, elements, accumulator, &row, &column, c[m])
    })
}

/// f32 lanes for 8-bit operands with F = 13: a product has 8 significant bits, a term is below 2^15, a sum of 33 below 2^21.
pub(super) type Single = f32;
/// f64 lanes for the others: a product has at most 22 significant bits, a term is below 2^27, a sum of 33 below 2^33.
pub(super) type Double = f64;

impl Lane for Single {
    #[inline(always)]
    fn of(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn term(self, other: Self, scale: Self) -> Self {
        (self * other * scale).trunc()
    }

    #[inline(always)]
    fn scale(fraction: i32, emax: i32) -> Self {
        debug_assert_eq!(fraction, 13, "f32 has no room for more");
        // Far below the exponent of any product all products are zero, and any power works.
        Self::from_bits(((127 + 13 - emax.max(-60)) as u32) << 23)
    }

    #[inline(always)]
    fn start(accumulator: Accumulator, code: u32, exponent: i32, _fraction: i32, emax: i32) -> Self {
        let (significand, negative, below) = match accumulator {
            Accumulator::F32 => {
                let hidden = u32::from(code & 0x7f80_0000 != 0) << 23;
                ((code & 0x007f_ffff) | hidden, code >> 31 != 0, 10)
            }
            Accumulator::F16 => {
                let hidden = u32::from(code & 0x7c00 != 0) << 13;
                (((code & 0x03ff) << 3) | hidden, code & 0x8000 != 0, 0)
            }
        };
        let shift = (below + emax - exponent).clamp(0, 31) as u32;
        let magnitude = (significand >> shift) as i32;
        (if negative { -magnitude } else { magnitude }) as Self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn finish(self, accumulator: Accumulator, _fraction: i32, emax: i32) -> (u32, bool) {
        let zero = self == 0.0;
        match accumulator {
            Accumulator::F32 => {
                // Toward zero to 13 fraction bits, then the exponent moves by that of the quantum.
                let kept = self.to_bits() & 0xffff_fc00;
                let field = (kept >> 23 & 0xff) as i32 + emax - 13;
                let code = kept.wrapping_add(((emax - 13) as u32) << 23);
                (if zero { 0 } else { code }, !zero & !(1..=254).contains(&field))
            }
            Accumulator::F16 => {
                let quantum = Self::from_bits(((127 + emax - 13) as u32) << 23);
                let code = narrow_f32(F16, (self * quantum).to_bits(), Rounding::Rn);
                (if code & 0x7fff == 0 { 0 } else { code }, code & 0x7fff == 0x7c00)
            }
        }
    }
}

impl Lane for Double {
    #[inline(always)]
    fn of(value: f32) -> Self {
        Self::from(value)
    }

    #[inline(always)]
    fn term(self, other: Self, scale: Self) -> Self {
        (self * other * scale).trunc()
    }

    #[inline(always)]
    fn scale(fraction: i32, emax: i32) -> Self {
        Self::from_bits((i64::from(1023 + fraction - emax) as u64) << 52)
    }

    #[inline(always)]
    fn start(accumulator: Accumulator, code: u32, _exponent: i32, fraction: i32, emax: i32) -> Self {
        let bits = match accumulator {
            Accumulator::F32 => code,
            Accumulator::F16 => cvt_f32_f16(code as u16),
        };
        (Self::from(f32::from_bits(bits)) * Self::scale(fraction, emax)).trunc()
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn finish(self, accumulator: Accumulator, fraction: i32, emax: i32) -> (u32, bool) {
        let quantum = Self::from_bits((i64::from(1023 + emax - fraction) as u64) << 52);
        let exact = self * quantum;
        let zero = self == 0.0;
        match accumulator {
            Accumulator::F32 => {
                // Toward zero to 23 fraction bits; the conversion is then exact unless it is subnormal or overflows.
                let kept = Self::from_bits(exact.to_bits() & !0x1fff_ffff);
                let corner =
                    (kept.abs() < Self::from(f32::MIN_POSITIVE)) | (kept.abs() > Self::from(f32::MAX));
                (if zero { 0 } else { (kept as f32).to_bits() }, !zero & corner)
            }
            Accumulator::F16 => {
                let code = narrow_f64(F16, exact.to_bits(), Rounding::Rn) as u32;
                (if code & 0x7fff == 0 { 0 } else { code }, code & 0x7fff == 0x7c00)
            }
        }
    }
}
