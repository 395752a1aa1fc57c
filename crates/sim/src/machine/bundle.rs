//! Executes bundles: the addresses in a register are measured once, and each load from it is a copy of words.

use super::{Cta, Flow, LANES, Registers, Row, Warp, at};
use crate::isa::Args;
use crate::memory::SharedMemory;
use crate::observe::BundleReads;
use crate::program::{BASES, Base, Bundle, Load, Step, Sum};
use crate::simd::{Extent, Half, Level, Simd, at_level};
use std::sync::Arc;
use warpproof_num::Rounding;
use warpproof_num::float::{canonical_f32, fma_f32};

/// Executes a bundle with all lanes of a warp. Returns the number of instructions before the last one that was executed, and where it
/// leads; `None` if the bundle must be executed one by one, and nothing has happened.
pub type Execute = fn(&mut Warp<'_, '_>, &Arc<Bundle>) -> Option<(u32, Flow)>;

/// The function for a level of vector instructions.
pub(crate) fn executes_bundle(level: Level) -> Execute {
    at_level!(level, execute)
}

/// The addresses in a register, all in shared memory together with the reach of the loads, and aligned for them.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// By lane.
    pub offsets: Row<u32>,
    /// The lowest and the highest of them.
    pub ends: (u32, u32),
    /// How those of each half of the warp lie.
    pub halves: [Half; 2],
}

impl Place {
    /// The addresses at a distance.
    #[inline]
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the sum is in shared memory"
    )]
    pub fn moved(&self, distance: i64) -> Row<u32> {
        Row(self.offsets.0.map(|offset| offset.wrapping_add(distance as u32)))
    }
}

impl Default for Place {
    fn default() -> Place {
        Place { offsets: Row([0; LANES]), ends: (0, 0), halves: [Half::Mixed; 2] }
    }
}

fn execute<I: Simd>(w: &mut Warp<'_, '_>, bundle: &Arc<Bundle>) -> Option<(u32, Flow)> {
    let (regs, cta) = (&w.state.regs, &mut *w.cta);
    let (size, window) = (cta.shared.size(), u32::try_from(cta.window).unwrap_or(0));
    let measured = I::vectorize(
        #[inline(always)]
        || {
            bundle
                .bases
                .iter()
                .zip(&mut cta.places)
                .all(|(base, place)| place.measure::<I>(regs, base, (size, window)))
        },
    );
    if !measured {
        return None;
    }
    if let Some(watch) = w.watch.as_deref_mut() {
        let places = w.cta.places.get(..bundle.bases.len()).unwrap_or_default();
        if !watch.bundle(&BundleReads { block: w.cta.linear, warp: w.state.id, bundle, places }) {
            return None;
        }
    }
    I::vectorize(
        #[inline(always)]
        || steps::<I>(w, bundle),
    )
}

#[inline(always)]
fn steps<I: Simd>(w: &mut Warp<'_, '_>, bundle: &Bundle) -> Option<(u32, Flow)> {
    let code = w.grid.program.code.get(at(bundle.first)..).unwrap_or_default();
    let mut sums = bundle.sums.iter().peekable();
    let mut together = 0;
    for ((step, inst), number) in bundle.steps.iter().zip(code).zip(0u32..) {
        if together > 0 {
            together -= 1;
            continue;
        }
        if let Some(sum) = sums.next_if(|sum| sum.first == at(number)) {
            let Cta { shared, places, .. } = &*w.cta;
            if add_products(&mut w.state.regs, shared, places, sum) {
                together = sum.length() - 1;
                continue;
            }
        }
        match step {
            Step::Load(load) => {
                let Cta { shared, places, .. } = &*w.cta;
                fetch::<I>(&mut w.state.regs, shared, &places[load.base % BASES], load, &inst.args);
            }
            Step::Fma => multiply_add(&mut w.state.regs, &inst.args),
            Step::Routine => {
                w.pc = bundle.first + number;
                let flow = (inst.run)(w, &inst.args);
                if flow != Flow::Next {
                    return Some((number, flow));
                }
            }
        }
    }
    Some((bundle.length() - 1, Flow::Next))
}

/// `fma.rn.f32`.
#[inline(always)]
fn multiply_add(regs: &mut Registers, args: &Args) {
    let [d, a, b, c] = [args.o[0], args.o[1], args.o[2], args.o[3]].map(at);
    let mut out = Row([0; LANES]);
    let (a, b, c) = (&regs.w32[a].0, &regs.w32[b].0, &regs.w32[c].0);
    for lane in 0..LANES {
        out.0[lane] = fma_f32(a[lane], b[lane], c[lane], Rounding::Rn, false);
    }
    regs.w32[d] = out;
}

/// Adds the products of a sum, unless the addresses of a factor are mixed.
#[inline(always)]
fn add_products(regs: &mut Registers, shared: &SharedMemory, places: &[Place; BASES], sum: &Sum) -> bool {
    if let Some([x, y]) = sum.bases.map(|bases| bases.map(|base| &places[base % BASES])) {
        let totals = regs.w32[at(sum.from)];
        let added = match (x.halves, y.halves) {
            ([Half::Run, Half::Run], [Half::Same, Half::Same]) => {
                add_regular::<true, false>(shared, [x, y], &sum.steps, totals)
            }
            ([Half::Same, Half::Same], [Half::Run, Half::Run]) => {
                add_regular::<false, true>(shared, [x, y], &sum.steps, totals)
            }
            ([Half::Run, Half::Run], [Half::Run, Half::Run]) => {
                add_regular::<true, true>(shared, [x, y], &sum.steps, totals)
            }
            _ => None,
        };
        if let Some(totals) = added {
            regs.w32[at(sum.to)] = totals;
            return true;
        }
    }
    let place = |load: &Load| &places[load.base % BASES];
    if sum.factors.iter().flatten().any(|load| place(load).halves.contains(&Half::Mixed)) {
        return false;
    }
    let mut totals = regs.w32[at(sum.from)].0.map(f32::from_bits);
    for (half, totals) in totals.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        for [x, y] in &sum.factors {
            let word = |load: &Load| {
                let place = place(load);
                shared.half(index(place.offsets.0[16 * half], load.step()), place.halves[half % 2])
            };
            add_product(totals, &word(x), &word(y));
        }
    }
    regs.w32[at(sum.to)] = canonical(&totals);
    true
}

/// Adds products whose factors are each a run of words, or one word, in both halves of the warp.
#[inline(always)]
fn add_regular<const RUN_X: bool, const RUN_Y: bool>(
    shared: &SharedMemory,
    [x, y]: [&Place; 2],
    steps: &[[u32; 2]],
    totals: Row<u32>,
) -> Option<Row<u32>> {
    let starts = |place: &Place| [index(place.offsets.0[0], 0), index(place.offsets.0[16], 0)];
    let ([x0, x1], [y0, y1]) = (starts(x), starts(y));
    let mut totals = totals.0.map(f32::from_bits);
    let [low, high] = totals.as_chunks_mut::<16>().0 else { return None };
    for [x, y] in steps {
        let (x0, x1) = (words::<RUN_X>(shared, x0, *x)?, words::<RUN_X>(shared, x1, *x)?);
        let (y0, y1) = (words::<RUN_Y>(shared, y0, *y)?, words::<RUN_Y>(shared, y1, *y)?);
        // Both halves in turn: a sum waits for its last product.
        add_product(low, &x0, &y0);
        add_product(high, &x1, &y1);
    }
    Some(canonical(&totals))
}

/// A run of words, or one word in all lanes.
#[inline(always)]
fn words<const RUN: bool>(shared: &SharedMemory, first: u32, step: u32) -> Option<[u32; 16]> {
    let first = first.wrapping_add(step);
    if RUN { shared.words(first).copied() } else { Some([shared.word(first); 16]) }
}

#[inline(always)]
fn add_product(totals: &mut [f32; 16], x: &[u32; 16], y: &[u32; 16]) {
    for lane in 0..16 {
        totals[lane] = f32::from_bits(x[lane]).mul_add(f32::from_bits(y[lane]), totals[lane]);
    }
}

/// Of a sum between, the code of a NaN does not matter: the next sum is a NaN too.
#[inline(always)]
fn canonical(totals: &[f32; LANES]) -> Row<u32> {
    Row(totals.map(canonical_f32))
}

impl Place {
    /// Measures the addresses in a register; returns whether loads from it need no other check.
    #[inline(always)]
    fn measure<I: Simd>(&mut self, regs: &Registers, base: &Base, (size, window): (u32, u32)) -> bool {
        let (mut offsets, high) =
            if base.wide { I::narrow(&regs.w64[at(base.row)].0) } else { (regs.w32[at(base.row)].0, 0) };
        if window != 0 {
            for offset in &mut offsets {
                *offset &= if *offset & 0xff00_0000 == window { 0x00ff_ffff } else { u32::MAX };
            }
        }
        let Extent { lowest, highest, bits, halves } = I::extent(&offsets);
        *self = Place { offsets: Row(offsets), ends: (lowest, highest), halves };
        high == 0
            && i64::from(lowest) + base.reach.0 >= 0
            && i64::from(highest) + base.reach.1 <= i64::from(size)
            && bits & base.misaligned == 0
    }
}

/// Loads words into registers.
#[inline(always)]
fn fetch<I: Simd>(regs: &mut Registers, shared: &SharedMemory, place: &Place, load: &Load, args: &Args) {
    let simple = load.words == 1 && !place.halves.contains(&Half::Mixed);
    if simple && let Some(row) = regs.w32.get_mut(at(args.o[0])) {
        let (low, high) = row.0.split_at_mut(16);
        let step = load.step();
        copy(shared, index(place.offsets.0[0], step), place.halves[0], low);
        copy(shared, index(place.offsets.0[16], step), place.halves[1], high);
        return;
    }
    for (word, row) in (0u32..).zip(args.o.iter().take(at(load.words))) {
        let step = load.step().wrapping_add(word);
        let index = place.offsets.0.map(|offset| index(offset, step));
        regs.w32[at(*row)] = Row(shared.gather::<I>(&index));
    }
}

/// The word behind an address, that many words further.
#[inline(always)]
fn index(offset: u32, step: u32) -> u32 {
    (offset >> 2).wrapping_add(step)
}

#[inline(always)]
fn copy(shared: &SharedMemory, first: u32, half: Half, to: &mut [u32]) {
    to.copy_from_slice(&shared.half(first, half));
}
