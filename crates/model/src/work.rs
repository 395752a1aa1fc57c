//! Converts counters of the software GPU into work per resource.

use crate::bound::Work;
use crate::{Device, Pipe, TensorType, Usage, grouped};
use warpproof_count::{Counters, Instruction, MemoryOp, Traffic, multiply_adds};
use warpproof_sim::isa::op::ArithmeticKind;
use warpproof_sim::isa::{Op, Unit};
use warpproof_sim::memory::Space;

const SECTOR: u64 = 32;

/// The work of a launch, by resource. `machine` contains its machine instructions by pipe, if their counts
/// are known.
pub fn of(
    device: &Device,
    counters: &Counters,
    usage: Usage,
    machine: Option<Vec<(Pipe, u64)>>,
    remarks: &mut Vec<String>,
) -> Work {
    let totals = &counters.totals;
    let mut work = Work {
        instructions: machine.unwrap_or_else(|| of_ptx(counters)),
        shared_wavefronts: totals.traffic(Space::Shared, &[]).wavefronts,
        one_address: counters.hottest.operations,
        blocks: counters.blocks,
        threads: u32::try_from(counters.block_threads()).unwrap_or(u32::MAX),
        cluster: counters.cluster_size(),
        usage,
        ..Work::default()
    };
    for (shape, count) in &totals.tensor {
        match tensor(shape) {
            Some(kind) => {
                let fma = count.saturating_mul(executed(shape));
                match work.tensor.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, sum)) => *sum = sum.saturating_add(fma),
                    None => work.tensor.push((kind, fma)),
                }
            }
            None => {
                remarks
                    .push(format!("matrix products of {shape} have no published rate and are not counted"));
            }
        }
    }
    for space in [Space::Global, Space::Generic, Space::Local] {
        work.l1_sectors = work.l1_sectors.saturating_add(totals.traffic(space, &[]).sectors);
    }
    work.l1_sectors =
        work.l1_sectors.saturating_sub(totals.traffic(Space::Global, &[MemoryOp::Bulk]).sectors);
    work.shared_wavefronts = work.shared_wavefronts.saturating_add(operand_wavefronts(counters));
    let remote = totals.traffic(Space::Shared, &[]).remote_bytes;
    if remote > 0 {
        remarks.push(format!(
            "{} bytes are in the shared memory of other blocks of a cluster: no rate of the network between multiprocessors was \
             found, so they count as accesses to the own one",
            grouped(remote)
        ));
    }
    if let Some(sampling) = counters.sampled.as_ref().filter(|_| counters.hottest.incomplete) {
        remarks.push(format!(
            "one address may have up to {} atomics: the bound uses the {} of the sampled blocks and may be too low",
            grouped(sampling.hottest_at_most),
            grouped(counters.hottest.operations)
        ));
    } else if counters.hottest.incomplete {
        remarks.push(
            "atomics touch more memory than the counters track: one address may have more atomics than reported".to_owned(),
        );
    }
    let compulsory = &counters.compulsory;
    if compulsory.incomplete {
        remarks.push(
            "the launch touches more memory than the counters track: the bounds underestimate L2 and DRAM bytes, and in \
             the schedule every access misses L1"
                .to_owned(),
        );
    }
    let room = u64::from(device.l2_kb.value) * 1024;
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
    work.l2_bytes = bytes(counters.second_level().sectors());
    // Stored data may stay in the cache up to its size; the excess must be written back while the kernel
    // runs.
    work.dram_bytes =
        bytes(compulsory.grid_loaded).saturating_add(bytes(compulsory.grid_stored).saturating_sub(room));
    work.dram_bytes_warm = bytes(compulsory.grid_touched).saturating_sub(room);
    work
}

/// Passes through the banks for the operands of `wgmma` in shared memory: the four warps of a warpgroup read B together, and A
/// unless it is in registers.
fn operand_wavefronts(counters: &Counters) -> u64 {
    let of = |instruction: &Instruction| {
        let Op::MultiplyAsync(product) = &instruction.op else { return 0 };
        let ([m, n, k], bits) = (product.shape.map(u64::from), u64::from(product.elements[1].bits()));
        let rows = if product.registers { n } else { m + n };
        let warps = instruction.issued.executions.saturating_sub(instruction.issued.passed);
        warps.saturating_mul(rows * k * bits / 8).div_ceil(4 * 128)
    };
    counters.instructions.iter().map(of).fold(0, u64::saturating_add)
}

/// Whether the operation returns no data.
pub fn is_store(op: MemoryOp) -> bool {
    matches!(
        op,
        MemoryOp::Store
            | MemoryOp::StoreTile
            | MemoryOp::Reduction
            | MemoryOp::SurfaceStore
            | MemoryOp::SurfaceReduction
    )
}

/// Whether the operation bypasses the L1 cache.
pub fn bypasses(op: MemoryOp, traffic: &Traffic) -> bool {
    matches!(op, MemoryOp::Atomic | MemoryOp::Reduction | MemoryOp::SurfaceReduction)
        || traffic.uncached_sectors > 0
}

/// The same work without bank conflicts.
pub fn without_conflicts(work: &Work, counters: &Counters) -> Work {
    let ideal = counters.totals.traffic(Space::Shared, &[]).ideal_wavefronts;
    Work { shared_wavefronts: ideal.min(work.shared_wavefronts), ..work.clone() }
}

/// The same work with the bytes of each request contiguous. L1 misses of loads stay as counted, because each
/// sector counts once there however often it is requested; accesses that bypass L1 count each time.
pub fn coalesced(work: &Work, counters: &Counters) -> Work {
    let (mut saved, mut past) = (0u64, 0u64);
    for instruction in &counters.instructions {
        for ((space, op), traffic) in &instruction.memory {
            if matches!(space, Space::Global | Space::Generic) {
                let fewer = traffic.sectors.saturating_sub(traffic.ideal_sectors);
                saved = saved.saturating_add(fewer);
                let stores = matches!(op, MemoryOp::Store | MemoryOp::StoreTile | MemoryOp::SurfaceStore);
                let atomics =
                    matches!(op, MemoryOp::Atomic | MemoryOp::Reduction | MemoryOp::SurfaceReduction);
                if stores || atomics || traffic.uncached_sectors > 0 {
                    past = past.saturating_add(fewer.saturating_mul(SECTOR));
                }
            }
        }
    }
    Work {
        l1_sectors: work.l1_sectors.saturating_sub(saved),
        l2_bytes: work.l2_bytes.saturating_sub(past),
        ..work.clone()
    }
}

/// Warp instructions of the PTX by pipe. Loads of parameters are skipped: parameters become operands of
/// machine code.
fn of_ptx(counters: &Counters) -> Vec<(Pipe, u64)> {
    let mut pipes: Vec<(Pipe, u64)> = Vec::new();
    for instruction in &counters.instructions {
        let pipe = match instruction.pipe {
            _ if matches!(&instruction.op, Op::Load(load) if load.space == Space::Param) => continue,
            _ if matches!(instruction.op, Op::Redux { .. }) => Pipe::Reduce,
            Unit::None => continue,
            Unit::Alu => Pipe::Alu,
            Unit::Fma if multiplies_integers(&instruction.op) => Pipe::IntegerFma,
            Unit::Fma => Pipe::Fma,
            Unit::Half => Pipe::Half,
            Unit::Fp64 => Pipe::Double,
            Unit::Xu => Pipe::Special,
            Unit::Lsu if matches!(instruction.op, Op::Shuffle(_) | Op::Match { .. }) => Pipe::Shuffle,
            // Both are instructions of one unit with the L1 cache.
            Unit::Lsu | Unit::Tex => Pipe::Memory,
            Unit::Tensor => Pipe::Tensor,
            Unit::Adu | Unit::Control => Pipe::Control,
        };
        let count = instruction.issued.executions;
        match pipes.iter_mut().find(|(known, _)| *known == pipe) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => pipes.push((pipe, count)),
        }
    }
    pipes.retain(|(_, count)| *count > 0);
    pipes.sort_by_key(|(pipe, _)| *pipe);
    pipes
}

/// Whether the instruction multiplies whole numbers.
fn multiplies_integers(op: &Op) -> bool {
    let Op::Arithmetic(op) = op else { return false };
    matches!(op.kind, ArithmeticKind::Mul | ArithmeticKind::Mad) && op.ty.is_some_and(|ty| !ty.is_float())
}

/// Multiply-adds of a product that take time: a sparse product skips half of its depth.
fn executed(shape: &str) -> u64 {
    let dense: Vec<&str> = shape.split('.').filter(|word| !is_sparse(word)).collect();
    let all = multiply_adds(&dense.join("."));
    if shape.split('.').any(is_sparse) { all / 2 } else { all }
}

/// `sp`, `sp::ordered_metadata`.
fn is_sparse(word: &str) -> bool {
    word == "sp" || word.starts_with("sp::")
}

/// The rate of a matrix product, from its shape and types: `m16n8k32.f32.e4m3.e4m3.f32`; `m16n16k16.f32.f32`
/// of `wmma` omits that its operands are f16.
fn tensor(shape: &str) -> Option<TensorType> {
    let types: Vec<&str> = shape.split('.').filter(|word| !is_sparse(word)).skip(1).collect();
    let (result, operand) = match types.as_slice() {
        [result, operand, ..] if types.len() >= 3 => (*result, *operand),
        [result, ..] => (*result, "f16"),
        [] => return None,
    };
    let short = result == "f16";
    Some(match operand {
        "f16" if short => TensorType::F16ToF16,
        "f16" | "bf16" => TensorType::F16ToF32,
        "tf32" => TensorType::Tf32,
        "e4m3" | "e5m2" if short => TensorType::F8ToF16,
        "e4m3" | "e5m2" => TensorType::F8ToF32,
        "s8" | "u8" => TensorType::Int8,
        "f64" => TensorType::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_products_have_rates() {
        assert_eq!(tensor("m16n8k32.f32.e4m3.e4m3.f32"), Some(TensorType::F8ToF32));
        assert_eq!(tensor("m16n8k16.f32.bf16.bf16.f32"), Some(TensorType::F16ToF32));
        assert_eq!(tensor("m16n8k16.f16.f16.f16.f16"), Some(TensorType::F16ToF16));
        assert_eq!(tensor("m16n16k16.f32.f32"), Some(TensorType::F16ToF32));
        assert_eq!(tensor("m16n8k8.f32.tf32.tf32.f32"), Some(TensorType::Tf32));
        assert_eq!(tensor("m16n8k32.s32.s8.s8.s32"), Some(TensorType::Int8));
        assert_eq!(tensor("m8n8k4.f64.f64.f64.f64"), Some(TensorType::F64));
        assert_eq!(tensor("m16n8k64.s32.s4.s4.s32"), None);
        for sparse in ["sp.m16n8k32.f16.f16.f16.f16", "sp::ordered_metadata.m16n8k32.f16.f16.f16.f16"] {
            assert_eq!(tensor(sparse), Some(TensorType::F16ToF16));
            assert_eq!(executed(sparse), 2048);
        }
        assert_eq!(executed("m16n8k16.f32.bf16.bf16.f32"), 2048);
        assert_eq!(tensor("m16"), None);
    }
}
