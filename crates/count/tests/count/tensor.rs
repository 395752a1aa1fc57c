//! Matrix products by shape and type.

use crate::{Case, issued, on_line};
use warpproof_sim::isa::Unit;

#[test]
fn products_of_several_shapes() {
    let body = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n\
        mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n\
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n\
        mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r10, %r11, %r12, %r13}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r10, %r11, %r12, %r13};\n\
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e0, %e1}, {%e2}, {%e3}, {%e0, %e1};";
    let counters = Case { grid: 2, ..Case::new(body, 96, |_| 0) }.count();
    // Two blocks of three warps: six products of each.
    let tensor: Vec<(&str, u64)> =
        counters.totals.tensor.iter().map(|(shape, count)| (shape.as_str(), *count)).collect();
    assert_eq!(
        tensor,
        [
            ("m16n8k16.f32.f16.f16.f32", 6),
            ("m16n8k32.f32.e4m3.e4m3.f32", 6),
            ("m16n8k32.s32.s8.s8.s32", 6),
            ("m16n8k8.f32.tf32.tf32.f32", 6),
            ("m8n8k4.f64.f64.f64.f64", 6),
        ]
    );
    let each = 16 * 8 * 16 + 16 * 8 * 32 * 2 + 16 * 8 * 8 + 8 * 8 * 4;
    assert_eq!(counters.totals.tensor_multiply_adds(), 6 * each);
    assert_eq!(counters.totals.pipe(Unit::Tensor).executions, 30);
    assert_eq!(issued(on_line(&counters, 2)), (6, 192, 192, 0));
}

#[test]
fn a_product_in_a_loop() {
    // Seven iterations of two products, by two warps.
    let mma = "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};";
    let body = format!(
        "mov.u32 %r20, 0;\nLOOP:\n{mma}\n{mma}\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 7;\n@%p1 bra LOOP;"
    );
    let counters = Case::new(&body, 64, |_| 0).count();
    assert_eq!(counters.totals.tensor["m16n8k32.f32.e5m2.e4m3.f32"], 28);
}

#[test]
fn wmma() {
    let body = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%base], 16;\n\
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};";
    let counters = Case::new(body, 32, |_| 0).count();
    assert_eq!(counters.totals.tensor["m16n16k16.f32.f32"], 1);
    assert_eq!(counters.totals.tensor_multiply_adds(), 4096);
    // 16 × 16 halves, each held by two lanes in the layout of wmma: 512 bytes at least.
    let load: u64 = on_line(&counters, 1).memory.values().map(|traffic| traffic.bytes).sum();
    assert!(load == 512 || load == 1024, "{load}");
}
