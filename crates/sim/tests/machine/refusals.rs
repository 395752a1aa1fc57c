//! Constructs that look supported but are not, and so must stop instead of computing something else.

use super::run;
use std::sync::{Arc, Mutex};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Blame, Device, StopKind};

fn blame(body: &str) -> Blame {
    run(body, "", 32, 0, 64, Schedule::default()).1.stop.unwrap().blame
}

#[test]
fn an_element_of_an_array_is_not_a_byte_offset() {
    let body = ".shared .u32 a[8]; ld.shared.u32 %r1, a[4];";
    assert_eq!(blame(body), Blame::Gap);
}

#[test]
fn layouts_keep_their_order() {
    let body = ".reg .f32 %f<4>; mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, \
                {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};";
    assert_eq!(blame(body), Blame::Gap);
}

#[test]
fn elements_below_a_byte_have_one_layout() {
    let body = ".shared .align 32 .b8 a[512]; wmma.load.a.sync.aligned.col.m8n8k32.shared.u4 {%r1}, [a];";
    assert_eq!(blame(body), Blame::Gap);
}

#[test]
fn kernels_free_only_what_they_allocated() {
    let functions =
        ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param .b64 p);";
    let body = "{ .param .b64 p0; st.param.b64 [p0], %out; call.uni free, (p0); }";
    let (_, outcome) = run(body, functions, 1, 0, 4, Schedule::default());
    let stop = outcome.stop.unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Bounds));
}

#[test]
fn the_device_runtime_is_a_gap_of_ours() {
    let functions = ".extern .func (.param .b32 r) cudaDeviceSynchronize ();";
    let body = "{ .param .b32 r0; call.uni (r0), cudaDeviceSynchronize, (); }";
    let (_, outcome) = run(body, functions, 1, 0, 4, Schedule::default());
    assert_eq!(outcome.stop.unwrap().blame, Blame::Gap);
}

fn launch(header: &str, body: &str) -> (Blame, StopKind) {
    let text = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {header} {{ {body} ret; }}"
    );
    let mut device = Device::new();
    let module = device.load(&text).unwrap();
    let stop = module.kernel("k").unwrap().launch().block(32).run(&mut device).unwrap_err();
    (stop.blame, stop.kind)
}

#[test]
fn a_grid_of_one_block_is_no_cluster_of_two() {
    let cluster = launch(".explicitcluster .reqnctapercluster 2, 1, 1", "");
    assert_eq!(cluster, (Blame::Input, StopKind::Launch));
}

#[test]
fn static_shared_memory_ends_at_48_kb() {
    let body = ".shared .b8 a[49156]; .reg .b32 %r; mov.u32 %r, a;";
    assert_eq!(launch("", body), (Blame::Input, StopKind::Launch));
}

/// The table entries that are reported to an observer.
struct Entries(Arc<Mutex<Vec<Option<usize>>>>);

impl Observer for Entries {
    fn issue(&mut self, issue: &Issue<'_>) {
        let meta = issue.program.metas.get(usize::try_from(issue.pc).unwrap());
        self.0.lock().unwrap().push(meta.and_then(|meta| meta.entry));
    }
}

#[test]
fn what_is_refused_does_not_count_as_executed() {
    let text =
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k() { .reg .b32 %r; .reg .b64 %d;
                mov.b32 %r, 1; mov.b32 %d, %r; ret; }";
    let mut device = Device::new();
    let module = device.load(text).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let entries = seen.clone();
    let launch = module.kernel("k").unwrap().launch().block(1);
    let outcome =
        device.run_observed(&launch, &move |_| Some(Box::new(Entries(entries.clone()))), &mut |_| {});
    assert_eq!(outcome.stop.unwrap().kind, StopKind::Malformed);
    let seen = seen.lock().unwrap();
    assert!(matches!(seen[..], [Some(_), None]), "{seen:?}");
}
