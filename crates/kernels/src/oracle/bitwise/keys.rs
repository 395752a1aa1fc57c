//! The keys and values of a head with their scales, in the blocks that a core multiplies.

use super::product::{Block, Core, ROWS, SIDE, Tall};
use super::{Format, Problem};
use crate::problem::Granularity;
use crate::tensor::Quantized;

/// The keys and values of one head.
pub(super) struct Keys<K, V> {
    /// The sequence and the head.
    pub place: (usize, usize),
    /// Blocks of 32 keys, each divided into blocks of 32 elements: `[key / 32][element / 32]`; columns are
    /// keys.
    k: Vec<Block<K>>,
    /// As `k`, but columns are elements.
    v: Vec<Block<V>>,
    /// Blocks of 32 elements in a row.
    across: usize,
    /// Keys per tile.
    tile: usize,
    /// One scale per key, padded to whole tiles.
    k_scales: Vec<f32>,
    /// Whether each key has a scale of its own.
    pub own_scales: bool,
    /// The scale of the output at the end.
    pub v_scale: f32,
    /// The scales of each tile of values, if scales differ inside a head.
    tiles: Vec<TileScales>,
}

/// Scales of a tile of values.
pub(super) struct TileScales {
    /// The scale of the tile's contribution.
    pub whole: f32,
    /// The scale of each value divided by `whole`.
    pub ratios: Vec<f32>,
}

/// Converts elements of a stored row to the form that a core reads.
struct Reader<C: Core> {
    core: C,
    table: Vec<C::Code>,
    scale: Option<u32>,
}

impl<C: Core> Reader<C> {
    fn new(core: C) -> Reader<C> {
        Reader { core, table: Vec::new(), scale: None }
    }

    /// The element for each of the 256 codes of a row.
    fn table(&mut self, operand: &Quantized, batch: usize, head: usize, row: usize) -> &[C::Code] {
        let scale = if operand.format.folds_scale() { operand.scale_of(batch, head, row) } else { 1.0 };
        if self.scale != Some(scale.to_bits()) {
            self.scale = Some(scale.to_bits());
            self.table = (0..=u8::MAX).map(|code| self.core.element(operand.format, code, scale)).collect();
        }
        &self.table
    }

    /// The elements of a row.
    fn row<'r>(
        &'r mut self,
        operand: &'r Quantized,
        batch: usize,
        head: usize,
        row: usize,
    ) -> impl Iterator<Item = C::Code> + 'r {
        let codes = operand.row(batch, head, row);
        let table = self.table(operand, batch, head, row);
        codes.iter().map(|&code| table.get(usize::from(code)).copied().unwrap_or_default())
    }
}

/// Rows of Q, given as heads and rows, as a core reads them.
pub(super) fn queries<C: Core>(
    core: C,
    q: &Quantized,
    batch: usize,
    places: impl Iterator<Item = (usize, usize)>,
) -> Vec<Tall<C::Code>> {
    let mut reader = Reader::new(core);
    let mut blocks = vec![[[C::Code::default(); ROWS]; SIDE]; q.rows.dim / SIDE];
    for (lane, (head, row)) in places.take(ROWS).enumerate() {
        for (to, code) in blocks.as_flattened_mut().iter_mut().zip(reader.row(q, batch, head, row)) {
            to[lane] = code;
        }
    }
    blocks
}

impl<K: Copy + Default, V: Copy + Default> Keys<K, V> {
    /// The keys and values of a sequence and head.
    pub(super) fn new<S: Core<Code = K>, W: Core<Code = V>>(
        problem: &Problem<'_>,
        tile: usize,
        cores: (S, W),
        place: (usize, usize),
    ) -> Keys<K, V> {
        let (batch, head) = place;
        let length = problem.k.rows.length(batch);
        let across = problem.shape.dim / SIDE;
        let padded = length.next_multiple_of(tile);

        let mut reader = Reader::new(cores.0);
        let mut k = vec![[[K::default(); SIDE]; SIDE]; padded / SIDE * across];
        for key in 0..length {
            let blocks = &mut k[key / SIDE * across..][..across];
            for (d, code) in reader.row(problem.k, batch, head, key).enumerate() {
                blocks[d / SIDE][key % SIDE][d % SIDE] = code;
            }
        }
        let mut reader = Reader::new(cores.1);
        let mut v = vec![[[V::default(); SIDE]; SIDE]; padded / SIDE * across];
        for key in 0..length {
            let blocks = &mut v[key / SIDE * across..][..across];
            let columns = blocks.as_flattened_mut().iter_mut();
            for (column, code) in columns.zip(reader.row(problem.v, batch, head, key)) {
                column[key % SIDE] = code;
            }
        }

        let mut k_scales: Vec<f32> = (0..length).map(|key| problem.k.factor(batch, head, key)).collect();
        k_scales.resize(padded, 0.0);
        let within_head = matches!(problem.v.granularity, Granularity::Block | Granularity::Row);
        let (v_scale, tiles) = if within_head && !problem.v.format.folds_scale() {
            let scales: Vec<f32> = (0..length).map(|key| problem.v.scale_of(batch, head, key)).collect();
            let by_row = problem.v.granularity == Granularity::Row;
            (1.0, scales.chunks(tile).map(|scales| TileScales::new(scales, by_row, tile)).collect())
        } else if length > 0 {
            (problem.v.factor(batch, head, 0), Vec::new())
        } else {
            (1.0, Vec::new())
        };
        let own_scales = problem.k.granularity == Granularity::Row;
        Keys { place, k, v, across, tile, k_scales, own_scales, v_scale, tiles }
    }

    /// Keys `32 · group` to `32 · group + 31`, one block for each 32 elements.
    pub(super) fn keys(&self, group: usize) -> &[Block<K>] {
        self.k.get(group * self.across..(group + 1) * self.across).unwrap_or_default()
    }

    /// Their values.
    pub(super) fn values(&self, group: usize) -> &[Block<V>] {
        self.v.get(group * self.across..(group + 1) * self.across).unwrap_or_default()
    }

    /// Scales of the keys of a tile.
    pub(super) fn k_scales(&self, tile: usize) -> &[f32] {
        self.k_scales.get(tile * self.tile..(tile + 1) * self.tile).unwrap_or_default()
    }

    /// Scales of the values of a tile, if scales differ inside a head.
    pub(super) fn v_scales(&self, tile: usize) -> Option<&TileScales> {
        self.tiles.get(tile)
    }
}

impl TileScales {
    fn new(scales: &[f32], by_row: bool, tile: usize) -> TileScales {
        if by_row {
            let whole = scales.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut ratios: Vec<f32> = scales.iter().map(|scale| scale / whole).collect();
            ratios.resize(tile, 0.0);
            TileScales { whole, ratios }
        } else {
            TileScales { whole: scales.first().copied().unwrap_or(1.0), ratios: vec![1.0; tile] }
        }
    }
}

impl Quantized {
    /// The scale of a row that [`Core::element`] did not fold into the elements.
    pub(super) fn factor(&self, batch: usize, head: usize, row: usize) -> f32 {
        if self.format.folds_scale() { 1.0 } else { self.scale_of(batch, head, row) }
    }
}

impl Format {
    /// Whether the scale is folded into the elements that a core reads.
    pub(super) fn folds_scale(self) -> bool {
        self == Format::Linear8
    }
}
