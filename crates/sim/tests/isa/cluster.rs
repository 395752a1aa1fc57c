//! Clusters: special registers, addresses in the memory of other blocks, accesses to it, and the cluster's barrier.

use crate::harness::Column;
use crate::sync::Grid;
use warpproof_sim::schedule::Order;
use warpproof_sim::{Device, StopKind};

/// The value of the threads of a block, by its number.
type ByBlock = fn(u64) -> u64;

/// Four clusters of four blocks of 64 threads.
const FOUR: Grid = Grid { target: "sm_90", blocks: 16, cluster: 4, threads: 64, ..Grid::HOPPER };

const SYNC: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

/// `%r` is the rank of the block, `%n` that of the next one, `%i` the thread in its block, `%c` its cell, `%m` the same cell of
/// the next block.
fn prepared(body: &str) -> String {
    format!(
        ".shared .align 8 .b8 cells[512]; .reg .b32 %r, %n, %i, %c, %m; .reg .b64 %w; .reg .pred %q;
         mov.u32 %r, %cluster_ctarank; add.u32 %n, %r, 1; and.b32 %n, %n, 3; mov.u32 %i, %tid.x;
         mov.u32 %c, cells; mad.lo.u32 %c, %i, 8, %c; mapa.shared::cluster.u32 %m, %c, %n;
         {body}"
    )
}

/// The value of each thread by its block and its number there.
fn by_thread(value: impl Fn(u64, u64) -> u64) -> Column {
    (0..1024).map(|thread| value(thread / 64, thread % 64)).collect()
}

#[test]
fn special_registers_name_the_cluster() {
    let registers: [(&str, ByBlock); 8] = [
        ("%clusterid.x", |block| block / 4),
        ("%nclusterid.x", |_| 4),
        ("%cluster_ctaid.x", |block| block % 4),
        ("%cluster_nctaid.x", |_| 4),
        ("%cluster_ctarank", |block| block % 4),
        ("%cluster_nctarank", |_| 4),
        ("%clusterid.y", |_| 0),
        ("%cluster_nctaid.z", |_| 1),
    ];
    for (register, value) in registers {
        let got = FOUR.column(&format!("mov.u32 %d0, {register};"));
        assert_eq!(got, by_thread(|block, _| value(block)), "{register}");
    }
    let body = ".reg .pred %q; mov.pred %q, %is_explicit_cluster; selp.u32 %d0, 1, 2, %q;";
    assert_eq!(FOUR.column(body), by_thread(|_, _| 1));
    assert_eq!(Grid::hopper(32).column(body), vec![2; 32]);
}

#[test]
fn a_block_reads_and_writes_the_memory_of_another() {
    let loads = [
        "ld.shared::cluster.u32 %d0, [%m];",
        "ld.relaxed.cluster.shared::cluster.u32 %d0, [%m];",
        "ld.acquire.cluster.shared::cluster.u32 %d0, [%m];",
        "ld.volatile.shared::cluster.u32 %d0, [%m];",
        // Through generic addresses, made in three ways.
        "cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; ld.u32 %d0, [%w];",
        "cvt.u64.u32 %w, %c; cvta.shared.u64 %w, %w; mapa.u64 %w, %w, %n; ld.u32 %d0, [%w];",
        "cvt.u64.u32 %w, %c; mapa.shared::cluster.u64 %w, %w, %n; ld.shared::cluster.u32 %d0, [%w];",
    ];
    for load in loads {
        for order in [Order::Forward, Order::Reverse, Order::Random(3)] {
            let body = prepared(&format!("st.shared.u32 [%c], %t; {SYNC} {load} {SYNC}"));
            let expected = by_thread(|block, i| (block / 4 * 4 + (block + 1) % 4) * 64 + i);
            assert_eq!(Grid { order, ..FOUR }.column(&body), expected, "{load}");
        }
    }
    for store in [
        "st.shared::cluster.u32 [%m], %t;",
        "st.release.cluster.shared::cluster.u32 [%m], %t;",
        "st.relaxed.cluster.shared::cluster.u32 [%m], %t;",
        "cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; st.u32 [%w], %t;",
    ] {
        let body = prepared(&format!("{SYNC} {store} {SYNC} ld.shared.u32 %d0, [%c];"));
        let expected = by_thread(|block, i| (block / 4 * 4 + (block + 3) % 4) * 64 + i);
        assert_eq!(FOUR.column(&body), expected, "{store}");
    }
}

#[test]
fn atomics_of_a_cluster_meet_in_one_block() {
    // All threads of a cluster count in the memory of block 0.
    for atomic in [
        "atom.shared::cluster.add.u32 %i, [%m], 1;",
        "atom.acq_rel.cluster.shared::cluster.add.u32 %i, [%m], 1;",
        "red.shared::cluster.add.u32 [%m], 1;",
        "red.relaxed.cluster.shared::cluster.add.u32 [%m], 1;",
        "cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; red.add.u32 [%w], 1;",
    ] {
        let body = prepared(&format!(
            "mov.u32 %c, cells; mapa.shared::cluster.u32 %m, %c, 0; st.shared.u32 [%c], 0; {SYNC} {atomic} {SYNC}
             ld.shared::cluster.u32 %d0, [%m]; {SYNC}"
        ));
        assert_eq!(FOUR.column(&body), vec![256; 1024], "{atomic}");
    }
}

#[test]
fn an_address_names_its_block() {
    let bodies: [(&str, ByBlock); 7] = [
        ("getctarank.shared::cluster.u32 %d0, %m;", |block| (block + 1) % 4),
        ("getctarank.shared::cluster.u32 %d0, %c;", |block| block % 4),
        ("cvt.u64.u32 %w, %m; getctarank.shared::cluster.u64 %d0, %w;", |block| (block + 1) % 4),
        ("cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; getctarank.u64 %d0, %w;", |block| {
            (block + 1) % 4
        }),
        (
            "cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; isspacep.shared::cluster %q, %w; selp.u32 %d0, 1, 0, %q;",
            |_| 1,
        ),
        (
            "cvt.u64.u32 %w, %m; cvta.shared::cluster.u64 %w, %w; isspacep.shared::cta %q, %w; selp.u32 %d0, 1, 0, %q;",
            |_| 0,
        ),
        (
            "cvt.u64.u32 %w, %c; cvta.shared.u64 %w, %w; isspacep.shared %q, %w; selp.u32 %d0, 1, 0, %q;",
            |_| 1,
        ),
    ];
    for (body, value) in bodies {
        assert_eq!(FOUR.column(&prepared(body)), by_thread(|block, _| value(block)), "{body}");
    }
    // An address mapped to the own block is the own memory.
    let body = prepared(
        "st.shared.u32 [%c], %t; mapa.shared::cluster.u32 %m, %c, %r; ld.shared::cluster.u32 %d0, [%m];",
    );
    assert_eq!(FOUR.column(&body), (0..1024).collect::<Column>());
}

/// An address carries the rank of its block in the bits from 24 on, so bit 24 chooses between the blocks of a pair.
#[test]
fn the_rank_in_an_address_can_be_changed() {
    let cases: [(&str, ByBlock); 4] = [
        ("and.b32 %m, %c, 0xfeffffff; ld.shared::cluster.u32 %d0, [%m];", |block| block & !1),
        ("or.b32 %m, %c, 0x01000000; ld.shared::cluster.u32 %d0, [%m];", |block| block | 1),
        ("xor.b32 %m, %c, 0x03000000; ld.shared::cluster.u32 %d0, [%m];", |block| block ^ 3),
        (
            "cvt.u64.u32 %w, %c; cvta.shared.u64 %w, %w; and.b64 %w, %w, 0xfffffffffeffffff; ld.u32 %d0, [%w];",
            |block| block & !1,
        ),
    ];
    for (load, named) in cases {
        let body = prepared(&format!("st.shared.u32 [%c], %t; {SYNC} {load} {SYNC}"));
        assert_eq!(FOUR.column(&body), by_thread(|block, i| named(block) * 64 + i), "{load}");
    }
    // An own address is the own memory, whichever way it was made.
    for load in ["ld.shared.u32 %d0, [%c];", "mapa.shared::cluster.u32 %m, %c, %r; ld.shared.u32 %d0, [%m];"]
    {
        let body = prepared(&format!("st.shared.u32 [%c], %t; {SYNC} {load} {SYNC}"));
        assert_eq!(FOUR.column(&body), (0..1024).collect::<Column>(), "{load}");
    }
}

/// Compilers compute addresses before the branch that guards their use.
#[test]
fn an_address_in_a_block_that_does_not_exist_may_be_computed() {
    let body = "add.u32 %n, %r, 1; setp.lt.u32 %q, %n, 4; mapa.shared::cluster.u32 %m, %c, %n; st.shared.u32 [%c], %t;";
    let body =
        prepared(&format!("{body} {SYNC} mov.u32 %d0, 0; @%q ld.shared::cluster.u32 %d0, [%m]; {SYNC}"));
    let expected = by_thread(|block, i| if block % 4 == 3 { 0 } else { (block + 1) * 64 + i });
    assert_eq!(FOUR.column(&body), expected);
}

#[test]
fn misuse_of_the_cluster_stops_the_launch() {
    for (body, kind) in [
        // Past the window of the other block, past the cluster, and to a block that is not there.
        ("ld.shared::cluster.u32 %d0, [%m+512];", StopKind::Bounds),
        ("mapa.shared::cluster.u32 %m, %c, 4; ld.shared::cluster.u32 %d0, [%m];", StopKind::Bounds),
        ("mapa.shared::cluster.u32 %m, %c, -1; st.shared::cluster.u32 [%m], %t;", StopKind::Bounds),
        ("mapa.u64 %w, %o, 1;", StopKind::Bounds),
        ("add.u32 %m, %c, 0x7000000; ld.shared::cluster.u32 %d0, [%m];", StopKind::Bounds),
        // The other block has exited.
        (
            "setp.eq.u32 %q, %r, 1; @%q exit; barrier.cluster.arrive; barrier.cluster.wait; ld.shared::cluster.u32 %d0, [%m];",
            StopKind::Bounds,
        ),
        // Arrives twice; waits without arriving; one block never arrives.
        ("barrier.cluster.arrive; barrier.cluster.arrive;", StopKind::Barrier),
        ("barrier.cluster.wait;", StopKind::Barrier),
        (
            "setp.eq.u32 %q, %r, 1; @!%q barrier.cluster.arrive; @!%q barrier.cluster.wait; @!%q bra E; bar.sync 1, 96; E:",
            StopKind::Deadlock,
        ),
    ] {
        assert_eq!(FOUR.stop(&prepared(body)), kind, "{body}");
    }
}

#[test]
fn a_cluster_must_fit_the_grid_and_the_kernel() {
    let text = |directive: &str| {
        format!(".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {directive} {{ ret; }}")
    };
    let run = |directive: &str, grid: (u32, u32), cluster: Option<(u32, u32)>| {
        let mut device = Device::new();
        let launch = device.load(&text(directive)).unwrap().kernel("k").unwrap().launch().grid(grid);
        let launch = match cluster {
            Some(cluster) => launch.cluster(cluster),
            None => launch,
        };
        launch.run(&mut device).map(|_| ()).map_err(|stop| stop.sentence)
    };
    assert_eq!(run("", (8, 2), Some((4, 2))), Ok(()));
    assert_eq!(run("", (16, 1), Some((16, 1))), Ok(()));
    assert_eq!(run(".reqnctapercluster 2, 1, 1", (8, 1), None), Ok(()));
    assert_eq!(run(".explicitcluster .maxclusterrank 4", (8, 1), Some((4, 1))), Ok(()));
    for (directive, grid, cluster, sentence) in [
        (
            "",
            (6, 1),
            Some((4, 1)),
            "a grid of 6 blocks in x, which is not a multiple of the 4 blocks of a cluster",
        ),
        ("", (32, 1), Some((32, 1)), "a cluster of 32 blocks; the maximum is 16"),
        ("", (8, 1), Some((0, 1)), "a cluster dimension is zero"),
        (".maxclusterrank 4", (8, 1), Some((8, 1)), "a cluster of 8 blocks; the maximum is 4"),
        (
            ".reqnctapercluster 2, 1, 1",
            (8, 1),
            Some((4, 1)),
            "a cluster of [4, 1, 1], but the kernel was compiled for [2, 1, 1]",
        ),
        (
            ".explicitcluster",
            (8, 1),
            None,
            "the kernel is compiled for launches with clusters, and the launch has none",
        ),
    ] {
        assert_eq!(run(directive, grid, cluster), Err(sentence.to_owned()));
    }
}

/// Clusters that do not communicate with each other run on all cores, with the same outcome.
#[test]
fn clusters_run_on_any_number_of_threads() {
    let text = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) .reqnctapercluster 2, 2, 1 {
        .shared .align 4 .b8 cell[4]; .reg .b32 %r<9>; .reg .b64 %o, %w;
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 8, %r1; mov.u32 %r3, cell; st.shared.u32 [%r3], %r1;
        barrier.cluster.arrive; barrier.cluster.wait;
        mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 3; mapa.shared::cluster.u32 %r5, %r3, %r4; ld.shared::cluster.u32 %r6, [%r5];
        ld.param.u64 %o, [out]; mul.wide.u32 %w, %r1, 4; add.u64 %o, %o, %w; st.global.u32 [%o], %r6;
        barrier.cluster.arrive; barrier.cluster.wait; ret; }";
    // The block diagonally opposite in the cluster of two by two.
    let expected: Vec<u32> = (0..64).map(|block| ((block / 8) ^ 1) * 8 + ((block % 8) ^ 1)).collect();
    for threads in [1, 2, 7] {
        let mut device = Device::new().with_threads(threads);
        let out = device.alloc::<u32>(64).unwrap();
        let kernel = device.load(text).unwrap().kernel("k").unwrap();
        kernel.launch().grid((8, 8)).arg(out).run(&mut device).unwrap();
        assert_eq!(device.read(&out).unwrap(), expected);
    }
}
