//! `tcgen05.mma`: D = A·B + D in tensor memory, of one block or of a pair.
//!
//! The types, the shape and the lanes of D: `format.rs`. A row of A in tensor memory has 32 bytes in 8 columns and is in the lanes of
//! its row of D. The scales of row (column) i are in lane i mod 32 of column i / 32, in a copy for each 32 lanes.
//!
//! A pair has half of the rows of A and D and half of the columns of B in each block, at the same addresses; the scales of B are those
//! of all columns, in both blocks. If its D has two groups of lanes, each has its own A, and the scales of its own columns.
//!
//! `scale-input-d` divides a D of f32 by a power of two first. That is exact, except for results below the normal numbers, which are
//! rounded to nearest even.

use super::copy::{check_pieces, descriptor};
use super::format::{Form, Format, Layout, Named, Width, Wrong};
use super::{blocks, check_columns, enter, invalid, split};
use crate::isa::descriptor::Descriptor;
use crate::isa::{Args, Bound, Refusal, Shape, Slot, Spec};
use crate::machine::{Action, Blocks, Flow, Type, WORK_UNIT, Warp, Work, at, lanes_of};
use crate::memory::{SharedMemory, TensorMemory};
use crate::stop::{Blame, StopKind};
use warpproof_num::mma::tensor::{COLUMNS, Line, MOST_K, Piece, ROWS, multiply};

/// Where A is.
#[derive(Clone, Copy, Debug)]
enum Source {
    Shared(Descriptor),
    /// In tensor memory, from this column.
    Tensor(u32),
}

/// Where scales are: the first column, and the first byte of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Scales {
    column: u32,
    byte: u32,
}

impl Scales {
    /// The scales of row or column `i` for the outputs in the lanes around `lane`.
    fn get(self, memory: &TensorMemory, lane: u32, i: u32) -> [u8; 4] {
        let cell = memory.cell(32 * (lane / 32) + i % 32, self.column + i / 32);
        cell.checked_shr(8 * self.byte).unwrap_or(0).to_le_bytes()
    }
}

/// A multiplication in flight.
#[derive(Clone, Debug)]
pub struct TensorMultiply {
    format: Format,
    blocks: Blocks,
    /// The address of D.
    lane: u32,
    column: u32,
    a: Source,
    b: Descriptor,
    /// Whether D starts from its old value; from zero otherwise.
    accumulate: bool,
    /// D is multiplied by two to the power of minus this before.
    scale: u32,
    /// Lanes that are not written, one bit each.
    disabled: [u32; 4],
    scales: (Scales, Scales),
}

/// Row `row` of an operand in shared memory.
fn line(shared: &SharedMemory, from: &Descriptor, width: Width, transposed: bool, row: u32) -> Line {
    let Some(bytes) = width.transposable().filter(|_| transposed) else {
        let words = std::array::from_fn(|i| {
            let i = u32::try_from(i).unwrap_or(0);
            shared.word(from.by_row(row, i / 4) / 4 + i % 4)
        });
        return width.line(&words);
    };
    let mut line = [0; MOST_K];
    let per = 16 / bytes;
    for (k, code) in (0..32 / bytes).zip(&mut line) {
        let address = from.by_column(k, row / per) + bytes * (row % per);
        *code = match bytes {
            4 => u32::from_le_bytes(shared.read(address)),
            2 => u32::from(u16::from_le_bytes(shared.read(address))),
            _ => u32::from(u8::from_le_bytes(shared.read(address))),
        };
    }
    line
}

/// The pieces of 16 bytes of an operand in shared memory.
fn pieces(from: &Descriptor, width: Width, transposed: bool, rows: u32) -> Vec<u32> {
    match width.transposable().filter(|_| transposed) {
        Some(bytes) => {
            let per = 16 / bytes;
            (0..32 / bytes)
                .flat_map(|k| (0..rows.div_ceil(per)).map(move |piece| from.by_column(k, piece)))
                .collect()
        }
        None => (0..rows).flat_map(|row| (0..2).map(move |piece| from.by_row(row, piece))).collect(),
    }
}

/// A number of f32 times two to the power of minus `scale`.
fn scaled_down(code: u32, scale: u32) -> u32 {
    if scale == 0 {
        return code;
    }
    (f32::from_bits(code) * f32::from_bits((127 - scale.min(126)) << 23)).to_bits()
}

fn negate(line: &mut Line, width: Width) {
    for code in line {
        *code ^= width.sign();
    }
}

impl TensorMultiply {
    /// Which blocks it uses.
    pub(crate) fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The rows of A and D, and the columns of B, in a block.
    fn share(&self) -> (u32, u32) {
        let count = self.blocks.count();
        (self.format.m / count, self.format.n / count)
    }

    /// The lane of a row of D in a group.
    fn lane_of(&self, row: u32, group: u32) -> u32 {
        self.lane + self.format.layout.lane(row, group)
    }

    /// The columns of D in a group.
    fn width(&self) -> u32 {
        self.format.n / self.format.layout.groups()
    }

    /// The pieces of 16 bytes of the shared memory of each block that it reads.
    pub(crate) fn sources(&self) -> Vec<u32> {
        let Format { widths, transposed, .. } = self.format;
        let (m, n) = self.share();
        let mut all = pieces(&self.b, widths.1, transposed.1, n);
        if let Source::Shared(from) = self.a {
            all.extend(pieces(&from, widths.0, transposed.0, m));
        }
        all
    }

    /// The columns that it reads besides those of D: the first, and how many.
    pub(crate) fn reads(&self) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        if let Source::Tensor(column) = self.a {
            all.push((column, 8));
        }
        if self.format.kind.scales() > 0 {
            all.push((self.scales.0.column, self.share().0.div_ceil(32)));
            all.push((self.scales.1.column, self.width().div_ceil(32)));
        }
        if self.accumulate {
            all.push(self.writes());
        }
        all
    }

    /// The columns of D: the first, and how many.
    pub(crate) fn writes(&self) -> (u32, u32) {
        (self.column, self.width())
    }

    /// The groups of 16 lanes of D, and of A in tensor memory, one bit each.
    pub(crate) fn halves(&self) -> u8 {
        match (self.format.layout, self.lane) {
            (Layout::Halves, 0) => 0x55,
            (Layout::Halves, _) => 0xaa,
            _ => 0xff,
        }
    }

    /// Bytes that stand for its work: a piece of D is as much as an instruction.
    fn work(&self) -> usize {
        let pieces = self.format.m.div_ceil(16) * self.format.n.div_ceil(8);
        at(pieces).saturating_mul(usize::try_from(WORK_UNIT).unwrap_or(usize::MAX))
    }

    /// The columns of B in the shared memory of a block.
    pub(crate) fn columns(&self, shared: &SharedMemory) -> Vec<Line> {
        let Format { widths, negated, transposed, .. } = self.format;
        let column = |column| {
            let mut line = line(shared, &self.b, widths.1, transposed.1, column);
            if negated.1 {
                negate(&mut line, widths.1);
            }
            line
        };
        (0..self.share().1).map(column).collect()
    }

    /// Row `row` of A, for the outputs of a group.
    fn row(&self, shared: &SharedMemory, memory: &TensorMemory, row: u32, group: u32) -> Line {
        let Format { widths, negated, transposed, .. } = self.format;
        let mut line = match self.a {
            Source::Shared(from) => line(shared, &from, widths.0, transposed.0, row),
            Source::Tensor(column) => {
                let words = std::array::from_fn(|i| {
                    memory.cell(self.lane_of(row, group), column + u32::try_from(i).unwrap_or(0))
                });
                widths.0.held(&words)
            }
        };
        if negated.0 {
            negate(&mut line, widths.0);
        }
        line
    }

    /// Multiplies the rows of a block by all columns of B.
    pub(crate) fn run(&self, shared: &SharedMemory, memory: &mut TensorMemory, b: &[Line]) {
        let scaled = self.format.kind.scales() > 0;
        let mut piece = Piece::ZERO;
        for group in 0..self.format.layout.groups() {
            let columns = b.chunks_exact(at(self.width())).nth(at(group)).unwrap_or(&[]);
            for first in (0..self.share().0).step_by(ROWS) {
                let lane = self.lane_of(first, group);
                for (row, line) in (first..).zip(&mut piece.a) {
                    *line = self.row(shared, memory, row, group);
                }
                if scaled {
                    for (row, scales) in (first..).zip(&mut piece.a_scales) {
                        *scales = self.scales.0.get(memory, lane, row);
                    }
                }
                for (n, lines) in (0..).step_by(COLUMNS).zip(columns.chunks_exact(COLUMNS)) {
                    piece.b.copy_from_slice(lines);
                    if scaled {
                        for (column, scales) in (n..).zip(&mut piece.b_scales) {
                            *scales = self.scales.1.get(memory, lane, column);
                        }
                    }
                    self.finish(memory, &piece, (first, group), n);
                }
            }
        }
    }

    /// Updates D of a group from row `first` and column `from`.
    fn finish(&self, memory: &mut TensorMemory, piece: &Piece, (first, group): (u32, u32), from: u32) {
        let half = self.format.kind.is_half();
        let mut c = [[0; ROWS]; COLUMNS];
        let place = |row: usize, column: usize| {
            let (row, column) = (u32::try_from(row).unwrap_or(0), u32::try_from(column).unwrap_or(0));
            (self.lane_of(first + row, group), self.column + from + column)
        };
        if self.accumulate {
            for (n, column) in c.iter_mut().enumerate() {
                for (m, code) in column.iter_mut().enumerate() {
                    let (lane, column) = place(m, n);
                    let cell = memory.cell(lane, column);
                    *code = if half { cell & 0xffff } else { scaled_down(cell, self.scale) };
                }
            }
        }
        multiply(self.format.kind, piece, &mut c);
        for (n, column) in c.iter().enumerate() {
            for (m, code) in column.iter().enumerate() {
                let (lane, column) = place(m, n);
                if self.disabled[at(lane / 32) & 3] >> (lane % 32) & 1 == 0 {
                    memory.set(lane, column, *code);
                }
            }
        }
    }
}

/// The positions of the operands of an instruction, which the optional ones move.
#[derive(Clone, Copy)]
struct Operands {
    named: Named,
    form: Form,
    blocks: Blocks,
    /// A is in tensor memory.
    tensor: bool,
    /// Lanes may be disabled.
    disables: bool,
    /// `scale-input-d`.
    scale: u32,
    /// Columns of B may be zero.
    masks: bool,
}

fn operands(spec: &Spec<'_>, named: Named) -> Result<(Operands, Vec<Slot>), Refusal> {
    if spec.sm != 100 {
        return Err(spec.gap("this target"));
    }
    let tensor = matches!(spec.operands.get(1), Some(Shape::Address | Shape::Image(_)));
    let disables = matches!(spec.operands.get(4), Some(Shape::Vector(_)));
    let scaled = named.is_scaled();
    let a = if tensor { Slot::Address } else { Slot::Src(Type::B64) };
    let mut slots = vec![Slot::Address, a, Slot::Src(Type::B64), Slot::Src(Type::B32)];
    let blocks = blocks(spec);
    if disables {
        slots.push(Slot::SrcVec(vec![Type::B32; 4 * at(blocks.count())]));
    }
    if scaled {
        slots.extend([Slot::Address, Slot::Address]);
    }
    slots.push(Slot::Src(Type::Pred));
    let mut scale = 0;
    if spec.operands.len() > slots.len() {
        let given = spec.integer(slots.len()).and_then(|given| u32::try_from(given).ok());
        scale = given
            .filter(|given| *given < 16)
            .ok_or_else(|| Refusal::Malformed("scale-input-d must be a constant from 0 to 15".into()))?;
        slots.push(Slot::Static);
    }
    let form = if blocks == Blocks::Pair { Form::Pair } else { Form::Block };
    Ok((Operands { named, form, blocks, tensor, disables, scale, masks: false }, slots))
}

impl Operands {
    fn read(self, w: &mut Warp<'_, '_>, args: &Args, lane: usize) -> Result<TensorMultiply, Flow> {
        let address = |w: &Warp<'_, '_>, place: usize| {
            split(u32::try_from(w.addresses(args.at[place]).0[lane] & 0xffff_ffff).unwrap_or(0))
        };
        // The rows behind the addresses: the descriptor of A, that of B, the instruction descriptor, and the rest.
        let first = usize::from(!self.tensor);
        let wide = |w: &Warp<'_, '_>, place: usize| w.state.regs.w64[at(args.all[place])].0[lane];
        let code = w.state.regs.w32[at(args.all[first + 1])].0[lane];
        let format = Format::of(self.named, self.form, code).map_err(|why| match why {
            Wrong::Gap(sentence) => {
                w.halt(Blame::Gap, StopKind::Unsupported, format!("{sentence} is not supported"))
            }
            Wrong::Malformed(sentence) => invalid(w, sentence),
        })?;
        if self.scale > 0 && format.kind.is_half() {
            let sentence = "scale-input-d other than 0 with a D of f16 is not supported";
            return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
        }
        let count = if self.disables { 4 * at(self.blocks.count()) } else { 0 };
        let masks: Vec<u32> =
            (0..count).map(|i| w.state.regs.w32[at(args.all[first + 2 + i])].0[lane]).collect();
        if masks.len() == 8 && masks[..4] != masks[4..] {
            let sentence = "a pair that disables different lanes in its blocks is not supported";
            return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
        }
        let disabled = std::array::from_fn(|i| masks.get(i).copied().unwrap_or(0));
        let enable = first + 2 + count;
        let accumulate = w.pred_arg(args, enable) >> lane & 1 != 0;
        let (d_lane, column) = address(w, 0);
        if self.masks && wide(w, enable + 1) != 0 {
            let sentence = "a zero-column mask is not supported";
            return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
        }
        let lanes: &[u32] = if format.layout == Layout::Halves { &[0, 16] } else { &[0] };
        if !lanes.contains(&d_lane) {
            return Err(invalid(w, format!("tcgen05.mma writes D from lane {d_lane}; M is {}", format.m)));
        }
        let mut multiply = TensorMultiply {
            format,
            blocks: self.blocks,
            lane: d_lane,
            column,
            a: Source::Tensor(0),
            b: descriptor(w, wide(w, first))?,
            accumulate,
            scale: self.scale,
            disabled,
            scales: (Scales::default(), Scales::default()),
        };
        let blocks = self.blocks;
        let (m, n) = multiply.share();
        check_columns(w, blocks, "tcgen05.mma with its D", column, multiply.width())?;
        multiply.a = if self.tensor {
            let (a_lane, column) = address(w, 1);
            if a_lane != d_lane || format.transposed.0 {
                return Err(invalid(
                    w,
                    "A in tensor memory must be K-major and in the lanes of D".to_owned(),
                ));
            }
            if self.form == Form::Stationary && format.m < 128 {
                let sentence = "A in tensor memory with .ws and less than 128 rows is not supported";
                return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
            }
            check_columns(w, blocks, "tcgen05.mma with its A", column, 8)?;
            Source::Tensor(column)
        } else {
            let from = descriptor(w, wide(w, 0))?;
            check_pieces(w, "A", pieces(&from, format.widths.0, format.transposed.0, m).into_iter())?;
            Source::Shared(from)
        };
        let a_coarse = matches!(multiply.a, Source::Shared(from) if from.is_coarse());
        if a_coarse && !format.transposed.0 || multiply.b.is_coarse() && !format.transposed.1 {
            return Err(invalid(w, "a K-major operand with the swizzle in units of 32 bytes".to_owned()));
        }
        check_pieces(w, "B", pieces(&multiply.b, format.widths.1, format.transposed.1, n).into_iter())?;
        if self.named.is_scaled() {
            let place = 1 + usize::from(self.tensor);
            let of = |w: &mut Warp<'_, '_>, what: &str, place: usize, rows: u32, byte: u32| {
                let (lane, column) = address(w, place);
                if lane != 0 {
                    return Err(invalid(
                        w,
                        format!("the scales of {what} are at lane {lane}; expected lane 0"),
                    ));
                }
                check_columns(w, blocks, "tcgen05.mma with its scales", column, rows.div_ceil(32))?;
                Ok(Scales { column, byte })
            };
            multiply.scales.0 = of(w, "A", place, m, format.scales.0)?;
            multiply.scales.1 = of(w, "B", place + 1, multiply.width(), format.scales.1)?;
        }
        Ok(multiply)
    }

    fn bound(self, slots: Vec<Slot>) -> Bound {
        Bound::fallible(slots, move |w, args: &Args| {
            enter(w, self.blocks)?;
            let mut work = 0usize;
            for lane in lanes_of(w.exec) {
                let multiply = Box::new(self.read(w, args, lane)?);
                work = work.saturating_add(multiply.work());
                w.start_tensor(Work::of(w, lane, Action::Multiply(multiply)))?;
            }
            Ok(w.worked(work))
        })
    }
}

fn named(spec: &Spec<'_>) -> Named {
    match spec.get("kind") {
        Some("kind::f16") => Named::F16,
        Some("kind::tf32") => Named::Tf32,
        Some("kind::i8") => Named::I8,
        _ => Named::F8f6f4,
    }
}

pub(super) fn plain(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (operands, slots) = operands(spec, named(spec))?;
    Ok(operands.bound(slots))
}

/// `.ws`: which operand the tensor core keeps for the next multiplication has no effect on the result.
pub(super) fn stationary(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.sm != 100 {
        return Err(spec.gap("this target"));
    }
    let tensor = matches!(spec.operands.get(1), Some(Shape::Address | Shape::Image(_)));
    let a = if tensor { Slot::Address } else { Slot::Src(Type::B64) };
    let mut slots = vec![Slot::Address, a, Slot::Src(Type::B64), Slot::Src(Type::B32), Slot::Src(Type::Pred)];
    let masks = spec.operands.len() > slots.len();
    if masks {
        slots.push(Slot::Src(Type::B64));
    }
    let operands = Operands {
        named: named(spec),
        form: Form::Stationary,
        blocks: Blocks::Own,
        tensor,
        disables: false,
        scale: 0,
        masks,
    };
    Ok(operands.bound(slots))
}

pub(super) fn scaled(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let named = if spec.has("kind::mxf8f6f4") {
        Named::Mxf8f6f4
    } else {
        let short = matches!(spec.get("vec"), Some("scale_vec::4X" | "block16"));
        Named::Mxf4 { short, nv: spec.has("kind::mxf4nvf4") }
    };
    let (operands, slots) = operands(spec, named)?;
    Ok(operands.bound(slots))
}
