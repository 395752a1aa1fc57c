//! Which lane holds which element of a matrix: the fragment layouts of `mma` and `wmma`.
//!
//! A lane is row `g` and column `t` of an 8 × 4 arrangement (`lane = 4 g + t`). With `P` elements in a 32-bit register and
//! chunks of `4 P` columns:
//!
//! ```text
//!             A (16 × K)                      B (K × 8)                  C, D (16 × 8)
//!        t=0    t=1    t=2    t=3         g=0 ……………… g=7            t=0   t=1   t=2   t=3
//!   g  ┌──────┬──────┬──────┬──────┐   t ┌───────────────┐      g  ┌─────┬─────┬─────┬─────┐
//!  0-7 │ r0: P elements each, k →  │   ↓ │ r0: P elements │     0-7 │ c0 c1 in each lane     │
//!      ├───────────────────────────┤     │ each, k ↓      │         ├─────────────────────────┤
//! 8-15 │ r1                        │     ├───────────────┤    8-15 │ c2 c3                   │
//!      └───────────────────────────┘     │ r1: next chunk │         └─────────────────────────┘
//!        r2, r3: the next chunk of k     └───────────────┘
//! ```
//!
//! A matrix of 8 rows has no r1/r3; one of 32 rows is two of 16; one of 16 or 32 columns is two or four of 8. The manual
//! defines this layout for `mma`; it leaves the layout of `wmma` open, which uses the same one here.

use crate::machine::{LANES, Row, Warp, at};

/// How elements lie in a 32-bit register.
pub(super) trait Code: Copy + Default + 'static {
    /// Elements per register.
    const PER: usize;
    /// One of them.
    fn take(word: u32, index: usize) -> Self;
    /// All elements in order, into an output slice.
    fn spread(word: u32, out: &mut [Self]);
}

macro_rules! code {
    ($name:ty, $per:literal, |$word:ident, $index:ident| $take:expr) => {
        impl Code for $name {
            const PER: usize = $per;
            #[inline(always)]
            #[expect(
                clippy::as_conversions,
                clippy::allow_attributes,
                reason = "one element's bits of a register"
            )]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                unused_variables,
                reason = "one element's bits of a register"
            )]
            fn take($word: u32, $index: usize) -> Self {
                $take
            }

            #[inline(always)]
            fn spread(word: u32, out: &mut [Self]) {
                for (index, out) in out.iter_mut().enumerate().take(Self::PER) {
                    *out = Self::take(word, index);
                }
            }
        }
    };
}

code!(u8, 4, |word, index| (word >> (8 * index)) as u8);
code!(u16, 2, |word, index| (word >> (16 * index)) as u16);
code!(u32, 1, |word, index| word as u32);

/// Four bits, kept in the low half of a byte.
#[derive(Clone, Copy, Default)]
pub(super) struct Nibble(pub(super) u8);
code!(Nibble, 8, |word, index| Nibble((word >> (4 * index)) as u8 & 15));

/// Registers of an A fragment.
pub(super) const fn a_registers<T: Code>(m: usize, k: usize) -> usize {
    m / 8 * (k / (4 * T::PER))
}

/// Registers of a B fragment.
pub(super) const fn b_registers<T: Code>(n: usize, k: usize) -> usize {
    n / 8 * (k / (4 * T::PER))
}

/// The row and the first column of what lane and register of an A fragment hold.
pub(super) fn place_a<T: Code>(m: usize, k: usize, register: usize, lane: usize) -> (usize, usize) {
    place_a_of(T::PER, m, k, register, lane)
}

/// The row and the first column of what lane and register of an A fragment hold, for this number of elements per register.
#[inline]
pub fn place_a_of(per: usize, m: usize, k: usize, register: usize, lane: usize) -> (usize, usize) {
    let halves = m.min(16) / 8;
    let chunks = k / (4 * per);
    let (tile, rest) = (register / (halves * chunks), register % (halves * chunks));
    let (chunk, half) = (rest / halves, rest % halves);
    (tile * 16 + half * 8 + lane / 4, chunk * 4 * per + lane % 4 * per)
}

/// The first row (k) and the column of what lane and register of a B fragment hold.
pub(super) fn place_b<T: Code>(k: usize, register: usize, lane: usize) -> (usize, usize) {
    place_b_of(T::PER, k, register, lane)
}

/// The first row (k) and the column of what lane and register of a B fragment hold, for this number of elements per register.
#[inline]
pub fn place_b_of(per: usize, k: usize, register: usize, lane: usize) -> (usize, usize) {
    let chunks = k / (4 * per);
    let (tile, chunk) = (register / chunks, register % chunks);
    (chunk * 4 * per + lane % 4 * per, tile * 8 + lane / 4)
}

/// The row and column of element `i` of a lane's accumulators.
#[inline]
pub fn place_c(m: usize, n: usize, i: usize, lane: usize) -> (usize, usize) {
    let halves = m.min(16) / 8;
    let (pair, e) = (i / 2, i % 2);
    let (tile, half) = (pair / halves, pair % halves);
    let (down, across) = (tile / (n / 8), tile % (n / 8));
    (down * 16 + half * 8 + lane / 4, across * 8 + lane % 4 * 2 + e)
}

/// The rows of a register list.
pub(super) fn rows<'w>(w: &'w Warp<'_, '_>, registers: &'w [u32]) -> impl Iterator<Item = &'w Row<u32>> {
    registers.iter().map(|row| &w.state.regs.w32[at(*row)])
}

/// The words of the lanes' column `t` in registers of eight rows each: one word for every row of the matrix. A column is
/// assembled as a whole, because reading a partially written one would stall (no store forwarding).
#[inline(always)]
fn column<'w, const M: usize>(t: usize, register: impl Fn(usize) -> &'w Row<u32>) -> [u32; M] {
    let mut words = [0; M];
    for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (word, lanes) in words.iter_mut().zip(register(half).0.as_chunks::<4>().0) {
            *word = lanes[t];
        }
    }
    words
}

/// An A fragment as `a[k][row]`.
#[inline(always)]
pub(super) fn gather_a<T: Code, const M: usize, const K: usize>(
    w: &Warp<'_, '_>,
    registers: &[u32],
) -> [[T; M]; K] {
    let mut a = [[T::default(); M]; K];
    let (halves, chunks) = (M.min(16) / 8, K / (4 * T::PER));
    for chunk in 0..chunks {
        for t in 0..4 {
            let words: [u32; M] = column(t, |half| {
                let register = half / halves * (halves * chunks) + chunk * halves + half % halves;
                &w.state.regs.w32[at(registers[register])]
            });
            for e in 0..T::PER {
                for (out, word) in a[(4 * chunk + t) * T::PER + e].iter_mut().zip(&words) {
                    *out = T::take(*word, e);
                }
            }
        }
    }
    a
}

/// A B fragment as `b[column][k]`.
#[inline(always)]
pub(super) fn gather_b<T: Code, const N: usize, const K: usize>(
    w: &Warp<'_, '_>,
    registers: &[u32],
) -> [[T; K]; N] {
    let mut b = [[T::default(); K]; N];
    for (register, row) in rows(w, registers).enumerate().take(b_registers::<T>(N, K)) {
        let (first_k, first_column) = place_b::<T>(K, register, 0);
        for g in 0..8 {
            let column = &mut b[first_column + g][first_k..first_k + 4 * T::PER];
            for (t, out) in column.chunks_exact_mut(T::PER).enumerate() {
                T::spread(row.0[4 * g + t], out);
            }
        }
    }
    b
}

/// Accumulators as `c[column][row]`; packed ones hold two f16 in a register.
#[inline(always)]
pub(super) fn gather_c<const M: usize, const N: usize>(
    w: &Warp<'_, '_>,
    registers: &[u32],
    packed: bool,
) -> [[u32; M]; N] {
    let mut c = [[0; M]; N];
    let halves = M.min(16) / 8;
    for (n, out) in c.iter_mut().enumerate() {
        let (across, t, e) = (n / 8, n % 8 / 2, n % 2);
        let words: [u32; M] = column(t, |half| {
            let tile = half / halves * (N / 8) + across;
            let i = 2 * (tile * halves + half % halves) + e;
            &w.state.regs.w32[at(registers[if packed { i / 2 } else { i }])]
        });
        for (out, word) in out.iter_mut().zip(&words) {
            *out = if packed { word >> (16 * e) & 0xffff } else { *word };
        }
    }
    c
}

/// Accumulators back into registers.
#[inline(always)]
pub(super) fn scatter_c<const M: usize, const N: usize>(
    w: &mut Warp<'_, '_>,
    registers: &[u32],
    packed: bool,
    c: &[[u32; M]; N],
) {
    let step = if packed { 2 } else { 1 };
    for first in (0..M * N / LANES).step_by(step) {
        // Eight rows of the lanes' four columns.
        let mut columns = [[0u32; 8]; 4];
        for i in first..first + step {
            let (first_row, first_column) = place_c(M, N, i, 0);
            for (t, out) in columns.iter_mut().enumerate() {
                for (out, word) in out.iter_mut().zip(&c[first_column + 2 * t][first_row..first_row + 8]) {
                    *out |= if packed { (word & 0xffff) << (16 * (i % 2)) } else { *word };
                }
            }
        }
        let mut value = Row([0u32; LANES]);
        for (g, lanes) in value.0.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *lanes = [columns[0][g], columns[1][g], columns[2][g], columns[3][g]];
        }
        super::map::merge(&mut w.state.regs.w32[at(registers[first / step])], &value, w.exec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of every fragment is held exactly once.
    #[test]
    fn layouts_cover_the_matrix_once() {
        fn cover<T: Code>(m: usize, n: usize, k: usize) {
            let mut a = vec![0; m * k];
            let mut b = vec![0; k * n];
            let mut c = vec![0; m * n];
            for lane in 0..32 {
                for r in 0..a_registers::<T>(m, k) {
                    let (row, column) = place_a::<T>(m, k, r, lane);
                    (0..T::PER).for_each(|e| a[row * k + column + e] += 1);
                }
                for r in 0..b_registers::<T>(n, k) {
                    let (row, column) = place_b::<T>(k, r, lane);
                    (0..T::PER).for_each(|e| b[(row + e) * n + column] += 1);
                }
                for i in 0..m * n / 32 {
                    let (row, column) = place_c(m, n, i, lane);
                    c[row * n + column] += 1;
                }
            }
            assert!(a.iter().chain(&b).chain(&c).all(|count| *count == 1), "m{m}n{n}k{k}");
        }
        cover::<u16>(16, 8, 16);
        cover::<u16>(16, 8, 8);
        cover::<u16>(16, 16, 16);
        cover::<u16>(32, 8, 16);
        cover::<u16>(8, 32, 16);
        cover::<u8>(16, 8, 32);
        cover::<u8>(8, 8, 16);
        cover::<u32>(16, 8, 4);
        cover::<u32>(16, 16, 8);
        cover::<Nibble>(16, 8, 64);
    }

    /// Spot checks against the manual's formulas.
    #[test]
    fn layouts_are_the_manuals() {
        assert_eq!(place_a::<u16>(16, 16, 1, 5), (9, 2));
        assert_eq!(place_a::<u16>(16, 16, 2, 5), (1, 10));
        assert_eq!(place_b::<u8>(32, 1, 6), (24, 1));
        assert_eq!(place_c(16, 8, 3, 7), (9, 7));
    }
}
