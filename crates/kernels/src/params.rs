//! The kernels' parameter struct, `cuda/params.cuh`, as bytes.

use crate::paged::scales_of_page;
use crate::problem::{BLOCK_ROWS, Granularity, Layout, Rows};

/// One of Q, K and V on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// Address of the codes.
    pub codes: u64,
    /// Address of the scales.
    pub scales: u64,
    /// The locations of rows.
    pub strides: Strides,
    /// Scales per sequence.
    pub scale_batch: u32,
    /// Scales per head.
    pub scale_head: u32,
    /// Log₂ of the number of rows that share a scale.
    pub scale_shift: u32,
}

/// Elements from one sequence, head and row to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// From sequence to sequence; 0 where the lengths differ.
    pub batch: u64,
    /// From head to head.
    pub head: u64,
    /// From row to row.
    pub row: u64,
}

impl Strides {
    /// The strides of a tensor. `packed`: sequences may differ in length and start at the rows given by
    /// `starts`.
    pub fn of(rows: &Rows, packed: bool) -> Strides {
        let [length, heads, dim] = [rows.longest(), rows.heads, rows.dim].map(wide);
        let across = heads.saturating_mul(dim);
        let batch = if packed { 0 } else { length.saturating_mul(across) };
        match rows.layout {
            Layout::Bhsd => Strides { batch, head: length.saturating_mul(dim), row: dim },
            Layout::Bshd => Strides { batch, head: dim, row: across },
        }
    }
}

impl Operand {
    /// The operand without its addresses.
    pub fn of(rows: &Rows, granularity: Granularity, packed: bool) -> Operand {
        let per_head = granularity.per_head(rows);
        let shift = match granularity {
            Granularity::Tensor | Granularity::Head => 31,
            Granularity::Block => BLOCK_ROWS.trailing_zeros(),
            Granularity::Row => 0,
        };
        Operand {
            strides: Strides::of(rows, packed),
            scale_batch: narrow(rows.heads.saturating_mul(per_head)),
            scale_head: narrow(per_head),
            scale_shift: shift,
            ..Operand::default()
        }
    }

    /// The operand in a pool of pages, without its addresses ([`crate::paged`]).
    pub fn paged(rows: &Rows, granularity: Granularity, page_size: usize) -> Operand {
        let [page, heads, dim] = [page_size, rows.heads, rows.dim].map(wide);
        let across = heads.saturating_mul(dim);
        let strides = Strides { batch: page.saturating_mul(across), head: dim, row: across };
        let whole = Operand { strides, ..Operand::of(rows, granularity, false) };
        match scales_of_page(granularity, page_size) {
            Some(count) => Operand {
                scale_batch: narrow(rows.heads.saturating_mul(count)),
                scale_head: narrow(count),
                ..whole
            },
            None => whole,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        words64(out, &[self.codes, self.scales, self.strides.batch, self.strides.head, self.strides.row]);
        words32(out, &[self.scale_batch, self.scale_head, self.scale_shift, 0]);
    }
}

/// The parameters of a launch; the fields are those of `cuda/params.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "documented in cuda/params.cuh")]
pub struct Params {
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    pub o: u64,
    pub o_strides: Strides,
    pub lse: u64,
    pub query_starts: u64,
    pub key_starts: u64,
    pub partial: u64,
    pub heads: u32,
    pub group: u32,
    pub queries: u32,
    pub keys: u32,
    pub lse_rows: u32,
    pub tiles_per_split: u32,
    pub batches: u32,
    pub splits: u32,
    pub factor: f32,
    pub epoch: u32,
    pub window_left: u32,
    pub window_right: u32,
    pub cap: f32,
    pub sinks: u64,
    pub slopes: u64,
    pub pages: u64,
    pub max_pages: u32,
    pub page_shift: u32,
}

impl Params {
    /// Bytes of the struct.
    pub const BYTES: usize = 320;

    /// The bytes in the layout that the kernels read.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Params::BYTES);
        for operand in [&self.q, &self.k, &self.v] {
            operand.put(&mut out);
        }
        words64(&mut out, &[self.o, self.o_strides.batch, self.o_strides.head, self.o_strides.row]);
        words64(&mut out, &[self.lse, self.query_starts, self.key_starts, self.partial]);
        words32(&mut out, &[self.heads, self.group, self.queries, self.keys]);
        words32(&mut out, &[self.lse_rows, self.tiles_per_split, self.batches, self.splits]);
        words32(&mut out, &[self.factor.to_bits(), self.epoch]);
        words32(&mut out, &[self.window_left, self.window_right, self.cap.to_bits(), 0]);
        words64(&mut out, &[self.sinks, self.slopes, self.pages]);
        words32(&mut out, &[self.max_pages, self.page_shift]);
        out
    }
}

pub(crate) fn words64(out: &mut Vec<u8>, values: &[u64]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub(crate) fn words32(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// [`crate::problem::Shape::check`] keeps sizes below 2³¹.
pub(crate) fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Shape;

    #[test]
    fn the_struct_has_the_size_the_kernels_read() {
        assert_eq!(Params::default().bytes().len(), Params::BYTES);
    }

    #[test]
    fn strides_lead_to_the_rows_own_places() {
        let shape = Shape { kv_heads: 2, ..Shape::equal(3, 4, 5, 64) };
        for layout in [Layout::Bhsd, Layout::Bshd] {
            let rows = shape.key_rows(layout);
            let strides = Strides::of(&rows, false);
            for (batch, head, row) in [(0, 0, 0), (2, 1, 4), (1, 0, 3)] {
                let at = wide(batch) * strides.batch + wide(head) * strides.head + wide(row) * strides.row;
                assert_eq!(at, wide(rows.offset(batch, head, row)));
            }
        }
    }

    #[test]
    fn scales_are_found_where_they_lie() {
        let rows = Shape::equal(2, 3, 130, 64).query_rows(Layout::Bhsd);
        for granularity in Granularity::ALL {
            let operand = Operand::of(&rows, granularity, false);
            for (batch, head, row) in [(0u32, 0u32, 0u32), (1, 2, 129), (0, 1, 64)] {
                let at =
                    batch * operand.scale_batch + head * operand.scale_head + (row >> operand.scale_shift);
                let [b, h, r] = [batch, head, row].map(|n| usize::try_from(n).unwrap());
                assert_eq!(usize::try_from(at).unwrap(), granularity.index(&rows, b, h, r));
            }
        }
    }
}
