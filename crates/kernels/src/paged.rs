//! Paged keys and values: rows of a sequence in pages of a pool, in any order.
//!
//! A pool has K or V as `[page][row of the page][head][element]`. A table has the pool's pages of each sequence,
//! `[batch][pages of the longest]`; K and V share it. Scales per block or row are `[page][head][…]`; scales per
//! tensor or head belong to the tensor or sequence, as without pages.

use crate::params::narrow;
use crate::problem::{BLOCK_ROWS, Granularity, Rows};
use crate::tensor::{Quantized, each_row};
use warpproof_num::random::SplitMix;

/// Supported page sizes, in keys.
pub const PAGE_SIZES: [usize; 3] = [64, 128, 256];

/// The pages of each sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTable {
    /// Keys of a page.
    pub page_size: usize,
    /// Pages of the pool.
    pub pages: usize,
    /// `[batch][pages of the longest sequence]`: a page's index in the pool; [`PageTable::NO_PAGE`] beyond the
    /// end of a sequence.
    pub entries: Vec<u32>,
    /// Entries per sequence.
    per_sequence: usize,
}

/// K or V in pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The codes.
    pub codes: Vec<u8>,
    /// The scales.
    pub scales: Vec<f32>,
}

impl PageTable {
    /// An entry beyond the end of a sequence.
    pub const NO_PAGE: u32 = u32::MAX;

    /// A table for the rows of K or V: pages in a pseudorandom order, in a pool of which some pages are
    /// unused.
    pub fn shuffled(rows: &Rows, page_size: usize, seed: u64) -> PageTable {
        let page_size = page_size.max(1);
        let pages_of = |batch: usize| rows.length(batch).div_ceil(page_size);
        let used: usize = (0..rows.batch()).map(pages_of).sum();
        let pages = used + used / 4 + 1;
        let mut free: Vec<u32> = (0..narrow(pages)).collect();
        let mut random = SplitMix(seed);
        let per_sequence = rows.longest().div_ceil(page_size);
        let mut entries = vec![PageTable::NO_PAGE; rows.batch() * per_sequence];
        for batch in 0..rows.batch() {
            for entry in entries.iter_mut().skip(batch * per_sequence).take(pages_of(batch)) {
                let left = u64::try_from(free.len()).unwrap_or(u64::MAX).max(1);
                let choice = usize::try_from(random.next() % left).unwrap_or(0);
                *entry = free.swap_remove(choice);
            }
        }
        PageTable { page_size, pages, entries, per_sequence }
    }

    /// The page of a key of a sequence.
    fn page(&self, batch: usize, key: usize) -> usize {
        let entry = self.entries.get(batch * self.per_sequence + key / self.page_size);
        entry.and_then(|page| usize::try_from(*page).ok()).unwrap_or(usize::MAX)
    }

    /// A tensor in a pool of this table. Codes that belong to no key are NaN in E4M3 and E5M2, and their scales
    /// are NaN: they are visible in an output that uses them.
    pub fn pool(&self, tensor: &Quantized) -> Pool {
        let Rows { heads, dim, .. } = tensor.rows;
        let mut codes = vec![0x7f; self.pages * self.page_size * heads * dim];
        let per_page = scales_of_page(tensor.granularity, self.page_size);
        let mut scales = match per_page {
            Some(count) => vec![f32::NAN; self.pages * heads * count],
            None => tensor.scales.clone(),
        };
        for (batch, head, key) in each_row(&tensor.rows) {
            let (page, row) = (self.page(batch, key), key % self.page_size);
            let at = ((page * self.page_size + row) * heads + head) * dim;
            codes[at..at + dim].copy_from_slice(tensor.row(batch, head, key));
            if let Some(count) = per_page {
                let shared = self.page_size / count;
                scales[(page * heads + head) * count + row / shared] = tensor.scale_of(batch, head, key);
            }
        }
        Pool { codes, scales }
    }
}

/// Scales per head of a page; `None` if a page has none of its own.
pub(crate) fn scales_of_page(granularity: Granularity, page_size: usize) -> Option<usize> {
    match granularity {
        Granularity::Tensor | Granularity::Head => None,
        Granularity::Block => Some(page_size / BLOCK_ROWS),
        Granularity::Row => Some(page_size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Distribution, Spec, generate};
    use crate::problem::{Layout, Lengths, Shape};

    #[test]
    fn every_row_is_in_a_page_of_its_own() {
        let lengths = [200, 1, 0, 64].map(|keys| Lengths { queries: 1, keys });
        let shape = Shape { heads: 4, kv_heads: 2, dim: 64, sequences: lengths.to_vec() };
        for (page_size, granularity) in
            [(64, Granularity::Row), (128, Granularity::Block), (64, Granularity::Head)]
        {
            let spec = Spec { k: granularity, key_layout: Layout::Bshd, ..Spec::default() };
            let k = generate(&shape, Distribution::Normal, 1, spec).k;
            let table = PageTable::shuffled(&k.rows, page_size, 5);
            let mut used: Vec<u32> =
                table.entries.iter().copied().filter(|page| *page != PageTable::NO_PAGE).collect();
            used.sort_unstable();
            let pages: usize = (0..4).map(|batch| k.rows.length(batch).div_ceil(page_size)).sum();
            assert_eq!(used.len(), pages);
            assert!(used.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(used.iter().all(|page| usize::try_from(*page).unwrap() < table.pages));
            let pool = table.pool(&k);
            for (batch, head, key) in each_row(&k.rows) {
                let row = table.page(batch, key) * page_size + key % page_size;
                assert_eq!(&pool.codes[(row * 2 + head) * 64..][..64], k.row(batch, head, key));
            }
            let present = pool.scales.iter().filter(|scale| !scale.is_nan()).count();
            let rows = 2 * (200 + 1 + 64);
            let expected = match granularity {
                Granularity::Row => rows,
                Granularity::Block => 2 * (4 + 1 + 1),
                _ => k.scales.len(),
            };
            assert_eq!(present, expected, "{granularity:?}");
        }
    }
}
