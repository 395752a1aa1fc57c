//! Counters of a sample of the blocks: its size, what is scaled to the whole grid and how, and what is not known.
//!
//! Totals are sums over blocks: each sampled block is counted as often as the number of blocks that it represents. That
//! does not work for everything:
//!
//! - Maxima and the least efficient requests are those of the sampled blocks.
//! - Distinct sectors of the whole launch lie between those of the sampled blocks and, for each buffer, the scaled sum of each
//!   block's own, or the size of the buffer if that is smaller. The upper limit is used: it is exact for a buffer whose sectors
//!   no two blocks share, and for a buffer that is accessed completely.
//! - The hottest address has at least the operations of the sampled blocks.
//!
//! Memory stays as it was before the launch: the results of some blocks only would look like results of the launch.

use super::pattern::SECTOR;
use super::record::Record;
use super::reuse::Touched;
use super::selection::{Chosen, LEAST, MOST, Selection, Stratum};
use super::site::Sites;
use super::spread::Spread;
use super::{Counters, Instruction, MemoryOp, Totals, fill};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use warpproof_sim::Launch;
use warpproof_sim::memory::{Heap, Space};
use warpproof_sim::program::Communication;
use warpproof_sim::stop::{Blame, Stop, StopKind};

/// Warp instructions of a whole grid that a sample may represent, so that no sum overflows.
const REPRESENTED: u64 = 1 << 44;

/// How many blocks of a launch to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSize {
    /// This number of blocks, at least 4.
    Blocks(u64),
    /// This share of the blocks in millionths, rounded up, and at least 4 blocks.
    Millionths(u32),
}

impl SampleSize {
    /// The number of blocks to select from a grid.
    pub fn of(self, blocks: u64) -> u64 {
        match self {
            SampleSize::Blocks(count) => count.max(LEAST),
            SampleSize::Millionths(share) => {
                let count = (u128::from(blocks) * u128::from(share)).div_ceil(1_000_000);
                u64::try_from(count).unwrap_or(u64::MAX).max(LEAST)
            }
        }
    }
}

impl FromStr for SampleSize {
    type Err = String;

    /// A number of blocks such as `64`, or a share such as `5%` or `0.5%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number of blocks of at least {LEAST}, such as 64, or a share, such as 5%");
        let Some(percent) = text.strip_suffix('%') else {
            let count = text.parse().ok().filter(|count| *count >= LEAST);
            return count.map(SampleSize::Blocks).ok_or_else(wrong);
        };
        // Four decimals, without the rounding of a floating-point number.
        let (whole, decimals) = percent.trim_end().split_once('.').unwrap_or((percent.trim_end(), ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || decimals.len() > 4 || !digits(whole) || !digits(decimals) {
            return Err(wrong());
        }
        let share: u32 = format!("{whole}{decimals:0<4}").parse().map_err(|_| wrong())?;
        if (1..=1_000_000).contains(&share) { Ok(SampleSize::Millionths(share)) } else { Err(wrong()) }
    }
}

impl fmt::Display for SampleSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SampleSize::Blocks(count) => write!(f, "{count}"),
            SampleSize::Millionths(share) => {
                let decimals = format!(".{:04}", share % 10_000);
                let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
                write!(f, "{}{decimals}%", share / 10_000)
            }
        }
    }
}

/// Distinct sectors of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DistinctSectors {
    /// Loaded.
    pub loaded: u64,
    /// Stored.
    pub stored: u64,
    /// Loaded or stored.
    pub touched: u64,
}

/// That counters are those of a sample, scaled to the whole grid, and how far they may be off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sampling {
    /// Blocks that were executed and counted.
    pub blocks: u64,
    /// Blocks of the grid.
    pub of: u64,
    /// The parts of the grid from which blocks were selected: the first block, the last block, and the rest, if possible
    /// divided into corners, edges, faces and the interior of the grid.
    pub strata: Vec<Stratum>,
    /// Half the width of the 95 % confidence interval of the launch's scaled counters; zeros are omitted. A margin of zero
    /// means that the sampled blocks of each stratum have equal counts.
    pub margins: BTreeMap<String, u64>,
    /// Distinct sectors that the sampled blocks accessed: lower limits of [`Compulsory`](super::Compulsory), which has upper limits.
    pub at_least: DistinctSectors,
    /// The maximum number of atomic operations at one word of device memory: all of them, scaled.
    pub hottest_at_most: u64,
}

impl Sampling {
    /// The margin of a counter in percent of its value; `None` if the value is zero.
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a percentage of an estimate")]
    pub fn percent(&self, counter: &str, value: u64) -> Option<f64> {
        let margin = self.margins.get(counter).copied().unwrap_or(0);
        (value > 0).then(|| margin as f64 * 100.0 / value as f64)
    }

    /// What the reader of any figure from these counters must know, one sentence each.
    pub fn statements(&self) -> Vec<String> {
        let Sampling { blocks, of, .. } = self;
        let rare = of.saturating_mul(3).div_ceil((*blocks).max(1)).min(*of);
        vec![
            format!(
                "sampled: {blocks} of {of} blocks were executed and counted, {} were left out; totals are scaled to the whole grid",
                of.saturating_sub(*blocks)
            ),
            format!(
                "margins are 95 % confidence intervals from the differences between sampled blocks; a kind of block with fewer \
                 than about {rare} blocks may be missing from the sample and from the margins"
            ),
            "maxima and worst accesses are those of the sampled blocks, not of the grid".to_owned(),
            "distinct bytes of the launch (DRAM) are upper limits: for each buffer, the scaled sum of each block's own, or \
             the size of the buffer if that is smaller"
                .to_owned(),
            "no block stored its results: memory is as before the launch, and nothing was checked".to_owned(),
        ]
    }
}

/// The selection for a launch; `None` if the sample includes all blocks. Refuses a launch whose blocks depend on each other.
pub(crate) fn select(launch: &Launch, size: SampleSize) -> Result<Option<Selection>, Box<Stop>> {
    let program = launch.program();
    let clusters = launch.cluster_dims().iter().any(|extent| *extent > 1);
    let why = if launch.is_cooperative() {
        "the blocks of a cooperative launch wait for each other"
    } else if clusters {
        "the blocks of a cluster wait for each other and share memory"
    } else if program.communication == Communication::Any {
        "its blocks may communicate, by atomics whose results are used, by volatile or ordered accesses, or by fences"
    } else {
        let grid = launch.blocks();
        let all: u64 = grid.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul);
        let count = size.of(all);
        if count >= all {
            return Ok(None);
        }
        if count > MOST {
            let sentence = format!("a sample of {count} blocks; the maximum is {MOST}");
            return Err(Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence)));
        }
        // A grid that is too large to be selected from is too large to be launched.
        return Ok(Selection::of(grid, count));
    };
    let sentence = format!("cannot count a sample of the blocks of `{}`: {why}", program.name);
    let mut stop = Stop::general(Blame::Gap, StopKind::Unsupported, sentence);
    stop.notes.push("what a block does may depend on blocks that are not in the sample".to_owned());
    stop.help = Some("count all blocks, or a smaller problem".to_owned());
    Err(Box::new(stop))
}

/// What is collected from the blocks of a sample besides their sums.
pub(crate) struct Collected<'a> {
    selection: &'a Selection,
    /// The next block to be collected.
    next: usize,
    /// Every instruction, to be filled with the counts of one block.
    instructions: Vec<Instruction>,
    spread: Spread,
    /// The first address of each buffer and the address after it.
    buffers: Vec<(u64, u64)>,
    /// For each buffer, the distinct sectors of each block, scaled: loaded, stored, and loaded or stored.
    scaled: BTreeMap<usize, [u64; 3]>,
    /// Warp instructions of the whole grid.
    executions: u64,
}

impl<'a> Collected<'a> {
    /// For a selection, every instruction without counts, and memory, which does not change meanwhile.
    pub(crate) fn new(
        selection: &'a Selection,
        instructions: Vec<Instruction>,
        heap: &Heap,
    ) -> Collected<'a> {
        let live = heap.allocations().iter().filter(|buffer| !buffer.is_freed());
        Collected {
            selection,
            next: 0,
            instructions,
            spread: Spread::new(selection.strata.len()),
            buffers: live.map(|buffer| (buffer.base, buffer.base.saturating_add(buffer.size()))).collect(),
            scaled: BTreeMap::new(),
            executions: 0,
        }
    }

    /// Adds the next block, whose cached costs are already added up. Returns how many blocks it represents: none if the
    /// whole grid would execute too many instructions.
    pub(crate) fn add(&mut self, sites: &Sites, own: &Record) -> u64 {
        let Some(Chosen { weight, stratum, .. }) = self.selection.chosen.get(self.next).copied() else {
            return 0;
        };
        self.next += 1;
        self.executions = self.executions.saturating_add(own.executions().saturating_mul(weight));
        if self.executions > REPRESENTED {
            return 0;
        }
        fill(&mut self.instructions, sites, own);
        let mut totals = Totals::default();
        for instruction in &self.instructions {
            totals.add(instruction);
        }
        let mut flat = totals.flat();
        // A maximum is not scaled.
        flat.retain(|name, _| !name.ends_with(".max_depth"));
        let touched = &own.touched;
        let own = [("loaded", touched.loaded), ("cached", touched.cached), ("stored", touched.stored)];
        for (name, value) in own.into_iter().filter(|(_, value)| *value > 0) {
            flat.insert(format!("first_sectors.block_{name}"), value);
        }
        self.spread.add(stratum, flat);
        for (buffer, own) in touched.by_buffer(&self.buffers) {
            let counts = self.scaled.entry(buffer).or_default();
            *counts = [0, 1, 2].map(|i| counts[i].saturating_add(own[i].saturating_mul(weight)));
        }
        weight
    }

    /// The stop if the whole grid would execute too many instructions.
    pub(crate) fn stop(&self) -> Option<Box<Stop>> {
        (self.executions > REPRESENTED).then(|| {
            let sentence = format!("the whole grid would execute more than {REPRESENTED} warp instructions");
            Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence))
        })
    }

    /// Corrects the counters that cannot be scaled, and describes the sample.
    pub(crate) fn describe(self, counters: &mut Counters, touched: &Touched) {
        let at_least =
            DistinctSectors { loaded: touched.loaded, stored: touched.stored, touched: touched.either };
        let at_most = |i: usize| {
            let limited = self.scaled.iter().map(|(buffer, counts)| {
                let size = self
                    .buffers
                    .get(*buffer)
                    .map(|(start, end)| end.div_ceil(SECTOR).saturating_sub(start / SECTOR));
                counts[i].min(size.unwrap_or(u64::MAX))
            });
            limited.fold(0, u64::saturating_add)
        };
        let compulsory = &mut counters.compulsory;
        compulsory.grid_loaded = at_most(0).max(at_least.loaded);
        compulsory.grid_stored = at_most(1).max(at_least.stored);
        compulsory.grid_touched = at_most(2).max(at_least.touched);
        let hottest_at_most = serialized(&counters.totals);
        counters.hottest.incomplete |= hottest_at_most > counters.hottest.operations;
        counters.sampled = Some(Sampling {
            blocks: u64::try_from(self.next).unwrap_or(u64::MAX),
            of: counters.grid.iter().map(|extent| u64::from(*extent)).product(),
            strata: self.selection.strata.clone(),
            margins: self.spread.margins(&self.selection.strata),
            at_least,
            hottest_at_most,
        });
    }
}

/// Atomic operations on device memory, as they are serialized.
fn serialized(totals: &Totals) -> u64 {
    let atomics = [MemoryOp::Atomic, MemoryOp::Reduction, MemoryOp::SurfaceReduction];
    [Space::Global, Space::Generic].iter().fold(0, |sum: u64, space| {
        let traffic = totals.traffic(*space, &atomics);
        sum.saturating_add(traffic.serial)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, size, of_thousand) in [
            ("64", SampleSize::Blocks(64), 64),
            ("4", SampleSize::Blocks(4), 4),
            ("5%", SampleSize::Millionths(50_000), 50),
            ("0.5%", SampleSize::Millionths(5_000), 5),
            ("0.0001%", SampleSize::Millionths(1), 4),
            ("12.25%", SampleSize::Millionths(122_500), 123),
            ("100%", SampleSize::Millionths(1_000_000), 1000),
        ] {
            assert_eq!(text.parse(), Ok(size));
            assert_eq!((size.to_string().as_str(), size.of(1000)), (text, of_thousand));
        }
        for text in ["", "3", "0", "-5", "x", "%", "0%", "101%", "5.%%", "1.23456%", ".5%", "1e2%", "+5%"] {
            assert!(text.parse::<SampleSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_statement_is_made() {
        let sampling = Sampling { blocks: 30, of: 1000, ..Sampling::default() };
        let text = sampling.statements().join("\n");
        for part in
            ["30 of 1000 blocks", "970 were left out", "fewer than about 100 blocks", "memory is as before"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
