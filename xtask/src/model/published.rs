//! Published figures.
//!
//! A test is a figure that the model does not know. An anchor follows from a constant of the model and from its algorithm; it
//! shows that the model uses the constant correctly. A peak equals a constant of the device table, and validates nothing by
//! itself.

/// Whether the model knows the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Test,
    Anchor,
    Peak,
}

/// The memory level in which loads find their data.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryLevel {
    /// Shared memory without conflicts, or the L1 cache.
    Near,
    /// Shared memory with a bank conflict of this many ways.
    Conflicts(f64),
    L2,
    Dram,
}

/// The unit of a figure; the number is the amount of work of one warp instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// Cycles per instruction.
    Cycles,
    /// Per multiprocessor and cycle.
    PerClock(f64),
    /// 10^12 per second, for the device at its boost clock.
    Tera(f64),
    /// Gigabytes per second, for the device.
    Gigabytes(f64),
}

/// A kernel, and its published figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) kernel: &'static str,
    pub(super) device: &'static str,
    pub(super) what: &'static str,
    /// Instructions of the measured kind in an iteration of the loop.
    pub(super) operations: u32,
    pub(super) warps: u32,
    pub(super) blocks: u32,
    /// Whether all multiprocessors run and share the memory.
    pub(super) everywhere: bool,
    pub(super) place: MemoryLevel,
    pub(super) unit: Unit,
    pub(super) published: f64,
    pub(super) role: Role,
    pub(super) source: &'static str,
}

const ABDELKHALIK: &str = "Abdelkhalik et al. 2022, arXiv 2208.11174";
const LUO: &str = "Luo et al. 2024, arXiv 2402.13499";
const SUN: &str = "Sun et al. 2022, arXiv 2206.02874";
const SUN_30: &str = "Sun et al. 2022, arXiv 2206.02874, RTX 3070 Ti, the same multiprocessor";
const ACCEL_30: &str = "Accel-Sim, configuration of the RTX 3070, the same multiprocessor";
const ACCEL_80: &str = "Accel-Sim, configuration of the A100";
const ACCEL_90: &str = "Accel-Sim, configuration of the H100";
const CLPEAK: &str = "clpeak, report 106: RTX 4090 at a 248 W limit";
const GUIDE: &str = "CUDA C++ Programming Guide 13: a conflict of k ways takes k times as long";
const ADA_SHARED: &str =
    "measured on Ada: loads of 4 bytes from shared memory, 63.7 bytes per clock cycle and multiprocessor";
const THROUGHPUT: &str = "CUDA C++ Programming Guide 13, arithmetic throughput";
const ADA: &str = "NVIDIA Ada GPU Architecture whitepaper";
const L40: &str = "te42kyfo/gpu-benches, measured on an L40";
const BENCHES: &str = "te42kyfo/gpu-benches, gpu-latency";
const BENCHES_L2: &str = "te42kyfo/gpu-benches, gpu-cache and gpu-l2-cache";
const PTXAS: &str = "the stall counts of ptxas";

/// The sources that were opened and read for this table; figures of the others are quoted from memory.
const READ: &[&str] = &[ACCEL_30, ACCEL_80, ACCEL_90, CLPEAK, PTXAS, L40, BENCHES, BENCHES_L2];

/// Latency: one warp on one multiprocessor.
const fn chain(
    kernel: &'static str,
    device: &'static str,
    what: &'static str,
    operations: u32,
    published: f64,
    source: &'static str,
) -> Figure {
    Figure {
        kernel,
        device,
        what,
        operations,
        warps: 1,
        blocks: 1,
        everywhere: false,
        place: MemoryLevel::Near,
        unit: Unit::Cycles,
        published,
        role: Role::Test,
        source,
    }
}

/// Throughput: a full multiprocessor.
const fn rate(
    kernel: &'static str,
    device: &'static str,
    what: &'static str,
    operations: u32,
    unit: Unit,
    published: f64,
    source: &'static str,
) -> Figure {
    Figure {
        kernel,
        device,
        what,
        operations,
        warps: 8,
        blocks: 4,
        everywhere: true,
        place: MemoryLevel::Near,
        unit,
        published,
        role: Role::Test,
        source,
    }
}

impl Figure {
    const fn at(self, place: MemoryLevel) -> Self {
        Self { place, ..self }
    }

    const fn anchor(self) -> Self {
        Self { role: Role::Anchor, ..self }
    }

    const fn peak(self) -> Self {
        Self { role: Role::Peak, ..self }
    }

    /// Whether the figure was read at its source.
    pub(super) fn is_read(&self) -> bool {
        READ.contains(&self.source)
    }
}

/// Every figure.
pub(super) const ROWS: &[Figure] = &[
    chain("ffma_chain", "a100", "cycles", 32, 4.0, ABDELKHALIK),
    chain("lop3_chain", "rtx3090", "cycles", 32, 4.0, ACCEL_30),
    chain("dfma_chain", "a100", "cycles", 32, 6.0, ACCEL_80),
    chain("hmma_chain", "a100", "cycles", 16, 24.7, SUN),
    chain("hmma_k8_chain", "a100", "cycles", 16, 17.7, SUN),
    chain("hmma_chain", "rtx3090", "cycles", 16, 33.0, SUN_30),
    chain("lds_chain", "a100", "cycles", 32, 23.0, ABDELKHALIK),
    chain("lds_chain", "a100", "cycles", 32, 29.0, LUO),
    chain("lds_chain", "rtx4090", "cycles", 32, 30.1, LUO),
    chain("ldg_chain", "a100", "cycles, L1", 32, 33.0, ABDELKHALIK),
    chain("ldg_chain", "a100", "cycles, L1", 32, 37.9, LUO),
    chain("ldg_chain", "rtx4090", "cycles, L1", 32, 43.4, LUO),
    chain("ldg_chain", "rtx4090", "cycles, L2", 32, 273.0, LUO).at(MemoryLevel::L2),
    chain("ldg_chain", "rtx4090", "cycles, DRAM", 32, 541.5, LUO).at(MemoryLevel::Dram),
    rate("ffma_rate", "rtx4090", "TFLOP/s", 64, Unit::Tera(64.0), 77.0, CLPEAK),
    rate("imad_rate", "rtx4090", "TOP/s", 64, Unit::Tera(64.0), 40.8, CLPEAK),
    rate("dfma_rate", "rtx4090", "TFLOP/s", 16, Unit::Tera(64.0), 1.36, CLPEAK),
    rate("lds_rate", "a100", "B/clk", 8, Unit::PerClock(128.0), 128.0, LUO),
    rate("lds_rate", "l4", "B/clk, 1 way", 8, Unit::PerClock(128.0), 63.7, ADA_SHARED),
    rate("lds_wide_rate", "rtx4090", "B/clk", 8, Unit::PerClock(512.0), 127.9, LUO),
    rate("ldg_rate", "rtx4090", "B/clk, L1", 8, Unit::PerClock(128.0), 63.7, LUO),
    rate("ldg_wide_rate", "rtx4090", "B/clk, L1", 8, Unit::PerClock(512.0), 121.2, LUO),
    rate("ldg_wide_rate", "a100", "B/clk, L1", 8, Unit::PerClock(512.0), 106.8, LUO),
    rate("ldg_wide_rate", "h100", "B/clk, L1", 8, Unit::PerClock(512.0), 124.1, LUO),
    rate("ldg_wide_rate", "rtx4090", "B/clk, L2", 8, Unit::PerClock(512.0), 13.3, LUO).at(MemoryLevel::L2),
    rate("ldg_wide_rate", "rtx4090", "GB/s, DRAM", 8, Unit::Gigabytes(512.0), 929.8, LUO)
        .at(MemoryLevel::Dram),
    rate("ldg_wide_rate", "rtx4090", "GB/s, DRAM", 8, Unit::Gigabytes(512.0), 921.3, CLPEAK)
        .at(MemoryLevel::Dram),
    rate("ldg_wide_rate", "a100", "GB/s, DRAM", 8, Unit::Gigabytes(512.0), 1407.2, LUO).at(MemoryLevel::Dram),
    chain("mufu_chain", "rtx3090", "cycles", 32, 20.0, ACCEL_30).anchor(),
    chain("mufu_chain", "a100", "cycles", 32, 23.0, ACCEL_80).anchor(),
    chain("dfma_chain", "h100", "cycles", 32, 8.0, ACCEL_90).anchor(),
    chain("ldg_chain", "a100", "cycles, L1", 32, 36.0, BENCHES).anchor(),
    chain("ldg_chain", "a100", "cycles, L2", 32, 213.0, BENCHES).at(MemoryLevel::L2).anchor(),
    chain("ldg_chain", "a100", "cycles, DRAM", 32, 573.8, BENCHES).at(MemoryLevel::Dram).anchor(),
    chain("ldg_chain", "h100", "cycles, L1", 32, 34.2, BENCHES).anchor(),
    chain("ldg_chain", "h100", "cycles, L2", 32, 265.5, BENCHES).at(MemoryLevel::L2).anchor(),
    chain("ldg_chain", "h100", "cycles, DRAM", 32, 652.4, BENCHES).at(MemoryLevel::Dram).anchor(),
    chain("ldg_chain", "l40s", "cycles, L1", 32, 36.0, BENCHES).anchor(),
    chain("ldg_chain", "l40s", "cycles, L2", 32, 276.5, BENCHES).at(MemoryLevel::L2).anchor(),
    chain("ldg_chain", "l40s", "cycles, DRAM", 32, 631.5, BENCHES).at(MemoryLevel::Dram).anchor(),
    rate("ldg_wide_rate", "a100", "B/clk, L2", 8, Unit::PerClock(512.0), 35.6, BENCHES_L2)
        .at(MemoryLevel::L2)
        .peak(),
    rate("ldg_wide_rate", "rtx3090", "B/clk, L2", 8, Unit::PerClock(512.0), 16.6, BENCHES_L2)
        .at(MemoryLevel::L2)
        .peak(),
    chain("qmma_chain", "l4", "cycles", 16, 24.0, PTXAS).anchor(),
    rate("mufu_rate", "l4", "per clk", 32, Unit::PerClock(32.0), 16.0, THROUGHPUT).peak(),
    rate("hmma_rate", "rtx3090", "FMA/clk", 16, Unit::PerClock(2048.0), 256.0, ACCEL_30).peak(),
    rate("qmma_rate", "rtx4090", "TFLOP/s", 16, Unit::Tera(8192.0), 330.3, ADA).peak(),
    rate("lds_rate", "l4", "B/clk, 2 ways", 8, Unit::PerClock(128.0), 64.0, GUIDE)
        .at(MemoryLevel::Conflicts(2.0))
        .anchor(),
    rate("lds_rate", "l4", "B/clk, 4 ways", 8, Unit::PerClock(128.0), 32.0, GUIDE)
        .at(MemoryLevel::Conflicts(4.0))
        .anchor(),
    rate("lds_rate", "l4", "B/clk, 8 ways", 8, Unit::PerClock(128.0), 16.0, GUIDE)
        .at(MemoryLevel::Conflicts(8.0))
        .anchor(),
    rate("lds_rate", "l4", "B/clk, 32 ways", 8, Unit::PerClock(128.0), 4.0, GUIDE)
        .at(MemoryLevel::Conflicts(32.0))
        .anchor(),
    rate("ldg_wide_rate", "l4", "B/clk, L2", 8, Unit::PerClock(512.0), 16.0, L40).at(MemoryLevel::L2).peak(),
];
