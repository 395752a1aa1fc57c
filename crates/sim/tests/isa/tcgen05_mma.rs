//! `tcgen05.mma`, `tcgen05.cp` and `tcgen05.commit`: golden data in every kind, layouts of operands, and the options of instruction
//! descriptors.
#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers chosen by the test"
)]

use crate::harness::launch;
use crate::tcgen05::{drain, fill, kernel, run};
use crate::vectors::{Case, cases_of, committed, full};
use std::path::Path;
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f16_f32;
use warpproof_sim::{Blame, Buffer, Device, StopKind};

/// Bytes of the operands in shared memory: A, B, scales of A, scales of B.
const TILE: usize = 40960;
const B_START: usize = 16384;
const SCALES: usize = 36864;

/// How operands lie in shared memory.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// Bytes of the swizzle, or 0.
    swizzle: usize,
    /// MN-major.
    transposed: bool,
}

impl Layout {
    fn swizzled(self, address: usize) -> usize {
        let mask = if self.swizzle == 0 { 0 } else { self.swizzle / 16 - 1 };
        address ^ (((address / 128) & mask) * 16)
    }

    /// The byte at `byte` of row `row`, of rows of 32 bytes.
    fn by_row(self, row: usize, byte: usize) -> usize {
        let place = match self.swizzle {
            0 => row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16,
            bytes => row * bytes + byte,
        };
        self.swizzled(place)
    }

    /// The first byte of element `k` of row `row`, of `rows` with elements of `size` bytes.
    fn by_column(self, row: usize, k: usize, rows: usize, size: usize) -> usize {
        let bytes = row * size;
        let place = match self.swizzle {
            0 => k / 8 * (rows * size / 16 * 128) + bytes / 16 * 128 + k % 8 * 16 + bytes % 16,
            width => {
                let depth = 32 / size;
                bytes / width * (depth * width) + k * width + bytes % width
            }
        };
        self.swizzled(place)
    }

    fn descriptor(self, start: usize, rows: usize, size: usize) -> u64 {
        let depth = 32 / size;
        let (leading, stride) = match (self.transposed, self.swizzle) {
            (false, 0) => (128, 256),
            (false, bytes) => (16, 8 * bytes),
            (true, 0) => (rows * size / 16 * 128, 128),
            (true, width) => (depth * width, 8 * width),
        };
        let mode: u64 = match self.swizzle {
            0 => 0,
            128 => 2,
            64 => 4,
            _ => 6,
        };
        (start / 16) as u64 | (leading as u64 / 16) << 16 | (stride as u64 / 16) << 32 | 1 << 46 | mode << 61
    }
}

fn bits(ty: &str) -> usize {
    match ty {
        "tf32" => 32,
        "f16" | "bf16" => 16,
        "e3m2" | "e2m3" => 6,
        "e2m1" => 4,
        _ => 8,
    }
}

/// A row of codes as it lies in 32 bytes.
fn packed(ty: &str, codes: &[u64]) -> [u8; 32] {
    let bits = bits(ty);
    let mut bytes = [0; 32];
    for (k, code) in codes.iter().enumerate() {
        // Small elements of 32 have a padding behind each 16.
        let first = if bits < 8 && codes.len() == 32 { k / 16 * 128 + k % 16 * bits } else { k * bits };
        for bit in (0..bits).filter(|bit| code >> bit & 1 != 0) {
            bytes[(first + bit) / 8] |= 1 << ((first + bit) % 8);
        }
    }
    bytes
}

/// One multiplication.
#[derive(Clone)]
struct Product {
    modifiers: String,
    types: (&'static str, &'static str),
    m: usize,
    n: usize,
    k: usize,
    /// Codes by row: A, then B by column, C.
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    /// Scales of each row of A and of each column of B.
    scales: (Vec<u64>, Vec<u64>),
    layouts: (Layout, Layout),
    /// A is in tensor memory.
    tensor: bool,
    /// Fields of the instruction descriptor besides shapes and layouts.
    fields: u32,
    /// Between the instruction descriptor and the predicate.
    disabled: &'static str,
    /// The predicate: D is an input.
    accumulate: bool,
    /// The first lane of D.
    lane: usize,
    /// D is f16.
    half: bool,
}

impl Product {
    fn lane_of(&self, row: usize) -> usize {
        self.lane + if self.m == 64 { row / 16 * 32 + row % 16 } else { row }
    }

    fn idesc(&self) -> u32 {
        self.fields
            | u32::from(self.layouts.0.transposed) << 15
            | u32::from(self.layouts.1.transposed) << 16
            | (self.n as u32 / 8) << 17
            | (self.m as u32 / 16) << 24
    }

    fn operand(&self, tile: &mut [u8], start: usize, layout: Layout, ty: &str, codes: &[u64]) {
        let rows = codes.len() / self.k;
        for (row, codes) in codes.chunks(self.k).enumerate() {
            let bytes = packed(ty, codes);
            let size = bits(ty) / 8;
            for (i, byte) in bytes.iter().enumerate() {
                let place = if layout.transposed {
                    layout.by_column(row, i / size, rows, size) + i % size
                } else {
                    layout.by_row(row, i)
                };
                tile[start + place] = *byte;
            }
        }
    }

    /// D by row; what the lanes that are not rows have is dropped.
    fn run(&self) -> Vec<u64> {
        let half = self.half;
        let (words, a_column) = (self.n + 16, self.n);
        let mut input = vec![0; 128 * words];
        for row in 0..self.m {
            let lane = self.lane_of(row) * words;
            for column in 0..self.n {
                input[lane + column] = self.c[row * self.n + column] as u32;
            }
            let bytes = packed(self.types.0, &self.a[row * self.k..(row + 1) * self.k]);
            for (i, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
                input[lane + a_column + i] = u32::from_le_bytes(*word);
            }
        }
        let mut tile = vec![0u8; TILE];
        if !self.tensor {
            self.operand(&mut tile, 0, self.layouts.0, self.types.0, &self.a);
        }
        self.operand(&mut tile, B_START, self.layouts.1, self.types.1, &self.b);
        for (start, scales, rows) in
            [(SCALES, &self.scales.0, self.m), (SCALES + 512, &self.scales.1, self.n)]
        {
            let each = scales.len() / rows;
            for (i, code) in scales.iter().enumerate() {
                let (row, s) = (i / each, i % each);
                tile[start + row % 32 * 16 + row / 32 * 4 + s] = *code as u8;
            }
        }
        input.extend(tile.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
        let size = |ty: &str| (bits(ty) / 8).max(1);
        let a = self.layouts.0.descriptor(0, self.m, size(self.types.0));
        let b = self.layouts.1.descriptor(B_START, self.n, size(self.types.1));
        let mut body = format!(
            "ld.param.u64 %p, [in]; add.u64 %p, %p, {}; mul.lo.u32 %x, %t, 4;
            COPY: cvt.u64.u32 %q, %x; add.u64 %q, %q, %p; ld.global.u32 %y, [%q]; mov.u32 %r0, tile; add.u32 %r0, %r0, %x;
            st.shared.u32 [%r0], %y; add.u32 %x, %x, 512; setp.lt.u32 %go, %x, {TILE}; @%go bra COPY;\n{}",
            4 * 128 * words,
            fill(words)
        );
        let operand = if self.tensor { format!("[%x+{a_column}]") } else { "%da".to_owned() };
        let (mut copies, mut scales) = (String::new(), String::new());
        if !self.scales.0.is_empty() {
            for (start, column) in [(SCALES, 400), (SCALES + 512, 404)] {
                let descriptor = (start / 16) as u64 | 8 << 32 | 1 << 46;
                copies += &format!(
                    "mov.u64 %p, {descriptor:#x}; cvt.u64.u32 %q, %y; add.u64 %p, %p, %q;
                    @%in tcgen05.cp.cta_group::1.32x128b.warpx4 [%mem+{column}], %p;\n"
                );
            }
            scales += "[%mem+400], [%mem+404], ";
        }
        body += &format!(
            "setp.eq.u32 %in, %t, 0; @%in mbarrier.init.shared::cta.b64 [slot+8], 1;
            fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
            mov.u32 %y, tile; shr.u32 %y, %y, 4; cvt.u64.u32 %q, %y;
            {copies} mov.u64 %da, {a:#x}; add.u64 %da, %da, %q; mov.u64 %db, {b:#x}; add.u64 %db, %db, %q;
            mov.u32 %r0, {:#x}; mov.u32 %r1, 0; mov.u32 %r2, 0xff00ff00; setp.ne.u32 %go, %r1, {};
            add.u32 %x, %mem, {:#x}; mov.u32 %y, slot; add.u32 %y, %y, 8;
            @%in tcgen05.mma.cta_group::1.{} [%x], {operand}, %db, %r0, {scales}{}%go;
            @%in tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%y];
            WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
            tcgen05.fence::after_thread_sync;\n{}",
            self.idesc(),
            u32::from(self.accumulate),
            self.lane << 16,
            self.modifiers.trim(),
            self.disabled,
            drain(words)
        );
        let got = run(&kernel(words, 16, &body), 128, &input)
            .unwrap_or_else(|stop| panic!("{}: {stop}", self.modifiers));
        let mut d = Vec::new();
        for row in 0..self.m {
            let lane = self.lane_of(row) * words;
            d.extend(
                (0..self.n)
                    .map(|column| u64::from(got[lane + column]) & if half { 0xffff } else { u64::MAX }),
            );
        }
        d
    }
}

/// The code of a type in an instruction descriptor.
fn type_code(kind: &str, ty: &str) -> u32 {
    match ty {
        "e2m1" if kind.starts_with("kind::mxf4") => 1,
        "bf16" | "e5m2" | "s8" => 1,
        "tf32" => 2,
        "e2m3" => 3,
        "e3m2" => 4,
        "e2m1" => 5,
        _ => 0,
    }
}

fn transposed(codes: &[u64], rows: usize) -> Vec<u64> {
    let columns = codes.len() / rows;
    (0..codes.len()).map(|i| codes[i % rows * columns + i / rows]).collect()
}

const SWIZZLES: [usize; 4] = [0, 128, 64, 32];

fn product(case: &Case, number: usize) -> Product {
    let names: Vec<&str> = case.op.split('.').skip(1).collect();
    let kind = names[0];
    let scaled = kind.starts_with("kind::mx");
    let types = &names[if scaled { 2 } else { 1 }..];
    let of = |name: &str| {
        *["f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]
            .iter()
            .find(|ty| **ty == name)
            .unwrap()
    };
    let (a, b) = (of(types[1]), of(types[2]));
    let mut fields = type_code(kind, a) << 7 | type_code(kind, b) << 10;
    let mut modifiers = kind.to_owned();
    if scaled {
        fields |= u32::from(types[3] == "ue8m0") << 23;
        let vec = match (kind, names[1], number % 2) {
            ("kind::mxf8f6f4", _, 0) => ".scale_vec::1X",
            ("kind::mxf4" | "kind::mxf4nvf4", "block32", 0) => ".scale_vec::2X",
            (_, "block16", 0) => ".scale_vec::4X",
            (_, "block16", _) => ".block16",
            _ => ".block32",
        };
        modifiers = format!("{kind}.block_scale{vec}");
    } else {
        fields |= u32::from(types[0] == "f32") << 4;
    }
    let swizzle = SWIZZLES[number % 4];
    let layout = Layout { swizzle, transposed: false };
    let scales = if scaled {
        let blocks = case.scales.1.len() / case.n;
        (case.scales.0.clone(), transposed(&case.scales.1, blocks))
    } else {
        (Vec::new(), Vec::new())
    };
    Product {
        modifiers,
        types: (a, b),
        m: case.m,
        n: case.n,
        k: case.k,
        a: case.a.clone(),
        b: transposed(&case.b, case.k),
        c: case.c.clone(),
        scales,
        layouts: (layout, layout),
        tensor: number % 3 == 2 && bits(a) >= 8,
        fields,
        disabled: "",
        accumulate: true,
        lane: if case.m == 64 { 16 * (number % 2) } else { 0 },
        half: types[0] == "f16",
    }
}

/// The number of matrices of a file that agree; any other fails.
fn check(file: &Path) -> usize {
    let cases = cases_of(file);
    for (number, case) in cases.iter().enumerate() {
        for (i, (got, want)) in product(case, number).run().iter().zip(&case.d).enumerate() {
            assert_eq!(got, want, "{} {} output {i}: {got:x}, expected {want:x}", case.op, case.kind);
        }
    }
    cases.len()
}

#[test]
fn committed_matrices() {
    assert_eq!(check(&committed().join("tcgen05-blackwell.jsonl")), 10);
    assert_eq!(check(&committed().join("tcgen05-block-scale-blackwell.jsonl")), 5);
}

#[test]
fn all_matrices() {
    let Some(folder) = full() else { return };
    assert_eq!(check(&folder.join("tcgen05-blackwell.jsonl")), 190);
    assert_eq!(check(&folder.join("tcgen05-block-scale-blackwell.jsonl")), 75);
}

fn f16(value: i32) -> u64 {
    u64::from(cvt_f16_f32((value as f32).to_bits(), Rounding::Rn, false))
}

fn f32_code(value: i32) -> u64 {
    u64::from((value as f32).to_bits())
}

/// Small integers: row r of A, column n of B.
fn a_value(row: usize, k: usize) -> i32 {
    (row * 5 + k * 3) as i32 % 7 - 3
}

fn b_value(column: usize, k: usize) -> i32 {
    (column * 3 + k * 2) as i32 % 9 - 4
}

fn sum(row: usize, column: usize, k: usize) -> i32 {
    (0..k).map(|k| a_value(row, k) * b_value(column, k)).sum()
}

/// f16 with small integers, which every order of additions computes exactly.
fn integers(m: usize, n: usize) -> Product {
    Product {
        modifiers: "kind::f16".to_owned(),
        types: ("f16", "f16"),
        m,
        n,
        k: 16,
        a: (0..m * 16).map(|i| f16(a_value(i / 16, i % 16))).collect(),
        b: (0..n * 16).map(|i| f16(b_value(i / 16, i % 16))).collect(),
        c: (0..m * n).map(|i| f32_code(i as i32 % 11)).collect(),
        scales: (Vec::new(), Vec::new()),
        layouts: (Layout::default(), Layout::default()),
        tensor: false,
        fields: 1 << 4,
        disabled: "",
        accumulate: true,
        lane: 0,
        half: false,
    }
}

#[track_caller]
fn expect(product: &Product, value: impl Fn(usize, usize) -> i32) {
    for (i, got) in product.run().into_iter().enumerate() {
        let (row, column) = (i / product.n, i % product.n);
        assert_eq!(got, f32_code(value(row, column)), "row {row} column {column} {:?}", product.layouts);
    }
}

#[test]
fn operands_in_every_layout() {
    for (i, swizzle) in SWIZZLES.into_iter().enumerate() {
        for (a, b) in [(false, false), (true, false), (false, true), (true, true)] {
            let (m, n) = if (i + usize::from(b)) % 2 == 0 { (128, 64) } else { (64, 128) };
            let mut product = integers(m, n);
            product.layouts = (Layout { swizzle, transposed: a }, Layout { swizzle, transposed: b });
            expect(&product, |row, column| sum(row, column, 16) + (row * n + column) as i32 % 11);
        }
    }
}

/// Bytes by column.
#[test]
fn bytes_by_column() {
    // e4m3 codes of the integers from -4 to 4.
    let e4m3 = |value: i32| {
        let code = [0, 0x38, 0x40, 0x44, 0x48][value.unsigned_abs() as usize];
        code | u64::from(value < 0) << 7
    };
    for swizzle in SWIZZLES {
        let layout = Layout { swizzle, transposed: true };
        let product = Product {
            modifiers: "kind::f8f6f4".to_owned(),
            types: ("e4m3", "e4m3"),
            k: 32,
            a: (0..128 * 32).map(|i| e4m3(a_value(i / 32, i % 32))).collect(),
            b: (0..128 * 32).map(|i| e4m3(b_value(i / 32, i % 32))).collect(),
            layouts: (layout, layout),
            ..integers(128, 128)
        };
        expect(&product, |row, column| sum(row, column, 32) + (row * 128 + column) as i32 % 11);
    }
}

#[test]
fn options_of_the_instruction() {
    let old = |row: usize, column: usize| (row * 32 + column) as i32 % 11;
    let product = integers(128, 32);
    let fresh = Product { accumulate: false, ..product.clone() };
    expect(&fresh, |row, column| sum(row, column, 16));
    for (bits, sign) in [(1 << 13, -1), (1 << 14, -1), (3 << 13, 1)] {
        let negated = Product { fields: product.fields | bits, ..product.clone() };
        expect(&negated, |row, column| sign * sum(row, column, 16) + old(row, column));
    }
    // Lanes 40 to 47 and 56 to 63 keep their values.
    let masked = Product { disabled: "{%r1, %r2, %r1, %r1}, ", ..product.clone() };
    expect(&masked, |row, column| {
        let keeps = (32..64).contains(&row) && row % 16 >= 8;
        old(row, column) + if keeps { 0 } else { sum(row, column, 16) }
    });
    for usage in ["fill", "use", "lastuse", "discard"] {
        let modifiers = format!("kind::f16.collector::a::{usage}");
        expect(&Product { modifiers, ..product.clone() }, |row, column| {
            sum(row, column, 16) + old(row, column)
        });
    }
}

#[test]
fn bytes_of_integers() {
    let code = |value: i32| u64::from(value as u8);
    let product = Product {
        modifiers: "kind::i8".to_owned(),
        types: ("s8", "s8"),
        k: 32,
        a: (0..64 * 32).map(|i| code(a_value(i / 32, i % 32))).collect(),
        b: (0..48 * 32).map(|i| code(b_value(i / 32, i % 32))).collect(),
        fields: 2 << 4 | 1 << 7 | 1 << 10,
        c: (0..64 * 48).map(|i| u64::from(i as u32)).collect(),
        ..integers(64, 48)
    };
    for (i, got) in product.run().into_iter().enumerate() {
        assert_eq!(got as u32 as i32, sum(i / 48, i % 48, 32) + i as i32, "output {i}");
    }
}

/// Rows of shared memory in the lanes of tensor memory, for every shape of `tcgen05.cp`.
#[test]
fn copies_of_every_shape() {
    for (shape, bytes, lanes) in [
        ("128x256b", 32, (|lane| lane) as fn(usize) -> usize),
        ("128x128b", 16, |lane| lane),
        ("64x128b.warpx2::02_13", 16, |lane| lane % 64),
        ("64x128b.warpx2::01_23", 16, |lane| lane / 64 * 32 + lane % 32),
        ("32x128b.warpx4", 16, |lane| lane % 32),
    ] {
        for swizzle in SWIZZLES {
            let layout = Layout { swizzle, transposed: false };
            let descriptor = layout.descriptor(0, 128, 1);
            // Each word has its own address.
            let body = format!(
                "mul.lo.u32 %x, %t, 4; COPY: mov.u32 %y, tile; add.u32 %y, %y, %x; st.shared.u32 [%y], %x;
                add.u32 %x, %x, 512; setp.lt.u32 %go, %x, {TILE}; @%go bra COPY;
                setp.eq.u32 %in, %t, 0; @%in mbarrier.init.shared::cta.b64 [slot+8], 1;
                fence.proxy.async.shared::cta; bar.sync 0;
                mov.u32 %y, tile; shr.u32 %y, %y, 4; cvt.u64.u32 %q, %y; mov.u64 %da, {descriptor:#x}; add.u64 %da, %da, %q;
                @%in tcgen05.cp.cta_group::1.{shape} [%mem], %da; mov.u32 %y, slot; add.u32 %y, %y, 8;
                cvt.u64.u32 %p, %y; cvta.shared.u64 %p, %p;
                @%in tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%p];
                WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
                tcgen05.fence::after_thread_sync;\n{}",
                drain(8)
            );
            let got = run(&kernel(8, 8, &body), 128, &[0; 1024]).unwrap();
            for (lane, word) in (0..128).flat_map(|lane| (0..bytes / 4).map(move |word| (lane, word))) {
                let want = layout.by_row(lanes(lane), 4 * word);
                assert_eq!(got[8 * lane + word] as usize, want, "{shape} swizzle {swizzle} lane {lane}");
            }
        }
    }
}

/// Without a wait, D has its old value.
#[test]
fn a_multiplication_is_late() {
    let product = integers(128, 32);
    let mut body = fill(32);
    body += "setp.eq.u32 %in, %t, 0; bar.sync 0; mov.u64 %da, 0x400000000000; mov.u32 %r0, 0x8080010; setp.ne.u32 %go, %t, %t;
        @%in tcgen05.mma.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go, 0; bar.sync 0;\n";
    body += &drain(32);
    let input: Vec<u32> = product.c.iter().map(|code| *code as u32).collect();
    assert_eq!(run(&kernel(32, 16, &body), 128, &input).unwrap(), input);
}

#[track_caller]
fn stops(instruction: &str, idesc: u32, blame: Blame, sentence: &str) {
    let body = format!(
        "mov.u64 %da, 0x400000000000; mov.u32 %r0, {idesc:#x}; setp.eq.u32 %in, %t, 0; setp.ne.u32 %go, %t, %t;
        @%in {instruction}"
    );
    let stop = run(&kernel(8, 8, &body), 128, &[0; 1024]).unwrap_err();
    assert_eq!(stop.blame, blame, "{stop}");
    assert!(stop.sentence.contains(sentence), "{stop}");
}

#[test]
fn what_is_wrong_or_unknown_stops() {
    let mma = "tcgen05.mma.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go;";
    stops(mma, 0x0808_0010 | 1 << 2, Blame::Kernel, "sparse A");
    stops(mma, 0x0808_0010 | 1 << 7, Blame::Gap, "f16 and bf16");
    stops(mma, 0x0808_0010 | 1 << 17, Blame::Kernel, "M 128 and N 40");
    stops(mma, 0x0808_0010 | 2 << 7 | 2 << 10, Blame::Kernel, "element types 2 and 2");
    for bit in [0, 6, 23, 29, 31] {
        stops(mma, 0x0808_0010 | 1 << bit, Blame::Kernel, "must be zero");
    }
    let scaled =
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%mem], %da, %da, %r0, [%mem], [%mem], %go;";
    for bit in [1, 3, 6, 31] {
        stops(scaled, 0x0888_0000 | 1 << bit, Blame::Kernel, "must be zero");
    }
    let at = |d: &str| format!("tcgen05.mma.cta_group::1.kind::f16 {d}, %da, %da, %r0, %go;");
    stops(&at("[%mem+500]"), 0x0808_0010, Blame::Kernel, "not allocated");
    stops(&at("[%mem+0x100000]"), 0x0808_0010, Blame::Kernel, "from lane 16");
    stops(
        "tcgen05.mma.cta_group::2.kind::f16 [%mem], %da, %da, %r0, %go;",
        0,
        Blame::Kernel,
        "all instructions must have the same",
    );
    let shifted =
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::discard [%mem], [%mem], %da, %r0, %go;";
    stops(shifted, 0x0808_0010, Blame::Gap, ".ashift");
    let reduces = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r0, %r1}, %r2, [%mem];";
    stops(reduces, 0, Blame::Gap, "not for sm_100a");
    let stationary = "tcgen05.mma.ws.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go;";
    stops(stationary, 0x0808_0010, Blame::Kernel, "M 128 and N 32");
    stops(stationary, 0x4810_0010, Blame::Gap, "a shift of B");
    stops(
        "tcgen05.mma.ws.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go, %da;",
        0x0810_0010,
        Blame::Gap,
        "zero-column mask",
    );
    stops(
        "tcgen05.mma.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go, 3;",
        0x0808_0000,
        Blame::Gap,
        "scale-input-d",
    );
}

/// Arrivals beyond what the mbarrier expects, and descriptors beyond the block's memory.
#[test]
fn errors_of_descriptors_stop() {
    let kind = |body: &str| run(&kernel(8, 8, body), 128, &[0; 1024]).unwrap_err();
    let mma = "@%in tcgen05.mma.cta_group::1.kind::f16 [%mem], %da, %da, %r0, %go;";
    let head = "mov.u32 %r0, 0x8080010; setp.eq.u32 %in, %t, 0; setp.ne.u32 %go, %t, %t;";
    let stop = kind(&format!("{head} mov.u64 %da, 0x400000003fff; {mma}"));
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Bounds), "{stop}");
    let stop = kind(&format!("{head} mov.u64 %da, 0x3fff; {mma}"));
    assert!(stop.sentence.contains("bits 46 to 48"), "{stop}");
    let stop = kind(&format!("{head} mov.u64 %da, 0x0040400000000000; {mma}"));
    assert!(stop.sentence.contains("must be zero"), "{stop}");
    let stop = kind(&format!("{head} mov.u64 %da, 0x2000400000000000; {mma}"));
    assert!(stop.sentence.contains("K-major operand with the swizzle in units of 32"), "{stop}");
    let commit = "@%in tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%y];";
    let stop = kind(&format!("{head} mov.u32 %y, slot; add.u32 %y, %y, 8; {commit} bar.sync 0;"));
    assert_eq!(stop.kind, StopKind::Mbarrier, "{stop}");
}

/// A commit of one block arrives at the mbarriers of both blocks of a cluster.
#[test]
fn a_commit_arrives_in_two_blocks() {
    let body = "setp.eq.u32 %in, %t, 0; @%in mbarrier.init.shared::cta.b64 [slot+8], 1; fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mov.u32 %x, %cluster_ctarank; setp.eq.u32 %go, %x, 1; and.pred %in, %in, %go; mov.u32 %y, slot; add.u32 %y, %y, 8;
        { .reg .b16 %mask; mov.b16 %mask, 3;
        @%in tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%y], %mask; }
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; add.u32 %x, %x, 5;
        mul.wide.u32 %q, %x, 4; ld.param.u64 %p, [out]; add.u64 %p, %p, %q; st.global.u32 [%p], %x;";
    let source = kernel(8, 8, body).replace(
        "k(.param .u64 in, .param .u64 out) {",
        "k(.param .u64 in, .param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1 {",
    );
    let mut device = Device::new().with_threads(1);
    let input: Buffer<u32> = device.upload(&[0; 1024]).unwrap();
    let out: Buffer<u32> = device.alloc(1024).unwrap();
    let launched =
        device.load(&source).unwrap().kernel("k").unwrap().launch().grid(2).block(128).arg(input).arg(out);
    assert!(launch(&mut device, &launched).stop.is_none());
    assert_eq!(device.read(&out).unwrap()[5..8], [5, 6, 0]);
}
