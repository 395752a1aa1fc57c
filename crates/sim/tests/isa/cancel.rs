//! `clusterlaunchcontrol`: running clusters take over the work of those that have not started.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use crate::harness::launch;
use warpproof_sim::schedule::{Blocks, CopyTiming, Schedule};
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

/// A kernel whose clusters take over the work of others. Thread 0 of each block adds 1 to the word of its index in `out`, and stores
/// the index of the block that runs in the word behind it; `first` reads the index from the response.
fn kernel(cluster: &str, multicast: &str, first: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out) {cluster} {{
        .shared .align 16 .b8 response[16]; .shared .align 8 .b8 bar[8];
        .reg .b32 %t, %x, %y, %z, %rank, %n, %phase, %r, %b, %old, %me; .reg .b64 %o, %p; .reg .pred %lead, %ok, %one, %got;
        .reg .b128 %v;
        mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank; mov.u32 %n, %nctaid.x; ld.param.u64 %o, [out];
        mov.u32 %x, %ctaid.x; sub.u32 %x, %x, %rank; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z; mov.u32 %phase, 0;
        mov.u32 %me, %ctaid.y; mad.lo.u32 %me, %me, %n, %x; add.u32 %me, %me, %rank;
        mov.u32 %r, response; mov.u32 %b, bar; setp.eq.u32 %lead, %t, 0; or.b32 %old, %t, %rank; setp.eq.u32 %one, %old, 0;
        @%lead mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        AGAIN:
        @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        @%one clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [%r], [%b];
        mad.lo.u32 %old, %y, %n, %x; add.u32 %old, %old, %rank; mul.wide.u32 %p, %old, 8; add.u64 %p, %p, %o;
        @%lead red.global.add.u32 [%p], 1; @%lead st.global.u32 [%p+4], %me;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %ok, [%b], %phase; @!%ok bra WAIT;
        xor.b32 %phase, %phase, 1;
        ld.shared.b128 %v, [%r];
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %got, %v;
        {first}
        fence.proxy.async.shared::cta;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        @%got bra AGAIN;
        ret;\n}}\n"
    )
}

const VECTOR: &str =
    "@%got clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %v;";
const SINGLE: &str = "@%got clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %x, %v;
    @%got clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %y, %v;
    @%got clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %z, %v;";

fn run(source: &str, grid: (u32, u32), threads: usize, schedule: Schedule) -> Result<Vec<u32>, Box<Stop>> {
    let mut device = Device::new().with_threads(threads);
    device.schedule = schedule;
    let module = device.load(source)?;
    let out: Buffer<u32> = device.alloc(usize::try_from(2 * grid.0 * grid.1).unwrap()).unwrap();
    let prepared = module.kernel("k")?.launch().grid(grid).block(64).arg(out);
    match launch(&mut device, &prepared).stop {
        Some(stop) => Err(stop),
        None => Ok(device.read(&out).unwrap()),
    }
}

/// Every block's work is done once, some of it by other blocks; the outcome does not depend on the number of threads.
#[test]
fn canceled_clusters_do_not_run_and_their_work_is_done_once() {
    let pair = ".explicitcluster .reqnctapercluster 2, 1, 1";
    for (cluster, multicast, first) in [
        ("", "", VECTOR),
        ("", ".multicast::cluster::all", SINGLE),
        (pair, ".multicast::cluster::all", VECTOR),
    ] {
        let source = kernel(cluster, multicast, first);
        let interleaved = Blocks::Interleaved { seed: 7, together: 3, turn: 40 };
        for (blocks, copies) in [
            (Blocks::InOrder, CopyTiming::Late),
            (Blocks::InOrder, CopyTiming::Early),
            (interleaved, CopyTiming::Late),
        ] {
            let schedule = Schedule { blocks, copies, ..Schedule::default() };
            let got = run(&source, (6, 3), 1, schedule).unwrap();
            assert!(got.chunks(2).all(|pair| pair[0] == 1), "{got:?}");
            let workers: std::collections::BTreeSet<u32> = got.chunks(2).map(|pair| pair[1]).collect();
            assert!(workers.len() < 18, "{workers:?}");
            if blocks == interleaved && cluster.is_empty() {
                assert!(workers.len() > 1, "{workers:?}");
            }
            assert_eq!(run(&source, (6, 3), 4, schedule).unwrap(), got);
        }
    }
}

#[track_caller]
fn stops(source: &str, sentence: &str) {
    let stop = run(source, (4, 1), 1, Schedule::default()).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Malformed), "{stop}");
    assert!(stop.sentence.contains(sentence), "{stop}");
}

#[test]
fn misuse_stops() {
    let source = kernel("", "", VECTOR);
    stops(&kernel("", "", &VECTOR.replace("@%got ", "")), "get_first_ctaid of a request that failed");
    stops(
        &source.replace("@%got bra AGAIN", "bra AGAIN"),
        "after the cluster has seen that a request failed",
    );
    stops(
        &source
            .replace("WAIT: mbarrier", "bra PAST; WAIT: mbarrier")
            .replace("ld.shared.b128", "PAST: ld.shared.b128"),
        "not the response",
    );
}
