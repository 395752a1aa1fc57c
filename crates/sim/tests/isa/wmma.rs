//! `wmma`: whole kernels that load, multiply and store, in every layout, shape and type; compared with the same products
//! computed by the rule of `mma`.
#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::manual_is_multiple_of,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::{launch, levels, try_eval};
use crate::mma::Matrix;
use warpproof_num::Rounding;
use warpproof_num::float::fma_f64;
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;
use warpproof_sim::{Blame, Buffer, Device, StopKind};

#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    bits: usize,
}

const fn ty(name: &'static str, bits: usize) -> Type {
    Type { name, bits }
}

struct Case {
    shape: (usize, usize, usize),
    a: Type,
    b: Type,
    c: Type,
    /// The modifiers of `wmma.mma` after the layouts and the shape.
    types: String,
    prefix: &'static str,
    layouts: (&'static str, &'static str, &'static str),
    registers: (usize, usize, usize),
    shared: bool,
}

/// Stores a matrix in memory, by row or column, with padding between the lines.
fn memory(matrix: &Matrix, ty: Type, layout: &str) -> (Vec<u8>, usize) {
    let (outer, inner) =
        if layout == "row" { (matrix.rows, matrix.columns) } else { (matrix.columns, matrix.rows) };
    let stride = inner + 128 / ty.bits.max(4);
    let mut bits = vec![0u8; outer * stride * ty.bits / 8 + 64];
    for row in 0..matrix.rows {
        for column in 0..matrix.columns {
            let index = if layout == "row" { row * stride + column } else { column * stride + row };
            let code = matrix.at(row, column);
            for bit in 0..ty.bits {
                let position = index * ty.bits + bit;
                bits[position / 8] |= ((code >> bit & 1) as u8) << (position % 8);
            }
        }
    }
    (bits, stride)
}

fn run(case: &Case, a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let (m, n, k) = case.shape;
    let (a_layout, b_layout, c_layout) = case.layouts;
    let (a_bytes, a_stride) = memory(a, case.a, a_layout);
    let (b_bytes, b_stride) = memory(b, case.b, b_layout);
    let (c_bytes, c_stride) = memory(c, case.c, c_layout);
    let shape = format!("m{m}n{n}k{k}");
    let list = |prefix: &str, count: usize| {
        format!("{{{}}}", (0..count).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", "))
    };
    let class = if case.c.bits == 64 { "b64" } else { "b32" };
    let (ra, rb, rc) = case.registers;
    // C goes through shared memory in some cases, so that both spaces are used.
    let (space, copy) = if case.shared {
        let mut copy = String::new();
        for offset in (0..c_bytes.len().next_multiple_of(4)).step_by(4) {
            copy += &format!("ld.global.u32 %x, [%pc+{offset}]; st.shared.u32 [buffer+{offset}], %x;\n");
        }
        (".shared", copy + "bar.warp.sync -1; mov.u64 %pc, buffer;\n")
    } else {
        (".global", String::new())
    };
    let text = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
        .reg .{class} %a<8>, %b<8>, %c<8>, %d<8>; .reg .b64 %pa, %pb, %pc, %pd; .reg .b32 %x;
        .shared .align 32 .b8 buffer[{}];
        ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %pd, [d];
        {copy}
        wmma.load.a.sync.aligned.{a_layout}.{shape}.{} {}, [%pa], {a_stride};
        wmma.load.b.sync.aligned.{b_layout}.{shape}.global.{} {}, [%pb], {b_stride};
        wmma.load.c.sync.aligned.{c_layout}.{shape}{space}.{} {}, [%pc], {c_stride};
        wmma.mma{}.sync.aligned.{a_layout}.{b_layout}.{shape}.{} {}, {}, {}, {};
        wmma.store.d.sync.aligned.{c_layout}.{shape}.global.{} [%pd], {}, {c_stride};
        ret; }}",
        c_bytes.len().next_multiple_of(4),
        case.a.name, list("a", ra),
        case.b.name, list("b", rb),
        case.c.name, list("c", rc),
        case.prefix, case.types, list("d", rc), list("a", ra), list("b", rb), list("c", rc),
        case.c.name, list("d", rc),
    );
    let mut results = Vec::new();
    for level in levels() {
        let mut device = Device::new().with_level(level).with_threads(1);
        let module = device.load(&text).unwrap_or_else(|stop| panic!("{stop}\n{text}"));
        let [pa, pb, pc]: [Buffer<u8>; 3] =
            [&a_bytes, &b_bytes, &c_bytes].map(|bytes| device.upload(bytes).unwrap());
        let pd: Buffer<u8> = device.alloc(c_bytes.len()).unwrap();
        let prepared = module.kernel("k").unwrap().launch().block(32).arg(pa).arg(pb).arg(pc).arg(pd);
        if let Some(stop) = launch(&mut device, &prepared).stop {
            panic!("{stop}\n{text}");
        }
        let bytes = device.read(&pd).unwrap();
        let width = case.c.bits / 8;
        let mut element = (0..m * n).map(|i| {
            let (row, column) = (i / n, i % n);
            let index = if c_layout == "row" { row * c_stride + column } else { column * c_stride + row };
            (0..width).fold(0u64, |value, byte| value | u64::from(bytes[index * width + byte]) << (8 * byte))
        });
        results.push(Matrix::new(m, n, || element.next().unwrap()).codes);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "results differ between levels");
    Matrix { rows: m, columns: n, codes: results.swap_remove(0) }
}

fn each_layout(f: impl Fn((&'static str, &'static str, &'static str), bool)) {
    for (i, a) in ["row", "col"].into_iter().enumerate() {
        for b in ["row", "col"] {
            f((a, b, if i == 0 { "row" } else { "col" }), i == 0);
        }
    }
}

fn check(case: &Case, a: &Matrix, b: &Matrix, c: &Matrix, expected: impl Fn(usize, usize) -> u64) {
    let d = run(case, a, b, c);
    for row in 0..case.shape.0 {
        for column in 0..case.shape.1 {
            assert_eq!(d.at(row, column), expected(row, column), "{} at ({row}, {column})", case.types);
        }
    }
}

fn line(matrix: &Matrix, row: usize) -> Vec<u32> {
    (0..matrix.columns).map(|k| u32::try_from(matrix.at(row, k)).unwrap()).collect()
}

fn upright(matrix: &Matrix, column: usize) -> Vec<u32> {
    (0..matrix.rows).map(|k| u32::try_from(matrix.at(k, column)).unwrap()).collect()
}

fn small_float(random: &mut SplitMix) -> f32 {
    ((random.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0) as f32
}

fn f16_code(value: f32) -> u64 {
    u64::from(warpproof_num::convert::cvt_f16_f32(value.to_bits(), Rounding::Rn, false))
}

const SHAPES: [(usize, usize, usize); 3] = [(16, 16, 16), (32, 8, 16), (8, 32, 16)];

#[test]
fn half_precision() {
    for shape in SHAPES {
        each_layout(|layouts, shared| {
            for f16 in [false, true] {
                for sat in ["", ".satfinite"] {
                    let mut random = SplitMix(5);
                    let a = Matrix::new(shape.0, shape.2, || f16_code(small_float(&mut random)));
                    let b = Matrix::new(shape.2, shape.1, || f16_code(small_float(&mut random)));
                    let c = Matrix::new(shape.0, shape.1, || {
                        let value = small_float(&mut random);
                        if f16 { f16_code(value) } else { u64::from(value.to_bits()) }
                    });
                    let c_type = if f16 { ty("f16", 16) } else { ty("f32", 32) };
                    let case = Case {
                        shape,
                        a: ty("f16", 16),
                        b: ty("f16", 16),
                        c: c_type,
                        types: format!("{0}.{0}{sat}", c_type.name),
                        prefix: "",
                        layouts,
                        registers: (8, 8, if f16 { 4 } else { 8 }),
                        shared,
                    };
                    let accumulator = if f16 { Accumulator::F16 } else { Accumulator::F32 };
                    let rule = Rule::of(TensorCore::Ada, Element::F16, accumulator);
                    check(&case, &a, &b, &c, |row, column| {
                        let c = u32::try_from(c.at(row, column)).unwrap();
                        let types = (Element::F16, Element::F16);
                        u64::from(dot(&rule, types, accumulator, &line(&a, row), &upright(&b, column), c))
                    });
                }
            }
        });
    }
}

#[test]
fn bf16_and_tf32() {
    for shape in SHAPES {
        each_layout(|layouts, shared| {
            let registers = (shape.0 / 4, shape.1 / 4, 8);
            float32(shape, ty("bf16", 16), Element::Bf16, layouts, registers, shared);
        });
    }
    each_layout(|layouts, shared| {
        float32((16, 16, 8), ty("tf32", 32), Element::Tf32, layouts, (4, 4, 8), shared);
    });
}

fn float32(
    shape: (usize, usize, usize),
    operand: Type,
    element: Element,
    layouts: (&'static str, &'static str, &'static str),
    registers: (usize, usize, usize),
    shared: bool,
) {
    let mut random = SplitMix(6);
    let mut code = || u64::from(small_float(&mut random).to_bits() >> (32 - operand.bits));
    let a = Matrix::new(shape.0, shape.2, &mut code);
    let b = Matrix::new(shape.2, shape.1, &mut code);
    let c = Matrix::new(shape.0, shape.1, || u64::from(small_float(&mut random).to_bits()));
    let name = operand.name;
    let case = Case {
        shape,
        a: operand,
        b: operand,
        c: ty("f32", 32),
        types: format!("f32.{name}.{name}.f32"),
        prefix: "",
        layouts,
        registers,
        shared,
    };
    let rule = Rule::of(TensorCore::Ada, element, Accumulator::F32);
    check(&case, &a, &b, &c, |row, column| {
        let c = u32::try_from(c.at(row, column)).unwrap();
        u64::from(dot(&rule, (element, element), Accumulator::F32, &line(&a, row), &upright(&b, column), c))
    });
}

#[test]
fn integers() {
    for shape in SHAPES {
        each_layout(|layouts, shared| {
            for (a, b) in [("s8", "s8"), ("u8", "u8")] {
                for sat in ["", ".satfinite"] {
                    let registers = (shape.0 / 8, shape.1 / 8, 8);
                    int_case(shape, ty(a, 8), ty(b, 8), sat, layouts, registers, shared);
                }
            }
        });
    }
    for (a, b) in [("s4", "s4"), ("u4", "u4")] {
        for sat in ["", ".satfinite"] {
            for c in ["row", "col"] {
                int_case((8, 8, 32), ty(a, 4), ty(b, 4), sat, ("row", "col", c), (1, 1, 2), c == "row");
            }
        }
    }
}

fn int_case(
    shape: (usize, usize, usize),
    a_type: Type,
    b_type: Type,
    sat: &str,
    layouts: (&'static str, &'static str, &'static str),
    registers: (usize, usize, usize),
    shared: bool,
) {
    let mut random = SplitMix(8);
    let mask = (1u64 << a_type.bits) - 1;
    let a = Matrix::new(shape.0, shape.2, || random.next() & mask);
    let b = Matrix::new(shape.2, shape.1, || random.next() & mask);
    let c = Matrix::new(shape.0, shape.1, || {
        if random.next() % 3 == 0 { 0x7fff_ff00 } else { random.next() & 0xffff_ffff }
    });
    let case = Case {
        shape,
        a: a_type,
        b: b_type,
        c: ty("s32", 32),
        types: format!("s32.{}.{}.s32{sat}", a_type.name, b_type.name),
        prefix: "",
        layouts,
        registers,
        shared,
    };
    let value = |code: u64, ty: Type| {
        let unused = 64 - ty.bits;
        if ty.name.starts_with('s') { (code << unused).cast_signed() >> unused } else { code.cast_signed() }
    };
    check(&case, &a, &b, &c, |row, column| {
        let sum: i64 =
            (0..shape.2).map(|k| value(a.at(row, k), a_type) * value(b.at(k, column), b_type)).sum();
        let total = sum + value(c.at(row, column), ty("s32", 32));
        let total =
            if sat.is_empty() { total } else { total.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) };
        total.cast_unsigned() & 0xffff_ffff
    });
}

#[test]
fn single_bits() {
    for (op, prefix) in [("xor", ".xor.popc"), ("and", ".and.popc")] {
        for layout in ["row", "col"] {
            let mut random = SplitMix(2);
            let a = Matrix::new(8, 128, || random.next() & 1);
            let b = Matrix::new(128, 8, || random.next() & 1);
            let c = Matrix::new(8, 8, || random.next() & 0xffff);
            let case = Case {
                shape: (8, 8, 128),
                a: ty("b1", 1),
                b: ty("b1", 1),
                c: ty("s32", 32),
                types: "s32.b1.b1.s32".into(),
                prefix,
                layouts: ("row", "col", layout),
                registers: (1, 1, 2),
                shared: layout == "row",
            };
            check(&case, &a, &b, &c, |row, column| {
                let both = |k: usize| {
                    if op == "xor" { a.at(row, k) ^ b.at(k, column) } else { a.at(row, k) & b.at(k, column) }
                };
                c.at(row, column) + (0..128).map(both).sum::<u64>()
            });
        }
    }
}

#[test]
fn double_precision() {
    for (rnd, rounding) in
        [("", Rounding::Rn), (".rz", Rounding::Rz), (".rm", Rounding::Rm), (".rp", Rounding::Rp)]
    {
        each_layout(|layouts, _| {
            let mut random = SplitMix(4);
            let mut code = || f64::from(small_float(&mut random)).sqrt().abs().to_bits() & !(1 << 63);
            let a = Matrix::new(8, 4, &mut code);
            let b = Matrix::new(4, 8, &mut code);
            let c = Matrix::new(8, 8, &mut code);
            let case = Case {
                shape: (8, 8, 4),
                a: ty("f64", 64),
                b: ty("f64", 64),
                c: ty("f64", 64),
                types: format!(
                    "{}f64.f64.f64.f64",
                    rnd.trim_start_matches('.').to_owned() + if rnd.is_empty() { "" } else { "." }
                ),
                prefix: "",
                layouts,
                registers: (1, 1, 2),
                shared: false,
            };
            check(&case, &a, &b, &c, |row, column| {
                (0..4).fold(c.at(row, column), |sum, k| fma_f64(a.at(row, k), b.at(k, column), sum, rounding))
            });
        });
    }
}

#[test]
fn matrices_in_memory_are_aligned() {
    let stop = |instruction: &str| {
        let body = format!(
            ".reg .b32 %r<8>; .reg .b64 %q<2>; .shared .align 32 .b8 buffer[4096]; mov.b32 %d0, 0; {instruction}"
        );
        try_eval(levels()[0], &body, &["b32"], &[("b32", vec![0])]).err()
    };
    let eight = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}";
    let f16 = |address: &str, stride: u32| {
        stop(&format!("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {eight}, [{address}], {stride};"))
    };
    assert!(f16("buffer+32", 16).is_none() && f16("buffer", 24).is_none());
    let misaligned = f16("buffer+16", 16).unwrap();
    assert_eq!((misaligned.blame, misaligned.kind), (Blame::Kernel, StopKind::Alignment));
    assert_eq!(
        misaligned.sentence,
        "a matrix of .f16 at shared address 0x10: not a multiple of 32, the bytes of a fragment"
    );
    let uneven = f16("buffer", 20).unwrap();
    assert_eq!((uneven.blame, uneven.kind), (Blame::Kernel, StopKind::Alignment));
    assert_eq!(uneven.sentence, "a matrix of .f16 with a stride of 20 elements: not a multiple of 16 bytes");
    // Smaller fragments require less alignment.
    let u8s = |address: &str, stride: u32| {
        stop(&format!(
            "wmma.load.b.sync.aligned.col.m16n16k16.shared.u8 {{%r0, %r1}}, [{address}], {stride};"
        ))
    };
    assert!(u8s("buffer+8", 24).is_none());
    assert!(u8s("buffer+4", 16).is_some() && u8s("buffer", 20).is_some());
    let stored = |address: &str, stride: u32| {
        stop(&format!("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [{address}], {eight}, {stride};"))
    };
    assert!(stored("buffer", 20).is_none());
    assert!(stored("buffer+16", 16).is_some() && stored("buffer", 18).is_some());
    let f64s = |address: &str, stride: u32| {
        stop(&format!("wmma.load.c.sync.aligned.row.m8n8k4.shared.f64 {{%q0, %q1}}, [{address}], {stride};"))
    };
    assert!(f64s("buffer+16", 10).is_none());
    assert!(f64s("buffer+8", 8).is_some() && f64s("buffer", 9).is_some());
}
