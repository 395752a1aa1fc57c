//! Bulk copies and mbarriers: what must wait for what.

use super::found;
use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Role, Settings};
use warpproof_sim::Device;

/// One block of 64 threads. `%q`: thread 0. `%b`: a buffer of 256 bytes, `%c` the thread's word in it, `%m` and `%e` mbarriers
/// for one arrival and for 64, `%g` the input, `%o` the output, `%w` the thread's word of the output.
fn check(body: &str) -> Checked {
    check_on("sm_90", body)
}

fn check_on(target: &str, body: &str) -> Checked {
    let text = format!(
        ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{
         .shared .align 128 .b8 buffer[256]; .shared .align 8 .b8 full[8]; .shared .align 8 .b8 empty[8];
         .reg .b32 %t, %b, %c, %m, %e, %v, %i; .reg .b64 %g, %o, %w; .reg .pred %q, %p;
         mov.u32 %t, %tid.x; mov.u32 %b, buffer; mad.lo.u32 %c, %t, 4, %b; mov.u32 %m, full; mov.u32 %e, empty;
         ld.param.u64 %g, [in]; ld.param.u64 %o, [out]; mul.wide.u32 %w, %t, 4; add.u64 %w, %o, %w; setp.eq.u32 %q, %t, 0;
         @%q mbarrier.init.shared::cta.b64 [%m], 1; @%q mbarrier.init.shared::cta.b64 [%e], 64; fence.mbarrier_init.release.cluster; bar.sync 0;
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new();
    let input = device.upload(&vec![1u32; 128]).unwrap();
    let out = device.alloc::<u32>(64).unwrap();
    let role = |name: &str, address: u64, role: Role, length: u64| BufferRole {
        name: name.to_owned(),
        address,
        element: 4,
        extents: vec![length],
        role,
        initialized: role == Role::In,
    };
    let buffers = vec![role("in", input.address(), Role::In, 128), role("out", out.address(), Role::Out, 64)];
    let checks = vec![Check::Race, Check::Init, Check::Barrier, Check::Output];
    let kernel = device.load(&text).unwrap().kernel("k").unwrap();
    let settings = Settings { checks, buffers, ..Settings::default() };
    device.check(&kernel.launch().block(64).arg(input).arg(out), &settings)
}

const LOAD: &str = "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 256;\n@%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g], 256, [%m];";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], 0;\n@!%p bra W;";
const USE: &str = "ld.shared.u32 %v, [%c];\nst.global.u32 [%w], %v;";
const STORE: &str =
    "@%q cp.async.bulk.global.shared::cta.bulk_group [%o], [%b], 256;\n@%q cp.async.bulk.commit_group;";

/// The classes of the findings, each once.
fn classes(body: &str) -> Vec<&'static str> {
    classes_on("sm_90", body)
}

fn classes_on(target: &str, body: &str) -> Vec<&'static str> {
    let checked = check_on(target, body);
    assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    let mut classes: Vec<_> = found(&checked).into_iter().map(|(class, _)| class).collect();
    classes.dedup();
    classes
}

#[test]
fn a_load_must_be_waited_for() {
    assert_eq!(classes(&format!("{LOAD}\n{WAIT}\n{USE}")), [""; 0]);
    // One thread waits, and a barrier orders the others.
    let body = format!("{LOAD}\n@!%q bra B;\n{WAIT}\nB: bar.sync 0;\n{USE}");
    assert_eq!(classes(&body), [""; 0]);
    // No wait: the copy is in flight.
    let checked = check(&format!("{LOAD}\nbar.sync 0;\n{USE}\nbar.sync 0;\n{WAIT}"));
    let [(class, lines)] = &found(&checked)[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(*class, "async-copy");
    assert!(lines.contains(&"ld.shared.u32 %v, [%c]"), "{lines:?}");
    assert!(
        checked.findings[0].help.as_ref().unwrap().contains("mbarrier"),
        "{:?}",
        checked.findings[0].help
    );
    // Only thread 0 waits, and nothing orders the others.
    let body = format!("{LOAD}\n@!%q bra B;\n{WAIT}\nB: {USE}");
    assert_eq!(classes(&body), ["async-copy"]);
}

/// Without expected bytes, the phase ends before the copy does.
#[test]
fn bytes_that_are_not_expected_are_not_waited_for() {
    let body = LOAD.replace(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 256",
        "mbarrier.arrive.shared::cta.b64 _, [%m]",
    );
    assert_eq!(classes(&format!("{body}\n{WAIT}\n{USE}")), ["async-copy"]);
}

/// A ring of one stage: the copy that refills the buffer must wait for the readers.
#[test]
fn a_refill_waits_for_the_readers() {
    let ring = |release: &str, acquire: &str| {
        format!(
            "{LOAD}\n{WAIT}\n{USE}\n{release}\n@!%q bra B;\n{acquire}
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 256;
             cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g+256], 256, [%m];
             B: mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], 1;\n@!%p bra B;\n{USE}"
        )
    };
    let release = "mbarrier.arrive.shared::cta.b64 _, [%e];";
    let acquire = "E: mbarrier.try_wait.parity.shared::cta.b64 %p, [%e], 0;\n@!%p bra E;";
    assert_eq!(classes(&ring(release, acquire)), [""; 0]);
    // A warp that is late also misses the phase, and waits forever.
    let checked = check(&ring(release, ""));
    let [(class, lines), ..] = &found(&checked)[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(*class, "async-copy");
    assert!(lines.iter().any(|line| line.starts_with("cp.async.bulk")), "{lines:?}");
    assert!(lines.contains(&"ld.shared.u32 %v, [%c]"), "{lines:?}");
    // One lane of each warp arrives for all, without a synchronization of the warp.
    let elected =
        "and.b32 %i, %t, 31;\nsetp.eq.u32 %p, %i, 0;\n@%p mbarrier.arrive.shared::cta.b64 _, [%e], 32;";
    assert_eq!(classes(&ring(elected, acquire)), ["async-copy"]);
    let synchronized = format!("bar.warp.sync -1;\n{elected}");
    assert_eq!(classes(&ring(&synchronized, acquire)), [""; 0]);
}

#[test]
fn the_source_of_a_store_is_kept_until_it_is_read() {
    let fill = "st.shared.u32 [%c], %t;\nfence.proxy.async;\nbar.sync 0;";
    let again = "bar.sync 0;\nst.shared.u32 [%c], 7;\nbar.sync 0;";
    let body = |wait: &str| format!("{fill}\n{STORE}\n{wait}\n{again}\n@%q cp.async.bulk.wait_group 0;");
    assert_eq!(classes(&body("@%q cp.async.bulk.wait_group.read 0;")), [""; 0]);
    assert_eq!(classes(&body("@%q cp.async.bulk.wait_group 0;")), [""; 0]);
    let checked = check(&body(""));
    let [(class, lines)] = &found(&checked)[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(*class, "async-copy");
    assert!(lines.contains(&"st.shared.u32 [%c], 7"), "{lines:?}");
    assert!(checked.findings[0].help.as_ref().unwrap().contains("wait_group.read"));
    assert_eq!(classes(&body("@%q cp.async.bulk.wait_group.read 1;")), ["async-copy"]);
    // Without a barrier, only the issuing thread is ordered after the wait.
    let body =
        format!("{fill}\n{STORE}\n@%q cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%c], 7;\nbar.sync 0;");
    assert_eq!(classes(&body), ["async-copy"]);
    // The source is written by other threads without a barrier before the copy.
    let body =
        format!("st.shared.u32 [%c], %t;\nfence.proxy.async;\n{STORE}\n@%q cp.async.bulk.wait_group 0;");
    assert_eq!(classes(&body), ["async-copy"]);
}

/// A barrier orders threads; the fence orders the copy, which is made by another proxy.
#[test]
fn the_source_of_a_store_needs_a_fence_of_proxies() {
    let body = |fence: &str| {
        format!("st.shared.u32 [%c], %t;\n{fence}\nbar.sync 0;\n{STORE}\n@%q cp.async.bulk.wait_group 0;")
    };
    assert_eq!(classes(&body("fence.proxy.async;")), [""; 0]);
    assert_eq!(classes(&body("fence.proxy.async.shared::cta;")), [""; 0]);
    let checked = check(&body(""));
    let [(class, lines)] = &found(&checked)[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(*class, "proxy");
    assert!(lines.contains(&"st.shared.u32 [%c], %t"), "{lines:?}");
    assert!(
        checked.findings[0].sentence.starts_with("a bulk copy reads"),
        "{}",
        checked.findings[0].sentence
    );
    // Bytes that a bulk copy has brought need no fence.
    assert_eq!(
        classes(&format!("{LOAD}\n{WAIT}\nbar.sync 0;\n{STORE}\n@%q cp.async.bulk.wait_group 0;")),
        [""; 0]
    );
}

#[test]
fn a_block_must_not_end_while_its_memory_is_read() {
    let fill = "st.shared.u32 [%c], %t;\nfence.proxy.async;\nbar.sync 0;";
    assert_eq!(classes(&format!("{fill}\n{STORE}\n@%q cp.async.bulk.wait_group.read 0;")), [""; 0]);
    let checked = check(&format!("{fill}\n{STORE}"));
    assert_eq!(found(&checked)[0].0, "async-copy");
    assert!(
        checked.findings[0].sentence.contains("the block ends while"),
        "{}",
        checked.findings[0].sentence
    );
}

#[test]
fn a_wait_that_cannot_end_names_the_bytes() {
    let body = "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
        @%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%g], 256, [%m];\n";
    let stop = check(&format!("{body}{WAIT}")).outcome.stop.unwrap();
    assert!(stop.label.as_ref().unwrap().contains("and 256 bytes"), "{stop:?}");
    let stop = check(&format!("{}{WAIT}", body.replace("512", "128"))).outcome.stop.unwrap();
    assert!(stop.label.as_ref().unwrap().contains("received 128 bytes more than expected"), "{stop:?}");
}

/// `cp.async.bulk.cp_mask` writes some bytes, `st.bulk` zeros, `st.async` and `red.async` words of global memory.
#[test]
fn instructions_of_blackwell_are_accesses() {
    let on = |body: &str| classes_on("sm_100", body);
    let masked = |mask: u32| {
        format!(
            "mov.b16 %h, {mask}; @%q cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%o], [%b], 256, %h;"
        )
    };
    let filled = "st.shared.u32 [%c], 7; fence.proxy.async.shared::cta; bar.sync 0; .reg .b16 %h;";
    let end = "@%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0;";
    assert_eq!(on(&format!("{filled} {} {end}", masked(0xffff))), [""; 0]);
    assert_eq!(on(&format!("{filled} {} {} {end}", masked(0xff), masked(0xff00))), [""; 0]);
    assert_eq!(on(&format!("{filled} {} {end}", masked(0xff))), ["unwritten"]);
    let read = "ld.shared.u32 %v, [%c]; st.global.u32 [%w], %v;";
    assert_eq!(on(&format!("@%q st.bulk.shared::cta [%b], 256, 0; bar.sync 0; {read}")), [""; 0]);
    assert_eq!(on(&format!("@%q st.bulk.shared::cta [%b], 248, 0; bar.sync 0; {read}")), ["uninitialized"]);
    assert_eq!(on(&format!("@%q st.bulk.shared::cta [%b], 256, 0; {read}")), ["shared-race"]);
    assert_eq!(on("st.async.release.gpu.global.u32 [%w], %t;"), [""; 0]);
    assert_eq!(on("@%q st.async.release.gpu.global.u32 [%w], %t;"), ["unwritten"]);
    let stored = "st.global.u32 [%w], %t; bar.sync 0;";
    assert_eq!(on(&format!("{stored} red.async.release.gpu.global.add.u32 [%o], 1;")), [""; 0]);
}
