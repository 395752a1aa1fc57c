//! Devices and compute capabilities, as data.
//!
//! To add a device, add an entry to [`DEVICES`]; to add an architecture, add one to [`CAPABILITIES`] first.

use serde::Serialize;

use crate::rates::{self, Rates};

/// A number and its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// The document that states it.
    pub source: &'static str,
}

pub(crate) const fn from<T>(source: &'static str, value: T) -> Sourced<T> {
    Sourced { value, source }
}

/// Limits per multiprocessor of one compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capability {
    /// 8 in 8.9.
    pub major: u32,
    /// 9 in 8.9.
    pub minor: u32,
    /// Resident threads.
    pub max_threads: Sourced<u32>,
    /// Resident blocks.
    pub max_blocks: Sourced<u32>,
    /// Threads per block.
    pub max_block_threads: Sourced<u32>,
    /// 32-bit registers.
    pub registers: Sourced<u32>,
    /// 32-bit registers per block.
    pub block_registers: Sourced<u32>,
    /// Registers per thread.
    pub thread_registers: Sourced<u32>,
    /// Allocation unit of registers per warp.
    pub register_granularity: Sourced<u32>,
    /// Partitions (sub-cores) of a multiprocessor; each has its share of the registers.
    pub partitions: Sourced<u32>,
    /// Bytes of shared memory.
    pub shared: Sourced<u32>,
    /// Bytes of shared memory per block without opt-in.
    pub block_shared: Sourced<u32>,
    /// Bytes of shared memory per block with opt-in by the host.
    pub block_shared_opt_in: Sourced<u32>,
    /// Bytes of shared memory per block that the system reserves.
    pub reserved_shared: Sourced<u32>,
    /// Allocation unit of shared memory per block, in bytes.
    pub shared_granularity: Sourced<u32>,
    /// Hardware barriers. `None`: never the limit; only since 9.0 can they run out.
    pub barriers: Sourced<Option<u32>>,
    /// Blocks of the largest cluster; 1 without clusters. A kernel must allow sizes beyond [`PORTABLE_CLUSTER`].
    pub max_cluster: Sourced<u32>,
}

/// Blocks of the largest cluster that a kernel may have without allowing a size that not every device supports (`cuda.h` of
/// CUDA 13.4, `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`).
pub const PORTABLE_CLUSTER: u32 = 8;

/// Threads of a warp, on every capability.
pub(crate) const WARP: u32 = 32;

impl Capability {
    /// Resident warps.
    pub fn max_warps(&self) -> u32 {
        self.max_threads.value / WARP
    }

    /// `sm_89`.
    pub fn arch(&self) -> String {
        format!("sm_{}{}", self.major, self.minor)
    }

    /// The architecture with all instructions of the device, including those that no other capability has: `sm_90a`, `sm_89`.
    pub fn specific_arch(&self) -> String {
        format!("{}{}", self.arch(), if self.major >= 9 { "a" } else { "" })
    }

    /// The capability of an architecture: `sm_89`, `sm_90a`.
    pub fn of_arch(arch: &str) -> Option<&'static Self> {
        let number = arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        CAPABILITIES.iter().find(|c| c.arch().strip_prefix("sm_") == Some(number))
    }

    /// Whether machine code for `arch` runs on this capability: same major version, and not newer.
    pub fn runs(&self, arch: &str) -> bool {
        let specific = arch.ends_with(['a', 'f']);
        Self::of_arch(arch).is_some_and(|code| {
            if specific {
                (code.major, code.minor) == (self.major, self.minor)
            } else {
                code.major == self.major && code.minor <= self.minor
            }
        })
    }
}

/// A GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Device {
    /// NVIDIA's name.
    pub name: &'static str,
    /// Its id on the command line.
    pub id: &'static str,
    /// The limits of its multiprocessors.
    pub capability: &'static Capability,
    /// Multiprocessors.
    pub multiprocessors: Sourced<u32>,
    /// Multiprocessors of each GPC; a cluster runs within one. Devices of one model differ, because NVIDIA disables
    /// different units of each chip. Empty if unknown or if the device has no clusters.
    pub gpcs: Sourced<&'static [u32]>,
    /// The highest clock in MHz that the device runs at. Predicted times are at this clock; a device that is
    /// throttled by its power limit takes longer, see [`Device::sustained_mhz`].
    pub boost_mhz: Sourced<u32>,
    /// The clock in MHz under steady matrix products at the power limit, if known.
    pub sustained_mhz: Option<Sourced<u32>>,
    /// Memory bandwidth in GB/s.
    pub bandwidth_gb_s: Sourced<u32>,
    /// Memory in GB.
    pub memory_gb: Sourced<u32>,
    /// L2 cache in KB.
    pub l2_kb: Sourced<u32>,
    /// Rates of a multiprocessor.
    pub rates: &'static Rates,
}

impl Device {
    /// The device with that id or name; case, blanks and hyphens do not matter.
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = |text: &str| -> String {
            text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
        };
        let wanted = plain(name);
        DEVICES.iter().find(|d| plain(d.id) == wanted || plain(d.name) == wanted)
    }

    /// The slowdown of work inside multiprocessors when the power limit throttles the clock; 1 if unknown.
    pub fn slowed(&self) -> f64 {
        self.sustained_mhz.map_or(1.0, |held| f64::from(self.boost_mhz.value) / f64::from(held.value.max(1)))
    }

    /// The default device of an architecture: the first in the table.
    pub fn of_arch(arch: &str) -> Option<&'static Self> {
        let capability = Capability::of_arch(arch)?;
        DEVICES.iter().find(|d| d.capability == capability)
    }
}

/// CUDA C++ Programming Guide, table of technical specifications per compute capability.
const GUIDE: &str = "CUDA C++ Programming Guide 13, technical specifications per compute capability";
/// The rules of the occupancy calculator that NVIDIA ships with the toolkit.
const CALCULATOR: &str = "cuda_occupancy.h of CUDA 13.2";
const TUNING: &str = "NVIDIA Ampere GPU Architecture Tuning Guide, shared memory: 1 KB per block is reserved";

const KB: u32 = 1024;

/// The numbers in which capabilities differ.
struct Differs {
    version: (u32, u32),
    max_threads: u32,
    max_blocks: u32,
    shared_kb: u32,
    opt_in_kb: u32,
    reserved: u32,
    shared_granularity: u32,
    barriers: Option<u32>,
    max_cluster: Sourced<u32>,
}

const NO_CLUSTERS: Sourced<u32> =
    from("CUDA C++ Programming Guide 13: clusters need compute capability 9.0", 1);
const CLUSTER_16: Sourced<u32> =
    from("NVIDIA Hopper and Blackwell Tuning Guides: 16 blocks, if the kernel allows a nonportable size", 16);
const CLUSTER_8: Sourced<u32> =
    from("the portable size; whether a device of 12.0 supports larger ones is unknown", PORTABLE_CLUSTER);

const fn capability(d: &Differs) -> Capability {
    Capability {
        major: d.version.0,
        minor: d.version.1,
        max_threads: from(GUIDE, d.max_threads),
        max_blocks: from(GUIDE, d.max_blocks),
        max_block_threads: from(GUIDE, 1024),
        registers: from(GUIDE, 64 * KB),
        block_registers: from(GUIDE, 64 * KB),
        thread_registers: from(GUIDE, 255),
        register_granularity: from(CALCULATOR, 256),
        partitions: from(CALCULATOR, 4),
        shared: from(GUIDE, d.shared_kb * KB),
        block_shared: from(GUIDE, 48 * KB),
        block_shared_opt_in: from(GUIDE, d.opt_in_kb * KB),
        reserved_shared: from(TUNING, d.reserved),
        shared_granularity: from(CALCULATOR, d.shared_granularity),
        barriers: from(CALCULATOR, d.barriers),
        max_cluster: d.max_cluster,
    }
}

const TURING: Capability = capability(&Differs {
    version: (7, 5),
    max_threads: 1024,
    max_blocks: 16,
    shared_kb: 64,
    opt_in_kb: 64,
    reserved: 0,
    shared_granularity: 256,
    barriers: None,
    max_cluster: NO_CLUSTERS,
});

const fn since_ampere(
    version: (u32, u32),
    max_threads: u32,
    max_blocks: u32,
    shared_kb: u32,
    barriers: Option<u32>,
) -> Capability {
    capability(&Differs {
        version,
        max_threads,
        max_blocks,
        shared_kb,
        opt_in_kb: shared_kb - 1,
        reserved: KB,
        shared_granularity: 128,
        barriers,
        max_cluster: match version {
            (12, _) => CLUSTER_8,
            (9 | 10, _) => CLUSTER_16,
            _ => NO_CLUSTERS,
        },
    })
}

/// All known capabilities, ascending.
pub static CAPABILITIES: [Capability; 9] = [
    TURING,
    since_ampere((8, 0), 2048, 32, 164, None),
    since_ampere((8, 6), 1536, 16, 100, None),
    since_ampere((8, 7), 1536, 16, 164, None),
    since_ampere((8, 9), 1536, 24, 100, None),
    since_ampere((9, 0), 2048, 32, 228, Some(64)),
    since_ampere((10, 0), 2048, 32, 228, Some(64)),
    since_ampere((10, 3), 2048, 32, 228, Some(64)),
    since_ampere((12, 0), 1536, 24, 100, Some(24)),
];

const NO_GPCS: Sourced<&[u32]> = from("no clusters, so not needed", &[]);
/// H100 and H200 SXM.
const SXM_GPCS: Sourced<&[u32]> = from(
    "derived: the whitepaper's 8 GPCs of at most 18 multiprocessors, as even as whole TPCs allow if 15 clusters of 8 blocks run \
     at a time, which NVIDIA/cutlass, issue 1921 (cuBLAS launches 120 blocks) and accel-sim/gpu-app-collection, pull \
     request 87 (120 of 132 multiprocessors are active) report; another device of the model may differ",
    &[18, 18, 18, 16, 16, 16, 16, 14],
);

/// All known devices. The first of an architecture is its default.
pub static DEVICES: [Device; 12] = [
    {
        const SOURCE: &str = "NVIDIA Turing GPU Architecture whitepaper, Tesla T4 appendix";
        Device {
            name: "NVIDIA T4",
            id: "t4",
            capability: &CAPABILITIES[0],
            multiprocessors: from(SOURCE, 40),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 1590),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 320),
            memory_gb: from(SOURCE, 16),
            l2_kb: from(SOURCE, 4 * KB),
            rates: &rates::T4,
        }
    },
    {
        const SOURCE: &str =
            "NVIDIA A100 Tensor Core GPU Architecture whitepaper, table of the A100 SXM4 40 GB";
        Device {
            name: "NVIDIA A100 40GB",
            id: "a100",
            capability: &CAPABILITIES[1],
            multiprocessors: from(SOURCE, 108),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 1410),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 1555),
            memory_gb: from(SOURCE, 40),
            l2_kb: from(SOURCE, 40 * KB),
            rates: &rates::A100,
        }
    },
    {
        const SOURCE: &str = "NVIDIA Ampere GA102 GPU Architecture whitepaper, GeForce RTX 3090 column";
        Device {
            name: "NVIDIA GeForce RTX 3090",
            id: "rtx3090",
            capability: &CAPABILITIES[2],
            multiprocessors: from(SOURCE, 82),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 1695),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 936),
            memory_gb: from(SOURCE, 24),
            l2_kb: from(SOURCE, 6 * KB),
            rates: &rates::RTX30,
        }
    },
    {
        const SOURCE: &str =
            "NVIDIA L4 Tensor Core GPU product brief and NVIDIA Ada GPU Architecture whitepaper";
        Device {
            name: "NVIDIA L4",
            id: "l4",
            capability: &CAPABILITIES[4],
            multiprocessors: from(SOURCE, 58),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 2040),
            sustained_mhz: Some(from(
                "derived: the clock at which 58 multiprocessors at their peak rate do the 53.8 TFLOPS of an 8192 FP16 product \
                 that zzc0721/torch-performance-test-data, issue 120, reports for an L4; a lower limit, for cuBLAS reaches less \
                 than the peak",
                906,
            )),
            bandwidth_gb_s: from(SOURCE, 300),
            memory_gb: from(SOURCE, 24),
            l2_kb: from(SOURCE, 48 * KB),
            rates: &rates::ADA_SERVER,
        }
    },
    {
        const SOURCE: &str = "NVIDIA Ada GPU Architecture whitepaper, GeForce RTX 4090 column";
        Device {
            name: "NVIDIA GeForce RTX 4090",
            id: "rtx4090",
            capability: &CAPABILITIES[4],
            multiprocessors: from(SOURCE, 128),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 2520),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 1008),
            memory_gb: from(SOURCE, 24),
            l2_kb: from(SOURCE, 72 * KB),
            rates: &rates::RTX40,
        }
    },
    {
        const SOURCE: &str = "NVIDIA L40S product brief and datasheet";
        Device {
            name: "NVIDIA L40S",
            id: "l40s",
            capability: &CAPABILITIES[4],
            multiprocessors: from(SOURCE, 142),
            gpcs: NO_GPCS,
            boost_mhz: from(SOURCE, 2520),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 864),
            memory_gb: from(SOURCE, 48),
            l2_kb: from(SOURCE, 96 * KB),
            rates: &rates::ADA_SERVER,
        }
    },
    {
        const SOURCE: &str = "NVIDIA H100 Tensor Core GPU Architecture whitepaper, H100 SXM5 column";
        Device {
            name: "NVIDIA H100 SXM",
            id: "h100",
            capability: &CAPABILITIES[5],
            multiprocessors: from(SOURCE, 132),
            gpcs: SXM_GPCS,
            boost_mhz: from(
                "highest clock of an H100 SXM (factryze.ai, glossary of the SM clock); the whitepaper's peaks are at 1830",
                1980,
            ),
            sustained_mhz: Some(from(
                "derived: the clock at which 132 multiprocessors at their peak rate do the 797.5 TFLOPS of an 8192 BF16 product \
                 that zzc0721/torch-performance-test-data, issue 79, reports for an H100 SXM; a lower limit, for cuBLAS \
                 reaches less than the peak",
                1475,
            )),
            bandwidth_gb_s: from("NVIDIA H100 datasheet: 3.35 TB/s", 3350),
            memory_gb: from(SOURCE, 80),
            l2_kb: from(SOURCE, 50 * KB),
            rates: &rates::H100,
        }
    },
    {
        const SOURCE: &str = "NVIDIA H100 Tensor Core GPU Architecture whitepaper, H100 PCIe column";
        Device {
            name: "NVIDIA H100 PCIe",
            id: "h100pcie",
            capability: &CAPABILITIES[5],
            multiprocessors: from(SOURCE, 114),
            gpcs: from(
                "derived: the whitepaper's 7 or 8 GPCs of at most 18 multiprocessors; assumed to be 8, as even as whole TPCs \
                 allow; not measured",
                &[16, 14, 14, 14, 14, 14, 14, 14],
            ),
            boost_mhz: from(
                "maximum clock of an H100 PCIe (chipsandcheese.com, Nvidia's H100: Funny L2); the whitepaper's peaks of the tensor \
                 cores are at 1620",
                1755,
            ),
            sustained_mhz: Some(from(
                "derived as for the H100 SXM, from 495.9 TFLOPS of a 4096 BF16 product (zzc0721/torch-performance-test-data, \
                 issue 95); a lower limit",
                1062,
            )),
            bandwidth_gb_s: from("NVIDIA H100 datasheet (as reprinted by hpctech.co.jp): 2 TB/s", 2000),
            memory_gb: from(SOURCE, 80),
            l2_kb: from(SOURCE, 50 * KB),
            rates: &rates::H100,
        }
    },
    {
        const SOURCE: &str = "NVIDIA H200 datasheet: 141 GB, 4.8 TB/s, and the peak rates of the H100 SXM";
        const SAME: &str =
            "the H100 SXM's: the same chip with other memory, and the same peak rates in the datasheet";
        Device {
            name: "NVIDIA H200",
            id: "h200",
            capability: &CAPABILITIES[5],
            multiprocessors: from(SAME, 132),
            gpcs: SXM_GPCS,
            boost_mhz: from(SAME, 1980),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 4800),
            memory_gb: from(SOURCE, 141),
            l2_kb: from(
                "derived: 12 memory controllers with 96 slices of L2 (accel-sim/accel-sim-framework, issue 534); 10 of them have \
                 50 MB on an H100",
                60 * KB,
            ),
            rates: &rates::H100,
        }
    },
    {
        const SOURCE: &str = "output of a CUDA program on an NVIDIA B200: 148 multiprocessors, 126.5 MB of L2, 178.35 GiB; with \
                              its 7680 bits at 3996 MHz 7.67 TB/s (pytorch/ao, pull request 4002)";
        Device {
            name: "NVIDIA B200",
            id: "b200",
            capability: &CAPABILITIES[6],
            multiprocessors: from(SOURCE, 148),
            gpcs: from(
                "assumed: 8 GPCs of at most 20 multiprocessors, as even as whole TPCs allow; not measured",
                &[20, 20, 18, 18, 18, 18, 18, 18],
            ),
            boost_mhz: from(
                "1980 MHz (hmc-tech.com, NVIDIA B200); the datasheet's peaks of the tensor cores are at about 1860",
                1980,
            ),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 7672),
            memory_gb: from(
                "pytorch/ao, pull request 4002: 178.35 GiB are left of the 192 GB of the product",
                191,
            ),
            l2_kb: from(SOURCE, 126 * KB + 512),
            rates: &rates::B200,
        }
    },
    {
        const SOURCE: &str = "NVIDIA RTX Blackwell GPU Architecture whitepaper, GeForce RTX 5090 column";
        Device {
            name: "NVIDIA GeForce RTX 5090",
            id: "rtx5090",
            capability: &CAPABILITIES[8],
            multiprocessors: from(SOURCE, 170),
            gpcs: from(
                "assumed: 11 of the 12 GPCs of at most 16 multiprocessors that GB202 has, as even as whole TPCs allow",
                &[16, 16, 16, 16, 16, 16, 16, 16, 14, 14, 14],
            ),
            boost_mhz: from(
                "clock under load: about 2.85 GHz in kekzl/imp, pull request 606; the whitepaper's peaks are at 2407",
                2870,
            ),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 1792),
            memory_gb: from(SOURCE, 32),
            l2_kb: from(SOURCE, 96 * KB),
            rates: &rates::RTX50,
        }
    },
    {
        const SOURCE: &str = "NVIDIA RTX PRO Blackwell GPU Architecture whitepaper, RTX PRO 6000 Workstation Edition (as quoted in \
             NVIDIA/cudnn-frontend, pull request 1164)";
        Device {
            name: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            id: "rtxpro6000",
            capability: &CAPABILITIES[8],
            multiprocessors: from(SOURCE, 188),
            gpcs: from(
                "derived: the whitepaper's 12 GPCs of at most 16 multiprocessors (GB202), as even as whole TPCs allow",
                &[16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 14, 14],
            ),
            boost_mhz: from(
                "2617 MHz (hmc-tech.com, RTX PRO 6000 Blackwell), at which 125 TFLOPS of FP32 are those of NVIDIA's product page",
                2617,
            ),
            sustained_mhz: None,
            bandwidth_gb_s: from(SOURCE, 1792),
            memory_gb: from(SOURCE, 96),
            l2_kb: from(SOURCE, 128 * KB),
            rates: &rates::RTX_PRO_BLACKWELL,
        }
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_any_spelling() {
        for (text, id) in [
            ("L4", "l4"),
            ("rtx-4090", "rtx4090"),
            ("NVIDIA L40S", "l40s"),
            ("RTX 3090", "rtx3090"),
            ("H100", "h100"),
            ("H100 PCIe", "h100pcie"),
            ("NVIDIA H200", "h200"),
            ("RTX PRO 6000", "rtxpro6000"),
        ] {
            assert_eq!(Device::named(text).map(|d| d.id), Some(id), "{text}");
        }
        assert_eq!(Device::named("voodoo2"), None);
        assert_eq!(Device::of_arch("sm_89").map(|d| d.id), Some("l4"));
        assert_eq!(Device::of_arch("sm_90a").map(|d| d.id), Some("h100"));
        assert_eq!(Device::of_arch("sm_100").map(|d| d.id), Some("b200"));
        assert_eq!(Capability::of_arch("sm_100").map(Capability::max_warps), Some(64));
        assert_eq!(Capability::of_arch("sm_1"), None);
    }

    #[test]
    fn the_tables_agree_with_themselves() {
        for pair in CAPABILITIES.windows(2) {
            assert!((pair[0].major, pair[0].minor) < (pair[1].major, pair[1].minor));
        }
        for c in &CAPABILITIES {
            assert_eq!(c.block_shared_opt_in.value + c.reserved_shared.value, c.shared.value, "{}", c.arch());
        }
        for device in &DEVICES {
            let clusters = device.capability.max_cluster.value > 1;
            let expected = if clusters { device.multiprocessors.value } else { 0 };
            assert_eq!(device.gpcs.value.iter().sum::<u32>(), expected, "{}", device.id);
        }
        for (i, a) in DEVICES.iter().enumerate() {
            assert!(DEVICES[..i].iter().all(|b| b.id != a.id));
        }
    }

    #[test]
    fn machine_code_runs_on_later_minors_only() {
        let ada = Device::named("l4").unwrap().capability;
        assert!(ada.runs("sm_89") && ada.runs("sm_80") && ada.runs("sm_86"));
        assert!(!ada.runs("sm_90") && !ada.runs("sm_75") && !ada.runs("sm_90a") && !ada.runs("x"));
    }
}
