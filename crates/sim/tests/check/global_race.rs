//! Unordered accesses to global memory: legal for compare-and-swap guesses and polled flags, a race for data.

use super::{check, found};
use warpproof_sim::check::{Check, Checked};

fn races(body: &str) -> Checked {
    check(body, 2, 64, &[Check::Race])
}

#[test]
fn the_first_guess_of_a_compare_and_swap_is_not_a_race() {
    let body = "ld.global.u32 %r1, [%out];\nmov.u32 %r2, %r1;\nLOOP: mov.u32 %r3, %r2;\nadd.u32 %r4, %r3, 3;\n\
                atom.global.cas.b32 %r2, [%out], %r3, %r4;\nsetp.ne.u32 %p1, %r2, %r3;\n@%p1 bra LOOP;";
    assert_eq!(found(&races(body)), []);
    // The same load, but no compare-and-swap checks its value.
    let unchecked = body.replace("mov.u32 %r2, %r1", "mov.u32 %r2, 7; st.global.u32 [%to+1024], %r1");
    assert!(!found(&races(&unchecked)).is_empty());
    // Another address than that of the compare-and-swap.
    let elsewhere = body.replace("ld.global.u32 %r1, [%out]", "ld.global.u32 %r1, [%out+4]")
        + "\nmov.u32 %r5, 1; atom.global.add.u32 %r6, [%out+4], %r5;";
    assert!(!found(&races(&elsewhere)).is_empty());
}

#[test]
fn a_flag_that_was_polled_may_be_read_again() {
    let turns = "SPIN: ld.volatile.global.u32 %r1, [%out]; setp.ne.u32 %p1, %r1, %t; @%p1 bra SPIN;\n\
                 ld.volatile.global.u32 %r2, [%out]; membar.gl; add.u32 %r3, %r2, 1;\n\
                 st.volatile.global.u32 [%out], %r3;";
    assert_eq!(found(&check(turns, 1, 32, &[Check::Race])), []);
    // Volatile data that no thread polls is unordered like any other data.
    let data = "st.volatile.global.u32 [%to], %t; xor.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1;\n\
                ld.volatile.global.u32 %r2, [%d1]; st.global.u32 [%to+1024], %r2;";
    assert!(!found(&check(data, 1, 32, &[Check::Race])).is_empty());
}
