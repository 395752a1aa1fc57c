//! Device time, as read by events. It is a *prediction*, never a measurement.
//!
//! There are two clocks. `issue` divides the warp instructions of a launch by the issue rate of the device's schedulers: a lower
//! bound without extra cost. `model` counts the instructions of the launch and takes the largest bound of the device model: more
//! accurate, but slower. Both add the minimum cost of a launch, and copies at the rate of PCIe 4.0 x16.

use warpproof_model::Device;

/// Minimum cost of a launch in picoseconds: about two microseconds between two launches of a stream.
pub const LAUNCH_PS: u64 = 2_000_000;
/// Bytes per second of copies between host and device: PCIe 4.0 x16 according to the standard.
const BUS: u64 = 31_500_000_000;

/// Time of this number of warp instructions if every scheduler issues one per clock.
pub fn issue_ps(device: &Device, instructions: u64) -> u64 {
    let schedulers = u64::from(device.multiprocessors.value) * u64::from(device.capability.partitions.value);
    let clocks = instructions.div_ceil(schedulers.max(1));
    clocks.saturating_mul(1_000_000) / u64::from(device.boost_mhz.value).max(1)
}

/// The time of a copy over the bus.
pub fn bus_ps(bytes: u64) -> u64 {
    bytes.saturating_mul(1_000_000) / (BUS / 1_000_000)
}

/// The time of a copy within device memory, which reads and writes each byte.
pub fn memory_ps(device: &Device, bytes: u64) -> u64 {
    bytes.saturating_mul(2_000) / u64::from(device.bandwidth_gb_s.value).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_from_the_device_table() {
        let l4 = Device::named("l4").unwrap();
        // 58 multiprocessors of four schedulers at 2.04 GHz.
        assert_eq!(issue_ps(l4, 232 * 2040), 1_000_000);
        assert_eq!(memory_ps(l4, 300), 2_000);
        assert_eq!(bus_ps(31_500), 1_000_000);
    }
}
