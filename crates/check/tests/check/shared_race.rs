//! Stores of the same value to shared memory.

use warpproof_check::{Check, CheckLaunch, Settings, Severity};
use warpproof_sim::Device;
use warpproof_sim::schedule::Order;

/// The severities of the findings in a kernel with one array of dynamic shared memory. `%r0` is the array's address, `%r1`
/// the thread's index.
fn severities(array: &str, body: &str, threads: u32, order: Order) -> Vec<Severity> {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.extern .shared .align 16 .b8 {array}[];\n\
         .visible .entry k() {{\n.reg .b32 %r<8>; .reg .f32 %a, %b, %p, %q, %s, %x; .reg .pred %c;\n\
         mov.u32 %r0, {array}; mov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    device.schedule.order = order;
    let module = device.load(&ptx).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(threads).shared(512);
    let checked = device.check(&launch, &Settings { checks: vec![Check::Race], ..Settings::default() });
    checked.findings.iter().map(|finding| finding.severity).collect()
}

/// The severities of the findings if threads 0 and 32, 1 and 33, … store to the same words of an array: the thread's index
/// and a mask.
fn stores(array: &str, mask: u32) -> Vec<Severity> {
    let body = format!(
        "and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 2; add.u32 %r0, %r0, %r2;\n\
         and.b32 %r3, %r1, {mask}; st.shared.u32 [%r0], %r3;"
    );
    severities(array, &body, 64, Order::Forward)
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
    let body = format!(
        "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 2; add.u32 %r0, %r0, %r2;\n\
         cvt.rn.f32.u32 %a, %r1; fma.rn.f32 %a, %a, 0f3DCCCCCD, 0f3F000001; mul.f32 %b, %a, %a;\n\
         mul.f32 %p, %a, %b; shfl.sync.bfly.b32 %q, %p, 1, 31, -1; {sum}\n\
         st.shared.f32 [%r0], %s;"
    );
    severities(array, &body, 32, Order::Forward)
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

#[test]
fn a_read_before_equal_stores_races_with_the_stores_of_others() {
    // One thread reads a word, then all threads store 7 to it.
    let reader = |thread: u32, store: &str| {
        format!(
            "setp.eq.u32 %c, %r1, {thread}; mov.u32 %r2, 7; st.shared.u32 [%r0], %r2; bar.sync 0;\n\
             @%c ld.shared.u32 %r3, [%r0]; {store}"
        )
    };
    let store = "st.shared.u32 [%r0], %r2;";
    for thread in [0, 3, 40, 95] {
        for order in [Order::Forward, Order::Reverse] {
            for array in ["tile", "global_smem"] {
                let found = severities(array, &reader(thread, store), 96, order);
                assert!(found.contains(&Severity::Error), "{array}, {thread}, {order:?}: {found:?}");
            }
        }
    }
    assert!(severities("tile", &reader(0, store), 32, Order::Forward).contains(&Severity::Error), "one warp");
    let bytes = reader(0, store).replace(".shared.u32", ".shared.u8");
    assert!(severities("tile", &bytes, 96, Order::Forward).contains(&Severity::Error), "bytes");
    let fenced = reader(0, &format!("membar.cta; {store}"));
    assert!(
        severities("tile", &fenced, 96, Order::Forward).contains(&Severity::Error),
        "all readers are kept"
    );
    let ordered = reader(0, &format!("bar.sync 0; {store}"));
    assert!(!severities("tile", &ordered, 96, Order::Forward).contains(&Severity::Error), "a barrier");
    let warp = reader(0, &format!("bar.warp.sync -1; {store}"));
    assert_eq!(severities("tile", &warp, 32, Order::Forward), [], "a barrier of the warp");
    assert!(severities("tile", &warp, 64, Order::Forward).contains(&Severity::Error), "two warps");
    // An atomic of the thread that read does not order the atomics of others after the read.
    let atomic = reader(0, "atom.shared.add.u32 %r4, [%r0], 1;");
    assert!(severities("tile", &atomic, 64, Order::Forward).contains(&Severity::Error), "atomics");
}

#[test]
fn a_write_races_with_the_second_reader() {
    // Thread 0 stores, two threads read after a barrier, and the first of them stores.
    let races = |barrier: &str, second: u32, after: &str| {
        let body = format!(
            "setp.eq.u32 %c, %r1, 0; @%c st.shared.u32 [%r0], %r1; {barrier} @%c ld.shared.u32 %r3, [%r0];\n\
             setp.eq.u32 %c, %r1, {second}; @%c ld.shared.u32 %r3, [%r0]; {after}\n\
             setp.eq.u32 %c, %r1, 0; mov.u32 %r2, 5; @%c st.shared.u32 [%r0], %r2;"
        );
        severities("tile", &body, 64, Order::Forward)
    };
    let (block, warp) = ("bar.sync 0;", "bar.warp.sync -1;");
    for (barrier, second) in [(block, 1), (block, 40), (warp, 1)] {
        assert_eq!(races(barrier, second, ""), [Severity::Error], "{barrier} {second}");
        assert_eq!(races(barrier, second, block), [], "{barrier} {second}");
    }
    assert_eq!(races(block, 1, warp), []);
    assert_eq!(races(block, 40, warp), [Severity::Error]);
    assert_eq!(races(warp, 1, warp), []);
}

#[test]
fn a_volatile_read_may_be_concurrent_with_atomics_but_not_with_stores() {
    let read = "ld.volatile.shared.u32 %r2, [%r0]; st.shared.u32 [%r3], %r2;";
    let swap = "atom.shared.cas.b32 %r4, [%r0], 5, 6;";
    let start = "shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r0; add.u32 %r3, %r3, 64;";
    let of = |body: &str| severities("tile", &format!("{start}\n{body}"), 64, Order::Forward);
    // Both orders of the two instructions.
    for body in [format!("{read}\n{swap}"), format!("{swap}\n{read}")] {
        assert_eq!(of(&body), [], "{body}");
        // An ordinary read, also next to a volatile one, and a store instead of the atomic.
        let ordinary = read.replace(".volatile", "");
        assert_eq!(of(&body.replace(".volatile", "")), [Severity::Error]);
        assert_eq!(of(&body.replace(read, &format!("{read} {ordinary}"))), [Severity::Error]);
        assert_eq!(of(&body.replace(read, &format!("{ordinary} {read}"))), [Severity::Error]);
        assert_eq!(of(&body.replace(swap, "st.shared.u32 [%r0], %r1;")).last(), Some(&Severity::Error));
        assert_eq!(
            of(&body.replace(swap, "st.volatile.shared.u32 [%r0], %r1;")).last(),
            Some(&Severity::Error)
        );
    }
}
