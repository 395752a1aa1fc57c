//! Asynchronous multiplications: their registers, their operands, and the proxies.

use warpproof_check::{Check, CheckLaunch, Class, Settings};
use warpproof_sim::Device;

/// Classes and sentences of the findings in a kernel of two warpgroups, of which the body chooses what they do. `%f0` to `%f3`
/// are accumulators, `%r0` is the address of shared memory that the operands lie in, `%r1` the thread's index.
fn findings(body: &str) -> Vec<(Class, String)> {
    let wgmma =
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d, %d, 1, 1, 1, 0, 0;";
    let body = body
        .replace("WGMMA", wgmma)
        .replace("FENCE", "wgmma.fence.sync.aligned;")
        .replace("COMMIT", "wgmma.commit_group.sync.aligned;")
        .replace("WAIT", "wgmma.wait_group.sync.aligned")
        .replace("PROXY", "fence.proxy.async.shared::cta;")
        .replace("STORE", "st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};");
    let ptx = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .shared .align 1024 .b8 tile[4096];\n\
         .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %d, %o; .reg .pred %p, %q;\n\
         mov.u32 %r0, tile; mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 16, %r0; setp.lt.u32 %p, %r1, 128;\n\
         setp.eq.u32 %q, %r1, 0; shr.u32 %r3, %r0, 4; cvt.u64.u32 %d, %r3; or.b64 %d, %d, {:#x};\n\
         mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n{body}\n\
         ld.param.u64 %o, [out]; mad.wide.u32 %o, %r1, 4, %o; add.f32 %f0, %f0, %f1; st.global.f32 [%o], %f0;\n\
         ret;\n}}\n",
        128u64 >> 4 << 16 | 256u64 >> 4 << 32
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let out = device.alloc::<f32>(256).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(256).arg(out);
    let checked = device.check(&launch, &Settings { checks: vec![Check::Race], ..Settings::default() });
    assert!(checked.outcome.stop.is_none(), "{:?}\n{ptx}", checked.outcome.stop);
    checked.findings.iter().map(|finding| (finding.class, finding.sentence.clone())).collect()
}

fn one(body: &str, class: Class, part: &str) {
    let found = findings(body);
    assert!(
        matches!(&found[..], [(found, sentence)] if *found == class && sentence.contains(part)),
        "{body}: {found:?}"
    );
}

#[test]
fn correct_sequences_are_silent() {
    for body in [
        "STORE PROXY bar.sync 0; FENCE WGMMA COMMIT WAIT 0;",
        // Consecutive multiplications share their accumulators.
        "STORE PROXY bar.sync 0; FENCE WGMMA WGMMA COMMIT WGMMA COMMIT WAIT 1; WAIT 0;",
        // The fence may also follow the barrier, in the threads that multiply.
        "STORE bar.sync 0; PROXY FENCE WGMMA COMMIT WAIT 0;",
        // Accumulators are scaled between multiplications, with a fence.
        "STORE PROXY bar.sync 0; FENCE WGMMA COMMIT WAIT 0; mul.f32 %f1, %f1, %f0; FENCE WGMMA COMMIT WAIT 0;",
        // A new tile is stored after all warps have waited.
        "STORE PROXY bar.sync 0; FENCE WGMMA COMMIT WAIT 0; bar.sync 0; STORE PROXY bar.sync 0; FENCE WGMMA COMMIT WAIT 0;",
    ] {
        assert_eq!(findings(body), [], "{body}");
    }
}

#[test]
fn registers_in_flight_are_reported() {
    let start = "STORE PROXY bar.sync 0; FENCE WGMMA COMMIT";
    one(
        &format!("{start} add.f32 %f4, %f0, %f1; WAIT 0;"),
        Class::AsyncMultiply,
        "an accumulator of wgmma is read",
    );
    one(
        &format!("{start} mov.f32 %f2, 0f00000000; WAIT 0;"),
        Class::AsyncMultiply,
        "an accumulator of wgmma is written",
    );
    // The wait leaves the group in flight.
    one(&format!("{start} WAIT 1; add.f32 %f4, %f0, %f1; WAIT 0;"), Class::AsyncMultiply, "is read before");
    // Without a commit no wait covers it.
    one(
        "STORE PROXY bar.sync 0; FENCE WGMMA WAIT 0; add.f32 %f4, %f0, %f1; COMMIT WAIT 0;",
        Class::AsyncMultiply,
        "is read",
    );
}

#[test]
fn a_missing_fence_of_registers_is_reported() {
    let start = "STORE PROXY bar.sync 0;";
    one(&format!("{start} WGMMA COMMIT WAIT 0;"), Class::AsyncMultiply, "without a wgmma.fence before it");
    one(
        &format!("{start} FENCE WGMMA COMMIT WAIT 0; mul.f32 %f1, %f1, %f0; WGMMA COMMIT WAIT 0;"),
        Class::AsyncMultiply,
        "written after the last wgmma.fence",
    );
}

#[test]
fn overwritten_operands_are_reported() {
    // By the same threads.
    let found = findings("STORE PROXY bar.sync 0; FENCE WGMMA COMMIT bar.sync 0; STORE bar.sync 0; WAIT 0;");
    let operands = |(class, sentence): &(Class, String)| {
        *class == Class::AsyncMultiply && sentence.contains("is overwritten")
    };
    assert!(found.iter().any(operands), "{found:?}");
    // By the other warpgroup, after a barrier that comes before the wait.
    let found = findings(
        "STORE PROXY bar.sync 0; @!%p bra OTHER; FENCE WGMMA COMMIT bar.sync 0; WAIT 0; bra END; OTHER: bar.sync 0; sub.u32 %r2, %r2, 2048; STORE END:",
    );
    let race = |(class, _): &(Class, String)| matches!(class, Class::AsyncMultiply | Class::SharedRace);
    assert!(!found.is_empty() && found.iter().all(race), "{found:?}");
}

#[test]
fn a_missing_fence_of_proxies_is_reported() {
    one("STORE bar.sync 0; FENCE WGMMA COMMIT WAIT 0;", Class::Proxy, "without fence.proxy.async");
    // One elected thread fences for all, but they have not met before.
    one("STORE @%q PROXY bar.sync 0; FENCE WGMMA COMMIT WAIT 0;", Class::Proxy, "of `tile`");
    // The fence comes before the writes.
    one("PROXY STORE bar.sync 0; FENCE WGMMA COMMIT WAIT 0;", Class::Proxy, "without fence.proxy.async");
    // A fence for global memory does not order shared memory.
    one("STORE fence.proxy.async.global; bar.sync 0; FENCE WGMMA COMMIT WAIT 0;", Class::Proxy, "without");
}
