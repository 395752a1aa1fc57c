//! Forward progress: a lane that waits for another lane of its warp must not prevent it from running.

use super::run;
use warpproof_sim::schedule::Schedule;

fn schedules() -> impl Iterator<Item = Schedule> {
    // Turns shorter than a fragment's time slice, equal to it, and longer.
    [1, 13, 1024, 4096].into_iter().map(|quantum| Schedule { quantum, ..Schedule::default() })
}

/// Each lane waits for its turn in a loop whose only branch is its own.
#[test]
fn lanes_wait_for_each_other_whatever_the_quantum() {
    let body = "spin: ld.volatile.global.u32 %r1, [%out]; setp.ne.u32 %p1, %r1, %t; @%p1 bra spin;\n\
                st.volatile.global.u32 [%to+4], %r1; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%out], %r1;";
    for schedule in schedules() {
        let (words, outcome) = run(body, "", 32, 0, 33, schedule);
        assert!(outcome.stop.is_none(), "{schedule:?}: {:?}", outcome.stop);
        assert_eq!(words[0], 32);
        assert_eq!(words[1..], (0..32).collect::<Vec<u32>>());
    }
}

/// The waiting lanes diverge and reconverge in every iteration, so that no stretch is ever as long as a slice.
#[test]
fn a_loop_that_diverges_gives_way_too() {
    let body = "setp.eq.u32 %p1, %t, 31; @%p1 bra release;\n\
                and.b32 %r2, %t, 1; setp.eq.u32 %p2, %r2, 0;\n\
                spin: @%p2 bra even; add.u32 %r3, %r3, 1; bra join; even: add.u32 %r3, %r3, 2;\n\
                join: ld.volatile.global.u32 %r1, [%out]; setp.eq.u32 %p3, %r1, 0; @%p3 bra spin; bra done;\n\
                release: mov.u32 %r4, 7; st.volatile.global.u32 [%out], %r4;\n\
                done: st.global.u32 [%to+4], %r4;";
    for schedule in schedules() {
        let (words, outcome) = run(body, "", 32, 0, 33, schedule);
        assert!(outcome.stop.is_none(), "{schedule:?}: {:?}", outcome.stop);
        assert_eq!((words[0], words[32]), (7, 7));
    }
}

/// The waiting lanes are deeper in calls, and each call chooses a fragment again.
#[test]
fn a_loop_that_calls_gives_way_too() {
    let function = ".func (.reg .b32 %v) look(.reg .b64 %a) { ld.volatile.global.u32 %v, [%a]; ret; }";
    let body = "setp.eq.u32 %p1, %t, 31; @%p1 bra release;\n\
                spin: call (%r1), look, (%out); setp.eq.u32 %p3, %r1, 0; @%p3 bra spin; bra done;\n\
                release: mov.u32 %r4, 7; st.volatile.global.u32 [%out], %r4;\n\
                done: st.global.u32 [%to+4], %r4;";
    for schedule in schedules() {
        let (words, outcome) = run(body, function, 32, 0, 33, schedule);
        assert!(outcome.stop.is_none(), "{schedule:?}: {:?}", outcome.stop);
        assert_eq!((words[0], words[32]), (7, 7));
    }
}

/// Lanes cannot observe the length of their warp's turns.
#[test]
fn the_quantum_changes_no_count_within_a_warp() {
    let body = "mov.u32 %r1, %t; mov.u32 %r2, 0;\n\
                again: setp.eq.u32 %p1, %r1, 0; @%p1 bra done; add.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, 1;\n\
                and.b32 %r3, %r1, 3; setp.eq.u32 %p2, %r3, 0; @%p2 bra again; xor.b32 %r2, %r2, 5; bra again;\n\
                done: st.global.u32 [%to], %r2;";
    let mut all = schedules().map(|schedule| {
        let (words, outcome) = run(body, "", 32, 0, 32, schedule);
        (words, outcome.instructions)
    });
    let first = all.next().unwrap();
    assert!(all.all(|other| other == first));
}
