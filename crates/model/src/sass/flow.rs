//! Basic blocks of a function, its loops, and how often each edge is taken.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

use super::text::{Function, Instruction};

/// A basic block, as an index into [`Flow::blocks`].
pub type BlockId = usize;

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Continues in one block, by fall-through or jump.
    One,
    /// A conditional branch to one of two blocks, or a conditional exit.
    Choice,
    /// A call of a routine that returns to the next block.
    Call,
    /// The warp exits, or a routine returns.
    Leave,
    /// A jump to a computed address.
    Unknown,
}

/// Instructions that execute one after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The first instruction.
    pub first: usize,
    /// One past the last instruction.
    pub end: usize,
    /// How it ends.
    pub ends: End,
    /// Its successors; `None` is the end of the warp or of a routine. For a call: the routine, then the
    /// return block.
    pub successors: Vec<Option<BlockId>>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// The block through which the loop is entered.
    pub header: BlockId,
    /// Its blocks, ascending, including those of inner loops.
    pub blocks: Vec<BlockId>,
    /// The innermost enclosing loop, as an index into [`Flow::loops`].
    pub parent: Option<usize>,
}

/// Why a count is uncertain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uncertain(pub String);

impl fmt::Display for Uncertain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Uncertain {}

/// The blocks and loops of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// In the order of their addresses; the first is the entry.
    pub blocks: Vec<Block>,
    /// Whether the block is reachable from the entry.
    pub reachable: Vec<bool>,
    /// Outer before inner, then by header.
    pub loops: Vec<Loop>,
}

/// The known counts of blocks, and of the successors of each.
pub(super) type Partial = (Vec<Option<u64>>, Vec<Vec<Option<u64>>>);

/// How often blocks are executed and edges are taken, summed over all warps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frequencies {
    /// Count of each block.
    pub blocks: Vec<u64>,
    /// Count of each successor of each block.
    pub edges: Vec<Vec<u64>>,
    /// Branches at which warps diverged.
    pub splits: Vec<Split>,
}

/// A branch at which some warps take both successors, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The block that ends in the branch.
    pub block: BlockId,
    /// How often warps took both successors.
    pub times: u64,
    /// The block where both paths join.
    pub join: BlockId,
}

fn falls_through(instruction: &Instruction) -> bool {
    let conditional = instruction.is_guarded()
        || (instruction.base() == "BRA" && instruction.operands.iter().any(|o| !o.starts_with(['`', '0'])));
    match instruction.base() {
        "BRA" | "JMP" | "EXIT" | "RET" | "BRX" | "JMX" | "KILL" => conditional,
        _ => true,
    }
}

fn ends_block(base: &str) -> bool {
    matches!(base, "BRA" | "JMP" | "EXIT" | "RET" | "BRX" | "JMX" | "CALL" | "KILL")
}

impl Flow {
    /// Splits a function into blocks and finds its loops.
    pub fn new(function: &Function) -> Self {
        let code = &function.instructions;
        let mut leaders = BTreeSet::from([0]);
        for (index, instruction) in code.iter().enumerate() {
            if ends_block(instruction.base()) {
                leaders.insert(index + 1);
            }
            leaders.extend(instruction.target.filter(|_| instruction.base() != "BSSY"));
        }
        leaders.retain(|leader| *leader < code.len());
        let starts: Vec<usize> = leaders.into_iter().collect();
        let block_at = |instruction: usize| starts.partition_point(|start| *start <= instruction) - 1;
        let blocks: Vec<Block> = starts
            .iter()
            .enumerate()
            .map(|(id, first)| {
                let end = starts.get(id + 1).copied().unwrap_or(code.len());
                let next = (end < code.len()).then_some(id + 1);
                let last = &code[end - 1];
                let (ends, successors) = successors(code, last, next, &block_at);
                Block { first: *first, end, ends, successors }
            })
            .collect();
        let reachable = reachable(&blocks);
        let loops = loops(&blocks, &reachable);
        Self { blocks, reachable, loops }
    }

    /// The block of an instruction.
    pub fn block_of(&self, instruction: usize) -> BlockId {
        self.blocks.partition_point(|block| block.first <= instruction).saturating_sub(1)
    }

    /// For each block, the block where all paths out of it join, if they join before the end of the warp.
    pub fn joins(&self) -> Vec<Option<BlockId>> {
        let count = self.blocks.len();
        // The blocks that every path from a block to the end contains (postdominators).
        let mut through = vec![vec![true; count]; count];
        let mut changed = true;
        while changed {
            changed = false;
            for id in (0..count).rev() {
                let mut met = vec![true; count];
                for to in &self.blocks[id].successors {
                    match to {
                        Some(to) => {
                            met.iter_mut().zip(&through[*to]).for_each(|(met, through)| *met &= through);
                        }
                        None => met.fill(false),
                    }
                }
                if self.blocks[id].successors.is_empty() {
                    met.fill(false);
                }
                met[id] = true;
                if through[id] != met {
                    through[id] = met;
                    changed = true;
                }
            }
        }
        let size = |id: BlockId| through[id].iter().filter(|on| **on).count();
        // The nearest postdominator is the one that is followed by the most others.
        (0..count)
            .map(|id| {
                (0..count)
                    .filter(|other| *other != id && through[id][*other])
                    .max_by_key(|other| size(*other))
            })
            .collect()
    }

    /// The innermost loop of a block, as an index into [`Flow::loops`].
    pub fn loop_of(&self, block: BlockId) -> Option<usize> {
        self.loops.iter().rposition(|l| l.blocks.binary_search(&block).is_ok())
    }

    /// Computes every count from the known counts and the number of warps that enter. A count that cannot be
    /// derived, or that contradicts another, is an error.
    pub fn solve(&self, entries: u64, known: &[Option<u64>]) -> Result<Frequencies, Uncertain> {
        let (counts, edges) = self.follow(entries, known)?;
        let mut solved = Frequencies::default();
        for (id, (count, out)) in counts.iter().zip(&edges).enumerate() {
            let out: Option<Vec<u64>> = out.iter().copied().collect();
            let (Some(count), Some(out)) = (count, out) else {
                return Err(Uncertain(format!(
                    "the count of the block at machine instruction {} does not follow from the measured counts",
                    self.blocks[id].first
                )));
            };
            solved.blocks.push(*count);
            solved.edges.push(out);
        }
        Ok(solved)
    }

    /// The counts of blocks and edges that follow from the known ones.
    pub(super) fn follow(&self, entries: u64, known: &[Option<u64>]) -> Result<Partial, Uncertain> {
        let mut counts: Vec<Option<u64>> = (0..self.blocks.len())
            .map(|id| if self.reachable[id] { known.get(id).copied().flatten() } else { Some(0) })
            .collect();
        let mut edges: Vec<Vec<Option<u64>>> = self
            .blocks
            .iter()
            .enumerate()
            .map(|(id, block)| vec![(!self.reachable[id]).then_some(0); block.successors.len()])
            .collect();
        let mut into: Vec<Vec<(BlockId, usize)>> = vec![Vec::new(); self.blocks.len()];
        for (from, block) in self.blocks.iter().enumerate() {
            if self.reachable[from] && block.ends == End::Unknown {
                let first = block.first;
                return Err(Uncertain(format!(
                    "the block at machine instruction {first} ends in a computed jump"
                )));
            }
            for (slot, to) in block.successors.iter().enumerate() {
                if let Some(to) = to {
                    into[*to].push((from, slot));
                }
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for id in (0..self.blocks.len()).filter(|id| self.reachable[*id]) {
                let slots = 0..self.blocks[id].successors.len();
                let out: Vec<Vec<(BlockId, usize)>> = if self.blocks[id].ends == End::Call {
                    slots.map(|slot| vec![(id, slot)]).collect()
                } else {
                    vec![slots.map(|slot| (id, slot)).collect()]
                };
                let base = if id == 0 { entries } else { 0 };
                let equations =
                    std::iter::once((base, &into[id])).chain(out.iter().map(|places| (0, places)));
                for (base, places) in equations {
                    changed |= balance(&mut counts[id], base, places, &mut edges)
                        .map_err(|()| self.unbalanced(id))?;
                }
            }
        }
        Ok((counts, edges))
    }

    fn unbalanced(&self, id: BlockId) -> Uncertain {
        Uncertain(format!(
            "the counts into and out of the block at machine instruction {} differ; its warps may diverge",
            self.blocks[id].first
        ))
    }
}

/// Enforces `count = base + sum of the edges` if one of them is unknown. Returns an error on a contradiction.
fn balance(
    count: &mut Option<u64>,
    base: u64,
    places: &[(BlockId, usize)],
    edges: &mut [Vec<Option<u64>>],
) -> Result<bool, ()> {
    let mut sum = base;
    let mut unknown = None;
    let mut unknowns = 0_usize;
    for (block, slot) in places {
        if let Some(edge) = edges[*block][*slot] {
            sum = sum.saturating_add(edge);
        } else {
            unknown = Some((*block, *slot));
            unknowns += 1;
        }
    }
    match (*count, unknown) {
        (Some(count), None) => {
            if count == sum {
                Ok(false)
            } else {
                Err(())
            }
        }
        (None, None) => {
            *count = Some(sum);
            Ok(true)
        }
        (Some(count), Some((block, slot))) if unknowns == 1 => {
            edges[block][slot] = Some(count.checked_sub(sum).ok_or(())?);
            Ok(true)
        }
        // The unknown edges must be zero.
        (Some(count), Some(_)) if count == sum => {
            for (block, slot) in places {
                edges[*block][*slot].get_or_insert(0);
            }
            Ok(true)
        }
        (Some(count), _) if sum > count => Err(()),
        _ => Ok(false),
    }
}

fn successors(
    code: &[Instruction],
    last: &Instruction,
    next: Option<BlockId>,
    block_at: &dyn Fn(usize) -> BlockId,
) -> (End, Vec<Option<BlockId>>) {
    let target = last.target.map(block_at);
    let falls = falls_through(last);
    match last.base() {
        "BRA" | "JMP" => match (target, falls) {
            (Some(target), false) => (End::One, vec![Some(target)]),
            (Some(target), true) if Some(target) == next => (End::One, vec![next]),
            (Some(target), true) => (End::Choice, vec![Some(target), next]),
            (None, _) => (End::Unknown, Vec::new()),
        },
        "BRX" | "JMX" => (End::Unknown, Vec::new()),
        "EXIT" | "KILL" | "RET" if falls => (End::Choice, vec![None, next]),
        "EXIT" | "KILL" | "RET" => (End::Leave, vec![None]),
        "CALL" => match last.target {
            Some(at) if returns(code, at) && last.is_guarded() => (End::Unknown, Vec::new()),
            Some(at) if returns(code, at) => (End::Call, vec![Some(block_at(at)), next]),
            // ptxas also uses calls that never return for far jumps.
            Some(at) if last.is_guarded() => (End::Choice, vec![Some(block_at(at)), next]),
            Some(at) => (End::One, vec![Some(block_at(at))]),
            None => (End::Unknown, Vec::new()),
        },
        _ => (End::One, vec![next]),
    }
}

/// Whether a routine at `start` returns before it exits, following fall-through and jumps.
fn returns(code: &[Instruction], start: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        let Some(instruction) = code.get(at) else { continue };
        if !seen.insert(at) {
            continue;
        }
        match instruction.base() {
            "RET" => return true,
            "BRA" | "JMP" => open.extend(instruction.target),
            _ => {}
        }
        if falls_through(instruction) {
            open.push(at + 1);
        }
    }
    false
}

fn reachable(blocks: &[Block]) -> Vec<bool> {
    let mut seen = vec![false; blocks.len()];
    let mut open = if blocks.is_empty() { Vec::new() } else { vec![0] };
    while let Some(id) = open.pop() {
        if !std::mem::replace(&mut seen[id], true) {
            open.extend(blocks[id].successors.iter().flatten());
        }
    }
    seen
}

/// The immediate dominators, by the algorithm of Cooper, Harvey and Kennedy.
fn dominators(blocks: &[Block], order: &[BlockId], into: &[Vec<BlockId>]) -> Vec<Option<BlockId>> {
    let mut rank = vec![usize::MAX; blocks.len()];
    for (index, id) in order.iter().enumerate() {
        rank[*id] = index;
    }
    let mut dominator: Vec<Option<BlockId>> = vec![None; blocks.len()];
    if let Some(first) = order.first() {
        dominator[*first] = Some(*first);
    }
    let mut changed = true;
    while changed {
        changed = false;
        for id in order.iter().skip(1) {
            let mut common: Option<BlockId> = None;
            for from in into[*id].iter().filter(|from| dominator[**from].is_some()) {
                common = Some(match common {
                    None => *from,
                    Some(other) => meet(*from, other, &dominator, &rank),
                });
            }
            if dominator[*id] != common {
                dominator[*id] = common;
                changed = true;
            }
        }
    }
    dominator
}

fn meet(mut a: BlockId, mut b: BlockId, dominator: &[Option<BlockId>], rank: &[usize]) -> BlockId {
    while a != b {
        if rank[a] > rank[b] {
            a = dominator[a].unwrap_or(b);
        } else {
            b = dominator[b].unwrap_or(a);
        }
    }
    a
}

fn loops(blocks: &[Block], reachable: &[bool]) -> Vec<Loop> {
    let mut into: Vec<Vec<BlockId>> = vec![Vec::new(); blocks.len()];
    for (from, block) in blocks.iter().enumerate().filter(|(from, _)| reachable[*from]) {
        for to in block.successors.iter().flatten() {
            into[*to].push(from);
        }
    }
    let order = reverse_postorder(blocks);
    let dominator = dominators(blocks, &order, &into);
    let dominates = |a: BlockId, mut b: BlockId| loop {
        if a == b {
            return true;
        }
        match dominator[b] {
            Some(up) if up != b => b = up,
            _ => return false,
        }
    };
    let mut found: Vec<(BlockId, BTreeSet<BlockId>)> = Vec::new();
    for header in 0..blocks.len() {
        let latches: Vec<BlockId> =
            into[header].iter().copied().filter(|from| dominates(header, *from)).collect();
        if latches.is_empty() {
            continue;
        }
        let mut body = BTreeSet::from([header]);
        let mut open = latches;
        while let Some(id) = open.pop() {
            if body.insert(id) {
                open.extend(&into[id]);
            }
        }
        found.push((header, body));
    }
    found.sort_by_key(|(header, body)| (std::cmp::Reverse(body.len()), *header));
    (0..found.len())
        .map(|index| {
            let (header, body) = &found[index];
            let parent =
                found[..index].iter().rposition(|(other, around)| other != header && around.contains(header));
            Loop { header: *header, blocks: body.iter().copied().collect(), parent }
        })
        .collect()
}

fn reverse_postorder(blocks: &[Block]) -> Vec<BlockId> {
    let mut seen = vec![false; blocks.len()];
    let mut order = Vec::new();
    let mut open: Vec<(BlockId, usize)> = Vec::new();
    if !blocks.is_empty() {
        seen[0] = true;
        open.push((0, 0));
    }
    while let Some((id, slot)) = open.pop() {
        match blocks[id].successors.get(slot) {
            Some(next) => {
                open.push((id, slot + 1));
                if let Some(next) = next.filter(|next| !seen[*next]) {
                    seen[next] = true;
                    open.push((next, 0));
                }
            }
            None => order.push(id),
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse;
    use std::fmt::Write as _;

    /// A function of instructions without control bits; `L1:` is a label.
    pub(crate) fn function(lines: &[&str]) -> Function {
        let mut text = ".section .text.k,\"ax\"\n".to_owned();
        let mut offset = 0;
        for line in lines {
            if line.ends_with(':') {
                writeln!(text, "{line}").unwrap();
            } else {
                writeln!(
                    text,
                    "/*{offset:04x}*/ {line} ; /* 0x0000000000000000 */\n/* 0x000fe20000000000 */"
                )
                .unwrap();
                offset += 16;
            }
        }
        parse(&text).unwrap().remove(0)
    }

    fn nested() -> Flow {
        Flow::new(&function(&[
            "MOV R1, R2",
            "OUTER:",
            "MOV R3, R4",
            "INNER:",
            "FFMA R5, R5, R5, R5",
            "@P0 BRA `(INNER)",
            "@P1 BRA `(OUTER)",
            "@P2 EXIT",
            "STG.E [R2.64], R5",
            "EXIT",
            "SELF:",
            "BRA `(SELF)",
        ]))
    }

    #[test]
    fn blocks_and_nested_loops() {
        let flow = nested();
        let bounds: Vec<(usize, usize)> = flow.blocks.iter().map(|b| (b.first, b.end)).collect();
        assert_eq!(bounds, [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8), (8, 9)]);
        assert_eq!(flow.reachable, [true, true, true, true, true, true, false]);
        let headers: Vec<(BlockId, usize, Option<usize>)> =
            flow.loops.iter().map(|l| (l.header, l.blocks.len(), l.parent)).collect();
        assert_eq!(headers, [(1, 3, None), (2, 1, Some(0))]);
        assert_eq!(flow.loop_of(2), Some(1));
        assert_eq!(flow.loop_of(3), Some(0));
        assert_eq!(flow.loop_of(4), None);
    }

    #[test]
    fn counts_follow_from_a_few() {
        let flow = nested();
        // 8 warps, 4 iterations of the outer loop, 16 of the inner; 2 warps exit early.
        let mut known = vec![None; 7];
        (known[1], known[2], known[5]) = (Some(32), Some(512), Some(6));
        let solved = flow.solve(8, &known).unwrap();
        assert_eq!(solved.blocks, [8, 32, 512, 32, 8, 6, 0]);
        assert_eq!(solved.edges[2], [480, 32]);
        assert_eq!(solved.edges[4], [2, 6]);
    }

    #[test]
    fn contradictions_and_gaps_are_said() {
        let flow = nested();
        assert!(flow.solve(8, &[None; 7]).unwrap_err().0.contains("does not follow"));
        let mut known = vec![None; 7];
        (known[0], known[1]) = (Some(9), Some(8));
        assert!(flow.solve(8, &known).unwrap_err().0.contains("differ; its warps may diverge"));
        known = vec![Some(8), Some(8), Some(8), Some(8), Some(8), Some(9), None];
        assert!(flow.solve(8, &known).unwrap_err().0.contains("differ; its warps may diverge"));
    }

    #[test]
    fn far_jumps_written_as_calls_are_jumps_and_routines_are_calls() {
        let flow = Flow::new(&function(&["@P0 CALL.REL.NOINC `(OUT)", "NOP", "OUT:", "EXIT"]));
        assert_eq!(flow.blocks[0].ends, End::Choice);
        let flow =
            Flow::new(&function(&["CALL.REL.NOINC `(ROUTINE)", "EXIT", "ROUTINE:", "RET.REL.NODEC R2"]));
        assert_eq!(flow.blocks[0].ends, End::Call);
        let solved = flow.solve(3, &[None; 3]).unwrap();
        assert_eq!(solved.blocks, [3, 3, 3]);
        let flow = Flow::new(&function(&["BRX R2 -0x10", "EXIT"]));
        assert_eq!(flow.blocks[0].ends, End::Unknown);
        assert!(flow.solve(1, &[None, None]).is_err());
    }
}
