//! Rates of each unit of a multiprocessor, as data.
//!
//! Rates are per multiprocessor and clock cycle. If a number is neither published nor measured, it is `None`,
//! and results that depend on it report that.

use serde::Serialize;

use crate::device::{Sourced, from};

/// A unit that executes warp instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipe {
    /// 32-bit floating point: add, multiply, fused multiply-add.
    Fma,
    /// Integer multiply-add; it shares the multipliers of one half of the FMA pipe.
    IntegerFma,
    /// Packed 16-bit floating point.
    Half,
    /// Integer add, logic, shifts, comparison, minimum and maximum, conversions that pack.
    Alu,
    /// Reciprocal, square root, exponential, logarithm, sine; conversions to and from integers.
    Special,
    /// 64-bit floating point.
    Double,
    /// Matrix multiplication; its rate depends on the type, see [`TensorRate`].
    Tensor,
    /// Loads, stores, atomics.
    Memory,
    /// Shuffles and matches: values that cross between the lanes of a warp.
    Shuffle,
    /// Sums, extremes and logic over the lanes of a warp.
    Reduce,
    /// The uniform datapath, one for each sub-core.
    Uniform,
    /// Branches, barriers, votes and other instructions that take only an issue slot.
    Control,
}

/// The operands and the accumulator of a matrix multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorType {
    /// f16 in, f16 accumulator.
    F16ToF16,
    /// f16 or bf16 in, f32 accumulator.
    F16ToF32,
    /// tf32 in, f32 accumulator.
    Tf32,
    /// e4m3 or e5m2 in, f16 accumulator.
    F8ToF16,
    /// e4m3 or e5m2 in, f32 accumulator.
    F8ToF32,
    /// 8-bit integers.
    Int8,
    /// f64.
    F64,
}

/// Dense multiply-adds of one type per cycle on the tensor cores of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TensorRate {
    /// The type.
    pub kind: TensorType,
    /// Multiply-adds per cycle.
    pub fma: Sourced<f64>,
}

/// The rates of a multiprocessor, and its memory latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Lanes of 32-bit multiply-add per cycle.
    pub fma: Sourced<f64>,
    /// Lanes of integer multiply-add per cycle.
    pub integer_fma: Sourced<f64>,
    /// Lanes of packed 16-bit multiply-add per cycle; each does two.
    pub half: Sourced<f64>,
    /// Lanes of integer add, logic and comparison per cycle.
    pub alu: Sourced<f64>,
    /// Lanes of special functions per cycle.
    pub special: Sourced<f64>,
    /// Lanes of 64-bit multiply-add per cycle.
    pub double: Sourced<f64>,
    /// Lanes of load and store units.
    pub memory: Sourced<f64>,
    /// Lanes of shuffles per cycle.
    pub shuffle: Sourced<f64>,
    /// Lanes of reductions over a warp per cycle.
    pub reduce: Sourced<f64>,
    /// Matrix multiplication.
    pub tensor: &'static [TensorRate],
    /// Bytes of shared memory per cycle; one conflict-free wavefront.
    pub shared_bytes: Sourced<f64>,
    /// Bytes of the L1 cache per cycle.
    pub l1_bytes: Sourced<f64>,
    /// Bytes of the L2 cache per cycle and multiprocessor when all multiprocessors read.
    pub l2_bytes: Option<Sourced<f64>>,
    /// Cycles from a load to its use, on an L1 hit.
    pub l1_latency: Sourced<u32>,
    /// On an L2 hit; in its near half, if the L2 cache has two halves.
    pub l2_latency: Sourced<u32>,
    /// On a hit in the far half of the L2 cache, if it has two: data of a launch is there if it exceeds the
    /// near half.
    pub l2_far_latency: Option<Sourced<u32>>,
    /// On a miss in both caches.
    pub dram_latency: Sourced<u32>,
    /// Microseconds from the end of one kernel of a CUDA graph to the start of the next.
    pub launch_us: Sourced<f64>,
    /// The same for a stream, if the next kernel is ready.
    pub stream_us: Sourced<f64>,
}

impl Rates {
    /// Lanes per cycle of a pipe; `None` for the tensor cores, whose rate depends on the type, and for pipes
    /// without a published rate, which are only known to take an issue slot.
    pub fn lanes(&self, pipe: Pipe) -> Option<f64> {
        match pipe {
            Pipe::Fma => Some(self.fma.value),
            Pipe::IntegerFma => Some(self.integer_fma.value),
            Pipe::Half => Some(self.half.value),
            Pipe::Alu => Some(self.alu.value),
            Pipe::Special => Some(self.special.value),
            Pipe::Double => Some(self.double.value),
            Pipe::Memory => Some(self.memory.value),
            Pipe::Shuffle => Some(self.shuffle.value),
            Pipe::Reduce => Some(self.reduce.value),
            Pipe::Tensor | Pipe::Uniform | Pipe::Control => None,
        }
    }

    /// Multiply-adds per cycle of a type, if the tensor cores support it.
    pub fn tensor(&self, kind: TensorType) -> Option<f64> {
        self.tensor.iter().find(|rate| rate.kind == kind).map(|rate| rate.fma.value)
    }
}

const GUIDE: &str = "CUDA C++ Programming Guide 13, table of arithmetic throughput per compute capability";
const SHUFFLE: &str = "CUDA C++ Programming Guide, table of arithmetic throughput: warp shuffle, 32 results per clock cycle and multiprocessor since 5.0";
const REDUCE: &str = "CUDA C++ Programming Guide, table of arithmetic throughput: warp reduce, 16 results per clock cycle and multiprocessor since 8.0";
const UNITS: &str = "NVIDIA architecture whitepapers, picture of the multiprocessor: load and store units";
const BANKS: &str = "CUDA C++ Programming Guide 13, shared memory: 32 banks of 32 bits per clock cycle";
const L1_SPEC: &str = "NVIDIA whitepapers since Volta: 128 bytes per clock cycle; Luo et al. 2024 (arXiv 2402.13499), quoted from memory, measure 121 on an RTX 4090";
const GRAPH: &str = "te42kyfo/gpu-benches, gpu-small-kernels, l40_graph.txt: kernels of 64 kB follow each other in a graph of an L40 every 0.94 µs, less what the schedule gives to such a kernel; taken for other devices too";
const STREAM: &str = "te42kyfo/gpu-benches, gpu-small-kernels, l40.txt: in a stream every 1.64 µs, likewise";
const L40: &str = "te42kyfo/gpu-benches, measured on an L40 at 2490 MHz: a chase of 64-bit pointers takes 36 cycles in L1, 276 in L2, 631 in DRAM (gpu-latency; the width is 2 of them); L2 5711 GB/s, 16 bytes per clock cycle and multiprocessor (gpu-cache)";
const BENCHES_A100: &str = "te42kyfo/gpu-benches, measured on an A100 40 GB at 1410 MHz (gpu-latency): a chase of 64-bit pointers takes 36 cycles in L1, 203 to 213 in the near half of L2, 350 to 450 beyond it, 561 to 574 in DRAM";
const BENCHES_H100: &str = "te42kyfo/gpu-benches, measured on an H100 PCIe at 1755 MHz (gpu-latency): 34 cycles in L1, 265 in the near half of L2, 460 to 475 beyond it, 650 in DRAM";
const BENCHES_A40: &str = "te42kyfo/gpu-benches, measured on an A40, the same multiprocessor, at 1740 MHz (gpu-cache): L2 2430 GB/s over 84 multiprocessors";
const HUERTA: &str = "Huerta et al. 2025, Analyzing Modern NVIDIA GPU Cores (MICRO 2025), measured on an RTX A6000 and taken for other devices too";
const JIA: &str = "Jia et al. 2019, Dissecting the NVidia Turing T4 GPU via Microbenchmarking (arXiv 1903.07486); quoted from memory, not read again";

/// The rates of the pipes of one compute capability.
struct Pipes {
    fma: f64,
    half: f64,
    double: f64,
    memory: f64,
}

/// The rates that differ between devices of one capability.
struct Memory {
    l2_bytes: Option<Sourced<f64>>,
    l1: Sourced<u32>,
    l2: Sourced<u32>,
    far: Option<Sourced<u32>>,
    dram: Sourced<u32>,
}

const fn rates(pipes: &Pipes, tensor: &'static [TensorRate], memory: &Memory) -> Rates {
    Rates {
        fma: from(GUIDE, pipes.fma),
        integer_fma: from(GUIDE, 64.0),
        half: from(GUIDE, pipes.half),
        alu: from(GUIDE, 64.0),
        special: from(GUIDE, 16.0),
        double: from(GUIDE, pipes.double),
        memory: from(UNITS, pipes.memory),
        shuffle: from(SHUFFLE, 32.0),
        reduce: from(REDUCE, 16.0),
        tensor,
        shared_bytes: from(BANKS, 128.0),
        l1_bytes: from(L1_SPEC, 128.0),
        l2_bytes: memory.l2_bytes,
        l1_latency: memory.l1,
        l2_latency: memory.l2,
        l2_far_latency: memory.far,
        dram_latency: memory.dram,
        launch_us: from(GRAPH, 0.55),
        stream_us: from(STREAM, 1.3),
    }
}

const fn tensor(source: &'static str, kind: TensorType, fma: f64) -> TensorRate {
    TensorRate { kind, fma: from(source, fma) }
}

/// Tesla T4.
pub(crate) static T4: Rates = {
    const PEAK: &str = "NVIDIA T4 datasheet: 65 TFLOPS of FP16, 130 TOPS of INT8, at 1590 MHz";
    rates(
        &Pipes { fma: 64.0, half: 64.0, double: 2.0, memory: 16.0 },
        &[
            tensor(PEAK, TensorType::F16ToF16, 512.0),
            tensor(PEAK, TensorType::F16ToF32, 512.0),
            tensor(PEAK, TensorType::Int8, 1024.0),
        ],
        &Memory { l2_bytes: None, l1: from(JIA, 32), l2: from(JIA, 188), far: None, dram: from(JIA, 434) },
    )
};

/// A100.
pub(crate) static A100: Rates = {
    const PEAK: &str = "NVIDIA A100 Tensor Core GPU Architecture whitepaper: peak rates at 1410 MHz";
    rates(
        &Pipes { fma: 64.0, half: 128.0, double: 32.0, memory: 32.0 },
        &[
            tensor(PEAK, TensorType::F16ToF16, 1024.0),
            tensor(PEAK, TensorType::F16ToF32, 1024.0),
            tensor(PEAK, TensorType::Tf32, 512.0),
            tensor(PEAK, TensorType::Int8, 2048.0),
            tensor(PEAK, TensorType::F64, 64.0),
        ],
        &Memory {
            l2_bytes: Some(from(
                "te42kyfo/gpu-benches, measured on an A100 80 GB at 1410 MHz (gpu-l2-cache): 5420 GB/s over 108 multiprocessors; \
                 the whitepaper's 5120 bytes per clock cycle would be 47",
                35.6,
            )),
            l1: from(BENCHES_A100, 34),
            l2: from(BENCHES_A100, 210),
            far: Some(from(BENCHES_A100, 400)),
            dram: from(BENCHES_A100, 570),
        },
    )
};

/// GeForce RTX 3090 and 3070 Ti: half rate with an f32 accumulator.
pub(crate) static RTX30: Rates = {
    const PEAK: &str = "NVIDIA Ampere GA102 GPU Architecture whitepaper: peak rates at boost clock";
    rates(
        &Pipes { fma: 128.0, half: 64.0, double: 2.0, memory: 16.0 },
        &[
            tensor(PEAK, TensorType::F16ToF16, 512.0),
            tensor(PEAK, TensorType::F16ToF32, 256.0),
            tensor(PEAK, TensorType::Tf32, 128.0),
            tensor(PEAK, TensorType::Int8, 1024.0),
        ],
        &Memory {
            l2_bytes: Some(from(BENCHES_A40, 16.6)),
            l1: from(HUERTA, 32),
            l2: from("the A100's, for want of a figure of its own", 210),
            far: None,
            dram: from("the A100's, for want of a figure of its own", 570),
        },
    )
};

const ADA_PIPES: Pipes = Pipes { fma: 128.0, half: 64.0, double: 2.0, memory: 16.0 };

const ADA_MEMORY: Memory = Memory {
    l2_bytes: Some(from(L40, 16.0)),
    l1: from(L40, 34),
    l2: from(L40, 274),
    far: None,
    dram: from(L40, 629),
};

/// L4 and L40S: full rate with an f32 accumulator.
pub(crate) static ADA_SERVER: Rates = {
    const PEAK: &str =
        "NVIDIA L4 and L40S datasheets, halved to dense: 121 and 366 TFLOPS of FP16, twice that of FP8";
    rates(
        &ADA_PIPES,
        &[
            tensor(PEAK, TensorType::F16ToF16, 512.0),
            tensor(PEAK, TensorType::F16ToF32, 512.0),
            tensor(PEAK, TensorType::Tf32, 256.0),
            tensor(PEAK, TensorType::F8ToF16, 1024.0),
            tensor(PEAK, TensorType::F8ToF32, 1024.0),
            tensor(PEAK, TensorType::Int8, 1024.0),
        ],
        &ADA_MEMORY,
    )
};

/// GeForce RTX 4090: half rate with an f32 accumulator.
pub(crate) static RTX40: Rates = {
    const PEAK: &str = "NVIDIA Ada GPU Architecture whitepaper, GeForce RTX 4090: peak rates at 2520 MHz";
    rates(
        &ADA_PIPES,
        &[
            tensor(PEAK, TensorType::F16ToF16, 512.0),
            tensor(PEAK, TensorType::F16ToF32, 256.0),
            tensor(PEAK, TensorType::Tf32, 128.0),
            tensor(PEAK, TensorType::F8ToF16, 1024.0),
            tensor(PEAK, TensorType::F8ToF32, 512.0),
            tensor(PEAK, TensorType::Int8, 1024.0),
        ],
        &ADA_MEMORY,
    )
};

/// H100.
pub(crate) static H100: Rates = {
    const PEAK: &str = "NVIDIA H100 Tensor Core GPU Architecture whitepaper: peak rates, which need wgmma";
    rates(
        &Pipes { fma: 128.0, half: 128.0, double: 64.0, memory: 32.0 },
        &[
            tensor(PEAK, TensorType::F16ToF16, 2048.0),
            tensor(PEAK, TensorType::F16ToF32, 2048.0),
            tensor(PEAK, TensorType::Tf32, 1024.0),
            tensor(PEAK, TensorType::F8ToF16, 4096.0),
            tensor(PEAK, TensorType::F8ToF32, 4096.0),
            tensor(PEAK, TensorType::Int8, 4096.0),
            tensor(PEAK, TensorType::F64, 128.0),
        ],
        &Memory {
            l2_bytes: Some(from(
                "te42kyfo/gpu-benches, measured on an H100 PCIe at 1755 MHz (gpu-l2-cache): 6950 GB/s over 114 multiprocessors",
                34.7,
            )),
            l1: from(BENCHES_H100, 32),
            l2: from(BENCHES_H100, 263),
            far: Some(from(BENCHES_H100, 465)),
            dram: from(BENCHES_H100, 650),
        },
    )
};

/// B200: compute capability 10.0.
pub(crate) static B200: Rates = {
    const PEAK: &str = "NVIDIA HGX B200 datasheet (as reprinted by hmc-tech.com, NVIDIA B200), dense peak rates at about 1860 MHz, \
                        which need tcgen05: 2.25 PFLOPS of FP16, 4.5 of FP8, 1.13 of TF32";
    const HOPPER: &str = "the H100's, for want of a figure of its own";
    rates(
        &Pipes { fma: 128.0, half: 128.0, double: 64.0, memory: 32.0 },
        &[
            tensor(PEAK, TensorType::F16ToF16, 4096.0),
            tensor(PEAK, TensorType::F16ToF32, 4096.0),
            tensor(PEAK, TensorType::Tf32, 2048.0),
            tensor(PEAK, TensorType::F8ToF16, 8192.0),
            tensor(PEAK, TensorType::F8ToF32, 8192.0),
            tensor(PEAK, TensorType::Int8, 8192.0),
            tensor(PEAK, TensorType::F64, 64.0),
        ],
        &Memory {
            l2_bytes: None,
            l1: from(HOPPER, 32),
            l2: from(HOPPER, 263),
            far: Some(from(HOPPER, 465)),
            dram: from(HOPPER, 650),
        },
    )
};

/// Blackwell of compute capability 12.0.
const fn blackwell(tensor: &'static [TensorRate]) -> Rates {
    const ADA: &str = "Ada's, for want of a figure of its own";
    const INTEGER: &str =
        "Ada's; doubtful, because NVIDIA states that every lane of this architecture does FP32 and INT32";
    let memory =
        Memory { l2_bytes: None, l1: from(ADA, 34), l2: from(ADA, 274), far: None, dram: from(ADA, 629) };
    let mut all = rates(&Pipes { fma: 128.0, half: 64.0, double: 2.0, memory: 16.0 }, tensor, &memory);
    all.alu = from(INTEGER, 64.0);
    all.integer_fma = from(INTEGER, 64.0);
    all
}

/// GeForce RTX 5090: half rate with an f32 accumulator.
pub(crate) static RTX50: Rates = {
    const PEAK: &str =
        "NVIDIA RTX Blackwell GPU Architecture whitepaper, GeForce RTX 5090: peak rates at 2407 MHz";
    blackwell(&[
        tensor(PEAK, TensorType::F16ToF16, 512.0),
        tensor(PEAK, TensorType::F16ToF32, 256.0),
        tensor(PEAK, TensorType::Tf32, 128.0),
        tensor(PEAK, TensorType::F8ToF16, 1024.0),
        tensor(PEAK, TensorType::F8ToF32, 512.0),
        tensor(PEAK, TensorType::Int8, 1024.0),
    ])
};

/// RTX PRO 6000 Blackwell: full rate with an f32 accumulator.
pub(crate) static RTX_PRO_BLACKWELL: Rates = {
    const PEAK: &str = "hmc-tech.com, RTX PRO 6000 Blackwell: dense peak rates at 2617 MHz; zzc0721/torch-performance-test-data, \
                        issue 162, measures 417 TFLOPS of BF16, which half the rate would not allow";
    blackwell(&[
        tensor(PEAK, TensorType::F16ToF16, 512.0),
        tensor(PEAK, TensorType::F16ToF32, 512.0),
        tensor(PEAK, TensorType::Tf32, 256.0),
        tensor(PEAK, TensorType::F8ToF16, 1024.0),
        tensor(PEAK, TensorType::F8ToF32, 1024.0),
        tensor(PEAK, TensorType::Int8, 1024.0),
    ])
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEVICES, Device};

    #[test]
    fn peaks_are_those_of_the_datasheets() {
        // At the clock of the datasheet; H100, H200 and RTX 5090 exceed it.
        for (id, kind, mhz, tera) in [
            ("t4", TensorType::F16ToF32, 1590, 65.0),
            ("a100", TensorType::F16ToF32, 1410, 312.0),
            ("a100", TensorType::F64, 1410, 19.5),
            ("rtx3090", TensorType::F16ToF32, 1695, 71.0),
            ("l4", TensorType::F16ToF32, 2040, 121.0),
            ("l4", TensorType::F8ToF32, 2040, 242.0),
            ("rtx4090", TensorType::F8ToF32, 2520, 330.3),
            ("l40s", TensorType::F16ToF32, 2520, 366.0),
            ("h100", TensorType::F16ToF32, 1830, 989.4),
            ("h100", TensorType::Tf32, 1830, 494.7),
            ("h100", TensorType::F8ToF32, 1830, 1978.9),
            ("h100", TensorType::Int8, 1830, 1978.9),
            ("h100", TensorType::F64, 1980, 66.9),
            ("h100pcie", TensorType::F16ToF32, 1620, 756.5),
            ("h100pcie", TensorType::F8ToF32, 1620, 1513.0),
            ("h200", TensorType::F8ToF32, 1830, 1979.0),
            ("b200", TensorType::F16ToF32, 1860, 2250.0),
            ("b200", TensorType::F8ToF32, 1860, 4500.0),
            ("b200", TensorType::Tf32, 1860, 1130.0),
            ("b200", TensorType::F64, 1860, 35.16),
            ("rtxpro6000", TensorType::F16ToF32, 2617, 503.8),
            ("rtxpro6000", TensorType::F8ToF32, 2617, 1007.6),
            ("rtx5090", TensorType::F8ToF16, 2407, 838.0),
        ] {
            let device = Device::named(id).unwrap();
            let peak = device.rates.tensor(kind).unwrap()
                * 2e-6
                * f64::from(device.multiprocessors.value)
                * f64::from(mhz);
            assert!((peak / tera - 1.0).abs() < 0.01, "{id} {kind:?}: {peak} against {tera}");
        }
    }

    #[test]
    fn every_rate_is_positive() {
        for device in &DEVICES {
            for pipe in [
                Pipe::Fma,
                Pipe::IntegerFma,
                Pipe::Half,
                Pipe::Alu,
                Pipe::Special,
                Pipe::Double,
                Pipe::Memory,
                Pipe::Shuffle,
                Pipe::Reduce,
            ] {
                assert!(device.rates.lanes(pipe).unwrap() > 0.0);
            }
            assert!(device.rates.tensor.iter().all(|rate| rate.fma.value > 0.0));
        }
    }
}
