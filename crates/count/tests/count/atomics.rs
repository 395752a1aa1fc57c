//! Atomics: lanes that share an address, passes through the banks, the hottest word, and the translation by ptxas.

use crate::{Case, passes, traffic};
use warpproof_count::Counters;
use warpproof_count::MemoryOp::{Atomic, Reduction};
use warpproof_sim::memory::Space::{Global, Shared};

#[test]
fn all_lanes_at_one_address() {
    // Two warps, all lanes at one word: each request has one address, 32 lanes deep, in one sector. The old value is read
    // and the addends differ, so 64 operations are serialized.
    let body = "atom.global.add.u32 %r1, [%g], %t;\nst.shared.u32 [%s], %r1;";
    let counters = Case::new(body, 64, |_| 0).count();
    let atomic = traffic(&counters, 1, Global, Atomic);
    assert_eq!((atomic.requests, atomic.addresses, atomic.depth, atomic.max_depth), (2, 2, 64, 32));
    assert_eq!((atomic.sectors, atomic.lanes, atomic.serial), (2, 64, 64));
    assert_eq!((counters.hottest.operations, counters.hottest.incomplete), (64, false));
}

#[test]
fn lanes_that_are_spread() {
    // Each lane its own word: 32 addresses, one lane at each.
    let body = "atom.global.add.u32 %r1, [%g], 1;\nst.shared.u32 [%s], %r1;";
    let counters = Case::new(body, 32, |t| 4 * t).count();
    let atomic = traffic(&counters, 1, Global, Atomic);
    assert_eq!((atomic.requests, atomic.addresses, atomic.depth, atomic.max_depth), (1, 32, 1, 1));
    assert_eq!(counters.hottest.operations, 1);
    // k words: 32 / k lanes at each.
    for k in [2, 4, 8, 16] {
        let counters = Case::new("red.global.add.u32 [%g], 1;", 32, |t| 4 * (t % k)).count();
        let reduction = traffic(&counters, 1, Global, Reduction);
        assert_eq!((reduction.addresses, reduction.depth, reduction.max_depth), (k, 32 / k, 32 / k));
        assert_eq!(counters.hottest.operations, 32 / k);
    }
    // Lanes 0 to 2 at one word, each other lane at its own: three deep, 30 addresses.
    let counters = Case::new("red.global.add.u32 [%g], 1;", 32, |t| if t < 3 { 512 } else { 4 * t }).count();
    let reduction = traffic(&counters, 1, Global, Reduction);
    assert_eq!((reduction.addresses, reduction.depth, reduction.max_depth), (30, 3, 3));
}

#[test]
fn the_hottest_word_of_a_launch() {
    // Five blocks of two warps. Each lane adds to its own word, and lane 0 of each warp adds twice to a word after them.
    let body = "red.global.add.f32 [%g], 0f3F800000;\nsetp.eq.u32 %p1, %lane, 0;\n@%p1 red.global.add.f32 [%data+8192], 0f3F800000;\n\
        @%p1 red.global.add.f32 [%data+8192], 0f3F800000;";
    let counters = Case { grid: 5, ..Case::new(body, 64, |t| 4 * t) }.count();
    assert_eq!(counters.hottest.operations, 5 * 2 * 2);
    // A loop over words: a request with the same shape at another address counts for another word.
    let body = "mov.u32 %r1, 0;\nLOOP:\nred.global.add.f32 [%g], 0f3F800000;\nadd.u64 %g, %g, 4;\nadd.u32 %r1, %r1, 1;\n\
        setp.lt.u32 %p1, %r1, 10;\n@%p1 bra LOOP;";
    // Lane t accesses words t to t + 9: ten lanes access word 9.
    assert_eq!(Case::new(body, 32, |t| 4 * t).count().hottest.operations, 10);
    assert_eq!(Case::new(body, 32, |_| 0).count().hottest.operations, 32);
}

#[test]
fn banks_do_one_operation_of_one_lane_in_a_pass() {
    let body = "atom.shared.add.u32 %r1, [%s], 1;\nst.shared.u32 [%s], %r1;";
    let atomic = |offset: fn(u64) -> u64| traffic(&Case::new(body, 32, offset).count(), 1, Shared, Atomic);
    // 32 consecutive words: one pass.
    let spread = atomic(|t| 4 * t);
    assert_eq!((passes(&spread), spread.addresses, spread.depth), ((1, 1, 0), 32, 1));
    // 32 lanes at one word: 32 passes, where spread lanes take one.
    let one = atomic(|_| 0);
    assert_eq!((passes(&one), one.addresses, one.depth), ((1, 32, 31), 1, 32));
    // Two words of one bank, 16 lanes at each: still 32.
    let bank = atomic(|t| t % 2 * 128);
    assert_eq!((passes(&bank), bank.addresses, bank.depth), ((1, 32, 31), 2, 16));
    // Four lanes per word, eight words in eight banks: four passes.
    assert_eq!(passes(&atomic(|t| t / 4 * 4)), (1, 4, 3));
    // Eight bytes: half-warps; all at one word: sixteen operations each.
    let body = "atom.shared.add.u64 %d1, [%s], 1;\nst.shared.u64 [%s], %d1;";
    let wide = traffic(&Case::new(body, 32, |_| 0).count(), 1, Shared, Atomic);
    assert_eq!(passes(&wide), (1, 32, 30));
    // Shared memory is not device memory: it has no hottest word.
    assert_eq!(Case::new(body, 32, |_| 0).count().hottest.operations, 0);
}

/// The kernel's requests in global memory as (kind, serial operations), and the hottest word.
fn made(instruction: &str) -> (&'static str, u64, u64) {
    let counters: Counters = Case::new(&format!("{instruction}\nadd.u32 %r9, %r9, 1;"), 32, |_| 0).count();
    let kind = |op| counters.totals.memory.get(&(Global, op)).copied();
    let (name, found) = match (kind(Atomic), kind(Reduction)) {
        (Some(atomic), None) => ("atom", atomic),
        (None, Some(reduction)) => ("red", reduction),
        both => panic!("{both:?}"),
    };
    (name, found.serial, counters.hottest.operations)
}

#[test]
fn what_ptxas_makes_of_atomics() {
    // From the SASS for sm_89. A counter: one lane adds the number of lanes. REDUX sums differing values.
    assert_eq!(made("red.global.add.u32 [%data], 1;"), ("red", 1, 1));
    assert_eq!(made("red.global.add.u32 [%data], %t;"), ("red", 1, 1));
    assert_eq!(made("red.global.max.s32 [%data], %t;"), ("red", 1, 1));
    // The old value is not read: RED instead of ATOM.
    assert_eq!(made("atom.global.add.u32 %r1, [%data], %t;"), ("red", 1, 1));
    assert_eq!(made("atom.global.add.f32 %f1, [%data], %f2;"), ("red", 32, 32));
    // It is read: one addition of a constant for the warp; additions of differing values cannot be merged.
    let used = "\nst.shared.u32 [%s], %r1;";
    assert_eq!(made(&format!("atom.global.add.u32 %r1, [%data], 1;{used}")), ("atom", 1, 1));
    assert_eq!(made(&format!("atom.global.add.u32 %r1, [%data], %t;{used}")), ("atom", 32, 32));
    assert_eq!(made(&format!("atom.global.max.u32 %r1, [%data], 7;{used}")), ("atom", 32, 32));
    // An address that ptxas cannot prove to be uniform; other types; operations that are not reductions.
    assert_eq!(made("red.global.add.u32 [%g], 1;"), ("red", 32, 32));
    assert_eq!(made("red.global.add.u64 [%data], 1;"), ("red", 32, 32));
    assert_eq!(made("red.global.add.f32 [%data], %f1;"), ("red", 32, 32));
    assert_eq!(made("atom.global.exch.b32 %r1, [%data], %t;"), ("atom", 32, 32));
    assert_eq!(made("atom.global.cas.b32 %r1, [%data], %t, %t;"), ("atom", 32, 32));
}
