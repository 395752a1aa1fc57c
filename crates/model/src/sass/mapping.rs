//! The counts of a PTX run, given to the blocks of its machine code.
//!
//! With `-lineinfo`, ptxas says for each machine instruction the PTX line it was made from. A machine instruction that stands
//! for one PTX instruction (a load, a matrix product, a barrier, a branch) runs as often as its line, so its block does
//! too. Where every such line of a block in a loop is there `u` times, the loop was unrolled `u` times and its block runs a
//! `u`-th as often; where a line stands in two loops, the second does the turns left over from the first. All else follows
//! from what enters and leaves each block. What does not follow, or contradicts, is [`Uncertain`], and the caller has
//! bounds only.
//!
//! It can be wrong where ptxas copies a block in a way that is neither; the check that every line's copies add up to its
//! count finds most of that. Divergent warps run both sides of a branch, so what leaves a block is more than what
//! entered it: that is uncertain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::flow::{BlockId, Flow, Frequencies, Uncertain};
use super::text::{Function, Instruction};
use crate::schedule::Access;

/// The counts of blocks, and what had to be assumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// How often blocks run and edges are taken.
    pub frequencies: Frequencies,
    /// Blocks whose count is that of a line.
    pub anchored: usize,
    /// What was assumed, in words; empty if nothing was.
    pub assumed: Vec<String>,
}

/// How often each line's machine instructions stand in each block.
type Copies = BTreeMap<u32, BTreeMap<BlockId, u64>>;

/// Gives blocks the counts of a run.
///
/// `executions` says for each PTX line that holds one instruction how often warps came to it, whether its guard held or not;
/// `warps` is how many ran the kernel.
pub fn map(
    function: &Function,
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
) -> Result<Mapped, Uncertain> {
    if function.instructions.iter().all(|instruction| instruction.ptx_line.is_none()) {
        return Err(Uncertain("the machine code has no lines; ptxas needs -lineinfo".to_owned()));
    }
    let copies = copies(function, flow, executions);
    let mut known: Vec<Option<u64>> = vec![None; flow.blocks.len()];
    let mut assumed = Vec::new();
    single_blocks(flow, &copies, executions, &mut known, &mut assumed)?;
    let anchored = known.iter().flatten().count();
    loop {
        let (counts, _) = flow.follow(warps, &known)?;
        let before = known.iter().flatten().count();
        one_unknown(&copies, executions, &counts, &mut known)?;
        if known.iter().flatten().count() == before {
            left_over(flow, &copies, executions, &counts, &mut known, &mut assumed);
        }
        if known.iter().flatten().count() == before {
            break;
        }
    }
    let frequencies = flow.solve(warps, &known)?;
    adds_up(&copies, executions, &frequencies)?;
    Ok(Mapped { frequencies, anchored, assumed })
}

/// The way each machine instruction reaches memory, from what was counted for the lines of the PTX.
pub fn accesses(function: &Function, lines: &BTreeMap<u32, Access>) -> Vec<Access> {
    let of = |instruction: &Instruction| {
        let counted = instruction.ptx_line.and_then(|line| lines.get(&line).copied());
        counted.unwrap_or_else(|| Access::ideal(instruction))
    };
    function.instructions.iter().map(of).collect()
}

/// Whether a machine instruction stands for one PTX instruction and stays in its block.
fn is_anchor(instruction: &Instruction) -> bool {
    match instruction.base() {
        "BRA" => !instruction.has("DIV"),
        "LDG" | "STG" | "LDS" | "STS" | "LDSM" | "STSM" | "LDGSTS" | "LDGDEPBAR" | "ATOM" | "ATOMG"
        | "ATOMS" | "RED" | "REDG" | "BAR" | "SHFL" | "HMMA" | "QMMA" | "IMMA" | "DMMA" | "REDUX" => {
            !instruction.is_guarded()
        }
        _ => false,
    }
}

fn copies(function: &Function, flow: &Flow, executions: &BTreeMap<u32, u64>) -> Copies {
    let mut found = Copies::new();
    for (index, instruction) in function.instructions.iter().enumerate() {
        let block = flow.block_of(index);
        if !is_anchor(instruction) || !flow.reachable.get(block).copied().unwrap_or(false) {
            continue;
        }
        if let Some(line) = instruction.ptx_line.filter(|line| executions.contains_key(line)) {
            *found.entry(line).or_default().entry(block).or_default() += 1;
        }
    }
    // A line some of whose instructions run under a guard that others lack says nothing.
    let guarded: BTreeSet<u32> = function
        .instructions
        .iter()
        .filter(|i| i.is_guarded() && i.base() != "BRA")
        .filter_map(|i| i.ptx_line)
        .collect();
    found.retain(|line, _| !guarded.contains(line));
    found
}

/// Blocks that hold all copies of a line.
fn single_blocks(
    flow: &Flow,
    copies: &Copies,
    executions: &BTreeMap<u32, u64>,
    known: &mut [Option<u64>],
    assumed: &mut Vec<String>,
) -> Result<(), Uncertain> {
    let mut lines: BTreeMap<BlockId, Vec<(u32, u64)>> = BTreeMap::new();
    for (line, blocks) in copies {
        if let (1, Some((block, count))) = (blocks.len(), blocks.first_key_value()) {
            lines.entry(*block).or_default().push((*line, *count));
        }
    }
    for (block, lines) in lines {
        let least = lines.iter().map(|(_, count)| *count).min().unwrap_or(1);
        let unrolled = least > 1 && flow.loop_of(block).is_some();
        let first = flow.blocks.get(block).map_or(0, |block| block.first);
        for (line, count) in lines.iter().filter(|(_, count)| *count == least) {
            let runs = executions.get(line).copied().unwrap_or(0);
            let share = if unrolled { least } else { 1 };
            if !runs.is_multiple_of(share) {
                return Err(Uncertain(format!(
                    "PTX line {line} ran {runs} times and has {count} copies in the block at machine instruction {first}"
                )));
            }
            let runs = runs / share;
            match known.get_mut(block) {
                Some(Some(before)) if *before != runs => {
                    return Err(Uncertain(format!(
                        "lines of the block at machine instruction {first} ran {before} and {runs} times"
                    )));
                }
                Some(slot) => *slot = Some(runs),
                None => {}
            }
        }
        if unrolled {
            assumed.push(format!("the loop at machine instruction {first} is unrolled {least} times"));
        }
    }
    Ok(())
}

/// Lines in several blocks, of which all but one are known.
fn one_unknown(
    copies: &Copies,
    executions: &BTreeMap<u32, u64>,
    counts: &[Option<u64>],
    known: &mut [Option<u64>],
) -> Result<(), Uncertain> {
    for (line, blocks) in copies.iter().filter(|(_, blocks)| blocks.len() > 1) {
        let count = |block: &BlockId| counts.get(*block).copied().flatten();
        let mut open = blocks.iter().filter(|(block, _)| count(block).is_none());
        let (Some((block, share)), None) = (open.next(), open.next()) else { continue };
        let spent: u64 = blocks.iter().map(|(block, n)| count(block).unwrap_or(0).saturating_mul(*n)).sum();
        let runs = executions.get(line).copied().unwrap_or(0);
        let left = runs.checked_sub(spent).filter(|left| left.is_multiple_of(*share));
        let left = left.ok_or_else(|| copies_do_not_fit(*line, runs))?;
        if let Some(slot) = known.get_mut(*block) {
            slot.get_or_insert(left / share);
        }
    }
    Ok(())
}

/// A line in two loops, one unrolled: the other does what is left over of each entry.
fn left_over(
    flow: &Flow,
    copies: &Copies,
    executions: &BTreeMap<u32, u64>,
    counts: &[Option<u64>],
    known: &mut [Option<u64>],
    assumed: &mut Vec<String>,
) {
    for (line, blocks) in copies.iter().filter(|(_, blocks)| blocks.len() == 2) {
        let mut pair: Vec<(BlockId, u64)> = blocks.iter().map(|(block, share)| (*block, *share)).collect();
        pair.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
        let [(main, unroll), (rest, 1)] = pair.as_slice() else { continue };
        let both_open = [main, rest].iter().all(|block| counts.get(**block).copied().flatten().is_none());
        let loops = (flow.loop_of(*main), flow.loop_of(*rest));
        let (Some(a), Some(b)) = loops else { continue };
        if !both_open || a == b || *unroll < 2 {
            continue;
        }
        let parent = flow.loops.get(a).and_then(|l| l.parent);
        if parent != flow.loops.get(b).and_then(|l| l.parent) {
            continue;
        }
        // Every turn of the loop around, or every warp, comes by once.
        let header = parent.and_then(|p| flow.loops.get(p)).map_or(0, |l| l.header);
        let Some(entries) = counts.get(header).copied().flatten().filter(|n| *n > 0) else { continue };
        let runs = executions.get(line).copied().unwrap_or(0);
        if !runs.is_multiple_of(entries) {
            continue;
        }
        let turns = runs / entries;
        if let Some(slot) = known.get_mut(*main) {
            *slot = Some(turns / unroll * entries);
        }
        if let Some(slot) = known.get_mut(*rest) {
            *slot = Some(turns % unroll * entries);
        }
        assumed.push(format!(
            "the loop of PTX line {line} is unrolled {unroll} times, with a loop for what is left"
        ));
        return;
    }
}

fn copies_do_not_fit(line: u32, runs: u64) -> Uncertain {
    Uncertain(format!(
        "PTX line {line} ran {runs} times, which its copies in the machine code cannot add up to"
    ))
}

/// Whether the copies of every line in several blocks run as often as the line did.
fn adds_up(copies: &Copies, executions: &BTreeMap<u32, u64>, found: &Frequencies) -> Result<(), Uncertain> {
    for (line, blocks) in copies.iter().filter(|(_, blocks)| blocks.len() > 1) {
        let sum: u64 = blocks
            .iter()
            .map(|(block, n)| found.blocks.get(*block).copied().unwrap_or(0).saturating_mul(*n))
            .fold(0, u64::saturating_add);
        let runs = executions.get(line).copied().unwrap_or(0);
        // One PTX instruction may be several machine instructions, each as often.
        if sum != runs && (runs == 0 || !sum.is_multiple_of(runs)) {
            return Err(copies_do_not_fit(*line, runs));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse;
    use std::fmt::Write as _;

    /// Machine code of lines `(PTX line, text)`; a text that ends in a colon is a label.
    fn function(lines: &[(u32, &str)]) -> (Function, Flow) {
        let mut text = ".section .text.k,\"ax\"\n".to_owned();
        let mut offset = 0;
        for (line, code) in lines {
            if code.ends_with(':') {
                writeln!(text, "{code}").unwrap();
            } else {
                writeln!(text, "//## File \".nv_debug_ptx_txt\", line {line}").unwrap();
                writeln!(text, "/*{offset:04x}*/ {code} ; /* 0x0 */\n/* 0x000fe20000000000 */").unwrap();
                offset += 16;
            }
        }
        let function = parse(&text).unwrap().remove(0);
        let flow = Flow::new(&function);
        (function, flow)
    }

    #[test]
    fn a_loop_runs_as_often_as_its_lines() {
        let (function, flow) = function(&[
            (1, "MOV R1, R2"),
            (0, "L1:"),
            (2, "LDS R3, [R1]"),
            (3, "HMMA.16816.F32 R4, R4, R8, R4"),
            (9, "IADD3 R1, R1, 0x1, RZ"),
            (4, "@P0 BRA `(L1)"),
            (5, "STG.E [R2.64], R4"),
            (6, "EXIT"),
        ]);
        let executions = BTreeMap::from([(2, 64), (3, 64), (4, 64), (5, 4)]);
        let mapped = map(&function, &flow, &executions, 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4, 64, 4]);
        assert!(mapped.assumed.is_empty());
        assert_eq!(mapped.anchored, 2);
        // A count that contradicts another.
        let wrong = BTreeMap::from([(2, 64), (3, 65)]);
        assert!(map(&function, &flow, &wrong, 4).is_err());
        // Lines that say nothing leave the loop open.
        assert!(map(&function, &flow, &BTreeMap::new(), 4).is_err());
        // More than entered: both sides of a branch ran.
        let diverged = BTreeMap::from([(3, 64), (5, 8)]);
        assert!(map(&function, &flow, &diverged, 4).unwrap_err().0.contains("does not add up"));
    }

    #[test]
    fn an_unrolled_loop_runs_a_share_as_often() {
        let (function, flow) = function(&[
            (1, "MOV R1, R2"),
            (0, "L1:"),
            (2, "LDS R3, [R1]"),
            (3, "HMMA.16816.F32 R4, R4, R8, R4"),
            (2, "LDS R3, [R1+0x10]"),
            (3, "HMMA.16816.F32 R4, R4, R8, R4"),
            (9, "@P0 BRA `(L1)"),
            (6, "EXIT"),
        ]);
        let executions = BTreeMap::from([(2, 64), (3, 64)]);
        let mapped = map(&function, &flow, &executions, 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4, 32, 4]);
        assert_eq!(mapped.assumed.len(), 1);
        let odd = BTreeMap::from([(2, 63), (3, 63)]);
        assert!(map(&function, &flow, &odd, 4).is_err());
    }

    #[test]
    fn what_is_left_over_runs_in_the_second_loop() {
        let (function, flow) = function(&[
            (1, "@P3 BRA `(L2)"),
            (0, "L1:"),
            (2, "LDS R3, [R1]"),
            (2, "LDS R4, [R1+0x10]"),
            (2, "LDS R5, [R1+0x20]"),
            (2, "LDS R6, [R1+0x30]"),
            (8, "@P0 BRA `(L1)"),
            (8, "@P1 BRA `(END)"),
            (0, "L2:"),
            (2, "LDS R3, [R1]"),
            (8, "@P0 BRA `(L2)"),
            (0, "END:"),
            (6, "EXIT"),
        ]);
        // 8 warps, 11 turns: twice four, and three.
        let executions = BTreeMap::from([(2, 88)]);
        let mapped = map(&function, &flow, &executions, 8);
        // How many warps skip the first loop does not follow from the lines.
        match mapped {
            Ok(mapped) => {
                assert_eq!((mapped.frequencies.blocks[1], mapped.frequencies.blocks[3]), (16, 24));
                assert_eq!(mapped.assumed.len(), 1);
            }
            Err(reason) => assert!(reason.0.contains("does not follow"), "{reason}"),
        }
    }

    #[test]
    fn guards_and_missing_lines_say_nothing() {
        let (function, flow) = function(&[(2, "@P0 LDG.E R3, [R2.64]"), (3, "EXIT")]);
        // A guarded load may run less often than its block.
        let mapped = map(&function, &flow, &BTreeMap::from([(2, 1)]), 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4]);
        assert_eq!(mapped.anchored, 0);
        let bare = parse("/*0000*/ EXIT ; /* 0x0 */\n/* 0x000fea0003800000 */\n").unwrap().remove(0);
        assert!(map(&bare, &Flow::new(&bare), &BTreeMap::new(), 1).unwrap_err().0.contains("-lineinfo"));
    }
}
