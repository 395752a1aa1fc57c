//! The units that each machine instruction occupies, and for how long.
//!
//! Memory latencies are those that Huerta et al. (MICRO 2025) measured on an RTX A6000, from issue to the
//! issue of the instruction that needs the result; cache latencies are the device's own. Special functions:
//! the configurations that Accel-Sim's authors tuned with microbenchmarks, 20 cycles on an RTX 3070 and 23 on
//! an A100 and an H100.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "intervals are small positive numbers of cycles"
)]

use serde::Serialize;

use crate::device::{Device, WARP};
use crate::rates::{Pipe, TensorType};
use crate::sass::Instruction;

/// How an instruction uses memory or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A result after a fixed latency.
    Fixed,
    /// A result after a latency that a dependence counter tracks.
    Variable,
    /// Shared memory, read or written.
    Shared,
    /// A shuffle; it uses the crossbar of shared memory.
    Shuffle,
    /// A load from global or local memory, or an atomic with a result.
    Load,
    /// A store to global or local memory, or an atomic without a result.
    Store,
    /// An asynchronous copy from global to shared memory.
    AsyncCopy,
    /// The end of a group of asynchronous copies.
    AsyncGroup,
    /// The wait for groups of asynchronous copies.
    AsyncWait,
    /// A barrier of the block.
    Barrier,
}

/// The unit that an instruction occupies, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// The pipe.
    pub pipe: Pipe,
    /// Cycles until the sub-core's pipe accepts the next instruction.
    pub interval: u32,
    /// Cycles from issue to the result, if a dependence counter tracks it.
    pub result: u32,
    /// Cycles from issue until the operands are read, if a dependence counter tracks it.
    pub operands: u32,
    /// How it uses memory or waits.
    pub kind: Kind,
}

/// The number of 32-bit words that each lane moves.
pub(crate) fn words(instruction: &Instruction) -> u32 {
    let matrices = instruction.base() == "LDSM" || instruction.base() == "STSM";
    instruction.opcode.split('.').skip(1).fold(1, |found, part| match part {
        "64" => 2,
        "128" => 4,
        "2" if matrices => 2,
        "4" if matrices => 4,
        _ => found,
    })
}

/// The pipe an opcode runs on.
pub(crate) fn pipe(base: &str) -> Pipe {
    match base {
        "FADD" | "FMUL" | "FFMA" | "FADD32I" | "FMUL32I" | "FFMA32I" | "FSWZADD" | "FADD2" | "FMUL2"
        | "FFMA2" => Pipe::Fma,
        "IMAD" | "IMUL" | "IMAD32I" | "IDP" | "XMAD" => Pipe::IntegerFma,
        "HADD2" | "HMUL2" | "HFMA2" | "HADD2_32I" | "HMUL2_32I" | "HFMA2_32I" => Pipe::Half,
        "MUFU" | "I2F" | "F2I" | "F2F" | "I2I" | "FRND" | "POPC" | "FLO" | "BREV" | "FCHK" => Pipe::Special,
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => Pipe::Double,
        "HMMA" | "IMMA" | "QMMA" | "DMMA" | "BMMA" | "OMMA" => Pipe::Tensor,
        "LD" | "LDG" | "LDS" | "LDL" | "LDSM" | "LDGSTS" | "ST" | "STG" | "STS" | "STL" | "STSM" | "ATOM"
        | "ATOMG" | "ATOMS" | "RED" | "REDG" | "QSPC" => Pipe::Memory,
        "SHFL" | "MATCH" => Pipe::Shuffle,
        "REDUX" | "CREDUX" => Pipe::Reduce,
        "BRA" | "BRX" | "JMP" | "JMX" | "EXIT" | "RET" | "CALL" | "BSSY" | "BSYNC" | "BREAK" | "BAR"
        | "WARPSYNC" | "NOP" | "DEPBAR" | "LDGDEPBAR" | "MEMBAR" | "ERRBAR" | "CCTL" | "YIELD"
        | "NANOSLEEP" | "S2R" | "LDC" | "VOTE" | "FENCE" | "WARPGROUP" | "ELECT" => Pipe::Control,
        _ if base.starts_with('U') || matches!(base, "S2UR" | "R2UR") => Pipe::Uniform,
        _ => Pipe::Alu,
    }
}

/// Multiply-adds of a matrix instruction that take time, and their type. A sparse product skips half of its depth.
pub(crate) fn tensor(instruction: &Instruction) -> (TensorType, u64) {
    let opcode = &instruction.opcode;
    let mut parts = opcode.split('.').skip(1);
    let shape =
        parts.find(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())).unwrap_or("16816");
    let fma = match shape {
        "884" => 256,
        "1684" => 512,
        "1688" | "8816" => 1024,
        "16832" => 4096,
        "16864" => 8192,
        // m16n8k16, m8n8k32.
        _ => 2048,
    };
    let short = parts.find(|part| *part != "SP") == Some("F16");
    let kind = match instruction.base() {
        "HMMA" if instruction.has("TF32") => TensorType::Tf32,
        "HMMA" if short => TensorType::F16ToF16,
        "HMMA" => TensorType::F16ToF32,
        "QMMA" | "OMMA" if short => TensorType::F8ToF16,
        "QMMA" | "OMMA" => TensorType::F8ToF32,
        "DMMA" => TensorType::F64,
        _ => TensorType::Int8,
    };
    (kind, if instruction.has("SP") { fma / 2 } else { fma })
}

/// Cycles for which one warp occupies a sub-core's pipe.
fn interval(device: &Device, instruction: &Instruction, pipe: Pipe) -> u32 {
    let sub_cores = f64::from(device.capability.partitions.value);
    let cycles = match pipe {
        Pipe::Tensor => {
            let (kind, fma) = tensor(instruction);
            // A type without a published rate is assumed to run at the rate of f16 with an f32 accumulator.
            let rate = device.rates.tensor(kind).or_else(|| device.rates.tensor(TensorType::F16ToF32));
            rate.map_or(16.0, |rate| f64::from(u32::try_from(fma).unwrap_or(u32::MAX)) / (rate / sub_cores))
        }
        // Without a published rate: one issue slot, plus the stalls that ptxas encoded. For memory and
        // shuffles, the address unit and the shared load/store unit follow after issue.
        Pipe::Control | Pipe::Uniform | Pipe::Memory | Pipe::Shuffle => 1.0,
        _ => device.rates.lanes(pipe).map_or(1.0, |lanes| f64::from(WARP) * sub_cores / lanes),
    };
    (cycles.ceil() as u32).max(1)
}

/// The timing of an instruction on a device.
pub fn timing(device: &Device, instruction: &Instruction) -> Timing {
    let base = instruction.base();
    let pipe = pipe(base);
    let interval = interval(device, instruction, pipe);
    let by_width = |narrow: u32, double: u32, quad: u32| match words(instruction) {
        1 => narrow,
        2 => double,
        _ => quad,
    };
    let l1 = device.rates.l1_latency.value;
    let special = if matches!((device.capability.major, device.capability.minor), (8, 0) | (9 | 10, _)) {
        23
    } else {
        20
    };
    let (result, operands, kind) = match base {
        "LDS" => (by_width(24, 24, 26), 9, Kind::Shared),
        // Sun et al. 2022 (arXiv 2206.02874), A100.
        "LDSM" => (by_width(23, 25, 29), 9, Kind::Shared),
        "STS" | "STSM" => (by_width(24, 24, 26), by_width(12, 14, 18), Kind::Shared),
        "ATOMS" => (2 * by_width(24, 24, 26), 12, Kind::Shared),
        "SHFL" | "MATCH" => (24, 9, Kind::Shuffle),
        "LDG" | "LD" | "LDL" => (l1 + by_width(0, 2, 6), 11, Kind::Load),
        "ATOM" | "ATOMG" => (l1, 14, Kind::Load),
        "STG" | "ST" | "STL" | "RED" | "REDG" => (l1, by_width(12, 14, 18), Kind::Store),
        "LDGSTS" => (l1 + 7, 11, Kind::AsyncCopy),
        "LDGDEPBAR" => (0, 0, Kind::AsyncGroup),
        "DEPBAR" => (0, 0, Kind::AsyncWait),
        "BAR" => (0, 0, Kind::Barrier),
        "LDC" | "ULDC" | "S2R" | "S2UR" | "CS2R" => (28, 10, Kind::Variable),
        _ if pipe == Pipe::Special => (special, 10, Kind::Variable),
        _ if pipe == Pipe::Double => (interval.max(8), 10, Kind::Variable),
        _ if instruction.control.write_barrier.is_some() || instruction.control.read_barrier.is_some() => {
            (24, 10, Kind::Variable)
        }
        _ => (0, 0, Kind::Fixed),
    };
    Timing { pipe, interval, result, operands, kind }
}
