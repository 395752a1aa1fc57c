//! `mma.sp`: matrix multiply and accumulate over a warp, with a sparse A: half of its elements are zero and not stored.
//!
//! Of every chunk of four elements in a row of A, two are stored, at the positions in a nibble of the metadata; the
//! position of the first is in the low two bits. With 4-bit elements a chunk has eight elements and each position stands for
//! two neighbors; with tf32 it has two, of which one is stored, and the nibble is 0b0100 for the first and 0b1110 for the
//! second.
//!
//! ```text
//!  stored   a b │ c d        nibbles  0b1000, 0b1101 (low one first: positions 0, 2 and 1, 3)
//!  whole    a 0 b 0 │ 0 c 0 d
//! ```
//!
//! The stored elements have the layout of a dense A with half the columns; B, C and D have their dense layouts (`tile.rs`).
//! The metadata is one register; in each group of four lanes, the *selector* chooses the lanes whose registers are used. A
//! row has 4, 8 or 16 chunks, which take 1, 2 or 4 lanes of each group, so that there are 4, 2 or 1 selectors. With `g` the group, and `first` = 4 g + lanes · selector:
//!
//! ```text
//!  16-bit elements, tf32: lane first + i   bits 0-15   row g,     chunks 4 i to 4 i + 3, the lowest in the lowest bits
//!                                          bits 16-31  row g + 8, the same chunks
//!  8-bit and 4-bit:       lane first + i   bits 0-31   row g (even i) or g + 8 (odd i), chunks 8 (i / 2) and seven more
//! ```
//!
//! Sources: the manual's text defines the fragments, the selectors and the meaning of a nibble. Its figures define the lanes
//! and bits of the metadata. These projects confirm the figures on hardware: Apache TVM's tests of
//! `ptx_mma_sp` for m16n8k16 and m16n8k32 in f16, LLVM's tests of `nvgpu.mma.sp.sync` for m16n8k32, and a public port of Triton's
//! sparse dot product that probed m16n8k64 of 8-bit elements on sm_89 bit by bit. CUTLASS's reordering of metadata covers
//! the rest: it has one order for all types with a 16-bit unit of metadata (f16, bf16, tf32) and one for all types with a
//! 32-bit unit (8-bit and 4-bit), and its result, split into lanes, is the layout above.
//!
//! The kernel stops at a selector that the shape does not have, and at indices that the manual leaves undefined: for `.sp`
//! two equal indices; for `.sp::ordered_metadata` and for 8-bit floating point also two that are not in increasing order.
//! For the order in which products are summed, see [`mma::Sparse`].

use super::super::tile::{Code, Nibble, a_registers, b_registers, gather_a, gather_b, gather_c, scatter_c};
use super::{
    Bound, Counts, Definition, Refusal, Slot, Spec, Unit, accumulators, fp8_format, int_elements, slots,
    widen,
};
use crate::bind;
use crate::machine::{Flow, Row, Type, Warp, at};
use crate::simd::Simd;
use crate::stop::{Blame, StopKind};
use warpproof_num::fp8::Fp8;
use warpproof_num::mma::{self, Accumulator, Element, Sparse, TensorCore};

macro_rules! op {
    ($variant:literal, $rest:literal, $since:expr, $bind:ident) => {
        Definition {
            form: concat!("mma", $variant, ".sync.aligned", $rest),
            manual: "warp-level-matrix-instructions-sparse-mma",
            unit: Unit::Tensor,
            since: $since,
            bind: bind!($bind),
        }
    };
}

/// The two forms, which differ only in the required order of the indices.
macro_rules! both {
    ($rest:literal, $since:expr, $bind:ident) => {
        [op!(".sp", $rest, $since, $bind), op!(".sp::ordered_metadata", $rest, (8, 5, $since.2), $bind)]
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = BOXES.as_flattened();

const BOXES: &[[Definition; 2]] = &[
    both!(".shape.row.col.f32.f16.f16.f32 d, a, b, c, e, f; .shape = .m16n8k16 .m16n8k32", (7, 1, 80), f16),
    both!(".shape.row.col.f16.f16.f16.f16 d, a, b, c, e, f; .shape = .m16n8k16 .m16n8k32", (7, 1, 80), f16),
    both!(
        ".shape.row.col.f32.bf16.bf16.f32 d, a, b, c, e, f; .shape = .m16n8k16 .m16n8k32",
        (7, 1, 80),
        bf16
    ),
    both!(".shape.row.col.f32.tf32.tf32.f32 d, a, b, c, e, f; .shape = .m16n8k8 .m16n8k16", (7, 1, 80), tf32),
    both!(
        ".m16n8k64.row.col.f32.atype.btype.f32 d, a, b, c, e, f; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2",
        (8, 4, 89),
        fp8
    ),
    both!(
        ".shape.row.col{.satfinite}.s32.atype.btype.s32 d, a, b, c, e, f; .shape = .m16n8k32 .m16n8k64; .atype = .u8 .s8; .btype = .u8 .s8",
        (7, 1, 80),
        int8
    ),
    both!(
        ".shape.row.col{.satfinite}.s32.atype.btype.s32 d, a, b, c, e, f; .shape = .m16n8k64 .m16n8k128; .atype = .u4 .s4; .btype = .u4 .s4",
        (7, 1, 80),
        int4
    ),
];

/// Rows of A.
const M: usize = 16;
/// Columns of B.
const N: usize = 8;

/// How the metadata encodes which elements of a chunk are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::isa) enum Granularity {
    /// Two of four.
    TwoOfFour,
    /// Two pairs of four pairs.
    Pairs,
    /// One of two.
    OneOfTwo,
}

/// The metadata of a shape.
#[derive(Clone, Copy, Debug)]
pub(in crate::isa) struct Metadata {
    granularity: Granularity,
    /// Whether a lane holds all eight chunks of one row, rather than four of two.
    whole_words: bool,
    /// Whether the indices of a chunk must be in increasing order.
    ordered: bool,
    /// Chunks in a row.
    chunks: usize,
    selector: usize,
}

impl Metadata {
    /// The metadata of rows of `columns` elements; `None` if there is no such selector.
    pub(in crate::isa) fn of(
        granularity: Granularity,
        whole_words: bool,
        ordered: bool,
        columns: usize,
        selector: usize,
    ) -> Option<Metadata> {
        let mut metadata = Metadata { granularity, whole_words, ordered, chunks: 0, selector };
        metadata.chunks = columns / metadata.width();
        (selector < 4 && (selector + 1) * metadata.lanes() <= 4).then_some(metadata)
    }

    /// Lanes of a group of four that hold the metadata.
    fn lanes(&self) -> usize {
        self.chunks / 4
    }

    /// The lane and the first bit of the nibble for a chunk of a row.
    fn place(&self, row: usize, chunk: usize) -> (usize, usize) {
        let (half, first) = (row / 8, 4 * (row % 8) + self.lanes() * self.selector);
        if self.whole_words {
            (first + 2 * (chunk / 8) + half, 4 * (chunk % 8))
        } else {
            (first + chunk / 4, 16 * half + 4 * (chunk % 4))
        }
    }

    /// The two indices of a nibble, if they are valid.
    fn indices(&self, nibble: u32) -> Option<(u8, u8)> {
        let (first, second) = (two_bits(nibble), two_bits(nibble >> 2));
        let known = match self.granularity {
            Granularity::OneOfTwo => matches!((first, second), (0, 1) | (2, 3)),
            Granularity::TwoOfFour | Granularity::Pairs if self.ordered => first < second,
            Granularity::TwoOfFour | Granularity::Pairs => first != second,
        };
        known.then_some((first, second))
    }

    /// The columns of the stored elements, in the same layout as the elements themselves; or the lane, row, chunk and
    /// nibble of an index pair that the manual leaves undefined.
    pub(in crate::isa) fn columns<const H: usize>(
        &self,
        words: &Row<u32>,
    ) -> Result<[[u8; M]; H], (usize, usize, usize, u32)> {
        let mut columns = [[0u8; M]; H];
        for row in 0..M {
            for (chunk, first) in (0..self.chunks).zip((0u8..).step_by(self.width())) {
                let (lane, shift) = self.place(row, chunk);
                let nibble = words.0[lane] >> shift & 15;
                let (x, y) = self.indices(nibble).ok_or((lane, row, chunk, nibble))?;
                let stored: &[u8] = match self.granularity {
                    Granularity::TwoOfFour => &[x, y],
                    Granularity::Pairs => &[2 * x, 2 * x + 1, 2 * y, 2 * y + 1],
                    Granularity::OneOfTwo => &[x / 2],
                };
                let places = columns.chunks_exact_mut(stored.len()).nth(chunk).unwrap_or_default();
                for (place, index) in places.iter_mut().zip(stored) {
                    place[row] = first + index;
                }
            }
        }
        Ok(columns)
    }

    /// Elements in a chunk.
    fn width(&self) -> usize {
        match self.granularity {
            Granularity::TwoOfFour => 4,
            Granularity::Pairs => 8,
            Granularity::OneOfTwo => 2,
        }
    }

    /// Stops the kernel at an invalid index pair.
    #[cold]
    pub(in crate::isa) fn undefined(
        &self,
        w: &mut Warp<'_, '_>,
        (lane, row, chunk, nibble): (usize, usize, usize, u32),
    ) -> Flow {
        let first = chunk * self.width();
        let wanted = match self.granularity {
            Granularity::OneOfTwo => "expected 0b0100 or 0b1110",
            Granularity::TwoOfFour | Granularity::Pairs if self.ordered => {
                "the two indices must be different and the smaller one in the low bits"
            }
            Granularity::TwoOfFour | Granularity::Pairs => "the two indices must be different",
        };
        let sentence = format!(
            "sparsity metadata {nibble:#06b} for row {row}, columns {first} to {} of A: {wanted}",
            first + self.width() - 1
        );
        w.halt_lane(Blame::Kernel, StopKind::Malformed, u32::try_from(lane).unwrap_or(0), sentence)
    }
}

#[expect(clippy::as_conversions, reason = "two bits")]
fn two_bits(word: u32) -> u8 {
    (word & 3) as u8
}

/// One multiplication of an A with H stored elements per row of K; `f` does the arithmetic.
fn multiply<I: Simd, T: Code, const H: usize, const K: usize>(
    spec: &Spec<'_>,
    (granularity, whole_words): (Granularity, bool),
    packed: bool,
    f: impl Fn(&Sparse<T, M, H>, &[[T; K]; N], &mut [[u32; M]; N]) + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let accumulators = if packed { 2 } else { 4 };
    let counts = Counts { d: accumulators, a: a_registers::<T>(M, H), b: b_registers::<T>(N, K) };
    let slots = slots(counts.d, counts.a, counts.b, accumulators)
        .into_iter()
        .chain([Slot::Src(Type::B32), Slot::Static])
        .collect::<Vec<_>>();
    let Some(selector @ 0..=3) = spec.integer(5) else {
        return Err(Refusal::Malformed("the sparsity selector must be a constant from 0 to 3".into()));
    };
    let fp8 = matches!(spec.get("atype"), Some("e4m3" | "e5m2"));
    let mut metadata = Metadata {
        granularity,
        whole_words,
        ordered: fp8 || spec.has("sp::ordered_metadata"),
        chunks: 0,
        selector: usize::try_from(selector).unwrap_or(0),
    };
    metadata.chunks = K / metadata.width();
    if (metadata.selector + 1) * metadata.lanes() > 4 {
        let sentence = format!(
            "sparsity selector {selector}, but the metadata is in {} of every four lanes; the maximum is {}",
            metadata.lanes(),
            4 / metadata.lanes() - 1
        );
        return Ok(Bound::new(slots, move |w, _| {
            w.halt(Blame::Kernel, StopKind::Malformed, sentence.clone())
        }));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let (d, a, b, rest) = counts.split(args);
        let (c, e) = rest.split_at(accumulators);
        let words = e.first().map_or(Row::splat(0), |row| w.state.regs.w32[at(*row)]);
        let places = metadata.columns::<H>(&words).map_err(|wrong| metadata.undefined(w, wrong))?;
        I::vectorize(|| {
            let a = Sparse { values: gather_a::<T, M, H>(w, a), places };
            let b = gather_b::<T, N, K>(w, b);
            let mut c = gather_c::<M, N>(w, c, packed);
            f(&a, &b, &mut c);
            scatter_c(w, d, packed, &c);
        });
        Ok(Flow::Next)
    }))
}

/// How the products of a sparse matrix are summed is known for Ampere and Ada only.
fn known(spec: &Spec<'_>) -> Result<(), Refusal> {
    if TensorCore::of(spec.sm) == TensorCore::Ada {
        return Ok(());
    }
    let sentence =
        format!("the order in which sm_{} adds the products of a sparse matrix is not known", spec.sm);
    Err(Refusal::Gap(format!("{sentence}; floating-point `mma.sp` is supported up to sm_89")))
}

/// Floating point of one type.
fn float<I: Simd, T: Code + Into<u32>, const H: usize, const K: usize>(
    spec: &Spec<'_>,
    granularity: Granularity,
    element: Element,
) -> Result<Bound, Refusal> {
    known(spec)?;
    let (_, packed, accumulator) = accumulators(spec);
    multiply::<I, T, H, K>(spec, (granularity, false), packed, move |a, b, c| {
        mma::sparse(TensorCore::Ada, (element, element), accumulator, a, b, c);
    })
}

fn f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match spec.get("shape") {
        Some("m16n8k16") => float::<I, u16, 8, 16>(spec, Granularity::TwoOfFour, Element::F16),
        _ => float::<I, u16, 16, 32>(spec, Granularity::TwoOfFour, Element::F16),
    }
}

fn bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match spec.get("shape") {
        Some("m16n8k16") => float::<I, u16, 8, 16>(spec, Granularity::TwoOfFour, Element::Bf16),
        _ => float::<I, u16, 16, 32>(spec, Granularity::TwoOfFour, Element::Bf16),
    }
}

fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    match spec.get("shape") {
        Some("m16n8k8") => float::<I, u32, 4, 8>(spec, Granularity::OneOfTwo, Element::Tf32),
        _ => float::<I, u32, 8, 16>(spec, Granularity::OneOfTwo, Element::Tf32),
    }
}

fn fp8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let element = |name: &str| match fp8_format(spec.get(name)) {
        Fp8::E4m3 => Element::E4m3,
        Fp8::E5m2 => Element::E5m2,
    };
    known(spec)?;
    let elements = (element("atype"), element("btype"));
    multiply::<I, u8, 32, 64>(spec, (Granularity::TwoOfFour, true), false, move |a, b, c| {
        mma::sparse(TensorCore::Ada, elements, Accumulator::F32, a, b, c);
    })
}

/// Integer sums are exact, so zeros for the elements that are not stored change nothing.
fn int8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    fn shape<I: Simd, const H: usize, const K: usize>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
        let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
        multiply::<I, u8, H, K>(spec, (Granularity::TwoOfFour, true), false, move |a, b, c| {
            mma::integer(elements, sat, &a.whole::<K>(), b, c);
        })
    }
    match spec.get("shape") {
        Some("m16n8k32") => shape::<I, 16, 32>(spec),
        _ => shape::<I, 32, 64>(spec),
    }
}

fn int4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    fn shape<I: Simd, const H: usize, const K: usize>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
        let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
        multiply::<I, Nibble, H, K>(spec, (Granularity::Pairs, true), false, move |a, b, c| {
            mma::integer(elements, sat, &widen(&a.whole::<K>()), &widen(b), c);
        })
    }
    match spec.get("shape") {
        Some("m16n8k64") => shape::<I, 32, 64>(spec),
        _ => shape::<I, 64, 128>(spec),
    }
}
