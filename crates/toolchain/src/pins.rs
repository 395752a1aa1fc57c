//! The wheels that `toolchain install` downloads, pinned by version and hash.
//!
//! To update a pin: change the version here, and copy the hashes of the Linux wheels from the package index. `install` tests the
//! installed programs by running them.

use crate::version::Version;

/// One wheel of a set.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// The package's name.
    pub name: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// SHA-256 of the wheel for x86-64 Linux.
    pub x86_64: &'static str,
    /// SHA-256 of the wheel for 64-bit Arm Linux.
    pub aarch64: &'static str,
}

/// What a set is used for; the first part of its directory's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Compiles kernels: NVRTC, ptxas and the disassemblers.
    Kernels,
    /// Compiles whole programs: nvcc, and the CUDA runtime that they link.
    Programs,
}

impl Purpose {
    /// Both, in the order in which they are listed.
    pub(crate) const ALL: [Self; 2] = [Self::Kernels, Self::Programs];

    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "CUDA",
            Self::Programs => "nvcc",
        }
    }

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Kernels => "cuda-",
            Self::Programs => "nvcc-",
        }
    }
}

/// The wheels of one usable compiler.
#[derive(Clone, Copy, Debug)]
pub struct CudaSet {
    /// Its use.
    pub purpose: Purpose,
    /// The release of CUDA.
    pub version: Version,
    /// Its wheels.
    pub wheels: &'static [Wheel],
    /// Approximate size of downloads and unpacked files in bytes, for the progress bar.
    pub bytes: u64,
}

impl CudaSet {
    /// The set of a CUDA major version.
    pub fn of_major(major: u32) -> Option<&'static Self> {
        SETS.iter().find(|set| set.version.major == major)
    }

    /// Its directory name in the cache.
    pub fn directory(&self) -> String {
        format!("{}{}", self.purpose.prefix(), self.version)
    }

    /// The requirements file given to pip or uv: exact versions, with the hashes of both platforms.
    pub fn requirements(&self) -> String {
        let line = |w: &Wheel| {
            format!("{}=={} --hash=sha256:{} --hash=sha256:{}\n", w.name, w.version, w.x86_64, w.aarch64)
        };
        self.wheels.iter().map(line).collect::<Vec<_>>().concat()
    }
}

// These two exist as wheels only since 13.2; they read the cubins of every earlier release.
const NVDISASM: Wheel = Wheel {
    name: "nvidia-cuda-nvdisasm",
    version: "13.2.86",
    x86_64: "53606e719ecae07a2335f95902d5a1393a0cc1c317499ee7ffcf628a44385f2c",
    aarch64: "d02c627f7aecfcac4dd5e923e94adeaa6607c5fdae8df750b01ad948d38941d3",
};
const CUOBJDUMP: Wheel = Wheel {
    name: "nvidia-cuda-cuobjdump",
    version: "13.2.86",
    x86_64: "d332c2ffe78e703ca0a3894be927f83124244e2acf0d792b8c12b4362d44d837",
    aarch64: "9a025b92d5faca837f69841317760df9b27f3871bfa089d80cc428399743fd56",
};

const RUNTIME_12: Wheel = Wheel {
    name: "nvidia-cuda-runtime-cu12",
    version: "12.9.79",
    x86_64: "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
    aarch64: "83469a846206f2a733db0c42e223589ab62fd2fabac4432d2f8802de4bded0a4",
};
const CCCL_12: Wheel = Wheel {
    name: "nvidia-cuda-cccl-cu12",
    version: "12.9.27",
    x86_64: "37869e17ce2e1ecec6eddf1927cca0f8c34e64fd848d40453df559091e2d7117",
    aarch64: "d7898b38aa68beaa234d48f0868273702342a196d6e2e9d0ef058dca2390ebea",
};

/// nvcc. Its parts are wheels only since CUDA 13, so one set serves both runtimes.
pub static NVCC: CudaSet = CudaSet {
    purpose: Purpose::Programs,
    version: Version { major: 13, minor: 4, patch: 92 },
    bytes: 490_000_000,
    wheels: &[
        Wheel {
            name: "nvidia-cuda-nvcc",
            version: "13.4.92",
            x86_64: "a1f3bfb27299e060b444d5df1f4bcd762501326cf0fd3141ed61756816ab9a0e",
            aarch64: "d6fc9f720c3b73b9e526f4c759dbc6581e1a300ba2c8191e3f0ed91c848a92c8",
        },
        Wheel {
            name: "nvidia-nvvm",
            version: "13.4.92",
            x86_64: "e4c81cb321dd9743bcf871c5e7e8fecd7f05dea607944426e102bdda8d49e137",
            aarch64: "6b70f49442461c1b1033e599ff021676ea3d20840be1e7f92e1d6560daf08637",
        },
        Wheel {
            name: "nvidia-cuda-crt",
            version: "13.4.92",
            x86_64: "731ce3de11df8add8306404417a1edaede225dbe27eb233aed37c8de9d4fe720",
            aarch64: "212dbd6410b090f5c5b88e8671e44df5d43c591c12f232dae3197b137b616009",
        },
        Wheel {
            name: "nvidia-cuda-runtime",
            version: "13.4.92",
            x86_64: "9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5",
            aarch64: "bef071788589550ab02846fcbc732a2b88c2b16f2cd8a0f45d98e68e8c5fb0c8",
        },
        Wheel {
            name: "nvidia-cuda-cccl",
            version: "13.3.5.0.6",
            x86_64: "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326",
            aarch64: "6f30b8076b3e69951c459c94ae190bde51924b320076ebaec376d36848b4c76e",
        },
        // Headers that programs include for profilers.
        Wheel {
            name: "nvidia-cuda-profiler-api",
            version: "13.4.92",
            x86_64: "b6a29bfebcb18cd045e667a0cfc882258e4a78bb6b73b868a36f7f0d069e6c5c",
            aarch64: "01a0d4c5707fc448ddaf0b9ca2059fba9bab208089cc65cd8e448f1bbf52b8e6",
        },
        Wheel {
            name: "nvidia-nvtx",
            version: "13.4.92",
            x86_64: "6d14c3b7a91917892f0f54fca352acd315fbadcc92bdc616a9bc3f626e9f1e28",
            aarch64: "d256c3a0f2f5e82de0a529112c630a74744f138b3ce97c6f468f65ca40463c98",
        },
        // Programs for the runtime of CUDA 12 need its headers and its library, and the C++ library that fits them.
        RUNTIME_12,
        CCCL_12,
    ],
};

/// The installable sets that compile kernels, the default first.
pub static SETS: [CudaSet; 2] = [
    CudaSet {
        purpose: Purpose::Kernels,
        version: Version { major: 12, minor: 9, patch: 86 },
        bytes: 560_000_000,
        wheels: &[
            Wheel {
                name: "nvidia-cuda-nvrtc-cu12",
                version: "12.9.86",
                x86_64: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
                aarch64: "096d4de6bda726415dfaf3198d4f5c522b8e70139c97feef5cd2ca6d4cd9cead",
            },
            Wheel {
                name: "nvidia-cuda-nvcc-cu12",
                version: "12.9.86",
                x86_64: "5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
                aarch64: "44e1eca4d08926193a558d2434b1bf83d57b4d5743e0c431c0c83d51da1df62b",
            },
            RUNTIME_12,
            CCCL_12,
            NVDISASM,
            CUOBJDUMP,
        ],
    },
    CudaSet {
        purpose: Purpose::Kernels,
        version: Version { major: 13, minor: 2, patch: 86 },
        bytes: 480_000_000,
        wheels: &[
            Wheel {
                name: "nvidia-cuda-nvrtc",
                version: "13.2.86",
                x86_64: "8111c5130e967b78222ea2124145f8efe9ce201b752b2579a2513100a53be1c5",
                aarch64: "1e5d7b411a2eb83f5c71c98d58133a763fc9fa86a4241ee320c5c4782d9ad1fd",
            },
            Wheel {
                name: "nvidia-cuda-nvcc",
                version: "13.2.86",
                x86_64: "7d3f56c8d705bad35bbba69eb0470d90856fd5d4dc48c6a6173aaf1e9f887cf5",
                aarch64: "909140a1f942b943982b2eff120e618c94e29d75d9e33f5cd074f0e64eb411e8",
            },
            Wheel {
                name: "nvidia-cuda-runtime",
                version: "13.2.86",
                x86_64: "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0",
                aarch64: "37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69",
            },
            Wheel {
                name: "nvidia-cuda-cccl",
                version: "13.2.86",
                x86_64: "35da671cf0cecd3539da214a11bb8e7634366c9e950da9c5feecf6c490a65b20",
                aarch64: "05f2a2123cd7bc13b731d219d27e50281150a7985d5955bffcde0e966cefe0a2",
            },
            // In CUDA 13, the headers under crt/ (mma.h and the device intrinsics) are a separate wheel.
            Wheel {
                name: "nvidia-cuda-crt",
                version: "13.2.86",
                x86_64: "e3ab08801bf9b1e6dc979275d25e816bb5000521b648e19c324d5eef0c79f1da",
                aarch64: "3294669c379ef3382804bc077fec22a48753a743c75c83c1ee3c224bb049423f",
            },
            NVDISASM,
            CUOBJDUMP,
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_has_two_distinct_sha256_hashes() {
        for set in SETS.iter().chain([&NVCC]) {
            for wheel in set.wheels {
                for hash in [wheel.x86_64, wheel.aarch64] {
                    assert!(
                        hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
                        "{}",
                        wheel.name
                    );
                }
                assert_ne!(wheel.x86_64, wheel.aarch64, "{}", wheel.name);
            }
            assert_eq!(set.requirements().lines().count(), set.wheels.len());
        }
    }
}
