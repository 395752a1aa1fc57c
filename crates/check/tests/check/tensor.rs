//! Tensor memory: the order of accesses, and what is complete when.

#![expect(clippy::format_push_string, reason = "a test builds a kernel")]

use warpproof_check::{Check, CheckLaunch, Class, Settings};
use warpproof_sim::Device;

/// Classes and sentences of the findings in a kernel of four warps. `%mem` is the address of 32 columns, `%own` the same in the
/// lanes of the warp, `%q` is true in thread 0, `%w` in warp 0.
fn findings(body: &str) -> Vec<(Class, String)> {
    findings_of(body, &[Check::Race])
}

/// The findings of groups of checks.
fn findings_of(body: &str, checks: &[Check]) -> Vec<(Class, String)> {
    let body = body
        .replace("LOADED", "tcgen05.wait::ld.sync.aligned;")
        .replace("STORED", "tcgen05.wait::st.sync.aligned;")
        .replace("FRESH", "@%q tcgen05.mma.cta_group::1.kind::f16 [%mem], %d, %d, %f, %no;")
        .replace("MORE", "@%q tcgen05.mma.cta_group::1.kind::f16 [%mem], %d, %d, %f, %q;")
        .replace("SHIFT", "@%q tcgen05.shift.cta_group::1.down [%mem];")
        .replace("COMMIT", "@%q tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%b];")
        .replace("LOAD", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%own];")
        .replace("STORE", "tcgen05.st.sync.aligned.32x32b.x16.b32 [%own], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};")

        .replace("SYNC", "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;")
        .replace("BEFORE", "tcgen05.fence::before_thread_sync;")
        .replace("AFTER", "tcgen05.fence::after_thread_sync;")
        .replace("BAR", "bar.sync 0;")
        .replace("USE", "add.u32 %r1, %r4, %r5;")
        .replace("FREE", "@%w tcgen05.dealloc.cta_group::1.sync.aligned.b32 %mem, 32;");
    // Each wait has a label of its own, and the parity of its phase.
    let mut text = String::new();
    for (i, part) in body.split("WAIT").enumerate() {
        if i > 0 {
            text += &format!(
                "W{i}: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], {}; @!%p bra W{i};",
                (i - 1) % 2
            );
        }
        text += part;
    }
    let ptx = format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {{\n\
         .shared .align 16 .b8 slot[16]; .shared .align 1024 .b8 tile[4096];\n\
         .reg .b32 %r<8>, %mem, %own, %b, %f; .reg .b64 %d; .reg .pred %p, %q, %w, %no;\n\
         mov.u32 %r1, %tid.x; setp.eq.u32 %q, %r1, 0; setp.lt.u32 %w, %r1, 32; setp.ne.u32 %no, %r1, %r1;\n\
         mov.u32 %r0, 0; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 32, %r2;\n\
         st.shared.v4.b32 [%r3], {{%r0, %r0, %r0, %r0}}; st.shared.v4.b32 [%r3+16], {{%r0, %r0, %r0, %r0}};\n\
         mov.u32 %b, slot; add.u32 %b, %b, 8; @%q mbarrier.init.shared::cta.b64 [%b], 1;\n\
         mov.u32 %r4, slot; @%w tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32;\n\
         fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n\
         ld.shared.u32 %mem, [slot]; and.b32 %own, %r1, 96; shl.b32 %own, %own, 16; add.u32 %own, %own, %mem;\n\
         shr.u32 %r2, %r2, 4; cvt.u64.u32 %d, %r2; or.b64 %d, %d, {:#x}; mov.u32 %f, {:#x};\n{text}\nret;\n}}\n",
        128u64 >> 4 << 16 | 256u64 >> 4 << 32 | 1 << 46,
        1u32 << 4 | (16 / 8) << 17 | (128 / 16) << 24
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(128);
    let checked = device.check(&launch, &Settings { checks: checks.to_vec(), ..Settings::default() });
    assert!(checked.outcome.stop.is_none(), "{:?}\n{ptx}", checked.outcome.stop);
    checked.findings.iter().map(|finding| (finding.class, finding.sentence.clone())).collect()
}

#[track_caller]
fn one(body: &str, part: &str) {
    let found = findings(body);
    assert!(
        matches!(&found[..], [(Class::TensorMemory, sentence)] if sentence.contains(part)),
        "{body}: {found:?}"
    );
}

#[test]
fn correct_sequences_are_silent() {
    for body in [
        "FRESH COMMIT WAIT LOAD LOADED USE SYNC FREE",
        // Multiplications of one thread are executed in order.
        "FRESH MORE MORE COMMIT WAIT LOAD LOADED USE SYNC FREE",
        // One phase after the other.
        "FRESH COMMIT WAIT SYNC MORE COMMIT WAIT LOAD LOADED USE SYNC FREE",
        "STORE STORED SYNC MORE COMMIT WAIT LOAD LOADED USE SYNC FREE",
        "STORE STORED LOAD LOADED USE SYNC FREE",
        // A register that is read waits for its load.
        "FRESH COMMIT WAIT LOAD USE LOADED SYNC FREE",
        // The next multiplication overwrites what all warps have loaded.
        "FRESH COMMIT WAIT LOAD LOADED SYNC FRESH COMMIT WAIT LOAD LOADED SYNC FREE",
        // One warp waits for the multiplication, the others for the warp.
        "FRESH COMMIT @!%w bra REST; WAIT REST: SYNC LOAD LOADED SYNC FREE",
    ] {
        assert_eq!(findings(body), [], "{body}");
    }
}

#[test]
fn work_in_flight_is_reported() {
    one(
        "FRESH COMMIT SYNC LOAD LOADED WAIT SYNC FREE",
        "tcgen05.ld uses tensor memory of a tcgen05.mma that may not be complete",
    );
    one("FRESH SYNC LOAD LOADED COMMIT WAIT SYNC FREE", "tcgen05.ld uses");
    // The commit comes before the multiplication.
    one("COMMIT FRESH WAIT SYNC LOAD LOADED SYNC COMMIT WAIT SYNC FREE", "may not be complete");
    one("FRESH COMMIT SYNC FREE WAIT", "tcgen05.dealloc uses");
    one("FRESH COMMIT SYNC STORE STORED WAIT SYNC FREE", "tcgen05.st uses");
}

/// A shift reads and writes the lanes of a warp.
#[test]
fn shifts_are_followed() {
    for body in [
        "FRESH SHIFT COMMIT WAIT LOAD LOADED USE SYNC FREE",
        "STORE STORED SYNC SHIFT SHIFT MORE COMMIT WAIT LOAD LOADED SYNC FREE",
        // The other warps load other lanes.
        "FRESH COMMIT WAIT SYNC SHIFT @%w bra REST; LOAD LOADED REST: SYNC COMMIT WAIT SYNC FREE",
    ] {
        assert_eq!(findings(body), [], "{body}");
    }
    one(
        "FRESH COMMIT WAIT SYNC SHIFT COMMIT LOAD LOADED WAIT SYNC FREE",
        "tcgen05.ld uses tensor memory of a tcgen05.shift that may not be complete",
    );
    one(
        "STORE STORED SYNC SHIFT COMMIT SYNC STORE STORED WAIT SYNC FREE",
        "tcgen05.st uses tensor memory of a tcgen05.shift",
    );
    one(
        "STORE SYNC SHIFT COMMIT WAIT STORED SYNC FREE",
        "tcgen05.shift uses tensor memory of a tcgen05.st for which",
    );
    one(
        "FRESH COMMIT WAIT LOAD SYNC SHIFT COMMIT WAIT LOADED SYNC FREE",
        "tcgen05.shift uses tensor memory of a tcgen05.ld",
    );
    one(
        "STORE STORED SYNC SHIFT SYNC FREE COMMIT WAIT",
        "tcgen05.dealloc uses tensor memory of a tcgen05.shift",
    );
    one("SHIFT COMMIT WAIT SYNC FREE", "nothing has written");
}

#[test]
fn loads_and_stores_must_be_waited_for() {
    // The load may write its register later.
    one("FRESH COMMIT WAIT LOAD mov.u32 %r4, 0; LOADED SYNC FREE", "a register of tcgen05.ld is overwritten");
    assert_eq!(findings("FRESH COMMIT WAIT LOAD add.u32 %r4, %r4, 1; mov.u32 %r4, 0; LOADED SYNC FREE"), []);
    one("STORE SYNC MORE COMMIT WAIT SYNC FREE STORED", "for which its warp has not waited");
    one("STORE LOAD LOADED STORED SYNC FREE", "tcgen05.ld uses tensor memory of a tcgen05.st for which");
    // Warps load while the next multiplication may already write.
    let found = findings("FRESH COMMIT WAIT SYNC LOAD LOADED FRESH COMMIT SYNC WAIT SYNC FREE");
    assert!(!found.is_empty() && found.iter().all(|(class, _)| *class == Class::TensorMemory), "{found:?}");
}

/// Lane 5 of each warp arrives at an mbarrier for its warp; thread 0 waits there and issues the next multiplication.
#[test]
fn one_lane_arrives_for_its_warp() {
    let body = |loaded: &str| {
        format!(
            ".shared .align 8 .b8 more[8]; mov.u32 %r6, more; @%q mbarrier.init.shared::cta.b64 [%r6], 4; SYNC \
             FRESH COMMIT WAIT LOAD {loaded} and.b32 %r7, %r1, 31; setp.eq.u32 %p, %r7, 5; \
             @%p mbarrier.arrive.shared::cta.b64 _, [%r6]; @!%q bra REST; \
             EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r6], 0; @!%p bra EMPTY; \
             REST: bar.warp.sync -1; FRESH COMMIT WAIT LOADED SYNC FREE"
        )
    };
    assert_eq!(findings(&body("LOADED")), []);
    // Reading the registers is not enough: the multiplication may overwrite what is still being loaded.
    one(
        &body("add.u32 %r7, %r4, %r5;"),
        "tcgen05.mma uses tensor memory of a tcgen05.ld for which its warp has not",
    );
}

/// Accumulators of 64 rows share columns: one has the lower 16 lanes of each warp, the other the upper ones.
#[test]
fn halves_of_the_lanes_are_separate() {
    let body = |lanes: &str| {
        let multiply =
            |to: &str| format!("@%q tcgen05.mma.cta_group::1.kind::f16 [{to}], %d, %d, %f, %no; COMMIT");
        format!(
            "sub.u32 %f, %f, 0x4000000; add.u32 %r6, %mem, 0x100000; {} WAIT SYNC {} SYNC \
             add.u32 %r7, %own, {lanes}; tcgen05.ld.sync.aligned.16x64b.x2.b32 {{%r4, %r5}}, [%r7]; LOADED WAIT SYNC FREE",
            multiply("%mem"),
            multiply("%r6"),
        )
    };
    assert_eq!(findings(&body("0")), []);
    one(&body("0x100000"), "tcgen05.ld uses tensor memory of a tcgen05.mma that may not be complete");
}

#[test]
fn contents_and_ends_of_allocations_are_reported() {
    one("MORE COMMIT WAIT SYNC FREE", "nothing has written");
    one("LOAD LOADED SYNC FREE", "nothing has written");
    one("FRESH COMMIT WAIT SYNC", "without freeing 32 columns");
}

#[test]
fn operands_in_shared_memory_are_followed() {
    let store = "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};";
    let found = findings(&format!("FRESH COMMIT SYNC {store} WAIT SYNC FREE"));
    assert!(
        found.iter().any(
            |(class, sentence)| *class == Class::AsyncMultiply && sentence.contains("operand of tcgen05")
        ),
        "{found:?}"
    );
    assert_eq!(findings(&format!("FRESH COMMIT WAIT SYNC {store} SYNC FREE")), []);
    // Written by threads, and read by the tensor core without a proxy fence.
    let found = findings(&format!("{store} SYNC FRESH COMMIT WAIT SYNC FREE"));
    assert!(matches!(&found[..], [(Class::Proxy, _)]), "{found:?}");
}

#[test]
fn fences_around_a_synchronization_are_demanded_on_request() {
    let before = "tcgen05.fence::before_thread_sync";
    let after = "tcgen05.fence::after_thread_sync";
    for (body, missing) in [
        ("FRESH COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", None),
        ("STORE STORED SYNC MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", None),
        // One thread, and one warp.
        ("FRESH MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", None),
        ("STORE STORED LOAD LOADED USE SYNC FREE", None),
        // Another synchronization may be between the fences.
        ("STORE STORED BEFORE BAR BAR AFTER MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", None),
        // Another thread has waited for the commit.
        ("FRESH COMMIT @!%w bra REST; WAIT REST: BAR AFTER LOAD LOADED USE SYNC FREE", None),
        // Deallocation is synchronous.
        ("FRESH COMMIT WAIT AFTER LOAD LOADED USE BEFORE BAR FREE", None),
        ("FRESH COMMIT WAIT AFTER LOAD LOADED USE BAR FREE", Some(before)),
        ("FRESH COMMIT WAIT LOAD LOADED USE SYNC FREE", Some(after)),
        ("FRESH COMMIT AFTER WAIT LOAD LOADED USE SYNC FREE", Some(after)),
        ("STORE STORED BAR AFTER MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", Some(before)),
        ("STORE STORED BAR BEFORE AFTER MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", Some(before)),
        ("BEFORE STORE STORED BAR AFTER MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", Some(before)),
        ("STORE STORED BEFORE AFTER BAR MORE COMMIT WAIT AFTER LOAD LOADED USE SYNC FREE", Some(after)),
    ] {
        assert_eq!(findings(body), [], "{body}");
        let found = findings_of(body, &[Check::Race, Check::Fences]);
        let is_right = match (missing, &found[..]) {
            (None, []) => true,
            (Some(name), [(Class::TensorMemory, sentence)]) => sentence.ends_with(name),
            _ => false,
        };
        assert!(is_right, "{body}: {found:?}");
    }
}
