//! How a rung's blocks are cut: rows, threads, and what tells the source so.
//!
//! A warp takes a unit of 16 query rows, and its tensor core is the one of its sub-core; so what decides is how many units the
//! fullest sub-core gets. Fitted blocks have as many units as make that least, and then as few blocks as there can be, for each
//! of them reads all keys. Where every sub-core has work enough, blocks stay as they are: then it is better to have several.
//!
//! Dense blocks are for the latter: they have one of few forms, each made for the registers of a multiprocessor, and that form is
//! taken which leaves the fullest multiprocessor the fewest rows. Where that is still uneven, blocks take equal runs of steps.

use warpproof_model::Device;

use crate::ladder::{Cut, Rung};
use crate::plan::{FEW_ROWS, Request, WARP};
use crate::problem::{Granularity, Mask};
use crate::straddle::Straddle;

/// Rows of a warp, and keys whose sum is made inside the tensor core.
const UNIT: usize = 16;
const TILE: usize = 64;
/// Keys of a step of dense blocks.
const DENSE_TILE: usize = 32;
/// Steps of a block that it takes as long as to put a straddled tile together: as predicted.
const SEAM_STEPS: usize = 3;
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
    /// Keys of a step.
    pub keys: usize,
    /// Whether two warps share the keys of a row.
    pub paired: bool,
    /// Whether blocks go through the heads first and through the tiles of rows from the last on: with a mask, the heaviest come first.
    pub heavy_first: bool,
    /// How steps are given to blocks, where a block has not one tile of rows.
    pub straddle: Option<Straddle>,
    /// What is compiled.
    pub source: &'static str,
    /// Macros and their values.
    pub defines: Vec<(&'static str, usize)>,
}

impl Fit {
    /// The blocks of a rung for a request. `packed`: few rows, and the keys are spread over blocks.
    pub(crate) fn new(request: &Request, rung: &Rung, device: &Device, packed: bool) -> Fit {
        let sms = multiprocessors(device);
        let fixed = |rows: usize, threads: u32, defines| Fit {
            rows,
            threads,
            keys: rung.keys,
            paired: false,
            heavy_first: false,
            straddle: None,
            source: rung.source,
            defines,
        };
        let usual = || streamed(rung, few_or_usual(request, rung, sms), 1);
        match rung.cut {
            Cut::Fixed if packed => fixed(FEW_ROWS, WARP, vec![("QUERY_TILE", FEW_ROWS)]),
            Cut::Fixed => fixed(rung.rows, rung.threads, Vec::new()),
            _ if packed => streamed(rung, 1, 1),
            Cut::Streamed => streamed(rung, rung.rows / UNIT, 1),
            Cut::Fitted => usual(),
            Cut::Paired => pairs(request, rung, sms).unwrap_or_else(usual),
            Cut::Dense => dense(request, sms).or_else(|| pairs(request, rung, sms)).unwrap_or_else(usual),
            Cut::Straddled => even(request, sms)
                .or_else(|| dense(request, sms))
                .or_else(|| pairs(request, rung, sms))
                .unwrap_or_else(usual),
        }
    }

    /// Equal runs of steps, wherever there are any.
    pub(crate) fn straddled(request: &Request, device: &Device) -> Option<Fit> {
        runs(request, multiprocessors(device)).map(|(form, straddle)| form.straddled(straddle))
    }
}

fn multiprocessors(device: &Device) -> usize {
    usize::try_from(device.multiprocessors.value).unwrap_or(1).max(1)
}

/// A block of so many units with one warp or two for each.
fn streamed(rung: &Rung, units: usize, warps: usize) -> Fit {
    let threads = u32::try_from(units * warps).unwrap_or(u32::MAX).saturating_mul(WARP);
    let mut defines = vec![("ROW_WARPS", units)];
    if warps > 1 {
        defines.push(("PAIRED", 1));
    }
    let (rows, keys, source) = (units * UNIT, rung.keys, rung.source);
    Fit { rows, threads, keys, paired: warps > 1, heavy_first: false, straddle: None, source, defines }
}

/// A form of dense blocks.
struct Form {
    /// Elements of a row.
    dim: usize,
    warps: usize,
    /// Of a warp.
    units: usize,
    /// Of a multiprocessor: as many as there are registers for without a spill.
    blocks: usize,
    /// Whether lengths may differ, and whether there may be a mask, without a spill.
    varlen: bool,
    causal: bool,
    /// Whether runs of steps may be taken of it, without a spill.
    straddles: bool,
    /// What a unit costs, in hundredths of the cheapest form's: the time predicted for long sequences that fill the device.
    cost: usize,
}

const FORMS: &[Form] = &[
    Form { dim: 64, warps: 4, units: 2, blocks: 3, varlen: false, causal: true, straddles: true, cost: 100 },
    Form { dim: 64, warps: 4, units: 1, blocks: 5, varlen: true, causal: true, straddles: false, cost: 103 },
    Form {
        dim: 128,
        warps: 8,
        units: 1,
        blocks: 2,
        varlen: true,
        causal: false,
        straddles: false,
        cost: 100,
    },
    Form { dim: 128, warps: 4, units: 1, blocks: 4, varlen: true, causal: true, straddles: false, cost: 103 },
];

impl Form {
    /// What the fullest multiprocessor has to do: units of 16 rows, each with all keys, times their cost.
    fn load(&self, request: &Request, sms: usize) -> usize {
        let all = request.shape.max_queries().div_ceil(UNIT).max(1);
        let heads = request.shape.heads.saturating_mul(request.shape.batch());
        let units = self.warps * self.units;
        let blocks = heads.saturating_mul(all.div_ceil(units)).div_ceil(sms);
        blocks.saturating_mul(units * self.cost)
    }

    /// Query rows of a block.
    fn rows(&self) -> usize {
        self.warps * self.units * UNIT
    }

    /// Its blocks with runs of steps.
    fn straddled(&self, straddle: Straddle) -> Fit {
        Fit { straddle: Some(straddle), ..self.fit("n9.cu") }
    }

    /// Its blocks.
    fn fit(&self, source: &'static str) -> Fit {
        Fit {
            rows: self.rows(),
            threads: u32::try_from(self.warps).unwrap_or(u32::MAX).saturating_mul(WARP),
            keys: DENSE_TILE,
            paired: false,
            heavy_first: false,
            straddle: None,
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

/// The form that leaves the fullest multiprocessor the least to do, where rows are many; scales finer than heads have no place.
fn dense_form(request: &Request, sms: usize) -> Option<&'static Form> {
    if has_fine_scales(request) || fitted(request, sms).warps < BUSY {
        return None;
    }
    let (causal, varlen) = (request.mask == Mask::Causal, !request.shape.is_equal());
    let fits =
        |form: &&Form| form.dim == request.shape.dim && (form.varlen || !varlen) && (form.causal || !causal);
    FORMS.iter().filter(fits).min_by_key(|form| form.load(request, sms))
}

fn dense(request: &Request, sms: usize) -> Option<Fit> {
    let heavy_first = request.mask == Mask::Causal;
    dense_form(request, sms).map(|form| Fit { heavy_first, ..form.fit("n8.cu") })
}

/// Equal runs of steps, where rows are many and dense blocks would be uneven by more than it costs to put straddled tiles together.
fn even(request: &Request, sms: usize) -> Option<Fit> {
    let dense = dense_form(request, sms)?;
    let (form, straddle) = runs(request, sms)?;
    let blocks = straddle.blocks.div_ceil(sms);
    let steps = straddle.longest().saturating_add(SEAM_STEPS).saturating_mul(blocks);
    let load = steps.saturating_mul(form.warps * form.units * form.cost);
    let uneven = load < dense.load(request, sms).saturating_mul(straddle.steps);
    uneven.then(|| form.straddled(straddle))
}

/// The form that takes runs of steps, and these. Masks, tails of keys, negative scales and scales finer than heads are left to other
/// blocks: they would take registers of the loop.
fn runs(request: &Request, sms: usize) -> Option<(&'static Form, Straddle)> {
    let shape = &request.shape;
    let plain = shape.is_equal()
        && request.mask == Mask::Full
        && shape.max_keys().is_multiple_of(DENSE_TILE)
        && request.softmax_scale() >= 0.0
        && !has_fine_scales(request);
    let form = FORMS.iter().find(|form| plain && form.dim == shape.dim && form.straddles)?;
    let straddle = Straddle::new(shape, form.rows(), DENSE_TILE, sms.saturating_mul(form.blocks))?;
    Some((form, straddle))
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
fn pairs(request: &Request, rung: &Rung, sms: usize) -> Option<Fit> {
    let (tiles, dim) = (request.shape.max_keys().div_ceil(TILE), request.shape.dim);
    if tiles < 2 || dim != 64 || fitted(request, sms).warps >= BUSY {
        return None;
    }
    let near = |load: &Load| (load.warps, load.blocks.abs_diff(PAIRED_BLOCKS), load.units);
    let few = loads(request, sms, 2).filter(|load| load.units <= MOST_PAIRS);
    few.min_by_key(near).map(|load| streamed(rung, load.units, 2))
}
