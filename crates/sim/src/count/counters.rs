//! The counters of a launch, by instruction, by line, and all together.

use super::site::multiply_adds;
use crate::isa::Unit;
use crate::memory::Space;
use crate::stop::SourceLine;
use std::collections::BTreeMap;

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryOp {
    /// `ld`, `ldu`.
    Load,
    /// `st`.
    Store,
    /// `atom`.
    Atomic,
    /// `red`.
    Reduction,
    /// `cp.async`: it reads global memory and writes shared memory.
    AsyncCopy,
    /// `ldmatrix`.
    LoadMatrix,
    /// `stmatrix`.
    StoreMatrix,
    /// `wmma.load`, as the accesses of each lane that the fragment layout of `mma` asks for.
    LoadTile,
    /// `wmma.store`, likewise.
    StoreTile,
    /// Work on an mbarrier.
    Mbarrier,
    /// Anything else that touches memory, such as calls of functions that the device provides.
    Other,
}

impl MemoryOp {
    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            MemoryOp::Load => "ld",
            MemoryOp::Store => "st",
            MemoryOp::Atomic => "atom",
            MemoryOp::Reduction => "red",
            MemoryOp::AsyncCopy => "cp_async",
            MemoryOp::LoadMatrix => "ldmatrix",
            MemoryOp::StoreMatrix => "stmatrix",
            MemoryOp::LoadTile => "wmma_load",
            MemoryOp::StoreTile => "wmma_store",
            MemoryOp::Mbarrier => "mbarrier",
            MemoryOp::Other => "other",
        }
    }
}

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flow {
    /// Goes on with the next instruction.
    Next,
    /// `bra`.
    Branch,
    /// `brx`.
    Table,
    /// `call`.
    Call,
    /// `ret`.
    Return,
    /// `exit`.
    Exit,
}

/// Executions of instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Warp instructions, those passed over because no guard held included.
    pub executions: u64,
    /// Threads that stood at them.
    pub lanes: u64,
    /// Threads whose guard held, or that had none.
    pub lanes_on: u64,
    /// Warp instructions in which no guard held.
    pub passed: u64,
}

/// Branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// Executions in which all lanes branched.
    pub taken: u64,
    /// Executions in which none did.
    pub not_taken: u64,
    /// Executions in which lanes went different ways.
    pub divergent: u64,
}

/// Requests to a memory space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests: one for each instruction of a warp and space that it touches.
    pub requests: u64,
    /// Lanes that asked.
    pub lanes: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Distinct sectors of 32 bytes in each request, added up. Global and local memory.
    pub sectors: u64,
    /// Distinct lines of 128 bytes in each request, added up. Global and local memory.
    pub lines: u64,
    /// Sectors that the distinct bytes of each request would fill if they lay side by side, added up. Global memory.
    pub ideal_sectors: u64,
    /// Those of `sectors` that are loaded past the first-level cache. Global memory.
    pub uncached_sectors: u64,
    /// Passes through the banks of shared memory; of constants and parameters, distinct addresses in each request.
    pub wavefronts: u64,
    /// Passes through the banks if no two words of a request were in one bank.
    pub ideal_wavefronts: u64,
    /// Sectors of global memory that the block had not touched in this way before.
    pub first_sectors: u64,
    /// Atomics: distinct addresses in each request, added up.
    pub addresses: u64,
    /// Atomics: lanes at the address that most lanes of a request name, added up.
    pub depth: u64,
    /// Atomics: the most lanes of any request at one address.
    pub max_depth: u64,
    /// Atomics: as `depth`, but one for a request whose lanes ptxas brings together into one operation: see
    /// [`Hottest`].
    pub serial: u64,
}

impl Traffic {
    /// Adds another's counts.
    #[inline]
    pub fn add(&mut self, other: &Traffic) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.lines += other.lines;
        self.ideal_sectors += other.ideal_sectors;
        self.uncached_sectors += other.uncached_sectors;
        self.wavefronts += other.wavefronts;
        self.ideal_wavefronts += other.ideal_wavefronts;
        self.first_sectors += other.first_sectors;
        self.addresses += other.addresses;
        self.depth += other.depth;
        self.max_depth = self.max_depth.max(other.max_depth);
        self.serial += other.serial;
    }

    /// So many requests like this one.
    #[must_use]
    pub fn times(&self, requests: u64) -> Traffic {
        if requests == 0 {
            return Traffic::default();
        }
        Traffic {
            requests: self.requests * requests,
            lanes: self.lanes * requests,
            bytes: self.bytes * requests,
            sectors: self.sectors * requests,
            lines: self.lines * requests,
            ideal_sectors: self.ideal_sectors * requests,
            uncached_sectors: self.uncached_sectors * requests,
            wavefronts: self.wavefronts * requests,
            ideal_wavefronts: self.ideal_wavefronts * requests,
            first_sectors: self.first_sectors * requests,
            addresses: self.addresses * requests,
            depth: self.depth * requests,
            max_depth: self.max_depth,
            serial: self.serial * requests,
        }
    }

    /// Bank conflicts: passes through the banks beyond those that are needed.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts.saturating_sub(self.ideal_wavefronts)
    }

    /// The counts by name.
    pub fn fields(&self) -> [(&'static str, u64); 14] {
        [
            ("requests", self.requests),
            ("lanes", self.lanes),
            ("bytes", self.bytes),
            ("sectors", self.sectors),
            ("lines", self.lines),
            ("ideal_sectors", self.ideal_sectors),
            ("uncached_sectors", self.uncached_sectors),
            ("wavefronts", self.wavefronts),
            ("ideal_wavefronts", self.ideal_wavefronts),
            ("first_sectors", self.first_sectors),
            ("addresses", self.addresses),
            ("depth", self.depth),
            ("max_depth", self.max_depth),
            ("serial", self.serial),
        ]
    }
}

/// Barriers, and how unevenly warps came to them. A warp's *work* is the instructions it executed since it came to a barrier
/// before, the barrier's own included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barriers {
    /// Arrivals of warps, or of pieces of warps.
    pub arrivals: u64,
    /// Phases that were completed, each counted at the instruction by which the last warp came.
    pub phases: u64,
    /// Warps in each phase, added up.
    pub warps: u64,
    /// Work of all warps of each phase, added up.
    pub work: u64,
    /// Work of the warp that did most in each phase, added up.
    pub longest: u64,
    /// What warps did less than the one that did most, added up over warps and phases.
    pub idle: u64,
}

impl Barriers {
    /// The most work less the mean work, added up over phases; exact if as many warps came to each phase.
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn imbalance(&self) -> f64 {
        if self.warps == 0 { 0.0 } else { self.idle as f64 * self.phases as f64 / self.warps as f64 }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Barriers) {
        self.arrivals += other.arrivals;
        self.phases += other.phases;
        self.warps += other.warps;
        self.work += other.work;
        self.longest += other.longest;
        self.idle += other.idle;
    }
}

/// The addresses of the request of an instruction that takes the most beyond its need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The space: shared or global memory.
    pub space: Space,
    /// Bytes of each lane.
    pub bytes: u32,
    /// Lanes that asked, and for each its distance in bytes from the first of them.
    pub lanes: Vec<(u32, i64)>,
    /// Passes through the banks of shared memory, or sectors of global memory.
    pub taken: u64,
    /// As many as are needed.
    pub ideal: u64,
}

impl Sample {
    /// Whether it takes more beyond its need than another.
    pub(crate) fn is_worse(taken: u64, ideal: u64, than: Option<&Sample>) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        taken > ideal && than.is_none_or(|than| product(taken, than.ideal) > product(than.taken, ideal))
    }
}

/// One instruction of the kernel, executed or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Its index in the code.
    pub pc: u32,
    /// The function it stands in.
    pub function: String,
    /// Its line in the PTX text.
    pub ptx_line: u32,
    /// The CUDA lines it came from, the innermost inlined call first.
    pub source: Vec<SourceLine>,
    /// The opcode with its modifiers.
    pub opcode: String,
    /// The pipe it runs on.
    pub pipe: Unit,
    /// Shape and types, if it is a matrix product.
    pub tensor: Option<String>,
    /// What it does to the flow of control.
    pub flow: Flow,
    /// Executions.
    pub issued: Issued,
    /// Which way, if it is a branch.
    pub branches: Branches,
    /// Requests to memory by space.
    pub memory: BTreeMap<(Space, MemoryOp), Traffic>,
    /// If it is a barrier.
    pub barriers: Barriers,
    /// For shared and global memory each, the request that took the most beyond its need; none where none did.
    pub worst: Vec<Sample>,
}

/// Counts of several instructions: of a line, or of the launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Executions.
    pub issued: Issued,
    /// Branches.
    pub branches: Branches,
    /// Warp instructions by pipe.
    pub pipes: BTreeMap<Unit, Issued>,
    /// Warp instructions by opcode with its modifiers.
    pub opcodes: BTreeMap<String, Issued>,
    /// Matrix products of warps by shape and types.
    pub tensor: BTreeMap<String, u64>,
    /// Requests to memory by space and operation.
    pub memory: BTreeMap<(Space, MemoryOp), Traffic>,
    /// Barriers.
    pub barriers: Barriers,
}

impl Issued {
    fn add(&mut self, other: &Issued) {
        self.executions += other.executions;
        self.lanes += other.lanes;
        self.lanes_on += other.lanes_on;
        self.passed += other.passed;
    }
}

impl Totals {
    /// Adds an instruction.
    pub fn add(&mut self, instruction: &Instruction) {
        let issued = &instruction.issued;
        if issued.executions == 0 && instruction.memory.is_empty() && instruction.barriers.arrivals == 0 {
            return;
        }
        self.issued.add(issued);
        self.branches.taken += instruction.branches.taken;
        self.branches.not_taken += instruction.branches.not_taken;
        self.branches.divergent += instruction.branches.divergent;
        self.pipes.entry(instruction.pipe).or_default().add(issued);
        self.opcodes.entry(instruction.opcode.clone()).or_default().add(issued);
        if let Some(shape) = &instruction.tensor {
            *self.tensor.entry(shape.clone()).or_default() += issued.executions - issued.passed;
        }
        for (key, traffic) in &instruction.memory {
            self.memory.entry(*key).or_default().add(traffic);
        }
        self.barriers.add(&instruction.barriers);
    }

    /// The requests to a space by these operations, added up; by all if none is named.
    pub fn traffic(&self, space: Space, ops: &[MemoryOp]) -> Traffic {
        let mut sum = Traffic::default();
        for ((_, _), traffic) in
            self.memory.iter().filter(|((of, op), _)| *of == space && (ops.is_empty() || ops.contains(op)))
        {
            sum.add(traffic);
        }
        sum
    }

    /// Warp instructions on a pipe.
    pub fn pipe(&self, pipe: Unit) -> Issued {
        self.pipes.get(&pipe).copied().unwrap_or_default()
    }

    /// Multiply-adds of all matrix products.
    pub fn tensor_multiply_adds(&self) -> u64 {
        self.tensor.iter().map(|(shape, count)| count * multiply_adds(shape)).sum()
    }

    /// Every count by its name, such as `global.ld.sectors`; those that are zero are left out.
    pub fn flat(&self) -> BTreeMap<String, u64> {
        let mut flat = BTreeMap::new();
        let mut put = |name: String, value: u64| {
            if value != 0 {
                flat.insert(name, value);
            }
        };
        let issued = |issued: &Issued| {
            [
                ("executions", issued.executions),
                ("lanes", issued.lanes),
                ("lanes_on", issued.lanes_on),
                ("passed", issued.passed),
            ]
        };
        for (name, value) in issued(&self.issued) {
            put(name.to_owned(), value);
        }
        put("branch.taken".to_owned(), self.branches.taken);
        put("branch.not_taken".to_owned(), self.branches.not_taken);
        put("branch.divergent".to_owned(), self.branches.divergent);
        for (pipe, count) in &self.pipes {
            put(format!("pipe.{}", pipe.name()), count.executions);
        }
        for (opcode, count) in &self.opcodes {
            put(format!("opcode.{opcode}"), count.executions);
        }
        for (shape, count) in &self.tensor {
            put(format!("tensor.{shape}"), *count);
        }
        for ((space, op), traffic) in &self.memory {
            for (name, value) in traffic.fields() {
                put(format!("{}.{}.{name}", space.name(), op.name()), value);
            }
            if *space == Space::Shared {
                put(format!("{}.{}.conflicts", space.name(), op.name()), traffic.conflicts());
            }
        }
        let barriers = &self.barriers;
        for (name, value) in [
            ("arrivals", barriers.arrivals),
            ("phases", barriers.phases),
            ("warps", barriers.warps),
            ("work", barriers.work),
            ("longest", barriers.longest),
            ("idle", barriers.idle),
        ] {
            put(format!("barrier.{name}"), value);
        }
        flat
    }
}

/// Sectors of device memory that were touched at least once: what caches of any size must still move. An *estimate* of
/// traffic: it is what is left if each block has a first-level cache for itself that forgets nothing while it runs, and the
/// second level forgets nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compulsory {
    /// Distinct sectors that a block loaded, added up over blocks: misses of the first level at least, if it is not warm.
    pub block_loaded: u64,
    /// Distinct sectors that a block loaded through the first level, added up over blocks.
    pub block_cached: u64,
    /// Distinct sectors that a block stored, added up over blocks.
    pub block_stored: u64,
    /// Distinct sectors that the launch loaded: what must come from memory if the second level is cold.
    pub grid_loaded: u64,
    /// Distinct sectors that the launch stored: what must go back to memory in the end.
    pub grid_stored: u64,
    /// Distinct sectors that it loaded or stored.
    pub grid_touched: u64,
    /// Whether memory for this ran out, so that these are too small.
    pub incomplete: bool,
}

/// The word of device memory that the most atomic operations came to. They are done one after another there.
///
/// Lanes of a request count one each, but for what ptxas brings together into one operation of the warp: additions, minima,
/// maxima and bitwise operations on 32-bit integers at an address that it can see to be the same for all lanes. If the old value
/// is used, only the addition of a constant. Such a request, with all its lanes at one address, is one operation here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hottest {
    /// Operations at that word.
    pub operations: u64,
    /// Whether memory for this ran out, so that another word may have more.
    pub incomplete: bool,
}

/// Sectors between the first- and the second-level cache. Stores, atomics and loads that go past the first level count each time;
/// loads through it count once for each block, as if it forgot nothing while a block runs. So it is an *estimate*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondLevel {
    /// Loaded.
    pub loads: u64,
    /// Stored.
    pub stores: u64,
    /// By atomics whose old value is used.
    pub atomics: u64,
    /// By atomics whose old value is not.
    pub reductions: u64,
}

impl SecondLevel {
    /// All together.
    pub fn sectors(&self) -> u64 {
        self.loads + self.stores + self.atomics + self.reductions
    }
}

/// A source line, or a line of the PTX text where no source is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineKey {
    /// The file as the compiler named it; `None` for the PTX text.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: u32,
}

/// The counters of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The kernel.
    pub kernel: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Bytes of static shared memory of a block.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// Blocks that were counted: all, if nothing stopped the launch.
    pub blocks: u64,
    /// Every instruction, in the order of the code.
    pub instructions: Vec<Instruction>,
    /// All together.
    pub totals: Totals,
    /// What no cache can save.
    pub compulsory: Compulsory,
    /// The word with the most atomic operations.
    pub hottest: Hottest,
}

impl Counters {
    /// Threads of a block.
    pub fn block_threads(&self) -> u64 {
        self.block.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Warps of the blocks that were counted.
    pub fn warps(&self) -> u64 {
        self.blocks * self.block_threads().div_ceil(32)
    }

    /// Sectors between the first- and the second-level cache.
    pub fn second_level(&self) -> SecondLevel {
        let mut found = SecondLevel { loads: self.compulsory.block_cached, ..SecondLevel::default() };
        for ((_, op), traffic) in self
            .totals
            .memory
            .iter()
            .filter(|((space, _), _)| matches!(space, Space::Global | Space::Generic))
        {
            found.loads += traffic.uncached_sectors;
            match op {
                MemoryOp::Store | MemoryOp::StoreTile => found.stores += traffic.sectors,
                MemoryOp::Atomic => found.atomics += traffic.sectors,
                MemoryOp::Reduction => found.reductions += traffic.sectors,
                _ => {}
            }
        }
        found
    }

    /// The counts of each line: of the innermost inlined function's line where there is a line table.
    pub fn by_line(&self) -> BTreeMap<LineKey, Totals> {
        let mut lines: BTreeMap<LineKey, Totals> = BTreeMap::new();
        for instruction in &self.instructions {
            lines.entry(instruction.line()).or_default().add(instruction);
        }
        lines.retain(|_, totals| *totals != Totals::default());
        lines
    }
}

impl Instruction {
    /// The line its counts belong to.
    pub fn line(&self) -> LineKey {
        match self.source.first() {
            Some(source) => LineKey { file: Some(source.file.clone()), line: source.line },
            None => LineKey { file: None, line: self.ptx_line },
        }
    }
}

/// A count of a line that differs between two launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The line; `None` for the launch as a whole.
    pub line: Option<LineKey>,
    /// The counter.
    pub counter: String,
    /// In the first launch.
    pub before: u64,
    /// In the second.
    pub after: u64,
}

/// The counters of a launch as names and numbers, such as a file holds them; those that are zero are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flat {
    /// Of the launch as a whole.
    pub launch: BTreeMap<String, u64>,
    /// Of each line.
    pub lines: BTreeMap<LineKey, BTreeMap<String, u64>>,
}

impl Counters {
    /// Every counter by its name, of the launch and of its lines.
    pub fn flat(&self) -> Flat {
        let mut launch = self.totals.flat();
        let compulsory = &self.compulsory;
        for (name, value) in [
            ("block_loaded", compulsory.block_loaded),
            ("block_cached", compulsory.block_cached),
            ("block_stored", compulsory.block_stored),
            ("grid_loaded", compulsory.grid_loaded),
            ("grid_stored", compulsory.grid_stored),
            ("grid_touched", compulsory.grid_touched),
        ] {
            if value != 0 {
                launch.insert(format!("first_sectors.{name}"), value);
            }
        }
        if self.hottest.operations != 0 {
            launch.insert("atomics.hottest".to_owned(), self.hottest.operations);
        }
        let lines = self.by_line().into_iter().map(|(line, totals)| (line, totals.flat())).collect();
        Flat { launch, lines }
    }
}

impl Flat {
    /// What differs from this to another: of the launches as a whole first, then line by line.
    pub fn changes(&self, after: &Flat) -> Vec<Change> {
        let mut changes = Vec::new();
        let nothing = BTreeMap::new();
        let mut compare =
            |line: Option<&LineKey>, old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>| {
                let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let value = |flat: &BTreeMap<String, u64>| flat.get(name).copied().unwrap_or(0);
                    let (before, after) = (value(old), value(new));
                    if before != after {
                        changes.push(Change { line: line.cloned(), counter: name.clone(), before, after });
                    }
                }
            };
        compare(None, &self.launch, &after.launch);
        let mut lines: Vec<&LineKey> = self.lines.keys().chain(after.lines.keys()).collect();
        lines.sort();
        lines.dedup();
        for line in lines {
            let of = |flat: &Flat| flat.lines.get(line).unwrap_or(&nothing).clone();
            compare(Some(line), &of(self), &of(after));
        }
        changes
    }
}

/// What differs between the counters of two launches: of the launches as a whole first, then line by line.
pub fn diff(before: &Counters, after: &Counters) -> Vec<Change> {
    before.flat().changes(&after.flat())
}
