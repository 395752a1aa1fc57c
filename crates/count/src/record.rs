//! The counts of one block, or of all blocks so far.

use super::counters::{Barriers, Flow, Mbarriers, Sample, Traffic};
use super::reuse::Touched;
use std::collections::BTreeMap;
use warpproof_sim::memory::Space;

/// The differences between the counts of consecutive instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edge {
    pub executions: i64,
    pub lanes: i64,
}

/// Counts of an instruction with a guard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GuardCount {
    pub executions: u64,
    /// Lanes that reached it.
    pub lanes: u64,
    /// Lanes whose guard was true.
    pub lanes_on: u64,
    /// Executions in which the guard was false in all lanes.
    pub passed: u64,
    /// Executions in which the guard was true in some lanes only.
    pub mixed: u64,
}

/// The requests of one instruction to one space.
pub(crate) struct Requested {
    pub pc: u32,
    pub space: Space,
    pub traffic: Traffic,
    /// The least efficient request.
    pub worst: Option<Box<Sample>>,
}

/// Counts of some instructions. Most often those of the latest one are needed again.
pub(crate) struct Few<T> {
    counts: Vec<(u32, T)>,
    index: BTreeMap<u32, usize>,
    latest: usize,
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few { counts: Vec::new(), index: BTreeMap::new(), latest: 0 }
    }
}

impl<T: Default> Few<T> {
    #[inline]
    pub(crate) fn entry(&mut self, pc: u32) -> &mut T {
        let is = |place: usize| self.counts.get(place).is_some_and(|(known, _)| *known == pc);
        if !is(self.latest) {
            // A loop needs those of its instructions in turn.
            let next = if self.latest + 1 < self.counts.len() { self.latest + 1 } else { 0 };
            self.latest = if is(next) { next } else { self.find(pc) };
        }
        &mut self.counts[self.latest].1
    }

    #[cold]
    fn find(&mut self, pc: u32) -> usize {
        let place = *self.index.entry(pc).or_insert(self.counts.len());
        if place == self.counts.len() {
            self.counts.push((pc, T::default()));
        }
        place
    }

    pub(crate) fn get(&self, pc: u32) -> Option<&T> {
        self.index.get(&pc).and_then(|place| self.counts.get(*place)).map(|(_, counts)| counts)
    }

    /// Sets all counts to zero.
    fn clear(&mut self) {
        self.counts.iter_mut().for_each(|(_, counts)| *counts = T::default());
    }
}

/// The counts of one block, or of all blocks so far.
pub(crate) struct Record {
    /// The number of instructions plus one.
    pub edges: Vec<Edge>,
    pub guards: Vec<GuardCount>,
    pub requests: Vec<Requested>,
    pub barriers: Few<Barriers>,
    pub mbarriers: Few<Mbarriers>,
    /// Branches through a table whose lanes diverged.
    pub tables: BTreeMap<u32, u64>,
    pub touched: Touched,
    /// Where the requests of an instruction to a space are, if other records are added.
    places: BTreeMap<(u32, Space), usize>,
}

impl Record {
    /// An empty record for a program with this number of instructions, with a budget in bytes for tracking accessed memory.
    pub(crate) fn new(instructions: usize, guards: usize, memory: u64) -> Record {
        Record {
            edges: vec![Edge::default(); instructions + 1],
            guards: vec![GuardCount::default(); guards],
            requests: Vec::new(),
            barriers: Few::default(),
            mbarriers: Few::default(),
            tables: BTreeMap::new(),
            touched: Touched::new(memory),
            places: BTreeMap::new(),
        }
    }

    /// Adds the record of a block, as often as the number of blocks that it represents.
    pub(crate) fn merge(&mut self, block: &Record, weight: u64) {
        let signed = i64::try_from(weight).unwrap_or(i64::MAX);
        for (mine, theirs) in self.edges.iter_mut().zip(&block.edges) {
            mine.executions += signed * theirs.executions;
            mine.lanes += signed * theirs.lanes;
        }
        for (mine, theirs) in self.guards.iter_mut().zip(&block.guards) {
            mine.executions += weight * theirs.executions;
            mine.lanes += weight * theirs.lanes;
            mine.lanes_on += weight * theirs.lanes_on;
            mine.passed += weight * theirs.passed;
            mine.mixed += weight * theirs.mixed;
        }
        for (number, theirs) in block.requests.iter().enumerate() {
            let &Requested { pc, space, .. } = theirs;
            // Most blocks make the same requests in the same order.
            let same = self.requests.get(number).is_some_and(|mine| (mine.pc, mine.space) == (pc, space));
            let place = if same {
                number
            } else {
                *self.places.entry((pc, space)).or_insert_with(|| {
                    self.requests.push(Requested { pc, space, traffic: Traffic::default(), worst: None });
                    self.requests.len() - 1
                })
            };
            let Some(mine) = self.requests.get_mut(place) else { continue };
            if weight == 1 {
                mine.traffic.add(&theirs.traffic);
            } else {
                mine.traffic.add(&theirs.traffic.times(weight));
            }
            if let Some(sample) = &theirs.worst
                && Sample::is_worse(sample.taken, sample.ideal, mine.worst.as_deref())
            {
                mine.worst = Some(sample.clone());
            }
        }
        for (pc, theirs) in &block.barriers.counts {
            self.barriers.entry(*pc).add(&theirs.times(weight));
        }
        for (pc, theirs) in &block.mbarriers.counts {
            self.mbarriers.entry(*pc).add(&theirs.times(weight));
        }
        for (pc, count) in &block.tables {
            *self.tables.entry(*pc).or_default() += weight * count;
        }
        self.touched.merge(&block.touched);
    }

    /// Warp instructions.
    pub(crate) fn executions(&self) -> u64 {
        let (mut now, mut sum) = (0i64, 0u64);
        for edge in &self.edges {
            now += edge.executions;
            sum = sum.saturating_add(u64::try_from(now).unwrap_or(0));
        }
        sum
    }

    /// Empties the record but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.edges.fill(Edge::default());
        self.guards.fill(GuardCount::default());
        self.requests.clear();
        self.barriers.clear();
        self.mbarriers.clear();
        self.tables.clear();
        self.touched.clear();
    }
}

/// The outcomes of a branch.
pub(crate) fn branch(flow: Flow, executions: u64, guard: Option<&GuardCount>, mixed_table: u64) -> [u64; 3] {
    match (flow, guard) {
        (Flow::Branch, Some(guard)) => {
            [guard.executions - guard.passed - guard.mixed, guard.passed, guard.mixed]
        }
        (Flow::Branch, None) => [executions, 0, 0],
        (Flow::Table, Some(guard)) => {
            let mixed = guard.mixed.max(mixed_table.min(guard.executions - guard.passed));
            [guard.executions - guard.passed - mixed, guard.passed, mixed]
        }
        (Flow::Table, None) => [executions - mixed_table.min(executions), 0, mixed_table.min(executions)],
        _ => [0, 0, 0],
    }
}
