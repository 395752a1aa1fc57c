//! How many rows and threads a rung's blocks have, and the macros that configure its source.
//!
//! A warp takes a unit of 16 query rows and runs on the tensor core of its sub-core, so the time depends on
//! how many units the busiest sub-core gets. Fitted blocks have the number of units that minimizes this, and
//! then as few blocks as possible, since each block reads all keys. If every sub-core has enough work, blocks
//! keep the rung's usual size, because several blocks per multiprocessor are better then.
//!
//! Dense blocks are for the latter case: they come in a few forms, each designed for the register file of a
//! multiprocessor. The chosen form leaves the busiest multiprocessor the fewest rows. If that is still
//! uneven, blocks take equal runs of steps (stream-K).

use warpproof_model::Device;

use crate::ladder::{Cut, Rung};
use crate::plan::{FEW_ROWS, Request, WARP};
use crate::problem::{Granularity, Mask};
use crate::stream_k::StreamK;

/// Rows per warp, and keys that the tensor core sums internally.
const UNIT: usize = 16;
const TILE: usize = 64;
/// Keys per step of dense blocks.
const DENSE_TILE: usize = 32;
/// Time to merge a tile shared by two blocks, in steps of a block; predicted.
const SEAM_STEPS: usize = 3;
/// Sub-cores of a multiprocessor.
const SUB_CORES: usize = 4;
/// The longest rows for which tiles of 64 keys fit in registers and shared memory.
const MOST_ELEMENTS: usize = 128;
/// The maximum units per block, so that Q, K and V with rows of 128 elements fit in 48 KB.
const MOST_UNITS: usize = 7;
/// The maximum units per block with longer rows, for which K and V have tiles of 32 keys.
const MOST_LONG_UNITS: usize = 3;
/// The maximum units per block with pairs: 384 threads have 168 registers each, and one unit more would
/// spill.
const MOST_PAIRS: usize = 6;
/// Units per sub-core from which on it is busy without pairs.
const BUSY: usize = 4;
/// The best number of paired blocks per multiprocessor: the barriers of one block do not stall the other, and
/// a third block would read all keys once more.
const PAIRED_BLOCKS: usize = 2;

/// How work is distributed over blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Query rows per block.
    pub rows: usize,
    /// Threads per block.
    pub threads: u32,
    /// Keys per step.
    pub keys: usize,
    /// Whether two warps share the keys of a row.
    pub paired: bool,
    /// Whether the block index runs over heads first, and over tiles of rows from the last to the first: with
    /// a mask, the heaviest blocks start first.
    pub heavy_first: bool,
    /// How steps are distributed over blocks, if a block does not have exactly one tile of rows.
    pub stream_k: Option<StreamK>,
    /// The source file to compile.
    pub source: &'static str,
    /// Macros and their values.
    pub defines: Vec<(&'static str, usize)>,
}

impl Fit {
    /// The blocks of a rung for a request. `packed`: rows are few, and the keys are distributed over blocks.
    pub(crate) fn new(request: &Request, rung: &Rung, device: &Device, packed: bool) -> Fit {
        let sms = multiprocessors(device);
        let fixed = |rows: usize, threads: u32, defines| Fit {
            rows,
            threads,
            keys: key_tile(rung, request.shape.dim),
            paired: false,
            heavy_first: false,
            stream_k: None,
            source: rung.source,
            defines,
        };
        let dim = request.shape.dim;
        let streamed = |units: usize| streamed(rung, dim, units, 1);
        let usual = || streamed(few_or_usual(request, rung, sms));
        let long = long_rows(dim);
        match rung.cut {
            Cut::Fixed if packed => fixed(FEW_ROWS, WARP, [vec![("QUERY_TILE", FEW_ROWS)], long].concat()),
            Cut::Fixed => fixed(rung.rows, rung.threads, long),
            _ if packed => streamed(1),
            Cut::Streamed => streamed((rung.rows / UNIT).min(most_units(dim))),
            _ if request.needs_general() => usual(),
            Cut::Fitted => usual(),
            Cut::Paired => pairs(request, rung, sms).unwrap_or_else(usual),
            Cut::Dense => dense(request, sms).or_else(|| pairs(request, rung, sms)).unwrap_or_else(usual),
            Cut::StreamK => even(request, sms)
                .or_else(|| dense(request, sms))
                .or_else(|| pairs(request, rung, sms))
                .unwrap_or_else(usual),
        }
    }

    /// Equal runs of steps, whenever the request allows them.
    pub(crate) fn stream_k(request: &Request, device: &Device) -> Option<Fit> {
        runs(request, multiprocessors(device)).map(|(form, stream_k)| form.stream_k(stream_k))
    }
}

fn multiprocessors(device: &Device) -> usize {
    usize::try_from(device.multiprocessors.value).unwrap_or(1).max(1)
}

/// Keys per step of blocks that are not dense.
pub(crate) fn key_tile(rung: &Rung, dim: usize) -> usize {
    if dim > MOST_ELEMENTS { DENSE_TILE } else { rung.keys }
}

/// Whether blocks can share the keys of a row: with long rows and scales finer than per head, their sums would
/// spill.
pub(crate) fn can_split(request: &Request) -> bool {
    request.shape.dim <= MOST_ELEMENTS || !has_fine_scales(request)
}

/// The macros for rows that need smaller tiles.
fn long_rows(dim: usize) -> Vec<(&'static str, usize)> {
    if dim > MOST_ELEMENTS { vec![("KEY_TILE", DENSE_TILE)] } else { Vec::new() }
}

fn most_units(dim: usize) -> usize {
    if dim > MOST_ELEMENTS { MOST_LONG_UNITS } else { MOST_UNITS }
}

/// A block of `units` units with `warps` warps (one or two) per unit.
fn streamed(rung: &Rung, dim: usize, units: usize, warps: usize) -> Fit {
    let threads = u32::try_from(units * warps).unwrap_or(u32::MAX).saturating_mul(WARP);
    let mut defines = vec![("ROW_WARPS", units)];
    defines.extend(long_rows(dim));
    if warps > 1 {
        defines.push(("PAIRED", 1));
    }
    let (rows, keys, source) = (units * UNIT, key_tile(rung, dim), rung.source);
    Fit { rows, threads, keys, paired: warps > 1, heavy_first: false, stream_k: None, source, defines }
}

/// A form of dense blocks.
struct Form {
    /// Elements of a row.
    dim: usize,
    warps: usize,
    /// Units per warp.
    units: usize,
    /// Blocks per multiprocessor: as many as the register file holds without spilling.
    blocks: usize,
    /// Whether the form supports different lengths and masks without spilling.
    varlen: bool,
    causal: bool,
    /// Whether the form supports runs of steps without spilling.
    stream_k: bool,
    /// The cost of a unit, in hundredths of the cheapest form's: the predicted time for long sequences that
    /// fill the device.
    cost: usize,
}

const FORMS: &[Form] = &[
    Form { dim: 64, warps: 4, units: 2, blocks: 3, varlen: false, causal: true, stream_k: true, cost: 100 },
    Form { dim: 64, warps: 4, units: 1, blocks: 5, varlen: true, causal: true, stream_k: false, cost: 103 },
    Form { dim: 128, warps: 8, units: 1, blocks: 2, varlen: true, causal: false, stream_k: false, cost: 100 },
    Form { dim: 128, warps: 4, units: 1, blocks: 4, varlen: true, causal: true, stream_k: false, cost: 103 },
];

impl Form {
    /// The work of the busiest multiprocessor: units of 16 rows, each with all keys, times their cost.
    fn load(&self, request: &Request, sms: usize) -> usize {
        let all = request.shape.max_queries().div_ceil(UNIT).max(1);
        let heads = request.shape.heads.saturating_mul(request.shape.batch());
        let units = self.warps * self.units;
        let blocks = heads.saturating_mul(all.div_ceil(units)).div_ceil(sms);
        blocks.saturating_mul(units * self.cost)
    }

    /// Query rows per block.
    fn rows(&self) -> usize {
        self.warps * self.units * UNIT
    }

    /// The fit of this form with runs of steps.
    fn stream_k(&self, stream_k: StreamK) -> Fit {
        Fit { stream_k: Some(stream_k), ..self.fit("n9.cu") }
    }

    /// The fit of this form.
    fn fit(&self, source: &'static str) -> Fit {
        Fit {
            rows: self.rows(),
            threads: u32::try_from(self.warps).unwrap_or(u32::MAX).saturating_mul(WARP),
            keys: DENSE_TILE,
            paired: false,
            heavy_first: false,
            stream_k: None,
            source,
            defines: vec![
                ("ROW_WARPS", self.warps),
                ("UNITS", self.units),
                ("BLOCKS", self.blocks),
                ("KEY_TILE", DENSE_TILE),
            ],
        }
    }
}

fn has_fine_scales(request: &Request) -> bool {
    let fine = |granularity| matches!(granularity, Granularity::Block | Granularity::Row);
    [request.scales.q, request.scales.k, request.scales.v].into_iter().any(fine)
}

/// The form that leaves the busiest multiprocessor the least work, for many rows; scales finer than per head
/// are not supported.
fn dense_form(request: &Request, sms: usize) -> Option<&'static Form> {
    if has_fine_scales(request) || fitted(request, sms).warps < BUSY {
        return None;
    }
    let (causal, varlen) = (request.mask == Mask::Causal, request.varlen());
    let fits =
        |form: &&Form| form.dim == request.shape.dim && (form.varlen || !varlen) && (form.causal || !causal);
    FORMS.iter().filter(fits).min_by_key(|form| form.load(request, sms))
}

fn dense(request: &Request, sms: usize) -> Option<Fit> {
    let heavy_first = request.mask == Mask::Causal;
    dense_form(request, sms).map(|form| Fit { heavy_first, ..form.fit("n8.cu") })
}

/// Equal runs of steps, if rows are many and the imbalance of dense blocks costs more than merging shared
/// tiles.
fn even(request: &Request, sms: usize) -> Option<Fit> {
    let dense = dense_form(request, sms)?;
    let (form, stream_k) = runs(request, sms)?;
    let blocks = stream_k.blocks.div_ceil(sms);
    let steps = stream_k.longest().saturating_add(SEAM_STEPS).saturating_mul(blocks);
    let load = steps.saturating_mul(form.warps * form.units * form.cost);
    let uneven = load < dense.load(request, sms).saturating_mul(stream_k.steps);
    uneven.then(|| form.stream_k(stream_k))
}

/// The form that supports runs of steps, and the runs. Masks, partial tiles of keys, negative scales and
/// scales finer than per head would need registers in the main loop, so other blocks handle them.
fn runs(request: &Request, sms: usize) -> Option<(&'static Form, StreamK)> {
    let shape = &request.shape;
    let plain = !request.varlen()
        && !request.needs_general()
        && request.mask == Mask::Full
        && shape.max_keys().is_multiple_of(DENSE_TILE)
        && request.softmax_scale() >= 0.0
        && !has_fine_scales(request);
    let form = FORMS.iter().find(|form| plain && form.dim == shape.dim && form.stream_k)?;
    let stream_k = StreamK::new(shape, form.rows(), DENSE_TILE, sms.saturating_mul(form.blocks))?;
    Some((form, stream_k))
}

/// A choice of units, and the resulting load of the busiest multiprocessor.
struct Load {
    /// Units per block.
    units: usize,
    /// Warps of the busiest sub-core.
    warps: usize,
    /// Blocks of the busiest multiprocessor.
    blocks: usize,
}

fn loads(request: &Request, sms: usize, warps: usize) -> impl Iterator<Item = Load> {
    let all = request.shape.max_queries().div_ceil(UNIT).max(1);
    let heads = request.shape.heads.saturating_mul(request.shape.batch());
    (1..=most_units(request.shape.dim)).map(move |units| {
        let blocks = heads.saturating_mul(all.div_ceil(units)).div_ceil(sms);
        let warps = blocks.saturating_mul(units * warps).div_ceil(SUB_CORES);
        Load { units, warps, blocks }
    })
}

/// Minimizes the warps of the busiest sub-core, then the blocks, then the units.
fn fitted(request: &Request, sms: usize) -> Load {
    let least = loads(request, sms, 1).min_by_key(|load| (load.warps, load.blocks, load.units));
    least.unwrap_or(Load { units: most_units(request.shape.dim), warps: 1, blocks: 1 })
}

/// The fitted units, or the rung's own if there are enough rows to keep every sub-core busy.
fn few_or_usual(request: &Request, rung: &Rung, sms: usize) -> usize {
    let load = fitted(request, sms);
    if load.warps < BUSY { load.units } else { (rung.rows / UNIT).min(most_units(request.shape.dim)) }
}

/// Pairs, if sub-cores would be idle without them and both warps have keys; rows of more than 64 elements leave
/// no registers for pairs.
fn pairs(request: &Request, rung: &Rung, sms: usize) -> Option<Fit> {
    let (tiles, dim) = (request.shape.max_keys().div_ceil(TILE), request.shape.dim);
    if tiles < 2 || dim != 64 || fitted(request, sms).warps >= BUSY {
        return None;
    }
    let near = |load: &Load| (load.warps, load.blocks.abs_diff(PAIRED_BLOCKS), load.units);
    let few = loads(request, sms, 2).filter(|load| load.units <= MOST_PAIRS);
    few.min_by_key(near).map(|load| streamed(rung, dim, load.units, 2))
}
