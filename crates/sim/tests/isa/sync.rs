//! Barriers, fences, and forward progress of diverged lanes and warps.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::harness::{Column, kernel, launch};
use warpproof_sim::schedule::{CopyTiming, Order};
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

/// A launch of a body, wrapped by [`kernel`], in blocks of any size.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) target: &'static str,
    pub(crate) blocks: u32,
    pub(crate) cluster: u32,
    pub(crate) threads: u32,
    pub(crate) copies: CopyTiming,
    pub(crate) order: Order,
}

impl Grid {
    /// One block of one warp, for sm_90a.
    pub(crate) const HOPPER: Grid = Grid {
        target: "sm_90a",
        blocks: 1,
        cluster: 1,
        threads: 32,
        copies: CopyTiming::Late,
        order: Order::Forward,
    };

    /// One block of this number of threads, for sm_89.
    pub(crate) fn block(threads: u32) -> Grid {
        Grid {
            target: "sm_89",
            blocks: 1,
            cluster: 1,
            threads,
            copies: CopyTiming::Late,
            order: Order::Forward,
        }
    }

    /// One block of this number of threads, for sm_90.
    pub(crate) fn hopper(threads: u32) -> Grid {
        Grid { target: "sm_90a", ..Grid::block(threads) }
    }

    /// Runs the body and returns its results, one value per thread.
    pub(crate) fn run(
        self,
        body: &str,
        results: &[&str],
        sources: &[(&str, Column)],
    ) -> Result<Vec<Column>, Box<Stop>> {
        let types: Vec<&str> = sources.iter().map(|(ty, _)| *ty).collect();
        let text = kernel(body, results, &types).replace("sm_89", self.target);
        let mut device = Device::new().with_threads(1);
        device.schedule.copies = self.copies;
        device.schedule.order = self.order;
        let prepared = device.load(&text)?.kernel("k")?;
        let total = usize::try_from(self.blocks * self.threads).unwrap();
        let outputs: Vec<Buffer<u64>> = results.iter().map(|_| device.alloc(total).unwrap()).collect();
        let inputs: Vec<Buffer<u64>> =
            sources.iter().map(|(_, column)| device.upload(column).unwrap()).collect();
        let mut prepared = prepared.launch().grid(self.blocks).block(self.threads);
        if self.cluster > 1 {
            prepared = prepared.cluster(self.cluster);
        }
        for buffer in outputs.iter().chain(&inputs) {
            prepared = prepared.arg(buffer);
        }
        match launch(&mut device, &prepared).stop {
            Some(stop) => Err(stop),
            None => Ok(outputs.iter().map(|buffer| device.read(buffer).unwrap()).collect()),
        }
    }

    /// Runs a body with one 32-bit result.
    pub(crate) fn column(self, body: &str) -> Column {
        self.run(body, &["b32"], &[]).unwrap_or_else(|stop| panic!("{body}: {stop}")).remove(0)
    }

    /// Runs a body that must stop, and returns the kind of stop, for which the kernel is to blame.
    pub(crate) fn stop(self, body: &str) -> StopKind {
        match self.run(body, &["b32"], &[]) {
            Ok(columns) => panic!("{body}: expected a stop, found results {columns:x?}"),
            Err(stop) => {
                assert_eq!(stop.blame, Blame::Kernel, "{stop}");
                stop.kind
            }
        }
    }
}

const ORDERS: [Order; 4] = [Order::Forward, Order::Reverse, Order::Random(1), Order::Random(2)];

#[test]
fn a_barrier_makes_stores_visible_in_every_order_of_warps() {
    for barrier in [
        "bar.sync 0;",
        "bar.cta.sync 3;",
        "barrier.sync 15;",
        "barrier.cta.sync.aligned 1, 256;",
        "bar.sync 2, 256;",
    ] {
        // Each thread reads what its mirror image wrote.
        let body = format!(
            ".shared .b32 cells[256]; .reg .b32 %a, %i;
             mov.u32 %i, %tid.x; mov.u32 %a, cells; mad.lo.u32 %a, %i, 4, %a; st.shared.b32 [%a], %t;
             {barrier}
             mov.u32 %a, cells; add.u32 %a, %a, 1020; mad.lo.s32 %a, %i, -4, %a; ld.shared.b32 %d0, [%a];"
        );
        for order in ORDERS {
            let got = Grid { order, ..Grid::block(256) }.column(&body);
            assert_eq!(got, (0..256).rev().collect::<Column>(), "{barrier} {order:?}");
        }
    }
}

#[test]
fn threads_that_have_exited_do_not_hold_up_a_barrier() {
    // A block that is not a multiple of the warp, and lanes and whole warps that exit before and after others arrive.
    for order in ORDERS {
        let body = ".shared .b32 cell; .reg .pred %q; .reg .b32 %a; mov.u32 %a, cell;
            setp.ge.u32 %q, %t, 40; @%q exit;
            setp.eq.u32 %q, %t, 0; @%q st.shared.b32 [%a], 77;
            bar.sync 0;
            ld.shared.b32 %d0, [%a];";
        let got = Grid { order, ..Grid::block(100) }.column(body);
        assert_eq!(got, (0..100).map(|t| if t < 40 { 77 } else { 0 }).collect::<Column>());
        // The count is given in whole warps although 8 of the lanes of warp 1 have exited.
        let body = body.replace("bar.sync 0;", "bar.sync 0, 64;");
        let got = Grid { order, ..Grid::block(64) }.column(&body);
        assert_eq!(got, (0..64).map(|t| if t < 40 { 77 } else { 0 }).collect::<Column>());
        // Lanes that exit after other lanes of their warp have arrived.
        let body = ".reg .pred %q; setp.ge.u32 %q, %t, 40; @%q bra AWAY; bar.sync 0, 64; mov.u32 %d0, 1; bra DONE; AWAY: exit; DONE:";
        let got = Grid { order, ..Grid::block(64) }.column(body);
        assert_eq!(got, (0..64).map(|t| u64::from(t < 40)).collect::<Column>());
    }
}

#[test]
fn named_barriers_pass_values_from_producers_to_consumers() {
    // Warps 0 and 1 produce three rounds of values, warps 2 and 3 consume them, with one full and one empty barrier.
    for (arrive, sync) in [
        ("bar.arrive", "bar.sync"),
        ("barrier.arrive", "barrier.sync"),
        ("barrier.cta.arrive.aligned", "bar.cta.sync"),
    ] {
        let body = format!(
            ".shared .b32 cells[64]; .reg .b32 %a, %i, %n, %v; .reg .pred %q;
             mov.u32 %n, 0; mov.u32 %d0, 0; and.b32 %i, %t, 63; mov.u32 %a, cells; mad.lo.u32 %a, %i, 4, %a;
             setp.ge.u32 %q, %t, 64; @%q bra CONSUME;
             PRODUCE:
             mad.lo.u32 %v, %n, 1000, %i; st.shared.b32 [%a], %v;
             {arrive} 1, 128;
             {sync} 2, 128;
             add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 3; @%q bra PRODUCE;
             bra DONE;
             CONSUME:
             {sync} 1, 128;
             ld.shared.b32 %v, [%a]; add.u32 %d0, %d0, %v;
             {arrive} 2, 128;
             add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 3; @%q bra CONSUME;
             DONE:"
        );
        for order in ORDERS {
            let got = Grid { order, ..Grid::block(128) }.column(&body);
            let expected =
                (0..128u64).map(|t| if t < 64 { 0 } else { 3000 + 3 * (t - 64) }).collect::<Column>();
            assert_eq!(got, expected, "{arrive} {order:?}");
        }
    }
}

#[test]
fn reductions_over_a_barrier() {
    let prefix = ".reg .pred %q, %r; .reg .b32 %m; rem.u32 %m, %t, 3; setp.eq.u32 %q, %m, 0;";
    let thirds = 86;
    for (body, expected) in [
        ("bar.red.popc.u32 %d0, 0, %q;", thirds),
        ("bar.red.popc.u32 %d0, 0, !%q;", 256 - thirds),
        ("bar.cta.red.popc.u32 %d0, 1, 256, %q;", thirds),
        ("barrier.red.popc.u32 %d0, 2, %q;", thirds),
        ("barrier.cta.red.popc.aligned.u32 %d0, 2, 256, !%q;", 256 - thirds),
        ("bar.red.and.pred %r, 3, %q; selp.u32 %d0, 1, 0, %r;", 0),
        ("bar.red.or.pred %r, 3, %q; selp.u32 %d0, 1, 0, %r;", 1),
        ("setp.lt.u32 %q, %t, 256; bar.red.and.pred %r, 3, 256, %q; selp.u32 %d0, 1, 0, %r;", 1),
        ("setp.lt.u32 %q, %t, 256; bar.red.or.pred %r, 3, !%q; selp.u32 %d0, 1, 0, %r;", 0),
        ("setp.ne.u32 %q, %t, 255; barrier.red.and.pred %r, 4, %q; selp.u32 %d0, 1, 0, %r;", 0),
        ("setp.eq.u32 %q, %t, 255; barrier.red.or.aligned.pred %r, 4, 256, %q; selp.u32 %d0, 1, 0, %r;", 1),
    ] {
        let body = format!("{prefix} {body}");
        for order in ORDERS {
            assert_eq!(Grid { order, ..Grid::block(256) }.column(&body), vec![expected; 256], "{body}");
        }
    }
    // Used twice in a row, the second result belongs to the second use.
    let body = format!(
        "{prefix} bar.red.popc.u32 %d0, 0, %q; bar.red.popc.u32 %m, 0, !%q; mad.lo.u32 %d0, %d0, 1000, %m;"
    );
    assert_eq!(Grid::block(256).column(&body), vec![86 * 1000 + 170; 256]);
}

#[test]
fn a_barrier_number_may_come_from_a_register_and_differ_between_lanes() {
    // Even and odd lanes of both warps synchronize at separate barriers.
    let body = ".reg .b32 %b; .reg .pred %q; and.b32 %b, %t, 1; setp.lt.u32 %q, %t, 40;
        barrier.red.popc.u32 %d0, %b, 64, %q;";
    // 32 threads arrive at each barrier, and absent lanes are not counted: 64 threads never arrive.
    assert_eq!(Grid::block(64).stop(body), StopKind::Deadlock);
    let body = ".reg .b32 %b; .reg .pred %q; and.b32 %b, %t, 1; setp.lt.u32 %q, %t, 40;
        barrier.red.popc.u32 %d0, %b, 32, %q;";
    assert_eq!(Grid::block(64).column(body), vec![20; 64]);
}

#[test]
fn misused_barriers_are_reported() {
    assert_eq!(Grid::block(64).stop("bar.sync 16; mov.u32 %d0, 1;"), StopKind::Barrier);
    assert_eq!(Grid::block(64).stop("bar.sync 0, 33; mov.u32 %d0, 1;"), StopKind::Barrier);
    let disagree = ".reg .pred %q; setp.lt.u32 %q, %t, 32; @%q bra A; bar.sync 0, 64; bra B; A: bar.sync 0, 96; B: mov.u32 %d0, 1;";
    assert_eq!(Grid::block(64).stop(disagree), StopKind::Barrier);
}

#[test]
fn a_deadlock_is_reported_with_what_every_warp_waits_for() {
    // The second warp waits at another barrier than the first.
    let body = ".reg .pred %q; setp.lt.u32 %q, %t, 32; @%q bra A; bar.sync 0; bra B; A: bar.sync 1; B: mov.u32 %d0, 1;";
    let stop = Grid::block(64).run(body, &["b32"], &[]).unwrap_err();
    assert_eq!((stop.kind, stop.blame), (StopKind::Deadlock, Blame::Kernel));
    assert_eq!(stop.notes.len(), 2, "{stop}");
    assert!(stop.notes[0].contains("barrier 1") && stop.notes[1].contains("barrier 0"), "{stop}");
    // Lanes wait for lanes that are stuck elsewhere.
    let body = ".reg .pred %q; setp.lt.u32 %q, %t, 16; @%q bra A; bar.sync 0, 64; bra B; A: bar.warp.sync 0xffffffff; B: mov.u32 %d0, 1;";
    assert_eq!(Grid::block(32).stop(body), StopKind::Deadlock);
    // A barrier that expects more threads than there are.
    assert_eq!(Grid::block(32).stop("bar.sync 0, 64; mov.u32 %d0, 1;"), StopKind::Deadlock);
}

#[test]
fn warp_barriers_meet_lanes_of_their_mask() {
    // Both sides of a branch, each with its own half; then all together, after stores that lanes exchange.
    let body = ".shared .b32 cells[32]; .reg .b32 %a, %m, %i; .reg .pred %q;
        mov.u32 %a, cells; mad.lo.u32 %a, %t, 4, %a;
        setp.lt.u32 %q, %t, 16; mov.u32 %m, 0xffff; @%q bra A; mov.u32 %m, 0xffff0000;
        bar.warp.sync %m; st.shared.b32 [%a], %t; bra B;
        A: bar.warp.sync %m; st.shared.b32 [%a], %t;
        B: bar.warp.sync 0xffffffff;
        xor.b32 %i, %t, 31; mov.u32 %a, cells; mad.lo.u32 %a, %i, 4, %a; ld.shared.b32 %d0, [%a];";
    assert_eq!(Grid::block(32).column(body), (0..32).rev().collect::<Column>());
    // The two sides of a branch synchronize although they execute different instructions.
    let body = ".shared .b32 cells[32]; .reg .b32 %a, %i; .reg .pred %q;
        mov.u32 %a, cells; mad.lo.u32 %a, %t, 4, %a; st.shared.b32 [%a], %t;
        xor.b32 %i, %t, 16; mov.u32 %a, cells; mad.lo.u32 %a, %i, 4, %a;
        setp.lt.u32 %q, %t, 16; @%q bra A;
        bar.warp.sync 0xffffffff; ld.shared.b32 %d0, [%a]; bra B;
        A: bar.warp.sync 0xffffffff; ld.shared.b32 %d0, [%a];
        B:";
    assert_eq!(Grid::block(32).column(body), (0..32).map(|t| t ^ 16).collect::<Column>());
    // A mask without the calling lane.
    assert_eq!(Grid::block(32).stop("bar.warp.sync 0xfffffffe; mov.u32 %d0, 1;"), StopKind::Lanes);
}

#[test]
fn a_spin_lock_makes_progress_between_lanes_and_between_warps() {
    let body = ".shared .b32 lock, count; .reg .b32 %l, %c, %v; .reg .pred %q;
        mov.u32 %l, lock; mov.u32 %c, count;
        SPIN: atom.shared.cas.b32 %v, [%l], 0, 1; setp.ne.u32 %q, %v, 0; @%q bra SPIN;
        membar.cta; ld.volatile.shared.u32 %v, [%c]; add.u32 %v, %v, 1; st.volatile.shared.u32 [%c], %v; membar.cta;
        atom.shared.exch.b32 %v, [%l], 0;
        bar.sync 0; ld.volatile.shared.u32 %d0, [%c];";
    assert_eq!(Grid::block(32).column(body), vec![32; 32]);
    for order in [Order::Forward, Order::Reverse] {
        assert_eq!(Grid { order, ..Grid::block(64) }.column(body), vec![64; 64]);
    }
}

#[test]
fn a_lane_may_wait_for_a_flag_that_a_later_lane_of_its_warp_sets() {
    let body = ".shared .b32 flag; .reg .b32 %f, %v; .reg .pred %q; mov.u32 %f, flag;
        setp.eq.u32 %q, %t, 31; @%q bra SET;
        SPIN: ld.volatile.shared.u32 %v, [%f]; setp.eq.u32 %q, %v, 0; @%q bra SPIN; mov.u32 %d0, %v; bra DONE;
        SET: st.volatile.shared.u32 [%f], 9; mov.u32 %d0, 1;
        DONE:";
    assert_eq!(
        Grid::block(32).column(body),
        (0..32).map(|t| if t == 31 { 1 } else { 9 }).collect::<Column>()
    );
}

#[test]
fn fences_change_nothing() {
    let body = "membar.cta; membar.gl; membar.sys; membar.proxy.alias; fence.cta; fence.sc.gpu; fence.acq_rel.sys; fence.sc.cta;
        fence.proxy.alias; mov.u32 %d0, 5;";
    assert_eq!(Grid::block(32).column(body), vec![5; 32]);
    let body = "fence.acq_rel.cluster; fence.acquire.gpu; fence.release.cta; fence.mbarrier_init.release.cluster;
        fence.acquire.sync_restrict::shared::cluster.cluster; fence.release.sync_restrict::shared::cta.cluster;
        membar.proxy.async; fence.proxy.async; fence.proxy.async.shared::cta; fence.proxy.async.global;
        fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
        fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
        griddepcontrol.wait; griddepcontrol.launch_dependents;
        setmaxnreg.inc.sync.aligned.u32 64; setmaxnreg.dec.sync.aligned.u32 24; mov.u32 %d0, 6;";
    assert_eq!(Grid::hopper(32).column(body), vec![6; 32]);
}

#[test]
fn the_barrier_of_a_cluster_of_one_block() {
    // Twice, to check that the barrier starts a new phase.
    let round = "st.shared.b32 [%a], %v; barrier.cluster.arrive; mov.u32 %v, %t;
        barrier.cluster.wait; ld.shared.b32 %v, [%b]; bar.sync 0;";
    let body = format!(
        ".shared .b32 cells[128]; .reg .b32 %a, %b, %v, %i; mov.u32 %v, %t;
         mov.u32 %a, cells; mov.u32 %b, cells; mad.lo.u32 %a, %t, 4, %a; xor.b32 %i, %t, 127; mad.lo.u32 %b, %i, 4, %b;
         {round} {} mov.u32 %d0, %v;",
        round.replace("arrive;", "arrive.relaxed.aligned;").replace("wait;", "wait.acquire.aligned;")
    );
    for order in ORDERS {
        assert_eq!(Grid { order, ..Grid::hopper(128) }.column(&body), (0..128).collect::<Column>());
    }
    assert_eq!(Grid::hopper(32).stop("barrier.cluster.wait; mov.u32 %d0, 1;"), StopKind::Barrier);
    assert_eq!(
        Grid::hopper(32).stop("barrier.cluster.arrive; barrier.cluster.arrive; mov.u32 %d0, 1;"),
        StopKind::Barrier
    );
    let never = ".reg .pred %q; setp.ge.u32 %q, %t, 32; @%q bra A; barrier.cluster.arrive; barrier.cluster.wait; A: bar.sync 1; mov.u32 %d0, 1;";
    assert_eq!(Grid::hopper(64).stop(never), StopKind::Deadlock);
}
