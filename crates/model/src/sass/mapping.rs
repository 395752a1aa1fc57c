//! The counts of a PTX run, given to the blocks of its machine code.
//!
//! With `-lineinfo`, ptxas says for each machine instruction the PTX line it was made from. A machine instruction that
//! stands for one PTX instruction (a load, a matrix product, a barrier, a branch) has copies where ptxas unrolled or
//! peeled a loop; together the copies run as often as the line did. That is one equation for each line, and what enters
//! and leaves each block are two more. Where they leave several answers, the copy in the most unrolled block is given as
//! much as fits, and what was chosen is said: such answers differ in which copy of a loop did its turns, and little in time.
//! Where they leave none, or a loop has nothing that counts it, the answer is [`Uncertain`], and the caller has bounds
//! only.
//!
//! Divergent warps run both sides of a branch, so that more leaves a block than entered it: that is uncertain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::flow::{BlockId, End, Flow, Frequencies, Uncertain};
use super::system::{self, Entered, Equation, Failure, Preference, System};
use super::text::{Function, Instruction};

/// The counts of blocks, and what had to be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// How often blocks run and edges are taken.
    pub frequencies: Frequencies,
    /// PTX lines that count blocks.
    pub lines: usize,
    /// Counts that did not follow and were chosen among those that fit, in words; empty if all followed.
    pub assumed: Vec<String>,
}

/// How often each line's machine instructions stand in each block.
type Copies = BTreeMap<u32, BTreeMap<BlockId, u64>>;

/// Gives blocks the counts of a run.
///
/// `executions` says for each PTX line that holds one instruction how often warps came to it, whether its guard held or
/// not, and 0 if none did; `warps` is how many ran the kernel.
pub fn map(
    function: &Function,
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
) -> Result<Mapped, Uncertain> {
    if function.instructions.iter().all(|instruction| instruction.ptx_line.is_none()) {
        return Err(Uncertain("the machine code has no lines; ptxas needs -lineinfo".to_owned()));
    }
    let number = |count: u64| i64::try_from(count).map_err(|_| Uncertain("a count is too large".to_owned()));
    let copies = copies(function, flow, executions);
    // Unknowns are blocks, then the successors of each.
    let mut slots = Vec::new();
    let mut unknowns = flow.blocks.len();
    for block in &flow.blocks {
        slots.push(unknowns);
        unknowns += block.successors.len();
    }
    let mut equations = Vec::new();
    for (line, blocks) in &copies {
        let terms =
            blocks.iter().map(|(block, n)| Ok((*block, number(*n)?))).collect::<Result<_, Uncertain>>()?;
        equations.push(Equation { terms, constant: number(executions.get(line).copied().unwrap_or(0))? });
    }
    for (id, block) in flow.blocks.iter().enumerate() {
        if !flow.reachable[id] {
            equations.push(Equation { terms: vec![(id, 1)], constant: 0 });
        } else if block.ends == End::Unknown {
            let first = block.first;
            return Err(Uncertain(format!(
                "the block at machine instruction {first} ends in a computed jump"
            )));
        }
        let mut into = vec![(id, 1)];
        for (from, other) in flow.blocks.iter().enumerate() {
            let here = other.successors.iter().enumerate().filter(|(_, to)| **to == Some(id));
            into.extend(here.map(|(slot, _)| (slots[from] + slot, -1)));
        }
        equations.push(Equation { terms: into, constant: if id == 0 { number(warps)? } else { 0 } });
        let out = (0..block.successors.len()).map(|slot| (slots[id] + slot, -1));
        if block.ends == End::Call {
            equations.extend(out.map(|edge| Equation { terms: vec![(id, 1), edge], constant: 0 }));
        } else {
            equations.push(Equation { terms: std::iter::once((id, 1)).chain(out).collect(), constant: 0 });
        }
    }
    let system = System {
        unknowns,
        equations,
        entered: entered(flow, &slots),
        preferences: preferences(flow, &copies),
        step: number(warps)?,
    };
    let (values, chosen) = system::solve(&system).map_err(|failure| match failure {
        Failure::Contradiction => Uncertain(
            "no counts of the blocks fit what was counted and what enters and leaves them; warps may diverge".to_owned(),
        ),
        Failure::Open(unknown) => {
            let block = flow.blocks.get(unknown).or_else(|| {
                flow.blocks.get(slots.partition_point(|slot| *slot <= unknown).saturating_sub(1))
            });
            let first = block.map_or(0, |block| block.first);
            Uncertain(format!("how often the block at machine instruction {first} runs does not follow from what was counted"))
        }
        Failure::TooMany => Uncertain("too many counts of the blocks fit what was counted".to_owned()),
    })?;
    let value = |unknown: usize| values.get(unknown).and_then(|v| u64::try_from(*v).ok()).unwrap_or(0);
    let frequencies = Frequencies {
        blocks: (0..flow.blocks.len()).map(value).collect(),
        edges: flow
            .blocks
            .iter()
            .zip(&slots)
            .map(|(block, slot)| (*slot..slot + block.successors.len()).map(value).collect())
            .collect(),
    };
    let said = |(unknown, range): &(usize, system::Range)| {
        let block = flow.blocks.get(*unknown)?;
        let count = value(*unknown);
        let (least, most) = (range.least, range.most);
        Some(format!(
            "the block at machine instruction {} runs {count} times of {least} to {most} that fit",
            block.first
        ))
    };
    Ok(Mapped { frequencies, lines: copies.len(), assumed: chosen.iter().filter_map(said).collect() })
}

/// The edges by which each loop is entered.
fn entered(flow: &Flow, slots: &[usize]) -> Vec<Entered> {
    let entries = |l: &super::flow::Loop| {
        let mut parts = Vec::new();
        for (from, block) in flow.blocks.iter().enumerate() {
            if l.blocks.binary_search(&from).is_err() {
                let here = block.successors.iter().enumerate().filter(|(_, to)| **to == Some(l.header));
                parts.extend(here.map(|(slot, _)| slots[from] + slot));
            }
        }
        Entered { whole: l.header, parts }
    };
    // The entry of the kernel is no edge.
    flow.loops.iter().filter(|l| l.header != 0).map(entries).collect()
}

/// Blocks of which a value may be chosen: the most copied lines first and large, calls last and small.
fn preferences(flow: &Flow, copies: &Copies) -> Vec<Preference> {
    let mut most: BTreeMap<BlockId, u64> = BTreeMap::new();
    for (block, count) in copies.values().flatten() {
        let seen = most.entry(*block).or_default();
        *seen = (*seen).max(*count);
    }
    let mut counted: Vec<(BlockId, u64)> = most.into_iter().collect();
    counted.sort_by_key(|(block, count)| (std::cmp::Reverse(*count), *block));
    let counted = counted.into_iter().map(|(unknown, _)| Preference { unknown, large: true });
    // Routines are the rare cases of a division or a root.
    let calls = flow.blocks.iter().enumerate().filter(|(_, block)| block.ends == End::Call);
    let calls = calls.map(|(unknown, _)| Preference { unknown, large: false });
    calls.chain(counted).collect()
}

/// Whether a machine instruction stands for one PTX instruction, and stays in its block or is copied with it.
fn is_anchor(instruction: &Instruction) -> bool {
    match instruction.base() {
        "LDG" | "STG" | "LDS" | "STS" | "LDSM" | "STSM" | "LDGSTS" | "LDGDEPBAR" | "ATOM" | "ATOMG"
        | "ATOMS" | "RED" | "REDG" | "BAR" | "SHFL" | "HMMA" | "QMMA" | "IMMA" | "DMMA" | "REDUX" => {
            !instruction.is_guarded()
        }
        _ => false,
    }
}

fn copies(function: &Function, flow: &Flow, executions: &BTreeMap<u32, u64>) -> Copies {
    let mut found = Copies::new();
    // Every line of a block, with how many machine instructions it has there.
    let mut all: BTreeMap<BlockId, BTreeMap<u32, u64>> = BTreeMap::new();
    for (index, instruction) in function.instructions.iter().enumerate() {
        let block = flow.block_of(index);
        let Some(line) = instruction.ptx_line.filter(|line| executions.contains_key(line)) else { continue };
        if !flow.reachable.get(block).copied().unwrap_or(false) {
            continue;
        }
        *all.entry(block).or_default().entry(line).or_default() += 1;
        if is_anchor(instruction) {
            *found.entry(line).or_default().entry(block).or_default() += 1;
        }
    }
    // A line some of whose instructions run under a guard that others lack says nothing.
    let guarded: BTreeSet<u32> = function
        .instructions
        .iter()
        .filter(|i| i.is_guarded() && !matches!(i.base(), "BRA" | "EXIT"))
        .filter_map(|i| i.ptx_line)
        .collect();
    found.retain(|line, _| !guarded.contains(line));
    let unrolled =
        |block: &BlockId| all.get(block).and_then(|lines| lines.values().min().copied()).unwrap_or(1).max(1);
    // One PTX instruction may be several machine instructions: then it has as many in every block, unrolled or not.
    for blocks in found.values_mut() {
        let each: BTreeSet<(u64, bool)> =
            blocks.iter().map(|(b, n)| (n / unrolled(b), n % unrolled(b) == 0)).collect();
        if let (1, Some((several, true))) = (each.len(), each.first().copied()) {
            for count in blocks.values_mut() {
                *count /= several.max(1);
            }
        }
    }
    branches(function, flow, executions, &unrolled, &mut found);
    found
}

/// Branches of loops that hold nothing else that counts them: one for as many turns as the loop is unrolled.
fn branches(
    function: &Function,
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    unrolled: &dyn Fn(&BlockId) -> u64,
    found: &mut Copies,
) {
    let counted: BTreeSet<BlockId> = found.values().flat_map(|blocks| blocks.keys().copied()).collect();
    for l in &flow.loops {
        if l.blocks.iter().any(|block| counted.contains(block)) {
            continue;
        }
        for id in &l.blocks {
            let Some(block) = flow.blocks.get(*id).filter(|block| block.ends == End::Choice) else {
                continue;
            };
            let last = function.instructions.get(block.end - 1);
            let line = last.and_then(|i| i.ptx_line).filter(|line| executions.contains_key(line));
            if let Some(line) = line.filter(|_| block.successors.contains(&Some(l.header))) {
                found.entry(line).or_default().insert(*id, unrolled(id));
            }
        }
    }
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
        assert_eq!(mapped.lines, 3);
        // A count that contradicts another.
        let wrong = BTreeMap::from([(2, 64), (3, 65)]);
        assert!(map(&function, &flow, &wrong, 4).is_err());
        // Lines that say nothing leave the loop open; its branch alone would do.
        assert!(map(&function, &flow, &BTreeMap::new(), 4).is_err());
        // More than entered: both sides of a branch ran.
        let diverged = BTreeMap::from([(3, 64), (5, 8)]);
        assert!(map(&function, &flow, &diverged, 4).unwrap_err().0.contains("no counts"));
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
        assert!(mapped.assumed.is_empty());
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
        let mapped = map(&function, &flow, &executions, 8).unwrap();
        assert_eq!((mapped.frequencies.blocks[1], mapped.frequencies.blocks[3]), (16, 24));
        // That the warps did not skip the first loop was chosen.
        assert!(!mapped.assumed.is_empty());
    }

    #[test]
    fn guards_and_missing_lines_say_nothing() {
        let (function, flow) = function(&[(2, "@P0 LDG.E R3, [R2.64]"), (3, "EXIT")]);
        // A guarded load may run less often than its block.
        let mapped = map(&function, &flow, &BTreeMap::from([(2, 1)]), 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4]);
        assert_eq!(mapped.lines, 0);
        let bare = parse("/*0000*/ EXIT ; /* 0x0 */\n/* 0x000fea0003800000 */\n").unwrap().remove(0);
        assert!(map(&bare, &Flow::new(&bare), &BTreeMap::new(), 1).unwrap_err().0.contains("-lineinfo"));
    }
}
