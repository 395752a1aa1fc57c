//! Limits of a launch, and the flag that raises each of them.
//!
//! Work is counted in warp instructions and in blocks started, never in seconds: a verdict must not depend on how
//! fast or how busy a machine is. The defaults are about a minute of work on one or two cores; see [`Limits::MINUTE`]
//! for the measurements.

use warpproof_sim::stop::{Stop, StopKind};
use warpproof_sim::{Device, Limits};

/// The flag that raises the limit on instructions.
pub const INSTRUCTIONS_FLAG: &str = "--max-instructions";
/// The flag that raises the limit on memory.
pub const MEMORY_FLAG: &str = "--max-memory";
/// The flag that raises the limit on local memory.
pub const STACK_FLAG: &str = "--stack";

/// Memory reserved for a launch, regardless of the size of its arrays.
const LEAST_BESIDE: u64 = 128 << 20;

/// What a launch may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Warp instructions of a launch that is run or counted.
    pub instructions: u64,
    /// Warp instructions of a launch that is checked, which takes several times as long.
    pub checked_instructions: u64,
    /// Bytes of host memory: arrays, copies of them, and the checks' record of each access.
    pub memory: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { instructions: Limits::MINUTE, checked_instructions: Limits::CHECKED_MINUTE, memory: 1 << 30 }
    }
}

/// How a launch is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For its results or its counters.
    Run,
    /// With checks.
    Check {
        /// Whether it is executed under more than one schedule.
        several: bool,
    },
}

impl Purpose {
    /// Copies of device memory that exist at the same time: several schedules need the memory from before the launch
    /// and from after the first run.
    fn copies(self) -> u64 {
        match self {
            Purpose::Check { several: true } => 3,
            _ => 1,
        }
    }
}

impl Allowance {
    /// The user's limits, with defaults for the rest.
    pub fn new(instructions: Option<u64>, memory: Option<u64>) -> Self {
        let default = Self::default();
        Self {
            instructions: instructions.unwrap_or(default.instructions),
            checked_instructions: instructions.unwrap_or(default.checked_instructions),
            memory: memory.unwrap_or(default.memory),
        }
    }

    /// Bytes of all arrays of a launch.
    pub fn arrays(self, purpose: Purpose) -> u64 {
        self.memory / purpose.copies()
    }

    /// A software GPU with these limits. Arrays that do not fit are refused before they are allocated.
    pub fn device(self, purpose: Purpose) -> Device {
        let mut device = Device::new().with_memory(self.arrays(purpose));
        device.limits.instructions = match purpose {
            Purpose::Run => self.instructions,
            Purpose::Check { .. } => self.checked_instructions,
        };
        device.limits.memory = self.beside(purpose, 0);
        device
    }

    /// Bytes that a launch may use in addition to arrays of this size. With checks, half is for the launch and half
    /// for the checks' records.
    pub fn beside(self, purpose: Purpose, arrays: u64) -> u64 {
        let free = self.memory.saturating_sub(arrays.saturating_mul(purpose.copies()));
        let share = if purpose == Purpose::Run { free } else { free / 2 };
        share.max(LEAST_BESIDE)
    }
}

/// The flag that raises the limit that a launch reached.
pub fn flag_of(stop: &Stop) -> Option<&'static str> {
    if stop.kind != StopKind::Limit {
        return None;
    }
    let has = |words: &str| stop.sentence.contains(words);
    if has("warp instructions") {
        Some(INSTRUCTIONS_FLAG)
    } else if has("in addition to the buffers") || has("the checks remember") {
        Some(MEMORY_FLAG)
    } else if has("stack") {
        Some(STACK_FLAG)
    } else {
        None
    }
}

/// A number of bytes in human-readable form: `7.5 GB`.
pub fn shown(bytes: u64) -> String {
    let (divisor, unit) = match bytes {
        0..0x400 => return format!("{bytes} bytes"),
        0x400..0x10_0000 => (1 << 10, "kB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MB"),
        _ => (1 << 30, "GB"),
    };
    let tenths = (u128::from(bytes) * 10).div_ceil(divisor);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_for_people() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1024, "1.0 kB"),
            (1 << 30, "1.0 GB"),
            (7_600_000_000, "7.1 GB"),
            (u64::MAX, "17179869184.0 GB"),
        ] {
            assert_eq!(shown(bytes), text);
        }
    }

    #[test]
    fn several_schedules_leave_a_third_for_arrays() {
        let allowance = Allowance::new(None, Some(3 << 30));
        let room = |purpose| {
            let mut device = allowance.device(purpose);
            device.memory().allocate("x", (1 << 30) + 1).is_ok()
        };
        assert!(room(Purpose::Run) && room(Purpose::Check { several: false }));
        assert!(!room(Purpose::Check { several: true }));
        let check = Purpose::Check { several: true };
        assert_eq!(allowance.beside(check, 1 << 29), (3 << 30) / 4);
        assert_eq!(allowance.beside(check, u64::MAX), LEAST_BESIDE);
    }
}
