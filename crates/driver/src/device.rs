//! The devices that programs see: names, attributes, limits, occupancy.

use warpproof_model::{Device, Usage, occupancy};

use crate::abi::{Answer, Error};
use crate::driver::Driver;

/// A device of the table, as a program sees it.
#[derive(Debug)]
pub struct Visible {
    /// Its entry in the device table.
    pub model: &'static Device,
    /// Device time in picoseconds; a prediction.
    pub clock_ps: u64,
    /// Bytes in use.
    pub used: u64,
    /// Its current pool, if the program set one.
    pub pool: Option<u64>,
    /// Its default pool, created on first use.
    pub default_pool: Option<u64>,
    /// High-water marks of the bytes that graphs use and reserve.
    pub graph_most: [u64; 2],
}

impl Visible {
    /// An unused device.
    pub fn new(model: &'static Device) -> Visible {
        Visible { model, clock_ps: 0, used: 0, pool: None, default_pool: None, graph_most: [0; 2] }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        u64::from(self.model.memory_gb.value) << 30
    }

    /// Compute capability as a number, such as 89 for 8.9.
    pub fn sm(&self) -> u32 {
        self.model.capability.major * 10 + self.model.capability.minor
    }

    /// An attribute by its number in `CUdevice_attribute`. Limits of textures and surfaces, and the memory bus, are
    /// not in the device table; their attributes are the same for all devices. Unsupported features are 0.
    #[expect(clippy::match_same_arms, reason = "one line for each group of numbers, in their order")]
    pub fn attribute(&self, number: u32, ordinal: usize) -> Option<i64> {
        let c = self.model.capability;
        Some(match number {
            1 => i64::from(c.max_block_threads.value),
            2 | 3 => 1024,
            4 => 64,
            5 => 0x7fff_ffff,
            6 | 7 => 65_535,
            8 => i64::from(c.block_shared.value),
            9 => 65_536,
            10 => 32,
            11 => 0x7fff_ffff,
            12 => i64::from(c.block_registers.value),
            13 => i64::from(self.model.boost_mhz.value) * 1000,
            14 => 512,
            16 => i64::from(self.model.multiprocessors.value),
            15 | 19 | 31 | 41 | 78..=80 | 83 | 89..=91 | 95 | 99 | 102 | 115 => 1,
            120 => i64::from(c.major >= 9),
            17
            | 18
            | 20
            | 32
            | 35
            | 50
            | 84..=86
            | 88
            | 92..=94
            | 96
            | 98
            | 100
            | 101
            | 103..=105
            | 107..=110 => 0,
            // Sizes of textures and surfaces.
            21 | 22 | 56 | 70 => 131_072,
            23 | 57 => 65_536,
            24..=26 | 58..=60 => 16_384,
            27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32_768,
            29 | 43 | 62 | 65 => 2048,
            47 | 48 => 8192,
            54 | 68 => 2046,
            69 => 1 << 28,
            71 => 65_000,
            72 => 2_097_120,
            30 => 512,
            33 => i64::try_from(ordinal).ok()? + 1,
            34 => 0,
            // The bandwidth is from the table; the bus width is that of an L4, and the clock follows from both.
            36 => i64::from(self.model.bandwidth_gb_s.value) * 8_000_000 / (2 * 192),
            37 => 192,
            38 => i64::from(self.model.l2_kb.value) * 1024,
            39 => i64::from(c.max_threads.value),
            40 => 2,
            44 => 1,
            51 => 32,
            75 => i64::from(c.major),
            76 => i64::from(c.minor),
            81 => i64::from(c.shared.value),
            82 => i64::from(c.registers.value),
            87 => {
                if c.minor == 0 {
                    2
                } else {
                    64
                }
            }
            97 => i64::from(c.block_shared_opt_in.value),
            106 => i64::from(c.max_blocks.value),
            111 => i64::from(c.reserved_shared.value),
            131 | 134 => -1,
            112..=114 | 116..=130 | 132 | 133 | 135..=160 => 0,
            _ => return None,
        })
    }
}

impl Driver {
    /// A device by its number.
    pub fn device(&self, ordinal: i32) -> Answer<(usize, &Visible)> {
        self.ready()?;
        let index = usize::try_from(ordinal).map_err(|_| Error::INVALID_DEVICE)?;
        self.devices.get(index).map(|device| (index, device)).ok_or(Error::INVALID_DEVICE)
    }

    /// Resident blocks of a function per multiprocessor.
    pub fn blocks_per_multiprocessor(&self, function: u64, threads: u32, dynamic: u32) -> Answer<u32> {
        let (device, _) = self.current()?;
        let kernel = self.function(function)?;
        if threads == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let capability = self.devices[device].model.capability;
        let usage = Usage {
            registers: kernel.registers(),
            static_shared: kernel.static_shared(),
            dynamic_shared: dynamic,
            barriers: 1,
        };
        Ok(occupancy(capability, &usage, threads).blocks_per_sm)
    }
}
