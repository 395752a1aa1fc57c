//! Lanes of a warp that synchronize in a `.sync` instruction although each executes its own copy of it.
//!
//! The manual lets a thread wait until every thread of its member mask has executed the instruction with the same
//! qualifiers and the same mask; it does not require the same program counter. So the two sides of a branch may each
//! contain a copy of a `shfl.sync` that occurs once in the source, and so may two functions. Lanes at one program counter
//! synchronize by joining into one subwarp; this module handles lanes that cannot join.

use super::{LANES, Row, Wait, Warp, Width, at, lanes_of};
use crate::isa::{Args, Op};
use crate::observe::Detail;
use crate::program::Inst;

/// A source operand for every lane, each from the copy that the lane executes.
enum Source {
    W32(Row<u32>),
    W64(Row<u64>),
    Pred(u32),
}

impl<'a> Warp<'a, '_> {
    /// Executes the instruction at which subwarps wait, for the lanes whose mask is complete when all copies of the
    /// instruction are combined. Returns whether there were any.
    pub(super) fn meet_apart(&mut self) -> bool {
        let waiting: Vec<(usize, &'a Op)> = (0..)
            .zip(&self.state.parked)
            .filter(|(_, subwarp)| matches!(subwarp.wait, Wait::Lanes(_)))
            .filter_map(|(i, subwarp)| Some((i, self.meeting_point(subwarp.pc)?)))
            .collect();
        let mut met = false;
        for (first, (_, instruction)) in waiting.iter().enumerate() {
            let copies: Vec<usize> =
                waiting.iter().filter(|(_, other)| other == instruction).map(|(i, _)| *i).collect();
            if copies.len() > 1 && copies[0] == waiting[first].0 {
                met |= self.meet_in(&copies);
            }
        }
        met
    }

    /// The instruction at `pc`, if lanes meet in it by a member mask; that is its last operand then. Copies that are equal are the
    /// same instruction to the manual.
    fn meeting_point(&self, pc: u32) -> Option<&'a Op> {
        let meta = self.grid.program.metas.get(at(pc)).filter(|meta| !meta.sources.is_empty())?;
        Some(&meta.op)
    }

    /// Rows of the sources of a copy, as positions in its operands.
    fn sources(&self, pc: u32) -> Option<(&'a Inst, std::ops::Range<usize>)> {
        let program = self.grid.program;
        let (inst, meta) = (program.code.get(at(pc))?, program.metas.get(at(pc))?);
        let all = inst.args.all.len();
        Some((inst, all.checked_sub(meta.sources.len())?..all))
    }

    /// Executes copies of one instruction together, for the lanes whose mask they complete. `copies` are waiting
    /// subwarps.
    fn meet_in(&mut self, copies: &[usize]) -> bool {
        let places: Vec<(u32, u32)> =
            copies.iter().map(|&i| (self.state.parked[i].pc, self.state.parked[i].mask)).collect();
        let Some(sources) = self.combine(&places) else { return false };
        let Some(Source::W32(masks)) = sources.last() else { return false };
        let masks = *masks;
        let present = places.iter().fold(0, |lanes, (_, mask)| lanes | mask);
        let complete = |lane: usize| {
            let mask = masks.0[lane];
            mask & !(present | self.state.exited) == 0
                && lanes_of(mask & present).all(|other| masks.0[other] == mask)
        };
        let ready = lanes_of(present).filter(|&lane| complete(lane)).fold(0, |ready, lane| ready | 1 << lane);
        if ready == 0 {
            return false;
        }
        let members = Row(std::array::from_fn::<u32, LANES, _>(|lane| masks.0[lane] & present));
        for (&i, (pc, mask)) in copies.iter().zip(places) {
            let Some((inst, range)) = self.sources(pc).filter(|_| mask & ready != 0) else { continue };
            self.exec = mask & ready;
            self.pc = pc;
            self.state.meeting = Some(Box::new(members));
            self.run_with(inst, range.start, &sources);
            self.state.meeting = None;
            self.state.clock += 1;
            if self.watch.as_deref().is_some_and(|watch| watch.detail() == Detail::Stretches) {
                let lanes = mask & ready;
                self.told_stretch(pc, pc + 1, lanes);
                if inst.guard.is_some() {
                    self.told_guarded(pc, lanes, lanes);
                }
            }
            let subwarp = &mut self.state.parked[i];
            let mut through = subwarp.clone();
            subwarp.mask &= !ready;
            through.mask &= ready;
            through.pc += 1;
            through.wait = Wait::None;
            if subwarp.mask == 0 {
                *subwarp = through;
            } else {
                self.state.parked.push(through);
            }
        }
        true
    }

    /// The sources of an instruction whose copies are executed at `places`, each with its lanes.
    fn combine(&self, places: &[(u32, u32)]) -> Option<Vec<Source>> {
        let (_, first) = self.sources(places.first()?.0)?;
        let regs = &self.state.regs;
        let mut combined = Vec::new();
        for k in 0..first.len() {
            let mut source = match self.grid.program.metas[at(places[0].0)].sources[k] {
                Width::W32 => Source::W32(Row([0; LANES])),
                Width::W64 => Source::W64(Row([0; LANES])),
                Width::Pred => Source::Pred(0),
                Width::W128 => return None,
            };
            for (pc, mask) in places {
                let (inst, range) = self.sources(*pc)?;
                let position = range.start + k;
                let row = at(*inst.args.all.get(position).filter(|_| range.len() == first.len())?);
                match &mut source {
                    Source::W32(out) => lanes_of(*mask).for_each(|lane| out.0[lane] = regs.w32[row].0[lane]),
                    Source::W64(out) => lanes_of(*mask).for_each(|lane| out.0[lane] = regs.w64[row].0[lane]),
                    Source::Pred(out) => *out |= self.pred_arg(&inst.args, position) & mask,
                }
            }
            combined.push(source);
        }
        Some(combined)
    }

    /// Executes an instruction with replaced sources, which get temporary rows after the registers.
    fn run_with(&mut self, inst: &Inst, first: usize, sources: &[Source]) {
        let mut args: Args = inst.args.clone();
        let regs = &mut self.state.regs;
        let lengths = (regs.w32.len(), regs.w64.len(), regs.preds.len());
        for (position, source) in (first..).zip(sources) {
            let row = match source {
                Source::W32(row) => {
                    regs.w32.push(*row);
                    regs.w32.len() - 1
                }
                Source::W64(row) => {
                    regs.w64.push(*row);
                    regs.w64.len() - 1
                }
                Source::Pred(bits) => {
                    // Already negated if the copy requires that.
                    args.not &= !Args::negation(position);
                    regs.preds.push(*bits);
                    regs.preds.len() - 1
                }
            };
            let row = u32::try_from(row).unwrap_or(0);
            args.all[position] = row;
            if let Some(slot) = args.o.get_mut(position) {
                *slot = row;
            }
        }
        // With a complete mask, it neither waits nor stops.
        let _next = (inst.run)(self, &args);
        let regs = &mut self.state.regs;
        regs.w32.truncate(lengths.0);
        regs.w64.truncate(lengths.1);
        regs.preds.truncate(lengths.2);
    }
}
