//! Bulk copies, distributed shared memory, and what they move.

use crate::{Case, on_line, passes, sectors, traffic};
use warpproof_count::MemoryOp::{Bulk, Load};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_sim::memory::Space::{Global, Shared};

const INIT: &str = "mov.u32 %r0, tile; add.u32 %r1, %r0, 32768; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; \
                    fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W; \
                    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";

/// The counters of two blocks in clusters of this size.
fn count(body: &str, cluster: u32) -> Counters {
    let case = Case { target: "sm_90a", grid: 2, ..Case::new(body, 32, |t| 8 * t) };
    let (mut device, launch) = case.prepare();
    let counted = device.count(&launch.cluster(cluster), &CountSettings::default());
    assert!(counted.outcome.stop.is_none(), "{}", counted.outcome.stop.unwrap());
    counted.counters
}

#[test]
fn a_bulk_copy_is_a_request_of_its_bytes() {
    let body = format!(
        "{INIT} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1040;
         @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%data+16], 1040, [%r1];
         {WAIT}
         @%p0 cp.async.bulk.global.shared::cta.bulk_group [%data+4096], [%r0], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    );
    let counters = count(&body, 1);
    // Bytes 16 to 1056 are 33 sectors in 9 lines; shared memory takes 128 bytes at a time. Two blocks.
    let read = traffic(&counters, 2, Global, Bulk);
    assert_eq!(sectors(&read), (2, 66, 18));
    assert_eq!((read.bytes, read.uncached_sectors, read.first_sectors), (2080, 66, 66));
    assert_eq!(passes(&traffic(&counters, 2, Shared, Bulk)), (2, 18, 0));
    let written = on_line(&counters, 4).memory.keys().count();
    assert_eq!(written, 2);
    let written = traffic(&counters, 4, Global, Bulk);
    assert_eq!((written.sectors, written.uncached_sectors), (64, 0));
    // Both blocks read the same 33 sectors, and write the same 32, besides the table of offsets.
    let second = counters.second_level();
    assert_eq!((second.stores, counters.compulsory.grid_stored), (64, 32));
    assert_eq!(second.loads - counters.compulsory.block_cached, 66);
    assert_eq!(counters.totals.traffic(Shared, &[]).remote_bytes, 0);
}

#[test]
fn a_multicast_reads_global_memory_once() {
    let copy = |mask: u32| {
        format!(
            "{INIT} mov.b16 %h0, {mask}; mov.u32 %r2, %cluster_ctarank; setp.eq.and.u32 %p2, %r2, 0, %p0;
             @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
             @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%data], 512, [%r1], %h0;
             {WAIT}"
        )
    };
    let counters = count(&copy(3), 2);
    assert_eq!(sectors(&traffic(&counters, 3, Global, Bulk)), (1, 16, 4));
    let written = traffic(&counters, 3, Shared, Bulk);
    assert_eq!((written.requests, written.wavefronts, written.remote_bytes), (2, 8, 512));
    assert_eq!(counters.cluster_size(), 2);
}

#[test]
fn accesses_to_other_blocks_are_counted() {
    let body = format!(
        "{INIT} mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mapa.shared::cluster.u32 %r3, %s, %r2;
         st.shared.u32 [%s], %t; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
         ld.shared::cluster.u32 %r4, [%r3];
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    );
    let counters = count(&body, 2);
    let read = traffic(&counters, 3, Shared, Load);
    // 32 lanes read words 8 bytes apart: two passes for each of two blocks.
    assert_eq!((read.requests, read.wavefronts, read.remote_bytes), (2, 4, 256));
}
