//! How many blocks of a launch can be resident on a device at the same time.
//!
//! A block that waits for another depends on blocks that are resident with it: a device starts the next block when one has
//! ended. PTX runs on its own architecture and on every later one, so the bound is that of the largest of these devices.
//! Figures for one multiprocessor are from the CUDA programming guide ("Technical Specifications per Compute Capability"),
//! numbers of multiprocessors from NVIDIA's product pages. Registers are not considered, because only ptxas knows their
//! number: the bound is too high rather than too low.

use super::Grid;

/// The resources of the largest device of an architecture.
struct Capacity {
    sm: u32,
    multiprocessors: u32,
    /// Threads, blocks and kilobytes of shared memory of one multiprocessor.
    threads: u32,
    blocks: u32,
    shared_kb: u32,
}

const fn capacity(sm: u32, multiprocessors: u32, threads: u32, blocks: u32, shared_kb: u32) -> Capacity {
    Capacity { sm, multiprocessors, threads, blocks, shared_kb }
}

/// By compute capability; the device is in the comment.
const CAPACITIES: [Capacity; 9] = [
    capacity(70, 80, 2048, 32, 96),    // V100
    capacity(75, 72, 1024, 16, 64),    // Quadro RTX 8000
    capacity(80, 108, 2048, 32, 164),  // A100
    capacity(86, 84, 1536, 16, 100),   // RTX 3090 Ti
    capacity(87, 16, 1536, 16, 164),   // Jetson AGX Orin
    capacity(89, 142, 1536, 24, 100),  // RTX 6000 Ada
    capacity(90, 132, 2048, 32, 228),  // H100
    capacity(103, 160, 2048, 32, 228), // B300
    capacity(120, 188, 1536, 24, 100), // RTX PRO 6000 Blackwell
];

/// Shared memory per block that a device reserves, in bytes.
const RESERVED: u32 = 1024;

/// The number of blocks that the software GPU keeps active, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Residency {
    pub(super) blocks: usize,
    /// Whether host memory limits it, and not the devices.
    pub(super) by_memory: bool,
}

/// Blocks of this size that run at the same time on the largest device of an architecture or a later one.
fn co_resident(sm: u32, threads: u32, shared: u32) -> u32 {
    let warps = threads.div_ceil(32).max(1);
    let each = |device: &Capacity| {
        let shared = device.shared_kb * 1024 / shared.saturating_add(RESERVED);
        device.multiprocessors * device.blocks.min(device.threads / 32 / warps).min(shared)
    };
    CAPACITIES.iter().filter(|device| device.sm >= sm.min(120)).map(each).max().unwrap_or(1).max(1)
}

impl Grid<'_> {
    /// Blocks (clusters, if they have several blocks) that may be active at the same time while they wait for each other.
    pub(super) fn residency(&self) -> Residency {
        let size = self.cluster_size();
        let most = (co_resident(self.sm, self.block_threads(), self.shared) / size).max(1);
        let block = self.block_bytes().saturating_add(u64::from(self.shared_extent()));
        let each = block.saturating_mul(u64::from(size)).max(1);
        let room = (self.limits.memory / 2 / each).max(1);
        let by_memory = room < u64::from(most);
        let blocks = usize::try_from(room.min(u64::from(most))).unwrap_or(1);
        Residency { blocks, by_memory }
    }
}

#[cfg(test)]
mod tests {
    use super::co_resident;

    #[test]
    fn the_largest_device_bounds_the_blocks() {
        // 24 blocks of 64 threads on each of 188 multiprocessors, or 32 on each of 160.
        assert_eq!(co_resident(89, 64, 0), 160 * 32);
        assert_eq!(co_resident(120, 64, 0), 188 * 24);
        // Threads: six blocks of 256 on each of 188, eight on each of 160.
        assert_eq!(co_resident(89, 256, 0), 160 * 8);
        assert_eq!(co_resident(120, 1024, 0), 188);
        // Shared memory: two blocks of 100 kB per multiprocessor with 228 kB.
        assert_eq!(co_resident(90, 32, 100 << 10), 160 * 2);
        // An architecture that is not in the table yet.
        assert_eq!(co_resident(200, 32, 0), 188 * 24);
    }
}
