//! Misuse of the block's barriers.

use super::{check, found};
use warpproof_check::Check;

const BARRIER: &[Check] = &[Check::Barrier];

fn classes(body: &str, block: u32) -> Vec<(&'static str, Vec<String>)> {
    let checked = check(body, 1, block, BARRIER);
    found(&checked)
        .into_iter()
        .map(|(class, places)| (class, places.into_iter().map(str::to_owned).collect()))
        .collect()
}

fn silent(body: &str, block: u32) {
    assert_eq!(classes(body, block), [], "{body}");
}

const ODD: &str = "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 1; @%p1 bra ODD;";

#[test]
fn lanes_of_a_warp_at_two_barriers() {
    let both =
        |form: &str| format!("{ODD} {form} 0; bra DONE; ODD: {form} 0 ; DONE: st.global.u32 [%to], %t;");
    assert_eq!(
        classes(&both("bar.sync"), 64),
        [("barrier", vec!["bar.sync 0".to_owned(), "bar.sync 0".to_owned()])]
    );
    assert_eq!(classes(&both("barrier.sync.aligned"), 64).len(), 1);
    silent(&both("barrier.sync"), 64);
    // Whole warps diverge.
    silent(
        "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 0; bra DONE; A: bar.sync 0; DONE: st.global.u32 [%to], %t;",
        64,
    );
}

#[test]
fn a_barrier_in_a_branch_of_half_a_warp() {
    let body = "setp.ge.u32 %p1, %t, 40; @%p1 bra DONE; bar.sync 0; DONE: st.global.u32 [%to], %t;";
    assert_eq!(classes(body, 64), [("barrier", vec!["bar.sync 0".to_owned()])]);
    // An early return is legal, wherever the compiler puts it, and whatever the threads do before they leave.
    silent("setp.ge.u32 %p1, %t, 40; @%p1 bra DONE; bar.sync 0; st.global.u32 [%to], %t; DONE:", 64);
    silent("setp.ge.u32 %p1, %t, 40; @%p1 ret; bar.sync 0; st.global.u32 [%to], %t;", 64);
    silent(
        "setp.ge.u32 %p1, %t, 40; @%p1 bra LEAVE; bar.sync 0; st.global.u32 [%to], %t; ret;
        LEAVE: st.global.u32 [%to], %t;",
        64,
    );
}

#[test]
fn loops_whose_iteration_count_differs_between_lanes() {
    let body = "mov.u32 %r1, 0; and.b32 %r3, %t, 1; add.u32 %r3, %r3, 1;
        LOOP: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r3; @%p1 bra LOOP;
        st.global.u32 [%to], %r1;";
    assert_eq!(classes(body, 32), [("barrier", vec!["bar.sync 0".to_owned()])]);
    let same = body.replace("add.u32 %r3, %r3, 1;", "mov.u32 %r3, 3;");
    silent(&same, 64);
}

#[test]
fn counts_that_disagree_name_both_places() {
    let body = "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 1, 96; bra DONE; A: bar.sync 1, 64; DONE: st.global.u32 [%to], %t;";
    let expected = vec!["bar.sync 1, 96".to_owned(), "bar.sync 1, 64".to_owned()];
    assert_eq!(classes(body, 96), [("barrier", expected)]);
}
