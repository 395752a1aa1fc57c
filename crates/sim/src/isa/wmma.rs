//! `wmma`: the portable matrix instructions. Fragments have the layout of `mma`, so both compute the same bits.
//!
//! A matrix in memory must be aligned. The PTX manual requires each row (or column, for column-major matrices) to be
//! aligned to the size of a thread's fragment. The CUDA C++ guide requires the same of the first row, but of the stride
//! only that it is a multiple of 16 bytes. Kernels rely on the latter, so the weaker requirement applies to the stride.

use super::memory::space_of;
use super::mma::{convert_c, int_elements, multiply, multiply_f64, on_core, rounding, widen};
use super::tile::{Nibble, a_registers, b_registers, place_a, place_b, place_c};
use super::{Args, Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::machine::{Flow, LANES, Row, Type, Warp, Width, at, lanes_of};
use crate::memory::Space;
use crate::simd::Simd;
use crate::stop::{Blame, StopKind};
use crate::{bind, bind_plain};
use warpproof_num::mma::{self, Accumulator, BitOp, TensorCore};

macro_rules! load_form {
    ($matrix:literal, $shapes:literal, $types:literal) => {
        concat!(
            "wmma.load.",
            $matrix,
            ".sync{.aligned}.layout.shape{.ss}.type r, [p], stride; .layout = .row .col; .shape = ",
            $shapes,
            "; .ss = .global .shared .shared::cta; .type = ",
            $types
        )
    };
}

macro_rules! load_op {
    ($matrix:literal, $shapes:literal, $types:literal, $since:expr) => {
        Definition {
            form: load_form!($matrix, $shapes, $types),
            manual: "warp-level-matrix-instructions-wmma-ld",
            unit: Unit::Lsu,
            since: $since,
            bind: bind_plain!(load),
        }
    };
}

/// Elements smaller than a byte have only one layout.
macro_rules! sub_byte_op {
    ($matrix:literal, $layout:literal, $shape:literal, $types:literal) => {
        Definition {
            form: concat!(
                "wmma.load.",
                $matrix,
                ".sync{.aligned}.",
                $layout,
                $shape,
                "{.ss}.type r, [p], stride; .ss = .global .shared .shared::cta; .type = ",
                $types
            ),
            manual: "warp-level-matrix-instructions-wmma-ld",
            unit: Unit::Lsu,
            since: (6, 3, 75),
            bind: bind_plain!(load),
        }
    };
}

const MANUAL: &str = "warp-level-matrix-instructions-wmma-mma";

macro_rules! mma_op {
    ($form:literal, $since:expr, $bind:ident) => {
        Definition { form: $form, manual: MANUAL, unit: Unit::Tensor, since: $since, bind: bind!($bind) }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    load_op!("a", ".m16n16k16 .m8n32k16 .m32n8k16", ".f16 .bf16 .u8 .s8", (6, 0, 70)),
    load_op!("b", ".m16n16k16 .m8n32k16 .m32n8k16", ".f16 .bf16 .u8 .s8", (6, 0, 70)),
    load_op!("c", ".m16n16k16 .m8n32k16 .m32n8k16", ".f16 .f32 .s32", (6, 0, 70)),
    load_op!("a", ".m16n16k8", ".tf32", (7, 0, 80)),
    load_op!("b", ".m16n16k8", ".tf32", (7, 0, 80)),
    load_op!("c", ".m16n16k8", ".f32", (7, 0, 80)),
    load_op!("a", ".m8n8k4", ".f64", (7, 0, 80)),
    load_op!("b", ".m8n8k4", ".f64", (7, 0, 80)),
    load_op!("c", ".m8n8k4", ".f64", (7, 0, 80)),
    sub_byte_op!("a", "row", ".m8n8k32", ".u4 .s4"),
    sub_byte_op!("b", "col", ".m8n8k32", ".u4 .s4"),
    sub_byte_op!("a", "row", ".m8n8k128", ".b1"),
    sub_byte_op!("b", "col", ".m8n8k128", ".b1"),
    load_op!("c", ".m8n8k32 .m8n8k128", ".s32", (6, 3, 75)),
    Definition {
        form: "wmma.store.d.sync{.aligned}.layout.shape{.ss}.type [p], r, stride; .layout = .row .col; .shape = .m16n16k16 .m8n32k16 .m32n8k16; .ss = .global .shared .shared::cta; .type = .f16 .f32 .s32",
        manual: "warp-level-matrix-instructions-wmma-st",
        unit: Unit::Lsu,
        since: (6, 0, 70),
        bind: bind_plain!(store),
    },
    Definition {
        form: "wmma.store.d.sync{.aligned}.layout.m16n16k8{.ss}.f32 [p], r, stride; .layout = .row .col; .ss = .global .shared .shared::cta",
        manual: "warp-level-matrix-instructions-wmma-st",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(store),
    },
    Definition {
        form: "wmma.store.d.sync{.aligned}.layout.m8n8k4{.ss}.f64 [p], r, stride; .layout = .row .col; .ss = .global .shared .shared::cta",
        manual: "warp-level-matrix-instructions-wmma-st",
        unit: Unit::Lsu,
        since: (7, 0, 80),
        bind: bind_plain!(store),
    },
    Definition {
        form: "wmma.store.d.sync{.aligned}.layout.shape{.ss}.s32 [p], r, stride; .layout = .row .col; .shape = .m8n8k32 .m8n8k128; .ss = .global .shared .shared::cta",
        manual: "warp-level-matrix-instructions-wmma-st",
        unit: Unit::Lsu,
        since: (6, 3, 75),
        bind: bind_plain!(store),
    },
    mma_op!(
        "wmma.mma.sync{.aligned}.alayout.blayout.shape.dtype.ctype{.satfinite} d, a, b, c; .alayout = .row .col; .blayout = .row .col; .shape = .m16n16k16 .m8n32k16 .m32n8k16; .dtype = .f16 .f32; .ctype = .f16 .f32",
        (6, 0, 70),
        f16
    ),
    mma_op!(
        "wmma.mma.sync{.aligned}.alayout.blayout.shape.f32.bf16.bf16.f32 d, a, b, c; .alayout = .row .col; .blayout = .row .col; .shape = .m16n16k16 .m8n32k16 .m32n8k16",
        (7, 0, 80),
        bf16
    ),
    mma_op!(
        "wmma.mma.sync{.aligned}.alayout.blayout.m16n16k8.f32.tf32.tf32.f32 d, a, b, c; .alayout = .row .col; .blayout = .row .col",
        (7, 0, 80),
        tf32
    ),
    mma_op!(
        "wmma.mma.sync{.aligned}.alayout.blayout.shape.s32.atype.btype.s32{.satfinite} d, a, b, c; .alayout = .row .col; .blayout = .row .col; .shape = .m16n16k16 .m8n32k16 .m32n8k16; .atype = .u8 .s8; .btype = .u8 .s8",
        (6, 3, 72),
        int8
    ),
    mma_op!(
        "wmma.mma.sync{.aligned}.row.col.m8n8k32.s32.atype.btype.s32{.satfinite} d, a, b, c; .atype = .u4 .s4; .btype = .u4 .s4",
        (6, 3, 75),
        int4
    ),
    mma_op!(
        "wmma.mma.op.popc.sync{.aligned}.row.col.m8n8k128.s32.b1.b1.s32 d, a, b, c; .op = .xor .and",
        (6, 3, 75),
        single_bit
    ),
    mma_op!(
        "wmma.mma.sync{.aligned}.alayout.blayout.m8n8k4{.rnd}.f64.f64.f64.f64 d, a, b, c; .alayout = .row .col; .blayout = .row .col; .rnd = .rn .rz .rm .rp",
        (7, 0, 80),
        f64
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Matrix {
    A,
    B,
    C,
}

/// The location of a fragment's pieces in memory: for each register, each lane's (row, column) and the number of elements.
struct Transfer {
    matrix: Matrix,
    m: usize,
    n: usize,
    k: usize,
    ty: &'static str,
    by_row: bool,
    space: Space,
    registers: usize,
}

fn shape(name: &str) -> (usize, usize, usize) {
    let mut numbers = name[1..].split(['n', 'k']).map(|part| part.parse().unwrap_or(8));
    let mut next = || numbers.next().unwrap_or(8);
    (next(), next(), next())
}

fn transfer(spec: &Spec<'_>) -> Transfer {
    let text = spec.modifiers.form().text;
    let matrix = if text.starts_with("wmma.load.a") {
        Matrix::A
    } else if text.starts_with("wmma.load.b") {
        Matrix::B
    } else {
        Matrix::C
    };
    let fixed = |names: &[&'static str]| names.iter().find(|name| spec.has(name)).copied();
    let (m, n, k) = shape(
        spec.get("shape")
            .or_else(|| fixed(&["m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128"]))
            .unwrap_or("m16n16k16"),
    );
    let ty = spec.get("type").or_else(|| fixed(&["f32", "f64", "s32"])).unwrap_or("f32");
    let natural = match (matrix, ty) {
        (Matrix::C, "f16") => m * n / LANES / 2,
        (Matrix::C, _) => m * n / LANES,
        (Matrix::A, "f16" | "bf16") => a_registers::<u16>(m, k),
        (Matrix::A, "u8" | "s8") => a_registers::<u8>(m, k),
        (Matrix::A, "tf32") => a_registers::<u32>(m, k),
        (Matrix::B, "f16" | "bf16") => b_registers::<u16>(n, k),
        (Matrix::B, "u8" | "s8") => b_registers::<u8>(n, k),
        (Matrix::B, "tf32") => b_registers::<u32>(n, k),
        _ => 1,
    };
    // f16 fragments have eight registers for any shape: the hardware of the first architecture kept copies.
    let registers = if ty == "f16" && matrix != Matrix::C { 8 } else { natural };
    let by_row = spec.get("layout") == Some("row") || spec.has("row");
    Transfer { matrix, m, n, k, ty, by_row, space: space_of(spec.get("ss")), registers }
}

impl Transfer {
    /// Bits of an element.
    fn bits(&self) -> u64 {
        match self.ty {
            "f64" => 64,
            "f32" | "s32" | "tf32" => 32,
            "f16" | "bf16" => 16,
            "u8" | "s8" => 8,
            "u4" | "s4" => 4,
            _ => 1,
        }
    }

    fn width(&self) -> Width {
        if self.ty == "f64" { Width::W64 } else { Width::W32 }
    }

    /// Row and column of the first element a lane holds in a register, and how many it holds along k (or along the row,
    /// for packed accumulators).
    fn place(&self, register: usize, lane: usize) -> (usize, usize, usize) {
        let (m, n, k) = (self.m, self.n, self.k);
        let (g, t) = (lane / 4, lane % 4);
        match (self.matrix, self.ty) {
            (Matrix::C, "f64") => (g, 2 * t + register, 1),
            (Matrix::C, "f16") => {
                let (row, column) = place_c(m, n, 2 * register, lane);
                (row, column, 2)
            }
            (Matrix::C, _) => {
                let (row, column) = place_c(m, n, register, lane);
                (row, column, 1)
            }
            (Matrix::A, "f16" | "bf16") => {
                let (row, column) = place_a::<u16>(m, k, register % a_registers::<u16>(m, k), lane);
                (row, column, 2)
            }
            (Matrix::A, "u8" | "s8") => {
                let (row, column) = place_a::<u8>(m, k, register, lane);
                (row, column, 4)
            }
            (Matrix::A, "tf32") => {
                let (row, column) = place_a::<u32>(m, k, register, lane);
                (row, column, 1)
            }
            (Matrix::A, "u4" | "s4") => (g, 8 * t, 8),
            (Matrix::A, "f64") => (g, t, 1),
            (Matrix::A, _) => (g, 32 * t, 32),
            (Matrix::B, "f16" | "bf16") => {
                let (row, column) = place_b::<u16>(k, register % b_registers::<u16>(n, k), lane);
                (row, column, 2)
            }
            (Matrix::B, "u8" | "s8") => {
                let (row, column) = place_b::<u8>(k, register, lane);
                (row, column, 4)
            }
            (Matrix::B, "tf32") => {
                let (row, column) = place_b::<u32>(k, register, lane);
                (row, column, 1)
            }
            (Matrix::B, "u4" | "s4") => (8 * t, g, 8),
            (Matrix::B, "f64") => (t, g, 1),
            (Matrix::B, _) => (32 * t, g, 32),
        }
    }

    /// Whether the elements of a register are neighbors in memory.
    fn together(&self) -> bool {
        let along_row = self.matrix != Matrix::B;
        along_row == self.by_row || self.place(0, 0).2 == 1
    }

    fn default_stride(&self) -> u64 {
        let columns = match self.matrix {
            Matrix::A if self.by_row => self.k,
            Matrix::B if !self.by_row => self.k,
            Matrix::B | Matrix::C if self.by_row => self.n,
            _ => self.m,
        };
        u64::try_from(columns).unwrap_or(0)
    }

    /// Stops unless the matrix has the alignment that the manual requires.
    fn check(&self, w: &mut Warp<'_, '_>, base: &Row<u64>, stride: &Row<u64>) -> Result<(), Flow> {
        let register = if self.width() == Width::W64 { 8 } else { 4 };
        let fragment = register * u64::try_from(self.registers).unwrap_or(1);
        let step = fragment.min(16);
        for lane in lanes_of(w.exec) {
            let sentence = if !base.0[lane].is_multiple_of(fragment) {
                format!(
                    "a matrix of .{} at {} address {:#x}: not a multiple of {fragment}, the bytes of a fragment",
                    self.ty,
                    self.space.name(),
                    base.0[lane]
                )
            } else if !stride.0[lane].wrapping_mul(self.bits()).is_multiple_of(8 * step) {
                format!(
                    "a matrix of .{} with a stride of {} elements: not a multiple of {step} bytes",
                    self.ty, stride.0[lane]
                )
            } else {
                continue;
            };
            let lane = u32::try_from(lane).unwrap_or(0);
            return Err(w.halt_lane(Blame::Kernel, StopKind::Alignment, lane, sentence));
        }
        Ok(())
    }

    /// The addresses of element `e` of a register in each lane.
    fn addresses(&self, base: &Row<u64>, stride: &Row<u64>, register: usize, e: usize) -> Row<u64> {
        let mut out = Row([0; LANES]);
        for lane in 0..LANES {
            let (row, column, _) = self.place(register, lane);
            let (row, column) = if self.matrix == Matrix::B { (row + e, column) } else { (row, column + e) };
            let (outer, inner) = if self.by_row { (row, column) } else { (column, row) };
            let wide = |n: usize| u64::try_from(n).unwrap_or(0);
            let element = wide(outer).wrapping_mul(stride.0[lane]).wrapping_add(wide(inner));
            out.0[lane] = base.0[lane].wrapping_add(element.wrapping_mul(self.bits()) / 8);
        }
        out
    }
}

/// The stride of each lane: the third operand, or the matrix's own width.
fn strides(w: &Warp<'_, '_>, given: Option<u32>, transfer: &Transfer) -> Row<u64> {
    let mut out = Row::splat(transfer.default_stride());
    if let Some(row) = given {
        for (out, value) in out.0.iter_mut().zip(w.state.regs.w32[at(row)].0) {
            *out = u64::from(value);
        }
    }
    out
}

fn load(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let transfer = transfer(spec);
    let mut slots = vec![Slot::DstVec(vec![transfer.width(); transfer.registers]), Slot::Address];
    if spec.operands.len() > 2 {
        slots.push(Slot::Src(Type::U32));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let stride = strides(w, args.all.get(transfer.registers).copied(), &transfer);
        let base = w.addresses(args.at[0]);
        transfer.check(w, &base, &stride)?;
        for register in 0..transfer.registers {
            let target = args.all[register];
            if transfer.ty == "f64" {
                let addresses = transfer.addresses(&base, &stride, register, 0);
                let [low, high] = w.load_at(transfer.space, &addresses, 8)?;
                let mut value = Row([0u64; LANES]);
                for lane in 0..LANES {
                    value.0[lane] = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
                }
                super::map::merge(&mut w.state.regs.w64[at(target)], &value, w.exec);
                continue;
            }
            let value = load_register(w, &transfer, &base, &stride, register)?;
            super::map::merge(&mut w.state.regs.w32[at(target)], &value, w.exec);
        }
        Ok(Flow::Next)
    }))
}

fn load_register(
    w: &mut Warp<'_, '_>,
    transfer: &Transfer,
    base: &Row<u64>,
    stride: &Row<u64>,
    register: usize,
) -> Result<Row<u32>, Flow> {
    if transfer.together() {
        let addresses = transfer.addresses(base, stride, register, 0);
        let [value] = w.load_at(transfer.space, &addresses, 4)?;
        return Ok(value);
    }
    let bits = u32::try_from(transfer.bits()).unwrap_or(32);
    let mut value = Row([0u32; LANES]);
    for e in 0..at(32 / bits) {
        let addresses = transfer.addresses(base, stride, register, e);
        let [part] = w.load_at(transfer.space, &addresses, bits / 8)?;
        for lane in 0..LANES {
            value.0[lane] |= part.0[lane] << (bits * u32::try_from(e).unwrap_or(0));
        }
    }
    Ok(value)
}

fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let transfer = transfer(spec);
    let source = if transfer.ty == "f64" { Type::F64 } else { Type::B32 };
    let mut slots = vec![Slot::Address, Slot::SrcVec(vec![source; transfer.registers])];
    if spec.operands.len() > 2 {
        slots.push(Slot::Src(Type::U32));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        if !w.gather_warp() {
            return Ok(Flow::Wait);
        }
        let stride = strides(w, args.all.get(transfer.registers).copied(), &transfer);
        let base = w.addresses(args.at[0]);
        transfer.check(w, &base, &stride)?;
        for register in 0..transfer.registers {
            store_register(w, args, &transfer, &base, &stride, register)?;
        }
        Ok(Flow::Next)
    }))
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the halves of a 64-bit value")]
fn store_register(
    w: &mut Warp<'_, '_>,
    args: &Args,
    transfer: &Transfer,
    base: &Row<u64>,
    stride: &Row<u64>,
    register: usize,
) -> Result<(), Flow> {
    let source = at(args.all[register]);
    if transfer.ty == "f64" {
        let value = w.state.regs.w64[source];
        let mut words = [Row([0u32; LANES]); 2];
        for lane in 0..LANES {
            words[0].0[lane] = value.0[lane] as u32;
            words[1].0[lane] = (value.0[lane] >> 32) as u32;
        }
        let addresses = transfer.addresses(base, stride, register, 0);
        return w.store_at(transfer.space, &addresses, 8, &words);
    }
    let value = w.state.regs.w32[source];
    if transfer.together() {
        let addresses = transfer.addresses(base, stride, register, 0);
        return w.store_at(transfer.space, &addresses, 4, &[value]);
    }
    for e in 0..2 {
        let addresses = transfer.addresses(base, stride, register, e);
        let mut part = Row([0u32; LANES]);
        for lane in 0..LANES {
            part.0[lane] = value.0[lane] >> (16 * e) & 0xffff;
        }
        w.store_at(transfer.space, &addresses, 2, &[part])?;
    }
    Ok(())
}

/// A result beyond f16's or f32's range becomes the largest finite number.
#[inline(always)]
fn satfinite<const M: usize, const N: usize>(c: &mut [[u32; M]; N], f16: bool) {
    for value in c.iter_mut().flatten() {
        let (sign, infinity) = if f16 { (0x8000, 0x7c00) } else { (0x8000_0000, 0x7f80_0000) };
        if *value & !sign == infinity {
            *value -= 1;
        } else if *value & (sign - 1) > infinity {
            *value = 0;
        }
    }
}

fn f16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (c, d) = (spec.get("ctype") == Some("f16"), spec.get("dtype") == Some("f16"));
    let accumulator = if d { Accumulator::F16 } else { Accumulator::F32 };
    let sat = spec.has("satfinite");
    macro_rules! shape {
        ($m:literal, $n:literal) => {
            on_core!(spec, CORE => multiply::<I, u16, $m, $n, 16>((c, d), Some(8), move |a, b, m| {
                convert_c(m, c, accumulator);
                mma::f16(CORE, accumulator, a, b, m);
                if sat {
                    satfinite(m, d);
                }
            }))
        };
    }
    Ok(match spec.get("shape") {
        Some("m8n32k16") => shape!(8, 32),
        Some("m32n8k16") => shape!(32, 8),
        _ => shape!(16, 16),
    })
}

fn bf16<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    macro_rules! shape {
        ($m:literal, $n:literal) => {
            on_core!(spec, CORE => {
                multiply::<I, u16, $m, $n, 16>((false, false), None, |a, b, m| mma::bf16(CORE, a, b, m))
            })
        };
    }
    Ok(match spec.get("shape") {
        Some("m8n32k16") => shape!(8, 32),
        Some("m32n8k16") => shape!(32, 8),
        _ => shape!(16, 16),
    })
}

/// On every generation this is two multiplications of four columns of A each.
fn tf32<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(on_core!(spec, CORE => multiply::<I, u32, 16, 16, 8>((false, false), None, |a, b, m| {
        for part in 0..2 {
            let a: &[[u32; 16]; 4] = &std::array::from_fn(|k| a[4 * part + k]);
            let b: &[[u32; 4]; 16] = &std::array::from_fn(|n| std::array::from_fn(|k| b[n][4 * part + k]));
            mma::tf32(CORE, a, b, m);
        }
    })))
}

fn int8<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    macro_rules! shape {
        ($m:literal, $n:literal) => {
            multiply::<I, u8, $m, $n, 16>((false, false), None, move |a, b, m| {
                mma::integer(elements, sat, a, b, m)
            })
        };
    }
    Ok(match spec.get("shape") {
        Some("m8n32k16") => shape!(8, 32),
        Some("m32n8k16") => shape!(32, 8),
        _ => shape!(16, 16),
    })
}

fn int4<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let (elements, sat) = (int_elements(spec), spec.has("satfinite"));
    Ok(multiply::<I, Nibble, 8, 8, 32>((false, false), None, move |a, b, m| {
        mma::integer(elements, sat, &widen(a), &widen(b), m);
    }))
}

fn single_bit<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let op = if spec.get("op") == Some("and") { BitOp::And } else { BitOp::Xor };
    Ok(multiply::<I, u32, 8, 8, 4>((false, false), None, move |a, b, m| mma::bits(op, a, b, m)))
}

fn f64<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(multiply_f64::<I, 8, 4>(rounding(spec)))
}
