//! `tcgen05.cp`: rows of 16 or 32 bytes from shared memory, which a matrix descriptor describes as a K-major operand, to lanes of
//! tensor memory.
//!
//! ```text
//!  128x256b, 128x128b       row r to lane r
//!  4x256b                   row r to lane 32 r, from the lane of the address
//!  64x128b.warpx2::02_13    row r to lanes r and r + 64
//!  64x128b.warpx2::01_23    row r to lanes r mod 32 + 64 (r / 32), and 32 more
//!  32x128b.warpx4           row r to lanes r, r + 32, r + 64 and r + 96
//! ```
//!
//! With `.b8x16` each 16 bytes hold 16 elements of 6 or 4 bits, followed by padding. They become bytes: 6 bits from bit 1, 4 from
//! bit 2.

use super::{blocks, check_columns, enter, invalid, split};
use crate::isa::descriptor::Descriptor;
use crate::isa::{Args, Bound, Refusal, Slot, Spec};
use crate::machine::{Action, Blocks, Flow, Type, Warp, Work, at, lanes_of};
use crate::memory::{SharedMemory, TensorMemory};
use crate::stop::{Blame, StopKind};

/// To which lanes a row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    Once,
    Warps02And13,
    Warps01And23,
    AllWarps,
    /// Four rows, one to the lanes of each warp.
    OneOfEach,
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
            Spread::OneOfEach => vec![32 * row],
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
    /// The first lane.
    lane: u32,
    /// Bits of an element that becomes a byte; 0 if they are copied as they are.
    bits: u32,
    rows: u32,
    /// Pieces of 16 bytes in a row.
    pieces: u32,
    spread: Spread,
    blocks: Blocks,
}

impl TensorCopy {
    /// The blocks that copy, each from its own shared memory to its own tensor memory.
    pub(crate) fn blocks(&self) -> Blocks {
        self.blocks
    }

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
                let words = widened([0, 1, 2, 3].map(|word| shared.word(address / 4 + word)), self.bits);
                for (word, value) in (0..).zip(words) {
                    for lane in self.spread.lanes(row) {
                        memory.set(self.lane + lane, self.column + 4 * piece + word, value);
                    }
                }
            }
        }
    }
}

/// Sixteen elements of this number of bits as bytes.
fn widened(words: [u32; 4], bits: u32) -> [u32; 4] {
    if bits == 0 {
        return words;
    }
    let all = words.iter().rev().fold(0u128, |all, word| all << 32 | u128::from(*word));
    let byte = |i: u32| u32::try_from(all >> (bits * i) & ((1 << bits) - 1)).unwrap_or(0) << (4 - bits / 2);
    [0, 4, 8, 12].map(|first| (0..4).rev().fold(0, |word, i| word << 8 | byte(first + i)))
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
        None if spec.get("shape") == Some("4x256b") => Spread::OneOfEach,
        None => Spread::Once,
    };
    let rows = match spread {
        Spread::Once => 128,
        Spread::Warps02And13 | Spread::Warps01And23 => 64,
        Spread::AllWarps => 32,
        Spread::OneOfEach => 4,
    };
    let pieces = if matches!(spec.get("shape"), Some("128x256b" | "4x256b")) { 2 } else { 1 };
    let bits = match spec.get("src_fmt") {
        Some("b6x16_p32") => 6,
        Some(_) => 4,
        None => 0,
    };
    let blocks = blocks(spec);
    Ok(Bound::fallible([Slot::Address, Slot::Src(Type::B64)], move |w, args: &Args| {
        enter(w, blocks)?;
        let mut work = 0;
        let (to, codes) = (w.addresses(args.at[0]), w.state.regs.w64[at(args.o[0])]);
        for lane in lanes_of(w.exec) {
            let (first, column) = split(u32::try_from(to.0[lane] & 0xffff_ffff).unwrap_or(0));
            if first >= if spread == Spread::OneOfEach { 32 } else { 1 } {
                return Err(invalid(w, format!("tcgen05.cp to lane {first}; expected lane 0")));
            }
            let from = descriptor(w, codes.0[lane])?;
            let copy = TensorCopy { from, column, lane: first, bits, rows, pieces, spread, blocks };
            check_columns(w, blocks, "tcgen05.cp", column, 4 * pieces)?;
            check_pieces(w, "tcgen05.cp", copy.sources().into_iter())?;
            w.start_tensor(Work::of(w, lane, Action::Copy(copy)))?;
            work += 128 * 16 * at(pieces * blocks.count());
        }
        Ok(w.worked(work))
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
