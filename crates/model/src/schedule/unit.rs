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
    /// The wait at the barrier of the cluster.
    ClusterBarrier,
    /// An asynchronous matrix product of a warpgroup; the last one of a group names its counter.
    Product,
    /// The wait for groups of asynchronous matrix products.
    ProductWait,
    /// The test of an mbarrier.
    MbarrierWait,
}

/// Whether it is the machine code of `wgmma.mma_async`.
pub(crate) fn is_wgmma(base: &str) -> bool {
    matches!(base, "HGMMA" | "QGMMA" | "IGMMA" | "BGMMA")
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
        _ if is_wgmma(base) => Pipe::Tensor,
        "LD" | "LDG" | "LDS" | "LDL" | "LDSM" | "LDGSTS" | "ST" | "STG" | "STS" | "STL" | "STSM" | "STAS"
        | "ATOM" | "ATOMG" | "ATOMS" | "RED" | "REDG" | "REDAS" | "QSPC" | "SYNCS" | "ARRIVES" => {
            Pipe::Memory
        }
        "SHFL" | "MATCH" => Pipe::Shuffle,
        "REDUX" | "CREDUX" => Pipe::Reduce,
        "BRA" | "BRX" | "JMP" | "JMX" | "EXIT" | "RET" | "CALL" | "BSSY" | "BSYNC" | "BREAK" | "BAR"
        | "WARPSYNC" | "NOP" | "DEPBAR" | "LDGDEPBAR" | "MEMBAR" | "ERRBAR" | "CCTL" | "YIELD"
        | "NANOSLEEP" | "S2R" | "LDC" | "VOTE" | "FENCE" | "WARPGROUP" | "WARPGROUPSET" | "ELECT"
        | "ACQBULK" | "CGAERRBAR" | "PREEXIT" | "UCGABAR_ARV" | "UCGABAR_WAIT" | "USETMAXREG" => {
            Pipe::Control
        }
        _ if base.starts_with('U') || matches!(base, "S2UR" | "R2UR") => Pipe::Uniform,
        _ => Pipe::Alu,
    }
}

/// Multiply-adds of a matrix instruction that take time, and their type. A sparse product skips half of its depth.
pub(crate) fn tensor(instruction: &Instruction) -> (TensorType, u64) {
    let opcode = &instruction.opcode;
    let mut parts = opcode.split('.').skip(1);
    let shape = parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit())).unwrap_or("16816");
    let fma = match shape {
        // Four warps share the rows of a warpgroup.
        _ if is_wgmma(instruction.base()) => {
            let (n, k) = columns_and_depth(shape);
            16 * n * k
        }
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
        "HMMA" | "HGMMA" if instruction.has("TF32") => TensorType::Tf32,
        "HMMA" | "HGMMA" if short => TensorType::F16ToF16,
        "HMMA" | "HGMMA" => TensorType::F16ToF32,
        "QMMA" | "OMMA" | "QGMMA" if short => TensorType::F8ToF16,
        "QMMA" | "OMMA" | "QGMMA" => TensorType::F8ToF32,
        "DMMA" => TensorType::F64,
        _ => TensorType::Int8,
    };
    (kind, if instruction.has("SP") { fma / 2 } else { fma })
}

/// The columns and the depth of `64x128x16`.
pub(crate) fn columns_and_depth(shape: &str) -> (u64, u64) {
    let mut extents = shape.split('x').skip(1).map(|extent| extent.parse().unwrap_or(8));
    (extents.next().unwrap_or(8), extents.next().unwrap_or(16))
}

/// Bytes of shared memory that a product of a warpgroup reads: B, and A unless it is in registers.
fn operand_bytes(instruction: &Instruction) -> u64 {
    let shape = instruction.opcode.split('.').find(|part| part.starts_with("64x")).unwrap_or("64x8x16");
    let (n, k) = columns_and_depth(shape);
    let bits = match instruction.base() {
        "HGMMA" if instruction.has("TF32") => 32,
        "HGMMA" => 16,
        "BGMMA" => 1,
        _ => 8,
    };
    let shared = instruction.operands.get(1).is_some_and(|operand| operand.starts_with("gdesc"));
    // A sparse product stores half of A.
    let rows = match (shared, instruction.has("SP")) {
        (false, _) => 0,
        (true, true) => 32,
        (true, false) => 64,
    };
    (rows + n) * k * bits / 8
}

/// Cycles for which one warp occupies a sub-core's pipe.
fn interval(device: &Device, instruction: &Instruction, pipe: Pipe) -> u32 {
    let sub_cores = f64::from(device.capability.partitions.value);
    let cycles = match pipe {
        Pipe::Tensor => {
            let (kind, fma) = tensor(instruction);
            // A type without a published rate is assumed to run at the rate of f16 with an f32 accumulator.
            let rate = device.rates.tensor(kind).or_else(|| device.rates.tensor(TensorType::F16ToF32));
            let cycles = |count: u64, rate: f64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / rate;
            let product = rate.map_or(16.0, |rate| cycles(fma, rate / sub_cores));
            // The four warps of a warpgroup, one on each sub-core, read their operands from shared memory together.
            let operands = if is_wgmma(instruction.base()) { operand_bytes(instruction) } else { 0 };
            product.max(cycles(operands, device.rates.shared_bytes.value))
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
        "STG" | "ST" | "STL" | "RED" | "REDG" | "STAS" | "REDAS" => (l1, by_width(12, 14, 18), Kind::Store),
        "LDGSTS" => (l1 + 7, 11, Kind::AsyncCopy),
        // Until the warp waits, the product's accumulators and operands are in use. Assumed: the latency of HMMA in the table of
        // ptxas for sm_90 follows the last part of the product; no measurement was found.
        _ if is_wgmma(base) => (interval + 24, interval + 24, Kind::Product),
        "WARPGROUP" if instruction.has("DEPBAR") => (0, 0, Kind::ProductWait),
        "UCGABAR_WAIT" => (0, 0, Kind::ClusterBarrier),
        "SYNCS" if instruction.has("PHASECHK") => (24, 9, Kind::MbarrierWait),
        // Assumed: like other operations on shared memory that return a value.
        "SYNCS" | "ARRIVES" => (24, 9, Kind::Shared),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse;

    fn of(text: &str) -> (Timing, (TensorType, u64)) {
        let text =
            format!(".section .text.k,\"ax\"\n/*0000*/ {text} ; /* 0x0 */\n/* 0x000fe20000000000 */\n");
        let function = parse(&text).unwrap().remove(0);
        let instruction = &function.instructions[0];
        (timing(Device::named("h100").unwrap(), instruction), tensor(instruction))
    }

    #[test]
    fn products_of_a_warpgroup_take_their_share_of_the_peak() {
        // 64 x 256 x 16 multiply-adds at 2048 per cycle.
        let (timing, kind) = of("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0");
        assert_eq!((timing.interval, timing.kind, timing.pipe), (128, Kind::Product, Pipe::Tensor));
        assert_eq!(kind, (TensorType::F16ToF32, 16 * 256 * 16));
        let (timing, kind) = of("QGMMA.64x256x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24");
        assert_eq!((timing.interval, kind.0), (128, TensorType::F8ToF32));
        assert_eq!(of("HGMMA.64x128x8.F32.TF32 R24, gdesc[UR8], R24").0.interval, 64);
        assert_eq!(of("HGMMA.64x64x16.F16 R24, gdesc[UR8], R24").1.0, TensorType::F16ToF16);
        assert_eq!(of("IGMMA.64x8x32.S8.S8 R32, gdesc[UR8], R32").1, (TensorType::Int8, 16 * 8 * 32));
        // A narrow product waits for its operands: 2 KB of A and 256 bytes of B at 128 bytes per cycle.
        assert_eq!(of("HGMMA.64x8x16.F32 R24, gdesc[UR8], R24").0.interval, 18);
        // With A in registers, it is 4 cycles of multiplication, or 2 of operands.
        assert_eq!(of("HGMMA.64x8x16.F32 R24, R4, gdesc[UR8], R24").0.interval, 4);
        assert_eq!(of("HMMA.16816.F32 R4, R8, R12, R4").1, (TensorType::F16ToF32, 2048));
    }

    #[test]
    fn instructions_of_hopper_have_units() {
        for (text, pipe, kind) in [
            ("WARPGROUP.ARRIVE", Pipe::Control, Kind::Fixed),
            ("WARPGROUP.DEPBAR.LE gsb0, 0x0", Pipe::Control, Kind::ProductWait),
            ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R0", Pipe::Memory, Kind::MbarrierWait),
            ("SYNCS.ARRIVE.TRANS64 RZ, [UR5], R0", Pipe::Memory, Kind::Shared),
            ("UTMALDG.2D [UR4], [UR12]", Pipe::Uniform, Kind::Fixed),
            ("UTMASTG.2D [UR4], [UR8]", Pipe::Uniform, Kind::Fixed),
            ("UTMAREDG.2D.ADD [UR12], [UR18]", Pipe::Uniform, Kind::Fixed),
            ("UBLKCP.S.G [UR4], [UR10], UR16", Pipe::Uniform, Kind::Fixed),
            ("UBLKRED.G.S.ADD [UR16], [UR4], UR5", Pipe::Uniform, Kind::Fixed),
            ("UTMACCTL.PF [URZ]", Pipe::Uniform, Kind::Fixed),
            ("UTMACMDFLUSH", Pipe::Uniform, Kind::Fixed),
            ("USETMAXREG.DEALLOC.CTAPOOL 0x28", Pipe::Control, Kind::Fixed),
            ("UCGABAR_WAIT", Pipe::Control, Kind::ClusterBarrier),
            ("STAS [R2.64], R9", Pipe::Memory, Kind::Store),
            ("REDAS.ADD [R2.64], R9", Pipe::Memory, Kind::Store),
            ("ELECT P0, UR6, PT", Pipe::Control, Kind::Fixed),
            ("R2UR UR4, R0", Pipe::Uniform, Kind::Fixed),
            ("CCTL.IVALL", Pipe::Control, Kind::Fixed),
            ("ACQBULK", Pipe::Control, Kind::Fixed),
        ] {
            let found = of(text).0;
            assert_eq!((found.pipe, found.kind), (pipe, kind), "{text}");
        }
    }
}
