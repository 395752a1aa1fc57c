//! A sparse A, of which half the elements are stored, each with its position in the row.
//!
//! For `mma` of Ampere and Ada and for `wgmma`: how `mma` of later generations splits the products into blocks is not
//! known. No hardware capture covers the arithmetic of sparse matrices; it is modeled. The model is the dense unit with a
//! selection of B's elements in front of it: a sparse instruction over K columns takes the cycles of a dense one over K /
//! 2, and has as many products. So a block of the [rule](super::rule) has as many *stored* elements as a dense block has
//! elements, in their order. Elements that are not stored take no part: their product is not a term of value zero, and an
//! infinity or NaN of B that no stored element of a row selects does not reach that row.

use super::rule::{Accumulator, Element, Rule, TensorCore, dot};
use super::vector::{Double, Lane, Single};

/// M rows of H stored elements, stored by column like other matrices.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<T, const M: usize, const H: usize> {
    /// The stored elements.
    pub values: [[T; M]; H],
    /// The column of each stored element in the whole matrix. Those of a block of the rule are within twice as many
    /// columns of the whole matrix as the block has, and no two of a row are the same.
    pub places: [[u8; M]; H],
}

impl<T: Copy + Default, const M: usize, const H: usize> Sparse<T, M, H> {
    /// The whole matrix, with zeros for the elements that are not stored.
    #[inline(always)]
    pub fn whole<const K: usize>(&self) -> [[T; M]; K] {
        let mut whole = [[T::default(); M]; K];
        for (values, places) in self.values.iter().zip(&self.places) {
            for m in 0..M {
                if let Some(column) = whole.get_mut(usize::from(places[m])) {
                    column[m] = values[m];
                }
            }
        }
        whole
    }
}

/// D = A·B + C, floating point. K is twice H.
#[inline(always)]
pub fn sparse<
    T: Copy + Default + Into<u32>,
    const M: usize,
    const N: usize,
    const H: usize,
    const K: usize,
>(
    core: TensorCore,
    elements: (Element, Element),
    accumulator: Accumulator,
    a: &Sparse<T, M, H>,
    b: &[[T; K]; N],
    c: &mut [[u32; M]; N],
) {
    let rule = Rule::of(core, elements.0, accumulator);
    // On the fast path a zero has the lowest possible exponent and does not count as a term, so the whole matrix gives
    // the same result.
    let (whole, block) = (a.whole::<K>(), 2 * rule.block);
    let exact = |column: &[T; K], c: &[u32; M]| by_rule(&rule, elements, accumulator, a, column, c);
    match elements.0 {
        Element::E4m3 | Element::E5m2 => {
            Single::by_blocks(&rule, elements, accumulator, block, &whole, b, c, exact);
        }
        Element::F16 | Element::Bf16 | Element::Tf32 | Element::E3m2 | Element::E2m3 | Element::E2m1 => {
            Double::by_blocks(&rule, elements, accumulator, block, &whole, b, c, exact);
        }
    }
}

/// A column of outputs by the rule itself, over the stored elements.
#[cold]
#[inline(never)]
fn by_rule<T: Copy + Default + Into<u32>, const M: usize, const H: usize, const K: usize>(
    rule: &Rule,
    elements: (Element, Element),
    accumulator: Accumulator,
    a: &Sparse<T, M, H>,
    b: &[T; K],
    c: &[u32; M],
) -> [u32; M] {
    std::array::from_fn(|m| {
        let row: [u32; H] = std::array::from_fn(|h| a.values[h][m].into());
        let selected: [u32; H] =
            std::array::from_fn(|h| b.get(usize::from(a.places[h][m])).copied().unwrap_or_default().into());
        dot(rule, elements, accumulator, &row, &selected, c[m])
    })
}
