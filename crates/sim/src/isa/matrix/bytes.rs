//! `ldmatrix` and `stmatrix` of 8-bit elements, also of elements that are narrower in shared memory.
//!
//! A row has 16 elements in 16 bytes, and one lane gives its address. `.b6x16_p32` has them in the first 12 bytes, `.b4x16_p64` in
//! the first 8, the lowest element in the lowest bits; each of them is zero-extended to a byte. With `g` = lane / 4 and
//! `t` = lane % 4:
//!
//! ```text
//!  m8n16          register i, byte e        element 4 t + e of row g of matrix i
//!  m16n16.trans   register 2 i + r, byte e  element g + 8 (e / 2) of row 4 t + 2 r + e % 2 of matrix i
//!  m16n8.trans    register i, byte e        element g + 8 (e / 2) of row 2 t + e % 2 of matrix i
//! ```
//!
//! Source: CUTLASS's layouts of `SM100_SU4_DU8x16_x1_LDSM_N`, `SM100_U8x8_LDSM_T` and `SM100_U8x4_STSM_T`.

use super::super::map::merge;
use super::super::memory::space_of;
use super::super::op::{ByteMatrix, ByteShape, MatrixTile};
use super::super::{Bound, Definition, Op, Refusal, Slot, Spec, Unit};
use super::count;
use crate::bind_plain;
use crate::machine::{Flow, LANES, Row, Type, Width, at};

pub(in crate::isa) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "ldmatrix.sync{.aligned}.m8n16.num{.ss}.b8x16.source r, [p]; .num = .x1 .x2 .x4; .ss = .shared .shared::cta; .source = .b6x16_p32 .b4x16_p64",
        manual: "warp-level-matrix-instructions-ldmatrix",
        unit: Unit::Lsu,
        since: (8, 6, 100),
        bind: bind_plain!(load),
    },
    Definition {
        form: "ldmatrix.sync{.aligned}.m16n16.num.trans{.ss}.b8 r, [p]; .num = .x1 .x2; .ss = .shared .shared::cta",
        manual: "warp-level-matrix-instructions-ldmatrix",
        unit: Unit::Lsu,
        since: (8, 6, 100),
        bind: bind_plain!(load),
    },
    Definition {
        form: "ldmatrix.sync{.aligned}.m16n16.num.trans{.ss}.b8x16.source r, [p]; .num = .x1 .x2; .ss = .shared .shared::cta; .source = .b6x16_p32 .b4x16_p64",
        manual: "warp-level-matrix-instructions-ldmatrix",
        unit: Unit::Lsu,
        since: (8, 6, 100),
        bind: bind_plain!(load),
    },
    Definition {
        form: "stmatrix.sync{.aligned}.m16n8.num.trans{.ss}.b8 [p], r; .num = .x1 .x2 .x4; .ss = .shared .shared::cta",
        manual: "warp-level-matrix-instructions-stmatrix",
        unit: Unit::Lsu,
        since: (8, 6, 100),
        bind: bind_plain!(store),
    },
];

impl ByteMatrix {
    /// The row and the element in it that a byte of a register holds. Rows are numbered by the lanes that give their addresses.
    #[inline]
    pub fn place(self, register: usize, lane: usize, byte: usize) -> (usize, usize) {
        let (g, t) = (lane / 4, lane % 4);
        match self.shape {
            ByteShape::M8N16 => (8 * register + g, 4 * t + byte),
            ByteShape::M16N16 => {
                (16 * (register / 2) + 4 * t + 2 * (register % 2) + byte % 2, g + 8 * (byte / 2))
            }
            ByteShape::M16N8 => (8 * register + 2 * t + byte % 2, g + 8 * (byte / 2)),
        }
    }

    /// The bytes of a row that an element has a part of, one bit each.
    #[inline]
    pub fn covered(self, element: usize) -> u32 {
        let first = at(self.bits) * element;
        let (first, last) = (first / 8, (first + at(self.bits) - 1) / 8);
        (first..=last).fold(0, |bytes, byte| bytes | 1 << byte)
    }
}

/// The matrix that a form describes.
fn matrix(spec: &Spec<'_>) -> Result<ByteMatrix, Refusal> {
    match Op::of(spec) {
        Some(
            Op::LoadMatrix(MatrixTile { bytes: Some(matrix), .. })
            | Op::StoreMatrix(MatrixTile { bytes: Some(matrix), .. }),
        ) => Ok(matrix),
        _ => Err(spec.gap("this shape")),
    }
}

/// An element of the row whose address a lane gave, as a byte.
fn element(words: &[Row<u32>; 4], lane: usize, index: usize, bits: u32) -> u32 {
    let row = (0..4).rev().fold(0u128, |row, word| row << 32 | u128::from(words[word].0[lane]));
    let mask = (1u128 << bits) - 1;
    u32::try_from(row >> (at(bits) * index) & mask).unwrap_or(0)
}

/// Lanes that give an address.
fn givers(rows: usize) -> u32 {
    if rows >= LANES { u32::MAX } else { (1 << rows) - 1 }
}

fn load(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (matrix, space) = (matrix(spec)?, space_of(spec.get("ss")));
    let (registers, rows) = match matrix.shape {
        ByteShape::M16N16 => (2 * count(spec), 16 * count(spec)),
        ByteShape::M8N16 | ByteShape::M16N8 => (count(spec), 8 * count(spec)),
    };
    Ok(Bound::fallible([Slot::DstVec(vec![Width::W32; registers]), Slot::Address], move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let all = w.exec;
        let addresses = w.addresses(args.at[0]);
        w.exec = all & givers(rows);
        let words: Result<[Row<u32>; 4], Flow> = w.load_at(space, &addresses, 16);
        w.exec = all;
        let words = words?;
        for (register, row) in args.all.iter().enumerate().take(registers) {
            let mut value = Row([0u32; LANES]);
            for (lane, out) in value.0.iter_mut().enumerate() {
                for byte in 0..4 {
                    let (row, index) = matrix.place(register, lane, byte);
                    *out |= element(&words, row, index, matrix.bits) << (8 * byte);
                }
            }
            merge(&mut w.state.regs.w32[at(*row)], &value, w.exec);
        }
        Ok(Flow::Next)
    }))
}

fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (matrix, matrices, space) = (matrix(spec)?, count(spec), space_of(spec.get("ss")));
    Ok(Bound::fallible([Slot::Address, Slot::SrcVec(vec![Type::B32; matrices])], move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let all = w.exec;
        let addresses = w.addresses(args.at[0]);
        let mut words = [Row([0u32; LANES]); 4];
        for (register, row) in args.all.iter().enumerate().take(matrices) {
            let value = &w.state.regs.w32[at(*row)];
            for (lane, word) in value.0.iter().enumerate() {
                for (byte, code) in word.to_le_bytes().into_iter().enumerate() {
                    let (row, index) = matrix.place(register, lane, byte);
                    words[index / 4].0[row] |= u32::from(code) << (8 * (index % 4));
                }
            }
        }
        w.exec = all & givers(8 * matrices);
        let stored = w.store_at(space, &addresses, 16, &words);
        w.exec = all;
        stored?;
        Ok(Flow::Next)
    }))
}
