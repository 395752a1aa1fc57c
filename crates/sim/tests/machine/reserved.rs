//! Shared memory that the launch does not request: rounding to allocation units, and the part reserved for system software.

use super::run;
use warpproof_sim::StopKind;
use warpproof_sim::schedule::Schedule;

#[test]
fn the_total_is_in_allocation_units() {
    let body = "mov.u32 %r1, %total_smem_size; mov.u32 %r2, %dynamic_smem_size;\n\
                st.global.u32 [%out], %r1; st.global.u32 [%out+4], %r2;";
    let (words, _) = run(body, "", 1, 832, 2, Schedule::default());
    assert_eq!(words, [896, 832]);
}

/// It follows the block's own memory, has its stated size, and can be used.
#[test]
fn reserved_memory_is_apart() {
    let body = "mov.u32 %r1, %reserved_smem_offset_begin; mov.u32 %r2, %reserved_smem_offset_end;\n\
                mov.u32 %r3, %reserved_smem_offset_cap; mov.u32 %r4, %reserved_smem_offset_1;\n\
                mov.u32 %r6, 5; st.shared.u32 [%r4+284], %r6; ld.shared.u32 %r5, [%r4+284];\n\
                st.global.v4.u32 [%out], {%r1, %r2, %r3, %r5};";
    let (words, outcome) = run(body, "", 1, 100, 4, Schedule::default());
    assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
    assert_eq!(words, [128, 1152, 1024, 5]);
}

/// A program that does not use it has no memory after its own.
#[test]
fn memory_nobody_names_is_not_there() {
    let (_, outcome) = run("mov.u32 %r1, 128; st.shared.u32 [%r1], %r1;", "", 1, 100, 1, Schedule::default());
    assert_eq!(outcome.stop.unwrap().kind, StopKind::Bounds);
}
