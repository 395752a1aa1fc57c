//! `tcgen05.cp`: rows of 16 or 32 bytes from shared memory, which a matrix descriptor describes as a K-major operand, to lanes of
//! tensor memory.
//!
//! ```text
//!  128x256b, 128x128b       row r to lane r
//!  64x128b.warpx2::02_13    row r to lanes r and r + 64
//!  64x128b.warpx2::01_23    row r to lanes r mod 32 + 64 (r / 32), and 32 more
//!  32x128b.warpx4           row r to lanes r, r + 32, r + 64 and r + 96
//! ```

use super::{check_columns, invalid, split};
use crate::isa::descriptor::Descriptor;
use crate::isa::{Args, Bound, Refusal, Slot, Spec};
use crate::machine::{Action, Flow, Type, Warp, Work, at, lanes_of};
use crate::memory::{SharedMemory, TensorMemory};
use crate::stop::{Blame, StopKind};

/// To which lanes a row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    Once,
    Warps02And13,
    Warps01And23,
    AllWarps,
}

impl Spread {
    fn lanes(self, row: u32) -> Vec<u32> {
        match self {
            Spread::Once => vec![row],
            Spread::Warps02And13 => vec![row, row + 64],
            Spread::Warps01And23 => {
                let first = row % 32 + 64 * (row / 32);
                vec![first, first + 32]
            }
            Spread::AllWarps => (0..4).map(|warp| row + 32 * warp).collect(),
        }
    }
}

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
pub struct TensorCopy {
    from: Descriptor,
    /// The first column.
    column: u32,
    rows: u32,
    /// Pieces of 16 bytes in a row.
    pieces: u32,
    spread: Spread,
}

impl TensorCopy {
    /// The pieces of 16 bytes of shared memory that it reads.
    pub(crate) fn sources(&self) -> Vec<u32> {
        let rows = 0..self.rows;
        rows.flat_map(|row| (0..self.pieces).map(move |piece| self.from.by_row(row, piece))).collect()
    }

    /// The columns that it writes: the first, and how many.
    pub(crate) fn writes(&self) -> (u32, u32) {
        (self.column, 4 * self.pieces)
    }

    /// Copies.
    pub(crate) fn run(&self, shared: &SharedMemory, memory: &mut TensorMemory) {
        for row in 0..self.rows {
            for piece in 0..self.pieces {
                let address = self.from.by_row(row, piece);
                for word in 0..4 {
                    let value = shared.word(address / 4 + word);
                    for lane in self.spread.lanes(row) {
                        memory.set(lane, self.column + 4 * piece + word, value);
                    }
                }
            }
        }
    }
}

/// The descriptor of an instruction, or a stop.
pub(super) fn descriptor(w: &mut Warp<'_, '_>, code: u64) -> Result<Descriptor, Flow> {
    Descriptor::of_tensor(code).map_err(|(gap, sentence)| {
        if gap {
            return w.halt(Blame::Gap, StopKind::Unsupported, format!("{sentence} is not supported"));
        }
        invalid(w, sentence)
    })
}

/// Stops unless these pieces of 16 bytes are in the block's shared memory.
pub(super) fn check_pieces(
    w: &mut Warp<'_, '_>,
    what: &str,
    pieces: impl Iterator<Item = u32>,
) -> Result<(), Flow> {
    let size = w.cta.shared.size();
    for address in pieces {
        if address.saturating_add(16) > size {
            let sentence = format!(
                "the descriptor of {what} reads 16 bytes at shared address {address:#x}; the block has {size} bytes of shared memory"
            );
            return Err(w.halt(Blame::Kernel, StopKind::Bounds, sentence));
        }
    }
    Ok(())
}

pub(super) fn bind(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let spread = match spec.get("multicast") {
        Some("warpx2::02_13") => Spread::Warps02And13,
        Some(_) => Spread::Warps01And23,
        None if spec.has("warpx4") => Spread::AllWarps,
        None => Spread::Once,
    };
    let rows = match spread {
        Spread::Once => 128,
        Spread::Warps02And13 | Spread::Warps01And23 => 64,
        Spread::AllWarps => 32,
    };
    let pieces = if spec.get("shape") == Some("128x256b") { 2 } else { 1 };
    Ok(Bound::fallible([Slot::Address, Slot::Src(Type::B64)], move |w, args: &Args| {
        let (to, codes) = (w.addresses(args.at[0]), w.state.regs.w64[at(args.o[0])]);
        for lane in lanes_of(w.exec) {
            let (first, column) = split(u32::try_from(to.0[lane] & 0xffff_ffff).unwrap_or(0));
            if first != 0 {
                return Err(invalid(w, format!("tcgen05.cp to lane {first}; expected lane 0")));
            }
            let copy = TensorCopy { from: descriptor(w, codes.0[lane])?, column, rows, pieces, spread };
            check_columns(w, "tcgen05.cp", column, 4 * pieces)?;
            check_pieces(w, "tcgen05.cp", copy.sources().into_iter())?;
            w.start_tensor(Work::of(w, lane, Action::Copy(copy)))?;
        }
        Ok(Flow::Next)
    }))
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn rows_reach_their_warps() {
        assert_eq!(Spread::Warps02And13.lanes(33), [33, 97]);
        assert_eq!(
            (Spread::Warps01And23.lanes(3), Spread::Warps01And23.lanes(33)),
            (vec![3, 35], vec![65, 97])
        );
        assert_eq!(Spread::AllWarps.lanes(31), [31, 63, 95, 127]);
        for (spread, rows) in [
            (Spread::Once, 128),
            (Spread::Warps02And13, 64),
            (Spread::Warps01And23, 64),
            (Spread::AllWarps, 32),
        ] {
            let mut all: Vec<u32> = (0..rows).flat_map(|row| spread.lanes(row)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..128).collect::<Vec<_>>(), "{spread:?}");
        }
    }
}
