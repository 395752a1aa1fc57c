//! Stores of the same value to shared memory.

use warpproof_sim::Device;
use warpproof_sim::check::{Check, Settings, Severity};

/// The severities of the findings if threads 0 and 32, 1 and 33, … store to the same words of dynamic shared memory with
/// the name `array`: the thread's index and a mask.
fn stores(array: &str, mask: u32) -> Vec<Severity> {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.extern .shared .align 16 .b8 {array}[];\n\
         .visible .entry k() {{\n.reg .b32 %r<8>;\nmov.u32 %r0, {array}; mov.u32 %r1, %tid.x;\n\
         and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 2; add.u32 %r0, %r0, %r2;\n\
         and.b32 %r3, %r1, {mask}; st.shared.u32 [%r0], %r3;\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(64).shared(128);
    let checked = device.check(&launch, &Settings { checks: vec![Check::Race], ..Settings::default() });
    checked.findings.iter().map(|finding| finding.severity).collect()
}

#[test]
fn the_same_value_is_a_note() {
    assert_eq!(stores("tile", 31), [Severity::Note]);
    assert_eq!(stores("tile", 63), [Severity::Error]);
}

#[test]
fn threads_of_triton_that_hold_the_same_element_may_store_it_together() {
    assert_eq!(stores("global_smem", 31), []);
    assert_eq!(stores("global_smem", 63), [Severity::Error]);
}

/// The severities of the findings if pairs of lanes add their products by a butterfly shuffle, with this instruction, and
/// store the sum to one word.
fn sums_of_products(array: &str, sum: &str) -> Vec<Severity> {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.extern .shared .align 16 .b8 {array}[];\n\
         .visible .entry k() {{\n.reg .b32 %r<8>; .reg .f32 %a, %b, %p, %q, %s, %x; .reg .pred %c;\n\
         mov.u32 %r0, {array}; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 2; add.u32 %r0, %r0, %r2;\n\
         cvt.rn.f32.u32 %a, %r1; fma.rn.f32 %a, %a, 0f3DCCCCCD, 0f3F000001; mul.f32 %b, %a, %a;\n\
         mul.f32 %p, %a, %b; shfl.sync.bfly.b32 %q, %p, 1, 31, -1; {sum}\n\
         st.shared.f32 [%r0], %s;\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(32).shared(512);
    let checked = device.check(&launch, &Settings { checks: vec![Check::Race], ..Settings::default() });
    checked.findings.iter().map(|finding| finding.severity).collect()
}

#[test]
fn a_product_that_triton_fused_into_a_sum_is_a_note() {
    let (add, fma) = ("add.f32 %s, %p, %q;", "fma.rn.f32 %s, %a, %b, %q;");
    assert_eq!(sums_of_products("global_smem", add), [], "x + y = y + x");
    assert_eq!(sums_of_products("global_smem", fma), [Severity::Note]);
    assert_eq!(sums_of_products("tile", fma), [Severity::Error], "not made by Triton");
    let other = "fma.rn.f32 %s, %a, %a, %q;";
    assert_eq!(sums_of_products("global_smem", other), [Severity::Error], "another product");
    let pair = format!(
        "{fma} shl.b32 %r2, %r2, 1; mov.u32 %r0, global_smem; add.u32 %r0, %r0, %r2; st.shared.v2.f32 [%r0+128], {{%s, %q}};"
    );
    assert_eq!(
        sums_of_products("global_smem", &pair.replace("%q}", "%s}")),
        [Severity::Note; 2],
        "two words"
    );
    assert_eq!(sums_of_products("global_smem", &pair), [Severity::Error, Severity::Note], "the second word");
    let index = "fma.rn.f32 %x, %a, %b, %q; cvt.rn.f32.u32 %s, %r1; add.f32 %s, %s, %x;";
    assert_eq!(sums_of_products("global_smem", index), [Severity::Error], "more than rounding");
    let kept = "fma.rn.f32 %x, %a, %b, %q;";
    let chosen = format!("{kept} setp.gt.f32 %c, %x, %q; selp.f32 %s, %a, %p, %c;");
    assert_eq!(sums_of_products("global_smem", &chosen), [Severity::Error], "a choice by a fused product");
    let elsewhere = format!(
        "{kept} cvt.rzi.u32.f32 %r3, %x; and.b32 %r3, %r3, 0; add.u32 %r0, %r0, %r3; mov.f32 %s, %a;"
    );
    assert_eq!(
        sums_of_products("global_smem", &elsewhere),
        [Severity::Error],
        "a fused product in the address"
    );
}
