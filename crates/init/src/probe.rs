//! Runs a kernel on the software GPU with chosen sizes, and records its accesses: the extent in each array, which
//! blocks do work, and which addresses depend on which number.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use warpproof_num::random::SplitMix;
use warpproof_sim::machine::{Access as Touch, AccessKind, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{Detail, Observer, SharedAccess};
use warpproof_sim::{Buffer, Device, Kernel, StopKind};

use super::parameter::{Parameter, What};
use super::traffic::Access;

/// Bytes of each array: more than any trial size needs, so that accesses are recorded instead of stopped.
const ROOM: usize = 16 << 20;
/// Bytes at the start of each array that hold values; the rest is zero.
const FILLED: usize = 64 << 10;
/// Limit on warp instructions of one run, and of all.
const RUN: u64 = 20_000_000;
const ALL: u64 = 200_000_000;
/// Bytes of dynamic shared memory if the kernel's requirement is unknown.
const SHARED: u32 = 32 << 10;
/// Blocks, and executions of one instruction by a warp, whose addresses are stored for comparison.
const KEPT_BLOCKS: u32 = 256;
const KEPT_TURNS: u32 = 3;

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// By parameter; 1 for those that are not integers.
    pub(super) values: Vec<u64>,
    pub(super) grid: [u32; 3],
    /// Integers of 16 bits and more in arrays are below this.
    pub(super) indices: u64,
}

/// The accesses of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// By parameter.
    pub(super) arrays: Vec<Touched>,
    /// For each direction of the grid, the blocks up to the last one with work.
    pub(super) useful: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(super) shared: u64,
}

/// The accesses of a run to an array.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pub(super) access: Access,
    /// Where the last access ends, in bytes.
    pub(super) end: u64,
    /// Bytes that were written.
    pub(super) covered: u64,
    written: Vec<(u64, u64)>,
    places: BTreeMap<Occurrence, Lanes>,
}

/// Block, warp, instruction, and how often that warp has executed it before.
type Occurrence = (u32, u32, u32, u32);

#[derive(Clone, Copy, Debug)]
struct Lanes {
    active: u32,
    offsets: [u64; 32],
}

impl Touched {
    /// The number of accesses whose address differs in another run.
    pub(super) fn moved(&self, other: &Touched) -> u64 {
        let mut moved = 0;
        for (place, lanes) in &self.places {
            let Some(theirs) = other.places.get(place) else { continue };
            for lane in lanes_of(lanes.active & theirs.active) {
                moved += u64::from(lanes.offsets.get(lane) != theirs.offsets.get(lane));
            }
        }
        moved
    }

    fn add(&mut self, kind: AccessKind, offset: u64, bytes: u64) {
        self.end = self.end.max(offset + bytes);
        self.access.read |= kind != AccessKind::Write;
        self.access.written |= kind != AccessKind::Read;
        self.access.atomic |= kind == AccessKind::Atomic;
        if kind != AccessKind::Read {
            match self.written.last_mut() {
                Some((_, end)) if *end == offset => *end += bytes,
                _ => self.written.push((offset, offset + bytes)),
            }
        }
    }

    fn merge(&mut self, other: Touched) {
        self.end = self.end.max(other.end);
        self.access.read |= other.access.read;
        self.access.written |= other.access.written;
        self.access.atomic |= other.access.atomic;
        self.written.extend(other.written);
        self.places.extend(other.places);
    }

    /// Combines the written ranges, counting each byte once.
    fn sum(&mut self) {
        self.written.sort_unstable();
        let mut reached = 0;
        for (start, end) in self.written.drain(..) {
            self.covered += end.saturating_sub(start.max(reached));
            reached = reached.max(end);
        }
    }
}

/// A loaded kernel that can be run with chosen numbers.
pub(super) struct Prober<'a> {
    device: Device,
    kernel: Kernel,
    parameters: &'a [Parameter],
    buffers: Vec<Option<Buffer<u8>>>,
    block: [u32; 3],
    /// Dynamic shared memory of the kernel, and whether that is a guess.
    shared: (u32, bool),
    spent: u64,
    /// Whether a run stopped at a misaligned address.
    pub(super) misaligned: bool,
    /// Whether the last run exceeded its limit on instructions.
    pub(super) limited: bool,
}

impl<'a> Prober<'a> {
    /// Loads the kernel and allocates its arrays.
    pub(super) fn new(
        ptx: &str,
        symbol: &str,
        parameters: &'a [Parameter],
        shared: Option<u32>,
        has_dynamic: bool,
    ) -> Result<Prober<'a>, String> {
        let mut device = Device::new();
        device.limits.instructions = RUN;
        let module = device.load(ptx).map_err(|stop| stop.sentence.clone())?;
        let kernel = module.kernel(symbol).map_err(|stop| stop.sentence.clone())?;
        let mut buffers = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            let room = match parameter.what {
                What::Array { .. } => ROOM,
                What::Scratch { bytes_per_block } => {
                    usize::try_from(bytes_per_block).unwrap_or(ROOM).saturating_mul(8192).clamp(1, ROOM)
                }
                _ => {
                    buffers.push(None);
                    continue;
                }
            };
            let buffer = device.alloc_named(&parameter.name, room).map_err(|error| error.to_string())?;
            buffers.push(Some(buffer));
        }
        let shared = match shared {
            Some(bytes) => (bytes, false),
            None if has_dynamic => (SHARED, true),
            None => (0, false),
        };
        Ok(Prober {
            device,
            kernel,
            parameters,
            buffers,
            block: [1; 3],
            shared,
            spent: 0,
            misaligned: false,
            limited: false,
        })
    }

    /// Sets the threads of a block.
    pub(super) fn set_block(&mut self, extents: &[u32]) {
        self.block = [1; 3];
        self.block.iter_mut().zip(extents).for_each(|(to, from)| *to = *from);
    }

    /// Runs the kernel once, or returns why it did not complete.
    pub(super) fn run(&mut self, setting: &Setting) -> Result<Trace, String> {
        self.limited = self.spent > ALL;
        if self.limited {
            return Err("the trial runs exceeded 200 million warp instructions".to_owned());
        }
        let mut launch = self.kernel.launch().grid(setting.grid).block(self.block).shared(self.shared.0);
        let mut places = Vec::with_capacity(self.parameters.len());
        for (at, parameter) in self.parameters.iter().enumerate() {
            let buffer = self.buffers.get(at).copied().flatten();
            launch = match (&parameter.what, buffer) {
                (What::Array { dtype, .. }, Some(buffer)) => {
                    let values = values(*dtype, setting.indices, at);
                    self.device.write(&buffer, &values).map_err(|error| error.to_string())?;
                    launch.arg(buffer)
                }
                (_, Some(buffer)) => launch.arg(buffer),
                (What::Scalar(dtype), None) if dtype.is_integer() => {
                    let value = setting.values.get(at).copied().unwrap_or(1);
                    launch.arg(value.to_le_bytes().into_iter().take(dtype.size()).collect::<Vec<u8>>())
                }
                (What::Scalar(dtype), None) => launch.arg(dtype.bytes(&[1.0])),
                _ => return Err(format!("`{}` is neither an array nor a number", parameter.name)),
            };
            let array = buffer.filter(|_| matches!(parameter.what, What::Array { .. }));
            places.push(array.map_or((0, 0), |buffer| (buffer.address(), buffer.address() + to_u64(ROOM))));
        }
        let places: Arc<[(u64, u64)]> = places.into();
        let static_shared = launch.shared_bytes().saturating_sub(self.shared.0);
        let mut blocks: Vec<(u32, bool, bool)> = Vec::new();
        let mut trace = Trace { arrays: vec![Touched::default(); places.len()], ..Trace::default() };
        let mut shared_end = 0;
        let outcome = self.device.run_observed(
            &launch,
            &|block| Some(Box::new(Listener::new(block, places.clone()))),
            &mut |observer| {
                let any: Box<dyn Any> = observer;
                let Ok(seen) = any.downcast::<Listener>() else { return };
                shared_end = shared_end.max(seen.shared);
                let reads = seen.arrays.iter().any(|one| one.access.read && !one.access.atomic);
                let writes = seen.arrays.iter().any(|one| one.access.written);
                blocks.push((seen.block, reads, writes));
                for (all, one) in trace.arrays.iter_mut().zip(seen.arrays) {
                    all.merge(one);
                }
            },
        );
        self.spent = self.spent.saturating_add(outcome.instructions);
        if let Some(stop) = outcome.stop {
            self.misaligned |= stop.kind == StopKind::Alignment;
            self.limited = stop.kind == StopKind::Limit;
            return Err(stop.sentence);
        }
        trace.arrays.iter_mut().for_each(Touched::sum);
        // A block beyond the work may still load data that it does not use, or add zeros: a working block does both.
        let (any_reads, any_writes) =
            (blocks.iter().any(|(_, reads, _)| *reads), blocks.iter().any(|(.., writes)| *writes));
        let [x, y, _] = setting.grid;
        for (block, reads, writes) in blocks {
            if (reads || !any_reads) && (writes || !any_writes) {
                let index = [block % x, block / x % y, block / x / y];
                trace.useful.iter_mut().zip(index).for_each(|(most, index)| *most = (*most).max(index + 1));
            }
        }
        if self.shared.1 {
            trace.shared = u64::from(shared_end.saturating_sub(static_shared));
        }
        Ok(trace)
    }
}

/// Values for the start of an array: numbers around 1, any byte, or indices.
fn values(dtype: warpproof_task::dtype::Dtype, indices: u64, array: usize) -> Vec<u8> {
    let mut random = SplitMix(to_u64(array).wrapping_mul(0x1234_5678_9abc_def1));
    let size = dtype.size();
    let count = FILLED / size;
    if size == 1 && dtype.is_integer() {
        return (0..count).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    // A few values repeated: only their differences matter.
    let few: Vec<f64> = (0..251)
        .map(|_| {
            let bits = random.next();
            if dtype.is_integer() {
                f64::from(u32::try_from(bits % indices.max(1)).unwrap_or(0))
            } else {
                f64::from(u32::try_from(bits >> 40).unwrap_or(0)) / 16_777_216.0 + 0.25
            }
        })
        .collect();
    let bytes = dtype.bytes(&few);
    bytes.iter().copied().cycle().take(count * size).collect()
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Records the accesses of one block.
struct Listener {
    block: u32,
    places: Arc<[(u64, u64)]>,
    arrays: Vec<Touched>,
    turns: BTreeMap<(u32, u32), u32>,
    shared: u32,
}

impl Listener {
    fn new(block: u32, places: Arc<[(u64, u64)]>) -> Listener {
        let arrays = vec![Touched::default(); places.len()];
        Listener { block, places, arrays, turns: BTreeMap::new(), shared: 0 }
    }
}

impl Observer for Listener {
    fn detail(&self) -> Detail {
        Detail::Stretches
    }

    fn access(&mut self, access: &Touch<'_>) {
        if access.space == Space::Shared {
            let ends = lanes_of(access.lanes).filter_map(|lane| access.addresses.0.get(lane));
            let end = ends.max().map_or(0, |offset| offset.saturating_add(u64::from(access.bytes)));
            self.shared = self.shared.max(u32::try_from(end).unwrap_or(u32::MAX));
        }
        if access.space != Space::Global || access.lanes == 0 {
            return;
        }
        let first = lanes_of(access.lanes).next().and_then(|lane| access.addresses.0.get(lane)).copied();
        let inside =
            |address: u64| self.places.iter().position(|(start, end)| (*start..*end).contains(&address));
        let Some(array) = first.and_then(inside) else { return };
        let Some(&(start, _)) = self.places.get(array) else { return };
        // A wide load may stand for several narrow ones, and use only some of its bytes.
        let used = access.used & u32::MAX.checked_shr(32u32.saturating_sub(access.bytes)).unwrap_or(0);
        let bytes = if used == 0 { access.bytes } else { 32 - used.leading_zeros() };
        let mut lanes = Lanes { active: 0, offsets: [0; 32] };
        let Some(touched) = self.arrays.get_mut(array) else { return };
        for lane in lanes_of(access.lanes) {
            let Some(address) = access.addresses.0.get(lane) else { continue };
            let Some(offset) = address.checked_sub(start).filter(|offset| *offset < to_u64(ROOM)) else {
                continue;
            };
            touched.add(access.kind, offset, u64::from(bytes));
            if let Some(kept) = lanes.offsets.get_mut(lane) {
                *kept = offset;
                lanes.active |= 1u32.checked_shl(u32::try_from(lane).unwrap_or(32)).unwrap_or(0);
            }
        }
        let turn = self.turns.entry((access.warp, access.pc)).or_default();
        if self.block < KEPT_BLOCKS && *turn < KEPT_TURNS {
            touched.places.insert((self.block, access.warp, access.pc, *turn), lanes);
        }
        *turn = turn.saturating_add(1);
    }

    fn shared(&mut self, access: &SharedAccess<'_>) {
        for lane in lanes_of(access.lanes) {
            let end = access.offsets.0.get(lane).map_or(0, |offset| offset.saturating_add(access.bytes));
            self.shared = self.shared.max(end);
        }
    }
}
