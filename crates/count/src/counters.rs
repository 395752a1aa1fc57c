//! The counters of a launch: per instruction, per line, and in total.

use super::sampling::Sampling;
use super::site::multiply_adds;
use std::collections::BTreeMap;
use warpproof_sim::isa::{Op, Unit};
use warpproof_sim::memory::Space;
use warpproof_sim::stop::SourceLine;

/// The memory operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
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
    /// `cp.async.bulk`, also of a tensor, and `st.async`: an asynchronous agent moves the data, past L1. Sectors that it reads
    /// are `uncached_sectors`, the others are written.
    Bulk,
    /// `ldmatrix`.
    LoadMatrix,
    /// `stmatrix`.
    StoreMatrix,
    /// `wmma.load`, counted as the per-lane accesses of the `mma` fragment layout.
    LoadTile,
    /// `wmma.store`, likewise.
    StoreTile,
    /// `tex`, `tld4`, counted as one access for each texel of the filter's footprint.
    Texture,
    /// `suld`.
    SurfaceLoad,
    /// `sust`.
    SurfaceStore,
    /// `sured`.
    SurfaceReduction,
    /// An mbarrier operation.
    Mbarrier,
    /// Any other memory operation, such as a call of a function that the device provides.
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
            MemoryOp::Bulk => "cp_async_bulk",
            MemoryOp::LoadMatrix => "ldmatrix",
            MemoryOp::StoreMatrix => "stmatrix",
            MemoryOp::LoadTile => "wmma_load",
            MemoryOp::StoreTile => "wmma_store",
            MemoryOp::Texture => "tex",
            MemoryOp::SurfaceLoad => "suld",
            MemoryOp::SurfaceStore => "sust",
            MemoryOp::SurfaceReduction => "sured",
            MemoryOp::Mbarrier => "mbarrier",
            MemoryOp::Other => "other",
        }
    }
}

/// The control-flow kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flow {
    /// Continues with the next instruction.
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
    /// Warp instructions, including those skipped because the guard was false in all lanes.
    pub executions: u64,
    /// Threads that reached them.
    pub lanes: u64,
    /// Threads whose guard was true, or that had none.
    pub lanes_on: u64,
    /// Warp instructions whose guard was false in all lanes.
    pub passed: u64,
}

/// Branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// Executions in which all lanes branched.
    pub taken: u64,
    /// Executions in which no lane branched.
    pub not_taken: u64,
    /// Executions in which lanes diverged.
    pub divergent: u64,
}

/// Requests to a memory space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests: one per warp instruction and memory space that it accesses.
    pub requests: u64,
    /// Active lanes, summed over requests.
    pub lanes: u64,
    /// Bytes that lanes requested.
    pub bytes: u64,
    /// Distinct sectors of 32 bytes in each request, summed over requests. Global and local memory.
    pub sectors: u64,
    /// Distinct lines of 128 bytes in each request, summed over requests. Global and local memory.
    pub lines: u64,
    /// Sectors that the distinct bytes of each request would fill if they were contiguous, summed over requests. Global
    /// memory.
    pub ideal_sectors: u64,
    /// Those of `sectors` that are loads bypassing L1. Global memory.
    pub uncached_sectors: u64,
    /// Passes through the banks of shared memory (wavefronts); for constants and parameters, distinct addresses in each
    /// request.
    pub wavefronts: u64,
    /// Passes through the banks if no two words of a request shared a bank.
    pub ideal_wavefronts: u64,
    /// Sectors of global memory that the block had not accessed with this kind of operation before.
    pub first_sectors: u64,
    /// Atomics: distinct addresses in each request, summed over requests.
    pub addresses: u64,
    /// Atomics: lanes at the most contended address of each request, summed over requests.
    pub depth: u64,
    /// Atomics: the most lanes of any request at one address.
    pub max_depth: u64,
    /// Atomics: like `depth`, but 1 for a request whose lanes ptxas merges into one operation: see [`Hottest`].
    pub serial: u64,
    /// Bytes in the shared memory of another block of the cluster.
    pub remote_bytes: u64,
}

impl Traffic {
    /// Adds another's counts.
    #[inline]
    pub fn add(&mut self, other: &Traffic) {
        self.requests = self.requests.saturating_add(other.requests);
        self.lanes = self.lanes.saturating_add(other.lanes);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sectors = self.sectors.saturating_add(other.sectors);
        self.lines = self.lines.saturating_add(other.lines);
        self.ideal_sectors = self.ideal_sectors.saturating_add(other.ideal_sectors);
        self.uncached_sectors = self.uncached_sectors.saturating_add(other.uncached_sectors);
        self.wavefronts = self.wavefronts.saturating_add(other.wavefronts);
        self.ideal_wavefronts = self.ideal_wavefronts.saturating_add(other.ideal_wavefronts);
        self.first_sectors = self.first_sectors.saturating_add(other.first_sectors);
        self.addresses = self.addresses.saturating_add(other.addresses);
        self.depth = self.depth.saturating_add(other.depth);
        self.max_depth = self.max_depth.max(other.max_depth);
        self.serial = self.serial.saturating_add(other.serial);
        self.remote_bytes = self.remote_bytes.saturating_add(other.remote_bytes);
    }

    /// The counts of this number of requests like this one.
    #[must_use]
    pub fn times(&self, requests: u64) -> Traffic {
        if requests == 0 {
            return Traffic::default();
        }
        Traffic {
            requests: self.requests.saturating_mul(requests),
            lanes: self.lanes.saturating_mul(requests),
            bytes: self.bytes.saturating_mul(requests),
            sectors: self.sectors.saturating_mul(requests),
            lines: self.lines.saturating_mul(requests),
            ideal_sectors: self.ideal_sectors.saturating_mul(requests),
            uncached_sectors: self.uncached_sectors.saturating_mul(requests),
            wavefronts: self.wavefronts.saturating_mul(requests),
            ideal_wavefronts: self.ideal_wavefronts.saturating_mul(requests),
            first_sectors: self.first_sectors.saturating_mul(requests),
            addresses: self.addresses.saturating_mul(requests),
            depth: self.depth.saturating_mul(requests),
            max_depth: self.max_depth,
            serial: self.serial.saturating_mul(requests),
            remote_bytes: self.remote_bytes.saturating_mul(requests),
        }
    }

    /// Bank conflicts: passes through the banks beyond the minimum.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts.saturating_sub(self.ideal_wavefronts)
    }

    /// The counts by name.
    pub fn fields(&self) -> [(&'static str, u64); 15] {
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
            ("remote_bytes", self.remote_bytes),
        ]
    }
}

/// Barriers, and how evenly warps arrive at them. A warp's *work* is the number of instructions since its previous barrier,
/// including the barrier itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barriers {
    /// Arrivals of warps, or of parts of warps.
    pub arrivals: u64,
    /// Completed phases, each counted at the instruction of the last warp to arrive.
    pub phases: u64,
    /// Warps in each phase, summed over phases.
    pub warps: u64,
    /// Work of all warps in each phase, summed over phases.
    pub work: u64,
    /// Work of the busiest warp of each phase, summed over phases.
    pub longest: u64,
    /// The difference between the work of the busiest warp and that of each other warp, summed over warps and phases.
    pub idle: u64,
}

impl Barriers {
    /// Maximum work minus mean work, summed over phases; exact if every phase has the same number of warps.
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

    /// The counts of this number of blocks like this one.
    #[must_use]
    pub fn times(&self, times: u64) -> Barriers {
        Barriers {
            arrivals: self.arrivals * times,
            phases: self.phases * times,
            warps: self.warps * times,
            work: self.work * times,
            longest: self.longest * times,
            idle: self.idle * times,
        }
    }

    /// The counts by name.
    pub fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("arrivals", self.arrivals),
            ("phases", self.phases),
            ("warps", self.warps),
            ("work", self.work),
            ("longest", self.longest),
            ("idle", self.idle),
        ]
    }
}

/// Uses of mbarriers. An mbarrier is used by threads, not by warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mbarriers {
    /// Threads that initialized one.
    pub inits: u64,
    /// Arrivals of threads and of their asynchronous copies.
    pub arrivals: u64,
    /// Transactions of bulk copies that completed, each counted at the instruction of its copy.
    pub transactions: u64,
    /// Completed phases, each counted at the instruction of the last arrival or copy.
    pub phases: u64,
    /// Tests whether a phase is complete, by threads.
    pub tests: u64,
    /// Those of them that found it incomplete: in a loop, how often threads poll.
    pub unfinished: u64,
}

impl Mbarriers {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Mbarriers) {
        self.inits += other.inits;
        self.arrivals += other.arrivals;
        self.transactions += other.transactions;
        self.phases += other.phases;
        self.tests += other.tests;
        self.unfinished += other.unfinished;
    }

    /// The counts of this number of blocks like this one.
    #[must_use]
    pub fn times(&self, times: u64) -> Mbarriers {
        Mbarriers {
            inits: self.inits * times,
            arrivals: self.arrivals * times,
            transactions: self.transactions * times,
            phases: self.phases * times,
            tests: self.tests * times,
            unfinished: self.unfinished * times,
        }
    }

    /// The counts by name.
    pub fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("inits", self.inits),
            ("arrivals", self.arrivals),
            ("transactions", self.transactions),
            ("phases", self.phases),
            ("tests", self.tests),
            ("unfinished", self.unfinished),
        ]
    }
}

/// The addresses of the least efficient request of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The space: shared or global memory.
    pub space: Space,
    /// Bytes of each lane.
    pub bytes: u32,
    /// The active lanes, each with its distance in bytes from the first of them.
    pub lanes: Vec<(u32, i64)>,
    /// Passes through the banks of shared memory, or sectors of global memory.
    pub taken: u64,
    /// The minimum possible number.
    pub ideal: u64,
}

impl Sample {
    /// Whether it wastes more than another.
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
    /// The function that contains it.
    pub function: String,
    /// Its line in the PTX text.
    pub ptx_line: u32,
    /// The CUDA lines it came from, the innermost inlined call first.
    pub source: Vec<SourceLine>,
    /// What it is.
    pub op: Op,
    /// The opcode with its modifiers, to be shown.
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
    /// Barrier counts, if it is a barrier.
    pub barriers: Barriers,
    /// Uses of mbarriers, by it or by the copies that it started.
    pub mbarriers: Mbarriers,
    /// For shared and for global memory, the least efficient request; `None` if no request was inefficient.
    pub worst: Vec<Sample>,
}

/// Counts of several instructions: of a line or of the launch.
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
    /// Barriers of blocks.
    pub barriers: Barriers,
    /// Barriers of clusters; each block counts its own part of a phase.
    pub cluster_barriers: Barriers,
    /// Uses of mbarriers.
    pub mbarriers: Mbarriers,
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
        let used = instruction.barriers.arrivals > 0 || instruction.mbarriers != Mbarriers::default();
        if issued.executions == 0 && instruction.memory.is_empty() && !used {
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
        if matches!(instruction.op, Op::ClusterBarrier { .. }) {
            self.cluster_barriers.add(&instruction.barriers);
        } else {
            self.barriers.add(&instruction.barriers);
        }
        self.mbarriers.add(&instruction.mbarriers);
    }

    /// The sum of the requests to a space by these operations, or by all operations if the list is empty.
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
        let all = self.tensor.iter().map(|(shape, count)| count.saturating_mul(multiply_adds(shape)));
        all.fold(0, u64::saturating_add)
    }

    /// Every count by its name, such as `global.ld.sectors`; zero counts are omitted.
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
        for (kind, barriers) in [("barrier", &self.barriers), ("cluster_barrier", &self.cluster_barriers)] {
            for (name, value) in barriers.fields() {
                put(format!("{kind}.{name}"), value);
            }
        }
        for (name, value) in self.mbarriers.fields() {
            put(format!("mbarrier.{name}"), value);
        }
        flat
    }
}

/// Sectors of device memory that were accessed at least once: the traffic that remains with caches of any size. This is an
/// *estimate*: it assumes that each block has its own L1 that evicts nothing while the block runs, and that L2 evicts
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compulsory {
    /// Distinct sectors that a block loaded, summed over blocks: the minimum number of L1 misses with a cold L1.
    pub block_loaded: u64,
    /// Distinct sectors that a block loaded through L1, summed over blocks.
    pub block_cached: u64,
    /// Distinct sectors that a block stored, summed over blocks.
    pub block_stored: u64,
    /// Distinct sectors that the launch loaded: the minimum DRAM reads with a cold L2.
    pub grid_loaded: u64,
    /// Distinct sectors that the launch stored: the minimum DRAM writes.
    pub grid_stored: u64,
    /// Distinct sectors that the launch loaded or stored.
    pub grid_touched: u64,
    /// Whether the memory for tracking ran out, so that these numbers are too small.
    pub incomplete: bool,
}

/// The word of device memory with the most atomic operations. Atomic operations at one word are serialized.
///
/// Each lane of a request counts as one operation, except where ptxas merges the lanes of a warp into one operation:
/// additions, minima, maxima and bitwise operations on 32-bit integers at an address that ptxas can prove to be the same
/// for all lanes. If the old value is used, ptxas merges only the addition of a constant. Such a request, with all its
/// lanes at one address, counts as one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hottest {
    /// Operations at that word.
    pub operations: u64,
    /// Whether the memory for tracking ran out, so that another word may have more.
    pub incomplete: bool,
}

/// Sectors transferred between L1 and L2. Stores, atomics and loads that bypass L1 count each time; loads through L1 count
/// once per block, as if L1 evicted nothing while a block runs. So it is an *estimate*.
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
    /// The sum of all four.
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
    /// Blocks of a cluster in each direction.
    pub cluster: [u32; 3],
    /// Bytes of static shared memory of a block.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// Blocks that were counted, or that the sample represents: all blocks, unless the launch stopped early.
    pub blocks: u64,
    /// Every instruction, in code order.
    pub instructions: Vec<Instruction>,
    /// The totals of the launch.
    pub totals: Totals,
    /// The traffic that no cache can avoid.
    pub compulsory: Compulsory,
    /// The word with the most atomic operations.
    pub hottest: Hottest,
    /// Present if only a sample of the blocks was counted, and all totals are scaled to the whole grid.
    pub sampled: Option<Sampling>,
}

impl Counters {
    /// Threads of a block.
    pub fn block_threads(&self) -> u64 {
        self.block.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Blocks of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().fold(1, |blocks, extent| blocks.saturating_mul(*extent))
    }

    /// Warps of these blocks.
    pub fn warps(&self) -> u64 {
        self.blocks * self.block_threads().div_ceil(32)
    }

    /// Sectors transferred between L1 and L2.
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
                MemoryOp::Bulk => found.stores += traffic.sectors - traffic.uncached_sectors,
                MemoryOp::Atomic => found.atomics += traffic.sectors,
                MemoryOp::Reduction => found.reductions += traffic.sectors,
                _ => {}
            }
        }
        found
    }

    /// The counts of each line; with a line table, of the line in the innermost inlined function.
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

/// A count that differs between two launches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The line; `None` for the launch as a whole.
    pub line: Option<LineKey>,
    /// The counter.
    pub counter: String,
    /// The value in the first launch.
    pub before: u64,
    /// The value in the second launch.
    pub after: u64,
}

/// The counters of a launch as names and numbers, as stored in a file; zero counts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flat {
    /// Counters of the launch as a whole.
    pub launch: BTreeMap<String, u64>,
    /// Counters of each line.
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
    /// The differences to another launch: first for the launches as a whole, then line by line.
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

/// The differences between the counters of two launches: first for the launches as a whole, then line by line.
pub fn diff(before: &Counters, after: &Counters) -> Vec<Change> {
    before.flat().changes(&after.flat())
}
