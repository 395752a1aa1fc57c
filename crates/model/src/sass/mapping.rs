//! Assigns the counts of a PTX run to the blocks of its machine code.
//!
//! With `-lineinfo`, ptxas records for each machine instruction the PTX line it was compiled from. A machine
//! instruction that stands for one PTX instruction (a load, a matrix product, a barrier, a branch) has copies
//! where ptxas unrolled or peeled a loop; the counts of the copies sum to the count of the line. That gives
//! one equation per line, and flow conservation gives two more per block. If several solutions remain, the
//! copy in the most unrolled block gets the largest possible count, and the assumption is reported: such
//! solutions differ in which copy of a loop ran its iterations, and little in time. If there is no solution,
//! or nothing counts a loop, the result is [`Uncertain`], and the caller has only bounds.
//!
//! Divergent warps execute both sides of a branch, so more warps leave a block than entered it. If nothing
//! else fits, branches may diverge, and the excess disappears at the join. Then lines of accesses that ptxas
//! may have merged are ignored, then other lines if they are few. All such assumptions are reported. If that
//! does not help either, the error names the branch.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::flow::{BlockId, End, Flow, Frequencies, Split, Uncertain};
use super::system::{self, Entered, Equation, Failure, Preference, System};
use super::text::{Function, Instruction};

/// The counts of blocks, and the assumptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// How often blocks are executed and edges are taken.
    pub frequencies: Frequencies,
    /// The number of PTX lines that count blocks.
    pub lines: usize,
    /// Counts that were chosen among several solutions, as sentences; empty if all counts followed.
    pub assumed: Vec<String>,
}

/// For each PTX line, the number of its machine instructions in each block.
type Copies = BTreeMap<u32, BTreeMap<BlockId, u64>>;

/// Assigns the counts of a run to blocks.
///
/// `executions` maps each PTX line with exactly one instruction to the number of warps that reached it,
/// whether its guard was true or not, and to 0 if none did; `warps` is the number of warps that ran the
/// kernel.
pub fn map(
    function: &Function,
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
) -> Result<Mapped, Uncertain> {
    if function.instructions.iter().all(|instruction| instruction.ptx_line.is_none()) {
        return Err(Uncertain(
            "the machine code has no line information; run ptxas with -lineinfo".to_owned(),
        ));
    }
    let (copies, raw) = (copies(function, flow, executions, true), copies(function, flow, executions, false));
    let (none, merged) = (BTreeSet::new(), merged(function, &copies));
    // Uniform branches are more likely than divergent ones, and ptxas seldom moves counted instructions.
    for (apart, left_out) in [(false, &none), (false, &merged), (true, &none), (true, &merged)] {
        for copies in [&copies, &raw] {
            match attempt(flow, executions, warps, copies, apart, left_out) {
                Err(Trouble::Contradiction) => {}
                Err(Trouble::Uncertain(why)) => return Err(why),
                Ok(mapped) => return Ok(mapped),
            }
        }
    }
    let (left_out, kept) = contradicting(flow, executions, warps, &copies)?;
    let first = left_out.iter().next().copied();
    let refused = || {
        let line = first.unwrap_or(0);
        let at = function.instructions.iter().position(|one| one.ptx_line == first).unwrap_or(0);
        let branch = (0..=flow.block_of(at)).rev().find(|id| flow.blocks[*id].ends == End::Choice);
        let branch = branch.map_or(0, |id| flow.blocks[id].end.saturating_sub(1));
        Uncertain(format!(
            "no block counts fit the count of PTX line {line}, machine instruction {at}, after the branch of \
             machine instruction {branch}"
        ))
    };
    // ptxas moved or merged a few lines; if it were more, the remaining lines would not be reliable.
    if left_out.len() * 4 > kept {
        return Err(refused());
    }
    match attempt(flow, executions, warps, &copies, true, &left_out) {
        Err(Trouble::Contradiction) => Err(refused()),
        Err(Trouble::Uncertain(why)) => Err(why),
        Ok(mut mapped) => {
            mapped.assumed.extend(left_out.iter().map(|line| {
                format!("the count of PTX line {line} contradicts the block counts and is ignored")
            }));
            Ok(mapped)
        }
    }
}

/// Why an attempt has no solution.
enum Trouble {
    /// The equations contradict each other.
    Contradiction,
    /// Another reason.
    Uncertain(Uncertain),
}

impl From<Uncertain> for Trouble {
    fn from(why: Uncertain) -> Self {
        Trouble::Uncertain(why)
    }
}

/// Lines of wide accesses. When ptxas unrolls a loop, it may merge adjacent accesses of several iterations
/// into one; then the line's count exceeds that of its machine instructions.
fn merged(function: &Function, copies: &Copies) -> BTreeSet<u32> {
    let wide = |one: &&Instruction| {
        matches!(one.base(), "LDS" | "STS" | "LDG" | "STG") && (one.has("64") || one.has("128"))
    };
    let lines = function.instructions.iter().filter(wide).filter_map(|one| one.ptx_line);
    lines.filter(|line| copies.contains_key(line)).collect()
}

/// Lines that contradict those before them, and the number of lines that do not.
fn contradicting(
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
    copies: &Copies,
) -> Result<(BTreeSet<u32>, usize), Uncertain> {
    let all: BTreeSet<u32> = copies.keys().copied().collect();
    let mut left_out = all.clone();
    for line in &all {
        left_out.remove(line);
        let (system, _) = system(flow, executions, warps, copies, true, &left_out)?;
        if !system::may_hold(&system) {
            left_out.insert(*line);
        }
    }
    let kept = all.len() - left_out.len();
    Ok((left_out, kept))
}

/// The indices of the unknowns of a system: blocks first, then the successors of each, then divergent warps.
struct Places {
    slots: Vec<usize>,
    splits: Vec<(usize, BlockId, BlockId)>,
}

/// The equations, without those of some lines. `apart`: warps may diverge at a branch.
fn system(
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
    copies: &Copies,
    apart: bool,
    left_out: &BTreeSet<u32>,
) -> Result<(System, Places), Uncertain> {
    let number = |count: u64| i64::try_from(count).map_err(|_| Uncertain("a count is too large".to_owned()));
    let mut slots = Vec::new();
    let mut unknowns = flow.blocks.len();
    for block in &flow.blocks {
        slots.push(unknowns);
        unknowns += block.successors.len();
    }
    let mut splits: Vec<(usize, BlockId, BlockId)> = Vec::new();
    if apart {
        for (id, join) in flow.joins().into_iter().enumerate() {
            let branches = flow.reachable[id] && flow.blocks[id].ends == End::Choice;
            if let Some(join) = join.filter(|_| branches) {
                // After it, one unknown per successor for warps that take only that successor.
                splits.push((unknowns, id, join));
                unknowns += 3;
            }
        }
    }
    let mut equations = Vec::new();
    for (unknown, id, _) in &splits {
        for way in 0..2 {
            let terms = vec![(slots[*id] + way, 1), (*unknown, -1), (unknown + 1 + way, -1)];
            equations.push(Equation { terms, constant: 0 });
        }
    }
    for (line, blocks) in copies.iter().filter(|(line, _)| !left_out.contains(line)) {
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
        // One of the two paths of a divergent warp disappears at the join.
        into.extend(splits.iter().filter(|(_, _, join)| *join == id).map(|(unknown, _, _)| (*unknown, 1)));
        equations.push(Equation { terms: into, constant: if id == 0 { number(warps)? } else { 0 } });
        let out = (0..block.successors.len()).map(|slot| (slots[id] + slot, -1));
        if block.ends == End::Call {
            equations.extend(out.map(|edge| Equation { terms: vec![(id, 1), edge], constant: 0 }));
        } else {
            let twice =
                splits.iter().filter(|(_, block, _)| *block == id).map(|(unknown, _, _)| (*unknown, 1));
            equations.push(Equation {
                terms: std::iter::once((id, 1)).chain(out).chain(twice).collect(),
                constant: 0,
            });
        }
    }
    let mut preferences = preferences(flow, copies);
    // Prefer solutions with few divergent warps.
    let together = splits.iter().map(|(unknown, _, _)| Preference { unknown: *unknown, large: false });
    preferences.splice(0..0, together);
    let system =
        System { unknowns, equations, entered: entered(flow, &slots), preferences, step: number(warps)? };
    Ok((system, Places { slots, splits }))
}

fn attempt(
    flow: &Flow,
    executions: &BTreeMap<u32, u64>,
    warps: u64,
    copies: &Copies,
    apart: bool,
    left_out: &BTreeSet<u32>,
) -> Result<Mapped, Trouble> {
    let (system, Places { slots, splits }) = system(flow, executions, warps, copies, apart, left_out)?;
    let (values, chosen) = system::solve(&system).map_err(|failure| match failure {
        Failure::Contradiction => Trouble::Contradiction,
        Failure::Open(unknown) => {
            let block = flow.blocks.get(unknown).or_else(|| {
                flow.blocks.get(slots.partition_point(|slot| *slot <= unknown).saturating_sub(1))
            });
            let first = block.map_or(0, |block| block.first);
            let why = format!("the count of the block at machine instruction {first} does not follow from the measured counts");
            Trouble::Uncertain(Uncertain(why))
        }
        Failure::TooMany => Trouble::Uncertain(Uncertain("too many block counts fit the measured counts".to_owned())),
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
        splits: splits
            .iter()
            .map(|(unknown, block, join)| Split { block: *block, times: value(*unknown), join: *join })
            .filter(|split| split.times > 0)
            .collect(),
    };
    let said = |(unknown, range): &(usize, system::Range)| {
        let block = flow.blocks.get(*unknown)?;
        let count = value(*unknown);
        let (least, most) = (range.least, range.most);
        Some(format!(
            "the block at machine instruction {} is assumed to run {count} times; {least} to {most} are possible",
            block.first
        ))
    };
    let mut assumed: Vec<String> = chosen.iter().filter_map(said).collect();
    assumed.extend(frequencies.splits.iter().map(|split| {
        let at = flow.blocks[split.block].end.saturating_sub(1);
        format!(
            "warps are assumed to diverge at the branch of machine instruction {at}, {} times",
            split.times
        )
    }));
    Ok(Mapped { frequencies, lines: copies.len(), assumed })
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
    // The entry of the kernel is not an edge.
    flow.loops.iter().filter(|l| l.header != 0).map(entries).collect()
}

/// Blocks whose count may be chosen: blocks of the most copied lines first, preferring large values; calls
/// last, preferring small values.
fn preferences(flow: &Flow, copies: &Copies) -> Vec<Preference> {
    let mut most: BTreeMap<BlockId, u64> = BTreeMap::new();
    for (block, count) in copies.values().flatten() {
        let seen = most.entry(*block).or_default();
        *seen = (*seen).max(*count);
    }
    let mut counted: Vec<(BlockId, u64)> = most.into_iter().collect();
    counted.sort_by_key(|(block, count)| (std::cmp::Reverse(*count), *block));
    let counted = counted.into_iter().map(|(unknown, _)| Preference { unknown, large: true });
    // Routines handle rare cases, such as the slow path of a division or a square root.
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

/// `several`: a line with the same number of machine instructions in every block stands for one PTX
/// instruction that became several; otherwise it has one machine instruction per iteration unrolled inside
/// the block.
fn copies(function: &Function, flow: &Flow, executions: &BTreeMap<u32, u64>, several: bool) -> Copies {
    let mut found = Copies::new();
    // Every line of a block, with the number of its machine instructions there.
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
    // A line is ignored if some of its instructions have a guard that others lack.
    let guarded: BTreeSet<u32> = function
        .instructions
        .iter()
        .filter(|i| i.is_guarded() && !matches!(i.base(), "BRA" | "EXIT"))
        .filter_map(|i| i.ptx_line)
        .collect();
    found.retain(|line, _| !guarded.contains(line));
    let unrolled =
        |block: &BlockId| all.get(block).and_then(|lines| lines.values().min().copied()).unwrap_or(1).max(1);
    // One PTX instruction may become several machine instructions: then every block has the same number,
    // unrolled or not.
    for blocks in found.values_mut().filter(|_| several) {
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

/// Branches of loops without any other counting line: one branch stands for all unrolled iterations.
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

    /// Machine code of lines `(PTX line, text)`; a text that ends with a colon is a label.
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
        // Without counts the loop stays undetermined; its branch alone would suffice.
        assert!(map(&function, &flow, &BTreeMap::new(), 4).is_err());
        // More than entered, and no branch at which warps could have diverged.
        let diverged = BTreeMap::from([(3, 64), (5, 8)]);
        let refused = map(&function, &flow, &diverged, 4).unwrap_err().0;
        assert!(
            refused.contains("no block counts") && refused.contains("branch of machine instruction 4"),
            "{refused}"
        );
    }

    #[test]
    fn both_sides_of_a_branch_run_where_warps_part() {
        let (function, flow) = function(&[
            (1, "@P0 BRA `(ELSE)"),
            (2, "LDS R3, [R1]"),
            (1, "BRA `(END)"),
            (0, "ELSE:"),
            (3, "LDS R4, [R1+0x10]"),
            (0, "END:"),
            (4, "STG.E [R2.64], R3"),
            (5, "EXIT"),
        ]);
        // 8 warps, of which 2 diverge, 3 take the first side and 3 the second.
        let executions = BTreeMap::from([(2, 5), (3, 5), (4, 8)]);
        let mapped = map(&function, &flow, &executions, 8).unwrap();
        assert_eq!(mapped.frequencies.blocks, [8, 5, 5, 8]);
        assert_eq!(mapped.frequencies.splits, [Split { block: 0, times: 2, join: 3 }]);
        assert!(mapped.assumed.iter().any(|one| one.contains("diverge")), "{:?}", mapped.assumed);
    }

    #[test]
    fn an_inner_loop_that_is_unrolled_away_has_a_copy_for_each_turn() {
        let (function, flow) = function(&[
            (1, "MOV R1, R2"),
            (0, "L1:"),
            (4, "BAR.SYNC 0x0"),
            (3, "LDS R8, [R2]"),
            (3, "LDS R9, [R2+0x80]"),
            (3, "LDS R10, [R2+0x100]"),
            (3, "LDS R11, [R2+0x180]"),
            (9, "@P0 BRA `(L1)"),
            (6, "EXIT"),
        ]);
        let mapped = map(&function, &flow, &BTreeMap::from([(3, 256), (4, 64)]), 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4, 64, 4]);
        assert!(mapped.assumed.is_empty(), "{:?}", mapped.assumed);
    }

    #[test]
    fn turns_of_a_loop_that_share_one_wide_access_are_counted_by_others() {
        // Four iterations of line 2 are one access; line 3 has one machine instruction per iteration.
        let (function, flow) = function(&[
            (1, "MOV R1, R2"),
            (0, "L1:"),
            (4, "BAR.SYNC 0x0"),
            (2, "LDS.128 R4, [R1]"),
            (3, "LDS R8, [R2]"),
            (3, "LDS R9, [R2+0x80]"),
            (3, "LDS R10, [R2+0x100]"),
            (3, "LDS R11, [R2+0x180]"),
            (9, "@P0 BRA `(L1)"),
            (6, "EXIT"),
        ]);
        let executions = BTreeMap::from([(2, 256), (3, 256), (4, 64)]);
        let mapped = map(&function, &flow, &executions, 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4, 64, 4]);
    }

    #[test]
    fn one_line_of_many_that_fits_nothing_is_left_out() {
        let (function, flow) = function(&[
            (1, "LDS R3, [R1]"),
            (2, "LDS R4, [R1]"),
            (3, "LDS R5, [R1]"),
            (4, "LDS R6, [R1]"),
            (5, "LDS R7, [R1]"),
            (6, "EXIT"),
        ]);
        let executions = BTreeMap::from([(1, 4), (2, 4), (3, 4), (4, 4), (5, 3)]);
        let mapped = map(&function, &flow, &executions, 4).unwrap();
        assert_eq!(mapped.frequencies.blocks, [4]);
        assert!(mapped.assumed.iter().any(|one| one.contains("line 5")), "{:?}", mapped.assumed);
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
        // Neither line fits, so nothing counts the loop.
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
        // 8 warps, 11 iterations: twice four, and three.
        let executions = BTreeMap::from([(2, 88)]);
        let mapped = map(&function, &flow, &executions, 8).unwrap();
        assert_eq!((mapped.frequencies.blocks[1], mapped.frequencies.blocks[3]), (16, 24));
        // The solver assumed that the warps did not skip the first loop.
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
