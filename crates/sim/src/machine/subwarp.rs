//! Divergence: a subwarp is the set of lanes of a warp at one program counter; the subwarps of a warp take turns.
//!
//! Since Volta every thread has its own program counter. A warp here is a set of subwarps. The subwarp deepest in calls
//! runs first, and among those the one at the lowest address; subwarps that reach the same location are joined. Compilers
//! lay code out so that the join point of a branch is after both sides, so this reconverges where the hardware does. A
//! subwarp that runs too long while another could run yields, so a lane may spin on a flag that another lane of its warp
//! sets. The length of this time slice depends on whether the program has instructions to wait with: lanes that wait at a
//! join for a long loop of other lanes should not continue alone.

use super::Row;
use std::sync::Arc;

/// Lanes of a warp that execute together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subwarp {
    /// The next instruction.
    pub pc: u32,
    /// The lanes.
    pub mask: u32,
    /// The stack pointer into local memory: where the frame of the current function begins.
    pub sp: u32,
    /// Bytes after that frame that `alloca` allocated. When subwarps join, the larger value is kept: the excess is only
    /// unused.
    pub dynamic: u32,
    /// What it waits for at `pc`.
    pub wait: Wait,
    /// Its active calls, outermost first.
    pub frames: Vec<Frame>,
    /// When it last ran, as a value of the warp's counter; used for taking turns.
    pub stamp: u64,
}

/// One call that has not returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Index of the call site, which has the return location and the results to pass.
    pub site: u32,
    /// The function that was called.
    pub callee: u32,
    /// The caller's stack pointer.
    pub sp: u32,
    /// Bytes that `alloca` allocated for the caller.
    pub dynamic: u32,
    /// Bytes of a thread's stack that this call and the outer calls save in addition to their frames.
    pub kept: u64,
    /// The callee's registers before the call, if it may be active already. Shared by subwarps that were one subwarp at
    /// that time.
    pub saved: Option<Arc<Saved>>,
}

/// Registers of a recursive function, saved during the inner call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// 32-bit rows.
    pub w32: Vec<Row<u32>>,
    /// 64-bit rows.
    pub w64: Vec<Row<u64>>,
    /// 128-bit rows.
    pub w128: Vec<Row<u128>>,
    /// Predicates.
    pub preds: Vec<u32>,
}

/// Why a subwarp is waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It can run.
    #[default]
    None,
    /// For a byte that it read to change.
    Memory,
    /// For these lanes of the same warp to arrive.
    Lanes(u32),
    /// For the barrier's phase to end.
    Barrier {
        /// The barrier's number.
        id: u32,
        /// The phase in which the subwarp arrived.
        phase: u64,
    },
    /// For the grids that this one depends on to end.
    Grids,
    /// For other warps of the block to release registers: `setmaxnreg` asks for this number per thread.
    Registers(u32),
    /// For other warps of the block to free this number of columns of tensor memory.
    Columns(u32),
    /// For the other block of the pair to allocate or free columns of tensor memory too.
    Pair,
    /// For the other warps of its warpgroup, at a `wgmma.wait_group`.
    Warpgroup {
        /// How many such waits its warp has executed.
        count: u64,
        /// Whether it waits until they have executed their multiplications; otherwise until they have arrived.
        executed: bool,
    },
}

impl Subwarp {
    /// Whether `other` is at the same location in the same calls, so that the two can be joined.
    pub fn meets(&self, other: &Subwarp) -> bool {
        let waits = match (self.wait, other.wait) {
            (Wait::None | Wait::Memory | Wait::Lanes(_), Wait::None | Wait::Memory | Wait::Lanes(_)) => true,
            (a, b) => a == b,
        };
        waits
            && self.pc == other.pc
            && self.sp == other.sp
            && self.frames.len() == other.frames.len()
            && self.frames.iter().zip(&other.frames).all(|(a, b)| a.site == b.site && a.sp == b.sp)
    }

    /// Takes the lanes of `other`, which [`meets`](Self::meets) this one.
    pub fn join(&mut self, other: Subwarp) {
        self.stamp = self.stamp.max(other.stamp);
        self.dynamic = self.dynamic.max(other.dynamic);
        for (mine, theirs) in self.frames.iter_mut().zip(other.frames) {
            mine.dynamic = mine.dynamic.max(theirs.dynamic);
            if let (Some(mine), Some(theirs)) = (&mut mine.saved, theirs.saved)
                && !Arc::ptr_eq(mine, &theirs)
            {
                Arc::make_mut(mine).take_lanes(&theirs, other.mask);
            }
        }
        if !matches!(self.wait, Wait::Barrier { .. } | Wait::Grids | Wait::Warpgroup { .. }) {
            self.wait = Wait::None;
        }
        self.mask |= other.mask;
    }
}

impl Saved {
    fn take_lanes(&mut self, other: &Saved, mask: u32) {
        use crate::isa::map::merge;
        for (mine, theirs) in self.w32.iter_mut().zip(&other.w32) {
            merge(mine, theirs, mask);
        }
        for (mine, theirs) in self.w64.iter_mut().zip(&other.w64) {
            merge(mine, theirs, mask);
        }
        for (mine, theirs) in self.w128.iter_mut().zip(&other.w128) {
            merge(mine, theirs, mask);
        }
        for (mine, theirs) in self.preds.iter_mut().zip(&other.preds) {
            *mine = *mine & !mask | *theirs & mask;
        }
    }
}
