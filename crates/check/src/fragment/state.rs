//! The tags of one block, and how its events move and evaluate them.

use super::event::{Event, Memory, Question, Values, What};
use super::layout::{Judged, Table, contradict};
use super::origin::{LOST, Lines, Tag, is_element, is_sum, sum};
use super::pairing::{self, Before, Chains};
use super::pitch::{Loads, Skip, Windows};
use super::plan::{Action, Shape, Step};
use super::tags::{Lanes, NONE, Rows};
use super::{Fragments, Operand, moves, report};
use crate::context::Context;
use crate::raw::RawFindings;
use std::collections::HashMap;
use warpproof_sim::isa::tile::{place_a_of, place_b_of, place_c};
use warpproof_sim::machine::{LANES, at, lanes_of};
use warpproof_sim::memory::Space;

/// Maximum number of accumulator stores that are recorded per block.
const STORES: usize = 1 << 20;

/// An accumulator that was stored to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stored {
    pub tag: Tag,
    pub to: Tag,
    pub pc: u32,
    pub thread: u32,
}

/// The provenance state of a warp.
struct Warp {
    rows: Rows,
    /// Cached results for fragments, by their first register.
    judged: HashMap<u32, (u64, Judged)>,
    /// What was added to which accumulators.
    chains: Chains,
    windows: Windows,
    /// Which access of a `wmma.load` or `wmma.store` comes next, and its lanes so far.
    piece: (usize, u32),
    /// The distance in bytes of the rows that a `wmma.load` loads, and the bytes of an element.
    pitch: (u32, u32),
}

/// The tags of one block.
pub(super) struct State {
    block: u32,
    warps: Vec<Option<Warp>>,
    shared: Vec<Tag>,
    shared_bytes: u32,
    lines: Lines,
    stored: Vec<Stored>,
    loads: Loads,
    hint: usize,
    /// Whether something was wrong that was not reported because of what only this block did.
    doubtful: bool,
}

impl State {
    pub(super) fn new(block: u32, shared_bytes: u32) -> State {
        State {
            block,
            warps: Vec::new(),
            shared: Vec::new(),
            shared_bytes,
            lines: Lines::default(),
            stored: Vec::new(),
            loads: Loads::default(),
            hint: 0,
            doubtful: false,
        }
    }

    /// Whether something was wrong that was not reported because of what only this block did.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful || self.warps.iter().flatten().any(|warp| warp.chains.excused)
    }

    /// Moves tags, and reports what is wrong.
    pub(super) fn apply(
        &mut self,
        context: &Context,
        fragments: &Fragments,
        raw_findings: &mut RawFindings,
        event: Event<'_>,
    ) {
        let Event { warp, pc, lanes, what } = event;
        let step = fragments.plan.step(pc);
        match (what, step) {
            (What::Copy { to, from, size, read }, _) => self.copy(fragments, pc, (to, from), (size, read)),
            (What::Access(memory), _) if memory.destroys => self.destroy(fragments, lanes, &memory),
            (What::Access(memory), Some(step)) => {
                let access = Access { warp, pc, lanes, memory };
                self.access(fragments, step, &access);
            }
            (What::Exchange { sources }, Some(step)) => {
                self.exchange(fragments, step, (warp, lanes), sources);
            }
            (What::Multiply { whole: true, values }, Some(step)) => {
                if let Action::Multiply(shape) = step.action {
                    let product = Product { context, fragments, step, shape, warp, pc };
                    self.multiply(raw_findings, &product, lanes, values);
                }
            }
            (What::Step { whole, values }, Some(step)) => {
                let warp = Self::warp(&mut self.warps, warp, &fragments.plan);
                match step.action {
                    Action::FragmentLoad(element) => {
                        warp.piece = (0, 0);
                        let leading = values.first().copied().unwrap_or(0);
                        warp.pitch = (leading.saturating_mul(element), element);
                    }
                    Action::FragmentStore => warp.piece = (0, 0),
                    Action::MatrixMove if !whole => {}
                    _ => moves::step(&mut warp.rows, step, lanes, values, fragments.plan.grain),
                }
            }
            (
                What::Multiply { .. }
                | What::Access(_)
                | What::Exchange { .. }
                | What::Step { .. }
                | What::Arrive { .. },
                _,
            ) => {}
        }
    }

    fn warp<'w>(warps: &'w mut Vec<Option<Warp>>, number: u32, plan: &super::plan::Plan) -> &'w mut Warp {
        let number = at(number);
        if warps.len() <= number {
            warps.resize_with(number + 1, || None);
        }
        warps[number].get_or_insert_with(|| Warp {
            rows: Rows::new(&plan.rows, plan.grain),
            judged: HashMap::new(),
            chains: Chains::default(),
            windows: Windows::default(),
            piece: (0, 0),
            pitch: (0, 0),
        })
    }

    /// Lanes that exchange values.
    fn exchange(
        &mut self,
        fragments: &Fragments,
        step: &Step,
        (warp, lanes): (u32, u32),
        sources: &[u32; LANES],
    ) {
        let rows = &mut Self::warp(&mut self.warps, warp, &fragments.plan).rows;
        let (Some(to), Some(from)) = (step.to.first(), step.from.first()) else { return };
        let mut values = [NONE; 4];
        let count = at(4 / fragments.plan.grain);
        if rows.live(*from) {
            for (grain, value) in values.iter_mut().enumerate().take(count) {
                let tags = rows.grain(*from, grain);
                for (out, source) in value.iter_mut().zip(sources) {
                    *out = tags[at(*source & 31)];
                }
            }
        }
        let origin = rows.origin(*from);
        rows.put(*to, &values[..count], lanes, origin);
    }

    /// A copy that is complete.
    fn copy(&mut self, fragments: &Fragments, pc: u32, (to, from): (u32, u64), (size, read): (u32, u32)) {
        let grain = fragments.plan.grain;
        let steady = fragments.plan.steady(pc);
        let mut tags = [0; 16];
        let (count, read) = (at(size.min(16) / grain), at(read.min(16) / grain));
        if steady {
            let buffer = fragments.sources.holding(from, self.hint);
            self.hint = buffer.unwrap_or(self.hint);
            fragments.sources.tags(buffer, from, grain, &mut tags[..read]);
        } else {
            tags[..read].fill(LOST);
        }
        self.keep(u64::from(to), grain, &tags[..count]);
    }

    /// An access that destroys the tags of shared memory.
    fn destroy(&mut self, fragments: &Fragments, lanes: u32, memory: &Memory<'_>) {
        let (false, Some(addresses)) = (self.shared.is_empty(), memory.addresses) else { return };
        let grain = fragments.plan.grain;
        let tags = vec![LOST; at(memory.bytes.div_ceil(grain))];
        for lane in lanes_of(lanes) {
            self.keep(addresses[lane], grain, &tags);
        }
    }

    /// Puts tags into shared memory.
    fn keep(&mut self, address: u64, grain: u32, tags: &[Tag]) {
        if self.shared.is_empty() {
            if tags.iter().all(|tag| *tag == 0) {
                return;
            }
            self.shared = vec![0; at(self.shared_bytes / grain) + 1];
        }
        let Ok(first) = usize::try_from(address / u64::from(grain)) else { return };
        for (place, tag) in self.shared.iter_mut().skip(first).zip(tags) {
            *place = *tag;
        }
    }

    /// Reads the tags of memory, starting at an address.
    fn recall(&mut self, fragments: &Fragments, step: &Step, space: Space, address: u64, out: &mut [Tag]) {
        let grain = fragments.plan.grain;
        match space {
            _ if !step.steady => out.fill(LOST),
            Space::Shared => {
                out.fill(0);
                let first = usize::try_from(address / u64::from(grain)).unwrap_or(usize::MAX);
                if let Some(tags) = self.shared.get(first..) {
                    out.iter_mut().zip(tags).for_each(|(out, tag)| *out = *tag);
                }
            }
            Space::Global => {
                let buffer = fragments.sources.holding(address, self.hint);
                self.hint = buffer.unwrap_or(self.hint);
                fragments.sources.tags(buffer, address, grain, out);
            }
            Space::Const | Space::Param => out.fill(0),
            _ => out.fill(LOST),
        }
    }

    /// An access to memory whose tags are followed.
    fn access(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>) {
        let words = at(access.memory.bytes.div_ceil(4)).max(1) * at(4 / fragments.plan.grain);
        match step.action {
            Action::Load(each) => self.load(fragments, step, access, each),
            Action::MatrixLoad(trans) => self.load_matrices(fragments, step, access, trans),
            Action::FragmentLoad(_) => self.load_piece(fragments, step, access),
            Action::Store(each) if words <= 32 => {
                let grains = at(each / fragments.plan.grain).max(1);
                let rows = &Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
                let mut values = vec![NONE; grains * step.from.len()];
                for (value, i) in values.iter_mut().zip(0..) {
                    *value = *rows.grain(step.from[i / grains], i % grains);
                }
                self.store(fragments, step, access, &values);
            }
            Action::MatrixStore(trans) => self.store_matrices(fragments, step, access, trans),
            Action::FragmentStore => self.store_piece(fragments, step, access),
            _ => {}
        }
    }

    /// Values that are stored to memory, grain by grain.
    fn store(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>, values: &[Lanes]) {
        let grain = fragments.plan.grain;
        match access.memory.space {
            Space::Shared => {
                if self.shared.is_empty() && values.iter().flatten().all(|tag| *tag == 0) {
                    return;
                }
                let mut tags = [0; 32];
                let count = values.len().min(32);
                for lane in lanes_of(access.lanes) {
                    for (tag, value) in tags.iter_mut().zip(values) {
                        *tag = if step.steady { value[lane] } else { LOST };
                    }
                    self.keep(access.address(lane), grain, &tags[..count]);
                }
            }
            Space::Global if step.steady && values.iter().flatten().any(|tag| is_sum(*tag)) => {
                for lane in lanes_of(access.lanes) {
                    self.remember(fragments, access, lane, values);
                }
            }
            _ => {}
        }
    }

    /// Accumulators that a lane stores.
    fn remember(&mut self, fragments: &Fragments, access: &Access<'_>, lane: usize, values: &[Lanes]) {
        let grain = u64::from(fragments.plan.grain);
        let address = access.address(lane);
        let Some(buffer) = fragments.sources.holding(address, self.hint) else { return };
        let step = usize::try_from((fragments.sources.element(buffer) / grain).max(1)).unwrap_or(1);
        let thread = access.warp * 32 + u32::try_from(lane).unwrap_or(0);
        for (i, value) in values.iter().enumerate().step_by(step) {
            let mut to = [LOST];
            let offset = grain * u64::try_from(i).unwrap_or(0);
            fragments.sources.tags(Some(buffer), address + offset, fragments.plan.grain, &mut to);
            let tag = value[lane];
            if is_sum(tag) && is_element(to[0]) && self.stored.len() < STORES {
                self.stored.push(Stored { tag, to: to[0], pc: access.pc, thread });
            }
        }
    }

    fn load(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>, each: u32) {
        let grain = fragments.plan.grain;
        let grains = at(each / grain).max(1);
        let count = (grains * step.to.len()).min(32);
        let mut values = vec![NONE; count];
        let mut tags = [0; 32];
        if access.memory.space != Space::Shared || !self.shared.is_empty() {
            for lane in lanes_of(access.lanes) {
                self.recall(fragments, step, access.memory.space, access.address(lane), &mut tags[..count]);
                for (value, tag) in values.iter_mut().zip(tags) {
                    value[lane] = tag;
                }
            }
        }
        let rows = &mut Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        for (to, values) in step.to.iter().zip(values.chunks(grains)) {
            rows.put(*to, values, access.lanes, Some(access.pc));
        }
    }

    /// Rows of 16 bytes, one given by each lane: `tags[row][grain]`.
    fn load_matrices(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>, trans: bool) {
        let grain = fragments.plan.grain;
        let (half, count) = (at(2 / grain), at(16 / grain));
        let mut tags = [[0; 16]; LANES];
        for lane in lanes_of(access.lanes) {
            self.recall(fragments, step, access.memory.space, access.address(lane), &mut tags[lane][..count]);
        }
        let rows = &mut Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        for (matrix, to) in step.to.iter().enumerate() {
            let mut values = [NONE; 4];
            for lane in 0..LANES {
                let (g, t) = (lane / 4, lane % 4);
                for (i, value) in values.iter_mut().enumerate().take(2 * half) {
                    let (row, column) = if trans { (2 * t + i / half, g) } else { (g, 2 * t + i / half) };
                    value[lane] = tags[(8 * matrix + row) % LANES][column * half + i % half];
                }
            }
            rows.put(*to, &values[..2 * half], u32::MAX, Some(access.pc));
        }
    }

    fn store_matrices(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>, trans: bool) {
        let half = at(2 / fragments.plan.grain);
        let rows = &Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        let mut values = vec![NONE; 8 * half];
        for (matrix, from) in step.from.iter().enumerate() {
            for i in 0..2 * half {
                let tags = rows.grain(*from, i);
                for (lane, tag) in tags.iter().enumerate() {
                    let (g, t) = (lane / 4, lane % 4);
                    let (row, column) = if trans { (2 * t + i / half, g) } else { (g, 2 * t + i / half) };
                    values[column * half + i % half][(8 * matrix + row) % LANES] = *tag;
                }
            }
        }
        self.store(fragments, step, access, &values);
    }

    /// Which register and grain an access of a `wmma.load` or `wmma.store` is about.
    fn piece(&mut self, fragments: &Fragments, access: &Access<'_>) -> (usize, usize, usize) {
        let piece = &mut Self::warp(&mut self.warps, access.warp, &fragments.plan).piece;
        let bytes = access.memory.bytes.clamp(1, 4);
        let (index, grains) = (piece.0, at(bytes / fragments.plan.grain).max(1));
        piece.1 |= access.lanes;
        if piece.1 == u32::MAX {
            *piece = (index + 1, 0);
        }
        let per = at(4 / bytes);
        (index / per, index % per * grains, grains)
    }

    fn load_piece(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>) {
        let (register, first, grains) = self.piece(fragments, access);
        let mut tags = [0; 4];
        let to = step.to.get(register).copied().flatten();
        let rows = &Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        let mut values = [NONE; 4];
        let count = at(4 / fragments.plan.grain);
        for (i, value) in values.iter_mut().enumerate().take(count) {
            *value = *rows.grain(to, i);
        }
        let (pitch, element) = Self::warp(&mut self.warps, access.warp, &fragments.plan).pitch;
        for lane in lanes_of(access.lanes) {
            let address = access.address(lane);
            self.recall(fragments, step, access.memory.space, address, &mut tags[..grains]);
            if access.memory.space == Space::Shared && step.steady {
                self.loads.load(address, access.memory.bytes, self.shared_bytes);
                // The first row or the first column of the fragment.
                let edge = register == 0 && first == 0 && (lane % 4 == 0 || lane < 4);
                if edge && element > 1 && is_element(tags[0]) {
                    let mut there = |address: u64| {
                        let mut tag = [LOST];
                        self.recall(fragments, step, access.memory.space, address, &mut tag);
                        tag[0]
                    };
                    let inside = address + u64::from(pitch / element);
                    let (next, between) = (there(address + u64::from(pitch)), there(inside));
                    let (pc, here, warp) = (access.pc, tags[0], access.warp);
                    let skip = Skip { pc, here, next, between, pitch, warp };
                    self.loads.stride(&fragments.sources, skip, inside);
                }
            }
            for (value, tag) in values.iter_mut().skip(first).zip(&tags[..grains]) {
                value[lane] = *tag;
            }
        }
        let rows = &mut Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        rows.put(to, &values[..count], access.lanes, Some(access.pc));
    }

    fn store_piece(&mut self, fragments: &Fragments, step: &Step, access: &Access<'_>) {
        let (register, first, grains) = self.piece(fragments, access);
        let from = step.from.get(register).copied().flatten();
        let rows = &Self::warp(&mut self.warps, access.warp, &fragments.plan).rows;
        let values: Vec<Lanes> = (first..first + grains).map(|i| *rows.grain(from, i)).collect();
        self.store(fragments, step, access, &values);
    }

    fn multiply(
        &mut self,
        raw_findings: &mut RawFindings,
        product: &Product<'_>,
        exec: u32,
        values: &mut dyn Values,
    ) {
        let Product { context, fragments, step, shape, pc, .. } = *product;
        let State { block, warps, lines, doubtful, .. } = self;
        let warp = Self::warp(warps, product.warp, &fragments.plan);
        let grains = at(4 / fragments.plan.grain);
        if exec != u32::MAX {
            step.to.iter().for_each(|to| warp.rows.put(*to, &[[LOST; 32]; 4][..grains], exec, None));
            return;
        }
        let (a, rest) = step.from.split_at(shape.a.min(step.from.len()));
        let (b, c) = rest.split_at(shape.b.min(rest.len()));
        let judged_a = warp.judge(fragments, lines, shape, Operand::A, a);
        let judged_b = warp.judge(fragments, lines, shape, Operand::B, b);
        let seen = report::Seen {
            context,
            sources: &fragments.sources,
            block: *block,
            warp: product.warp,
            pc,
            shape,
        };
        for (operand, judged, other, from) in
            [(Operand::A, &judged_a, &judged_b, a), (Operand::B, &judged_b, &judged_a, b)]
        {
            if let (Some(wrong), false) = (&judged.wrong, other.constant) {
                let origin = from.iter().find_map(|row| warp.rows.origin(*row));
                seen.misplaced(raw_findings, operand, wrong, origin);
            }
            if let (Some(mixed), false) = (&judged.mixed, other.constant) {
                seen.mixed(raw_findings, lines, operand, mixed);
            }
        }
        let mut contradicted = false;
        if let (Some(along_a), Some(along_b)) = (&judged_a.along, &judged_b.along)
            && let Some(k) = contradict(&along_a.2, &along_b.2)
        {
            seen.other_order(raw_findings, along_a, along_b, k);
            contradicted = true;
        }
        let mut zero = |first, count| values.answer(Question::AllZero { first, count }) != 0;
        // A tile of zeros adds nothing, whatever its position.
        let nothing =
            (judged_a.constant && zero(0, shape.a)) || (judged_b.constant && zero(shape.a, shape.b));
        let mut operands = Accumulators { values, shape, c, grains };
        let line = |lines: &[u32], i: usize| lines.get(i).copied().unwrap_or(0);
        let before = warp.rows.chain(c.first().copied().flatten());
        let (mut fresh, mut same) = (true, true);
        let mut added = Vec::new();
        for (register, to) in step.to.iter().enumerate() {
            let mut values = [NONE; 4];
            let elements = if shape.packed.1 { 2 } else { 1 };
            for (grain, value) in values.iter_mut().enumerate().take(grains) {
                let element = register * elements + grain * elements / grains;
                let before = operands.tags(&warp.rows, element);
                if nothing {
                    *value = before;
                    continue;
                }
                for (lane, out) in value.iter_mut().enumerate() {
                    let (row, column) = place_c(shape.m, shape.n, element, lane);
                    let tag = sum(line(&judged_a.lines, row), line(&judged_b.lines, column));
                    let c = before[lane];
                    fresh &= c == 0 || is_element(c);
                    same &= c == tag && is_sum(c);
                    if judged_a.of_sums && c != tag {
                        added.push((c, tag));
                    }
                    *out = if c == 0 || c == tag || is_element(c) { tag } else { LOST };
                }
            }
            warp.rows.put(*to, &values[..grains], u32::MAX, Some(pc));
        }
        if let Some((before, now)) = pairing::rows_exchanged(&added) {
            seen.exchanged(raw_findings, lines, before, now);
        }
        let before = match (nothing, fresh, same) {
            (true, ..) => return step.to.iter().for_each(|to| warp.rows.set_chain(*to, before)),
            (_, true, _) => Before::Zero,
            (_, _, true) => Before::Chain(before),
            _ => Before::Other,
        };
        if judged_a.window.is_some() || judged_b.window.is_some() {
            let windows = [judged_a.window.clone(), judged_b.window.clone()];
            let number = warp.rows.chain(c.first().copied().flatten());
            let (sum, overlap) = warp.windows.add(number, fresh, windows);
            step.to.iter().for_each(|to| warp.rows.set_chain(*to, sum));
            match overlap {
                Some((0, overlap)) => seen.overlap(raw_findings, Operand::A, &overlap, &judged_b),
                Some((_, overlap)) => seen.overlap(raw_findings, Operand::B, &overlap, &judged_a),
                None => {}
            }
            return;
        }
        let again = |again| {
            *doubtful = true;
            report::again(&fragments.sources, raw_findings, &again);
        };
        let extent = |(buffer, index)| fragments.sources.extent(buffer, index);
        let (chain, apart) = warp.chains.add(before, (&judged_a, &judged_b), pc, extent, again);
        step.to.iter().for_each(|to| warp.rows.set_chain(*to, chain));
        *doubtful |= apart.is_some();
        if let (Some(apart), false) = (apart, contradicted) {
            seen.apart(raw_findings, &apart, judged_a.of_sums);
        }
    }

    /// Bytes of shadow state for shared memory.
    pub(super) fn bytes(&self) -> usize {
        self.shared.len() * size_of::<Tag>()
    }

    /// Reports what is known only at the end of the block: sums, skipped rows and stores.
    pub(super) fn finish(&self, context: &Context, fragments: &Fragments, raw_findings: &mut RawFindings) {
        let sources = &fragments.sources;
        for again in self.warps.iter().flatten().flat_map(|warp| warp.chains.finish()) {
            report::again(sources, raw_findings, &again);
        }
        for skip in self.loads.finish() {
            report::skipped(sources, self.block, raw_findings, &skip);
        }
        report::stores(context, sources, &self.lines, self.block, self.stored.clone(), raw_findings);
    }
}

/// An access to memory of some lanes of a warp.
struct Access<'e> {
    warp: u32,
    pc: u32,
    lanes: u32,
    memory: Memory<'e>,
}

impl Access<'_> {
    /// The address of a lane; 0 if tags do not depend on it.
    fn address(&self, lane: usize) -> u64 {
        self.memory.addresses.map_or(0, |addresses| addresses[lane % LANES])
    }
}

/// A matrix instruction that a warp executes.
#[derive(Clone, Copy)]
struct Product<'p> {
    context: &'p Context,
    fragments: &'p Fragments,
    step: &'p Step,
    shape: Shape,
    warp: u32,
    pc: u32,
}

/// The accumulators that a matrix instruction adds to.
struct Accumulators<'m> {
    values: &'m mut dyn Values,
    shape: Shape,
    c: &'m [Option<u32>],
    grains: usize,
}

impl Accumulators<'_> {
    /// The tags of an element of C. A zero starts a new sum, whatever its tag.
    fn tags(&mut self, rows: &Rows, element: usize) -> Lanes {
        let packed = self.shape.packed.0;
        let (register, grain) =
            if packed { (element / 2, element % 2 * self.grains / 2) } else { (element, 0) };
        let mut tags = *rows.grain(self.c.get(register).copied().flatten(), grain);
        if tags.contains(&LOST) {
            let register = self.shape.a + self.shape.b + register;
            let zeros =
                self.values.answer(Question::Zeros { register, high: !element.is_multiple_of(2), packed });
            for (lane, tag) in tags.iter_mut().enumerate() {
                if *tag == LOST && zeros >> lane & 1 != 0 {
                    *tag = 0;
                }
            }
        }
        tags
    }
}

impl Warp {
    /// Evaluates the tags of an operand; cached until one of its registers changes.
    fn judge(
        &mut self,
        fragments: &Fragments,
        lines: &mut Lines,
        shape: Shape,
        operand: Operand,
        registers: &[Option<u32>],
    ) -> Judged {
        let Some(first) = registers.first().copied().flatten() else { return Judged::default() };
        let print = self.rows.fingerprint(registers).wrapping_add(u64::from(operand == Operand::A));
        if let Some((known, judged)) = self.judged.get(&first)
            && *known == print
        {
            return judged.clone();
        }
        let tags = table(&self.rows, fragments.plan.grain, shape, operand, registers);
        let outer = if operand == Operand::A { shape.m } else { shape.n };
        let packed = || in_lane_order(&tags, shape, operand);
        let judged =
            Table { tags: &tags, lines: outer, ks: shape.k }.judge(&fragments.sources, lines, packed);
        self.judged.insert(first, (print, judged.clone()));
        judged
    }
}

/// The row (or column, of B) and the first k of what a lane holds in a register.
pub(crate) fn place(shape: Shape, operand: Operand, register: usize, lane: usize) -> (usize, usize) {
    match operand {
        Operand::A => place_a_of(shape.per, shape.m, shape.k, register, lane),
        Operand::B => {
            let (k, column) = place_b_of(shape.per, shape.k, register, lane);
            (column, k)
        }
    }
}

/// Registers of an operand that hold different elements.
pub(crate) fn registers_of(shape: Shape, operand: Operand) -> usize {
    let outer = if operand == Operand::A { shape.m } else { shape.n };
    outer / 8 * (shape.k / (4 * shape.per))
}

/// The tags of an operand, a line for each row of A or column of B.
fn table(rows: &Rows, grain: u32, shape: Shape, operand: Operand, registers: &[Option<u32>]) -> Vec<Tag> {
    let outer = if operand == Operand::A { shape.m } else { shape.n };
    let mut tags = vec![0; outer * shape.k];
    let grains = at(4 / grain) / shape.per;
    for (register, row) in registers.iter().enumerate().take(registers_of(shape, operand)) {
        if !rows.live(*row) {
            continue;
        }
        for element in 0..shape.per {
            let first = rows.grain(*row, element * grains);
            let last = rows.grain(*row, (element + 1) * grains - 1);
            for lane in 0..LANES {
                let (line, k) = place(shape, operand, register, lane);
                let tag = if first[lane] == last[lane] { first[lane] } else { LOST };
                if let Some(out) = tags.get_mut(line * shape.k + k + element) {
                    *out = tag;
                }
            }
        }
    }
    tags
}

/// Whether a matrix was stored in the order in which lanes hold it, so that its extents are meaningless.
fn in_lane_order(tags: &[Tag], shape: Shape, operand: Operand) -> bool {
    let least = tags.iter().copied().min().unwrap_or(0);
    let each = tags.len() / LANES;
    (0..registers_of(shape, operand)).all(|register| {
        (0..LANES).all(|lane| {
            let (line, k) = place(shape, operand, register, lane);
            let tag = tags.get(line * shape.k + k).copied().unwrap_or(0);
            usize::try_from(tag - least.min(tag)).unwrap_or(0) / each.max(1) == lane
        })
    })
}
