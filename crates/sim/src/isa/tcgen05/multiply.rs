//! `tcgen05.mma`: D = A·B + D in tensor memory, for one block.
//!
//! The instruction descriptor has the types and the shape:
//!
//! ```text
//!  without scales                                 with scales
//!  bit 2       A is sparse                        the same
//!  bit 3       integers saturate                  bits 5-4    the first scale of B in its cell
//!  bits 5-4    D: 0 f16, 1 f32, 2 s32
//!  bits 9-7    A: 0 f16, 1 bf16, 2 tf32;          A: 0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1;
//!              0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2,    1 e2m1 for mxf4 and mxf4nvf4
//!              5 e2m1; 0 u8, 1 s8
//!  bits 12-10  B, likewise                        the same
//!  bits 13, 14 A, B are negated                   the same
//!  bits 15, 16 A, B are MN-major                  the same
//!  bits 22-17  N / 8                              the same
//!                                                 bit 23      scales: 0 ue4m3, 1 ue8m0
//!  bits 28-24  M / 16                             the same
//!                                                 bits 30-29  the first scale of A in its cell
//! ```
//!
//! Row r of D, and of A in tensor memory, is in lane r if M is 128, and in lane 32 (r / 16) + r mod 16 if M is 64. Column n of D is a
//! column, also for f16. A row of A has 32 bytes in 8 columns. The scales of row (column) i are in lane i mod 32 of column i / 32, in
//! a copy for each 32 lanes.

use super::copy::{check_pieces, descriptor};
use super::{check_columns, invalid, split};
use crate::isa::descriptor::Descriptor;
use crate::isa::{Args, Bound, Refusal, Shape, Slot, Spec};
use crate::machine::{Action, Flow, Type, Warp, Work, at, lanes_of};
use crate::memory::{SharedMemory, TensorMemory};
use crate::num::mma::scaled::Scale;
use crate::num::mma::tensor::{COLUMNS, Kind, Line, MOST_K, Piece, ROWS, multiply};
use crate::num::mma::{Accumulator, Element, IntElement};
use crate::stop::{Blame, StopKind};

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
    /// The address of D.
    lane: u32,
    column: u32,
    a: Source,
    b: Descriptor,
    /// Whether D starts from its old value; from zero otherwise.
    accumulate: bool,
    /// Lanes that are not written, one bit each.
    disabled: [u32; 4],
    scales: (Scales, Scales),
}

/// What an instruction descriptor describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    kind: Kind,
    m: u32,
    n: u32,
    widths: (Width, Width),
    negated: (bool, bool),
    transposed: (bool, bool),
    /// The first scale of A and of B in its cell.
    scales: (u32, u32),
}

/// How the elements of an operand lie in 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Word,
    Half,
    Byte,
    /// Sixteen elements of this number of bits, at the start of 16 bytes.
    Padded(u32),
    Nibble,
}

impl Width {
    fn of(element: Element) -> Width {
        match element {
            Element::F16 | Element::Bf16 => Width::Half,
            Element::Tf32 => Width::Word,
            Element::E4m3 | Element::E5m2 => Width::Byte,
            Element::E3m2 | Element::E2m3 => Width::Padded(6),
            Element::E2m1 => Width::Padded(4),
        }
    }

    /// The bit that is the sign.
    fn sign(self) -> u32 {
        match self {
            Width::Word => 1 << 31,
            Width::Half => 1 << 15,
            Width::Byte => 1 << 7,
            Width::Padded(bits) => 1 << (bits - 1),
            Width::Nibble => 1 << 3,
        }
    }

    /// The elements in 32 bytes.
    fn line(self, words: &[u32; 8]) -> Line {
        let take = |bit: u32, bits: u32| {
            let (word, low) = (at(bit / 32), bit % 32);
            let next = words.get(word + 1).copied().unwrap_or(0);
            let pair = u64::from(words[word & 7]) | u64::from(next) << 32;
            u32::try_from(pair >> low & ((1 << bits) - 1)).unwrap_or(0)
        };
        let mut line = [0; MOST_K];
        for (k, code) in (0..).zip(&mut line) {
            *code = match self {
                Width::Word if k < 8 => take(32 * k, 32),
                Width::Half if k < 16 => take(16 * k, 16),
                Width::Byte if k < 32 => take(8 * k, 8),
                Width::Padded(bits) if k < 32 => take(128 * (k / 16) + bits * (k % 16), bits),
                Width::Nibble => take(4 * k, 4),
                _ => break,
            };
        }
        line
    }

    /// Bytes of an element, if it can be stored by column.
    fn transposable(self) -> Option<u32> {
        match self {
            Width::Half => Some(2),
            Width::Byte => Some(1),
            Width::Word | Width::Padded(_) | Width::Nibble => None,
        }
    }
}

/// Why an instruction descriptor is refused.
enum Wrong {
    Gap(String),
    Malformed(String),
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Malformed(sentence.into()))
}

/// The kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    F16,
    Tf32,
    F8f6f4,
    I8,
    Mxf8f6f4,
    /// With scales for 16 elements each, or 32.
    Mxf4 {
        short: bool,
        /// `mxf4nvf4`, which has both types of scales.
        nv: bool,
    },
}

fn small(code: u32) -> Result<Element, Wrong> {
    Ok(match code {
        0 => Element::E4m3,
        1 => Element::E5m2,
        3 => Element::E2m3,
        4 => Element::E3m2,
        5 => Element::E2m1,
        _ => return wrong(format!("an instruction descriptor has the element type {code}")),
    })
}

impl Format {
    fn of(named: Named, code: u32) -> Result<Format, Wrong> {
        let field = |low: u32, bits: u32| code >> low & ((1 << bits) - 1);
        let (d, a, b) = (field(4, 2), field(7, 3), field(10, 3));
        let scaled = matches!(named, Named::Mxf8f6f4 | Named::Mxf4 { .. });
        let reserved = code & if scaled { 0x8000_004b } else { 0xe080_0043 };
        if reserved != 0 {
            return wrong(format!(
                "an instruction descriptor {code:#010x} has bits {reserved:#x} that must be zero"
            ));
        }
        if field(2, 1) != 0 {
            return wrong("the instruction descriptor has a sparse A, and the instruction a dense one");
        }
        if field(3, 1) != 0 && named != Named::I8 {
            return wrong("an instruction descriptor lets floating-point numbers saturate");
        }
        let accumulator = || match d {
            0 => Ok(Accumulator::F16),
            1 => Ok(Accumulator::F32),
            _ => wrong(format!("an instruction descriptor has the type {d} of D")),
        };
        let (kind, widths) = match named {
            Named::F16 => match (a, b) {
                (0, 0) => (Kind::F16(accumulator()?), (Width::Half, Width::Half)),
                (1, 1) if d == 1 => (Kind::Bf16, (Width::Half, Width::Half)),
                (0, 1) | (1, 0) => return Err(Wrong::Gap("a product of f16 and bf16".to_owned())),
                _ => {
                    return wrong(format!(
                        "kind::f16 with the element types {a} and {b} and the type {d} of D"
                    ));
                }
            },
            Named::Tf32 if (a, b, d) == (2, 2, 1) => (Kind::Tf32, (Width::Word, Width::Word)),
            Named::Tf32 => {
                return wrong(format!("kind::tf32 with the element types {a} and {b} and the type {d} of D"));
            }
            Named::F8f6f4 => {
                let elements = (small(a)?, small(b)?);
                (Kind::F8f6f4(elements, accumulator()?), (Width::of(elements.0), Width::of(elements.1)))
            }
            Named::I8 if a < 2 && b < 2 && d == 2 => {
                let of = |code: u32| if code == 1 { IntElement::S8 } else { IntElement::U8 };
                (Kind::I8((of(a), of(b)), field(3, 1) != 0), (Width::Byte, Width::Byte))
            }
            Named::I8 => {
                return wrong(format!("kind::i8 with the element types {a} and {b} and the type {d} of D"));
            }
            Named::Mxf8f6f4 => {
                let elements = (small(a)?, small(b)?);
                if field(23, 1) != 1 {
                    return wrong("kind::mxf8f6f4 with scales of ue4m3");
                }
                (Kind::Mxf8f6f4(elements), (Width::of(elements.0), Width::of(elements.1)))
            }
            Named::Mxf4 { short, nv } => {
                let scale = if field(23, 1) == 1 { Scale::Ue8m0 } else { Scale::Ue4m3 };
                if (a, b) != (1, 1) {
                    return wrong(format!("a multiplication of e2m1 with the element types {a} and {b}"));
                }
                if scale == Scale::Ue4m3 && !(short && nv) {
                    return wrong("scales of ue4m3 for 32 elements");
                }
                (Kind::Fp4(scale, short), (Width::Nibble, Width::Nibble))
            }
        };
        let format = Format {
            kind,
            m: field(24, 5) << 4,
            n: field(17, 6) << 3,
            widths,
            negated: (field(13, 1) != 0, field(14, 1) != 0),
            transposed: (field(15, 1) != 0, field(16, 1) != 0),
            scales: if scaled { (field(29, 2), d) } else { (0, 0) },
        };
        format.check(named, scaled)?;
        Ok(format)
    }

    fn check(&self, named: Named, scaled: bool) -> Result<(), Wrong> {
        let (m, n) = (self.m, self.n);
        let step = if m == 64 || scaled { 8 } else { 16 };
        let whole = n.is_multiple_of(step) && n > 0 && n <= 256;
        let integer = named != Named::I8 || n <= 32 || n.is_multiple_of(16);
        if !(m == 128 || m == 64 && !scaled) || !whole || !integer {
            return wrong(format!(
                "an instruction descriptor has M {m} and N {n}, which this kind does not have"
            ));
        }
        if named == Named::I8 && (self.negated.0 || self.negated.1) {
            return wrong("an instruction descriptor negates integers");
        }
        let steps = u32::try_from(self.kind.scales()).unwrap_or(1).max(1);
        if !self.scales.0.is_multiple_of(steps) || !self.scales.1.is_multiple_of(steps) {
            let (a, b) = self.scales;
            return wrong(format!(
                "the first scales in their cells are {a} and {b}; expected multiples of {steps}"
            ));
        }
        for (width, transposed) in [(self.widths.0, self.transposed.0), (self.widths.1, self.transposed.1)] {
            if transposed && width.transposable().is_none() {
                return match width {
                    Width::Nibble => wrong("an MN-major operand of e2m1"),
                    _ => Err(Wrong::Gap("an MN-major operand of this type".to_owned())),
                };
            }
        }
        Ok(())
    }
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

fn negate(line: &mut Line, width: Width) {
    for code in line {
        *code ^= width.sign();
    }
}

impl TensorMultiply {
    /// The lane of a row of D.
    fn lane_of(&self, row: u32) -> u32 {
        self.lane + if self.format.m == 64 { 32 * (row / 16) + row % 16 } else { row }
    }

    /// The pieces of 16 bytes of shared memory that it reads.
    pub(crate) fn sources(&self) -> Vec<u32> {
        let Format { m, n, widths, transposed, .. } = self.format;
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
            all.push((self.scales.0.column, self.format.m.div_ceil(32)));
            all.push((self.scales.1.column, self.format.n.div_ceil(32)));
        }
        if self.accumulate {
            all.push(self.writes());
        }
        all
    }

    /// The columns of D: the first, and how many.
    pub(crate) fn writes(&self) -> (u32, u32) {
        (self.column, self.format.n)
    }

    /// The groups of 16 lanes of D, and of A in tensor memory, one bit each.
    pub(crate) fn halves(&self) -> u8 {
        match (self.format.m, self.lane) {
            (64, 0) => 0x55,
            (64, _) => 0xaa,
            _ => 0xff,
        }
    }

    /// Multiplies.
    pub(crate) fn run(&self, shared: &SharedMemory, memory: &mut TensorMemory) {
        let Format { kind, m, n, widths, negated, transposed, .. } = self.format;
        let scaled = kind.scales() > 0;
        let b: Vec<Line> = (0..n)
            .map(|column| {
                let mut line = line(shared, &self.b, widths.1, transposed.1, column);
                if negated.1 {
                    negate(&mut line, widths.1);
                }
                line
            })
            .collect();
        let mut piece = Piece::ZERO;
        for first in (0..m).step_by(ROWS) {
            for (row, line_of_a) in (first..).zip(&mut piece.a) {
                *line_of_a = match self.a {
                    Source::Shared(from) => line(shared, &from, widths.0, transposed.0, row),
                    Source::Tensor(column) => {
                        let words = std::array::from_fn(|i| {
                            memory.cell(self.lane_of(row), column + u32::try_from(i).unwrap_or(0))
                        });
                        widths.0.line(&words)
                    }
                };
                if negated.0 {
                    negate(line_of_a, widths.0);
                }
            }
            if scaled {
                for (row, scales) in (first..).zip(&mut piece.a_scales) {
                    *scales = self.scales.0.get(memory, self.lane_of(first), row);
                }
            }
            for (group, lines) in (0..).step_by(COLUMNS).zip(b.chunks_exact(COLUMNS)) {
                piece.b.copy_from_slice(lines);
                if scaled {
                    for (column, scales) in (group..).zip(&mut piece.b_scales) {
                        *scales = self.scales.1.get(memory, self.lane_of(first), column);
                    }
                }
                self.finish(memory, &piece, first, group);
            }
        }
    }

    /// Updates D from row `first` and column `group`.
    fn finish(&self, memory: &mut TensorMemory, piece: &Piece, first: u32, group: u32) {
        let half = self.format.kind.is_half();
        let mut c = [[0; ROWS]; COLUMNS];
        let place = |row: usize, column: usize| {
            let (row, column) = (u32::try_from(row).unwrap_or(0), u32::try_from(column).unwrap_or(0));
            (self.lane_of(first + row), self.column + group + column)
        };
        if self.accumulate {
            for (n, column) in c.iter_mut().enumerate() {
                for (m, code) in column.iter_mut().enumerate() {
                    let (lane, column) = place(m, n);
                    let cell = memory.cell(lane, column);
                    *code = if half { cell & 0xffff } else { cell };
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
    /// A is in tensor memory.
    tensor: bool,
    /// Lanes may be disabled.
    disables: bool,
    scaled: bool,
}

fn operands(spec: &Spec<'_>, named: Named) -> Result<(Operands, Vec<Slot>), Refusal> {
    if spec.sm != 100 {
        return Err(spec.gap("this target"));
    }
    let tensor = matches!(spec.operands.get(1), Some(Shape::Address | Shape::Image(_)));
    let disables = matches!(spec.operands.get(4), Some(Shape::Vector(_)));
    let scaled = matches!(named, Named::Mxf8f6f4 | Named::Mxf4 { .. });
    let a = if tensor { Slot::Address } else { Slot::Src(Type::B64) };
    let mut slots = vec![Slot::Address, a, Slot::Src(Type::B64), Slot::Src(Type::B32)];
    if disables {
        slots.push(Slot::SrcVec(vec![Type::B32; 4]));
    }
    if scaled {
        slots.extend([Slot::Address, Slot::Address]);
    }
    slots.push(Slot::Src(Type::Pred));
    if spec.operands.len() > slots.len() {
        // Which bits a scaled D has is not known.
        if spec.integer(slots.len()) != Some(0) {
            return Err(spec.gap("scale-input-d other than 0"));
        }
        slots.push(Slot::Static);
    }
    Ok((Operands { named, tensor, disables, scaled }, slots))
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
        let format = Format::of(self.named, code).map_err(|why| match why {
            Wrong::Gap(sentence) => {
                w.halt(Blame::Gap, StopKind::Unsupported, format!("{sentence} is not supported"))
            }
            Wrong::Malformed(sentence) => invalid(w, sentence),
        })?;
        let disabled = std::array::from_fn(|i| {
            if self.disables { w.state.regs.w32[at(args.all[first + 2 + i])].0[lane] } else { 0 }
        });
        let enable = first + 2 + if self.disables { 4 } else { 0 };
        let accumulate = w.pred_arg(args, enable) >> lane & 1 != 0;
        let (d_lane, column) = address(w, 0);
        let lanes = if format.m == 64 { [0, 16] } else { [0, 0] };
        if !lanes.contains(&d_lane) {
            return Err(invalid(w, format!("tcgen05.mma writes D from lane {d_lane}; M is {}", format.m)));
        }
        check_columns(w, "tcgen05.mma with its D", column, format.n)?;
        let a = if self.tensor {
            let (a_lane, column) = address(w, 1);
            if a_lane != d_lane || format.transposed.0 {
                return Err(invalid(
                    w,
                    "A in tensor memory must be K-major and in the lanes of D".to_owned(),
                ));
            }
            if matches!(format.widths.0, Width::Padded(_)) {
                let sentence = "A of less than a byte for an element in tensor memory is not supported";
                return Err(w.halt(Blame::Gap, StopKind::Unsupported, sentence.to_owned()));
            }
            check_columns(w, "tcgen05.mma with its A", column, 8)?;
            Source::Tensor(column)
        } else {
            let from = descriptor(w, wide(w, 0))?;
            let pieces = pieces(&from, format.widths.0, format.transposed.0, format.m);
            check_pieces(w, "A", pieces.into_iter())?;
            Source::Shared(from)
        };
        let b = descriptor(w, wide(w, first))?;
        check_pieces(w, "B", pieces(&b, format.widths.1, format.transposed.1, format.n).into_iter())?;
        let mut scales = (Scales::default(), Scales::default());
        if self.scaled {
            let place = 1 + usize::from(self.tensor);
            let of = |w: &mut Warp<'_, '_>, what: &str, place: usize, rows: u32, byte: u32| {
                let (lane, column) = address(w, place);
                if lane != 0 {
                    return Err(invalid(
                        w,
                        format!("the scales of {what} are at lane {lane}; expected lane 0"),
                    ));
                }
                check_columns(w, "tcgen05.mma with its scales", column, rows.div_ceil(32))?;
                Ok(Scales { column, byte })
            };
            scales.0 = of(w, "A", place, format.m, format.scales.0)?;
            scales.1 = of(w, "B", place + 1, format.n, format.scales.1)?;
        }
        Ok(TensorMultiply { format, lane: d_lane, column, a, b, accumulate, disabled, scales })
    }

    fn bound(self, slots: Vec<Slot>) -> Bound {
        Bound::fallible(slots, move |w, args: &Args| {
            for lane in lanes_of(w.exec) {
                let multiply = Box::new(self.read(w, args, lane)?);
                w.start_tensor(Work::of(w, lane, Action::Multiply(multiply)))?;
            }
            Ok(Flow::Next)
        })
    }
}

pub(super) fn plain(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let named = match spec.get("kind") {
        Some("kind::f16") => Named::F16,
        Some("kind::tf32") => Named::Tf32,
        Some("kind::i8") => Named::I8,
        _ => Named::F8f6f4,
    };
    let (operands, slots) = operands(spec, named)?;
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
