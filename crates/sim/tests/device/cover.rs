//! Coverage of small kernels, and proposed inputs for the outcomes that were missed.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use warpproof_sim::Device;
use warpproof_sim::cover::{Coverage, Environment, Points, Slice};

/// A kernel with special cases for lengths of one residue and for one value. Its conditions are in lines 8, 11 and 14.
const KERNEL: &str = ".version 8.7
.target sm_89
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
.reg .b64 %d<4>; .reg .b32 %r<8>; .reg .pred %p<4>; .reg .f32 %f<4>;
ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1;
setp.ge.u32 %p0, %r1, %r0;
@%p0 bra END;
ld.global.f32 %f0, [%d1];
and.b32 %r2, %r0, 3; setp.ne.s32 %p1, %r2, 2;
@%p1 bra NEXT;
mov.f32 %f0, 0f00000000;
NEXT: setp.eq.f32 %p2, %f0, 0f449A5000;
selp.f32 %f1, 0f3F800000, %f0, %p2;
st.global.f32 [%d1], %f1;
END: ret;
}
";

fn cover(lengths: &[u32], value: f32) -> Coverage {
    let mut coverage = Coverage::default();
    for length in lengths {
        let mut device = Device::new().with_threads(1);
        let module = device.load(KERNEL).unwrap();
        let out = device.upload(&[value; 64]).unwrap();
        let kernel = module.kernel("k").unwrap();
        let launch = kernel.launch().block(64).arg(out).arg(*length);
        let points = Arc::new(Points::of(kernel.program()));
        let (outcome, reached) = device.cover(&launch, &points);
        assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
        coverage.add("k", &points, &reached);
    }
    coverage
}

/// Missing lines and outcomes.
fn missing(coverage: &Coverage) -> Vec<(u32, bool)> {
    coverage.missing().iter().map(|missing| (missing.line.line, missing.outcome)).collect()
}

#[test]
fn outcomes_that_never_came_up_are_named() {
    let some = cover(&[5, 64], 1.0);
    assert_eq!(missing(&some), [(11, false), (14, true)]);
    assert_eq!(some.gaps().1.iter().map(|line| line.line).collect::<Vec<_>>(), [12]);
    let totals = some.totals();
    assert_eq!((totals.outcomes, totals.outcomes_reached), (6, 4));
    assert_eq!(some.sentence(), "90 % of lines, 4 of 6 branch outcomes");
    assert_eq!(missing(&cover(&[64], 1.0)), [(8, true), (11, false), (14, true)]);
    let mut all = some;
    all.merge(&cover(&[6], 1.0));
    all.merge(&cover(&[4], 1234.5));
    assert_eq!(missing(&all), []);
    assert_eq!(Coverage::read(&all.write()), all);
}

#[test]
fn a_condition_on_parameters_is_evaluated() {
    let mut device = Device::new();
    let module = device.load(KERNEL).unwrap();
    let kernel = module.kernel("k").unwrap();
    let slice = Slice::of(kernel.program());
    let points: Vec<_> = Points::of(kernel.program()).conditions().collect();
    let at = |line: u32| points.iter().find(|point| point.line.line == line).unwrap();
    let value = |line: u32, length: u32, thread: u32| {
        let environment = Environment {
            parameters: vec![None, Some(length.to_le_bytes().to_vec())],
            threads: [64, 1, 1],
            blocks: [1; 3],
            thread: [thread, 0, 0],
            ..Environment::default()
        };
        slice.value(at(line).pc, at(line).row, &environment)
    };
    assert_eq!(value(8, 5, 4), Some(false));
    assert_eq!(value(8, 5, 5), Some(true));
    assert_eq!(value(11, 8, 0), Some(true));
    assert_eq!(value(11, 10, 0), Some(false));
    assert_eq!(value(14, 10, 0), None, "the condition depends on a load");
    assert_eq!(slice.constants(at(14).pc, at(14).row), Some(vec![1234.5]));
    assert_eq!(slice.constants(at(8).pc, at(8).row), None);
}
