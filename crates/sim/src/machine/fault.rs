//! The report for an invalid memory access: which variable it missed, by how much, and the likely cause.

use super::{AccessKind, Flow, Warp};
use crate::memory::{Allocation, Fault, FaultKind, Space};
use crate::stop::{Blame, StopKind};

/// Element sizes by which a 32-bit index may have been multiplied.
const SCALES: [i64; 5] = [1, 2, 4, 8, 16];
/// How far outside a variable an address may be and still count as an overflowed access to it.
const NEAR: i64 = 1 << 20;
/// Allocations that are examined for an overflow.
const LOOKED_AT: usize = 4096;

impl Warp<'_, '_> {
    /// Stops the launch because of an invalid memory access.
    #[cold]
    pub fn fault(&mut self, lane: usize, fault: Fault, kind: AccessKind, bytes: u32) -> Flow {
        let verb = match kind {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic access",
        };
        let space = fault.space.name();
        let address = signed(fault.space, fault.address);
        let sign = if address < 0 { "-" } else { "" };
        let place = format!("{verb} of {bytes} bytes at {space} address {sign}{:#x}", address.unsigned_abs());
        let mut notes = Vec::new();
        let mut help = None;
        let (stop, sentence) = match fault.kind {
            FaultKind::Null => {
                (StopKind::Bounds, format!("{place}: a null pointer or a small offset from one"))
            }
            FaultKind::Freed(i) => {
                let name = &self.global.heap().allocation(i).name;
                (StopKind::Bounds, format!("{place}: allocation `{name}` was freed"))
            }
            FaultKind::Exited(block) => {
                let [x, y, z] = self.grid.block_index(block);
                help = Some(
                    "keep the block alive until no other block uses its shared memory: put a cluster barrier \
                     (cluster.sync()) at the end of the kernel"
                        .to_owned(),
                );
                let sentence = format!("{place}: block ({x},{y},{z}) of the cluster has exited");
                (StopKind::Bounds, sentence)
            }
            FaultKind::Hidden(i) => {
                let name = &self.global.heap().allocation(i).name;
                let sentence = format!("{place}: the device has no access to allocation `{name}`");
                help = Some(
                    "enable access before the launch: cudaDeviceEnablePeerAccess or cuCtxEnablePeerAccess for memory of \
                     another device, cuMemSetAccess for mapped memory"
                        .to_owned(),
                );
                (StopKind::Bounds, sentence)
            }
            FaultKind::Unmapped => {
                help =
                    Some("map memory there with cuMemMap, and enable access with cuMemSetAccess".to_owned());
                (StopKind::Bounds, format!("{place}: the address is reserved, but no memory is mapped there"))
            }
            FaultKind::Misaligned(align) => {
                (StopKind::Alignment, format!("{place}: not a multiple of {align}"))
            }
            FaultKind::ReadOnly => {
                (StopKind::Bounds, format!("{place}: kernels may only read {space} memory"))
            }
            FaultKind::OutOfBounds { size: Some(size), .. } => {
                let missed =
                    if fault.space == Space::Shared { self.missed_shared(size, address < 0) } else { None };
                if fault.space == Space::Shared {
                    help = self.forgotten_shared();
                }
                let (name, base, size) = missed.unwrap_or((format!("the {space} memory"), 0, size));
                let target = Target { name: &name, base, size };
                notes.extend(target.index(address, bytes));
                (StopKind::Bounds, format!("{place}: out of bounds, {}", target.side(address)))
            }
            FaultKind::OutOfBounds { nearest: Some((i, _)), .. } => {
                let heap = self.global.heap();
                let nearest = heap.allocation(i);
                let name = format!("`{}`", nearest.name);
                let target = Target { name: &name, base: nearest.base, size: nearest.size() };
                let candidates = std::iter::once(nearest).chain(heap.allocations().iter().take(LOOKED_AT));
                if let Some(note) = overflowed(fault.address, bytes, nearest, candidates) {
                    notes.push(note);
                    help = Some("compute the index in 64 bits, as with `size_t`".to_owned());
                } else {
                    notes.extend(target.index(address, bytes));
                }
                (StopKind::Bounds, format!("{place}: out of bounds, {}", target.side(address)))
            }
            FaultKind::OutOfBounds { .. } => {
                (StopKind::Bounds, format!("{place}: no allocation at this address"))
            }
        };
        let lane = u32::try_from(lane).unwrap_or(0);
        let flow = self.halt_lane(Blame::Kernel, stop, lane, sentence);
        if let Some(stop) = &mut self.stop {
            stop.notes = notes;
            stop.help = help;
            stop.address = (fault.space == Space::Global).then_some(fault.address);
        }
        flow
    }

    /// For an access past the end of shared memory, the last shared variable; for an access before the start, the first
    /// one.
    fn missed_shared(&self, size: u64, before: bool) -> Option<(String, u64, u64)> {
        let program = self.grid.program;
        let sized = program.shared_variables.iter().filter(|(_, _, size)| *size > 0);
        if let Some((name, offset, bytes)) = sized.min_by_key(|(_, offset, _)| *offset).filter(|_| before) {
            return Some((format!("`{name}`"), u64::from(*offset), u64::from(*bytes)));
        }
        if let Some(start) = program.dynamic_shared {
            let bytes = size.saturating_sub(u64::from(start));
            return Some(("dynamic shared memory".to_owned(), u64::from(start), bytes));
        }
        let (name, offset, bytes) = program.shared_variables.iter().max_by_key(|(_, offset, _)| *offset)?;
        Some((format!("`{name}`, the last shared variable"), u64::from(*offset), u64::from(*bytes)))
    }

    /// The help for a launch without dynamic shared memory of a kernel that uses some.
    fn forgotten_shared(&self) -> Option<String> {
        let forgotten = self.grid.program.dynamic_shared.is_some() && self.grid.dynamic_shared == 0;
        forgotten.then(|| {
            "the kernel uses `extern __shared__` memory, but the launch provides none: pass --shared BYTES"
                .to_owned()
        })
    }
}

/// An address as an offset from the start of its space; a negative offset has wrapped around.
fn signed(space: Space, address: u64) -> i128 {
    match u32::try_from(address) {
        Ok(short) if space != Space::Global => i128::from(short.cast_signed()),
        _ => i128::from(address.cast_signed()),
    }
}

/// The variable that an access missed.
struct Target<'a> {
    name: &'a str,
    base: u64,
    size: u64,
}

impl Target<'_> {
    /// On which side of it, and by how much.
    fn side(&self, address: i128) -> String {
        let Target { name, .. } = *self;
        let (base, size) = (i128::from(self.base), i128::from(self.size));
        let end = base + size;
        let count = |n: i128| if n == 1 { "1 byte".to_owned() } else { format!("{n} bytes") };
        let has = count(size);
        if address < base {
            format!("{} before the start of {name} ({has})", count(base - address))
        } else if address < end {
            format!("it crosses the end of {name} ({has}), starting at byte {}", address - base)
        } else if address == end {
            format!("right at the end of {name} ({has})")
        } else {
            format!("{} past the end of {name} ({has})", count(address - end))
        }
    }

    /// The array index of the access, if elements have its size.
    fn index(&self, address: i128, bytes: u32) -> Option<String> {
        let bytes = i128::from(bytes.max(1));
        let offset = address - i128::from(self.base);
        let size = i128::from(self.size);
        // A distant address is not a plausible index.
        let near = offset.abs() <= size.max(i128::from(NEAR)) * 16;
        (offset % bytes == 0 && near && size >= bytes).then(|| {
            let (index, last) = (offset / bytes, size / bytes - 1);
            format!("as elements of {bytes} bytes this is index {index}; valid indices are 0 to {last}")
        })
    }
}

/// Whether an address looks like the result of a 32-bit overflow.
fn overflowed<'a>(
    address: u64,
    bytes: u32,
    nearest: &Allocation,
    candidates: impl Iterator<Item = &'a Allocation>,
) -> Option<String> {
    let offset = |allocation: &Allocation| {
        i64::try_from(i128::from(address) - i128::from(allocation.base)).unwrap_or(i64::MAX)
    };
    for allocation in candidates.filter(|allocation| !allocation.is_freed()) {
        let (name, size) = (&allocation.name, i64::try_from(allocation.size()).unwrap_or(i64::MAX));
        for scale in SCALES {
            let wrap = scale << 32;
            let (over, under) =
                (offset(allocation).saturating_sub(wrap), offset(allocation).saturating_add(wrap));
            if (-NEAR..0).contains(&over) && over % scale == 0 {
                return Some(format!(
                    "from the start of `{name}` it is {scale} times 2^32 less {} bytes: this happens if the 32-bit \
                     index {} is read as unsigned",
                    -over,
                    over / scale
                ));
            }
            if (0..size).contains(&over) || (0..size).contains(&under) {
                let (sign, inside) =
                    if (0..size).contains(&over) { ("beyond", over) } else { ("before", under) };
                return Some(format!(
                    "it is {scale} times 2^32 bytes {sign} byte {inside} of `{name}`: this happens if a 32-bit \
                     index overflows"
                ));
            }
        }
    }
    let scale = i64::from(bytes.max(1));
    let far = offset(nearest);
    let wrapped = far % scale == 0 && (-(1i64 << 31)..=-(1i64 << 28)).contains(&(far / scale));
    wrapped.then(|| {
        format!(
            "as elements of {bytes} bytes this is index {} of `{}`: this happens if a 32-bit index exceeds 2^31",
            far / scale,
            nearest.name
        )
    })
}
