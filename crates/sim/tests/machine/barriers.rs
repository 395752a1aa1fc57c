//! Barriers across turns.

use super::run;
use warpproof_sim::schedule::Schedule;

/// Warps 0 and 1 reduce over barrier 1; warp 1 then lets warps 2 and 3 reduce over it too, before warp 0 continues. Each
/// reads the count of its own phase.
#[test]
fn a_reduction_belongs_to_its_phase() {
    let body = "
        shr.u32 %r1, %t, 5; setp.lt.u32 %p1, %r1, 2; setp.eq.u32 %p3, %r1, 1;
        @!%p1 bra LATER;
        setp.lt.u32 %p2, %t, 10;
        barrier.cta.red.popc.aligned.u32 %r2, 1, 64, %p2;
        @%p3 barrier.cta.arrive.aligned 2, 96;
        bra DONE;
        LATER:
        barrier.cta.sync.aligned 2, 96;
        setp.lt.u32 %p2, %t, 100;
        barrier.cta.red.popc.aligned.u32 %r2, 1, 64, %p2;
        DONE: st.global.u32 [%to], %r2;";
    for quantum in [1, 7, 4096] {
        let schedule = Schedule { quantum, ..Schedule::default() };
        let (words, outcome) = run(body, "", 128, 0, 128, schedule);
        assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
        assert!(words[..64].iter().all(|count| *count == 10), "{words:?}");
        assert!(words[64..].iter().all(|count| *count == 36), "{words:?}");
    }
}

/// One warp completes its own barrier many times before another continues from its reduction.
#[test]
fn a_result_waits_for_its_reader() {
    let body = "
        shr.u32 %r1, %t, 5; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %t, 40; mov.u32 %r3, 0;
        barrier.cta.red.popc.aligned.u32 %r2, 1, 64, %p2;
        @%p1 bra DONE;
        LOOP: barrier.cta.sync.aligned 2, 32; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 1000; @%p3 bra LOOP;
        DONE: st.global.u32 [%to], %r2;";
    let (words, outcome) = run(body, "", 64, 0, 64, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    assert!(words.iter().all(|count| *count == 40), "{words:?}");
}

/// A count of all threads is equivalent to no count.
#[test]
fn all_threads_may_be_spelled_out() {
    let body = "shr.u32 %r1, %t, 5; setp.eq.u32 %p1, %r1, 0;
        @%p1 bar.sync 1; @!%p1 bar.sync 1, 64; mov.u32 %r2, 1; st.global.u32 [%to], %r2;";
    let (words, outcome) = run(body, "", 64, 0, 64, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    assert!(words.iter().all(|word| *word == 1));
}

/// Time passes between two instructions of one turn.
#[test]
fn the_clock_moves() {
    let body = "mov.u64 %d1, %clock64; add.u32 %r1, %t, 1; add.u32 %r1, %r1, 1; mov.u64 %d2, %clock64;
        sub.u64 %d3, %d2, %d1; cvt.u32.u64 %r2, %d3; st.global.u32 [%to], %r2;";
    assert_eq!(run(body, "", 1, 0, 1, Schedule::default()).0, [3]);
}

/// A variable of a called function has its declared alignment.
#[test]
fn frames_keep_the_alignment_of_their_variables() {
    let functions = ".func (.param .b32 r) f () {
        .local .align 64 .b8 t[64]; .reg .b64 %d; .reg .b32 %x;
        mov.u64 %d, t; cvt.u32.u64 %x, %d; and.b32 %x, %x, 63; st.param.b32 [r], %x; ret; }";
    let body = ".local .align 4 .b8 odd[20]; .reg .b64 %l; mov.u64 %l, odd; st.local.u32 [%l], %t;
        { .param .b32 r0; call.uni (r0), f, (); ld.param.b32 %r1, [r0]; } st.global.u32 [%to], %r1;";
    let (words, outcome) = run(body, functions, 1, 0, 1, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    assert_eq!(words, [0]);
}
