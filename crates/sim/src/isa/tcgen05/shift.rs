//! `tcgen05.shift.down`: each of the 32 lanes from that of the address takes the 32 bytes of the next lane; the last keeps its own.
//!
//! The manual shifts 32-byte elements downwards by one row, in all rows of a warp except the last. It does not give the direction in
//! lanes. Here it is that of a convolution: the elements of the halo, which an im2col copy places behind the pixels and
//! `tcgen05.cp.4x256b` copies to one lane of each warp, follow the last pixel.

use super::{blocks, check_columns, enter, invalid, split};
use crate::isa::{Args, Bound, Refusal, Slot, Spec};
use crate::machine::{Action, Blocks, Work, at, lanes_of};
use crate::memory::{TENSOR_LANES, TensorMemory};

/// Lanes that it shifts.
const ROWS: u32 = 32;
/// Columns that it shifts: 32 bytes.
const COLUMNS: u32 = 8;

/// A shift in flight.
#[derive(Clone, Copy, Debug)]
pub struct TensorShift {
    /// The first lane.
    lane: u32,
    /// The first column.
    column: u32,
    blocks: Blocks,
}

impl TensorShift {
    /// The blocks in whose tensor memory it acts.
    pub(crate) fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The columns that it reads and writes: the first, and how many.
    pub(crate) fn columns(&self) -> (u32, u32) {
        (self.column, COLUMNS)
    }

    /// The groups of 16 lanes that it reads and writes, one bit each.
    pub(crate) fn halves(&self) -> u8 {
        3 << ((self.lane / 16) & 7)
    }

    /// Shifts.
    pub(crate) fn run(&self, memory: &mut TensorMemory) {
        for column in self.column..self.column + COLUMNS {
            for lane in self.lane..self.lane + ROWS - 1 {
                memory.set(lane, column, memory.cell(lane + 1, column));
            }
        }
    }
}

pub(super) fn bind(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let blocks = blocks(spec);
    Ok(Bound::fallible([Slot::Address], move |w, args: &Args| {
        enter(w, blocks)?;
        let mut work = 0;
        let addresses = w.addresses(args.at[0]);
        for thread in lanes_of(w.exec) {
            let (lane, column) = split(u32::try_from(addresses.0[thread] & 0xffff_ffff).unwrap_or(0));
            if !lane.is_multiple_of(ROWS) || lane >= TENSOR_LANES {
                let sentence = format!("tcgen05.shift at lane {lane}; expected 0, 32, 64 or 96");
                return Err(invalid(w, sentence));
            }
            check_columns(w, blocks, "tcgen05.shift", column, COLUMNS)?;
            w.start_tensor(Work::of(w, thread, Action::Shift(TensorShift { lane, column, blocks })))?;
            work += at(ROWS * 4 * COLUMNS * blocks.count());
        }
        Ok(w.worked(work))
    }))
}
