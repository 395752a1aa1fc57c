//! The minimum time of a launch, for each resource alone.
//!
//! Each bound is an exact count divided by a peak rate, for every pipe, cache and the memory. The bounds
//! assume that the work of all blocks is spread evenly over the multiprocessors, that every resource overlaps
//! with every other, and that all latency is hidden; so the device may take longer, but not less as far as
//! the counts and rates are correct. The waves in which blocks fill the device are reported separately and
//! are not part of the bounds: the cost of a wave depends on how much the blocks differ. Every number is
//! *predicted*.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts become times; rounding beyond 2^53 is far below the model's own error"
)]

use std::fmt;

use serde::Serialize;

use crate::cluster::clusters;
use crate::device::{Device, WARP};
use crate::occupancy::{Occupancy, Usage, occupancy};
use crate::rates::{Pipe, TensorType};

/// The work of a launch, counted over all of its blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Warp instructions by pipe; those of the tensor cores count as issue slots only.
    pub instructions: Vec<(Pipe, u64)>,
    /// Multiply-adds of the tensor cores by type.
    pub tensor: Vec<(TensorType, u64)>,
    /// Wavefronts of shared memory: one for each conflict-free access of 128 bytes.
    pub shared_wavefronts: u64,
    /// Sectors of 32 bytes that go through the L1 cache.
    pub l1_sectors: u64,
    /// Bytes between the L1 and the L2 cache.
    pub l2_bytes: u64,
    /// Bytes of device memory with a cold L2 cache.
    pub dram_bytes: u64,
    /// Bytes of device memory that must move even with a warm L2 cache.
    pub dram_bytes_warm: u64,
    /// Atomic operations at the address of device memory with the most of them.
    pub one_address: u64,
    /// Blocks.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster; 0 and 1 are the same.
    pub cluster: u32,
    /// Resources that a block uses.
    pub usage: Usage,
}

impl Work {
    /// The same work scaled to a launch of `blocks` identical blocks.
    #[must_use]
    pub fn scaled(&self, blocks: u64) -> Self {
        let of = self.blocks.max(1);
        let more = |count: u64| {
            let scaled = u128::from(count) * u128::from(blocks) / u128::from(of);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self {
            instructions: self.instructions.iter().map(|(pipe, count)| (*pipe, more(*count))).collect(),
            tensor: self.tensor.iter().map(|(kind, count)| (*kind, more(*count))).collect(),
            shared_wavefronts: more(self.shared_wavefronts),
            l1_sectors: more(self.l1_sectors),
            l2_bytes: more(self.l2_bytes),
            dram_bytes: more(self.dram_bytes),
            dram_bytes_warm: more(self.dram_bytes_warm),
            one_address: more(self.one_address),
            blocks,
            ..self.clone()
        }
    }
}

/// The minimum work of any kernel for the problem, computed by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Floor {
    /// Multiply-adds, and the type of the tensor cores that do them; `None` for the FMA pipe.
    pub fma: (Option<TensorType>, u64),
    /// Special functions, in lanes.
    pub special: u64,
    /// Bytes that must be read.
    pub loaded: u64,
    /// Bytes that must be written.
    pub stored: u64,
}

impl Floor {
    /// Bytes of device memory with a cold L2 cache: everything that is read; written data may stay in the
    /// cache up to its size, as in [`Work::dram_bytes`].
    fn cold(&self, device: &Device) -> u64 {
        self.loaded.saturating_add(self.stored.saturating_sub(room(device)))
    }

    /// Bytes of device memory with a warm L2 cache.
    fn warm(&self, device: &Device) -> u64 {
        self.loaded.saturating_add(self.stored).saturating_sub(room(device))
    }
}

/// Size of the L2 cache in bytes.
fn room(device: &Device) -> u64 {
    u64::from(device.l2_kb.value) * 1024
}

/// A resource that work consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consumed {
    /// Issue slots: one warp instruction per sub-core and cycle.
    Issue,
    /// A pipe.
    Pipe(Pipe),
    /// The tensor cores, all types together.
    Tensor,
    /// Shared memory.
    Shared,
    /// The L1 cache.
    L1,
    /// The L2 cache.
    L2,
    /// The address with the most atomics.
    OneAddress,
    /// Device memory.
    Dram,
}

/// Atomic operations per cycle at one address of device memory. NVIDIA's white paper on Kepler GK110 gives
/// one operation per clock for a common address; no later source gives another number. The cycle is that of
/// the boost clock.
const AT_ONE_ADDRESS: f64 = 1.0;

impl fmt::Display for Consumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Issue => "issue slots",
            Self::Pipe(Pipe::Fma) => "FMA pipe",
            Self::Pipe(Pipe::IntegerFma) => "integer multipliers",
            Self::Pipe(Pipe::Half) => "half-precision pipe",
            Self::Pipe(Pipe::Alu) => "ALU",
            Self::Pipe(Pipe::Special) => "special functions",
            Self::Pipe(Pipe::Double) => "FP64 pipe",
            Self::Pipe(Pipe::Memory) => "load/store units",
            Self::Pipe(Pipe::Shuffle) => "shuffles",
            Self::Pipe(Pipe::Reduce) => "warp reductions",
            Self::Pipe(Pipe::Uniform) => "uniform datapath",
            Self::Pipe(Pipe::Control) => "branches and barriers",
            Self::Pipe(Pipe::Tensor) | Self::Tensor => "tensor cores",
            Self::Shared => "shared memory",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::OneAddress => "atomics at one address",
            Self::Dram => "DRAM",
        })
    }
}

/// The time of one resource alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The resource.
    pub resource: Consumed,
    /// Predicted microseconds if the work is spread evenly over all multiprocessors.
    pub us: f64,
}

/// How blocks fill the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waves {
    /// Blocks.
    pub blocks: u64,
    /// Blocks that the device holds at a time.
    pub at_once: u64,
    /// Rounds until all blocks have run.
    pub rounds: u64,
    /// The number of blocks of the multiprocessor with the most.
    pub most_per_sm: u64,
    /// The maximum number of blocks per multiprocessor divided by the mean. If all blocks take equally long,
    /// resources inside the multiprocessors take this factor times their bound.
    pub stretch: f64,
}

/// The bounds of a launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Longest first, with a cold L2 cache.
    pub cold: Vec<Share>,
    /// Longest first, with a warm L2 cache.
    pub warm: Vec<Share>,
    /// How blocks fill the device.
    pub waves: Waves,
    /// Predicted launch overhead in microseconds.
    pub launch_us: f64,
    /// How many blocks share a multiprocessor, and what limits them.
    pub occupancy: Occupancy,
    /// Resources without a bound, and why.
    pub left_out: Vec<String>,
}

impl Bounds {
    /// The binding resource and the next one, with a cold cache.
    pub fn binding_cold(&self) -> (Option<&Share>, Option<&Share>) {
        (self.cold.first(), self.cold.get(1))
    }

    /// The binding resource and the next one, with a warm cache.
    pub fn binding_warm(&self) -> (Option<&Share>, Option<&Share>) {
        (self.warm.first(), self.warm.get(1))
    }

    /// Predicted microseconds of the kernel with a cold cache, without launch overhead.
    pub fn cold_us(&self) -> f64 {
        self.cold.first().map_or(0.0, |share| share.us)
    }

    /// Predicted microseconds of the kernel with a warm cache, without launch overhead.
    pub fn warm_us(&self) -> f64 {
        self.warm.first().map_or(0.0, |share| share.us)
    }
}

/// Why a launch has no bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundError {
    /// No block fits on a multiprocessor.
    DoesNotFit,
    /// No GPC of the device holds a cluster.
    ClusterDoesNotFit,
    /// The launch has no blocks or no threads.
    Empty,
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DoesNotFit => "no block fits on a multiprocessor",
            Self::ClusterDoesNotFit => "no GPC of the device holds a cluster of this size",
            Self::Empty => "the launch has no threads",
        })
    }
}

impl std::error::Error for BoundError {}

/// Computes lower bounds of the time of a launch on a device.
pub fn bounds(device: &Device, work: &Work) -> Result<Bounds, BoundError> {
    if work.blocks == 0 || work.threads == 0 {
        return Err(BoundError::Empty);
    }
    let occupancy = occupancy(device.capability, &work.usage, work.threads);
    if occupancy.blocks_per_sm == 0 {
        return Err(BoundError::DoesNotFit);
    }
    let waves = waves(device, work.blocks, occupancy.blocks_per_sm, work.cluster)
        .ok_or(BoundError::ClusterDoesNotFit)?;
    let rates = device.rates;
    let sms = f64::from(device.multiprocessors.value);
    let mhz = f64::from(device.boost_mhz.value);
    let mut shares = Vec::new();
    let mut left_out = Vec::new();
    let inside = |resource: Consumed, cycles: f64| Share { resource, us: cycles / sms / mhz };

    let issued: u64 = work.instructions.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let sub_cores = f64::from(device.capability.partitions.value);
    shares.push(inside(Consumed::Issue, issued as f64 / sub_cores));
    for (pipe, count) in &work.instructions {
        if let Some(lanes) = rates.lanes(*pipe) {
            let cycles = *count as f64 * f64::from(WARP) / lanes;
            match shares.iter_mut().find(|share| share.resource == Consumed::Pipe(*pipe)) {
                Some(share) => share.us += inside(Consumed::Pipe(*pipe), cycles).us,
                None => shares.push(inside(Consumed::Pipe(*pipe), cycles)),
            }
        }
    }
    shared_pipes(&mut shares, work, device, &inside);
    let mut tensor = 0.0;
    for (kind, fma) in &work.tensor {
        match rates.tensor(*kind) {
            Some(rate) => tensor += *fma as f64 / rate,
            None => left_out.push(format!("{} has no published tensor rate for {kind:?}", device.name)),
        }
    }
    shares.push(inside(Consumed::Tensor, tensor));
    shares.push(inside(Consumed::Shared, work.shared_wavefronts as f64 * 128.0 / rates.shared_bytes.value));
    shares.push(inside(Consumed::L1, work.l1_sectors as f64 * 32.0 / rates.l1_bytes.value));
    match rates.l2_bytes {
        Some(rate) => shares.push(inside(Consumed::L2, work.l2_bytes as f64 / rate.value)),
        None => left_out.push(format!("{} has no published L2 bandwidth", device.name)),
    }
    shares.push(Share { resource: Consumed::OneAddress, us: work.one_address as f64 / AT_ONE_ADDRESS / mhz });
    let dram = |bytes: u64| Share {
        resource: Consumed::Dram,
        us: bytes as f64 / f64::from(device.bandwidth_gb_s.value) / 1e3,
    };
    let sorted = |last: Share| {
        let mut all = shares.clone();
        all.push(last);
        all.retain(|share| share.us > 0.0);
        all.sort_by(|a, b| b.us.total_cmp(&a.us).then(a.resource.cmp(&b.resource)));
        all
    };
    Ok(Bounds {
        cold: sorted(dram(work.dram_bytes)),
        warm: sorted(dram(work.dram_bytes_warm.min(work.dram_bytes))),
        waves,
        launch_us: rates.launch_us.value,
        occupancy,
        left_out,
    })
}

/// Integer multiply-adds run on one half of the FMA pipe, so their time also counts for the FMA pipe.
fn shared_pipes(shares: &mut [Share], work: &Work, device: &Device, inside: &dyn Fn(Consumed, f64) -> Share) {
    let integer: u64 =
        work.instructions.iter().filter(|(pipe, _)| *pipe == Pipe::IntegerFma).map(|(_, n)| *n).sum();
    if let Some(share) = shares.iter_mut().find(|share| share.resource == Consumed::Pipe(Pipe::Fma)) {
        share.us += inside(share.resource, integer as f64 * f64::from(WARP) / device.rates.fma.value).us;
    }
}

/// `None` if the device holds no cluster of `cluster` blocks.
fn waves(device: &Device, blocks: u64, per_sm: u32, cluster: u32) -> Option<Waves> {
    let sms = u64::from(device.multiprocessors.value).max(1);
    let cluster = cluster.max(1);
    let at_once = u64::from(clusters(device, cluster, per_sm.max(1)).blocks());
    // Multiprocessors with a block if each has at most one: clusters leave some of a GPC empty.
    let used = u64::from(clusters(device, cluster, 1).blocks());
    if at_once == 0 || used == 0 {
        return None;
    }
    let rounds = blocks.div_ceil(at_once);
    // Full rounds give every multiprocessor the same number; the remaining blocks are distributed one by one.
    let rest = blocks - (rounds - 1) * at_once;
    let most_per_sm = (rounds - 1) * u64::from(per_sm) + rest.div_ceil(used).min(u64::from(per_sm.max(1)));
    let stretch = most_per_sm as f64 * sms as f64 / blocks as f64;
    Some(Waves { blocks, at_once, rounds, most_per_sm, stretch })
}

/// The roofline: the minimum microseconds of any kernel for the problem with a cold L2 cache, predicted, and
/// the resource that sets them.
pub fn roofline(device: &Device, floor: &Floor) -> Result<Share, String> {
    roof(device, floor, floor.cold(device))
}

/// As [`roofline`], with a warm L2 cache.
pub fn roofline_warm(device: &Device, floor: &Floor) -> Result<Share, String> {
    roof(device, floor, floor.warm(device))
}

fn roof(device: &Device, floor: &Floor, dram: u64) -> Result<Share, String> {
    let sms = f64::from(device.multiprocessors.value);
    let mhz = f64::from(device.boost_mhz.value);
    let (kind, fma) = floor.fma;
    let (resource, rate) = match kind {
        Some(kind) => (
            Consumed::Tensor,
            device
                .rates
                .tensor(kind)
                .ok_or_else(|| format!("{} has no published tensor rate for {kind:?}", device.name))?,
        ),
        None => (Consumed::Pipe(Pipe::Fma), device.rates.fma.value),
    };
    let candidates = [
        (resource, fma as f64 / rate / sms / mhz),
        (Consumed::Pipe(Pipe::Special), floor.special as f64 / device.rates.special.value / sms / mhz),
        (Consumed::Dram, dram as f64 / f64::from(device.bandwidth_gb_s.value) / 1e3),
    ];
    let (resource, us) =
        candidates.into_iter().fold((resource, 0.0), |best, next| if next.1 > best.1 { next } else { best });
    Ok(Share { resource, us })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn l4() -> &'static Device {
        Device::named("l4").unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn the_rooflines_of_fp8_attention() {
        // B2 H8 S256 D64: 2 products of 256 x 256 x 64 for each of 16 heads, one exponential per score.
        let fma = 16 * 2 * 256 * 256 * 64;
        let floor =
            Floor { fma: (Some(TensorType::F8ToF32), fma), special: 16 * 256 * 256, ..Floor::default() };
        let share = roofline(l4(), &floor).unwrap();
        assert_eq!(share.resource, Consumed::Tensor);
        assert!((share.us - 1.11).abs() < 0.01, "{}", share.us);
        let floor = Floor { fma: (None, 0), ..floor };
        let share = roofline(l4(), &floor).unwrap();
        assert_eq!(share.resource, Consumed::Pipe(Pipe::Special));
        assert!((share.us - 0.55).abs() < 0.01, "{}", share.us);
        // 786,432 bytes at 300 GB/s.
        let floor = Floor { loaded: 3 * 16 * 256 * 64, ..Floor::default() };
        assert!((roofline(l4(), &floor).unwrap().us - 2.62).abs() < 0.01);
        // Outputs that fit stay in the cache; the excess must be written back.
        let small = Floor { stored: 2 * 16 * 256 * 64, ..floor };
        assert!(close(roofline(l4(), &small).unwrap().us, roofline(l4(), &floor).unwrap().us));
        assert!(close(roofline_warm(l4(), &small).unwrap().us, 0.0));
        let large = Floor { stored: (48 << 20) + 3_000_000, ..Floor::default() };
        assert!(close(roofline(l4(), &large).unwrap().us, 10.0));
        assert!(
            roofline(Device::named("t4").unwrap(), &Floor { fma: (Some(TensorType::F8ToF32), 1), ..floor })
                .is_err()
        );
    }

    #[test]
    fn each_resource_by_hand() {
        // 58 blocks of 128 threads: each multiprocessor runs one.
        let work = Work {
            instructions: vec![
                (Pipe::Fma, 58 * 4096),
                (Pipe::Special, 58 * 1024),
                (Pipe::IntegerFma, 58 * 2048),
            ],
            tensor: vec![(TensorType::F8ToF32, 58 * 1024 * 3000)],
            shared_wavefronts: 58 * 500,
            l1_sectors: 58 * 400,
            l2_bytes: 58 * 1600,
            one_address: 1020,
            dram_bytes: 3_000_000,
            dram_bytes_warm: 300_000,
            blocks: 58,
            threads: 128,
            cluster: 1,
            usage: Usage { registers: 32, ..Usage::default() },
        };
        let bounds = bounds(l4(), &work).unwrap();
        let us = |resource: Consumed| {
            bounds.cold.iter().find(|share| share.resource == resource).map_or(f64::NAN, |share| share.us)
        };
        let cycles = |n: f64| n / 2040.0;
        assert!(close(us(Consumed::Issue), cycles(7168.0 / 4.0)));
        // 4096 and 2048 warps over 128 lanes.
        assert!(close(us(Consumed::Pipe(Pipe::Fma)), cycles(6144.0 / 4.0)));
        assert!(close(us(Consumed::Pipe(Pipe::IntegerFma)), cycles(1024.0)));
        assert!(close(us(Consumed::Pipe(Pipe::Special)), cycles(2048.0)));
        assert!(close(us(Consumed::Tensor), cycles(3000.0)));
        assert!(close(us(Consumed::Shared), cycles(500.0)));
        assert!(close(us(Consumed::L1), cycles(100.0)));
        assert!(close(us(Consumed::L2), cycles(100.0)));
        // 1,020 operations one after another, wherever they come from.
        assert!(close(us(Consumed::OneAddress), 0.5));
        assert!(close(us(Consumed::Dram), 10.0));
        assert_eq!(bounds.binding_cold().0.unwrap().resource, Consumed::Dram);
        assert_eq!(bounds.binding_cold().1.unwrap().resource, Consumed::Tensor);
        assert_eq!(bounds.binding_warm().0.unwrap().resource, Consumed::Tensor);
        assert!(close(bounds.waves.stretch, 1.0));
        assert!(bounds.cold_us() > bounds.warm_us());
        assert!(bounds.left_out.is_empty());
    }

    #[test]
    fn waves_are_counted_in_whole_blocks() {
        let waves = |blocks, per_sm| super::waves(l4(), blocks, per_sm, 0).unwrap();
        assert_eq!((waves(58, 2).rounds, waves(58, 2).most_per_sm), (1, 1));
        assert_eq!((waves(59, 2).rounds, waves(59, 2).most_per_sm), (1, 2));
        assert_eq!((waves(117, 2).rounds, waves(117, 2).most_per_sm), (2, 3));
        assert!(close(waves(59, 2).stretch, 2.0 * 58.0 / 59.0));
        // 32 blocks on 58 multiprocessors leave 45 % idle.
        assert!(close(waves(32, 1).stretch, 58.0 / 32.0));
        assert!(close(waves(u64::MAX / 2, 1).stretch, 1.0));
    }

    #[test]
    fn clusters_leave_multiprocessors_empty() {
        let h100 = Device::named("h100").unwrap();
        let waves = |blocks, per_sm, cluster| super::waves(h100, blocks, per_sm, cluster);
        let one = waves(120, 1, 8).unwrap();
        assert_eq!((one.at_once, one.rounds, one.most_per_sm), (120, 1, 1));
        // Without clusters, 128 blocks are one round.
        let two = waves(128, 1, 8).unwrap();
        assert_eq!((two.rounds, two.most_per_sm), (2, 2));
        assert_eq!(waves(128, 1, 1).unwrap().rounds, 1);
        assert_eq!(waves(16, 1, 17), None);
        assert_eq!(super::waves(l4(), 16, 1, 2), None);
        let work = Work { blocks: 2, threads: 32, cluster: 2, ..Work::default() };
        assert_eq!(bounds(l4(), &work), Err(BoundError::ClusterDoesNotFit));
        assert!(bounds(h100, &work).is_ok());
    }

    #[test]
    fn what_cannot_run_has_no_bound() {
        let work = Work { blocks: 1, threads: 2048, ..Work::default() };
        assert_eq!(bounds(l4(), &work), Err(BoundError::DoesNotFit));
        assert_eq!(bounds(l4(), &Work::default()), Err(BoundError::Empty));
        let work = Work { blocks: 1, threads: 32, l2_bytes: 1, ..Work::default() };
        let t4 = bounds(Device::named("t4").unwrap(), &work).unwrap();
        assert_eq!(t4.left_out.len(), 1);
    }
}
