//! Lanes that execute copies of one `.sync` instruction synchronize; lanes that execute different ones do not.

use super::run;
use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Blame, StopKind};

const SPLIT: &str = "setp.lt.u32 %p0, %t, 16; @%p0 bra LOW;";
const STORE: &str = "st.global.u32 [%to], %r9;";

fn words(body: &str, functions: &str) -> Vec<u32> {
    let (words, outcome) = run(body, functions, 32, 0, 32, Schedule::default());
    assert_eq!(outcome.stop, None, "{body}");
    words
}

fn each(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

#[test]
fn a_shuffle_on_both_sides_of_a_branch_is_one() {
    // Different registers for every operand, and a result that overwrites a source.
    let body = format!(
        "{SPLIT} add.u32 %r9, %t, 200; mov.u32 %r3, 16; shfl.sync.bfly.b32 %r9|%p3, %r9, %r3, 31, -1; bra END;\n\
         LOW: add.u32 %r5, %t, 100; mov.u32 %r6, 31; mov.u32 %r7, -1; shfl.sync.bfly.b32 %r9, %r5, 16, %r6, %r7; END: {STORE}"
    );
    assert_eq!(words(&body, ""), each(|t| if t < 16 { 216 + t } else { 84 + t }));
}

#[test]
fn one_register_may_be_several_sources_of_one_copy() {
    let body = format!(
        "{SPLIT} mov.u32 %r1, 3; mov.u32 %r2, 31; shfl.sync.idx.b32 %r9, %t, %r1, %r2, -1; bra END;\n\
         LOW: mov.u32 %r1, 31; shfl.sync.idx.b32 %r9, %r1, %r1, %r1, -1; END: {STORE}"
    );
    // Lanes below 16 pass 31 and read from lane 31; the others pass their number and read from lane 3.
    assert_eq!(words(&body, ""), each(|_| 31));
}

#[test]
fn copies_in_functions_and_loops_meet() {
    let functions = ".func (.reg .b32 d) high(.reg .b32 a) { redux.sync.add.u32 d, a, 0xffffffff; ret; }\n\
                     .func (.reg .b32 d) low(.reg .b32 a) { redux.sync.add.u32 d, a, 0xffffffff; ret; }";
    let body = format!(
        "{SPLIT} mov.u32 %r1, 0; H: call (%r2), high, (%t); add.u32 %r9, %r9, %r2; add.u32 %r1, %r1, 1;\n\
         setp.lt.u32 %p1, %r1, 5; @%p1 bra H; bra END;\n\
         LOW: mov.u32 %r1, 0; L: call (%r2), low, (1); add.u32 %r9, %r9, %r2; add.u32 %r1, %r1, 1;\n\
         setp.lt.u32 %p1, %r1, 5; @%p1 bra L; END: {STORE}"
    );
    let sum: u32 = 16 + (16..32).sum::<u32>();
    assert_eq!(words(&body, functions), each(|_| 5 * sum));
}

#[test]
fn votes_and_matches_meet_with_their_own_negations() {
    let body = format!(
        "and.b32 %r1, %t, 1; setp.eq.u32 %p2, %r1, 0; {SPLIT} vote.sync.ballot.b32 %r9, %p2, -1; bra END;\n\
         LOW: vote.sync.ballot.b32 %r9, !%p2, -1; END: {STORE}"
    );
    assert_eq!(words(&body, ""), each(|_| 0x5555_aaaa));
    let body = format!(
        "cvt.u64.u32 %d1, %t; and.b64 %d2, %d1, 3; {SPLIT} match.any.sync.b64 %r9, %d2, -1; bra END;\n\
         LOW: and.b64 %d3, %d1, 1; match.any.sync.b64 %r9, %d3, -1; END: {STORE}"
    );
    let value = |t: u32| if t < 16 { t & 1 } else { t & 3 };
    let same = |t: u32| (0..32).filter(|o| value(*o) == value(t)).fold(0, |mask, o| mask | 1 << o);
    assert_eq!(words(&body, ""), each(same));
}

#[test]
fn a_lane_that_exits_completes_the_meeting_of_others() {
    // Lane 31 runs long, then exits; the others wait at two locations.
    let body = format!(
        "setp.eq.u32 %p1, %t, 31; @%p1 bra LAST; {SPLIT} shfl.sync.idx.b32 %r9, %t, 0, 31, -1; bra END;\n\
         LOW: shfl.sync.idx.b32 %r9, %t, 30, 31, -1; bra END;\n\
         LAST: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9000; @%p1 bra LAST; exit; END: {STORE}"
    );
    assert_eq!(words(&body, ""), each(|t| [30, 0][usize::from(t >= 16)] * u32::from(t < 31)));
}

#[test]
fn a_spinning_lane_does_not_keep_others_from_meeting() {
    // Lanes 0 to 30 synchronize at two locations while lane 31 waits for what lane 0 stores afterward.
    let body = format!(
        ".shared .u32 flag; setp.eq.u32 %p1, %t, 31; @%p1 bra LAST; {SPLIT}\n\
         shfl.sync.idx.b32 %r9, %t, 0, 31, 0x7fffffff; bra END;\n\
         LOW: shfl.sync.idx.b32 %r9, %t, 30, 31, 0x7fffffff; st.volatile.shared.u32 [flag], 7; bra END;\n\
         LAST: ld.volatile.shared.u32 %r9, [flag]; setp.eq.u32 %p1, %r9, 0; @%p1 bra LAST; END: {STORE}"
    );
    assert_eq!(words(&body, ""), each(|t| if t == 31 { 7 } else { [30, 0][usize::from(t >= 16)] }));
}

#[test]
fn other_qualifiers_or_masks_do_not_meet() {
    for (high, low) in [
        ("shfl.sync.up.b32 %r9, %t, 1, 0, -1;", "shfl.sync.down.b32 %r9, %t, 1, 31, -1;"),
        ("redux.sync.add.u32 %r9, %t, -1;", "redux.sync.add.s32 %r9, %t, -1;"),
        ("shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;", "shfl.sync.bfly.b32 %r9, %t, 1, 31, 0x1ffff;"),
        ("bar.warp.sync -1;", "shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;"),
    ] {
        let body = format!("{SPLIT} {high} bra END; LOW: {low} END: {STORE}");
        let (_, outcome) = run(&body, "", 32, 0, 32, Schedule::default());
        let stop = outcome.stop.unwrap();
        assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Deadlock), "{body}: {stop}");
        let reports = |lanes: &str, instruction: &str| {
            let spelled = instruction.split(' ').next().unwrap();
            stop.notes.iter().any(|note| note.contains(lanes) && note.contains(spelled))
        };
        assert!(reports("lanes 0xffff0000 wait", high) && reports("lanes 0x0000ffff wait", low), "{stop}");
    }
}
