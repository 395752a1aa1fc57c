//! How a rung's blocks are cut: rows, threads, and what tells the source so.
//!
//! A warp takes a unit of 16 query rows, and its tensor core is the one of its sub-core; so what decides is how many units the
//! fullest sub-core gets. Fitted blocks have as many units as make that least, and then as few blocks as there can be, for each
//! of them reads all keys. Where every sub-core has work enough, blocks stay as they are: then it is better to have several.

use warpproof_model::Device;

use crate::ladder::{Cut, Rung};
use crate::plan::{FEW_ROWS, Request, WARP};

/// Rows of a warp, and keys whose sum is made inside the tensor core.
const UNIT: usize = 16;
const TILE: usize = 64;
/// Sub-cores of a multiprocessor.
const SUB_CORES: usize = 4;
/// The most units of a block, so that Q, K and V of 128 elements fit 48 KB.
const MOST_UNITS: usize = 7;
/// The most units with pairs: 384 threads have 168 registers each, and one unit more would spill.
const MOST_PAIRS: usize = 6;
/// Units of a sub-core from which on it is busy without pairs.
const BUSY: usize = 4;
/// The blocks of a multiprocessor that pairs are best in: the barriers of one do not hold up the other, and a third reads all
/// keys once more.
const PAIRED_BLOCKS: usize = 2;

/// How blocks are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Query rows of a block.
    pub rows: usize,
    /// Its threads.
    pub threads: u32,
    /// Whether two warps share the keys of a row.
    pub paired: bool,
    /// Macros and their values.
    pub defines: Vec<(&'static str, usize)>,
}

impl Fit {
    /// The blocks of a rung for a request. `packed`: few rows, and the keys are spread over blocks.
    pub(crate) fn new(request: &Request, rung: &Rung, device: &Device, packed: bool) -> Fit {
        let fixed = |rows: usize, threads: u32, defines| Fit { rows, threads, paired: false, defines };
        let sms = usize::try_from(device.multiprocessors.value).unwrap_or(1).max(1);
        match rung.cut {
            Cut::Fixed if packed => fixed(FEW_ROWS, WARP, vec![("QUERY_TILE", FEW_ROWS)]),
            Cut::Fixed => fixed(rung.rows, rung.threads, Vec::new()),
            _ if packed => streamed(1, 1),
            Cut::Streamed => streamed(rung.rows / UNIT, 1),
            Cut::Fitted => streamed(few_or_usual(request, rung, sms), 1),
            Cut::Paired => {
                pairs(request, sms).unwrap_or_else(|| streamed(few_or_usual(request, rung, sms), 1))
            }
        }
    }
}

/// A block of so many units with one warp or two for each.
fn streamed(units: usize, warps: usize) -> Fit {
    let threads = u32::try_from(units * warps).unwrap_or(u32::MAX).saturating_mul(WARP);
    let mut defines = vec![("ROW_WARPS", units)];
    if warps > 1 {
        defines.push(("PAIRED", 1));
    }
    Fit { rows: units * UNIT, threads, paired: warps > 1, defines }
}

/// A choice, and what it means for the fullest multiprocessor.
struct Load {
    /// Units of a block.
    units: usize,
    /// Warps of the fullest sub-core.
    warps: usize,
    /// Blocks of the fullest multiprocessor.
    blocks: usize,
}

fn loads(request: &Request, sms: usize, warps: usize) -> impl Iterator<Item = Load> {
    let all = request.shape.max_queries().div_ceil(UNIT).max(1);
    let heads = request.shape.heads.saturating_mul(request.shape.batch());
    (1..=MOST_UNITS).map(move |units| {
        let blocks = heads.saturating_mul(all.div_ceil(units)).div_ceil(sms);
        let warps = blocks.saturating_mul(units * warps).div_ceil(SUB_CORES);
        Load { units, warps, blocks }
    })
}

/// The fewest warps on the fullest sub-core, then the fewest blocks, then the fewest units.
fn fitted(request: &Request, sms: usize) -> Load {
    let least = loads(request, sms, 1).min_by_key(|load| (load.warps, load.blocks, load.units));
    least.unwrap_or(Load { units: MOST_UNITS, warps: 1, blocks: 1 })
}

/// The fitted units, or the rung's own where there are rows enough to keep every sub-core busy.
fn few_or_usual(request: &Request, rung: &Rung, sms: usize) -> usize {
    let load = fitted(request, sms);
    if load.warps < BUSY { load.units } else { rung.rows / UNIT }
}

/// Pairs, where sub-cores would idle without, and there are keys for both; rows of 128 elements leave no room for them.
fn pairs(request: &Request, sms: usize) -> Option<Fit> {
    let (tiles, dim) = (request.shape.max_keys().div_ceil(TILE), request.shape.dim);
    if tiles < 2 || dim != 64 || fitted(request, sms).warps >= BUSY {
        return None;
    }
    let near = |load: &Load| (load.warps, load.blocks.abs_diff(PAIRED_BLOCKS), load.units);
    let few = loads(request, sms, 2).filter(|load| load.units <= MOST_PAIRS);
    few.min_by_key(near).map(|load| streamed(load.units, 2))
}
