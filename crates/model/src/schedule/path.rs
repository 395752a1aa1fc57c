//! Which successor a warp takes at a branch.

use crate::sass::{BlockId, End, Flow, Frequencies};

/// Decides the path of warps.
pub trait Path {
    /// The index of the successor that `warp` takes out of `block`.
    fn next(&mut self, warp: u32, block: BlockId) -> usize;

    /// The join of both successors of `block`, if `warp` now takes one after the other (divergence).
    fn splits(&mut self, _warp: u32, _block: BlockId) -> Option<BlockId> {
        None
    }
}

/// Takes each edge as often as counted, spread evenly over warps.
///
/// At the back edge of a loop, a warp stays in the loop first, so every warp makes the average number of
/// iterations. At any other branch the warps alternate, in the order of their indices.
#[derive(Clone, Debug)]
pub struct Ratios {
    /// For each block with a choice: how often the preferred successor was taken, out of how many executions.
    choices: Vec<Option<Choice>>,
    /// How often each warp executed each block.
    visits: Vec<Vec<u64>>,
    /// The same, for blocks at which warps may diverge.
    parted: Vec<u64>,
    /// For each block: how often warps diverged, out of how many executions, and the join.
    splits: Vec<Option<(u64, u64, BlockId)>>,
    warps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    first: usize,
    taken: u64,
    all: u64,
    leaves_loop: bool,
}

impl Ratios {
    /// The paths of `warps` warps.
    pub fn new(flow: &Flow, frequencies: &Frequencies, warps: u32) -> Self {
        let choice = |id: BlockId| {
            let block = flow.blocks.get(id)?;
            let edges = frequencies.edges.get(id)?;
            let [a, b] = edges.as_slice() else { return None };
            if block.ends != End::Choice {
                return None;
            }
            // Divergent warps take both successors and are not part of the choice.
            let both =
                frequencies.splits.iter().find(|split| split.block == id).map_or(0, |split| split.times);
            let (a, b) = (&a.saturating_sub(both), &b.saturating_sub(both));
            let all = a.saturating_add(*b);
            let innermost = flow.loop_of(id).and_then(|l| flow.loops.get(l));
            let stays = |slot: usize| {
                let to = block.successors.get(slot).copied().flatten();
                innermost.is_some_and(|l| to.is_some_and(|to| l.blocks.binary_search(&to).is_ok()))
            };
            let leaves_loop = innermost.is_some() && stays(0) != stays(1);
            let first = if leaves_loop { usize::from(!stays(0)) } else { usize::from(b > a) };
            Some(Choice { first, taken: if first == 0 { *a } else { *b }, all, leaves_loop })
        };
        let choices: Vec<Option<Choice>> = (0..flow.blocks.len()).map(choice).collect();
        let count = usize::try_from(warps).unwrap_or(0);
        let mut splits = vec![None; choices.len()];
        for split in &frequencies.splits {
            if let Some(slot) = splits.get_mut(split.block) {
                let all = frequencies.blocks.get(split.block).copied().unwrap_or(0);
                *slot = Some((split.times.min(all), all, split.join));
            }
        }
        Self {
            parted: vec![0; choices.len()],
            splits,
            visits: vec![vec![0; choices.len()]; count],
            choices,
            warps: u64::from(warps),
        }
    }
}

impl Path for Ratios {
    fn splits(&mut self, _: u32, block: BlockId) -> Option<BlockId> {
        let (times, all, join) = self.splits.get(block).copied().flatten()?;
        let before = self.parted.get_mut(block)?;
        *before += 1;
        let share = |n: u64| u128::from(n) * u128::from(times) / u128::from(all.max(1));
        (share(*before) > share(*before - 1)).then_some(join)
    }

    fn next(&mut self, warp: u32, block: BlockId) -> usize {
        let Some(Some(choice)) = self.choices.get(block) else { return 0 };
        let index = usize::try_from(warp).unwrap_or(usize::MAX);
        let Some(visit) = self.visits.get_mut(index).and_then(|blocks| blocks.get_mut(block)) else {
            return 0;
        };
        let before =
            if choice.leaves_loop { *visit } else { visit.saturating_mul(self.warps) + u64::from(warp) };
        *visit += 1;
        // Of the first n executions, ceil(n * taken / all) took the preferred successor.
        let share =
            |n: u64| (u128::from(n) * u128::from(choice.taken)).div_ceil(u128::from(choice.all.max(1)));
        if share(before + 1) > share(before) { choice.first } else { 1 - choice.first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse;
    use std::fmt::Write as _;

    #[test]
    fn loops_turn_as_often_as_counted_and_branches_alternate() {
        let mut text = ".section .text.k,\"ax\"\n".to_owned();
        let lines = ["MOV R0, R1", "L1:", "@P0 BRA `(L2)", "FADD R1, R1, R1", "L2:", "@P1 BRA `(L1)", "EXIT"];
        let mut offset = 0;
        for line in lines {
            if line.ends_with(':') {
                writeln!(text, "{line}").unwrap();
            } else {
                writeln!(text, "/*{offset:04x}*/ {line} ; /* 0x0 */\n/* 0x000fe20000000000 */").unwrap();
                offset += 16;
            }
        }
        let function = parse(&text).unwrap().remove(0);
        let flow = Flow::new(&function);
        // 4 warps, 10 iterations each; every fourth skips the addition.
        let frequencies = flow.solve(4, &[None, Some(40), Some(30), None, None]).unwrap();
        let mut path = Ratios::new(&flow, &frequencies, 4);
        let mut skipped = 0;
        for warp in 0..4 {
            let mut turns = 0;
            loop {
                turns += 1;
                skipped += usize::from(path.next(warp, 1) == 0);
                if path.next(warp, 3) == 1 {
                    break;
                }
            }
            assert_eq!(turns, 10);
        }
        assert_eq!(skipped, 10);
        assert_eq!(path.next(9, 1), 0);
    }
}
