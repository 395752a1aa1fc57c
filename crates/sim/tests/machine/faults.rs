//! Reports of accesses that miss their memory.

use super::run;
use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Stop, StopKind};

/// Runs `body` on one thread; `%out` has 50 words.
fn stop(body: &str, functions: &str, shared: u32) -> Box<Stop> {
    let stop = run(body, functions, 1, shared, 50, Schedule::default()).1.stop.unwrap();
    assert_eq!(stop.kind, StopKind::Bounds, "{stop}");
    stop
}

#[track_caller]
fn assert_reports(stop: &Stop, sentence: &str, note: &str) {
    assert!(stop.sentence.ends_with(sentence), "{stop}");
    assert!(stop.notes.iter().any(|line| line.contains(note)), "{stop}");
}

#[test]
fn how_far_beside_a_buffer() {
    let at = |address: &str| stop(&format!("ld.global.u32 %r1, [{address}];"), "", 0);
    assert_reports(
        &at("%out+200"),
        "out of bounds, right at the end of `buffer` (200 bytes)",
        "index 50; valid indices are 0 to 49",
    );
    assert_reports(
        &at("%out+204"),
        "out of bounds, 4 bytes past the end of `buffer` (200 bytes)",
        "index 51;",
    );
    assert_reports(
        &at("%out+-4"),
        "out of bounds, 4 bytes before the start of `buffer` (200 bytes)",
        "index -1;",
    );
    let odd = stop("ld.global.u8 %r1, [%out+201];", "", 0);
    assert_reports(&odd, "out of bounds, 1 byte past the end of `buffer` (200 bytes)", "index 201");
    let wide = stop("ld.global.v2.u32 {%r1, %r2}, [%out+200];", "", 0);
    assert_reports(
        &wide,
        "right at the end of `buffer` (200 bytes)",
        "as elements of 8 bytes this is index 25;",
    );
}

#[test]
fn overflows_of_32_bits_are_recognized() {
    // -1 as an unsigned index of words; 2^30 + 5 words in 32-bit bytes; an index beyond 2^31 that became negative.
    let unsigned =
        "mov.u32 %r1, -1; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], 1;";
    let unsigned = stop(unsigned, "", 0);
    assert!(unsigned.notes[0].contains("the 32-bit index -1 is read as unsigned"), "{unsigned}");
    assert!(unsigned.help.unwrap().contains("64 bits"));
    let negative =
        "mov.u32 %r1, 0x90000003; mul.wide.s32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], 1;";
    let negative = stop(negative, "", 0);
    assert!(negative.notes[0].contains("index -1879048189 of `buffer`"), "{negative}");
    let beyond = "mov.u64 %d1, 0x100000010; add.u64 %d1, %out, %d1; st.global.u32 [%d1], 1;";
    let beyond = stop(beyond, "", 0);
    assert!(beyond.notes[0].contains("1 times 2^32 bytes beyond byte 16 of `buffer`"), "{beyond}");
    let before = "mov.u64 %d1, 0x100000000; sub.u64 %d1, %out, %d1; st.global.u32 [%d1], 1;";
    assert!(stop(before, "", 0).notes[0].contains("1 times 2^32 bytes before byte 0"));
    assert!(stop("ld.global.u32 %r1, [%out+400];", "", 0).help.is_none());
}

#[test]
fn shared_variables_are_named() {
    let body = ".shared .u32 first[4]; .shared .u32 tile[8]; mov.u32 %r1, first; mov.u32 %r1, tile; ld.shared.u32 %r2, [%r1+36];";
    let stop = stop(body, "", 0);
    assert_reports(
        &stop,
        "4 bytes past the end of `tile`, the last shared variable (32 bytes)",
        "index 9; valid indices are 0 to 7",
    );
    assert_eq!(stop.help, None);
}

#[test]
fn forgotten_dynamic_shared_memory_is_pointed_out() {
    let dynamic = ".extern .shared .align 4 .b8 buffer[];";
    let body = "mov.u32 %r1, buffer; st.shared.u32 [%r1+64], 1;";
    let none = stop(body, dynamic, 0);
    assert!(none.sentence.ends_with("64 bytes past the end of dynamic shared memory (0 bytes)"), "{none}");
    assert!(none.help.unwrap().contains("pass --shared BYTES"));
    let short = stop(body, dynamic, 64);
    assert_reports(
        &short,
        "right at the end of dynamic shared memory (64 bytes)",
        "index 16; valid indices are 0 to 15",
    );
    assert_eq!(short.help, None);
    assert_eq!(run(body, dynamic, 1, 68, 50, Schedule::default()).1.stop, None);
}
