//! Turns a request into launches: which variant, how it is compiled, which grid, and the work of each block.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use warpproof_model::Device;
use warpproof_toolchain::{CompileError, Source, Toolchain};

use crate::dispatch;
use crate::fit::{Fit, can_split, key_tile};
use crate::format::{Format, OutputFormat};
use crate::ladder::{self, Cut, Feature, LADDER, Rung};
use crate::oracle::bitwise::{Arithmetic, Parts};
use crate::paged::PAGE_SIZES;
use crate::params::{Operand, Params, Strides, narrow};
use crate::problem::{Granularity, Layout, Lengths, Mask, Shape, Window};
use crate::source;
use crate::stream_k::StreamK;
use warpproof_launch::Geometry;

/// A request for attention. [`Request::new`] sets the defaults.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Request {
    /// Sizes.
    pub shape: Shape,
    /// Which keys a query sees.
    pub mask: Mask,
    /// How far around its own place a query sees keys.
    pub window: Window,
    /// Format of Q, K and V.
    pub format: Format,
    /// Which elements share a scale.
    pub scales: Scales,
    /// Order of the axes of Q, K, V and O.
    pub layout: Layout,
    /// Format of O.
    pub output: OutputFormat,
    /// Also write the log-sum-exp of each row.
    pub lse: bool,
    /// Factor of the scores; `None`: 1/√D.
    pub softmax_scale: Option<f64>,
    /// Scores become `cap · tanh(score / cap)`; positive.
    pub softcap: Option<f64>,
    /// A logit for each head joins the sum of the softmax, without a value ([`crate::Inputs::sinks`]).
    pub sinks: bool,
    /// ALiBi: a slope of the head times the distance of key and query is subtracted from each score
    /// ([`crate::Inputs::slopes`]).
    pub alibi: bool,
    /// Keys per page, if K and V are in pages of a pool ([`crate::paged`]); `layout` is then that of Q and O.
    pub page_size: Option<usize>,
    /// The rung by id or name; `None`: the one with the least predicted time at the nearest shape
    /// ([`crate::dispatch`]).
    pub rung: Option<String>,
    /// Toggles that differ from the rung's own settings.
    pub toggles: Vec<(String, bool)>,
    /// Blocks over which the keys of a row are distributed.
    pub splits: Splits,
    /// The kernel reads the lengths of the sequences from device memory even if the shape's are equal, which are then the
    /// largest that may occur. Sequences of different lengths are always read from there.
    pub lengths_on_device: bool,
}

/// Granularity of each operand's scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operands")]
pub struct Scales {
    pub q: Granularity,
    pub k: Granularity,
    pub v: Granularity,
}

impl Scales {
    /// The same granularity for all operands.
    pub fn all(granularity: Granularity) -> Scales {
        Scales { q: granularity, k: granularity, v: granularity }
    }
}

/// Over how many blocks the keys of a row are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// As many as fill the device, if the rows alone do not fill a tile.
    #[default]
    Auto,
    /// One block; keys are not split.
    None,
    /// At most this number.
    Count(usize),
}

impl Request {
    /// E4M3 with a scale for each head, all keys visible.
    pub fn new(shape: Shape) -> Request {
        Request {
            shape,
            mask: Mask::Full,
            window: Window::default(),
            format: Format::E4m3,
            scales: Scales::all(Granularity::Head),
            layout: Layout::Bhsd,
            output: OutputFormat::F16,
            lse: false,
            softmax_scale: None,
            softcap: None,
            sinks: false,
            alibi: false,
            page_size: None,
            rung: None,
            toggles: Vec::new(),
            splits: Splits::Auto,
            lengths_on_device: false,
        }
    }

    /// Checks what does not depend on the device; of the rung's features only if the request names one.
    pub fn check(&self) -> Result<(), PlanError> {
        self.shape.check().map_err(|error| PlanError::Shape(error.to_string()))?;
        if self.shape.max_queries() == 0 {
            return Err(PlanError::Shape("no sequence has a query".to_owned()));
        }
        for (index, (name, _)) in self.toggles.iter().enumerate() {
            if self.toggles.iter().take(index).any(|(before, _)| before == name) {
                return Err(PlanError::Toggle(name.clone()));
            }
        }
        factors(self)?;
        if let Some(keys) = self.page_size.filter(|keys| !PAGE_SIZES.contains(keys)) {
            return Err(PlanError::PageSize(keys));
        }
        self.rung.as_deref().map_or(Ok(()), |name| named(name, self).map(|_| ()))
    }

    /// Whether the kernel reads the start of each sequence from device memory.
    pub fn varlen(&self) -> bool {
        self.lengths_on_device || !self.shape.is_equal()
    }

    /// The keys that query `row` of a sequence sees.
    pub fn visible(&self, lengths: Lengths, row: usize) -> Range<usize> {
        self.window.visible(self.mask, lengths, row)
    }

    /// Whether only the general kernel supports the request: rungs that would choose another keep it.
    pub(crate) fn needs_general(&self) -> bool {
        self.window != Window::default()
            || self.softcap.is_some()
            || self.sinks
            || self.alibi
            || self.page_size.is_some()
    }

    /// The factor of the scores.
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a row is short")]
    pub fn softmax_scale(&self) -> f64 {
        self.softmax_scale.unwrap_or_else(|| 1.0 / (self.shape.dim as f64).sqrt())
    }
}

/// How to compute a request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request.
    pub request: Request,
    /// The variant.
    pub rung: &'static Rung,
    /// How its blocks are cut.
    pub fit: Fit,
    /// The macros it is compiled with, `NAME=VALUE`.
    pub defines: Vec<String>,
    /// The architecture it is compiled for.
    pub arch: String,
    /// The launches, one after the other; all get the same parameters.
    pub steps: Vec<Step>,
    /// Bytes of scratch memory; see [`crate::attention::Workspace`].
    pub workspace: usize,
    /// Bytes at the start of the workspace in which blocks count each other.
    pub counters: usize,
    /// The parameters, without addresses.
    pub params: Params,
}

/// One launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel.
    pub kernel: &'static str,
    /// Its grid, block and dynamic shared memory.
    pub geometry: Geometry,
}

/// The work of a block of the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are sufficient")]
pub struct BlockWork {
    pub block: [u32; 3],
    pub batch: usize,
    /// The query head; with packed heads, the first of the group.
    pub head: usize,
    /// Range of rows, end exclusive. With packed heads, a row is a query and a head of the group.
    pub rows: (usize, usize),
    /// Range of keys, end exclusive.
    pub keys: (usize, usize),
}

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The sizes are inconsistent or exceed the limits of a launch.
    Shape(String),
    /// No rung has that name.
    UnknownRung(String),
    /// The rung does not support the request.
    Unsupported {
        /// The rung.
        rung: &'static str,
        /// The unsupported feature.
        what: String,
    },
    /// A toggle is set twice.
    Toggle(String),
    /// The softmax scale is not finite, or so large that its product with log₂(e) is infinite in f32.
    SoftmaxScale(String),
    /// The number of keys per page is not supported.
    PageSize(usize),
    /// The soft cap is not a positive number, or too large or too small for f32.
    Softcap(String),
    /// The device does not support the format.
    Device(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Shape(text) | PlanError::Device(text) => f.write_str(text),
            PlanError::UnknownRung(name) => {
                let known: Vec<&str> = LADDER.iter().map(|rung| rung.id).collect();
                write!(f, "there is no rung `{name}`; expected one of {}", known.join(", "))
            }
            PlanError::Unsupported { rung, what } => write!(f, "rung {rung} does not support {what}"),
            PlanError::Toggle(name) => write!(f, "toggle {name} is set twice"),
            PlanError::SoftmaxScale(scale) => {
                write!(f, "the softmax scale {scale} does not give a finite factor in f32")
            }
            PlanError::PageSize(keys) => write!(f, "expected pages of 64, 128 or 256 keys, found {keys}"),
            PlanError::Softcap(cap) => {
                write!(f, "the soft cap {cap} does not give positive finite factors in f32")
            }
        }
    }
}

impl Error for PlanError {}

/// Rows of a tile for requests with few rows: those of one warp.
pub(crate) const FEW_ROWS: usize = 16;
/// Queries and keys together from which on a distance, in whole tiles, may not be exact in f32.
const ALIBI_ROWS: usize = (1 << 24) - 64;
/// Threads of a warp.
pub(crate) const WARP: u32 = 32;

impl Plan {
    /// Chooses a variant and its geometry for a device.
    pub fn new(request: &Request, device: &Device) -> Result<Plan, PlanError> {
        Plan::cut(request, device, |rung, packed| Ok(Fit::new(request, rung, device, packed)))
    }

    /// As [`Plan::new`], but a rung that supports stream-K gives its blocks equal runs of steps even if that
    /// is not predicted to be faster. Tests use it to run stream-K on problems of any size.
    pub fn stream_k(request: &Request, device: &Device) -> Result<Plan, PlanError> {
        Plan::cut(request, device, |rung, packed| {
            let fit = (!packed && rung.cut == Cut::StreamK).then(|| Fit::stream_k(request, device));
            let what = || "stream-K (equal runs of steps) for this request".to_owned();
            fit.flatten().ok_or_else(|| PlanError::Unsupported { rung: rung.name, what: what() })
        })
    }

    /// Plans with the blocks that `fit` returns for a rung, given whether the keys are distributed over
    /// blocks.
    fn cut(
        request: &Request,
        device: &Device,
        fit: impl FnOnce(&'static Rung, bool) -> Result<Fit, PlanError>,
    ) -> Result<Plan, PlanError> {
        request.check()?;
        let (factor, cap) = factors(request)?;
        let rung = choose(request, device)?;
        let arch = device.capability.arch();
        let capability = device.capability.major * 10 + device.capability.minor;
        let (needs, why) =
            if request.format == Format::Linear8 { (80, "cp.async") } else { (89, "8-bit floats") };
        if capability < needs {
            return Err(PlanError::Device(format!(
                "{} is {arch}; {why} need sm_{needs} or newer",
                device.name
            )));
        }
        let shape = &request.shape;
        let varlen = request.varlen();
        let split = tiles_per_split(request, rung, device);
        let fit = fit(rung, split.is_some())?;
        let (rows_of_tile, packed) = (fit.rows, split.is_some());

        let mut defines = defines(request, rung, varlen);
        defines.extend(fit.defines.iter().map(|(name, value)| format!("{name}={value}")));
        if packed {
            defines.extend(["SPLIT=1".into(), "PACK_GQA=1".into()]);
        }
        let tiles = most_tiles(request, fit.keys);
        let splits = split.map_or(1, |per_split| tiles.div_ceil(per_split));
        let (rows, heads) = if packed {
            (shape.max_queries() * shape.group(), shape.kv_heads)
        } else {
            (shape.max_queries(), shape.heads)
        };
        let grid = match &fit.stream_k {
            Some(stream_k) => [stream_k.blocks, 1, 1],
            None if fit.heavy_first => [heads, rows.div_ceil(rows_of_tile), shape.batch()],
            None => [rows.div_ceil(rows_of_tile), heads, shape.batch() * splits],
        };
        let geometry = Geometry { grid: extents(grid)?, block: fit.threads, shared: 0 };
        let mut steps = vec![Step { kernel: "attention", geometry }];
        let (mut workspace, mut counters) = (0, 0);
        if let Some(stream_k) = &fit.stream_k {
            // Per block: one counter per warp, padded to 128 bytes, then the sums of both sides.
            let warps = usize::try_from(fit.threads / WARP).unwrap_or(usize::MAX);
            counters = (stream_k.blocks * warps).next_multiple_of(32) * size_of::<u32>();
            workspace = counters + stream_k.blocks * 2 * fit.rows * (shape.dim + 2) * size_of::<f32>();
        }
        if split.is_some() {
            let grid = extents([shape.max_queries(), shape.heads, shape.batch()])?;
            steps.push(Step { kernel: "merge", geometry: Geometry { grid, block: WARP, shared: 0 } });
            workspace = splits
                * shape.batch()
                * shape.heads
                * shape.max_queries()
                * (shape.dim + 2)
                * size_of::<f32>();
        }
        let (queries, keys) = (shape.query_rows(request.layout), shape.key_rows(request.layout));
        // A window beyond all rows has no effect, and sums with it stay below 2³².
        let most = shape.max_queries() + shape.max_keys();
        let reach = |keys: Option<usize>| narrow(keys.unwrap_or(0).min(most));
        let of_keys = |granularity| match request.page_size {
            Some(size) => Operand::paged(&keys, granularity, size),
            None => Operand::of(&keys, granularity, varlen),
        };
        let params = Params {
            q: Operand::of(&queries, request.scales.q, varlen),
            k: of_keys(request.scales.k),
            v: of_keys(request.scales.v),
            o_strides: Strides::of(&queries, varlen),
            heads: narrow(shape.heads),
            group: narrow(shape.group()),
            queries: narrow(shape.max_queries()),
            keys: narrow(shape.max_keys()),
            lse_rows: narrow(shape.max_queries()),
            tiles_per_split: narrow(match &fit.stream_k {
                Some(stream_k) => stream_k.run,
                None => split.unwrap_or(if fit.paired { tiles.div_ceil(2) } else { tiles }),
            }),
            batches: narrow(shape.batch()),
            splits: narrow(fit.stream_k.map_or(splits, |stream_k| stream_k.per)),
            factor,
            cap,
            max_pages: narrow(request.page_size.map_or(0, |size| shape.max_keys().div_ceil(size))),
            page_shift: request.page_size.map_or(0, usize::trailing_zeros),
            window_left: reach(request.window.left),
            window_right: reach(request.window.right),
            ..Params::default()
        };
        let request = request.clone();
        Ok(Plan { request, rung, fit, defines, arch, steps, workspace, counters, params })
    }

    /// Whether the kernel reads the start of each sequence from device memory.
    pub fn varlen(&self) -> bool {
        self.request.varlen()
    }

    /// Whether the keys of a row are distributed over several blocks.
    pub fn is_split(&self) -> bool {
        self.steps.len() > 1
    }

    /// Key tiles per block, if the keys of a row are distributed over several.
    pub fn tiles_per_split(&self) -> Option<usize> {
        self.is_split().then(|| usize::try_from(self.params.tiles_per_split).unwrap_or(usize::MAX))
    }

    /// The arithmetic that decides the bits: the rung's own, with the plan's keys per step.
    pub fn arithmetic(&self) -> Arithmetic {
        Arithmetic { tile: self.fit.keys, ..self.rung.arithmetic(&self.request.toggles) }
    }

    /// The parts of the key tiles that blocks or warps sum separately before they are merged.
    pub fn tiles_apart(&self) -> Parts {
        if let Some(stream_k) = self.fit.stream_k {
            return Parts::StreamK(stream_k);
        }
        if self.is_split() || self.fit.paired {
            return Parts::Tiles(usize::try_from(self.params.tiles_per_split).unwrap_or(usize::MAX));
        }
        Parts::Whole
    }

    /// An unused workspace: counters are 0, and everything else is NaN, which shows up in the output if it is
    /// read.
    pub fn blank_workspace(&self) -> Vec<u8> {
        let mut bytes = vec![0xff; self.workspace];
        bytes.iter_mut().take(self.counters).for_each(|byte| *byte = 0);
        bytes
    }

    /// The work of each block of the first step, in the order of the grid. A block with several tiles of rows
    /// has several entries; idle blocks have none.
    pub fn table(&self) -> impl Iterator<Item = BlockWork> + '_ {
        let [x, y, z] = self.steps.first().map_or([0; 3], |step| step.geometry.grid);
        let blocks = (0..z).flat_map(move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
        blocks.flat_map(move |block| {
            let runs = self.fit.stream_k.iter().flat_map(move |stream_k| self.runs(stream_k, block));
            self.work(block).into_iter().chain(runs)
        })
    }

    /// The work of a block that takes a run of steps. The first block takes the last run.
    fn runs<'a>(&'a self, stream_k: &'a StreamK, block: [u32; 3]) -> impl Iterator<Item = BlockWork> + 'a {
        let index = usize::try_from(block[0]).unwrap_or(usize::MAX);
        let runs = stream_k.blocks.checked_sub(index.saturating_add(1));
        runs.into_iter().flat_map(|run| stream_k.pieces(run)).map(move |(tile, steps)| {
            let (head, first) =
                (tile / stream_k.tiles_of_head, tile % stream_k.tiles_of_head * stream_k.rows);
            let end = self.request.shape.max_queries().min(first + stream_k.rows);
            BlockWork {
                block,
                batch: head / stream_k.heads,
                head: head % stream_k.heads,
                rows: (first, end),
                keys: (steps.start * self.fit.keys, steps.end * self.fit.keys),
            }
        })
    }

    /// The work of a block of the first step that has one tile of rows.
    fn work(&self, block: [u32; 3]) -> Option<BlockWork> {
        if self.fit.stream_k.is_some() {
            return None;
        }
        let shape = &self.request.shape;
        let packed = self.is_split();
        let (tile, group) = (self.fit.rows, if packed { shape.group() } else { 1 });
        let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let per_split = wide(self.params.tiles_per_split) * self.fit.keys;
        let [mut x, mut y, z] = block;
        if self.fit.heavy_first {
            let tiles = self.steps.first().map_or(0, |step| step.geometry.grid[1]);
            (x, y) = (tiles.checked_sub(y + 1)?, x);
        }
        let splits = self.params.splits.max(1);
        let (batch, split) = (wide(z / splits), wide(z % splits));
        let lengths = *shape.sequences.get(batch)?;
        let rows = lengths.queries * group;
        let first = wide(x) * tile;
        let last = rows.min(first + tile).checked_sub(1).filter(|_| first < rows)?;
        let end = self.request.visible(lengths, last / group).end;
        let begin = self.request.visible(lengths, first / group).start / self.fit.keys * self.fit.keys;
        let from = if packed { (begin + split * per_split).min(end) } else { begin.min(end) };
        let to = if packed { end.min(from + per_split) } else { end };
        Some(BlockWork { block, batch, head: wide(y) * group, rows: (first, last + 1), keys: (from, to) })
    }

    /// The source with the plan's configuration.
    pub fn source(&self) -> Option<Source> {
        source::named(self.fit.source)
    }

    /// Compiles the plan to PTX.
    pub fn compile(&self, toolchain: &Toolchain) -> Result<String, CompileError> {
        source::compile(self.fit.source, &self.defines, &self.arch, toolchain)
    }
}

fn choose(request: &Request, device: &Device) -> Result<&'static Rung, PlanError> {
    if let Some(name) = &request.rung {
        return named(name, request);
    }
    let predicted = dispatch::nearest(&request.shape, device).map(|entry| entry.rung);
    if let Some(rung) = predicted.filter(|rung| missing(rung, request).is_none()) {
        return Ok(rung);
    }
    LADDER.iter().rev().find(|rung| missing(rung, request).is_none()).ok_or_else(|| {
        let best =
            LADDER.iter().rev().find(|rung| rung.formats.contains(&request.format)).unwrap_or(&LADDER[0]);
        PlanError::Unsupported { rung: best.name, what: missing(best, request).unwrap_or_default() }
    })
}

/// The rung of a name, if it supports the request.
fn named(name: &str, request: &Request) -> Result<&'static Rung, PlanError> {
    let rung = ladder::rung(name).ok_or_else(|| PlanError::UnknownRung(name.to_owned()))?;
    missing(rung, request).map_or(Ok(rung), |what| Err(PlanError::Unsupported { rung: rung.name, what }))
}

/// The first feature of a request that a rung does not support.
fn missing(rung: &Rung, request: &Request) -> Option<String> {
    let shape = &request.shape;
    let fine = |granularity| matches!(granularity, Granularity::Block | Granularity::Row);
    let scales = [request.scales.q, request.scales.k, request.scales.v];
    let toggle = |name: &str| request.toggles.iter().find(|(toggle, _)| toggle == name).map(|(_, on)| *on);
    let unknown =
        request.toggles.iter().find(|(name, _)| rung.toggles.iter().all(|toggle| toggle.name != name));
    if !rung.formats.contains(&request.format) {
        return Some(format!("{:?} inputs", request.format));
    }
    if !rung.dims.contains(&shape.dim) {
        return Some(format!("rows of {} elements; it takes {:?}", shape.dim, rung.dims));
    }
    if request.mask == Mask::Causal && !rung.can(Feature::Causal) {
        return Some("causal masks".into());
    }
    if request.window != Window::default() && !rung.can(Feature::Window) {
        return Some("sliding windows".into());
    }
    if request.varlen() && !rung.can(Feature::Varlen) {
        return Some("sequences of different lengths".into());
    }
    if request.varlen() && request.layout != Layout::Bshd {
        return Some("sequences of different lengths unless rows lie before heads (BSHD)".into());
    }
    if scales.into_iter().any(fine) && !rung.can(Feature::FineScales) {
        return Some("scales for each block or row".into());
    }
    if request.lse && !rung.can(Feature::Lse) {
        return Some("the log-sum-exp".into());
    }
    if request.output == OutputFormat::Bf16 && !rung.can(Feature::Bf16) {
        return Some("outputs in bf16".into());
    }
    if request.softcap.is_some() && !rung.can(Feature::Softcap) {
        return Some("soft caps".into());
    }
    if request.sinks && !rung.can(Feature::Sinks) {
        return Some("attention sinks".into());
    }
    if request.alibi && !rung.can(Feature::Alibi) {
        return Some("ALiBi".into());
    }
    if request.alibi && shape.max_queries() + shape.max_keys() >= ALIBI_ROWS {
        return Some("ALiBi with 2^24 queries and keys or more".into());
    }
    if request.page_size.is_some() && !rung.can(Feature::Pages) {
        return Some("paged keys".into());
    }
    if let Some((name, _)) = unknown {
        return Some(format!("toggle {name}"));
    }
    if toggle("USE_TWO_LEVEL") == Some(false) && fine(request.scales.v) {
        return Some("scales of V for each block or row without USE_TWO_LEVEL".into());
    }
    if let Splits::Count(count) = request.splits {
        if !rung.can(Feature::Split) {
            return Some("split keys".into());
        }
        if count == 0 {
            return Some("a split count of 0".into());
        }
        if !can_split(request) {
            let dim = shape.dim;
            return Some(format!("split keys with rows of {dim} elements and scales for each block or row"));
        }
        if shape.max_queries() * shape.group() > FEW_ROWS {
            return Some(format!("split keys with more than {FEW_ROWS} rows for each key head"));
        }
    }
    None
}

fn defines(request: &Request, rung: &Rung, varlen: bool) -> Vec<String> {
    let mut defines: Vec<String> = Vec::new();
    let mut set = |name: &str, value: usize| defines.push(format!("{name}={value}"));
    set("HEAD_DIM", request.shape.dim);
    // Every toggle of the rung is set, so that the defaults in the source have no effect; then the macros
    // that are fixed for it.
    for toggle in rung.toggles {
        let asked = request.toggles.iter().find(|(name, _)| name == toggle.name).map(|(_, on)| *on);
        set(toggle.name, usize::from(asked.unwrap_or_else(|| rung.setting(toggle.name))));
    }
    for (name, _) in rung.settings {
        if rung.toggles.iter().all(|toggle| toggle.name != *name) {
            set(name, usize::from(rung.setting(name)));
        }
    }
    for (name, on) in [
        ("CAUSAL", request.mask == Mask::Causal),
        ("WINDOW_LEFT", request.window.left.is_some()),
        ("WINDOW_RIGHT", request.window.right.is_some() && request.mask == Mask::Full),
        ("VARLEN", varlen),
        ("SOFTCAP", request.softcap.is_some()),
        ("SINK", request.sinks),
        ("ALIBI", request.alibi),
        ("PAGED", request.page_size.is_some()),
        ("LSE", request.lse),
        ("OUTPUT_BF16", request.output == OutputFormat::Bf16),
        ("FORMAT_E5M2", request.format == Format::E5m2),
        ("Q_SCALES", matches!(request.scales.q, Granularity::Block | Granularity::Row)),
    ] {
        if on {
            set(name, 1);
        }
    }
    if request.shape.group() == 1 && rung.cut != Cut::Fixed {
        set("GROUPED", 0);
    }
    for (name, granularity) in [("K_SCALES", request.scales.k), ("V_SCALES", request.scales.v)] {
        match granularity {
            Granularity::Tensor | Granularity::Head => {}
            Granularity::Block => set(name, 1),
            Granularity::Row => set(name, 2),
        }
    }
    defines
}

/// The most key tiles that the rows of a sequence see; with few rows, a window leaves few of them.
fn most_tiles(request: &Request, keys: usize) -> usize {
    let shape = &request.shape;
    if request.window.left.is_none() {
        return shape.max_keys().div_ceil(keys).max(1);
    }
    let with_queries = shape.sequences.iter().filter(|lengths| lengths.queries > 0);
    let tiles = with_queries.map(|&lengths| {
        let (first, last) = (request.visible(lengths, 0), request.visible(lengths, lengths.queries - 1));
        last.end.div_ceil(keys).saturating_sub(first.start / keys)
    });
    tiles.max().unwrap_or(0).max(1)
}

/// Key tiles per block, if the keys of a row are distributed over several.
fn tiles_per_split(request: &Request, rung: &Rung, device: &Device) -> Option<usize> {
    let shape = &request.shape;
    let tiles = most_tiles(request, key_tile(rung, shape.dim));
    let few = shape.max_queries() * shape.group() <= FEW_ROWS;
    let count = match request.splits {
        Splits::None => return None,
        Splits::Count(count) => count,
        Splits::Auto if !few || !rung.can(Feature::Split) || !can_split(request) => return None,
        Splits::Auto => {
            let sms = usize::try_from(device.multiprocessors.value).unwrap_or(1);
            // Two blocks of one warp for each of an SM's four schedulers.
            (8 * sms).div_ceil(shape.kv_heads * shape.batch())
        }
    };
    let count = count.min(tiles);
    (count > 1 || matches!(request.splits, Splits::Count(_))).then(|| tiles.div_ceil(count.max(1)))
}

pub(crate) fn extents(grid: [usize; 3]) -> Result<[u32; 3], PlanError> {
    if grid[1] > 65_535 || grid[2] > 65_535 || u32::try_from(grid[0]).is_err() {
        let [x, y, z] = grid;
        return Err(PlanError::Shape(format!(
            "a grid of {x} × {y} × {z} blocks exceeds the limit of 65535 in y or z"
        )));
    }
    Ok(grid.map(narrow))
}

/// The factor of the scores, and the cap, 0 without one.
fn factors(request: &Request) -> Result<(f32, f32), PlanError> {
    let scale = request.softmax_scale();
    let factor = exponent_scale(scale, request.softcap);
    if !factor.is_finite() {
        return Err(PlanError::SoftmaxScale(scale.to_string()));
    }
    let Some(cap) = request.softcap else { return Ok((factor, 0.0)) };
    let scaled = exponent_cap(cap);
    // Twice the cap is a factor too.
    if scaled.is_normal() && scaled > 0.0 && (2.0 * scaled).is_finite() {
        Ok((factor, scaled))
    } else {
        Err(PlanError::Softcap(cap.to_string()))
    }
}

/// Softmax scale times log2(e), rounded once; with a soft cap, twice that over the cap.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) fn exponent_scale(scale: f64, softcap: Option<f64>) -> f32 {
    let factor = scale * std::f64::consts::LOG2_E;
    softcap.map_or(factor, |cap| 2.0 * factor / cap) as f32
}

/// The cap in powers of two, rounded once.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) fn exponent_cap(cap: f64) -> f32 {
    (cap * std::f64::consts::LOG2_E) as f32
}
