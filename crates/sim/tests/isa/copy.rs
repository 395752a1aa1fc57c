//! `cp.async` and `mbarrier`.

use crate::harness::{Column, patterns};
use crate::sync::Grid;
use warpproof_sim::StopKind;
use warpproof_sim::schedule::CopyTiming;

/// `%f` is the thread's own 8 bytes of the first source, `%a` its own 8 bytes of shared memory, `%b` those of its mirror
/// image in a block of 128, and `%e` and `%g` the 16 bytes it shares with its neighbor.
const PLACES: &str = ".shared .align 16 .b8 buffer[1024]; .reg .b64 %f, %g; .reg .b32 %a, %b, %e, %i;
    mov.u32 %a, buffer; mad.lo.u32 %e, %t, 8, %a; mul.lo.u32 %i, %t, 8; sub.u32 %b, %a, %i; add.u32 %b, %b, 1016;
    mov.u32 %a, %e; and.b32 %e, %e, 0xfffffff0;
    ld.param.u64 %f, [in0]; add.u64 %f, %f, %o; and.b64 %g, %f, 0xfffffffffffffff0;";

fn run(grid: Grid, body: &str, results: &[&str], sources: &[(&str, Column)]) -> Vec<Column> {
    let body = format!("{PLACES} {body}");
    grid.run(&body, results, sources).unwrap_or_else(|stop| panic!("{body}: {stop}"))
}

fn data() -> Column {
    patterns(128)
}

#[test]
fn copies_of_every_size_arrive() {
    for (copy, cut) in [
        ("cp.async.ca.shared.global [%a], [%f], 4;", 0xffff_ffff),
        ("cp.async.ca.shared::cta.global.L2::64B [%a], [%f], 8;", u64::MAX),
        ("cp.async.ca.shared.global.L2::cache_hint [%a], [%f], 8, %o;", u64::MAX),
        ("cp.async.ca.shared.global.L2::cache_hint.L2::128B [%a], [%f], 8, 8, %o;", u64::MAX),
        ("cp.async.ca.shared.global [%e], [%g], 16;", u64::MAX),
        ("cp.async.cg.shared.global.L2::128B [%e], [%g], 16;", u64::MAX),
        ("cp.async.cg.shared::cta.global.L2::256B [%e], [%g], 16, 16;", u64::MAX),
    ] {
        for copies in [CopyTiming::Late, CopyTiming::Early] {
            let body = format!(
                "{copy} cp.async.wait_all; bar.sync 0; ld.shared.b64 %d0, [%a]; ld.shared.b64 %d1, [%b];"
            );
            let got = run(Grid { copies, ..Grid::block(128) }, &body, &["b64", "b64"], &[("b64", data())]);
            let expected: Column = data().iter().map(|v| v & cut).collect();
            assert_eq!(got[0], expected, "{copy}");
            assert_eq!(got[1], expected.into_iter().rev().collect::<Column>(), "{copy}");
        }
    }
}

#[test]
fn what_is_not_read_is_zero() {
    let sizes: Column = (0..128).map(|t| t % 9).collect();
    let body = "st.shared.b64 [%a], -1; cp.async.ca.shared.global [%a], [%f], 8, %s1; cp.async.wait_all; ld.shared.b64 %d0, [%a];";
    let got = run(Grid::block(128), body, &["b64"], &[("b64", data()), ("b32", sizes.clone())]);
    let kept =
        |v: u64, bytes: u64| v & u64::MAX.checked_shr(u32::try_from(64 - 8 * bytes).unwrap()).unwrap_or(0);
    assert_eq!(got[0], data().iter().zip(&sizes).map(|(v, n)| kept(*v, *n)).collect::<Column>());

    let ignore: Column = (0..128).map(|t| u64::from(t % 3 == 0)).collect();
    for (copy, when) in [("%s1", 1), ("!%s1", 0), ("%s1, %o", 1)] {
        let hint = if copy.contains("%o") { ".L2::cache_hint" } else { "" };
        let body = format!(
            "st.shared.b64 [%a], -1; cp.async.ca.shared.global{hint} [%a], [%f], 8, {copy}; cp.async.wait_all; ld.shared.b64 %d0, [%a];"
        );
        let got = run(Grid::block(128), &body, &["b64"], &[("b64", data()), ("pred", ignore.clone())]);
        let expected: Column =
            data().iter().zip(&ignore).map(|(v, p)| if *p == when { 0 } else { *v }).collect();
        assert_eq!(got[0], expected, "{copy}");
    }
    // A copy that reads no source bytes may have any source address.
    let body = "st.shared.b64 [%a], -1; cp.async.ca.shared.global [%a], [%o], 8, 0; cp.async.wait_all; ld.shared.b64 %d0, [%a];";
    assert_eq!(run(Grid::block(128), body, &["b64"], &[("b64", data())])[0], vec![0; 128]);
}

#[test]
fn copies_arrive_as_late_as_the_program_allows() {
    // Two groups, each with one copy, and then a copy that only `wait_all` waits for; checks what is visible after each
    // wait.
    let body = ".shared .align 8 .b8 more[1024]; .reg .b32 %z; mov.u32 %z, more; mad.lo.u32 %z, %t, 8, %z;
        ld.param.u64 %p, [in1]; add.u64 %p, %p, %o; st.shared.b64 [%a], 1; st.shared.b64 [%z], 2;
        cp.async.ca.shared.global [%a], [%f], 8; cp.async.commit_group;
        cp.async.ca.shared.global [%z], [%p], 8; cp.async.commit_group;
        ld.shared.b64 %d0, [%a];
        cp.async.wait_group 2; ld.shared.b64 %d1, [%a];
        cp.async.wait_group 1; ld.shared.b64 %d2, [%a]; ld.shared.b64 %d3, [%z];
        cp.async.ca.shared.global [%a], [%p], 8;
        cp.async.wait_group 0; ld.shared.b64 %d4, [%z]; ld.shared.b64 %d5, [%a];
        cp.async.wait_all; ld.shared.b64 %d6, [%a];";
    let other: Column = data().iter().map(|v| v ^ 0xff).collect();
    let sources = [("b64", data()), ("b64", other.clone())];
    let late = run(Grid::block(128), body, &["b64"; 7], &sources);
    let one = vec![1; 128];
    let two = vec![2; 128];
    assert_eq!(late, [&one, &one, &data(), &two, &other, &data(), &other].map(Clone::clone));
    let early = run(Grid { copies: CopyTiming::Early, ..Grid::block(128) }, body, &["b64"; 7], &sources);
    assert_eq!(early, [&data(), &data(), &data(), &other, &other, &other, &other].map(Clone::clone));
}

#[test]
fn copies_are_checked_when_they_are_issued() {
    let kind = |body: &str| {
        let body = format!("{PLACES} {body} mov.u64 %d0, 1;");
        Grid::block(128).run(&body, &["b64"], &[("b64", data())]).unwrap_err().kind
    };
    assert_eq!(kind("cp.async.ca.shared.global [%a+1024], [%f], 8;"), StopKind::Bounds);
    assert_eq!(kind("cp.async.ca.shared.global [%a+4], [%f], 8;"), StopKind::Alignment);
    assert_eq!(kind("cp.async.ca.shared.global [%a], [%f+4], 8;"), StopKind::Alignment);
    assert_eq!(kind("cp.async.ca.shared.global [%a], [%f+8192], 8;"), StopKind::Bounds);
    assert_eq!(kind("cp.async.ca.shared.global [%a], [%f], 4, 5;"), StopKind::Malformed);
    assert_eq!(kind("cp.async.cg.shared.global [%a], [%f], 8;"), StopKind::Malformed);
}

#[test]
fn many_copies_may_be_under_way() {
    let body = ".reg .pred %q; mov.u32 %i, 0; LOOP: cp.async.ca.shared.global [%a], [%f], 8; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 2000;
        @%q bra LOOP; cp.async.wait_all; ld.shared.b64 %d0, [%a];";
    assert_eq!(run(Grid::block(128), body, &["b64"], &[("b64", data())])[0], data());
}

/// The first thread initializes `bar` for this number of arrivals.
fn with_barrier(count: u32, body: &str) -> String {
    format!(
        ".shared .align 8 .b64 bar; .reg .b32 %m, %c; .reg .b64 %st, %ga; .reg .pred %first, %q, %r; mov.u32 %m, bar; cvt.u64.u32 %ga, %m;
         cvta.shared.u64 %ga, %ga; setp.eq.u32 %first, %t, 0; @%first mbarrier.init.shared.b64 [%m], {count}; bar.sync 0; {body}"
    )
}

#[test]
fn an_mbarrier_synchronizes_its_threads() {
    for (arrive, wait) in [
        ("mbarrier.arrive.shared.b64 %st, [%m];", "mbarrier.test_wait.shared.b64 %q, [%m], %st;"),
        ("mbarrier.arrive.b64 %st, [%ga];", "mbarrier.test_wait.b64 %q, [%ga], %st;"),
        (
            "mbarrier.arrive.release.cta.shared::cta.b64 %st, [%m];",
            "mbarrier.test_wait.acquire.cta.shared::cta.b64 %q, [%m], %st;",
        ),
        ("mbarrier.arrive.shared.b64 _, [%m];", "mbarrier.test_wait.parity.shared.b64 %q, [%m], %n;"),
        ("mbarrier.arrive.shared.b64 %st, [%m], 1;", "mbarrier.try_wait.shared.b64 %q, [%m], %st;"),
        (
            "mbarrier.arrive.shared::cluster.b64 _, [%m];",
            "mbarrier.try_wait.parity.shared.b64 %q, [%m], %n, 1000;",
        ),
        (
            "mbarrier.arrive.relaxed.cluster.b64 %st, [%ga];",
            "mbarrier.try_wait.acquire.cluster.b64 %q, [%ga], %st;",
        ),
    ] {
        // Two phases: each thread writes, arrives, waits, and reads what its mirror image wrote in that phase.
        let body = with_barrier(
            128,
            &format!(
                ".reg .b32 %n, %v; .reg .b64 %w; mov.u32 %n, 0; mov.u64 %d0, 0;
                 PHASE: mad.lo.u32 %v, %n, 1000, %t; cvt.u64.u32 %w, %v; st.shared.b64 [%a], %w;
                 {arrive}
                 WAIT: {wait} @!%q bra WAIT;
                 ld.shared.b64 %w, [%b]; add.u64 %d0, %d0, %w; bar.sync 1;
                 add.u32 %n, %n, 1; setp.lt.u32 %r, %v, 1000; @%r bra PHASE;"
            ),
        );
        let grid = if arrive.contains("cluster") || wait.contains("try") {
            Grid::hopper(128)
        } else {
            Grid::block(128)
        };
        let got = run(grid, &body, &["b64"], &[("b64", data())]);
        assert_eq!(got[0], (0..128u64).map(|t| 1000 + 2 * (127 - t)).collect::<Column>(), "{arrive} {wait}");
    }
}

#[test]
fn counts_pending_arrivals_and_drops() {
    // One thread arrives in pieces; the state gives the number of pending arrivals before.
    let body = with_barrier(
        10,
        "mbarrier.arrive.noComplete.shared.b64 %st, [%m], 4; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d0, %c;
         mbarrier.arrive.noComplete.release.cta.b64 %st, [%ga], 2; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d1, %c;
         mbarrier.arrive_drop.shared.b64 %st, [%m]; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d2, %c;
         mbarrier.arrive_drop.noComplete.shared.b64 %st, [%m], 2; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d3, %c;
         mbarrier.test_wait.parity.shared.b64 %q, [%m], 0; selp.u64 %d4, 1, 0, %q;
         mbarrier.arrive.shared.b64 _, [%m];
         mbarrier.test_wait.parity.shared.b64 %q, [%m], 0; selp.u64 %d5, 1, 0, %q;
         mbarrier.arrive.shared.b64 %st, [%m]; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d6, %c;
         mbarrier.arrive_drop.noComplete.release.cta.shared.b64 _, [%m], 1; mbarrier.arrive_drop.release.cta.shared.b64 _, [%m];
         mbarrier.inval.shared.b64 [%m]; ld.shared.b64 %d7, [%m];",
    );
    let got = run(Grid::block(1), &body, &["b64"; 8], &[("b64", vec![0])]);
    let row: Vec<u64> = got.iter().map(|column| column[0]).collect();
    // Three were dropped in the first phase, so that the second expects seven.
    assert_eq!(row, [10, 6, 4, 3, 0, 1, 7, 0]);
}

#[test]
fn transactions_hold_up_a_phase() {
    let body = with_barrier(
        1,
        "mbarrier.arrive.expect_tx.shared.b64 %st, [%m], 96; mbarrier.test_wait.shared.b64 %q, [%m], %st; selp.u64 %d0, 1, 0, %q;
         mbarrier.expect_tx.relaxed.cta.shared.b64 [%m], 32; mbarrier.complete_tx.shared::cluster.b64 [%m], 100;
         mbarrier.test_wait.shared.b64 %q, [%m], %st; selp.u64 %d1, 1, 0, %q;
         mbarrier.expect_tx.b64 [%ga], 4; mbarrier.complete_tx.relaxed.cluster.shared.b64 [%m], 32;
         mbarrier.try_wait.parity.relaxed.cta.shared.b64 %q, [%m], 0; selp.u64 %d2, 1, 0, %q;
         mbarrier.arrive.expect_tx.release.cluster.shared.b64 %st, [%m], 8; mbarrier.complete_tx.shared.b64 [%m], 8;
         mbarrier.test_wait.parity.relaxed.cluster.shared.b64 %q, [%m], 1; selp.u64 %d3, 1, 0, %q;
         mbarrier.arrive_drop.expect_tx.shared.b64 _, [%m], 8; mbarrier.complete_tx.shared.b64 [%m], 8;",
    );
    let body = body
        + "mbarrier.init.shared.b64 [%m], 2; mbarrier.arrive_drop.expect_tx.relaxed.cta.shared.b64 _, [%m], 0;";
    let got = run(Grid::hopper(1), &body, &["b64"; 4], &[("b64", vec![0])]);
    let row: Vec<u64> = got.iter().map(|column| column[0]).collect();
    assert_eq!(row, [0, 0, 1, 1]);
}

#[test]
fn an_mbarrier_tracks_copies() {
    for (count, arrive) in [
        (128, "cp.async.mbarrier.arrive.shared.b64 [%m]; mbarrier.arrive.shared.b64 %st, [%m];"),
        (256, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%m]; mbarrier.arrive.shared.b64 %st, [%m];"),
        (128, "cp.async.mbarrier.arrive.noinc.b64 [%ga]; mov.u64 %st, 0x8000000000000000;"),
    ] {
        let body = with_barrier(
            count,
            &format!(
                "cp.async.ca.shared.global [%a], [%f], 8; {arrive}
                 WAIT: mbarrier.test_wait.shared.b64 %q, [%m], %st; @!%q bra WAIT; ld.shared.b64 %d0, [%b];"
            ),
        );
        let got = run(Grid::block(128), &body, &["b64"], &[("b64", data())]);
        assert_eq!(got[0], data().into_iter().rev().collect::<Column>(), "{arrive}");
    }
}

/// Before its warp tests an mbarrier, a thread does not see copies that the mbarrier tracks; a block barrier does not wait
/// for them.
#[test]
fn tracked_copies_are_late() {
    let body = with_barrier(
        128,
        "mov.u64 %d0, 7; st.shared.b64 [%a], %d0; cp.async.ca.shared.global [%a], [%f], 8; cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
         bar.sync 0; ld.shared.b64 %d0, [%a]; ld.shared.b64 %st, [%m]; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d1, %c;
         bar.sync 0; WAIT: mbarrier.test_wait.parity.shared.b64 %q, [%m], 0; @!%q bra WAIT; ld.shared.b64 %d2, [%b];",
    );
    let mirrored: Column = data().into_iter().rev().collect();
    let late = run(Grid::block(128), &body, &["b64"; 3], &[("b64", data())]);
    assert_eq!(late, [vec![7; 128], vec![128; 128], mirrored.clone()]);
    let early =
        run(Grid { copies: CopyTiming::Early, ..Grid::block(128) }, &body, &["b64"; 3], &[("b64", data())]);
    assert_eq!(early, [data(), vec![128; 128], mirrored]);
}

/// The arrival happens with the earlier copies, regardless of later ones.
#[test]
fn an_arrival_waits_for_the_copies_before_it_alone() {
    let body = with_barrier(
        128,
        "cp.async.ca.shared.global [%a], [%f], 8; cp.async.commit_group; cp.async.mbarrier.arrive.shared.b64 [%m];
         cp.async.ca.shared.global [%b], [%f], 8; cp.async.commit_group; bar.sync 0;
         ld.shared.b64 %st, [%m]; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d0, %c;
         bar.sync 0; cp.async.wait_group 1; bar.sync 0;
         ld.shared.b64 %st, [%m]; mbarrier.pending_count.b64 %c, %st; cvt.u64.u32 %d1, %c; ld.shared.b64 %d2, [%a];
         bar.sync 0; cp.async.wait_all; ld.shared.b64 %d3, [%b];",
    );
    let got = run(Grid::block(128), &body, &["b64"; 4], &[("b64", data())]);
    assert_eq!(got, [vec![256; 128], vec![128; 128], data(), data()]);
}

/// Threads that only consume see the copies of other threads, whose warps do not use the barrier afterward.
#[test]
fn tracked_copies_end_a_loop_of_tests_in_another_warp() {
    let body = with_barrier(
        64,
        ".reg .pred %w; setp.lt.u32 %w, %t, 64; mov.u64 %d0, 0; mov.u32 %c, 0;
         @!%w bra CONSUME; cp.async.ca.shared.global [%a], [%f], 8; cp.async.mbarrier.arrive.noinc.shared.b64 [%m]; bra MEET;
         CONSUME: mbarrier.test_wait.parity.shared.b64 %q, [%m], 0; @!%q bra CONSUME; ld.shared.b64 %d0, [%b];
         MEET: bar.sync 0;",
    );
    let got = run(Grid::block(128), &body, &["b64"], &[("b64", data())]);
    let wanted: Column =
        data().into_iter().rev().enumerate().map(|(t, value)| if t < 64 { 0 } else { value }).collect();
    assert_eq!(got[0], wanted);
}

#[test]
fn misused_mbarriers_are_reported() {
    let kind = |body: &str| {
        let body = format!("{PLACES} {} mov.u64 %d0, 1;", with_barrier(2, body));
        Grid::hopper(1).run(&body, &["b64"], &[("b64", vec![0])]).unwrap_err().kind
    };
    assert_eq!(kind("mbarrier.init.shared.b64 [%m], 0;"), StopKind::Mbarrier);
    assert_eq!(kind("mbarrier.init.shared.b64 [%m], 0x100000;"), StopKind::Mbarrier);
    assert_eq!(kind("mbarrier.init.shared.b64 [%m+4], 1;"), StopKind::Alignment);
    assert_eq!(kind("ld.param.u64 %p, [in0]; mbarrier.init.b64 [%p], 1;"), StopKind::Bounds);
    assert_eq!(kind("mbarrier.arrive.shared.b64 _, [%a];"), StopKind::Mbarrier);
    assert_eq!(
        kind("mbarrier.inval.shared.b64 [%m]; mbarrier.arrive.shared.b64 _, [%m];"),
        StopKind::Mbarrier
    );
    assert_eq!(
        kind("st.shared.b32 [%m+4], 0; mbarrier.test_wait.parity.shared.b64 %q, [%m], 0;"),
        StopKind::Mbarrier
    );
    assert_eq!(kind("mbarrier.arrive.shared.b64 _, [%m], 3;"), StopKind::Mbarrier);
    assert_eq!(kind("mbarrier.arrive.noComplete.shared.b64 _, [%m], 2;"), StopKind::Mbarrier);
    assert_eq!(kind("mbarrier.arrive_drop.shared.b64 _, [%m], 3;"), StopKind::Mbarrier);
    assert_eq!(kind("mbarrier.expect_tx.shared.b64 [%m], 0x100000;"), StopKind::Mbarrier);
    // The arrival happens when the copy completes, and there is no barrier then.
    assert_eq!(
        kind(
            "mov.u64 %p, 0; cp.async.ca.shared.global [%a], [%f], 8; cp.async.mbarrier.arrive.shared.b64 [%m];
             mbarrier.inval.shared.b64 [%m]; cp.async.wait_all;"
        ),
        StopKind::Mbarrier
    );
}
