//! How many blocks of a kernel share a multiprocessor.
//!
//! Computed from the resources that ptxas reports and the rules of NVIDIA's occupancy calculator. The model
//! assumes that the driver configures the largest shared-memory carveout, as it does when a kernel needs it.
//! It ignores clusters (see [`crate::clusters`]), other kernels on the device, and how long blocks run. Occupancy bounds how much
//! latency can be hidden; it does not predict speed.

use std::fmt;

use serde::Serialize;

use crate::device::{Capability, WARP};

/// Resources that a kernel uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory declared in the kernel.
    pub static_shared: u32,
    /// Bytes of shared memory requested at launch.
    pub dynamic_shared: u32,
    /// Hardware barriers.
    pub barriers: u32,
}

impl Usage {
    /// Bytes of shared memory of a block.
    pub fn shared(&self) -> u32 {
        self.static_shared.saturating_add(self.dynamic_shared)
    }
}

/// Resources that can limit the number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Resident threads.
    Threads,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Hardware barriers.
    Barriers,
    /// Resident blocks.
    Blocks,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads => "threads",
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Barriers => "barriers",
            Self::Blocks => "block slots",
        })
    }
}

/// How many blocks one resource allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// Blocks per multiprocessor if only this resource limited them. `None`: unlimited.
    pub blocks: Option<u32>,
}

/// A resource whose use must shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The resource.
    pub resource: Resource,
    /// Current use per block (registers: per thread; shared memory: bytes).
    pub now: u32,
    /// The maximum use for one more block.
    pub need: u32,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let less = self.now.saturating_sub(self.need);
        match self.resource {
            Resource::SharedMemory => write!(f, "{} bytes of shared memory less", grouped(less)),
            Resource::Registers => write!(f, "at most {} registers instead of {}", self.need, self.now),
            Resource::Threads => write!(f, "blocks of at most {} threads instead of {}", self.need, self.now),
            Resource::Barriers => write!(f, "at most {} barriers instead of {}", self.need, self.now),
            Resource::Blocks => write!(f, "{less} blocks less"),
        }
    }
}

/// A number with thousands separators: `37,120`.
pub fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What one more block per multiprocessor requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Next {
    /// All of these changes together.
    Changes {
        /// Blocks per multiprocessor then.
        blocks: u32,
        /// One per limiting resource.
        changes: Vec<Change>,
    },
    /// The multiprocessor cannot hold more blocks of any kernel.
    Full {
        /// The resource that no kernel can use less of.
        resource: Resource,
    },
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changes { blocks, changes } => {
                for (i, change) in changes.iter().enumerate() {
                    write!(f, "{}{change}", if i == 0 { "" } else { " and " })?;
                }
                write!(f, " → {blocks} block{} per SM", if *blocks == 1 { "" } else { "s" })
            }
            Self::Full { resource: Resource::Blocks } => {
                f.write_str("none: every block slot of the SM is taken")
            }
            Self::Full { resource: Resource::Threads } => {
                f.write_str("none: every warp slot of the SM is taken")
            }
            Self::Full { resource } => write!(f, "none: {resource} cannot shrink further"),
        }
    }
}

/// How a kernel occupies a multiprocessor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Threads per block.
    pub block: u32,
    /// Blocks per multiprocessor. 0: the kernel cannot be launched with this block size.
    pub blocks_per_sm: u32,
    /// Resident warps.
    pub warps: u32,
    /// Maximum resident warps of a multiprocessor.
    pub max_warps: u32,
    /// `warps` of `max_warps` in percent.
    pub percent: f64,
    /// Blocks that each resource allows.
    pub limits: Vec<Limit>,
    /// The resources that allow the fewest blocks.
    pub limiters: Vec<Resource>,
    /// Whether the host must opt in to more than the default shared memory per block.
    pub needs_opt_in: bool,
    /// What one more block requires.
    pub next: Next,
}

/// How many blocks of `block` threads share a multiprocessor.
pub fn occupancy(capability: &Capability, usage: &Usage, block: u32) -> Occupancy {
    let limits = [
        (Resource::Threads, Some(by_threads(capability, block))),
        (Resource::Registers, by_registers(capability, usage.registers, block)),
        (Resource::SharedMemory, by_shared(capability, usage.shared())),
        (Resource::Barriers, by_barriers(capability, usage.barriers)),
        (Resource::Blocks, Some(capability.max_blocks.value)),
    ]
    .map(|(resource, blocks)| Limit { resource, blocks });
    let blocks_per_sm = limits.iter().filter_map(|limit| limit.blocks).min().unwrap_or(0);
    let limiters: Vec<Resource> =
        limits.iter().filter(|l| l.blocks == Some(blocks_per_sm)).map(|l| l.resource).collect();
    let max_warps = capability.max_warps();
    let warps = blocks_per_sm * block.div_ceil(WARP);
    Occupancy {
        block,
        blocks_per_sm,
        warps,
        max_warps,
        percent: f64::from(warps) * 100.0 / f64::from(max_warps),
        needs_opt_in: usage.shared() > capability.block_shared.value,
        next: next(capability, usage, block, blocks_per_sm, &limiters),
        limits: limits.to_vec(),
        limiters,
    }
}

fn by_threads(capability: &Capability, block: u32) -> u32 {
    if block == 0 || block > capability.max_block_threads.value {
        return 0;
    }
    capability.max_warps() / block.div_ceil(WARP)
}

/// Registers are allocated per warp, and a warp takes them from one partition.
fn by_registers(capability: &Capability, registers: u32, block: u32) -> Option<u32> {
    // A thread can address 255; NVIDIA's calculator accepts a count of 256, which ptxas may report.
    if registers > capability.thread_registers.value + 1 || block > capability.max_block_threads.value {
        return Some(0);
    }
    if registers == 0 || block == 0 {
        return None;
    }
    let per_warp = (registers * WARP).next_multiple_of(capability.register_granularity.value);
    let partitions = capability.partitions.value;
    let warps = block.div_ceil(WARP);
    // The hardware checks a launch as if every partition held as many warps as the fullest one.
    if per_warp * warps.next_multiple_of(partitions) > capability.block_registers.value {
        return Some(0);
    }
    let warps_of_partition = capability.registers.value / partitions / per_warp;
    Some(warps_of_partition * partitions / warps)
}

fn by_shared(capability: &Capability, shared: u32) -> Option<u32> {
    if shared > capability.block_shared_opt_in.value {
        return Some(0);
    }
    let taken =
        (shared + capability.reserved_shared.value).next_multiple_of(capability.shared_granularity.value);
    capability.shared.value.checked_div(taken)
}

fn by_barriers(capability: &Capability, barriers: u32) -> Option<u32> {
    capability.barriers.value?.checked_div(barriers)
}

fn next(capability: &Capability, usage: &Usage, block: u32, blocks: u32, limiters: &[Resource]) -> Next {
    let goal = blocks + 1;
    if limiters.contains(&Resource::Threads) && blocks * block.div_ceil(WARP) == capability.max_warps() {
        return Next::Full { resource: Resource::Threads };
    }
    if limiters.contains(&Resource::Blocks) {
        return Next::Full { resource: Resource::Blocks };
    }
    let mut changes = Vec::new();
    for resource in limiters {
        let (now, need) = match resource {
            // Excluded above.
            Resource::Blocks => continue,
            Resource::Threads => {
                let most = (capability.max_warps() / goal * WARP).min(capability.max_block_threads.value);
                (block, most)
            }
            Resource::Registers => {
                let fits = |r: &u32| by_registers(capability, *r, block).is_none_or(|b| b >= goal);
                let most = (1..=usage.registers.min(capability.thread_registers.value)).rev().find(fits);
                (usage.registers, most.unwrap_or(0))
            }
            Resource::SharedMemory => {
                let granularity = capability.shared_granularity.value;
                let share = capability.shared.value / goal / granularity * granularity;
                let most = share.saturating_sub(capability.reserved_shared.value);
                let fits = by_shared(capability, most).is_none_or(|b| b >= goal);
                if !fits {
                    return Next::Full { resource: *resource };
                }
                (usage.shared(), most.min(capability.block_shared_opt_in.value))
            }
            Resource::Barriers => (usage.barriers, capability.barriers.value.unwrap_or(0) / goal),
        };
        if need == 0 && *resource != Resource::SharedMemory {
            return Next::Full { resource: *resource };
        }
        changes.push(Change { resource: *resource, now, need });
    }
    Next::Changes { blocks: goal, changes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{CAPABILITIES, Device};

    fn on(device: &str, usage: &Usage, block: u32) -> Occupancy {
        occupancy(Device::named(device).unwrap().capability, usage, block)
    }

    #[test]
    fn shared_memory_limits_an_attention_kernel_on_an_l4() {
        let usage = Usage { registers: 96, static_shared: 37120, ..Usage::default() };
        let o = on("l4", &usage, 128);
        assert_eq!((o.blocks_per_sm, o.warps, o.max_warps), (2, 8, 48));
        assert_eq!(format!("{:.1}", o.percent), "16.7");
        assert_eq!(o.limiters, [Resource::SharedMemory]);
        // 102,400 bytes in three are 34,133; in steps of 128 that is 34,048, of which 1,024 are reserved.
        let change = Change { resource: Resource::SharedMemory, now: 37120, need: 33024 };
        assert_eq!(o.next, Next::Changes { blocks: 3, changes: vec![change] });
        assert_eq!(o.next.to_string(), "4,096 bytes of shared memory less → 3 blocks per SM");
        let registers = o.limits.iter().find(|l| l.resource == Resource::Registers).unwrap();
        assert_eq!(registers.blocks, Some(5));
        // Saving 2 KB has no effect, but the last 384 bytes do.
        let usage = |shared| Usage { registers: 96, static_shared: shared, ..Usage::default() };
        assert_eq!(on("l4", &usage(37120 - 2048), 128).blocks_per_sm, 2);
        assert_eq!(
            on("l4", &usage(33408), 128).next.to_string(),
            "384 bytes of shared memory less → 3 blocks per SM"
        );
        assert_eq!(on("l4", &usage(33024), 128).blocks_per_sm, 3);
    }

    #[test]
    fn each_resource_can_limit() {
        let usage = |registers, barriers| Usage { registers, barriers, ..Usage::default() };
        let o = on("a100", &usage(128, 1), 256);
        assert_eq!((o.blocks_per_sm, o.limiters.as_slice()), (2, &[Resource::Registers][..]));
        assert_eq!(o.next.to_string(), "at most 80 registers instead of 128 → 3 blocks per SM");
        let o = on("rtx3090", &usage(16, 1), 1024);
        assert_eq!((o.blocks_per_sm, o.limiters.as_slice()), (1, &[Resource::Threads][..]));
        assert_eq!(o.next.to_string(), "blocks of at most 768 threads instead of 1024 → 2 blocks per SM");
        let o = on("l4", &usage(16, 1), 32);
        assert_eq!(o.blocks_per_sm, 24);
        assert_eq!(o.next, Next::Full { resource: Resource::Blocks });
        let o = on("rtx5090", &usage(16, 4), 64);
        assert_eq!((o.blocks_per_sm, o.limiters.as_slice()), (6, &[Resource::Barriers][..]));
        assert_eq!(o.next.to_string(), "at most 3 barriers instead of 4 → 7 blocks per SM");
    }

    #[test]
    fn what_cannot_be_launched_is_zero_blocks() {
        let shared = Usage { registers: 32, dynamic_shared: 100 * 1024, ..Usage::default() };
        let o = on("l4", &shared, 128);
        assert_eq!((o.blocks_per_sm, o.limiters.as_slice()), (0, &[Resource::SharedMemory][..]));
        assert_eq!(o.next.to_string(), "1,024 bytes of shared memory less → 1 block per SM");
        let registers = Usage { registers: 128, ..Usage::default() };
        assert_eq!(on("l4", &registers, 1024).blocks_per_sm, 0);
        assert_eq!(on("l4", &registers, 2000).blocks_per_sm, 0);
        assert_eq!(on("l4", &registers, 0).blocks_per_sm, 0);
        assert!(on("l4", &Usage { dynamic_shared: 50000, ..Usage::default() }, 64).needs_opt_in);
    }

    #[test]
    fn no_usage_overflows() {
        let max = u32::MAX;
        let usage = Usage { registers: max, static_shared: max, dynamic_shared: max, barriers: max };
        for capability in &CAPABILITIES {
            assert_eq!(occupancy(capability, &usage, max).blocks_per_sm, 0);
        }
    }

    #[test]
    fn the_change_that_is_named_is_the_smallest_that_helps() {
        for capability in &CAPABILITIES {
            for block in [32, 96, 128, 256, 384, 1024] {
                for registers in [16, 40, 97, 168, 255] {
                    for shared in [0, 1000, 20_000, 37_120, 49_152] {
                        let usage =
                            Usage { registers, static_shared: shared, barriers: 1, ..Usage::default() };
                        check_next(capability, &usage, block);
                    }
                }
            }
        }
    }

    fn check_next(capability: &Capability, usage: &Usage, block: u32) {
        let before = occupancy(capability, usage, block);
        let Next::Changes { blocks, changes } = &before.next else { return };
        let apply = |slack: u32| {
            let (mut usage, mut block) = (*usage, block);
            for change in changes {
                match change.resource {
                    Resource::SharedMemory => usage.static_shared = change.need + slack,
                    Resource::Registers => usage.registers = change.need + slack,
                    Resource::Threads => block = change.need + slack,
                    Resource::Barriers => usage.barriers = change.need + slack,
                    Resource::Blocks => unreachable!("block slots cannot be changed"),
                }
            }
            occupancy(capability, &usage, block).blocks_per_sm
        };
        assert!(apply(0) >= *blocks, "{} {usage:?} {block}: {}", capability.arch(), before.next);
        assert!(apply(1) < *blocks, "{} {usage:?} {block}: {}", capability.arch(), before.next);
    }
}
