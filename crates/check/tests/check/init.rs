//! Uninitialized values.

use super::Case;
use warpproof_check::{Check, Class, Role};

/// The lines of the findings of `body` in 64 threads, with an output `%a0` and an input `%a1`.
fn lines(body: &str) -> Vec<Vec<u32>> {
    lines_of(body, "", &[Check::Init])
}

fn lines_of(body: &str, functions: &str, checks: &[Check]) -> Vec<Vec<u32>> {
    let buffers = &[("out", Role::Out, 64), ("in", Role::In, 64)];
    let found = Case { functions, body, grid: 1, block: 64, buffers, checks }.findings();
    found
        .into_iter()
        .map(|(class, lines)| {
            assert_eq!(class, Class::Uninitialized);
            lines
        })
        .collect()
}

/// Stores `%r0` to the thread's element of the output.
const STORE: &str = "add.u64 %d0, %a0, %d15; st.global.u32 [%d0], %r0;";
/// Poisons `%r1` in odd threads.
const ODD: &str = "and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0; @%p1 mov.u32 %r1, 3;";

#[test]
fn a_register_is_reported_where_it_matters_and_where_it_was_read() {
    assert_eq!(lines("add.u64 %d0, %a0, %d15;\nst.global.u32 [%d0], %r1;"), [[2]]);
    assert_eq!(lines(&format!("{ODD}\nadd.u32 %r0, %r1, 1;\n{STORE}")), [[3, 2]]);
    let address = format!(
        "{ODD}\nmul.wide.u32 %d1, %r1, 4;\nadd.u64 %d1, %d1, %a1;\nld.global.u32 %r0, [%d1];\n{STORE}"
    );
    assert_eq!(lines(&address), [[4, 2]]);
    let branch = format!(
        "{ODD}\nsetp.ne.u32 %p2, %r1, 0;\nmov.u32 %r0, 1;\n@%p2 bra L;\nmov.u32 %r0, 2;\nL:\n{STORE}"
    );
    assert_eq!(lines(&branch), [[4, 2]]);
    let guard = format!("{ODD}\nsetp.ne.u32 %p2, %r1, %r1;\nmov.u32 %r0, 1;\n@%p2 mov.u32 %r0, 2;\n{STORE}");
    assert_eq!(lines(&guard), [[4, 2]], "a guard that is false in all lanes");
    let shuffle = format!("{ODD}\nmov.u32 %r0, 1;\nshfl.sync.idx.b32 %r0, %r0, %r1, 31, -1;\n{STORE}");
    assert_eq!(lines(&shuffle), [[3]]);
    let barrier = format!("mov.u32 %r0, 1;\n@%p5 mov.u32 %r3, 0;\nbar.sync %r3;\n{STORE}");
    assert_eq!(lines(&barrier), [[2], [3]]);
    let index = format!("ts: .branchtargets L, M;\nmov.u32 %r0, 1;\nbrx.idx %r7, ts;\nL:\nM:\n{STORE}");
    assert_eq!(lines(&index), [[3]]);
}

#[test]
fn what_is_only_moved_is_silent() {
    assert!(lines(&format!("mov.u32 %r1, %r2; add.u32 %r3, %r1, 1; mov.u32 %r0, 1;\n{STORE}")).is_empty());
    let padding = ".shared .align 16 .b8 s[2048];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1;\n\
                   st.shared.u32 [%r1], %t;\nld.shared.v4.u32 {%r0, %r3, %r4, %r5}, [%r1];\n";
    assert!(lines(&format!("{padding}{STORE}")).is_empty());
    assert_eq!(lines(&format!("{padding}mov.u32 %r0, %r5;\n{STORE}")), [[6, 4]]);
}

#[test]
fn bytes_are_kept_apart() {
    let load = ".shared .align 4 .b8 s[256];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;\n\
                st.shared.u16 [%r1+2], %h0;\nmov.u16 %h1, 7; st.shared.u16 [%r1], %h1; ld.shared.u32 %r2, [%r1];\n";
    for (clean, body) in [
        (true, "and.b32 %r0, %r2, 0xffff;"),
        (true, "cvt.u16.u32 %h2, %r2; cvt.u32.u16 %r0, %h2;"),
        (true, "mov.b32 {%h2, %h3}, %r2; mov.b32 %r0, {%h2, %h2};"),
        (true, "shl.b32 %r0, %r2, 16;"),
        (true, "prmt.b32 %r0, %r2, %r2, 0x1010;"),
        (true, "bfe.u32 %r0, %r2, 0, 16;"),
        (true, "bfi.b32 %r0, %r2, 0, 8, 16;"),
        (true, "lop3.b32 %r0, %r2, 0xffff0000, 0, 0xfc;"),
        (true, "setp.lt.u32 %p1, %t, 99; selp.u32 %r0, 1, %r2, %p1;"),
        (
            true,
            "mov.b64 %d1, {%r2, %r2}; shr.u64 %d1, %d1, 32; and.b64 %d1, %d1, 0xff; cvt.u32.u64 %r0, %d1;",
        ),
        (true, "add.f16x2 %r3, %r2, %r2; and.b32 %r0, %r3, 0xffff;"),
        (true, "setp.ge.u32 %p1, %t, 99; setp.lt.and.u32 %p2, %r2, 5, %p1; selp.u32 %r0, 1, 2, %p2;"),
        (false, "and.b32 %r0, %r2, 0xff0000;"),
        (false, "shr.u32 %r0, %r2, 16;"),
        (false, "mov.b32 {%h2, %h3}, %r2; mov.b32 %r0, {%h2, %h3};"),
        (false, "add.u32 %r3, %r2, 1; and.b32 %r0, %r3, 1;"),
        (false, "setp.ge.u32 %p1, %t, 99; setp.lt.or.u32 %p2, %r2, 5, %p1; selp.u32 %r0, 1, 2, %p2;"),
        (false, "setp.lt.u32 %p1, %t, 99; selp.u32 %r0, %r2, 1, %p1;"),
    ] {
        // The upper half of each word is %h0, which was never written.
        let found = lines(&format!("{load}{body}\n{STORE}"));
        assert_eq!(found.is_empty(), clean, "{body}: {found:?}");
    }
}

#[test]
fn shared_memory_is_uninitialized_at_first_with_and_without_the_race_check() {
    let body = format!(
        ".shared .align 4 .b8 s[256];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; setp.lt.u32 %p1, %t, 50;\n\
         @%p1 st.shared.u32 [%r1], %t;\nbar.sync 0;\nld.shared.u32 %r0, [%r1];\n{STORE}"
    );
    assert_eq!(lines(&body), [[6, 5]]);
    assert_eq!(lines_of(&body, "", &[Check::Init, Check::Race]), [[6, 5]]);
    let all = body.replace("50", "64");
    assert!(lines(&all).is_empty());
    assert!(lines_of(&all, "", &[Check::Init, Check::Race]).is_empty());
}

#[test]
fn a_read_that_races_is_reported_as_a_race() {
    let body = format!(
        ".shared .align 4 .b8 s[256];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;\nst.shared.u32 [%r1], %t;\n\
         mov.u32 %r2, s; sub.u32 %r3, 63, %t; mad.lo.u32 %r2, %r3, 4, %r2;\nld.shared.u32 %r0, [%r2];\n{STORE}"
    );
    let buffers = &[("out", Role::Out, 64)];
    let checks = &[Check::Init, Check::Race];
    let found = Case { functions: "", body: &body, grid: 1, block: 64, buffers, checks }.findings();
    assert!(!found.is_empty() && found.iter().all(|(class, _)| *class == Class::SharedRace), "{found:?}");
}

#[test]
fn copies_propagate_the_state_of_their_source() {
    let copy = |source: &str, read: &str| {
        format!(
            ".shared .align 4 .b8 s[256];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; add.u64 %d1, {source}, %d15;\n\
             cp.async.ca.shared.global [%r1], [%d1], 4{read};\ncp.async.wait_all;\nld.shared.u32 %r0, [%r1];\n{STORE}"
        )
    };
    for checks in [&[Check::Init][..], &[Check::Init, Check::Race]] {
        assert!(lines_of(&copy("%a1", ""), "", checks).is_empty());
        assert_eq!(lines_of(&copy("%a0", ""), "", checks), [[6, 3]], "an output that is not written yet");
        assert!(lines_of(&copy("%a0", ", 0"), "", checks).is_empty(), "zeros");
    }
}

#[test]
fn shuffles_and_votes_propagate_poison() {
    let shuffle = format!(
        "setp.lt.u32 %p1, %t, 1; @!%p1 mov.u32 %r1, 5;\nshfl.sync.down.b32 %r1, %r1, 1, 31, -1;\nmov.u32 %r0, %r1;\n{STORE}"
    );
    assert!(lines(&shuffle).is_empty(), "only lane 0 is poisoned, and no lane reads it");
    assert_eq!(lines(&shuffle.replace("down.b32 %r1, %r1, 1", "bfly.b32 %r1, %r1, 2")), [[4, 2]]);
    let exited = format!(
        "setp.lt.u32 %p1, %t, 63; mov.u32 %r0, 1;\n@!%p1 bra END;\nmov.u32 %r1, 1;\n\
         shfl.sync.down.b32 %r0, %r1, 1, 31, -1;\n{STORE}\nEND:\n"
    );
    assert!(lines(&exited).is_empty(), "the lanes check reports values from missing lanes");
    let vote = format!("{ODD}\nsetp.eq.u32 %p2, %r1, 3;\nvote.sync.ballot.b32 %r0, %p2, -1;\n{STORE}");
    assert_eq!(lines(&vote), [[4, 2]]);
}

#[test]
fn fragments_of_matrices() {
    let load = |rows: u32| {
        format!(
            ".shared .align 16 .b8 s[1024];\nmov.u32 %r1, s; and.b32 %r2, %t, 31; mad.lo.u32 %r1, %r2, 16, %r1; setp.lt.u32 %p1, %r2, {rows};\n\
             mov.u32 %r3, 0; @%p1 st.shared.v4.u32 [%r1], {{%r3, %r3, %r3, %r3}};\nbar.sync 0;\n\
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r1];\n"
        )
    };
    let multiply = "mov.f32 %f1, 0f00000000;\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, \
                    {%r4, %r5, %r6, %r7}, {%r3, %r3}, {%f1, %f1, %f1, %f1};\nmov.b32 %r0, %f2;\n";
    assert!(lines(&format!("{}{multiply}{STORE}", load(32))).is_empty());
    // Row 31 is the second half of row 15 of A, so it affects the last row of D: %f4 of the last lanes, but not %f2.
    assert!(lines(&format!("{}{multiply}{STORE}", load(31))).is_empty());
    let last = multiply.replace("mov.b32 %r0, %f2", "mov.b32 %r0, %f4");
    assert_eq!(lines(&format!("{}{last}{STORE}", load(31))), [[9, 5]]);
    // Without the last 8 of k, every row of D is poisoned, stored or not.
    assert_eq!(lines(&format!("{}{multiply}{STORE}", load(16))), [[7, 5]]);
    // A register that was never written is not the tail of a matrix.
    let register = multiply.replace("{%r3, %r3}", "{%r3, %r8}");
    assert_eq!(lines(&format!("{}{register}{STORE}", load(32))), [[7]]);
    // Row 31 is row 7 of the fourth matrix: lanes 28 to 31 of %r7, and with .trans the last element of all lanes.
    let stored =
        |row: &str| format!("{}setp.lt.u32 %p2, %r2, 28; selp.u32 %r0, {row}, 0, %p2;\n{STORE}", load(31));
    assert!(lines(&stored("%r7")).is_empty());
    let transposed = stored("%r7").replace("x4.shared", "x4.trans.shared");
    assert_eq!(lines(&transposed), [[7, 5]]);
    assert!(
        lines(&transposed.replace("selp.u32 %r0, %r7", "and.b32 %r7, %r7, 0xffff; selp.u32 %r0, %r7"))
            .is_empty()
    );
}

#[test]
fn local_memory_and_calls() {
    let local = format!(
        ".local .align 4 .b8 l[16];\nmov.u64 %d1, l; and.b32 %r1, %t, 3; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n\
         mov.u64 %d3, l; mov.u32 %r2, 1; st.local.u32 [%d3+4], %r2;\nld.local.u32 %r0, [%d1];\n{STORE}"
    );
    assert_eq!(lines(&local), [[5, 4]]);
    assert!(lines(&local.replace("and.b32 %r1, %t, 3", "mov.u32 %r1, 1")).is_empty());
    let function = ".func (.reg .b32 %out) twice(.reg .b32 %x, .param .b32 y) { .reg .b32 %y; ld.param.u32 %y, [y]; \
                    add.u32 %out, %x, %y; ret; }";
    let call = |first: &str, second: &str| {
        format!(
            "mov.u32 %r9, 1;\n{{ .param .b32 p; st.param.b32 [p], {second};\ncall (%r0), twice, ({first}, p); }}\n{STORE}"
        )
    };
    let found = |first: &str, second: &str| lines_of(&call(first, second), function, &[Check::Init]);
    assert!(found("%r9", "%r9").is_empty());
    assert!(found("7", "%r9").is_empty());
    assert_eq!(found("%r1", "%r9").len(), 1);
    assert_eq!(found("%r9", "%r1").len(), 1);
    // A result of a function that has none stays unwritten.
    let consume = ".func consume(.param .b32 x) { ret; }";
    let used = |last: &str| {
        let call = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %t; call.uni (y), consume, (x);";
        lines_of(&format!("mov.u32 %r0, 1;\n{call} {last} }}\n{STORE}"), consume, &[Check::Init])
    };
    assert!(used("").is_empty());
    assert_eq!(used("ld.param.b32 %r0, [y];").len(), 1);
    let malloc = ".extern .func (.param .b64 p) malloc (.param .b64 n);";
    let allocate = |first: &str| {
        format!(
            "{{ .param .b64 n; .param .b64 p; mov.u64 %d1, 16; st.param.b64 [n], %d1; call.uni (p), malloc, (n); ld.param.b64 %d2, [p]; }}\n\
             {first}\nld.global.u32 %r0, [%d2];\n{STORE}"
        )
    };
    assert_eq!(lines_of(&allocate(""), malloc, &[Check::Init]), [[4, 3]]);
    assert!(lines_of(&allocate("st.global.u32 [%d2], %t;"), malloc, &[Check::Init]).is_empty());
}

#[test]
fn a_recursive_function_keeps_its_registers() {
    let function = ".func (.reg .b32 %out) sum(.reg .b32 %n) { .reg .b32 %m; .reg .b32 %s; .reg .pred %q; mov.u32 %out, 0; \
                    setp.eq.u32 %q, %n, 0; @%q bra END; sub.u32 %m, %n, 1; call (%s), sum, (%m); add.u32 %out, %s, %n; END: ret; }";
    let body = format!("mov.u32 %r1, 5;\ncall (%r0), sum, (%r1);\n{STORE}");
    assert!(lines_of(&body, function, &[Check::Init]).is_empty());
}

#[test]
fn outputs_are_uninitialized_and_atomics_read() {
    let read = format!("add.u64 %d1, %a0, %d15; ld.global.u32 %r0, [%d1];\nadd.u32 %r0, %r0, 1;\n{STORE}");
    assert_eq!(lines(&read), [[3, 1]]);
    let after = format!("add.u64 %d1, %a0, %d15; st.global.u32 [%d1], %t;\n{read}");
    assert!(lines(&after).is_empty());
    assert_eq!(lines("red.global.add.u32 [%a0], 1;"), [[1]]);
    let shared = ".shared .align 4 .b32 c;\natom.shared.add.u32 %r1, [c], 1;\n";
    assert_eq!(lines_of(shared, "", &[Check::Init, Check::Race]), [[2]]);
}

#[test]
fn blocks_that_communicate_see_what_others_wrote() {
    // Block 0 writes; block 1 waits for the flag and reads.
    let body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;\n\
                mov.u32 %r2, 7; st.global.u32 [%a0], %r2; fence.acq_rel.gpu; mov.u32 %r3, 99; st.relaxed.gpu.global.u32 [%a1], %r3; ret;\n\
                READ: ld.acquire.gpu.global.u32 %r4, [%a1]; setp.ne.u32 %p2, %r4, 99; @%p2 bra READ;\n\
                ld.global.u32 %r0, [%a0]; st.global.u32 [%a1+4], %r0;";
    let buffers = &[("out", Role::Out, 1), ("flag", Role::InOut, 2)];
    let case = Case { functions: "", body, grid: 2, block: 1, buffers, checks: &[Check::Init, Check::Race] };
    assert_eq!(case.findings(), []);
}

#[test]
fn the_report_names_the_memory_and_the_buffer() {
    let body =
        format!(".shared .align 4 .b8 tile[256];\nmov.u32 %r1, tile; ld.shared.u32 %r0, [%r1+96];\n{STORE}");
    let buffers = &[("out", Role::Out, 64)];
    let checked =
        Case { functions: "", body: &body, grid: 1, block: 64, buffers, checks: &[Check::Init] }.check();
    let finding = &checked.findings[0];
    assert_eq!(finding.sentence, "thread (0,0,0) of block (0,0,0) stores an uninitialized value to `out[0]`");
    assert_eq!(finding.notes, ["the value comes from shared variable `tile`, byte offset 96"]);
    assert_eq!(
        finding.places.iter().map(|label| label.text.as_str()).collect::<Vec<_>>(),
        ["the store", "the value is read"]
    );
    assert_eq!(finding.count, 2, "once for each warp");
}
