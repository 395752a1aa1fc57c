//! The banks of shared memory: every degree of conflict for every width.

use crate::{Case, passes, traffic};
use warpproof_count::MemoryOp::{Load, Mbarrier, Store};
use warpproof_sim::memory::Space::Shared;

/// Offsets of a group of `size` lanes with `bytes` each, of which `degree` use each bank: lane t of the group gets slot `t
/// / degree` of row `t % degree`, and rows are 128 bytes apart, so that a slot is in the same banks in each row.
fn crowded(t: u64, bytes: u64, degree: u64) -> u64 {
    t / degree * bytes + t % degree * 128
}

#[test]
fn words_in_conflicts_of_degree_1_to_32() {
    for degree in 1..=32 {
        let body = "st.shared.u32 [%s], %t;\nld.shared.u32 %r1, [%s];";
        let counters = Case::new(body, 32, |t| crowded(t, 4, degree)).count();
        // One group of 32 lanes; `degree` rows in the fullest bank.
        for (line, op) in [(1, Store), (2, Load)] {
            let request = traffic(&counters, line, Shared, op);
            assert_eq!(passes(&request), (1, degree, degree - 1), "degree {degree}");
            assert_eq!((request.bytes, request.ideal_wavefronts), (128, 1));
        }
    }
}

#[test]
fn eight_bytes_in_conflicts_of_degree_2_to_32() {
    // Two half-warps, each of degree 1 to 16: together 2 to 32 passes, where 2 are needed.
    for total in 2..=32u64 {
        let (low, high) = (total / 2, total - total / 2);
        let offset = |t: u64| if t < 16 { crowded(t, 8, low) } else { 8192 + crowded(t - 16, 8, high) };
        let body = "st.shared.u64 [%s], %off;\nld.shared.v2.u32 {%r1, %r2}, [%s];";
        let counters = Case::new(body, 32, offset).count();
        for (line, op) in [(1, Store), (2, Load)] {
            assert_eq!(passes(&traffic(&counters, line, Shared, op)), (1, total, total - 2), "{total}");
        }
    }
}

#[test]
fn sixteen_bytes_in_conflicts_of_degree_4_to_32() {
    // Four quarter-warps, each of degree 1 to 8: together 4 to 32 passes, where 4 are needed.
    for total in 4..=32u64 {
        let degree = |quarter: u64| (total + quarter) / 4;
        let offset = |t: u64| t / 8 * 4096 + crowded(t % 8, 16, degree(t / 8));
        let body = "st.shared.v4.u32 [%s], {%t, %t, %t, %t};\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];";
        let counters = Case::new(body, 32, offset).count();
        for (line, op) in [(1, Store), (2, Load)] {
            assert_eq!(passes(&traffic(&counters, line, Shared, op)), (1, total, total - 4), "{total}");
        }
    }
}

#[test]
fn one_word_for_all_is_one_pass() {
    let body = "ld.shared.u32 %r1, [%s];\nld.shared.u8 %h1, [%s+1];";
    let counters = Case::new(body, 64, |_| 512).count();
    assert_eq!(passes(&traffic(&counters, 1, Shared, Load)), (2, 2, 0));
    assert_eq!(passes(&traffic(&counters, 2, Shared, Load)), (2, 2, 0));
}

#[test]
fn lanes_that_share_words_of_one_bank() {
    // Three words of bank 0, used by 11, 11 and 10 lanes: three passes.
    let counters = Case::new("ld.shared.u32 %r1, [%s];", 32, |t| t % 3 * 128).count();
    assert_eq!(passes(&traffic(&counters, 1, Shared, Load)), (1, 3, 2));
}

#[test]
fn a_column_of_a_matrix_and_its_padding() {
    // Rows of 32 words: a column is in one bank. Rows of 33 words: a column uses all banks.
    let column = |words: u64| {
        let counters = Case::new("ld.shared.u32 %r1, [%s];", 32, |t| 4 * words * t).count();
        passes(&traffic(&counters, 1, Shared, Load))
    };
    assert_eq!(column(32), (1, 32, 31));
    assert_eq!(column(33), (1, 1, 0));
    // Rows of 34 words: even banks only, two lanes at each.
    assert_eq!(column(34), (1, 2, 1));
    // Rows of 40 words are 8 banks apart: four banks, eight lanes at each.
    assert_eq!(column(40), (1, 8, 7));
}

#[test]
fn bytes_and_halves_share_words() {
    // 32 bytes in 8 words; 32 halves in 16 words: no bank has two words.
    let body = "ld.shared.u8 %h1, [%s];";
    assert_eq!(passes(&traffic(&Case::new(body, 32, |t| t).count(), 1, Shared, Load)), (1, 1, 0));
    let body = "st.shared.u16 [%s], %h1;";
    assert_eq!(passes(&traffic(&Case::new(body, 32, |t| 2 * t).count(), 1, Shared, Store)), (1, 1, 0));
    // Halves a row apart: all in one bank.
    assert_eq!(passes(&traffic(&Case::new(body, 32, |t| 128 * t).count(), 1, Shared, Store)), (1, 32, 31));
}

#[test]
fn wide_requests_that_need_fewer_passes() {
    // All lanes at one address: lanes 1 apart use the same address, so half-warps (quarter-warps) are merged in pairs:
    // one pass for eight bytes, two for sixteen, and no conflict.
    let body = "ld.shared.u64 %d1, [%s];\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];";
    let counters = Case::new(body, 32, |_| 0).count();
    assert_eq!(passes(&traffic(&counters, 1, Shared, Load)), (1, 1, 0));
    assert_eq!(passes(&traffic(&counters, 2, Shared, Load)), (1, 2, 0));
    // Only eight lanes, sixteen bytes each: one quarter-warp.
    let body = "setp.lt.u32 %p1, %lane, 8;\n@%p1 ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%s];";
    let counters = Case::new(body, 32, |t| 16 * t).count();
    assert_eq!(passes(&traffic(&counters, 2, Shared, Load)), (1, 1, 0));
}

#[test]
fn lanes_that_are_off_ask_for_nothing() {
    // All words in one bank, but only four lanes are active.
    let body = "and.b32 %r1, %lane, 7;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%s], %t;";
    let counters = Case::new(body, 32, |t| 128 * t).count();
    let store = traffic(&counters, 3, Shared, Store);
    assert_eq!((passes(&store), store.lanes, store.bytes), ((1, 4, 3), 4, 16));
}

#[test]
fn mbarriers_are_atomics_of_their_own_kind() {
    let body = "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared.b64 [%s], 64;\nbar.sync 0;\n\
        mbarrier.arrive.shared.b64 %d1, [%s];";
    let counters = Case::new(body, 64, |_| 0).count();
    let arrive = traffic(&counters, 4, Shared, Mbarrier);
    assert_eq!((arrive.requests, arrive.lanes, arrive.depth, arrive.max_depth), (2, 64, 64, 32));
    assert_eq!(traffic(&counters, 2, Shared, Mbarrier).lanes, 1);
}

#[test]
fn a_stride_that_changes_in_a_loop() {
    // Iteration k reads words k t: with 32 banks, gcd(32, k) lanes share each bank that is used. For k = 1 to 10 that is
    // 1, 2, 1, 4, 1, 2, 1, 8, 1, 2: together 23 passes, of which 13 are conflicts. All of it twice, by two warps.
    let body = "mov.u32 %r5, 0;\nAGAIN:\nmov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nmul.lo.u32 %r2, %r1, %lane;\nmad.lo.u32 %r2, %r2, 4, %base;\n\
        ld.shared.u32 %r3, [%r2];\nsetp.lt.u32 %p1, %r1, 10;\n@%p1 bra LOOP;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 2;\n@%p1 bra AGAIN;";
    let load = traffic(&Case::new(body, 64, |_| 0).count(), 8, Shared, Load);
    assert_eq!(passes(&load), (40, 4 * 23, 4 * 13));
    assert_eq!((load.ideal_wavefronts, load.bytes), (40, 40 * 128));
}

#[test]
fn a_row_that_moves_keeps_its_conflicts() {
    // Words two apart, at 40 starts one word apart: two passes at each.
    let body = "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %s, %s, 4;\nst.shared.u32 [%s], %t;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 40;\n@%p1 bra LOOP;";
    let store = traffic(&Case::new(body, 32, |t| 8 * t).count(), 4, Shared, Store);
    assert_eq!(passes(&store), (40, 80, 40));
}
