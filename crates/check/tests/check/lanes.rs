//! Warp-level synchronization: lanes that exchange values, vote, or execute an instruction together.

use super::{check, found};
use warpproof_check::Check;

const LANES: &[Check] = &[Check::Lanes];

fn silent(body: &str, block: u32) {
    let checked = check(body, 1, block, LANES);
    assert!(checked.findings.is_empty(), "{body}\n{:#?}", checked.findings);
}

fn reports(body: &str, block: u32, expected: &[(&str, &[&str])]) {
    let checked = check(body, 1, block, LANES);
    let expected: Vec<(&str, Vec<&str>)> = expected.iter().map(|(class, at)| (*class, at.to_vec())).collect();
    assert_eq!(found(&checked), expected, "{body}\n{:#?}", checked.findings);
}

#[test]
fn a_shuffle_from_a_lane_outside_its_mask() {
    let body = "add.u32 %r1, %lane, 16; setp.ge.u32 %p1, %lane, 16; @%p1 bra DONE;
        shfl.sync.idx.b32 %r2, %t, %r1, 31, 0xffff;
        st.global.u32 [%to], %r2;
        DONE:";
    reports(body, 32, &[("lanes", &["shfl.sync.idx.b32 %r2, %t, %r1, 31, 0xffff"])]);
    let checked = check(body, 1, 32, LANES);
    let finding = &checked.findings[0];
    assert!(
        finding.sentence.contains("thread (0,0,0) of block (0,0,0) shuffles from lane 16"),
        "{}",
        finding.sentence
    );
}

#[test]
fn an_undefined_value_is_reported_where_it_has_an_effect() {
    let shuffle = "setp.ge.u32 %p1, %lane, 20; @%p1 bra DONE; shfl.sync.down.b32 %r2, %t, 1, 31, 0xfffff;";
    let finding: &[(&str, &[&str])] = &[("lanes", &["shfl.sync.down.b32 %r2, %t, 1, 31, 0xfffff"])];
    let stored = [
        "st.global.u32 [%to], %r2;",
        "add.u32 %r3, %r2, 1; mul.lo.u32 %r4, %r3, 3; st.global.u32 [%to], %r4;",
        "shfl.sync.idx.b32 %r3, %r2, 19, 31, 0xfffff; st.global.u32 [%to], %r3;",
        "setp.ne.u32 %p2, %r2, 0x12345; @%p2 bra DONE; st.global.u32 [%to], %t;",
        "setp.ne.u32 %p2, %r2, 7; vote.sync.any.pred %p3, %p2, 0xfffff;",
    ];
    for rest in stored {
        reports(&format!("{shuffle} {rest} DONE:"), 32, finding);
    }
    let dropped = [
        "",
        "mov.u32 %r2, 5; st.global.u32 [%to], %r2;",
        "setp.lt.u32 %p2, %lane, 19; @%p2 st.global.u32 [%to], %r2;",
        "setp.lt.u32 %p2, %lane, 19; selp.b32 %r3, %r2, %t, %p2; st.global.u32 [%to], %r3;",
        "setp.lt.u32 %p2, %lane, 19; setp.gt.and.u32 %p3, %r2, %t, %p2; @%p3 st.global.u32 [%to], %t;",
        "setp.lt.u32 %p2, %lane, 19; setp.gt.u32 %p3, %r2, %t; and.pred %p3, %p3, %p2; @%p3 st.global.u32 [%to], %t;",
        "shfl.sync.idx.b32 %r3, %r2, 0, 31, 0xfffff; st.global.u32 [%to], %r3;",
    ];
    for rest in dropped {
        silent(&format!("{shuffle} {rest} DONE:"), 32);
    }
}

/// In a block of 16 threads, lane 0 sums existing lanes; the other lanes compute with missing lanes, but their results
/// are unused.
#[test]
fn a_reduction_over_part_of_a_warp_is_correct_for_its_first_lane() {
    let step =
        |distance: u32| format!("shfl.sync.down.b32 %r2, %r1, {distance}, 31, -1; add.u32 %r1, %r1, %r2;");
    let sum: String = [8, 4, 2, 1].map(step).concat();
    let one = format!(
        "mov.u32 %r1, %t; {sum} setp.ne.u32 %p1, %t, 0; @%p1 bra DONE; st.global.u32 [%to], %r1; DONE:"
    );
    silent(&one, 16);
    let all = format!("mov.u32 %r1, %t; {sum} st.global.u32 [%to], %r1;");
    assert!(!check(&all, 1, 16, LANES).findings.is_empty());
}

#[test]
fn out_of_range_lanes_read_themselves() {
    silent("shfl.sync.down.b32 %r2, %t, 7, 31, -1; st.global.u32 [%to], %r2;", 64);
    silent("shfl.sync.up.b32 %r2, %t, 3, 0, -1; st.global.u32 [%to], %r2;", 32);
}

#[test]
fn lanes_of_the_mask_that_passed_the_instruction() {
    // The store comes after the vote for all lanes; lanes that skip the vote execute the store first.
    let body = "setp.ge.u32 %p1, %lane, 20; mov.u32 %r1, 0; @%p1 bra DONE;
        vote.sync.ballot.b32 %r1, %p1, -1;
        DONE: st.global.u32 [%to], %r1;";
    reports(body, 32, &[("lanes", &["vote.sync.ballot.b32 %r1, %p1, -1"])]);
    // The lanes return instead: votes ignore exited lanes.
    silent(
        "setp.ge.u32 %p1, %lane, 20; @%p1 bra DONE; vote.sync.ballot.b32 %r1, %p1, -1; st.global.u32 [%to], %r1; DONE:",
        32,
    );
    // The lanes do other work first, which is not reachable from the vote.
    silent(
        "setp.ge.u32 %p1, %lane, 20; @%p1 bra ELSE; vote.sync.ballot.b32 %r1, %p1, -1; st.global.u32 [%to], %r1; ret;
        ELSE: st.global.u32 [%to], %t;",
        32,
    );
    // A loop that lanes leave one after another.
    let body = "mov.u32 %r1, 0; LOOP: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; add.u32 %r1, %r1, 1;
        setp.le.u32 %p1, %r1, %lane; @%p1 bra LOOP; st.global.u32 [%to], %r1;";
    let checked = check(body, 1, 32, LANES);
    assert_eq!(found(&checked)[0].0, "lanes", "{:#?}", checked.findings);
    // The mask is recomputed in each iteration.
    silent(
        "mov.u32 %r1, 0; LOOP: activemask.b32 %r3; shfl.sync.idx.b32 %r2, %r1, %lane, 31, %r3; add.u32 %r1, %r1, 1;
        setp.le.u32 %p1, %r1, %lane; @%p1 bra LOOP; st.global.u32 [%to], %r1;",
        32,
    );
}

#[test]
fn a_warp_barrier_in_a_branch() {
    let body =
        "setp.ge.u32 %p1, %lane, 20; @%p1 bra DONE; bar.warp.sync 0xffffffff; DONE: st.global.u32 [%to], %t;";
    reports(body, 32, &[("lanes", &["bar.warp.sync 0xffffffff"])]);
    // Each side of the branch has its own barrier, and the lanes synchronize there.
    silent(
        "setp.ge.u32 %p1, %lane, 20; @%p1 bra ELSE; bar.warp.sync 0xffffffff; bra DONE;
        ELSE: bar.warp.sync 0xffffffff; DONE: st.global.u32 [%to], %t;",
        32,
    );
}

#[test]
fn masks_that_do_not_name_each_other() {
    let body = "setp.eq.u32 %p1, %lane, 0; selp.b32 %r1, 0xffffffff, 0xfffffffe, %p1;
        vote.sync.ballot.b32 %r2, %p1, %r1; st.global.u32 [%to], %r2;";
    reports(body, 32, &[("lanes", &["vote.sync.ballot.b32 %r2, %p1, %r1"])]);
    silent(
        "setp.lt.u32 %p1, %lane, 16; selp.b32 %r1, 0x0000ffff, 0xffff0000, %p1;
        vote.sync.ballot.b32 %r2, %p1, %r1; st.global.u32 [%to], %r2;",
        32,
    );
}

#[test]
fn a_caller_outside_its_mask() {
    let body = "setp.ne.u32 %p1, %lane, 0; vote.sync.ballot.b32 %r2, %p1, 0xffff; st.global.u32 [%to], %r2;";
    reports(body, 32, &[("lanes", &["vote.sync.ballot.b32 %r2, %p1, 0xffff"])]);
}

const MMA: &str = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f0,%f1,%f2,%f3}";

#[test]
fn matrix_instructions_by_part_of_a_warp() {
    let branch = format!("setp.ge.u32 %p1, %lane, 16; @%p1 bra DONE; {MMA}; DONE: ret;");
    for body in [branch.as_str(), &format!("{MMA};")] {
        let checked = check(body, 1, if body.len() == branch.len() { 32 } else { 16 }, LANES);
        let finding = checked.findings.first().unwrap();
        assert_eq!(finding.class.name(), "lanes");
        assert_eq!(
            finding.sentence,
            "mma.sync.aligned is executed by lanes 0x0000ffff only; all lanes of the warp must execute it"
        );
    }
    silent(&format!("{MMA};"), 32);
    // The other lanes wait elsewhere: the launch stops there.
    let body = format!("setp.ge.u32 %p1, %lane, 16; @%p1 bra DONE; {MMA}; DONE: bar.sync 0;");
    let checked = check(&body, 1, 32, LANES);
    let places: Vec<Vec<&str>> = found(&checked).into_iter().map(|(_, places)| places).collect();
    assert_eq!(checked.findings[0].class.name(), "lanes", "{:#?}", checked.findings);
    assert!(
        checked.findings[0].sentence.starts_with("mma.sync.aligned is executed by lanes 0x0000ffff only")
    );
    assert!(places[0][0].starts_with("mma") && places[0][1] == "bar.sync 0", "{places:?}");
}
