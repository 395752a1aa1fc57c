//! The Nsight Compute names of the counters.
//!
//! Each entry states how exact the number is. Numbers that follow from addresses (sectors, requests, bank conflicts) are
//! the same on a GPU as long as ptxas keeps the accesses, which it does except for merging or splitting some. Instruction
//! counts are counted on PTX. Numbers that depend on caches are estimates.

use super::counters::{Counters, Issued, MemoryOp, Traffic};
use MemoryOp::{
    AsyncCopy, Atomic, Load, LoadMatrix, LoadTile, Mbarrier, Reduction, Store, StoreMatrix, StoreTile,
};
use warpproof_sim::isa::op::CacheOperator;
use warpproof_sim::isa::{Op, Unit};
use warpproof_sim::memory::Space;

/// How close a number is to the count of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exactness {
    /// Determined by the launch: equal.
    Launch,
    /// Determined by the accesses, matrix products and barriers of the program: equal unless ptxas merges, splits or
    /// removes some.
    Access,
    /// Counted on PTX instructions; the number of SASS instructions differs.
    Instruction,
    /// Depends on caches, which are assumed to evict nothing.
    Estimate,
}

impl Exactness {
    /// The explanation as a sentence.
    pub fn note(self) -> &'static str {
        match self {
            Exactness::Launch => "determined by the launch",
            Exactness::Access => "counted on PTX accesses; ptxas may merge, split or remove some",
            Exactness::Instruction => "counted on PTX instructions; the number of SASS instructions differs",
            Exactness::Estimate => {
                "an estimate: sectors accessed for the first time, as if caches evicted nothing"
            }
        }
    }
}

/// The value of an Nsight Compute metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A quotient of counts, or a percentage.
    Ratio(f64),
}

impl Value {
    /// The value as a floating-point number.
    pub fn number(self) -> f64 {
        match self {
            Value::Count(count) => number(count),
            Value::Ratio(ratio) => ratio,
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The unit as Nsight Compute prints it.
    pub unit: &'static str,
    /// How close it is.
    pub exactness: Exactness,
    /// Its meaning here, where that does not follow from the name.
    pub note: &'static str,
    value: fn(&Counters) -> Value,
}

impl Metric {
    /// Its value.
    pub fn value(&self, counters: &Counters) -> Value {
        (self.value)(counters)
    }
}

/// The value of a metric by its Nsight Compute name; `None` if it is not one of [`METRICS`].
pub fn metric(counters: &Counters, name: &str) -> Option<Value> {
    find(name).map(|metric| metric.value(counters))
}

/// The entry of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

fn ratio(above: u64, below: u64) -> Value {
    Value::Ratio(if below == 0 { 0.0 } else { number(above) / number(below) })
}

fn percent(above: u64, below: u64) -> Value {
    Value::Ratio(100.0 * ratio(above, below).number())
}

fn count(value: u64) -> Value {
    Value::Count(value)
}

const LOADS: &[MemoryOp] = &[Load, LoadTile];
const STORES: &[MemoryOp] = &[Store, StoreTile];
const SHARED_LOADS: &[MemoryOp] = &[Load, LoadTile, LoadMatrix];
const SHARED_STORES: &[MemoryOp] = &[Store, StoreTile, StoreMatrix];
const ATOMICS: &[MemoryOp] = &[Atomic, Reduction, Mbarrier];

fn global(c: &Counters, ops: &[MemoryOp]) -> Traffic {
    c.totals.traffic(Space::Global, ops)
}
fn local(c: &Counters, ops: &[MemoryOp]) -> Traffic {
    c.totals.traffic(Space::Local, ops)
}
fn shared(c: &Counters, ops: &[MemoryOp]) -> Traffic {
    c.totals.traffic(Space::Shared, ops)
}
fn pipe(c: &Counters, unit: Unit) -> u64 {
    c.totals.pipe(unit).executions
}

/// Executions of the opcodes that begin with one of these words and have one of these types; of any type if the list is
/// empty.
fn opcodes(c: &Counters, words: &[&str], types: &[&str]) -> Issued {
    let mut sum = Issued::default();
    for (opcode, issued) in &c.totals.opcodes {
        let mut parts = opcode.split('.');
        let first = parts.next().unwrap_or("");
        if words.contains(&first) && (types.is_empty() || parts.any(|part| types.contains(&part))) {
            sum.executions += issued.executions;
            sum.lanes_on += issued.lanes_on;
        }
    }
    sum
}

/// Matrix products whose operands are of one of these types.
fn products(c: &Counters, types: &[&str]) -> u64 {
    let of = |shape: &str| shape.split('.').any(|word| types.contains(&word));
    c.totals.tensor.iter().filter(|(shape, _)| of(shape)).map(|(_, count)| count).sum()
}

const INTEGERS: &[&str] = &["s8", "u8", "s4", "u4", "b1"];

/// Integer products have an `s32` accumulator and no floating-point type.
fn integer_products(c: &Counters) -> u64 {
    products(c, INTEGERS)
}

fn float_products(c: &Counters) -> u64 {
    c.totals.tensor.values().sum::<u64>() - integer_products(c) - products(c, &["f64"])
}

fn fp16_types() -> &'static [&'static str] {
    &["f16", "f16x2", "bf16", "bf16x2"]
}

/// Requests of `cp.async`: those that allocate in L1, or those that bypass it.
fn copies(c: &Counters, past: bool) -> Traffic {
    let mut sum = Traffic::default();
    let bypasses = |op: &Op| matches!(op, Op::CopyAsync(copy) if copy.cache == CacheOperator::Cg);
    for instruction in c.instructions.iter().filter(|one| bypasses(&one.op) == past) {
        for ((space, op), traffic) in &instruction.memory {
            if (*space, *op) == (Space::Global, AsyncCopy) {
                sum.add(traffic);
            }
        }
    }
    sum
}

macro_rules! metrics {
    ($($exactness:ident $unit:literal $name:literal $note:literal $value:expr;)*) => {
        /// All names, in groups.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            unit: $unit,
            exactness: Exactness::$exactness,
            note: $note,
            value: $value,
        },)*];
    };
}

metrics! {
    // The launch.
    Launch "" "launch__grid_size" "" |c| count(c.grid.iter().map(|n| u64::from(*n)).product());
    Launch "" "launch__grid_dim_x" "" |c| count(u64::from(c.grid[0]));
    Launch "" "launch__grid_dim_y" "" |c| count(u64::from(c.grid[1]));
    Launch "" "launch__grid_dim_z" "" |c| count(u64::from(c.grid[2]));
    Launch "" "launch__block_size" "" |c| count(c.block_threads());
    Launch "" "launch__block_dim_x" "" |c| count(u64::from(c.block[0]));
    Launch "" "launch__block_dim_y" "" |c| count(u64::from(c.block[1]));
    Launch "" "launch__block_dim_z" "" |c| count(u64::from(c.block[2]));
    Launch "thread" "launch__thread_count" "" |c| {
        count(c.grid.iter().map(|n| u64::from(*n)).product::<u64>() * c.block_threads())
    };
    Launch "byte/block" "launch__shared_mem_per_block_static" "" |c| count(u64::from(c.static_shared));
    Launch "byte/block" "launch__shared_mem_per_block_dynamic" "" |c| count(u64::from(c.dynamic_shared));
    Launch "block" "sm__ctas_launched.sum" "" |c| count(c.blocks);
    Launch "warp" "smsp__warps_launched.sum" "" |c| count(c.warps());
    Launch "thread" "smsp__threads_launched.sum" "" |c| count(c.blocks * c.block_threads());

    // Instructions.
    Instruction "inst" "smsp__inst_executed.sum" "" |c| count(c.totals.issued.executions);
    Instruction "inst" "sm__inst_executed.sum" "" |c| count(c.totals.issued.executions);
    Instruction "inst/warp" "smsp__average_inst_executed_per_warp.ratio" "" |c| {
        ratio(c.totals.issued.executions, c.warps())
    };
    Instruction "" "smsp__thread_inst_executed.sum" "threads that reach an instruction" |c| count(c.totals.issued.lanes);
    Instruction "" "smsp__thread_inst_executed_pred_on.sum" "threads whose guard is true" |c| count(c.totals.issued.lanes_on);
    Instruction "" "smsp__thread_inst_executed_per_inst_executed.ratio" "" |c| {
        ratio(c.totals.issued.lanes, c.totals.issued.executions)
    };
    Instruction "" "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio" "" |c| {
        ratio(c.totals.issued.lanes_on, c.totals.issued.executions)
    };

    // Pipes.
    Instruction "inst" "smsp__inst_executed_pipe_alu.sum" "" |c| count(pipe(c, Unit::Alu));
    Instruction "inst" "smsp__inst_executed_pipe_fma.sum" "includes half precision, which runs on this pipe on Ada" |c| {
        count(pipe(c, Unit::Fma) + pipe(c, Unit::Half))
    };
    Instruction "inst" "smsp__inst_executed_pipe_fma_type_fp16.sum" "" |c| count(pipe(c, Unit::Half));
    Instruction "inst" "smsp__inst_executed_pipe_fp16.sum" "on devices where it is a separate pipe" |c| count(pipe(c, Unit::Half));
    Instruction "inst" "smsp__inst_executed_pipe_fp64.sum" "" |c| count(pipe(c, Unit::Fp64));
    Instruction "inst" "smsp__inst_executed_pipe_xu.sum" "" |c| count(pipe(c, Unit::Xu));
    Instruction "inst" "smsp__inst_executed_pipe_lsu.sum" "includes loads of parameters, which become operands in SASS" |c| count(pipe(c, Unit::Lsu));
    Instruction "inst" "smsp__inst_executed_pipe_adu.sum" "barriers; on a GPU also indexed constants" |c| count(pipe(c, Unit::Adu));
    Instruction "inst" "smsp__inst_executed_pipe_cbu.sum" "branches, calls, votes, warp synchronization" |c| count(pipe(c, Unit::Control));
    Access "inst" "smsp__inst_executed_pipe_tensor.sum" "a wmma counts as one instruction; a GPU executes several" |c| count(pipe(c, Unit::Tensor));
    Access "inst" "sm__inst_executed_pipe_tensor.sum" "a wmma counts as one instruction; a GPU executes several" |c| count(pipe(c, Unit::Tensor));
    Access "inst" "sm__inst_executed_pipe_tensor_op_hmma.sum" "f16, bf16, tf32 and fp8 operands" |c| count(float_products(c));
    Access "inst" "sm__inst_executed_pipe_tensor_op_imma.sum" "integer operands" |c| count(integer_products(c));
    Access "inst" "sm__inst_executed_pipe_tensor_op_dmma.sum" "" |c| count(products(c, &["f64"]));

    // Threads by operation.
    Instruction "" "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum" "add, sub .f32" |c| count(opcodes(c, &["add", "sub"], &["f32"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum" "mul .f32; ptxas may fuse it with an add" |c| count(opcodes(c, &["mul"], &["f32"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" "fma, mad .f32" |c| count(opcodes(c, &["fma", "mad"], &["f32"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum" "add, sub .f64" |c| count(opcodes(c, &["add", "sub"], &["f64"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum" "mul .f64" |c| count(opcodes(c, &["mul"], &["f64"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum" "fma, mad .f64" |c| count(opcodes(c, &["fma", "mad"], &["f64"]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum" "add, sub of half precision" |c| count(opcodes(c, &["add", "sub"], fp16_types()).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum" "mul of half precision" |c| count(opcodes(c, &["mul"], fp16_types()).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum" "fma of half precision" |c| count(opcodes(c, &["fma"], fp16_types()).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum" "cvt" |c| count(opcodes(c, &["cvt"], &[]).lanes_on);
    Instruction "" "smsp__sass_thread_inst_executed_op_control_pred_on.sum" "bra, brx, call, ret, exit" |c| {
        count(opcodes(c, &["bra", "brx", "call", "ret", "exit"], &[]).lanes_on)
    };

    // Branches.
    Instruction "inst" "smsp__inst_executed_op_branch.sum" "bra and brx" |c| count(opcodes(c, &["bra", "brx"], &[]).executions);
    Instruction "" "smsp__sass_branch_targets.sum" "executions of bra and brx" |c| count(opcodes(c, &["bra", "brx"], &[]).executions);
    Instruction "" "smsp__sass_branch_targets_threads_divergent.sum" "executions in which lanes diverge" |c| count(c.totals.branches.divergent);
    Instruction "" "smsp__sass_branch_targets_threads_uniform.sum" "executions in which lanes do not diverge" |c| {
        count(c.totals.branches.taken + c.totals.branches.not_taken)
    };
    Instruction "%" "smsp__sass_average_branch_targets_threads_uniform.pct" "" |c| {
        let uniform = c.totals.branches.taken + c.totals.branches.not_taken;
        percent(uniform, uniform + c.totals.branches.divergent)
    };

    // Memory instructions, except those that no lane executes.
    Access "inst" "smsp__inst_executed_op_global_ld.sum" "" |c| count(global(c, LOADS).requests);
    Access "inst" "smsp__inst_executed_op_global_st.sum" "" |c| count(global(c, STORES).requests);
    Access "inst" "smsp__inst_executed_op_global_red.sum" "red, and atom whose old value is not read" |c| count(global(c, &[Reduction]).requests);
    Access "inst" "smsp__inst_executed_op_local_ld.sum" "stack frames only; ptxas decides about spills" |c| count(local(c, LOADS).requests);
    Access "inst" "smsp__inst_executed_op_local_st.sum" "stack frames only; ptxas decides about spills" |c| count(local(c, STORES).requests);
    Access "inst" "smsp__inst_executed_op_shared_ld.sum" "without ldmatrix" |c| count(shared(c, LOADS).requests);
    Access "inst" "smsp__inst_executed_op_shared_st.sum" "without stmatrix" |c| count(shared(c, STORES).requests);
    Access "inst" "smsp__inst_executed_op_shared_atom.sum" "includes mbarrier operations" |c| count(shared(c, ATOMICS).requests);
    Access "inst" "smsp__inst_executed_op_ldsm.sum" "ldmatrix" |c| count(shared(c, &[LoadMatrix]).requests);
    Access "inst" "smsp__inst_executed_op_ldgsts.sum" "cp.async" |c| count(shared(c, &[AsyncCopy]).requests);
    Access "inst" "sm__sass_inst_executed_op_ldgsts_cache_access.sum" "cp.async.ca" |c| count(copies(c, false).requests);
    Access "inst" "sm__sass_inst_executed_op_ldgsts_cache_bypass.sum" "cp.async.cg" |c| count(copies(c, true).requests);
    Access "inst" "smsp__sass_inst_executed_op_shared_ld.sum" "without ldmatrix" |c| count(shared(c, LOADS).requests);
    Access "inst" "smsp__sass_inst_executed_op_shared_st.sum" "without stmatrix" |c| count(shared(c, STORES).requests);
    Access "inst" "smsp__sass_inst_executed_op_global_ld.sum" "" |c| count(global(c, LOADS).requests);
    Access "inst" "smsp__sass_inst_executed_op_global_st.sum" "" |c| count(global(c, STORES).requests);

    // Requests and sectors of the first-level cache.
    Access "" "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" "without cp.async" |c| count(global(c, LOADS).requests);
    Access "" "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum" "" |c| count(global(c, STORES).requests);
    Access "" "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum" "atom whose old value is read" |c| count(global(c, &[Atomic]).requests);
    Access "" "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum" "red, and atom whose old value is not read" |c| count(global(c, &[Reduction]).requests);
    Access "" "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum" "cp.async" |c| count(global(c, &[AsyncCopy]).requests);
    Access "" "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum" "cp.async.ca" |c| count(copies(c, false).requests);
    Access "" "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum" "cp.async.cg" |c| count(copies(c, true).requests);
    Access "" "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum" "" |c| count(local(c, LOADS).requests);
    Access "" "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum" "" |c| count(local(c, STORES).requests);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" "without cp.async" |c| count(global(c, LOADS).sectors);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum" "" |c| count(global(c, STORES).sectors);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum" "" |c| count(global(c, &[Atomic]).sectors);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum" "" |c| count(global(c, &[Reduction]).sectors);
    Access "sector" "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum" "cp.async" |c| count(global(c, &[AsyncCopy]).sectors);
    Access "sector" "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum" "cp.async.ca" |c| count(copies(c, false).sectors);
    Access "sector" "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum" "cp.async.cg" |c| count(copies(c, true).sectors);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum" "" |c| count(local(c, LOADS).sectors);
    Access "sector" "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum" "" |c| count(local(c, STORES).sectors);
    Access "byte" "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum" "sectors of 32 bytes" |c| count(32 * global(c, LOADS).sectors);
    Access "byte" "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum" "sectors of 32 bytes" |c| count(32 * global(c, STORES).sectors);
    Access "sector/request" "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio" "" |c| {
        ratio(global(c, LOADS).sectors, global(c, LOADS).requests)
    };
    Access "sector/request" "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio" "" |c| {
        ratio(global(c, STORES).sectors, global(c, STORES).requests)
    };
    Access "byte/sector" "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio" "bytes that lanes request" |c| {
        ratio(global(c, LOADS).bytes, global(c, LOADS).sectors)
    };
    Access "byte/sector" "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio" "bytes that lanes request" |c| {
        ratio(global(c, STORES).bytes, global(c, STORES).sectors)
    };

    // Shared memory.
    Access "" "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum" "" |c| count(shared(c, &[]).wavefronts);
    Access "" "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum" "with ldmatrix" |c| count(shared(c, SHARED_LOADS).wavefronts);
    Access "" "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum" "with stmatrix" |c| count(shared(c, SHARED_STORES).wavefronts);
    Access "" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum" "" |c| count(shared(c, &[]).conflicts());
    Access "" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum" "with ldmatrix" |c| count(shared(c, SHARED_LOADS).conflicts());
    Access "" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum" "with stmatrix" |c| count(shared(c, SHARED_STORES).conflicts());
    Access "" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum" "also counts lanes at one address, unless ptxas merges them into one operation" |c| count(shared(c, ATOMICS).conflicts());
    Access "" "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum" "ldmatrix" |c| count(shared(c, &[LoadMatrix]).conflicts());
    Access "" "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum" "cp.async, as stores of its width" |c| count(shared(c, &[AsyncCopy]).conflicts());
    Access "" "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum" "" |c| count(shared(c, &[]).wavefronts);
    Access "" "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_ideal.sum" "" |c| count(shared(c, &[]).ideal_wavefronts);
    Access "" "memory_l1_wavefronts_shared" "" |c| count(shared(c, &[]).wavefronts);
    Access "" "memory_l1_wavefronts_shared_ideal" "" |c| count(shared(c, &[]).ideal_wavefronts);
    Access "" "derived__memory_l1_wavefronts_shared_excessive" "" |c| count(shared(c, &[]).conflicts());
    Access "sector" "memory_l2_theoretical_sectors_global" "" |c| count(global(c, &[]).sectors);

    // Behind L1.
    Estimate "sector" "lts__t_sectors.sum" "loads, stores, atomics and reductions" |c| count(c.second_level().sectors());
    Estimate "sector" "lts__t_sectors_aperture_device.sum" "all of lts__t_sectors: no access goes to the host's memory" |c| count(c.second_level().sectors());
    Estimate "sector" "lts__t_sectors_op_read.sum" "sectors that a block loads for the first time, and all loads past L1" |c| {
        count(c.second_level().loads)
    };
    Estimate "sector" "lts__t_sectors_op_write.sum" "all sectors of stores" |c| count(c.second_level().stores);
    Estimate "sector" "lts__t_sectors_op_atom.sum" "all sectors of atomics whose old value is read" |c| count(c.second_level().atomics);
    Estimate "sector" "lts__t_sectors_op_red.sum" "all sectors of other atomics" |c| count(c.second_level().reductions);
    Estimate "sector" "dram__sectors_read.sum" "sectors that the launch loads for the first time, with a cold L2" |c| count(c.compulsory.grid_loaded);
    Estimate "sector" "dram__sectors_write.sum" "sectors that the launch stores; they may stay in L2" |c| count(c.compulsory.grid_stored);
    Estimate "byte" "dram__bytes_read.sum" "as dram__sectors_read" |c| count(32 * c.compulsory.grid_loaded);
    Estimate "byte" "dram__bytes_write.sum" "as dram__sectors_write" |c| count(32 * c.compulsory.grid_stored);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_many_and_stand_once() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        assert!(names.len() >= 50, "{}", names.len());
    }

    #[test]
    fn every_name_has_a_value_of_nothing() {
        let nothing = Counters::default();
        for entry in METRICS {
            let value = metric(&nothing, entry.name).unwrap().number();
            assert!(value.is_finite(), "{}", entry.name);
        }
        assert_eq!(metric(&nothing, "sm__cycles_elapsed.avg"), None);
    }
}
