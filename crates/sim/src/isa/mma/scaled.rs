//! `mma` with elements of less than a byte, and with scales: `.kind::f8f6f4` and `.block_scale`.
//!
//! With `.kind::f8f6f4` and `.kind::mxf8f6f4` every element has a byte of a register; e3m2 and e2m3 are in bits 0-5, e2m1 is in
//! bits 2-5, and the other bits are zero. With `.kind::mxf4` and `.kind::mxf4nvf4` two e2m1 share a byte, the first one in its
//! low half. The layouts are those of `tile.rs` for elements of 8 and of 4 bits.
//!
//! A row of A and a column of B has S = 1, 2 or 4 scales, in consecutive bytes of one register of one lane, for consecutive
//! blocks of K. With `g` the group of four lanes, the constants {byte-id, thread-id} select them:
//!
//! ```text
//!  scale A   row g:      lane 4 g + 2 · thread-id          bytes byte-id to byte-id + S - 1    thread-id 0 or 1
//!            row g + 8:  lane 4 g + 2 · thread-id + 1
//!  scale B   column g:   lane 4 g + thread-id                                                  thread-id 0 to 3
//! ```
//!
//! byte-id is a multiple of S: 0 to 3, or 0 and 2, or 0. ptxas rejects other constants; a register may hold any, and the
//! kernel stops at a value that it does not know. Sources: the manual, ptxas, and CUTLASS's layouts of the scales of
//! `SM120_16x8x64_TN_VS`.
//!
//! Which products of a sparse A are added together is not known, so `mma.sp` of these kinds is not supported.

use super::super::tile::{Nibble, gather_a, gather_b, gather_c, scatter_c};
use super::{
    Args, Bound, Counts, Definition, MANUAL, Refusal, Slot, Spec, Unit, accumulators, fp8, slots, widen,
};
use crate::bind;
use crate::isa::Shape;
use crate::machine::{Flow, LANES, Row, Type, Warp, at};
use crate::simd::Simd;
use crate::stop::{Blame, StopKind};
use warpproof_num::mma::scaled::{self, Scale};
use warpproof_num::mma::{self, Element, TensorCore};

macro_rules! op {
    ($form:literal, $since:expr, $bind:ident) => {
        Definition { form: $form, manual: MANUAL, unit: Unit::Tensor, since: $since, bind: bind!($bind) }
    };
}

pub(in crate::isa) const DEFINITIONS: &[Definition] = &[
    // Both operands of a byte: also on the Blackwell of data centers, as without `.kind`.
    op!(
        "mma.sync{.aligned}.m16n8k32.row.col.kind::f8f6f4.f32.atype.btype.f32 d, a, b, c; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2",
        (8, 6, 100),
        fp8
    ),
    op!(
        "mma.sync{.aligned}.m16n8k32.row.col.kind::f8f6f4.f16.atype.btype.f16 d, a, b, c; .atype = .e4m3 .e5m2; .btype = .e4m3 .e5m2",
        (8, 6, 100),
        fp8
    ),
    op!(
        "mma.sync{.aligned}.m16n8k32.row.col.kind::f8f6f4.f32.atype.btype.f32 d, a, b, c; .atype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1; .btype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1",
        (8, 7, 120),
        f8f6f4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k32.row.col.kind::f8f6f4.f16.atype.btype.f16 d, a, b, c; .atype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1; .btype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1",
        (8, 7, 120),
        f8f6f4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k32.row.col.kind::mxf8f6f4.block_scale{.scale_vec::1X}.f32.atype.btype.f32.ue8m0 d, a, b, c, scale-a-data, ids-a, scale-b-data, ids-b; .atype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1; .btype = .e4m3 .e5m2 .e3m2 .e2m3 .e2m1",
        (8, 7, 120),
        mxf8f6f4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k64.row.col.kind::mxf4.block_scale{.scale_vec::2X}.f32.e2m1.e2m1.f32.ue8m0 d, a, b, c, scale-a-data, ids-a, scale-b-data, ids-b",
        (8, 7, 120),
        mxf4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 d, a, b, c, scale-a-data, ids-a, scale-b-data, ids-b",
        (8, 7, 120),
        mxf4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k64.row.col.kind::mxf4nvf4.block_scale.vec.f32.e2m1.e2m1.f32.ue4m3 d, a, b, c, scale-a-data, ids-a, scale-b-data, ids-b; .vec = .scale_vec::4X",
        (8, 7, 120),
        nvf4
    ),
    op!(
        "mma.sync{.aligned}.m16n8k64.row.col.kind::mxf4nvf4.block_scale.vec.f32.e2m1.e2m1.f32.ue8m0 d, a, b, c, scale-a-data, ids-a, scale-b-data, ids-b; .vec = .scale_vec::4X",
        (9, 1, 120),
        nvf4
    ),
];

/// Rows of A.
const M: usize = 16;
/// Columns of B.
const N: usize = 8;

/// Where an element lies in its byte.
#[derive(Clone, Copy)]
struct Container {
    element: Element,
    /// The bits that must be zero.
    padding: u32,
    shift: u32,
}

impl Container {
    fn of(name: Option<&str>) -> Container {
        let (element, padding, shift) = match name {
            Some("e5m2") => (Element::E5m2, 0, 0),
            Some("e3m2") => (Element::E3m2, 0xc0, 0),
            Some("e2m3") => (Element::E2m3, 0xc0, 0),
            Some("e2m1") => (Element::E2m1, 0xc3, 2),
            _ => (Element::E4m3, 0, 0),
        };
        Container { element, padding: padding * 0x0101_0101, shift }
    }

    fn unpack<const OUTER: usize, const INNER: usize>(
        self,
        codes: &[[u8; INNER]; OUTER],
    ) -> [[u8; INNER]; OUTER] {
        codes.map(|line| line.map(|code| code >> self.shift))
    }

    /// Stops the kernel if a register of an operand has a bit outside its elements.
    fn check(self, w: &mut Warp<'_, '_>, operand: &str, registers: &[u32]) -> Result<(), Flow> {
        if self.padding == 0 {
            return Ok(());
        }
        for row in registers {
            let words = w.state.regs.w32[at(*row)];
            if let Some(lane) = words.0.iter().position(|word| word & self.padding != 0) {
                return Err(self.padded(w, operand, lane, words.0[lane]));
            }
        }
        Ok(())
    }

    #[cold]
    fn padded(self, w: &mut Warp<'_, '_>, operand: &str, lane: usize, word: u32) -> Flow {
        let (bits, name) = match self.element {
            Element::E3m2 => ("0 to 5", "e3m2"),
            Element::E2m3 => ("0 to 5", "e2m3"),
            _ => ("2 to 5", "e2m1"),
        };
        let sentence = format!(
            "a register of {operand} is {word:#010x}, but an element of type {name} has bits {bits} of a byte and the others must be zero"
        );
        w.halt_lane(Blame::Kernel, StopKind::Malformed, u32::try_from(lane).unwrap_or(0), sentence)
    }
}

fn f8f6f4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (_, packed, accumulator) = accumulators(spec);
    let containers = (Container::of(spec.get("atype")), Container::of(spec.get("btype")));
    let elements = (containers.0.element, containers.1.element);
    known(spec)?;
    let registers = if packed { 2 } else { 4 };
    let counts = Counts { d: registers, a: 4, b: 2 };
    Ok(Bound::fallible(slots(registers, 4, 2, registers), move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let (d, a, b, c) = counts.split(args);
        containers.0.check(w, "A", a)?;
        containers.1.check(w, "B", b)?;
        I::vectorize(|| {
            let a = containers.0.unpack(&gather_a::<u8, M, 32>(w, a));
            let b = containers.1.unpack(&gather_b::<u8, N, 32>(w, b));
            let mut c = gather_c::<M, N>(w, c, packed);
            mma::f8f6f4(elements, accumulator, &a, &b, &mut c);
            scatter_c(w, d, packed, &c);
        });
        Ok(Flow::Next)
    }))
}

/// Other tensor cores than that of sm_120 do not have these instructions.
fn known(spec: &Spec<'_>) -> Result<(), Refusal> {
    match TensorCore::of(spec.sm) {
        TensorCore::RtxBlackwell => Ok(()),
        TensorCore::Ada | TensorCore::Hopper => Err(spec.gap("this target")),
    }
}

/// Where the scales of an operand are.
#[derive(Clone, Copy)]
struct Selector {
    operand: &'static str,
    /// Scales in a register.
    count: usize,
    /// The number of values of thread-id.
    threads: u32,
}

impl Selector {
    fn valid(self, byte: u32, thread: u32) -> bool {
        byte < 4 && at(byte).is_multiple_of(self.count) && thread < self.threads
    }

    fn wanted(self) -> String {
        let bytes = match self.count {
            1 => "0 to 3",
            2 => "0 or 2",
            _ => "0",
        };
        format!("byte-id {bytes} and thread-id 0 to {}", self.threads - 1)
    }

    /// Constants are checked when the instruction is decoded.
    fn check(self, spec: &Spec<'_>, operand: usize) -> Result<(), Refusal> {
        let Some(Shape::Vector(items)) = spec.operands.get(operand) else { return Ok(()) };
        // A register is checked when it is executed; 0 stands for it here.
        let value = |item: Option<&Shape>| match item {
            Some(Shape::Integer(value)) => u32::try_from(*value).unwrap_or(u32::MAX),
            _ => 0,
        };
        let (byte, thread) = (value(items.first()), value(items.get(1)));
        if self.valid(byte, thread) {
            return Ok(());
        }
        Err(Refusal::Malformed(format!(
            "the scales of {} are at byte {byte}, thread {thread}: expected {}",
            self.operand,
            self.wanted()
        )))
    }

    /// The first byte and the first lane of a group, from the rows of both constants.
    fn read(self, w: &mut Warp<'_, '_>, byte: u32, thread: u32) -> Result<(u32, usize), Flow> {
        let (bytes, threads) = (w.state.regs.w32[at(byte)], w.state.regs.w32[at(thread)]);
        let (byte, thread) = (bytes.0[0], threads.0[0]);
        let other = (0..LANES).find(|&lane| (bytes.0[lane], threads.0[lane]) != (byte, thread));
        if other.is_none() && self.valid(byte, thread) {
            return Ok((byte, at(thread)));
        }
        let (lane, sentence) = match other {
            Some(lane) => (lane, "differ between the lanes of the warp".to_owned()),
            None => (0, format!("are byte-id {byte}, thread-id {thread}: expected {}", self.wanted())),
        };
        let sentence = format!("the constants that select the scales of {} {sentence}", self.operand);
        Err(w.halt_lane(Blame::Kernel, StopKind::Malformed, u32::try_from(lane).unwrap_or(0), sentence))
    }
}

/// The scales of one lane.
fn pick<const S: usize>(words: &Row<u32>, lane: usize, first: u32) -> [u8; S] {
    let bytes = (words.0[lane] >> (8 * first)).to_le_bytes();
    std::array::from_fn(|i| bytes[i])
}

/// The scales of all rows of A and of all columns of B.
type Scales<const S: usize> = ([[u8; S]; M], [[u8; S]; N]);

/// One scaled multiplication with S scales for a row. `check` sees the registers of A and B, and `f` does the arithmetic.
fn scaled<I: Simd, const S: usize>(
    spec: &Spec<'_>,
    check: impl Fn(&mut Warp<'_, '_>, &[u32], &[u32]) -> Result<(), Flow> + Send + Sync + 'static,
    f: impl Fn(&Warp<'_, '_>, &[u32], &[u32], &Scales<S>, &mut [[u32; M]; N]) + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    known(spec)?;
    let selectors =
        (Selector { operand: "A", count: S, threads: 2 }, Selector { operand: "B", count: S, threads: 4 });
    selectors.0.check(spec, 5)?;
    selectors.1.check(spec, 7)?;
    let counts = Counts { d: 4, a: 4, b: 2 };
    let ids = || Slot::SrcVec(vec![Type::U16; 2]);
    let all = slots(4, 4, 2, 4).into_iter().chain([Slot::Src(Type::B32), ids(), Slot::Src(Type::B32), ids()]);
    Ok(Bound::fallible(all, move |w, args: &Args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let (d, a, b, rest) = counts.split(args);
        let (c, rest) = rest.split_at(4);
        let &[a_scale, a_byte, a_thread, b_scale, b_byte, b_thread] = rest else { return Ok(Flow::Next) };
        let (a_byte, a_lane) = selectors.0.read(w, a_byte, a_thread)?;
        let (b_byte, b_lane) = selectors.1.read(w, b_byte, b_thread)?;
        check(w, a, b)?;
        let (a_words, b_words) = (w.state.regs.w32[at(a_scale)], w.state.regs.w32[at(b_scale)]);
        let scales = (
            std::array::from_fn(|m| pick(&a_words, 4 * (m % 8) + 2 * a_lane + m / 8, a_byte)),
            std::array::from_fn(|n| pick(&b_words, 4 * n + b_lane, b_byte)),
        );
        I::vectorize(|| {
            let mut c = gather_c::<M, N>(w, c, false);
            f(w, a, b, &scales, &mut c);
            scatter_c(w, d, false, &c);
        });
        Ok(Flow::Next)
    }))
}

fn mxf8f6f4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (left, right) = (Container::of(spec.get("atype")), Container::of(spec.get("btype")));
    scaled::<I, 1>(
        spec,
        move |w, a, b| {
            left.check(w, "A", a)?;
            right.check(w, "B", b)
        },
        move |w, a, b, scales, c| {
            let a = left.unpack(&gather_a::<u8, M, 32>(w, a));
            let b = right.unpack(&gather_b::<u8, N, 32>(w, b));
            let (rows, columns) = (scales.0.map(|[scale]| scale), scales.1.map(|[scale]| scale));
            scaled::bytes((left.element, right.element), (&rows, &columns), &a, &b, c);
        },
    )
}

/// e2m1 with S scales of a type.
fn nibbles<I: Simd, const S: usize>(spec: &Spec<'_>, scale: Scale) -> Result<Bound, Refusal> {
    scaled::<I, S>(
        spec,
        |_, _, _| Ok(()),
        move |w, a, b, scales, c| {
            let a = widen(&gather_a::<Nibble, M, 64>(w, a));
            let b = widen(&gather_b::<Nibble, N, 64>(w, b));
            scaled::nibbles(scale, (&scales.0, &scales.1), &a, &b, c);
        },
    )
}

fn mxf4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    nibbles::<I, 2>(spec, Scale::Ue8m0)
}

fn nvf4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    nibbles::<I, 4>(spec, if spec.has("ue4m3") { Scale::Ue4m3 } else { Scale::Ue8m0 })
}
