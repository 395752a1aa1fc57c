//! Bulk copies, their groups and mbarriers, and asynchronous stores to other blocks.

use crate::harness::{Column, patterns};
use crate::sync::Grid;
use warpproof_sim::StopKind;
use warpproof_sim::schedule::CopyTiming;

/// A block of 128 threads, each with 8 bytes of `buffer` at `%a`; `%f` are its 8 bytes of the first source. Thread 0 (`%q`)
/// initializes the mbarrier `%m` for one arrival. `WAIT` waits for its first phase.
fn prepared(body: &str) -> String {
    let wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%m], 0; @!%p1 bra W;";
    let body = body.replace("WAIT", wait);
    format!(
        ".shared .align 128 .b8 buffer[1024]; .shared .align 8 .b8 bar[8]; .reg .b64 %f, %g; .reg .b32 %a, %b, %m, %n, %v; .reg .pred %q, %p1;
         mov.u32 %b, buffer; mov.u32 %v, %tid.x; mad.lo.u32 %a, %v, 8, %b; mov.u32 %m, bar; ld.param.u64 %g, [in0]; add.u64 %f, %g, %o;
         setp.eq.u32 %q, %v, 0; @%q mbarrier.init.shared::cta.b64 [%m], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
         {body}"
    )
}

fn data() -> Column {
    patterns(128)
}

/// Runs a body with this number of results, and returns the last one.
fn run_for(grid: Grid, body: &str, results: usize) -> Column {
    let body = prepared(body);
    let columns = grid.run(&body, &["b64", "b64"][..results], &[("b64", data())]);
    columns.unwrap_or_else(|stop| panic!("{body}: {stop}")).remove(results - 1)
}

fn run(grid: Grid, body: &str) -> Column {
    run_for(grid, body, 1)
}

const BLOCK: Grid = Grid { target: "sm_90", threads: 128, ..Grid::HOPPER };

#[test]
fn copies_to_shared_memory_complete_at_their_mbarrier() {
    for copy in [
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g], 1024, [%m];",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%b], [%g], 1024, [%m], %o;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%g], 1024, [%m];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%b], [%g], 1024, [%m], %o;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%b], [%g], 1024, [%m], 1;",
    ] {
        for copies in [CopyTiming::Late, CopyTiming::Early] {
            let body = format!(
                "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024; @%q {copy} WAIT ld.shared.b64 %d0, [%a];"
            );
            assert_eq!(run(Grid { copies, ..BLOCK }, &body), data(), "{copy}");
        }
    }
    // In two parts, and the bytes are announced after the copies.
    let body = "@%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g], 16, [%m];
        @%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b+16], [%g+16], 1008, [%m];
        @%q mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 1024; @%q mbarrier.arrive.shared::cta.b64 _, [%m];
        WAIT ld.shared.b64 %d0, [%a];";
    assert_eq!(run(BLOCK, body), data());
    // `complete_tx` by a thread stands for a copy.
    let body = "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 64;
        @%q mbarrier.complete_tx.shared::cta.b64 [%m], 64; WAIT ld.global.b64 %d0, [%f];";
    assert_eq!(run(BLOCK, body), data());
}

#[test]
fn a_copy_acts_as_late_as_the_program_allows() {
    let body = "st.shared.b64 [%a], 7; bar.sync 0;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024;
        @%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g], 1024, [%m];
        bar.sync 0; ld.shared.b64 %d0, [%a]; bar.sync 0; WAIT";
    assert_eq!(run(BLOCK, body), vec![7; 128], "no thread has waited");
    assert_eq!(run(Grid { copies: CopyTiming::Early, ..BLOCK }, body), data());
}

#[test]
fn stores_are_in_groups() {
    // The destination is the place of the first output; the second output is its value after the wait.
    let store = |copy: &str, wait: &str| {
        format!(
            "ld.global.b64 %d0, [%f]; st.shared.b64 [%a], %d0; fence.proxy.async; bar.sync 0; ld.param.u64 %g, [out0];
             @%q {copy} @%q cp.async.bulk.commit_group; @%q {wait} bar.sync 0; ld.param.u64 %g, [out0]; add.u64 %g, %g, %o; ld.global.b64 %d1, [%g];"
        )
    };
    for copy in [
        "cp.async.bulk.global.shared::cta.bulk_group [%g], [%b], 1024;",
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%g], [%b], 1024, %o;",
    ] {
        assert_eq!(run_for(BLOCK, &store(copy, "cp.async.bulk.wait_group 0;"), 2), data(), "{copy}");
        // Only the source is read, and the group is not waited for.
        let expected: Column = vec![0; 128];
        assert_eq!(run_for(BLOCK, &store(copy, "cp.async.bulk.wait_group.read 0;"), 2), expected, "{copy}");
        assert_eq!(run_for(BLOCK, &store(copy, "cp.async.bulk.wait_group 1;"), 2), expected, "{copy}");
    }
    // After `.read`, the source may be overwritten; without it, the new bytes are copied.
    for (wait, kept) in
        [("cp.async.bulk.wait_group.read 0;", true), ("cp.async.bulk.wait_group.read 1;", false)]
    {
        let copy = format!(
            "cp.async.bulk.global.shared::cta.bulk_group [%g], [%b], 1024; @%q cp.async.bulk.commit_group; @%q {wait} bar.sync 0; st.shared.b64 [%a], 5; bar.sync 0;"
        );
        let got = run_for(BLOCK, &store(&copy, "cp.async.bulk.wait_group 0;"), 2);
        assert_eq!(got, if kept { data() } else { vec![5; 128] }, "{wait}");
    }
    assert_eq!(run(BLOCK, "@%q cp.async.bulk.prefetch.L2.global [%g], 64; ld.global.b64 %d0, [%f];"), data());
    assert_eq!(
        run(
            BLOCK,
            "@%q cp.async.bulk.prefetch.L2.global.L2::cache_hint [%g], 64, %o; ld.global.b64 %d0, [%f];"
        ),
        data()
    );
}

/// All elements of the buffer are `a`, those of the destination `b`; the result is what the reduction makes of them.
#[test]
fn reductions_of_every_type() {
    let f16 = |bits: u64| bits << 48 | bits << 32 | bits << 16 | bits;
    let pair = |bits: u64| bits << 32 | bits;
    let cases: [(&str, u64, u64, u64); 30] = [
        ("and.b32", pair(0b1100), pair(0b1010), pair(0b1000)),
        ("or.b32", pair(0b1100), pair(0b1010), pair(0b1110)),
        ("xor.b32", pair(0b1100), pair(0b1010), pair(0b0110)),
        ("and.b64", 0b1100, 0b1010, 0b1000),
        ("or.b64", 0b1100, 0b1010, 0b1110),
        ("xor.b64", 0b1100, 0b1010, 0b0110),
        ("add.u32", pair(3), pair(0xffff_ffff), pair(2)),
        ("add.s32", pair(3), pair(4), pair(7)),
        ("add.u64", 3, 0xffff_ffff, 0x1_0000_0002),
        ("add.f32", pair(0x3f80_0000), pair(0x4000_0000), pair(0x4040_0000)),
        ("add.f64", 1f64.to_bits(), 2f64.to_bits(), 3f64.to_bits()),
        ("inc.u32", pair(9), pair(9), pair(0)),
        ("dec.u32", pair(9), pair(0), pair(9)),
        ("min.u32", pair(3), pair(0xffff_ffff), pair(3)),
        ("max.u32", pair(3), pair(0xffff_ffff), pair(0xffff_ffff)),
        ("min.s32", pair(3), pair(0xffff_ffff), pair(0xffff_ffff)),
        ("max.s32", pair(3), pair(0xffff_ffff), pair(3)),
        ("min.u64", 3, u64::MAX, 3),
        ("max.u64", 3, u64::MAX, u64::MAX),
        ("min.s64", 3, u64::MAX, u64::MAX),
        ("max.s64", 3, u64::MAX, 3),
        ("min.f16", f16(0x3c00), f16(0xc000), f16(0xc000)),
        ("max.f16", f16(0x3c00), f16(0xc000), f16(0x3c00)),
        ("min.bf16", f16(0x3f80), f16(0xc000), f16(0xc000)),
        ("max.bf16", f16(0x3f80), f16(0xc000), f16(0x3f80)),
        ("add.noftz.f16", f16(0x3c00), f16(0x3c00), f16(0x4000)),
        ("add.noftz.bf16", f16(0x3f80), f16(0x3f80), f16(0x4000)),
        ("inc.u32", pair(9), pair(3), pair(4)),
        ("dec.u32", pair(9), pair(3), pair(2)),
        ("add.u32", pair(1), pair(1), pair(2)),
    ];
    for (operation, a, b, expected) in cases {
        for hint in ["", ".L2::cache_hint"] {
            let policy = if hint.is_empty() { "" } else { ", %o" };
            let body = format!(
                "ld.param.u64 %g, [out0]; add.u64 %f, %g, %o; st.global.b64 [%f], {b}; st.shared.b64 [%a], {a}; bar.sync 0;
                 @%q cp.reduce.async.bulk.global.shared::cta.bulk_group{hint}.{operation} [%g], [%b], 1024{policy};
                 @%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0; bar.sync 0; ld.global.b64 %d0, [%f];"
            );
            assert_eq!(run(BLOCK, &body), vec![expected; 128], "{operation}");
        }
        let wide = ["b64", "s64", "f16", "bf16", "f32", "f64"].iter().any(|ty| operation.ends_with(ty));
        if wide || operation.ends_with("min.u64") || operation.ends_with("max.u64") {
            continue;
        }
        // Into shared memory, of the own block here, and by one thread from registers.
        let body = format!(
            ".shared .align 16 .b8 sums[1024]; mov.u32 %n, sums; mad.lo.u32 %n, %v, 8, %n; st.shared.b64 [%n], {b}; st.shared.b64 [%a], {a}; bar.sync 0;
             mov.u32 %v, sums; @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024;
             @%q cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation} [%v], [%b], 1024, [%m];
             WAIT ld.shared.b64 %d0, [%n];"
        );
        assert_eq!(run(BLOCK, &body), vec![expected; 128], "{operation}");
        let bits = if operation.ends_with("64") { 64 } else { 32 };
        let mask = if bits == 64 { u64::MAX } else { 0xffff_ffff };
        for space in ["", ".shared::cluster"] {
            let generic =
                "cvt.u64.u32 %f, %a; cvta.shared.u64 %f, %f; cvt.u64.u32 %g, %m; cvta.shared.u64 %g, %g;";
            let (to, bar) = if space.is_empty() { ("%f", "%g") } else { ("%a", "%m") };
            let body = format!(
                "{generic} st.shared.b64 [%a], {b}; @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {}; bar.sync 0;
                 red.async.relaxed.cluster{space}.mbarrier::complete_tx::bytes.{operation} [{to}], {}, [{bar}]; WAIT ld.shared.b{bits} %d0, [%a];",
                128 * bits / 8,
                a & mask
            );
            let got: Column = run(BLOCK, &body).iter().map(|value| value & mask).collect();
            assert_eq!(got, vec![expected & mask; 128], "{operation}");
        }
    }
}

/// Two blocks that send to each other; `%n` is the same place in the other block.
fn across(body: &str) -> Column {
    let grid = Grid { blocks: 2, cluster: 2, threads: 64, ..BLOCK };
    let head =
        "mov.u32 %v, %cluster_ctarank; xor.b32 %v, %v, 1; barrier.cluster.arrive; barrier.cluster.wait;";
    let tail = "barrier.cluster.arrive; barrier.cluster.wait;";
    run(grid, &format!("{head} {body} {tail}"))
}

#[test]
fn blocks_of_a_cluster_send_to_each_other() {
    let mirrored =
        |half: u64| -> Column { (0..128).map(|i| data()[usize::try_from(i ^ half).unwrap()]).collect() };
    // From shared memory to that of the other block, whose mbarrier counts the bytes.
    let body = ".reg .b32 %x, %y; ld.global.b64 %d0, [%f]; st.shared.b64 [%a], %d0; bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
        add.u32 %x, %b, 512; mapa.shared::cluster.u32 %n, %x, %v; mapa.shared::cluster.u32 %y, %m, %v;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
        @%q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%n], [%b], 512, [%y]; WAIT ld.shared.b64 %d0, [%a+512];";
    assert_eq!(across(body), mirrored(64));
    // A multicast: each block copies its half of the source to both.
    let body = ".reg .b32 %x, %r; .reg .b16 %k; mov.u32 %r, %cluster_ctarank; mul.lo.u32 %x, %r, 512; cvt.u64.u32 %d0, %x; add.u64 %g, %g, %d0; add.u32 %n, %b, %x; mov.b16 %k, 3;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024; barrier.cluster.arrive; barrier.cluster.wait;
        @%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%n], [%g], 512, [%m], %k, %o; WAIT
        sub.u32 %x, 512, %x; add.u32 %x, %x, %a; ld.shared.b64 %d0, [%x];";
    assert_eq!(across(body), mirrored(64));
    // Registers to the other block.
    for (ty, bits) in [
        ("b32", 32),
        ("u32", 32),
        ("s32", 32),
        ("f32", 32),
        ("b64", 64),
        ("u64", 64),
        ("s64", 64),
        ("f64", 64),
    ] {
        let register = if bits == 32 { "cvt.u32.u64 %x, %d0;" } else { "" };
        let value = if bits == 32 { "%x" } else { "%d0" };
        let body = format!(
            ".reg .b32 %x, %y; ld.global.b64 %d0, [%f]; {register} mapa.shared::cluster.u32 %n, %a, %v; mapa.shared::cluster.u32 %y, %m, %v;
             @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {}; barrier.cluster.arrive; barrier.cluster.wait;
             st.async.shared::cluster.mbarrier::complete_tx::bytes.{ty} [%n], {value}, [%y]; WAIT mov.b64 %d0, 0; ld.shared.b{bits} %d0, [%a];",
            64 * bits / 8
        );
        let mask = if bits == 32 { 0xffff_ffff } else { u64::MAX };
        let expected: Column = mirrored(64).iter().map(|value| value & mask).collect();
        assert_eq!(across(&body), expected, "{ty}");
    }
    for (vector, bytes) in [("v2.b32", 8), ("v4.b32", 16), ("v2.b64", 16)] {
        let value = match vector {
            "v2.b32" => "{%x, %z}",
            "v4.b32" => "{%x, %z, %x, %z}",
            _ => "{%d0, %d0}",
        };
        let body = format!(
            ".reg .b32 %x, %y, %z; ld.global.b64 %d0, [%f]; mov.b64 {{%x, %z}}, %d0; add.u32 %a, %a, %a; sub.u32 %a, %a, %b; mapa.shared::cluster.u32 %n, %a, %v; mapa.shared::cluster.u32 %y, %m, %v;
             @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {}; barrier.cluster.arrive; barrier.cluster.wait;
             st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{vector} [%n], {value}, [%y]; WAIT ld.shared.b64 %d0, [%a];",
            64 * bytes
        );
        assert_eq!(across(&body), mirrored(64), "{vector}");
    }
    let body = ".reg .b32 %y; .reg .b128 %w; ld.global.b64 %d0, [%f]; mov.b128 %w, {%d0, %d0}; add.u32 %a, %a, %a; sub.u32 %a, %a, %b; mapa.shared::cluster.u32 %n, %a, %v; mapa.shared::cluster.u32 %y, %m, %v;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024; barrier.cluster.arrive; barrier.cluster.wait;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b128 [%n], %w, [%y]; WAIT ld.shared.b64 %d0, [%a];";
    assert_eq!(across(body), mirrored(64));
    // A remote arrival.
    let body = ".reg .b32 %y; mapa.shared::cluster.u32 %y, %m, %v; @%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y]; WAIT ld.global.b64 %d0, [%f];";
    assert_eq!(across(body), data());
}

#[test]
fn misuse_stops_the_launch() {
    let copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes";
    for (body, kind) in [
        (format!("@%q {copy} [%b], [%g], 24, [%m];"), StopKind::Alignment),
        (format!("@%q {copy} [%b+8], [%g], 16, [%m];"), StopKind::Alignment),
        (format!("@%q {copy} [%b], [%g+4], 16, [%m];"), StopKind::Alignment),
        (format!("@%q {copy} [%b], [%g], 2048, [%m];"), StopKind::Bounds),
        (format!("@%q {copy} [%b+1024], [%g], 512, [%m];"), StopKind::Bounds),
        ("@%q cp.async.bulk.global.shared::cta.bulk_group [%g], [%b], 8;".into(), StopKind::Alignment),
        ("@%q cp.async.bulk.prefetch.L2.global [%g], 2048;".into(), StopKind::Bounds),
        // More bytes were expected, and fewer.
        (
            format!("@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 128; @%q {copy} [%b], [%g], 64, [%m]; WAIT"),
            StopKind::Deadlock,
        ),
        (
            format!("@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 32; @%q {copy} [%b], [%g], 64, [%m]; WAIT"),
            StopKind::Deadlock,
        ),
        // The mbarrier is not initialized.
        (format!("@%q {copy} [%b], [%g], 64, [%b+64];"), StopKind::Mbarrier),
        (
            "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%b], [%g], 64, [%m], 3;".into(),
            StopKind::Bounds,
        ),
    ] {
        let text = prepared(&body);
        match BLOCK.run(&text, &["b64"], &[("b64", data())]) {
            Ok(columns) => panic!("{body}: expected a stop, found {columns:x?}"),
            Err(stop) => assert_eq!(stop.kind, kind, "{body}: {stop}"),
        }
    }
}

#[test]
fn a_byte_mask_selects_bytes_of_every_sixteen() {
    for (mask, hint) in [(0x00ff_u64, false), (0x8421, true), (0xffff, false), (0, true), (0x3f00, false)] {
        let (dotted, policy) = if hint { (".L2::cache_hint", "%o, ") } else { ("", "") };
        let body = format!(
            ".reg .b16 %h; mov.b16 %h, {mask}; ld.global.b64 %d0, [%f]; st.shared.b64 [%a], %d0; fence.proxy.async; bar.sync 0;
             ld.param.u64 %g, [out0]; @%q cp.async.bulk.global.shared::cta.bulk_group{dotted}.cp_mask [%g], [%b], 1024, {policy}%h;
             @%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0; bar.sync 0; add.u64 %g, %g, %o; ld.global.b64 %d1, [%g];"
        );
        let got = run_for(Grid { target: "sm_100", ..BLOCK }, &body, 2);
        for (i, (got, data)) in got.iter().zip(data()).enumerate() {
            let bytes = mask >> (8 * (i % 2)) & 0xff;
            let want = (0..8)
                .filter(|byte| bytes >> byte & 1 != 0)
                .fold(0, |word, byte| word | data & 0xff << (8 * byte));
            assert_eq!(*got, want, "{mask:#x}, word {i}");
        }
    }
}

#[test]
fn zeros_fill_shared_memory() {
    let grid = Grid { target: "sm_100", threads: 128, ..Grid::HOPPER };
    for (instruction, address, range) in [
        ("st.bulk.weak.shared::cta", "%b+16", 2..66),
        ("st.bulk", "%g", 1..65),
        ("st.bulk.shared::cta", "%b", 0..64),
    ] {
        for size in ["512", "%o", "%v"] {
            let body = format!(
                "ld.global.b64 %d0, [%f]; st.shared.b64 [%a], %d0; bar.sync 0; mov.u64 %o, 512; mov.u32 %v, 512;
                 cvt.u64.u32 %g, %b; cvta.shared.u64 %g, %g; add.u64 %g, %g, 8;
                 @%q {instruction} [{address}], {size}, 0; bar.sync 0; ld.shared.b64 %d0, [%a]; mov.u32 %v, %tid.x; mul.wide.u32 %o, %v, 8;"
            );
            for (i, (got, data)) in run(grid, &body).iter().zip(data()).enumerate() {
                assert_eq!(*got, if range.contains(&i) { 0 } else { data }, "{instruction} {size} word {i}");
            }
        }
    }
    for (body, kind) in [
        ("@%q st.bulk.shared::cta [%b], 12, 0;", StopKind::Alignment),
        ("mov.u32 %v, 16777224; @%q st.bulk.shared::cta [%b], %v, 0;", StopKind::Alignment),
        ("@%q st.bulk.shared::cta [%b], 2048, 0;", StopKind::Bounds),
        ("@%q st.bulk [%g], 64, 0;", StopKind::Bounds),
    ] {
        let stop = grid.run(&prepared(body), &["b64"], &[("b64", data())]).unwrap_err();
        assert_eq!(stop.kind, kind, "{body}: {stop}");
    }
}
