//! Instruction descriptors of `tcgen05.mma`: the types and the shape.
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
//! The rows of D in a block are in lanes (column n of D is a column, also for f16):
//!
//! ```text
//!  one block, M 128; a pair, M 256 (128 rows in each block)   row r in lane r
//!  one block, M 64                                            row r in lane 32 (r / 16) + r mod 16
//!  a pair, M 128 (64 rows in each block)                      row r of column n in lane r + 64 (n / (N / 2)), column n mod (N / 2)
//!  .ws, M 64                                                  the same
//!  .ws, M 32                                                  row r of column n in lane r + 32 (n / (N / 4)), column n mod (N / 4)
//! ```

use crate::machine::at;
use warpproof_num::mma::scaled::Scale;
use warpproof_num::mma::tensor::{Kind, Line, MOST_K};
use warpproof_num::mma::{Accumulator, Element, IntElement};

/// What an instruction descriptor describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) kind: Kind,
    /// Rows of D; of both blocks for a pair.
    pub(super) m: u32,
    /// Columns of D.
    pub(super) n: u32,
    /// The elements of A and of B.
    pub(super) widths: (Width, Width),
    /// Whether A and B are negated.
    pub(super) negated: (bool, bool),
    /// Whether A and B are MN-major.
    pub(super) transposed: (bool, bool),
    /// The first scale of A and of B in its cell.
    pub(super) scales: (u32, u32),
    /// Where the elements of D are.
    pub(super) layout: Layout,
}

/// Which blocks multiply, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One block.
    Block,
    /// Two blocks together.
    Pair,
    /// One block, which keeps B (`.ws`).
    Stationary,
}

/// In which lanes and columns the elements of D of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Row r in lane r.
    Rows,
    /// 64 rows, 16 in the lanes of each warp.
    Halves,
    /// 64 rows in two groups of lanes: the first half of the columns, and the second.
    TwoGroups,
    /// 32 rows in four groups of lanes, each with a quarter of the columns.
    FourGroups,
}

impl Layout {
    /// The groups of lanes that share the columns of D.
    pub(super) fn groups(self) -> u32 {
        match self {
            Layout::Rows | Layout::Halves => 1,
            Layout::TwoGroups => 2,
            Layout::FourGroups => 4,
        }
    }

    /// The lane of a row in a group.
    pub(super) fn lane(self, row: u32, group: u32) -> u32 {
        match self {
            Layout::Rows => row,
            Layout::Halves => 32 * (row / 16) + row % 16,
            Layout::TwoGroups => 64 * group + row,
            Layout::FourGroups => 32 * group + row,
        }
    }
}

/// How the elements of an operand lie in 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
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
    pub(super) fn sign(self) -> u32 {
        match self {
            Width::Word => 1 << 31,
            Width::Half => 1 << 15,
            Width::Byte => 1 << 7,
            Width::Padded(bits) => 1 << (bits - 1),
            Width::Nibble => 1 << 3,
        }
    }

    /// The elements in 32 bytes.
    pub(super) fn line(self, words: &[u32; 8]) -> Line {
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

    /// The elements in 8 columns of tensor memory, where those of less than a byte have a byte each: 6 bits from bit 1, 4 from bit 2.
    pub(super) fn held(self, words: &[u32; 8]) -> Line {
        let Width::Padded(bits) = self else { return self.line(words) };
        Width::Byte.line(words).map(|byte| byte >> (4 - bits / 2) & ((1 << bits) - 1))
    }

    /// Bytes of an element, if it can be stored by column.
    pub(super) fn transposable(self) -> Option<u32> {
        match self {
            Width::Word => Some(4),
            Width::Half => Some(2),
            Width::Byte => Some(1),
            Width::Padded(_) | Width::Nibble => None,
        }
    }
}

/// Why an instruction descriptor is refused.
pub(super) enum Wrong {
    Gap(String),
    Malformed(String),
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Malformed(sentence.into()))
}

/// The kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
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

impl Named {
    /// Whether A and B have scales.
    pub(super) fn is_scaled(self) -> bool {
        matches!(self, Named::Mxf8f6f4 | Named::Mxf4 { .. })
    }
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
    /// Decodes a descriptor.
    pub(super) fn of(named: Named, form: Form, code: u32) -> Result<Format, Wrong> {
        let field = |low: u32, bits: u32| code >> low & ((1 << bits) - 1);
        let (d, a, b) = (field(4, 2), field(7, 3), field(10, 3));
        let scaled = named.is_scaled();
        let reserved = code
            & match form {
                _ if scaled => 0x8000_004b,
                Form::Stationary => 0x2080_0043,
                Form::Block | Form::Pair => 0xe080_0043,
            };
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
        let m = field(24, 5) << 4;
        let layout = match (form, m) {
            (Form::Pair, 128) | (Form::Stationary, 64) => Layout::TwoGroups,
            (Form::Stationary, 32) => Layout::FourGroups,
            (Form::Block, 64) => Layout::Halves,
            _ => Layout::Rows,
        };
        if form == Form::Stationary && field(30, 2) != 0 {
            return Err(Wrong::Gap("a shift of B in .ws".to_owned()));
        }
        let format = Format {
            kind,
            m,
            n: field(17, 6) << 3,
            widths,
            negated: (field(13, 1) != 0, field(14, 1) != 0),
            transposed: (field(15, 1) != 0, field(16, 1) != 0),
            scales: if scaled { (field(29, 2), d) } else { (0, 0) },
            layout,
        };
        format.check(named, form, scaled)?;
        Ok(format)
    }

    fn check(&self, named: Named, form: Form, scaled: bool) -> Result<(), Wrong> {
        let (m, n) = (self.m, self.n);
        let step = match (form, m) {
            (Form::Pair, _) if named == Named::I8 => 32,
            (Form::Stationary, _) => 64,
            (Form::Block, 64) => 8,
            (Form::Block, _) if scaled => 8,
            _ => 16,
        };
        let rows: &[u32] = match form {
            Form::Pair => &[128, 256],
            Form::Stationary => &[32, 64, 128],
            Form::Block if scaled => &[128],
            Form::Block => &[64, 128],
        };
        let whole = n.is_multiple_of(step) && n > 0 && n <= 256 && (form != Form::Stationary || n != 192);
        let integer = named != Named::I8 || n <= 32 || n.is_multiple_of(16);
        if !rows.contains(&m) || !whole || !integer {
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
