//! Integer, single-bit and f64 matrices.

use crate::float::fma_f64;
use crate::round::Rounding;

/// The type of an integer operand's elements. A 4-bit element is the low half of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntElement {
    /// `.s8`
    S8,
    /// `.u8`
    U8,
    /// `.s4`
    S4,
    /// `.u4`
    U4,
}

#[inline(always)]
fn value(element: IntElement, code: u8) -> i32 {
    match element {
        IntElement::S8 => i32::from(code as i8),
        IntElement::U8 => i32::from(code),
        IntElement::S4 => i32::from((code << 4) as i8 >> 4),
        IntElement::U4 => i32::from(code & 15),
    }
}

/// 8-bit and 4-bit integers to s32. The sum wraps, or is clamped once if `satfinite`.
#[inline(always)]
pub fn integer<const M: usize, const N: usize, const K: usize>(
    elements: (IntElement, IntElement),
    satfinite: bool,
    a: &[[u8; M]; K],
    b: &[[u8; K]; N],
    c: &mut [[u32; M]; N],
) {
    // 256 products of at most 65025 stay below 2^24, where f32 is exact. The compiler must not reorder float sums, so it
    // vectorizes over the rows.
    let mut wide = [[0f32; M]; K];
    for k in 0..K {
        for m in 0..M {
            wide[k][m] = value(elements.0, a[k][m]) as f32;
        }
    }
    for (column, c) in b.iter().zip(c) {
        let mut total = *c;
        for (rows, column) in wide.chunks(256).zip(column.chunks(256)) {
            // Two sums break the dependency between consecutive additions.
            let (mut sum, mut other) = ([0f32; M], [0f32; M]);
            let (row_pairs, row_rest) = rows.as_chunks::<2>();
            let (code_pairs, code_rest) = column.as_chunks::<2>();
            for (rows, codes) in row_pairs.iter().zip(code_pairs) {
                let (x, y) = (value(elements.1, codes[0]) as f32, value(elements.1, codes[1]) as f32);
                for m in 0..M {
                    sum[m] += rows[0][m] * x;
                }
                for m in 0..M {
                    other[m] += rows[1][m] * y;
                }
            }
            for (rows, &code) in row_rest.iter().zip(code_rest) {
                let x = value(elements.1, code) as f32;
                for m in 0..M {
                    sum[m] += rows[m] * x;
                }
            }
            for m in 0..M {
                let (start, more) = (total[m] as i32, (sum[m] + other[m]) as i32);
                let next = if satfinite { start.saturating_add(more) } else { start.wrapping_add(more) };
                total[m] = next as u32;
            }
        }
        *c = total;
    }
}

/// How single-bit elements are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// `.xor.popc`
    Xor,
    /// `.and.popc`
    And,
}

/// Single bits, 32 to a word: W words for each row of A and column of B. The count of ones is added to c and wraps.
#[inline(always)]
pub fn bits<const M: usize, const N: usize, const W: usize>(
    op: BitOp,
    a: &[[u32; M]; W],
    b: &[[u32; W]; N],
    c: &mut [[u32; M]; N],
) {
    for (column, c) in b.iter().zip(c) {
        for (rows, &y) in a.iter().zip(column) {
            for m in 0..M {
                let word = match op {
                    BitOp::Xor => rows[m] ^ y,
                    BitOp::And => rows[m] & y,
                };
                c[m] = c[m].wrapping_add(word.count_ones());
            }
        }
    }
}

/// f64 to f64: a chain of fused multiply-adds in increasing k.
#[inline(always)]
pub fn f64<const M: usize, const N: usize, const K: usize>(
    rounding: Rounding,
    a: &[[u64; M]; K],
    b: &[[u64; K]; N],
    c: &mut [[u64; M]; N],
) {
    for (column, c) in b.iter().zip(c) {
        for (rows, &y) in a.iter().zip(column) {
            for m in 0..M {
                c[m] = fma_f64(rows[m], y, c[m], rounding);
            }
        }
    }
}
