//! Branches, calls, and thread exit.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::harness::{check, kernel, launch, levels, patterns, try_eval};
use warpproof_sim::{Blame, Device, Level, StopKind};

#[test]
fn branches_diverge_and_meet_again() {
    // Steps of the Collatz sequence, at most 50: every lane leaves the loop at a different time.
    let body = ".reg .pred %q, %r; .reg .b32 %n; setp.eq.u32 %r, %x, %x; mov.u32 %d0, 0; and.b32 %n, %s0, 1023; add.u32 %n, %n, 1;
        again: setp.le.u32 %q, %n, 1; @%q bra done; setp.ge.u32 %q, %d0, 50; @%q bra done;
        add.u32 %d0, %d0, 1; and.b32 %x, %n, 1; setp.eq.u32 %q, %x, 0; @!%q bra odd; shr.u32 %n, %n, 1; bra.uni again;
        odd: mad.lo.u32 %n, %n, 3, 1; bra again;
        done: vote.sync.ballot.b32 %d1, %r, 0xffffffff;";
    check(body, &["b32", "b32"], &[("b32", patterns(256))], |s| {
        let (mut n, mut steps) = ((s[0] & 1023) + 1, 0);
        while n > 1 && steps < 50 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        vec![steps, 0xffff_ffff]
    });
}

#[test]
fn a_table_of_labels() {
    let body = |brx: &str, index: &str| {
        format!(
            "and.b32 %x, {index}; places: .branchtargets zero, one, two, zero; {brx} %x, places;
            zero: mov.u32 %d0, 10; bra.uni end; one: mov.u32 %d0, 11; bra.uni end; two: mov.u32 %d0, 12; end:"
        )
    };
    let source = [("b32", patterns(256))];
    check(&body("brx.idx", "%s0, 3"), &["b32"], &source, |s| {
        vec![[10, 11, 12, 10][usize::try_from(s[0] & 3).unwrap()]]
    });
    check(&body("brx.idx.uni", "2, 3"), &["b32"], &source, |_| vec![12]);
    let stop = try_eval(Level::Portable, &body("brx.idx", "%s0, 7"), &["b32"], &source).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Bounds));
}

/// Runs a body that calls `functions`, with 32 threads at every level, and returns one 32-bit result of each.
fn call(functions: &str, body: &str) -> Vec<u64> {
    let text =
        kernel(body, &["b32"], &[]).replace(".visible .entry", &format!("{functions}\n.visible .entry"));
    let mut columns = levels().into_iter().map(|level| {
        let mut device = Device::new().with_level(level).with_threads(1);
        let prepared = device.load(&text).unwrap().kernel("k").unwrap();
        let output = device.alloc::<u64>(32).unwrap();
        let outcome = launch(&mut device, &prepared.launch().block(32).arg(output));
        assert!(outcome.stop.is_none(), "{body}: {}", outcome.stop.unwrap());
        device.read(&output).unwrap()
    });
    let first = columns.next().unwrap();
    assert!(columns.all(|column| column == first), "{body}: results differ between levels");
    first
}

#[test]
fn calls_pass_values_both_ways() {
    let functions = ".func (.param .b32 out) triple(.param .b32 in) {
        .reg .b32 %v; ld.param::func.b32 %v, [in]; mul.lo.u32 %v, %v, 3; st.param::func.b32 [out], %v; ret.uni; }
        .func (.reg .b32 %r) sum(.reg .b32 %u, .reg .b64 %w) { .reg .b32 %v; cvt.u32.u64 %v, %w; add.u32 %r, %u, %v; ret; }";
    let body = "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %t; call.uni (r), triple, (a); ld.param.b32 %x, [r]; }
        call (%d0), sum, (%x, %o);";
    assert_eq!(call(functions, body), (0..32).map(|t| 3 * t + 8 * t).collect::<Vec<u64>>());
    // Diverged lanes call different functions, and one returns early.
    let functions =
        ".func (.reg .b32 %r) low(.reg .b32 %u) { .reg .pred %q; mov.u32 %r, 1; setp.lt.u32 %q, %u, 4;
        @%q ret; mov.u32 %r, 2; ret; }
        .func (.reg .b32 %r) high(.reg .b32 %u) { add.u32 %r, %u, 100; ret; }";
    let body =
        ".reg .pred %q; setp.lt.u32 %q, %t, 16; @%q call (%d0), low, (%t); @!%q call (%d0), high, (%t);";
    let expected: Vec<u64> = (0..32)
        .map(|t| {
            if t < 4 {
                1
            } else if t < 16 {
                2
            } else {
                100 + t
            }
        })
        .collect();
    assert_eq!(call(functions, body), expected);
}

#[test]
fn functions_call_themselves_and_go_through_pointers() {
    let functions = ".func (.param .b32 out) factorial(.param .b32 in) {
        .reg .pred %q; .reg .b32 %n, %m; ld.param.b32 %n, [in]; mov.u32 %m, 1; setp.le.u32 %q, %n, 1; @%q bra end;
        sub.u32 %m, %n, 1; { .param .b32 a; .param .b32 r; st.param.b32 [a], %m; call (r), factorial, (a);
        ld.param.b32 %m, [r]; } mul.lo.u32 %m, %m, %n; end: st.param.b32 [out], %m; ret; }";
    let body =
        "and.b32 %x, %t, 7; { .param .b32 a; .param .b32 r; st.param.b32 [a], %x; call (r), factorial, (a);
        ld.param.b32 %d0, [r]; }";
    let factorial = |n: u64| (2..=n).product::<u64>();
    assert_eq!(call(functions, body), (0..32).map(|t| factorial(t % 8)).collect::<Vec<u64>>());
    let functions = ".func (.param .b32 out) double(.param .b32 in) { .reg .b32 %v; ld.param.b32 %v, [in];
        add.u32 %v, %v, %v; st.param.b32 [out], %v; ret; }
        .func (.param .b32 out) negate(.param .b32 in) { .reg .b32 %v; ld.param.b32 %v, [in];
        neg.s32 %v, %v; st.param.b32 [out], %v; ret; }";
    let body = ".reg .pred %q; .reg .b64 %f, %g; mov.u64 %f, double; mov.u64 %g, negate; setp.lt.u32 %q, %t, 5;
        selp.b64 %f, %f, %g, %q; { .param .b32 a; .param .b32 r; st.param.b32 [a], %t;
        shape: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %f, (a), shape; ld.param.b32 %d0, [r]; }";
    let expected: Vec<u64> =
        (0u32..32).map(|t| u64::from(if t < 5 { 2 * t } else { t.wrapping_neg() })).collect();
    assert_eq!(call(functions, body), expected);
}

#[test]
fn lanes_that_exit_leave_the_others_alone() {
    let body = ".reg .pred %q; mov.u32 %d0, 1; setp.lt.u32 %q, %lane, 20; @%q exit; activemask.b32 %d0;";
    check(body, &["b32"], &[("b32", (0..64).collect())], |s| {
        vec![if s[0] % 32 < 20 { 0 } else { 0xfff0_0000 }]
    });
    let functions = ".func leave(.reg .b32 %u) { .reg .pred %q; setp.ge.u32 %q, %u, 8; @%q exit; ret; }";
    let expected: Vec<u64> = (0..32).map(|t| if t < 8 { 5 } else { 0 }).collect();
    assert_eq!(call(functions, "mov.u32 %d0, 5; call leave, (%t);"), expected);
}

#[test]
fn a_trap_is_the_kernels_own_stop() {
    let source = [("b32", (0..64).collect())];
    let body = ".reg .pred %q; mov.u32 %d0, 0; setp.eq.u32 %q, %s0, 40; @%q trap;";
    let stop = try_eval(Level::Portable, body, &["b32"], &source).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Trap));
    let body = ".reg .pred %q; mov.u32 %d0, 7; setp.eq.u32 %q, %s0, 64; @%q trap;";
    check(body, &["b32"], &source, |_| vec![7]);
}

#[test]
fn events_sleep_and_breakpoints_change_nothing() {
    let body =
        "brkpt; pmevent 7; pmevent.mask 0xff; nanosleep.u32 40; nanosleep.u32 %s0; add.u32 %d0, %s0, 1;";
    check(body, &["b32"], &[("b32", patterns(64))], |s| vec![s[0].wrapping_add(1) & 0xffff_ffff]);
}
