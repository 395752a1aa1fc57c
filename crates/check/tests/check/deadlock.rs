//! Deadlocks: no thread can run, or the running threads can never end.

use super::{check, found};
use warpproof_check::{Check, Checked};
use warpproof_sim::stop::StopKind;

const NONE: &[Check] = &[];

fn stop(checked: &Checked) -> (StopKind, String) {
    let stop = checked.outcome.stop.as_ref().unwrap();
    (stop.kind, stop.to_string())
}

#[test]
fn every_place_at_which_warps_wait_is_named() {
    let body = "setp.ge.u32 %p1, %t, 64; @%p1 bra SECOND; bar.sync 1, 96; SECOND: bar.sync 2, 96;";
    let checked = check(body, 1, 96, NONE);
    assert_eq!(found(&checked), [("deadlock", vec!["bar.sync 1, 96", "bar.sync 2, 96"])]);
    let labels: Vec<&str> = checked.findings[0].places.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(
        labels,
        [
            "warps 0, 1 wait here at barrier 1 for 96 threads; 64 arrived",
            "warp 2 waits here at barrier 2 for 96 threads; 32 arrived"
        ]
    );
    let help = checked.findings[0].help.as_deref().unwrap();
    assert!(help.starts_with("barrier 1 waits for 96 threads: 64 arrived, 32 wait elsewhere"), "{help}");
    assert!(stop(&checked).1.contains("warps 0, 1 wait here"));
}

const MBARRIER: &str = "mov.u32 %r9, tile; setp.ne.u32 %p7, %t, 0; @%p7 bra READY;
    mbarrier.init.shared.b64 [%r9], 65; READY: bar.sync 0; mbarrier.arrive.shared.b64 %d1, [%r9];";

#[test]
fn an_mbarrier_that_never_completes() {
    let body = format!("{MBARRIER} WAIT: mbarrier.test_wait.shared.b64 %p1, [%r9], %d1; @!%p1 bra WAIT;");
    let checked = check(&body, 1, 64, NONE);
    assert_eq!(found(&checked), [("deadlock", vec!["mbarrier.test_wait.shared.b64 %p1, [%r9], %d1"])]);
    assert!(checked.outcome.instructions < 200_000, "{}", checked.outcome.instructions);
    let label = &checked.findings[0].places[0].text;
    assert!(label.starts_with("warps 0, 1 loop here forever"), "{label}");
    assert!(label.contains("waits for 1 more of 65 arrivals"), "{label}");
}

#[test]
fn loops_that_nothing_ends() {
    let endless = [
        // A flag that no thread sets.
        "SPIN: ld.volatile.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;",
        // A lock that no thread releases.
        "setp.ne.u32 %p2, %t, 0; @%p2 bra SPIN; mov.u32 %r2, 1; st.volatile.global.u32 [%out], %r2;
         SPIN: atom.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;",
        // Some lanes spin, the others wait for them.
        "setp.lt.u32 %p2, %lane, 8; @!%p2 bra MEET; SPIN: ld.volatile.global.u32 %r1, [%out];
         setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; MEET: bar.warp.sync -1;",
        // Two loops in one warp, of different length.
        "setp.lt.u32 %p2, %lane, 8; @!%p2 bra OTHER; SPIN: ld.volatile.global.u32 %r1, [%out];
         setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; ret;
         OTHER: ld.volatile.global.u32 %r1, [%out]; add.u32 %r2, %r1, 7; setp.eq.u32 %p1, %r2, 7; @%p1 bra OTHER;",
        // All lanes vote on the exit condition.
        "SPIN: ld.volatile.global.u32 %r1, [%to]; setp.ne.u32 %p1, %r1, 0; vote.sync.any.pred %p3, %p1, -1; @!%p3 bra SPIN;",
        // A counter that wraps around quickly.
        "SPIN: ld.volatile.global.u32 %r1, [%out]; add.u32 %r2, %r2, 1; and.b32 %r2, %r2, 63;
         setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;",
        // A store that does not change the value.
        "mov.u32 %r3, 0; SPIN: st.volatile.global.u32 [%to], %r3; bra SPIN;",
        "SELF: bra SELF;",
    ];
    for body in endless {
        for (grid, block) in [(1, 32), (1, 96), (3, 32)] {
            let checked = check(body, grid, block, NONE);
            let (kind, text) = stop(&checked);
            assert_eq!(kind, StopKind::Deadlock, "{body}\n{text}");
            assert!(text.contains("can never end"), "{text}");
        }
    }
}

/// Loops that the deadlock detection cannot classify run until the instruction limit.
#[test]
fn loops_that_may_end_reach_the_limit() {
    let open = [
        // The clock changes.
        "SPIN: mov.u64 %d1, %clock64; setp.ne.u64 %p1, %d1, 0; @%p1 bra SPIN;",
        // Other blocks may write it, which this block does not observe.
        "SPIN: ld.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN;",
        // A counter that wraps around only after a long time.
        "SPIN: add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra SPIN;",
        // Memory changes in each iteration.
        "SPIN: atom.global.add.u32 %r1, [%out], 1; setp.ne.u32 %p1, %r1, 0x7fffffff; @%p1 bra SPIN;",
    ];
    for body in open {
        assert_eq!(stop(&check(body, 2, 32, NONE)).0, StopKind::Limit, "{body}");
    }
}

/// Long waits that end are not deadlocks.
#[test]
fn loops_that_end_are_not_deadlocks() {
    let count = |n: u32| {
        format!("mov.u32 %r2, 0; COUNT: add.u32 %r2, %r2, 1; setp.ne.u32 %p4, %r2, {n}; @%p4 bra COUNT;")
    };
    // Warp 1, or block 1, sets the flag after many iterations.
    for (who, grid, block) in [("setp.ge.u32 %p2, %t, 32;", 1, 64), ("setp.eq.u32 %p2, %cta, 1;", 2, 32)] {
        let body = format!(
            "{who} @%p2 bra SET; SPIN: ld.volatile.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; ret;
             SET: {} mov.u32 %r3, 1; st.volatile.global.u32 [%out], %r3;",
            count(100_000)
        );
        let checked = check(&body, grid, block, NONE);
        assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    }
}
