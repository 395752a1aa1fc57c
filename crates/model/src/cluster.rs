//! How many clusters of a kernel are active on a device at a time.
//!
//! All blocks of a cluster run within one GPC, so what a GPC cannot fill stays empty: with one block per multiprocessor, a GPC
//! of 18 multiprocessors holds two clusters of 8 blocks, and two multiprocessors stay idle. A cluster needs a GPC with as many
//! multiprocessors as it has blocks; clusters of several blocks per multiprocessor share them in any combination, which holds
//! for both policies of `CUclusterSchedulingPolicy`. What NVIDIA's driver returns for the same kernel depends on the units that
//! are disabled on that one chip, see [`Device::gpcs`].

use serde::Serialize;

use crate::device::{Device, PORTABLE_CLUSTER};

/// Clusters of one size on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clusters {
    /// Blocks of a cluster.
    pub size: u32,
    /// Clusters that are active at a time. 0: no GPC can hold one.
    pub active: u32,
}

impl Clusters {
    /// Blocks that are active at a time.
    pub fn blocks(&self) -> u32 {
        self.size.saturating_mul(self.active)
    }
}

/// How many clusters of `size` blocks are active if `blocks_per_sm` blocks fit on each multiprocessor.
pub fn clusters(device: &Device, size: u32, blocks_per_sm: u32) -> Clusters {
    let active = match size {
        0 => 0,
        1 => device.multiprocessors.value.saturating_mul(blocks_per_sm),
        _ if size > device.capability.max_cluster.value => 0,
        _ => {
            let gpcs = device.gpcs.value.iter().filter(|multiprocessors| **multiprocessors >= size);
            gpcs.map(|multiprocessors| multiprocessors.saturating_mul(blocks_per_sm) / size)
                .fold(0, u32::saturating_add)
        }
    };
    Clusters { size, active }
}

/// The most blocks that a cluster may have; sizes that not every device supports only if the kernel allows them.
pub fn largest_cluster(device: &Device, nonportable: bool, blocks_per_sm: u32) -> u32 {
    let most = device.capability.max_cluster.value;
    let most = if nonportable { most } else { most.min(PORTABLE_CLUSTER) };
    (1..=most).rev().find(|size| clusters(device, *size, blocks_per_sm).active > 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(device: &str, size: u32, blocks_per_sm: u32) -> u32 {
        clusters(Device::named(device).unwrap(), size, blocks_per_sm).active
    }

    #[test]
    fn published_clusters_of_an_h100() {
        // NVIDIA/cutlass, issue 1921: cuBLAS launches 60 x 2 blocks in clusters of 8. accel-sim/gpu-app-collection, pull
        // request 87: clusters of 8 are active on 120 of 132 multiprocessors.
        assert_eq!(clusters(Device::named("h100").unwrap(), 8, 1).blocks(), 120);
        assert_eq!(active("h100", 1, 1), 132);
        assert_eq!(active("h100", 2, 1), 66);
    }

    #[test]
    fn a_cluster_stays_within_a_gpc() {
        // Three GPCs of 18, four of 16, one of 14.
        assert_eq!(active("h100", 4, 1), 7 * 4 + 3);
        assert_eq!(active("h100", 16, 1), 7);
        // No GPC of 14 multiprocessors holds a cluster of 16, however many blocks fit on each.
        assert_eq!(active("h100", 16, 4), 3 * 4 + 4 * 4);
        // 36, 32 and 28 blocks in clusters of 8.
        assert_eq!(active("h100", 8, 2), 3 * 4 + 4 * 4 + 3);
        assert_eq!(active("h100", 17, 1), 0);
        assert_eq!(active("h100", 0, 1), 0);
        assert_eq!(active("h100", 8, 0), 0);
        assert_eq!(active("h200", 8, 1), 15);
        assert_eq!(active("h100pcie", 16, 1), 1);
        // No clusters before compute capability 9.0; a block alone is a cluster of one.
        assert_eq!((active("l4", 1, 2), active("l4", 2, 2)), (116, 0));
        assert_eq!(active("h100", u32::MAX, u32::MAX), 0);
    }

    #[test]
    fn the_largest_cluster() {
        let largest =
            |device: &str, nonportable| largest_cluster(Device::named(device).unwrap(), nonportable, 1);
        assert_eq!((largest("h100", false), largest("h100", true)), (8, 16));
        assert_eq!((largest("rtx5090", false), largest("rtx5090", true)), (8, 8));
        assert_eq!((largest("l4", false), largest("l4", true)), (1, 1));
        assert_eq!(largest_cluster(Device::named("h100").unwrap(), true, 0), 0);
    }

    #[test]
    fn active_blocks_never_exceed_those_without_clusters() {
        for device in &crate::DEVICES {
            for size in 1..=16 {
                for blocks_per_sm in 0..=8 {
                    let found = clusters(device, size, blocks_per_sm);
                    assert!(
                        found.blocks() <= device.multiprocessors.value * blocks_per_sm,
                        "{} {size}",
                        device.id
                    );
                }
            }
        }
    }
}
