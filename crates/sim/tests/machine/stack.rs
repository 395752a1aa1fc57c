//! `alloca`, `stacksave`, `stackrestore`, and calls while they hold memory.

use super::run;
use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Blame, StopKind};

/// Lanes request different sizes; each fills its own memory, and a function called afterward has its own frame.
#[test]
fn allocations_of_different_sizes_do_not_overlap() {
    let function = ".func spoil() { .local .align 16 .b8 frame[64]; .reg .b32 %v;\n\
                    mov.u32 %v, 99; st.local.u32 [frame], %v; st.local.u32 [frame+60], %v; ret; }";
    let body = ".local .align 8 .b8 fixed[8];\n\
                mov.u32 %r1, 1000; st.local.u32 [fixed], %r1;\n\
                add.u32 %r2, %t, 1; mul.wide.u32 %d1, %r2, 4;\n\
                alloca.u64 %d2, %d1, 16; alloca.u64 %d3, 4;\n\
                and.b64 %d4, %d2, 15; cvt.u32.u64 %r9, %d4;\n\
                st.local.u32 [%d3], %t; mov.u32 %r3, 0; mov.u64 %d5, %d2;\n\
                fill: st.local.u32 [%d5], %r3; add.u64 %d5, %d5, 4; add.u32 %r3, %r3, 1;\n\
                setp.lt.u32 %p1, %r3, %r2; @%p1 bra fill;\n\
                call spoil, ();\n\
                mov.u32 %r4, 0;\n\
                sum: sub.u64 %d5, %d5, 4; ld.local.u32 %r5, [%d5]; add.u32 %r4, %r4, %r5;\n\
                sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra sum;\n\
                ld.local.u32 %r5, [%d3]; ld.local.u32 %r6, [fixed];\n\
                mad.lo.u32 %r4, %r4, 100, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r9;\n\
                st.global.u32 [%to], %r4;";
    let (words, outcome) = run(body, function, 32, 0, 32, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    let expected: Vec<u32> = (0..32).map(|t| t * (t + 1) / 2 * 100 + t + 1000).collect();
    assert_eq!(words, expected);
}

/// A loop can reuse memory that it frees: the stack does not grow.
#[test]
fn restoring_the_stack_gives_memory_back() {
    let body = "mov.u32 %r1, 0;\n\
                again: stacksave.u64 %d1; alloca.u64 %d2, 4096; st.local.u32 [%d2+4092], %r1; stackrestore.u64 %d1;\n\
                add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra again;\n\
                stacksave.u32 %r2; alloca.u32 %r3, 16, 4; stackrestore.u32 %r2; stacksave.u32 %r4;\n\
                sub.u32 %r2, %r4, %r2; add.u32 %r1, %r1, %r2; st.global.u32 [%to], %r1;";
    let (words, outcome) = run(body, "", 32, 0, 32, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    assert_eq!(words, vec![1000; 32]);
}

#[test]
fn an_allocation_beyond_the_stack_is_a_limit() {
    let (_, outcome) = run("alloca.u64 %d1, 0x100000000;", "", 1, 0, 1, Schedule::default());
    let stop = outcome.stop.unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Limit, StopKind::Limit));
}
