//! `wgmma`: kernels that multiply matrices in shared memory, in every layout, shape and type; compared with golden data and
//! with the rule for one output at a time.
#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::{launch, levels};
use crate::mma::{Matrix, a_place, code};
use crate::vectors::{captures, cases_of, committed, full};
use std::path::Path;
use warpproof_num::mma::rule::{Accumulator, Element, Rule, TensorCore, dot};
use warpproof_num::random::SplitMix;
use warpproof_sim::simd::Level;
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

/// Bytes of shared memory: A in the first 8 KiB, B behind it.
const SHARED: usize = 40 << 10;
const B_START: usize = 8 << 10;

#[derive(Clone)]
pub(crate) struct Case {
    /// `m64n8k16.f32.f16.f16`, with modifiers between the shape and the types, and behind them.
    pub(crate) op: String,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Bits of an element of A and B.
    pub(crate) bits: usize,
    pub(crate) packed: bool,
    /// Swizzle of the descriptors, 0 to 3.
    pub(crate) swizzle: u64,
    pub(crate) transposed: (bool, bool),
    pub(crate) registers: bool,
    /// The operand `scale-d`, and the immediates that follow `scale-d`.
    pub(crate) scale: &'static str,
    pub(crate) negated: (bool, bool),
    /// The selector and the metadata of each thread, if A is sparse.
    pub(crate) sparse: Option<(u32, Vec<u32>)>,
}

impl Case {
    pub(crate) fn new(op: &str) -> Case {
        let sizes: Vec<usize> = op
            .split('.')
            .next()
            .unwrap()
            .split(['m', 'n', 'k'])
            .filter_map(|size| size.parse().ok())
            .collect();
        Case {
            op: op.to_owned(),
            n: sizes[1],
            k: sizes[2],
            bits: 256 / sizes[2],
            packed: op.contains(".f16.") && !op.contains(".f32."),
            swizzle: 0,
            transposed: (false, false),
            registers: false,
            scale: "1",
            negated: (false, false),
            sparse: None,
        }
    }

    /// With a sparse A.
    pub(crate) fn sparse(op: &str, selector: u32, metadata: Vec<u32>) -> Case {
        let case = Case::new(op);
        Case { bits: 2 * case.bits, sparse: Some((selector, metadata)), ..case }
    }

    fn accumulators(&self) -> usize {
        self.n / if self.packed { 4 } else { 2 }
    }

    /// The byte of row `r` (of A, or column of B) at byte or column `k`, by the manual's canonical layouts; `rows` is the
    /// extent of the operand, `depth` that of k.
    fn place(&self, transposed: bool, (rows, depth): (usize, usize), r: usize, k: usize) -> usize {
        let span = [0, 128, 64, 32][self.swizzle as usize];
        let linear = match (transposed, span) {
            // Core matrices of 8 rows and 16 bytes: those of the second half of k follow all of the first half.
            (false, 0) => k / 16 * (rows / 8 * 128) + r / 8 * 128 + r % 8 * 16 + k % 16,
            // A line of the swizzle's width for each row; the instruction reads the first 32 bytes of it.
            (false, span) => r * span + k,
            // Core matrices of 8 k and 8 rows; `r` counts elements.
            (true, 0) => r / 8 * 128 + k / 8 * (rows / 8 * 128) + k % 8 * 16 + r % 8 * 2,
            (true, span) => {
                r / (span / 2) * (depth * span) + k / 8 * (8 * span) + k % 8 * span + r % (span / 2) * 2
            }
        };
        let mask = if span == 0 { 0 } else { span / 16 - 1 };
        linear ^ (((linear / 128) & mask) * 16)
    }

    /// The descriptor of an operand at `start`.
    fn descriptor(&self, transposed: bool, (rows, depth): (usize, usize), start: usize) -> u64 {
        let span = [0, 128, 64, 32][self.swizzle as usize];
        let (leading, stride) = match (transposed, span) {
            (_, 0) => (rows / 8 * 128, 128),
            (false, span) => (16, 8 * span),
            (true, span) => (depth * span, 8 * span),
        };
        (start as u64 >> 4) | (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | self.swizzle << 62
    }

    /// Stores an operand, given by row, in shared memory.
    fn store(&self, memory: &mut [u8], transposed: bool, matrix: &Matrix, by_column: bool) {
        let (rows, depth) =
            if by_column { (matrix.columns, matrix.rows) } else { (matrix.rows, matrix.columns) };
        for r in 0..rows {
            let at = |k: usize| if by_column { matrix.at(k, r) } else { matrix.at(r, k) };
            if transposed {
                for k in 0..depth {
                    let place = self.place(true, (rows, depth), r, k);
                    memory[place..place + 2].copy_from_slice(&(at(k) as u16).to_le_bytes());
                }
                continue;
            }
            for byte in 0..depth * self.bits / 8 {
                let value = if self.bits < 8 {
                    (0..8).fold(0, |value, bit| value | at(8 * byte + bit) << bit)
                } else {
                    at(8 * byte / self.bits) >> (8 * byte % self.bits)
                };
                memory[self.place(false, (rows, depth), r, byte)] = value as u8;
            }
        }
    }

    fn list(prefix: &str, count: usize) -> String {
        let names: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    }

    /// The instruction.
    fn instruction(&self) -> String {
        let number = |negated: bool| if negated { -1 } else { 1 };
        let a = if self.registers { Case::list("a", 4) } else { "%da".to_owned() };
        let (sparse, metadata) = match &self.sparse {
            Some((selector, _)) => (".sp", format!("%meta, {selector}, ")),
            None => ("", String::new()),
        };
        let mut text = format!(
            "wgmma.mma_async{sparse}.sync.aligned.{} {}, {a}, %db, {metadata}{}",
            self.op,
            Case::list("d", self.accumulators()),
            self.scale
        );
        if !self.op.contains("s32") {
            text += &format!(", {}, {}", number(self.negated.0), number(self.negated.1));
        }
        if self.op.ends_with(".f16.f16") || self.op.ends_with("bf16") {
            if !self.registers {
                text += &format!(", {}", u32::from(self.transposed.0));
            }
            text += &format!(", {}", u32::from(self.transposed.1));
        }
        text + ";"
    }

    /// A kernel with one multiplication per block. `body` replaces what is between loading and storing the accumulators.
    fn kernel(&self, body: &str) -> String {
        let count = self.accumulators();
        let stored = if self.sparse.is_some() { self.k / 2 } else { self.k };
        let mut text = format!(
            ".version 8.2\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 memory, .param .u64 fragments, .param .u64 c, .param .u64 out) {{
            .shared .align 1024 .b8 mem[{SHARED}];
            .reg .b32 %t, %i, %x, %y; .reg .b64 %p, %q; .reg .pred %go, %yes, %no; .reg .b64 %da, %db;
            .reg .b32 %d<{count}>; .reg .b32 %a<4>, %meta; .reg .b32 %old<{count}>;
            mov.u32 %t, %tid.x; mov.u32 %y, %ctaid.x;
            ld.param.u64 %p, [memory]; mul.wide.u32 %q, %y, {SHARED}; add.u64 %p, %p, %q;
            mul.lo.u32 %i, %t, 4;
            FILL: cvt.u64.u32 %q, %i; add.u64 %q, %q, %p; ld.global.u32 %x, [%q];
            mov.u32 %y, mem; add.u32 %y, %y, %i; st.shared.u32 [%y], %x;
            add.u32 %i, %i, 512; setp.lt.u32 %go, %i, {SHARED}; @%go bra FILL;
            fence.proxy.async.shared::cta; bar.sync 0;
            setp.eq.u32 %yes, %t, %t; setp.ne.u32 %no, %t, %t;
            mov.u32 %y, %ctaid.x; mad.lo.u32 %i, %y, 128, %t;
            mov.u64 %da, {:#x}; mov.u64 %db, {:#x};
            ld.param.u64 %p, [fragments]; mul.wide.u32 %q, %i, 32; add.u64 %p, %p, %q;
            ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%p]; ld.global.u32 %meta, [%p+16];
            ld.param.u64 %p, [c]; mul.wide.u32 %q, %i, {}; add.u64 %p, %p, %q;\n",
            self.descriptor(self.transposed.0, (64, stored), 0),
            self.descriptor(self.transposed.1, (self.n, self.k), B_START),
            4 * count
        );
        for i in 0..count {
            text += &format!("ld.global.u32 %d{i}, [%p+{}];\n", 4 * i);
        }
        text += body;
        text += &format!("ld.param.u64 %p, [out]; mul.wide.u32 %q, %i, {}; add.u64 %p, %p, %q;\n", 4 * count);
        for i in 0..count {
            text += &format!("st.global.u32 [%p+{}], %d{i};\n", 4 * i);
        }
        text + "ret;\n}\n"
    }

    pub(crate) fn body(&self) -> String {
        format!(
            "wgmma.fence.sync.aligned;\n{}\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.instruction()
        )
    }

    /// Row and column of element `i` of a thread's accumulators.
    fn c_place(thread: usize, i: usize) -> (usize, usize) {
        let lane = thread % 32;
        (thread / 32 * 16 + i / 2 % 2 * 8 + lane / 4, i / 4 * 8 + lane % 4 * 2 + i % 2)
    }

    pub(crate) fn run(
        &self,
        level: Level,
        body: &str,
        cases: &[(&Matrix, &Matrix, &Matrix)],
    ) -> Result<Vec<Vec<u64>>, Box<Stop>> {
        let (count, per) = (self.accumulators(), if self.packed { 2 } else { 1 });
        let (mut memory, mut fragments, mut c_words) = (Vec::new(), Vec::new(), Vec::new());
        for (a, b, c) in cases {
            let mut bytes = vec![0u8; SHARED];
            if !self.registers {
                self.store(&mut bytes, self.transposed.0, a, false);
            }
            self.store(&mut bytes[B_START..], self.transposed.1, b, true);
            memory.extend(bytes);
            for thread in 0..128 {
                for r in 0..4 {
                    let elements = (32 / self.bits).min(32);
                    let place = a_place(16, elements);
                    fragments.push((0..elements).fold(0u32, |word, e| {
                        let (row, column) = place(r, thread % 32, e);
                        let value = a.at(thread / 32 * 16 + row, column) as u32;
                        word | value << (self.bits % 32 * e)
                    }));
                }
                let metadata = self.sparse.as_ref().map_or(0, |(_, metadata)| metadata[thread]);
                fragments.extend([metadata, 0, 0, 0]);
                for r in 0..count {
                    c_words.push((0..per).fold(0u32, |word, e| {
                        let (row, column) = Case::c_place(thread, per * r + e);
                        word | (c.at(row, column) as u32) << (16 * e)
                    }));
                }
            }
        }
        let mut device = Device::new().with_level(level).with_threads(1);
        let module = device.load(&self.kernel(body))?;
        let memory: Buffer<u8> = device.upload(&memory).unwrap();
        let fragments: Buffer<u32> = device.upload(&fragments).unwrap();
        let c: Buffer<u32> = device.upload(&c_words).unwrap();
        let out: Buffer<u32> = device.alloc(c_words.len()).unwrap();
        let prepared = module
            .kernel("k")?
            .launch()
            .grid(u32::try_from(cases.len()).unwrap())
            .block(128)
            .arg(memory)
            .arg(fragments)
            .arg(c)
            .arg(out);
        if let Some(stop) = launch(&mut device, &prepared).stop {
            return Err(stop);
        }
        let words = device.read(&out).unwrap();
        Ok(words
            .chunks(128 * count)
            .map(|words| {
                let mut d = vec![0; 64 * self.n];
                for thread in 0..128 {
                    for i in 0..count * per {
                        let (row, column) = Case::c_place(thread, i);
                        let word = words[thread * count + i / per] >> (16 * (i % per));
                        d[row * self.n + column] = u64::from(if self.packed { word & 0xffff } else { word });
                    }
                }
                d
            })
            .collect())
    }

    /// Runs at every level and compares with `expected(row of A, column of B, c)`.
    fn check(&self, a: &Matrix, b: &Matrix, c: &Matrix, expected: impl Fn(&[u32], &[u32], u32) -> u32) {
        let columns: Vec<Vec<u32>> = (0..self.n).map(|column| b.column(column)).collect();
        let mut wanted = Vec::new();
        for row in 0..64 {
            let elements = a.row(row);
            wanted.extend((0..self.n).map(|column| {
                u64::from(expected(&elements, &columns[column], u32::try_from(c.at(row, column)).unwrap()))
            }));
        }
        for level in levels() {
            let got = self
                .run(level, &self.body(), &[(a, b, c)])
                .unwrap_or_else(|stop| panic!("{}: {stop}", self.op));
            for (i, (got, want)) in got[0].iter().zip(&wanted).enumerate() {
                let (row, column) = (i / self.n, i % self.n);
                assert_eq!(got, want, "{} swizzle {} at ({row}, {column})", self.instruction(), self.swizzle);
            }
        }
    }
}

pub(crate) fn element(name: &str) -> Element {
    match name {
        "f16" => Element::F16,
        "bf16" => Element::Bf16,
        "tf32" => Element::Tf32,
        "e4m3" => Element::E4m3,
        _ => Element::E5m2,
    }
}

pub(crate) fn sign(element: Element) -> u32 {
    match element {
        Element::F16 | Element::Bf16 => 0x8000,
        Element::Tf32 => 0x8000_0000,
        _ => 0x80,
    }
}

/// Random matrices through one floating-point instruction.
fn float(case: &Case, seed: u64) {
    let names: Vec<&str> = case.op.split('.').collect();
    let types = (element(names[2]), element(names[3]));
    let accumulator = if case.packed { Accumulator::F16 } else { Accumulator::F32 };
    let rule = Rule::of(TensorCore::Hopper, types.0, accumulator);
    let mut random = SplitMix(seed);
    let a = Matrix::new(64, case.k, || code(&mut random, types.0, false));
    let b = Matrix::new(case.k, case.n, || code(&mut random, types.1, false));
    let c_type = if case.packed { Element::F16 } else { Element::Tf32 };
    let c = Matrix::new(64, case.n, || code(&mut random, c_type, false));
    let from_zero = matches!(case.scale, "0" | "%no" | "!%yes");
    let flip = |codes: &[u32], negated: bool, element: Element| -> Vec<u32> {
        codes.iter().map(|code| if negated { code ^ sign(element) } else { *code }).collect()
    };
    case.check(&a, &b, &c, |row, column, c| {
        let row = flip(row, case.negated.0, types.0);
        let column = flip(column, case.negated.1, types.1);
        dot(&rule, types, accumulator, &row, &column, if from_zero { 0 } else { c })
    });
}

fn check_matrices(file: &Path) -> usize {
    let all = cases_of(file);
    for (i, golden) in all.iter().enumerate() {
        let mut case = Case::new(&golden.op);
        case.swizzle = i as u64 % 4;
        case.registers = i % 3 == 0;
        let matrix =
            |rows: usize, columns: usize, codes: &[u64]| Matrix { rows, columns, codes: codes.to_vec() };
        let a = matrix(64, case.k, &golden.a);
        let b = matrix(case.k, case.n, &golden.b);
        let c = matrix(64, case.n, &golden.c);
        for level in levels() {
            let got = case
                .run(level, &case.body(), &[(&a, &b, &c)])
                .unwrap_or_else(|stop| panic!("{}: {stop}", golden.op));
            assert!(got[0] == golden.d, "{} {} {level:?}", golden.op, golden.kind);
        }
    }
    all.len()
}

#[test]
fn committed_matrices() {
    assert_eq!(check_matrices(&committed().join("wgmma-hopper.jsonl")), 12);
}

#[test]
fn all_matrices() {
    if let Some(folder) = full() {
        assert_eq!(check_matrices(&folder.join("wgmma-hopper.jsonl")), 116);
    }
}

/// Dot products of 8-bit floats captured on an H100 by `wgmma` from zero: eight in each multiplication.
fn check_captures(folder: &Path) -> usize {
    let mut outputs = 0;
    for name in ["e4m3", "e5m2"] {
        let all = captures(&folder.join("silicon/h100"), name);
        let mut case = Case::new(&format!("m64n8k32.f32.{name}.{name}"));
        (case.scale, case.swizzle) = ("0", 1);
        let zero = Matrix::new(64, 8, || 0);
        let matrices: Vec<(Matrix, Matrix)> = all
            .chunks(8)
            .map(|part| {
                let (mut a, mut b) = (Matrix::new(64, 32, || 0), Matrix::new(32, 8, || 0));
                for (i, capture) in part.iter().enumerate() {
                    for k in 0..32 {
                        a.codes[i * 32 + k] = u64::from(capture.row[k]);
                        b.codes[k * 8 + i] = u64::from(capture.column[k]);
                    }
                }
                (a, b)
            })
            .collect();
        let operands: Vec<_> = matrices.iter().map(|(a, b)| (a, b, &zero)).collect();
        let got = case.run(levels()[0], &case.body(), &operands).unwrap();
        for (line, capture) in all.iter().enumerate() {
            let found = got[line / 8][line % 8 * 8 + line % 8];
            assert_eq!(found, u64::from(capture.from_zero.unwrap()), "{name} line {}", line + 2);
            outputs += 1;
        }
    }
    outputs
}

#[test]
fn committed_captures() {
    assert_eq!(check_captures(&committed()), 100);
}

#[test]
fn all_captures() {
    if let Some(folder) = full() {
        assert_eq!(check_captures(&folder), 10_000);
    }
}

#[test]
fn every_layout() {
    for swizzle in 0..4 {
        for op in ["m64n16k16.f32.f16.f16", "m64n64k16.f32.bf16.bf16"] {
            for transposed in [(false, false), (true, false), (false, true), (true, true)] {
                // A swizzled column spans 64 bytes and more.
                if transposed.1 && op.contains("n16") && swizzle != 0 {
                    continue;
                }
                let case = Case { swizzle, transposed, ..Case::new(op) };
                float(&case, swizzle);
                if !transposed.0 {
                    float(&Case { registers: true, ..case }, swizzle);
                }
            }
        }
        for op in ["m64n16k8.f32.tf32.tf32", "m64n24k32.f32.e4m3.e5m2", "m64n40k32.f16.e5m2.e5m2"] {
            for registers in [false, true] {
                float(&Case { swizzle, registers, ..Case::new(op) }, swizzle);
            }
        }
    }
}

#[test]
fn every_width() {
    for n in (8..=256).step_by(8) {
        let op = ["f32.f16.f16", "f16.f16.f16", "f32.bf16.bf16"][n / 8 % 3];
        float(&Case { swizzle: 1, ..Case::new(&format!("m64n{n}k16.{op}")) }, n as u64);
    }
    float(&Case { swizzle: 1, ..Case::new("m64n256k8.f32.tf32.tf32") }, 1);
    float(&Case { swizzle: 1, ..Case::new("m64n256k32.f32.e4m3.e4m3") }, 2);
}

#[test]
fn signs_and_the_start_value() {
    // Behind many registers of D, a negated predicate is still negated.
    for scale in ["!%yes", "!%no"] {
        for op in ["m64n8k16.f32.f16.f16", "m64n128k16.f32.f16.f16"] {
            float(&Case { scale, ..Case::new(op) }, 7);
        }
    }
    for scale in ["0", "1", "%yes", "%no"] {
        for negated in [(false, true), (true, false), (true, true)] {
            for op in ["m64n8k16.f32.f16.f16", "m64n8k8.f32.tf32.tf32", "m64n8k32.f16.e4m3.e4m3"] {
                float(&Case { scale, negated, ..Case::new(op) }, 7);
            }
        }
    }
}

#[test]
fn integers_and_single_bits() {
    let mut random = SplitMix(3);
    for (satfinite, a_type, b_type) in
        [("", "s8", "s8"), (".satfinite", "s8", "u8"), ("", "u8", "s8"), (".satfinite", "u8", "u8")]
    {
        for n in [8, 48] {
            let case = Case {
                swizzle: 2,
                registers: n == 8,
                ..Case::new(&format!("m64n{n}k32{satfinite}.s32.{a_type}.{b_type}"))
            };
            let a = Matrix::new(64, 32, || random.next() & 0xff);
            let b = Matrix::new(32, n, || random.next() & 0xff);
            let c = Matrix::new(64, n, || {
                if random.next().is_multiple_of(4) { 0x7fff_fff0 } else { random.next() >> 32 }
            });
            let value = |ty: &str, code: u32| {
                if ty == "s8" { i64::from((code as u8).cast_signed()) } else { i64::from(code) }
            };
            case.check(&a, &b, &c, |row, column, c| {
                let sum: i64 =
                    row.iter().zip(column).map(|(x, y)| value(a_type, *x) * value(b_type, *y)).sum();
                let total = sum + i64::from(c.cast_signed());
                let limits = (i64::from(i32::MIN), i64::from(i32::MAX));
                (if satfinite.is_empty() { total } else { total.clamp(limits.0, limits.1) }) as u32
            });
        }
    }
    for swizzle in [0, 1] {
        let case = Case { swizzle, ..Case::new("m64n16k256.s32.b1.b1.and.popc") };
        let a = Matrix::new(64, 256, || random.next() & 1);
        let b = Matrix::new(256, 16, || random.next() & 1);
        let c = Matrix::new(64, 16, || random.next() >> 40);
        case.check(&a, &b, &c, |row, column, c| c + row.iter().zip(column).map(|(x, y)| x & y).sum::<u32>());
    }
}

/// Ones times ones, from accumulators that are 5: 16 + 5 if all goes well.
fn ones(body: &str) -> Vec<u64> {
    let case = Case::new("m64n8k16.f32.f16.f16");
    let (a, b) = (Matrix::new(64, 16, || 0x3c00), Matrix::new(16, 8, || 0x3c00));
    let c = Matrix::new(64, 8, || u64::from(5f32.to_bits()));
    let text =
        body.replace("WGMMA", &case.instruction()).replace("COMMIT", "wgmma.commit_group.sync.aligned;");
    let text =
        text.replace("FENCE", "wgmma.fence.sync.aligned;").replace("WAIT", "wgmma.wait_group.sync.aligned");
    let got = case.run(levels()[0], &text, &[(&a, &b, &c)]).unwrap_or_else(|stop| panic!("{text}: {stop}"));
    got[0].iter().map(|code| f32::from_bits(*code as u32) as u64).collect()
}

#[test]
fn a_multiplication_happens_as_late_as_allowed() {
    assert_eq!(ones("FENCE WGMMA COMMIT WAIT 0;"), [21; 512]);
    // Accumulators before the wait are the old ones.
    let moves = |to: &str, from: &str| {
        let lines: Vec<String> = (0..4).map(|i| format!("mov.b32 %{to}{i}, %{from}{i};")).collect();
        lines.join("\n")
    };
    let early = moves("old", "d");
    let back = moves("d", "old");
    assert_eq!(ones(&format!("FENCE WGMMA COMMIT {early} WAIT 0; {back}")), [5; 512]);
    // A group that may stay in flight is not complete, nor is one that was not committed.
    assert_eq!(ones("FENCE WGMMA COMMIT WGMMA COMMIT WAIT 1;"), [21; 512]);
    assert_eq!(ones("FENCE WGMMA COMMIT WGMMA COMMIT WAIT 0;"), [37; 512]);
    assert_eq!(ones("FENCE WGMMA WAIT 0;"), [5; 512]);
    assert_eq!(ones("FENCE WGMMA WGMMA COMMIT WAIT 0;"), [37; 512]);
    // Operands are read when the warp waits: here the first row of B is cleared in between.
    let clear =
        format!("mov.u32 %y, mem; mov.u32 %x, 0; st.shared.v4.u32 [%y+{B_START}], {{%x, %x, %x, %x}};");
    let late = ones(&format!("FENCE WGMMA COMMIT {clear} bar.sync 0; WAIT 0;"));
    assert_eq!((late[0], late[1]), (13, 21));
}

#[test]
fn what_is_wrong_stops() {
    let case = Case::new("m64n8k16.f32.f16.f16");
    let zero = |rows, columns| Matrix::new(rows, columns, || 0);
    let (a, b, c) = (zero(64, 16), zero(16, 8), zero(64, 8));
    let stop = |body: &str| case.run(levels()[0], body, &[(&a, &b, &c)]).unwrap_err();
    let far = stop(&format!("mov.u64 %db, 0x{:x};\n{}", 0x3fff, case.body()));
    assert_eq!((far.blame, far.kind), (Blame::Kernel, StopKind::Bounds), "{far}");
    assert!(far.sentence.contains("descriptor of B"), "{far}");
    let differ = stop(&format!("cvt.u64.u32 %q, %t; or.b64 %db, %db, %q;\n{}", case.body()));
    assert_eq!((differ.blame, differ.kind), (Blame::Kernel, StopKind::Lanes), "{differ}");
    let part = stop(&format!("setp.eq.u32 %go, %t, 40; @%go exit;\n{}", case.body()));
    assert_eq!((part.blame, part.kind), (Blame::Kernel, StopKind::Lanes), "{part}");
    let swapped = stop(&case.body().replace(", 1, 1, 0, 0;", ", 2, 1, 0, 0;"));
    assert_eq!((swapped.blame, swapped.kind), (Blame::Input, StopKind::Malformed), "{swapped}");
}

/// `wgmma` exists on sm_90a only: not on sm_90, and not on later architectures.
#[test]
fn the_target_must_be_hopper() {
    let case = Case::new("m64n8k16.f32.f16.f16");
    let load = |target: &str| {
        let text =
            case.kernel(&case.body()).replace("sm_90a", target).replace(".version 8.2", ".version 8.8");
        let mut device = Device::new();
        device.load(&text).and_then(|module| module.kernel("k").map(|_| ()))
    };
    assert!(load("sm_90a").is_ok());
    for target in ["sm_90", "sm_100a", "sm_120a"] {
        let stop = load(target).unwrap_err();
        assert!(stop.sentence.contains("needs sm_90a"), "{target}: {stop}");
    }
    for version in ["8.1", "8.5", "8.8", "9.0"] {
        let text = case.kernel(&case.body()).replace(".version 8.2", &format!(".version {version}"));
        let mut device = Device::new();
        assert!(device.load(&text).unwrap().kernel("k").is_ok(), "{version}");
    }
    let old = case.kernel(&case.body()).replace(".version 8.2", ".version 7.8");
    assert!(Device::new().load(&old).unwrap().kernel("k").is_err());
}

/// Two consumer warpgroups with 240 registers and a producer with 24 fit into a multiprocessor; three consumers do not.
#[test]
fn registers_of_warpgroups_are_counted() {
    let run_with = |directives: &str, body: &str| {
        let text = format!(
            ".version 8.2\n.target sm_90a\n.address_size 64\n.visible .entry k() {directives} {{ .reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 128; {body} ret; }}\n"
        );
        let mut device = Device::new();
        let module = device.load(&text).unwrap();
        let prepared = module.kernel("k").unwrap().launch().grid(1).block(384);
        launch(&mut device, &prepared).stop
    };
    let run = |body: &str| run_with(".maxntid 384 .minnctapersm 1", body);
    let fits =
        run("@%p bra P; setmaxnreg.inc.sync.aligned.u32 240; ret; P: setmaxnreg.dec.sync.aligned.u32 24;");
    assert!(fits.is_none(), "{fits:?}");
    let stop = run("setmaxnreg.inc.sync.aligned.u32 240;").unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Deadlock), "{stop}");
    // A warp waits until another one releases registers.
    let waits = run("@%p bra P; setmaxnreg.inc.sync.aligned.u32 232; ret; P: nanosleep.u32 100; \
         setmaxnreg.dec.sync.aligned.u32 40;");
    assert!(waits.is_none(), "{waits:?}");
    // The block starts with 168 for each thread; 1,024 registers of the multiprocessor are not its own.
    let consumers = "@%p bra P; setmaxnreg.inc.sync.aligned.u32 232; ret; P:";
    for producer in ["", "setmaxnreg.dec.sync.aligned.u32 48;"] {
        let stop = run(&format!("{consumers} {producer}")).unwrap();
        assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Deadlock), "{stop}");
    }
    for (directives, runs) in [(".maxnreg 168", false), (".maxnreg 192", true), (".maxntid 384", true)] {
        let stop = run_with(directives, &format!("{consumers} setmaxnreg.dec.sync.aligned.u32 48;"));
        assert_eq!(stop.is_none(), runs, "{directives}: {stop:?}");
    }
    let odd = run("setmaxnreg.inc.sync.aligned.u32 100;").unwrap();
    assert_eq!((odd.blame, odd.kind), (Blame::Input, StopKind::Malformed), "{odd}");
}
