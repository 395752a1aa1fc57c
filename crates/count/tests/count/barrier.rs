//! Barriers, and how evenly warps arrive at them.

use crate::{Case, HEAD, issued, on_line};
use warpproof_count::Barriers;

#[test]
fn warps_with_more_to_do() {
    // Warp w makes w + 1 iterations of three instructions. Its work at the barrier is the head, two instructions, 3 (w +
    // 1), and the barrier: HEAD + 3 + 3 (w + 1). For four warps, that is HEAD + 6, + 9, + 12, + 15; the last warp has the
    // most work, and the others have 9, 6 and 3 less.
    let body = "shr.u32 %r1, %t, 5;\nmov.u32 %r2, 0;\nLOOP:\nadd.u32 %r2, %r2, 1;\nsetp.le.u32 %p1, %r2, %r1;\n@%p1 bra LOOP;\nbar.sync 0;\nadd.u32 %r3, %r3, 1;\nbar.sync 0;";
    let counters = Case::new(body, 128, |_| 0).count();
    let expected = Barriers {
        arrivals: 4,
        phases: 1,
        warps: 4,
        work: 4 * HEAD + 6 + 9 + 12 + 15,
        longest: HEAD + 15,
        idle: 18,
    };
    assert_eq!(on_line(&counters, 7).barriers, expected);
    // The maximum minus the mean: 15 - 10.5.
    assert!((expected.imbalance() - 4.5).abs() < 1e-12);
    // Between the two barriers all warps execute two instructions.
    let second = Barriers { arrivals: 4, phases: 1, warps: 4, work: 8, longest: 2, idle: 0 };
    assert_eq!(on_line(&counters, 9).barriers, second);
    assert_eq!(issued(on_line(&counters, 7)), (4, 128, 128, 0));
    assert_eq!(counters.totals.barriers.phases, 2);
    assert_eq!(counters.totals.barriers.idle, 18);
}

#[test]
fn barriers_in_a_loop_and_over_blocks() {
    // Three blocks of two warps, five iterations: 15 phases of two warps. In each iteration both execute the same four
    // instructions.
    let body =
        "mov.u32 %r1, 0;\nLOOP:\nbar.sync 0;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra LOOP;";
    let counters = Case { grid: 3, ..Case::new(body, 64, |_| 0) }.count();
    let barriers = on_line(&counters, 3).barriers;
    // First the head, mov and the barrier; then four instructions from barrier to barrier.
    let each = HEAD + 2 + 4 * 4;
    assert_eq!((barriers.arrivals, barriers.phases, barriers.warps), (30, 15, 30));
    assert_eq!((barriers.work, barriers.longest, barriers.idle), (6 * each, 3 * each, 0));
}

#[test]
fn producers_that_arrive_and_consumers_that_wait() {
    // Warp 0 arrives at barrier 1 and continues; warp 1 executes five more instructions before it waits there.
    let body = "setp.lt.u32 %p1, %t, 32;\n@%p1 bra PRODUCER;\nadd.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, 1;\nadd.u32 %r1, %r1, 1;\nbar.sync 1, 64;\nbra END;\nPRODUCER:\nbar.arrive 1, 64;\nEND:\nadd.u32 %r2, %r2, 1;";
    let counters = Case::new(body, 64, |_| 0).count();
    let (wait, arrive) = (on_line(&counters, 8).barriers, on_line(&counters, 11).barriers);
    assert_eq!((wait.arrivals, arrive.arrivals), (1, 1));
    // The phase counts at the instruction of the last warp to arrive, which is the one that waits: warps run in the order
    // of their numbers.
    assert_eq!((wait.phases, arrive.phases), (1, 0));
    assert_eq!((wait.warps, wait.longest, wait.idle), (2, HEAD + 2 + 5 + 1, 5));
}
