//! Block-scaled `mma`: the golden data through the instructions, with every selector of the scales.
#![expect(clippy::unwrap_used, reason = "small numbers chosen by the test")]

use crate::golden::contained;
use crate::harness::{Column, eval_on, levels, try_eval_on};
use crate::mma::{Matrix, a_place, b_place, c_place, pack};
use crate::vectors::{Case, cases_of, committed, full};
use std::collections::BTreeMap;
use std::path::Path;
use warpproof_sim::{Blame, Stop, StopKind};

/// Byte-id and thread-id of A and of B.
type Selectors = [[usize; 2]; 2];

/// An op of the golden data: `m16n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.f32.ue4m3`.
struct Op<'a> {
    shape: &'a str,
    kind: &'a str,
    types: [&'a str; 2],
    scale: &'a str,
    k: usize,
    /// Scales of a row.
    count: usize,
}

impl<'a> Op<'a> {
    fn of(op: &'a str) -> Op<'a> {
        let [shape, kind, block, _, a, b, _, scale] = op.split('.').collect::<Vec<_>>()[..] else {
            panic!("{op}")
        };
        let k: usize = shape.rsplit('k').next().unwrap().parse().unwrap();
        let block: usize = block.strip_prefix("block").unwrap().parse().unwrap();
        Op { shape, kind, types: [a, b], scale, k, count: k / block }
    }

    /// Elements in a register.
    fn per(&self) -> usize {
        if self.k == 64 { 8 } else { 4 }
    }

    fn instruction(&self, [[a_byte, a_thread], [b_byte, b_thread]]: Selectors) -> String {
        format!(
            "mma.sync.aligned.{}.row.col.{}.block_scale.scale_vec::{}X.f32.{}.{}.f32.{} {{%d0, %d1, %d2, %d3}}, \
             {{%s0, %s1, %s2, %s3}}, {{%s4, %s5}}, {{%s6, %s7, %s8, %s9}}, \
             %s10, {{{a_byte}, {a_thread}}}, %s11, {{{b_byte}, {b_thread}}};",
            self.shape, self.kind, self.count, self.types[0], self.types[1], self.scale
        )
    }

    /// Every selector of A and of B, each at least once.
    fn selectors(&self) -> Vec<Selectors> {
        let bytes: Vec<usize> = (0..4).step_by(self.count).collect();
        (0..4).map(|i| [[bytes[i % bytes.len()], i / 2], [bytes[(i + 1) % bytes.len()], i]]).collect()
    }

    /// The registers of A, B, C and both scales.
    fn registers(&self, case: &Case, [[a_byte, a_thread], [b_byte, b_thread]]: Selectors) -> Vec<Column> {
        let (k, per) = (self.k, self.per());
        let matrix = |rows: usize, columns: usize, codes: Vec<u64>| Matrix { rows, columns, codes };
        let codes = |ty: &str, codes: &[u64]| if k == 64 { codes.to_vec() } else { contained(ty, codes) };
        let mut columns = pack(&matrix(16, k, codes(self.types[0], &case.a)), 4, per, a_place(16, per));
        columns.extend(pack(&matrix(k, 8, codes(self.types[1], &case.b)), 2, per, b_place(per)));
        columns.extend(pack(&matrix(16, 8, case.c.clone()), 4, 1, |r, lane, _| c_place(r, lane)));
        let (a, b, count) = (&case.scales.0, &case.scales.1, self.count);
        // Rows g and g + 8 are in neighboring lanes of a group.
        let a_lane = |row: usize| 4 * (row % 8) + 2 * a_thread + row / 8;
        columns.push(scale_register(16, count, a_byte, a_lane, |row, block| a[row * count + block]));
        columns.push(scale_register(8, count, b_byte, |n| 4 * n + b_thread, |n, block| b[block * 8 + n]));
        columns
    }
}

/// The register of scales: `lane(line)` has those of a row or column, and all other bytes are a NaN.
fn scale_register(
    lines: usize,
    count: usize,
    first: usize,
    lane: impl Fn(usize) -> usize,
    code: impl Fn(usize, usize) -> u64,
) -> Column {
    let mut column = vec![0xffff_ffff; 32];
    for line in 0..lines {
        for block in 0..count {
            let shift = 8 * (first + block);
            column[lane(line)] &= !(0xff << shift);
            column[lane(line)] |= code(line, block) << shift;
        }
    }
    column
}

/// The number of matrices that agree.
fn check(file: &Path) -> usize {
    let cases = cases_of(file);
    let mut by_op: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        by_op.entry(&case.op).or_default().push(case);
    }
    for (name, cases) in by_op {
        let op = Op::of(name);
        for (turn, selectors) in op.selectors().into_iter().enumerate() {
            // All cases with the first selector, one with the others.
            let cases = if turn == 0 { &cases[..] } else { &cases[turn % cases.len()..][..1] };
            let mut columns = vec![Column::new(); 12];
            for case in cases {
                for (all, one) in columns.iter_mut().zip(op.registers(case, selectors)) {
                    all.extend(one);
                }
            }
            let sources: Vec<(&str, Column)> = columns.into_iter().map(|column| ("b32", column)).collect();
            let got = eval_on("sm_120a", &op.instruction(selectors), &["b32"; 4], &sources);
            for (warp, case) in cases.iter().enumerate() {
                for i in 0..4 {
                    for lane in 0..32 {
                        let (row, column) = c_place(i, lane);
                        let (got, want) = (got[i][32 * warp + lane], case.d[row * 8 + column]);
                        assert_eq!(got, want, "{name} {} {selectors:?} ({row}, {column})", case.kind);
                    }
                }
            }
        }
    }
    cases.len()
}

const FILE: &str = "mma-block-scale-rtx-blackwell.jsonl";

#[test]
fn committed_matrices() {
    assert_eq!(check(&committed().join(FILE)), 41);
}

#[test]
fn all_matrices() {
    if let Some(folder) = full() {
        assert_eq!(check(&folder.join(FILE)), 522);
    }
}

fn zeros() -> Vec<(&'static str, Column)> {
    vec![("b32", vec![0; 32]); 12]
}

const MXF4: &str = "m16n8k64.kind::mxf4.block32.f32.e2m1.e2m1.f32.ue8m0";
const MXF8: &str = "m16n8k32.kind::mxf8f6f4.block32.f32.e4m3.e2m1.f32.ue8m0";
const FIRST: Selectors = [[0, 0], [0, 0]];

fn run(target: &str, body: &str, sources: &[(&str, Column)]) -> Result<Vec<Column>, Box<Stop>> {
    try_eval_on(target, levels()[0], body, &["b32"; 4], sources)
}

#[test]
fn selectors_that_do_not_exist_are_malformed() {
    for (op, selectors) in [
        (MXF4, [[1, 0], [0, 0]]),
        (MXF4, [[0, 2], [0, 0]]),
        (MXF4, [[0, 0], [3, 0]]),
        (MXF4, [[0, 0], [0, 4]]),
        (MXF8, [[4, 0], [0, 0]]),
    ] {
        let stop = run("sm_120a", &Op::of(op).instruction(selectors), &zeros()).unwrap_err();
        assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
        assert!(stop.sentence.contains("expected byte-id"), "{stop}");
    }
}

#[test]
fn selectors_in_registers_are_checked_when_they_are_used() {
    let body = |set: &str| {
        let text = Op::of(MXF4).instruction(FIRST).replace("{0, 0}, %s11", "{%h, 0}, %s11");
        format!(".reg .b16 %h; {set} {text}")
    };
    assert!(run("sm_120a", &body("mov.b16 %h, 2;"), &zeros()).is_ok());
    let wrong = run("sm_120a", &body("mov.b16 %h, 1;"), &zeros()).unwrap_err();
    assert_eq!(wrong.blame, Blame::Kernel, "{wrong}");
    assert!(wrong.sentence.contains("byte-id 1, thread-id 0: expected byte-id 0 or 2"), "{wrong}");
    let different = run("sm_120a", &body("cvt.u16.u32 %h, %lane;"), &zeros()).unwrap_err();
    assert!(different.sentence.contains("differ between the lanes"), "{different}");
}

#[test]
fn bits_outside_an_element_stop_the_kernel() {
    let body = Op::of(MXF8).instruction(FIRST);
    let mut sources = zeros();
    sources[4].1[9] = 0x0000_0100;
    let wrong = run("sm_120a", &body, &sources).unwrap_err();
    assert_eq!((wrong.blame, wrong.kind), (Blame::Kernel, StopKind::Malformed), "{wrong}");
    assert!(wrong.sentence.contains("a register of B is 0x00000100"), "{wrong}");
    assert_eq!(wrong.thread, Some([9, 0, 0]));
    // The same bits are an element of e4m3.
    let mut sources = zeros();
    sources[0].1[9] = 0x0000_0100;
    assert!(run("sm_120a", &body, &sources).is_ok());
}

#[test]
fn targets_that_have_scales() {
    let body = Op::of(MXF4).instruction(FIRST);
    for target in ["sm_120a", "sm_120f", "sm_121a", "sm_121f"] {
        assert!(run(target, &body, &zeros()).is_ok(), "{target}");
    }
    for target in ["sm_100a", "sm_103f", "sm_110a", "sm_120", "sm_121"] {
        let stop = run(target, &body, &zeros()).unwrap_err();
        assert_eq!(stop.blame, Blame::Input, "{stop}");
        assert!(stop.sentence.contains("needs sm_120a"), "{stop}");
    }
}
