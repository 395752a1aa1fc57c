//! Mbarriers, barriers of clusters, and the tensor core's asynchronous products.

use crate::{Case, on_line};
use warpproof_count::{CountLaunch, CountSettings, Counters, Mbarriers};
use warpproof_sim::isa::Unit;

/// The counters of two blocks of two warps, in clusters of this size.
fn count(body: &str, cluster: u32) -> Counters {
    let case = Case { target: "sm_90a", grid: 2, ..Case::new(body, 64, |t| 8 * t) };
    let (mut device, launch) = case.prepare();
    let counted = device.count(&launch.cluster(cluster), &CountSettings::default());
    assert!(counted.outcome.stop.is_none(), "{}", counted.outcome.stop.unwrap());
    counted.counters
}

const INIT: &str = "mov.u32 %r0, tile; add.u32 %r1, %r0, 32768; setp.eq.u32 %p0, %t, 0;\n\
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 64;\nbar.sync 0;\n";

#[test]
fn threads_arrive_and_test() {
    // Two phases of 64 arrivals. Afterwards each thread asks for a phase that is complete, and for one that is not.
    let body = format!(
        "{INIT}mbarrier.arrive.shared::cta.b64 %d0, [%r1];\nmbarrier.arrive.shared::cta.b64 %d1, [%r1];\nbar.sync 0;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;"
    );
    let counters = count(&body, 1);
    let none = Mbarriers::default();
    assert_eq!(on_line(&counters, 2).mbarriers, Mbarriers { inits: 2, ..none });
    // Warp 0 makes both of its arrivals first, then warp 1: every phase ends at the second instruction.
    let arrive = Mbarriers { arrivals: 128, ..none };
    assert_eq!(on_line(&counters, 4).mbarriers, arrive);
    assert_eq!(on_line(&counters, 5).mbarriers, Mbarriers { phases: 4, ..arrive });
    // The phase with parity 1 has ended, and the current one has parity 0 again.
    assert_eq!(on_line(&counters, 7).mbarriers, Mbarriers { tests: 128, ..none });
    assert_eq!(on_line(&counters, 8).mbarriers, Mbarriers { tests: 128, unfinished: 128, ..none });
    let flat = counters.totals.flat();
    let of = |name: &str| flat.get(name).copied().unwrap_or(0);
    assert_eq!((of("mbarrier.arrivals"), of("mbarrier.phases"), of("mbarrier.tests")), (256, 4, 256));
    assert_eq!((of("mbarrier.inits"), of("mbarrier.unfinished"), of("mbarrier.transactions")), (2, 128, 0));
}

#[test]
fn bulk_copies_complete_transactions() {
    // In each block 64 threads arrive, one of them with the bytes of two copies. The last copy ends the phase.
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let body = format!(
        "{INIT}@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 96;\n@!%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];\n\
         @%p0 {copy} [%r0], [%data], 64, [%r1];\n@%p0 {copy} [%r0+64], [%data], 32, [%r1];\n\
         W:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra W;"
    );
    let counters = count(&body, 1);
    assert_eq!(
        (on_line(&counters, 4).mbarriers.arrivals, on_line(&counters, 5).mbarriers.arrivals),
        (2, 126)
    );
    assert_eq!(on_line(&counters, 6).mbarriers, Mbarriers { transactions: 2, ..Mbarriers::default() });
    assert_eq!(
        on_line(&counters, 7).mbarriers,
        Mbarriers { transactions: 2, phases: 2, ..Mbarriers::default() }
    );
    let waits = on_line(&counters, 9).mbarriers;
    assert_eq!(waits.tests - waits.unfinished, 128);
    assert_eq!(counters.totals.mbarriers.phases, 2);
}

#[test]
fn barriers_of_clusters_count_apart_from_those_of_blocks() {
    // Two blocks of two warps arrive at the barrier of their cluster three times, and at their own once.
    let body = "mov.u32 %r1, 0;\nLOOP:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nadd.u32 %r1, %r1, 1;\n\
        setp.lt.u32 %p1, %r1, 3;\n@%p1 bra LOOP;\nbar.sync 0;";
    for cluster in [1, 2] {
        let counters = count(body, cluster);
        let (own, of_cluster) = (counters.totals.barriers, counters.totals.cluster_barriers);
        assert_eq!((own.arrivals, own.phases, own.warps), (4, 2, 4), "{cluster}");
        assert_eq!((of_cluster.arrivals, of_cluster.phases, of_cluster.warps), (12, 6, 12), "{cluster}");
        assert_eq!(counters.totals.flat()["cluster_barrier.arrivals"], 12);
    }
}

#[test]
fn asynchronous_products_of_a_warpgroup() {
    // Four warps issue one instruction each, and together they multiply 64 × 8 × 16.
    let body = "mov.u64 %d0, 0;\nwgmma.fence.sync.aligned;\n\
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;\n\
        wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;";
    let case = Case { target: "sm_90a", ..Case::new(body, 128, |t| 8 * t) };
    let counters = case.count();
    assert_eq!(counters.totals.tensor["m64n8k16.f32.f16.f16"], 4);
    assert_eq!(counters.totals.tensor_multiply_adds(), 64 * 8 * 16);
    assert_eq!(on_line(&counters, 3).pipe, Unit::Tensor);
}
