//! The attention problem: sizes, masks, memory layouts and scales.

use std::fmt;
use std::ops::Range;

/// Rows that share a scale under [`Granularity::Block`]; equals the kernels' tile, so that a tile has one scale.
pub const BLOCK_ROWS: usize = 64;

/// Sizes of a batch of attention heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and values; divides `heads`. Query head `h` reads key head `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Elements of a row.
    pub dim: usize,
    /// For each sequence of the batch, its number of queries and keys.
    pub sequences: Vec<Lengths>,
}

/// Rows of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Rows of Q and O.
    pub queries: usize,
    /// Rows of K and V.
    pub keys: usize,
}

/// Why a shape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// No sequence, no head, or rows without an element.
    Empty,
    /// The number of query heads is not a multiple of the number of key heads.
    Heads {
        /// Of the queries.
        heads: usize,
        /// Of the keys and values.
        kv_heads: usize,
    },
    /// A tensor has [`Shape::LIMIT`] rows or more over all heads and sequences, each padded to the longest.
    Rows,
    /// A sequence has [`Shape::LIMIT`] queries, keys and keys of one tile or more together.
    Length,
    /// A tensor has more elements than memory can hold.
    Elements,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Empty => {
                f.write_str("expected at least one sequence, one head and one element per row")
            }
            ShapeError::Heads { heads, kv_heads } => {
                write!(f, "{heads} query heads cannot share {kv_heads} key heads evenly")
            }
            ShapeError::Rows => f.write_str("a tensor has 2^31 rows or more over all heads and sequences"),
            ShapeError::Length => f.write_str("a sequence has 2^31 queries and keys or more"),
            ShapeError::Elements => f.write_str("a tensor has more elements than memory can hold"),
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Exclusive upper bound of rows: kernels count rows, their scales and their log-sum-exp in 32 bits, add
    /// the queries and keys of a sequence, step one tile beyond the last key, and shift a row's index by 31
    /// if it has no scale of its own.
    pub const LIMIT: usize = 1 << 31;

    /// Checks that kernels and oracles support the shape: only sequences may be empty, heads are shared
    /// evenly, and no size computed from it overflows.
    pub fn check(&self) -> Result<(), ShapeError> {
        let Shape { heads, kv_heads, dim, .. } = *self;
        if self.sequences.is_empty() || heads == 0 || kv_heads == 0 || dim == 0 {
            return Err(ShapeError::Empty);
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(ShapeError::Heads { heads, kv_heads });
        }
        let longest = self.max_queries().max(self.max_keys()).max(1);
        let rows = longest.checked_mul(heads).and_then(|rows| rows.checked_mul(self.batch()));
        let Some(rows) = rows.filter(|rows| *rows < Shape::LIMIT) else { return Err(ShapeError::Rows) };
        let fits = |sequence: &Lengths| {
            let all = sequence.queries.saturating_add(sequence.keys).saturating_add(BLOCK_ROWS);
            all < Shape::LIMIT
        };
        if !self.sequences.iter().all(fits) {
            return Err(ShapeError::Length);
        }
        // The widest elements are f64, several for each of Q, K and V.
        let elements = rows.checked_mul(dim).and_then(|elements| elements.checked_mul(64));
        if elements.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(ShapeError::Elements);
        }
        Ok(())
    }

    /// `batch` sequences of `rows` queries and `rows` keys, with equal numbers of key heads and query heads.
    pub fn equal(batch: usize, heads: usize, rows: usize, dim: usize) -> Shape {
        let lengths = Lengths { queries: rows, keys: rows };
        Shape { heads, kv_heads: heads, dim, sequences: vec![lengths; batch] }
    }

    /// Sequences of equal lengths from six numbers, as in [`crate::dispatch::SERVING`]: sequences, query heads, key
    /// heads, queries, keys, elements of a row.
    pub fn of([batch, heads, kv_heads, queries, keys, dim]: [usize; 6]) -> Shape {
        Shape { heads, kv_heads, dim, sequences: vec![Lengths { queries, keys }; batch] }
    }

    /// The same heads with other sequences.
    #[must_use]
    pub fn with(self, sequences: Vec<Lengths>) -> Shape {
        Shape { sequences, ..self }
    }

    /// Sequences.
    pub fn batch(&self) -> usize {
        self.sequences.len()
    }

    /// Query heads that share a key head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// The number of queries of the longest sequence.
    pub fn max_queries(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.queries).max().unwrap_or(0)
    }

    /// The number of keys of the longest sequence.
    pub fn max_keys(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.keys).max().unwrap_or(0)
    }

    /// Whether all sequences have equal lengths.
    pub fn is_equal(&self) -> bool {
        self.sequences.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// Rows of Q and O.
    pub fn query_rows(&self, layout: Layout) -> Rows {
        Rows::new(self.sequences.iter().map(|s| s.queries), self.heads, self.dim, layout)
    }

    /// Rows of K and V.
    pub fn key_rows(&self, layout: Layout) -> Rows {
        Rows::new(self.sequences.iter().map(|s| s.keys), self.kv_heads, self.dim, layout)
    }
}

impl fmt::Display for Shape {
    /// `B2 H8 S256 D64`; variations: `B1 H8/2 S1x1000 D128`, `B3 H8 varlen D64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "B{} H{}", self.batch(), self.heads)?;
        if self.kv_heads != self.heads {
            write!(f, "/{}", self.kv_heads)?;
        }
        match self.sequences.first() {
            Some(first) if self.is_equal() && first.queries == first.keys => write!(f, " S{}", first.keys)?,
            Some(first) if self.is_equal() => write!(f, " S{}x{}", first.queries, first.keys)?,
            _ => f.write_str(" varlen")?,
        }
        write!(f, " D{}", self.dim)
    }
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// All keys of its sequence.
    #[default]
    Full,
    /// Query `i` sees keys up to `i + keys - queries`: the last query sees all keys. With more queries than
    /// keys, the first queries see none; their output is 0 and their log-sum-exp -∞.
    Causal,
}

impl Mask {
    /// How many keys query `row` sees, from the first on.
    pub fn visible(self, lengths: Lengths, row: usize) -> usize {
        match self {
            Mask::Full => lengths.keys,
            // All keys, minus one for each query after it.
            Mask::Causal => {
                lengths.keys.saturating_sub(lengths.queries.saturating_sub(row.saturating_add(1)))
            }
        }
    }
}

/// How far around its own place a query sees keys. The place of query `i` is key `i + keys - queries`, as with
/// [`Mask::Causal`], which allows no key after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Keys before its place; `None`: all.
    pub left: Option<usize>,
    /// Keys after its place; `None`: all that the mask allows.
    pub right: Option<usize>,
}

impl Window {
    /// A limit on the keys before a query's place only: the sliding window of language models, with
    /// [`Mask::Causal`].
    pub fn left(keys: usize) -> Window {
        Window { left: Some(keys), right: None }
    }

    /// The keys that query `row` sees.
    pub fn visible(self, mask: Mask, lengths: Lengths, row: usize) -> Range<usize> {
        // The place of the query is the key before this number of the last keys, plus one for itself.
        let after = lengths.queries.saturating_sub(row.saturating_add(1));
        let seen = mask.visible(lengths, row);
        let end = self
            .right
            .map_or(seen, |right| seen.min(lengths.keys.saturating_add(right).saturating_sub(after)));
        let before = |left: usize| after.saturating_add(left).saturating_add(1);
        let start = self.left.map_or(0, |left| lengths.keys.saturating_sub(before(left)));
        start.min(end)..end
    }
}

/// The order of the axes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Batch, head, row, element.
    #[default]
    Bhsd,
    /// Batch, row, head, element; required for sequences of different lengths, which are packed one after
    /// another.
    Bshd,
}

/// The location of each row of a tensor.
#[derive(Clone, Debug)]
pub struct Rows {
    starts: Vec<usize>,
    /// Heads.
    pub heads: usize,
    /// Elements of a row.
    pub dim: usize,
    /// The order of the axes.
    pub layout: Layout,
}

impl Rows {
    fn new(lengths: impl Iterator<Item = usize>, heads: usize, dim: usize, layout: Layout) -> Rows {
        let mut starts = vec![0];
        let mut total = 0;
        for length in lengths {
            total = usize::saturating_add(total, length);
            starts.push(total);
        }
        Rows { starts, heads, dim, layout }
    }

    /// Elements of the tensor.
    pub fn elements(&self) -> usize {
        self.starts.last().copied().unwrap_or(0).saturating_mul(self.heads).saturating_mul(self.dim)
    }

    /// Sequences.
    pub fn batch(&self) -> usize {
        self.starts.len() - 1
    }

    /// Rows of a sequence.
    pub fn length(&self, batch: usize) -> usize {
        self.starts[batch + 1] - self.starts[batch]
    }

    /// The number of rows of the longest sequence.
    pub fn longest(&self) -> usize {
        (0..self.batch()).map(|batch| self.length(batch)).max().unwrap_or(0)
    }

    /// The number of rows before each sequence, followed by the total: `cu_seqlens` in FlashAttention.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The index of a row's first element.
    pub fn offset(&self, batch: usize, head: usize, row: usize) -> usize {
        let rows = match self.layout {
            Layout::Bhsd => self.starts[batch] * self.heads + head * self.length(batch) + row,
            Layout::Bshd => (self.starts[batch] + row) * self.heads + head,
        };
        rows * self.dim
    }
}

/// Which elements share a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// All elements of a tensor.
    #[default]
    Tensor,
    /// A head of a sequence.
    Head,
    /// [`BLOCK_ROWS`] rows of a head.
    Block,
    /// A row.
    Row,
}

impl Granularity {
    /// All granularities.
    pub const ALL: [Granularity; 4] =
        [Granularity::Tensor, Granularity::Head, Granularity::Block, Granularity::Row];

    /// Scales per head; they are stored as `[batch][head][per_head]`, shorter sequences padded. 0: one scale
    /// for the tensor.
    pub fn per_head(self, rows: &Rows) -> usize {
        match self {
            Granularity::Tensor => 0,
            Granularity::Head => 1,
            Granularity::Block => rows.longest().div_ceil(BLOCK_ROWS),
            Granularity::Row => rows.longest(),
        }
    }

    /// Scales of a tensor.
    pub fn count(self, rows: &Rows) -> usize {
        rows.batch().saturating_mul(rows.heads).saturating_mul(self.per_head(rows)).max(1)
    }

    /// The index of a row's scale.
    pub fn index(self, rows: &Rows, batch: usize, head: usize, row: usize) -> usize {
        let within = match self {
            Granularity::Tensor | Granularity::Head => 0,
            Granularity::Block => row / BLOCK_ROWS,
            Granularity::Row => row,
        };
        (batch * rows.heads + head) * self.per_head(rows) + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_query_sees_as_many_keys_as_written_here() {
        // Queries, keys, and the number of keys that each query sees.
        let table: [(usize, usize, &[usize]); 8] = [
            (1, 1, &[1]),
            (1, 5, &[5]),
            (4, 4, &[1, 2, 3, 4]),
            (3, 5, &[3, 4, 5]),
            (5, 3, &[0, 0, 1, 2, 3]),
            (4, 1, &[0, 0, 0, 1]),
            (2, 0, &[0, 0]),
            (2, 130, &[129, 130]),
        ];
        for (queries, keys, seen) in table {
            let lengths = Lengths { queries, keys };
            for (row, seen) in seen.iter().enumerate() {
                assert_eq!(Mask::Causal.visible(lengths, row), *seen, "row {row} of {queries} x {keys}");
                assert_eq!(Mask::Full.visible(lengths, row), keys);
            }
        }
    }

    #[test]
    fn a_window_shows_the_keys_written_here() {
        // Queries, keys, left, right, and the keys that each query sees.
        type Row = (usize, usize, Option<usize>, Option<usize>, &'static [(usize, usize)]);
        let table: [Row; 6] = [
            (4, 4, Some(1), None, &[(0, 4), (0, 4), (1, 4), (2, 4)]),
            (4, 4, Some(1), Some(0), &[(0, 1), (0, 2), (1, 3), (2, 4)]),
            (4, 4, None, Some(1), &[(0, 2), (0, 3), (0, 4), (0, 4)]),
            (2, 5, Some(2), Some(0), &[(1, 4), (2, 5)]),
            (5, 2, Some(1), Some(1), &[(0, 0), (0, 0), (0, 1), (0, 2), (0, 2)]),
            (2, 0, Some(1), Some(1), &[(0, 0), (0, 0)]),
        ];
        for (queries, keys, left, right, seen) in table {
            let lengths = Lengths { queries, keys };
            for (row, (start, end)) in seen.iter().enumerate() {
                let window = Window { left, right };
                let case = format!("row {row} of {queries} x {keys}, {window:?}");
                assert_eq!(window.visible(Mask::Full, lengths, row), *start..*end, "{case}");
                let causal = window.visible(Mask::Causal, lengths, row);
                let end = (*end).min(Mask::Causal.visible(lengths, row));
                assert_eq!(causal, (*start).min(end)..end, "{case}");
                let none = Window { left: Some(usize::MAX), right: Some(usize::MAX) };
                assert_eq!(none.visible(Mask::Full, lengths, row), 0..keys);
            }
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let shape = |heads, kv_heads, dim, queries, keys| Shape {
            heads,
            kv_heads,
            dim,
            sequences: vec![Lengths { queries, keys }],
        };
        let most = (1usize << 31) - 1;
        for (fits, expected) in [
            (shape(4, 2, 64, 1, 0), Ok(())),
            (shape(4, 2, 64, 0, 1), Ok(())),
            (shape(1, 1, 64, 1, most - 65), Ok(())),
            (shape(1, 1, 64, 2, most - 65), Err(ShapeError::Length)),
            (shape(1, 1, 64, most, 1), Err(ShapeError::Length)),
            (shape(1, 1, 64, most + 1, 1), Err(ShapeError::Rows)),
            (shape(2, 1, 64, 1, 1 << 30), Err(ShapeError::Rows)),
            (shape(2, 1, 64, 1, (1 << 30) - 1), Ok(())),
            (shape(1 << 31, 1, 64, 0, 0), Err(ShapeError::Rows)),
            (shape(usize::MAX, usize::MAX, 64, 2, 2), Err(ShapeError::Rows)),
            (shape(1, 1, 64, usize::MAX, usize::MAX), Err(ShapeError::Rows)),
            (shape(1, 1, usize::MAX, 1, 1), Err(ShapeError::Elements)),
            (shape(5, 2, 64, 1, 1), Err(ShapeError::Heads { heads: 5, kv_heads: 2 })),
            (shape(0, 1, 64, 1, 1), Err(ShapeError::Empty)),
            (shape(1, 0, 64, 1, 1), Err(ShapeError::Empty)),
            (shape(1, 1, 0, 1, 1), Err(ShapeError::Empty)),
            (Shape::equal(0, 1, 1, 64), Err(ShapeError::Empty)),
        ] {
            assert_eq!(fits.check(), expected, "{fits}");
        }
        // Size functions do not panic on a rejected shape.
        let absurd = shape(usize::MAX, usize::MAX, usize::MAX, usize::MAX, usize::MAX);
        assert_eq!(absurd.query_rows(Layout::Bhsd).elements(), usize::MAX);
        assert_eq!(Granularity::Row.count(&absurd.key_rows(Layout::Bshd)), usize::MAX);
    }
}
