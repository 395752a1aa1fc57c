//! Undefined values, which a shuffle read from a lane that does not take part. They are followed through the registers
//! of a warp until one affects memory, control flow or other lanes. A value that has no effect is dropped: the
//! unselected operand of a select, an operand masked by another predicate, a register that is overwritten. Calls are
//! not followed.

use super::context::Context;
use std::collections::BTreeMap;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{AND, Combine, Compare, Control, Logic, OR, Participants};
use warpproof_sim::machine::{Row, Width, at, lanes_of};
use warpproof_sim::observe::{Exchange, Issue};

/// The origin of an undefined value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The shuffle.
    pub pc: u32,
    /// The lane that read.
    pub lane: u32,
    /// The lane that it read from.
    pub source: u32,
    /// Whether the source lane had exited or never existed.
    pub exited: bool,
    /// The lanes of the reader's mask that took part.
    pub mask: Option<u32>,
}

/// What an undefined value affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A stored value, or the address of an access.
    Memory,
    /// Control flow.
    Branch,
    /// The values of other lanes, other than by a shuffle.
    Exchange,
}

/// Lanes of a register whose value is undefined.
#[derive(Clone, Copy, Debug)]
struct Stain {
    lanes: u32,
    origin: Origin,
}

/// The undefined registers of a block's warps.
#[derive(Debug, Default)]
pub(crate) struct Undefined {
    warps: BTreeMap<u32, BTreeMap<(Width, u32), Stain>>,
    /// Warps that have undefined registers, one bit each.
    holding: u32,
}

impl Undefined {
    /// Whether a warp has undefined registers.
    pub(crate) fn holds(&self, warp: u32) -> bool {
        self.holding >> (warp & 31) & 1 != 0
    }

    /// A shuffle: the lanes in `wrong` read from lanes that do not take part.
    pub(crate) fn shuffle(
        &mut self,
        context: &Context,
        exchange: &Exchange<'_>,
        sources: &Row<u32>,
        wrong: u32,
    ) {
        if wrong == 0 && !self.holds(exchange.warp) {
            return;
        }
        // Rows of a shuffle: result, predicate, value, lane, clamp, mask.
        let Some(inst) = context.program.code.get(at(exchange.pc)) else { return };
        let (to, from) = ((Width::W32, inst.args.o[0]), (Width::W32, inst.args.o[2]));
        let stains = self.warps.entry(exchange.warp).or_default();
        let given = stains.get(&from).copied();
        let handed = given.map_or(0, |stain| {
            lanes_of(exchange.lanes)
                .filter(|&lane| stain.lanes >> (sources.0[lane] & 31) & 1 != 0)
                .fold(0u32, |lanes, lane| lanes | 1 << lane)
        });
        let origin = match given {
            _ if wrong != 0 => {
                let lane = wrong.trailing_zeros();
                let source = sources.0[at(lane)];
                Origin {
                    pc: exchange.pc,
                    lane,
                    source,
                    exited: exchange.exited >> (source & 31) & 1 != 0,
                    mask: exchange.masks.map(|masks| masks.0[at(lane)]),
                }
            }
            Some(stain) => stain.origin,
            None => {
                self.write(exchange.warp, to, exchange.lanes, None);
                return;
            }
        };
        self.write(exchange.warp, to, exchange.lanes, Some(Stain { lanes: wrong | handed, origin }));
    }

    /// The `exec` lanes of a row are written; those in `stain` become undefined.
    fn write(&mut self, warp: u32, row: (Width, u32), exec: u32, stain: Option<Stain>) {
        let stains = self.warps.entry(warp).or_default();
        let kept = stains.get(&row).map_or(0, |old| old.lanes & !exec);
        let new = stain.map_or(0, |stain| stain.lanes & exec);
        match stain.or(stains.get(&row).copied()) {
            Some(any) if kept | new != 0 => {
                // A row keeps one origin for all its lanes; the latest explains it best.
                stains.insert(row, Stain { lanes: kept | new, origin: any.origin });
                self.holding |= 1 << (warp & 31);
            }
            _ => {
                stains.remove(&row);
                if stains.is_empty() {
                    self.holding &= !(1 << (warp & 31));
                }
            }
        }
    }

    fn clear(&mut self, warp: u32) {
        self.warps.remove(&warp);
        self.holding &= !(1 << (warp & 31));
    }

    /// An instruction of a warp that holds undefined values. If one of them has an effect now, returns its origin and
    /// the use.
    pub(crate) fn issue(&mut self, context: &Context, issue: &Issue<'_>) -> Option<(Origin, Use)> {
        let meta = context.program.metas.get(at(issue.pc))?;
        let stains = self.warps.get(&issue.warp)?;
        if !meta.reads.iter().chain(&meta.writes).any(|row| stains.contains_key(row)) {
            return None;
        }
        let effects = meta.op.effects();
        let used = match &meta.op {
            // Seen when the lanes meet.
            Op::Shuffle(_) => return None,
            Op::Call(_) | Op::Return => {
                self.clear(issue.warp);
                return None;
            }
            _ if effects.memory.is_some() => Some(Use::Memory),
            _ if effects.control != Control::Next => Some(Use::Branch),
            _ => match effects.participants {
                Participants::Lane | Participants::Active if !matches!(meta.op, Op::Vote { .. }) => None,
                Participants::Lane
                | Participants::Active
                | Participants::Members
                | Participants::Warp
                | Participants::Block
                | Participants::Cluster => Some(Use::Exchange),
            },
        };
        let mut lanes = 0;
        let mut origin = None;
        for row in &meta.reads {
            let Some(stain) = stains.get(row) else { continue };
            let here = stain.lanes & issue.exec & matters(context, issue, &meta.op, *row);
            if here != 0 {
                lanes |= here;
                origin.get_or_insert(stain.origin);
            }
        }
        if let (Some(used), Some(origin)) = (used, origin) {
            // Report once; everything else that the value reaches is the same bug.
            let stains = self.warps.entry(issue.warp).or_default();
            stains.retain(|_, stain| stain.origin != origin);
            if stains.is_empty() {
                self.holding &= !(1 << (issue.warp & 31));
            }
            return Some((origin, used));
        }
        for row in &meta.writes {
            self.write(issue.warp, *row, issue.exec, origin.map(|origin| Stain { lanes, origin }));
        }
        None
    }
}

/// The lanes in which an operand has a part in the result.
fn matters(context: &Context, issue: &Issue<'_>, op: &Op, row: (Width, u32)) -> u32 {
    let Some(inst) = context.program.code.get(at(issue.pc)) else { return u32::MAX };
    let regs = issue.registers;
    let predicate = |position: usize| {
        let bits = inst.args.all.get(position).and_then(|row| regs.preds.get(at(*row))).copied().unwrap_or(0);
        if inst.args.is_negated(position) { !bits } else { bits }
    };
    let operand = |position: usize| inst.args.all.get(position) == Some(&row.1);
    match op {
        // d, a, b, p
        Op::Select(_) if row.0 != Width::Pred => {
            let chosen = predicate(3);
            (if operand(1) { chosen } else { 0 }) | (if operand(2) { !chosen } else { 0 })
        }
        // d, a, b
        Op::Logic(Logic { table: table @ (AND | OR), sources: 2, .. }) if !(operand(1) && operand(2)) => {
            let other = if operand(1) { 2 } else { 1 };
            let open = match row.0 {
                Width::Pred => predicate(other),
                Width::W32 => {
                    let Some(values) = inst.args.all.get(other).and_then(|row| regs.w32.get(at(*row))) else {
                        return u32::MAX;
                    };
                    let outweighs = if *table == AND { 0 } else { u32::MAX };
                    let open = |lane: &usize| values.0[*lane] != outweighs;
                    let open = (0..32).filter(open).fold(0u32, |lanes, lane| lanes | 1 << lane);
                    return open;
                }
                _ => return u32::MAX,
            };
            if *table == AND { open } else { !open }
        }
        // d, q, a, b, c: a compare joined with a predicate, which is the last operand.
        Op::Compare(Compare { predicate: true, join: Some(join), .. }) if row.0 != Width::Pred => {
            let joined = predicate(inst.args.all.len() - 1);
            match join {
                Combine::And => joined,
                Combine::Or => !joined,
                _ => u32::MAX,
            }
        }
        _ => u32::MAX,
    }
}
