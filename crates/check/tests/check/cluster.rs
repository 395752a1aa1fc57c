//! Races and lifetimes of shared memory in a cluster.

use super::found;
use warpproof_check::{Check, CheckLaunch, Checked, Settings};
use warpproof_sim::Device;

const SYNC: &str = "barrier.cluster.arrive;\nbarrier.cluster.wait;";

/// Two blocks of 32 threads. `%c` is the thread's cell, `%m` the same cell of the other block, `%r` the rank.
fn check_with(body: &str, checks: &[Check]) -> Checked {
    let text = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {{
         .shared .align 8 .b8 cells[256]; .shared .align 8 .b8 bar[8];
         .reg .b32 %t, %c, %m, %r, %n, %v, %b, %g; .reg .b64 %o, %w; .reg .pred %q, %p;
         mov.u32 %t, %tid.x; mov.u32 %c, cells; mad.lo.u32 %c, %t, 4, %c; mov.u32 %r, %cluster_ctarank; xor.b32 %n, %r, 1;
         mapa.shared::cluster.u32 %m, %c, %n; ld.param.u64 %o, [out]; mov.u32 %g, %ctaid.x; mad.lo.u32 %g, %g, 32, %t;
         mul.wide.u32 %w, %g, 4; add.u64 %o, %o, %w; setp.eq.u32 %q, %r, 0;
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new();
    let out = device.alloc::<u32>(128).unwrap();
    let kernel = device.load(&text).unwrap().kernel("k").unwrap();
    let settings = Settings { checks: checks.to_vec(), ..Settings::default() };
    device.check(&kernel.launch().grid(4).block(32).arg(out), &settings)
}

fn check(body: &str) -> Checked {
    check_with(body, &[Check::Race, Check::Init, Check::Barrier])
}

/// The classes and instructions of the findings.
fn classes(body: &str) -> Vec<(&'static str, Vec<String>)> {
    let checked = check(body);
    assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    let owned =
        |(class, lines): (&'static str, Vec<&str>)| (class, lines.into_iter().map(str::to_owned).collect());
    found(&checked).into_iter().map(owned).collect()
}

#[test]
fn a_cluster_barrier_orders_the_blocks() {
    let body = format!(
        "st.shared.u32 [%c], %t;\n{SYNC}\nld.shared::cluster.u32 %v, [%m];\nst.global.u32 [%o], %v;\n{SYNC}"
    );
    assert_eq!(classes(&body), []);
    // The same with remote stores, and with the check for uninitialized values alone.
    let body = format!(
        "{SYNC}\nst.shared::cluster.u32 [%m], %t;\n{SYNC}\nld.shared.u32 %v, [%c];\nst.global.u32 [%o], %v;"
    );
    assert_eq!(classes(&body), []);
    assert!(check_with(&body, &[Check::Init]).findings.is_empty());
    // Remote atomics may be concurrent.
    let body = format!(
        "st.shared.u32 [%c], 0;\n{SYNC}\nred.relaxed.cluster.shared::cluster.add.u32 [%m], 1;\natom.shared::cta.add.u32 %v, [%c], 1;\n{SYNC}"
    );
    assert_eq!(classes(&body), []);
}

#[test]
fn accesses_of_two_blocks_without_a_barrier_race() {
    let body = format!("{SYNC}\nst.shared.u32 [%c], %t;\nld.shared::cluster.u32 %v, [%m];\n{SYNC}");
    let checked = check(&body);
    let [finding] = &checked.findings[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(finding.class.name(), "shared-race");
    let blocks: Vec<_> =
        finding.places.iter().filter_map(|place| place.thread.map(|thread| thread.block)).collect();
    assert_eq!(blocks.len(), 2, "both threads are known: {finding:?}");
    assert_ne!(blocks[0], blocks[1], "the threads are in two blocks: {finding:?}");
    // A relaxed arrival does not order memory.
    let body = format!(
        "{SYNC}\nst.shared.u32 [%c], %t;\nbarrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\nld.shared::cluster.u32 %v, [%m];\n{SYNC}"
    );
    assert_eq!(classes(&body)[0].0, "shared-race");
    // What comes between the arrival and the wait is not ordered either.
    let body = format!(
        "{SYNC}\nbarrier.cluster.arrive;\nst.shared.u32 [%c], %t;\nbarrier.cluster.wait;\nld.shared::cluster.u32 %v, [%m];\n{SYNC}"
    );
    assert_eq!(classes(&body)[0].0, "shared-race");
    // A barrier of the block does not order blocks.
    let body =
        format!("{SYNC}\nst.shared.u32 [%c], %t;\nbar.sync 0;\nld.shared::cluster.u32 %v, [%m];\n{SYNC}");
    assert_eq!(classes(&body)[0].0, "shared-race");
}

#[test]
fn a_block_must_have_started_and_not_exited() {
    let load = "ld.shared::cluster.u32 %v, [%m]";
    // Nothing orders the access after the start of the other block.
    let body = format!("ld.shared::cluster.u32 %v, [%m];\n{SYNC}");
    let checked = check(&body);
    assert_eq!(found(&checked), [("shared-race", vec![load])]);
    assert!(
        checked.findings[0].sentence.contains("may not have started"),
        "{}",
        checked.findings[0].sentence
    );
    // Nothing keeps the other block alive. In the order of the run it has exited when the first block reads.
    let body =
        format!("st.shared.u32 [%c], %t;\n{SYNC}\n@!%q bra DONE;\nld.shared::cluster.u32 %v, [%m];\nDONE:");
    let stop = check(&body).outcome.stop.unwrap();
    assert!(stop.sentence.contains("block (1,0,0) of the cluster has exited"), "{}", stop.sentence);
    // Here it still runs, but nothing makes it wait.
    let body =
        format!("st.shared.u32 [%c], %t;\n{SYNC}\n@%q bra DONE;\nld.shared::cluster.u32 %v, [%m];\nDONE:");
    let checked = check(&body);
    assert_eq!(found(&checked), [("shared-race", vec![load])]);
    assert!(checked.findings[0].sentence.contains("may have exited"), "{}", checked.findings[0].sentence);
}

#[test]
fn uninitialized_bytes_of_another_block_are_found() {
    let body = format!("{SYNC}\nld.shared::cluster.u32 %v, [%m];\nst.global.u32 [%o], %v;\n{SYNC}");
    assert_eq!(
        classes(&body),
        [(
            "uninitialized",
            vec!["st.global.u32 [%o], %v".to_owned(), "ld.shared::cluster.u32 %v, [%m]".to_owned()]
        )]
    );
}

/// The blocks of a cluster may hand over global memory as well.
#[test]
fn the_cluster_barrier_orders_global_memory() {
    let body = format!(
        "st.global.u32 [%o], %t;\n{SYNC}\nxor.b32 %g, %g, 32;\nld.param.u64 %o, [out];\nmul.wide.u32 %w, %g, 4;\nadd.u64 %o, %o, %w;\nld.global.u32 %v, [%o];"
    );
    assert_eq!(classes(&body), []);
    assert_eq!(classes(&body.replace(SYNC, "bar.sync 0;"))[0].0, "global-race");
}

/// A remote arrival at an mbarrier releases, and its wait acquires.
#[test]
fn remote_arrivals_order_the_blocks() {
    let ring = |arrive: &str| {
        format!(
            "mov.u32 %b, bar;\nsetp.eq.u32 %p, %t, 0;\n@%p mbarrier.init.shared::cta.b64 [%b], 32;\n@%p fence.mbarrier_init.release.cluster;\n{SYNC}
             st.shared::cluster.u32 [%m], %t;\nmapa.shared::cluster.u32 %n, %b, %n;\n{arrive}
             W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%b], 0;\n@!%p bra W;
             ld.shared.u32 %v, [%c];\nst.global.u32 [%o], %v;\n{SYNC}"
        )
    };
    let released = ring("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%n];");
    assert_eq!(classes(&released), []);
}
