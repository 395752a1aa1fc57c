//! `griddepcontrol` between two launches: what a dependent launch reads before and after its wait, and what is recorded about the
//! overlap.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;
use warpproof_check::{Check, CheckLaunch, Dependent, Settings, TouchKind};
use warpproof_sim::{Buffer, Device, GridDependency, Kernel, Outcome};

/// A kernel with two buffers, `%a` and `%b`; `%i` is the thread's index in the grid, `%x` and `%y` its words of the buffers.
fn kernel(device: &mut Device, body: &str) -> Kernel {
    let ptx = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b) {{\n\
         .reg .b32 %i, %t, %r<8>; .reg .b64 %a, %b, %x, %y, %o; .reg .pred %p;\n.shared .b32 cell;\n\
         ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x;\n\
         mov.u32 %i, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.u32 %i, %i, %r7, %t;\n\
         mul.wide.u32 %o, %i, 4; add.s64 %x, %a, %o; add.s64 %y, %b, %o;\n{body}\nret;\n}}\n"
    );
    device.load(&ptx).unwrap().kernel("k").unwrap()
}

/// More blocks than a wave has.
const BLOCKS: u32 = 70;
const THREADS: u32 = 64;
const COUNT: usize = 70 * 64;

/// Two buffers, one filled with ones, after a first launch that writes the thread's index plus 100 to it.
struct Pair {
    device: Device,
    a: Buffer<u32>,
    b: Buffer<u32>,
    first: Outcome,
}

fn first(body: &str) -> Pair {
    let mut device = Device::new();
    let (a, b) = (device.upload(&vec![1u32; COUNT]).unwrap(), device.upload(&vec![0u32; COUNT]).unwrap());
    let kernel = kernel(&mut device, body);
    let launch = kernel.launch().grid(BLOCKS).block(THREADS).arg(a).arg(b).keep_earlier(true);
    let first = device.run(&launch);
    assert!(first.stop.is_none());
    Pair { device, a, b, first }
}

const PRODUCE: &str = "griddepcontrol.launch_dependents; add.u32 %r0, %i, 100; st.global.u32 [%x], %r0;";

impl Pair {
    /// A second launch, to which the stores of the first are hidden until it waits.
    fn second(&mut self, body: &str) -> (Vec<u32>, GridDependency) {
        let kernel = kernel(&mut self.device, body);
        let earlier = self.first.earlier.take().map(Arc::new);
        let launch = kernel.launch().grid(BLOCKS).block(THREADS).arg(self.a).arg(self.b);
        let outcome = self.device.run(&launch.hide(earlier, None));
        assert!(outcome.stop.is_none(), "{:?}", outcome.stop);
        (self.device.read(&self.b).unwrap(), outcome.dependency)
    }
}

fn all(value: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..BLOCKS * THREADS).map(value).collect()
}

#[test]
fn loads_before_the_wait_get_old_bytes_and_loads_after_it_new_ones() {
    let mut pair = first(PRODUCE);
    let used = pair.first.dependency;
    assert_eq!(used, GridDependency { triggered: true, ..GridDependency::default() });
    let body = "ld.global.u32 %r0, [%x]; griddepcontrol.wait; ld.global.u32 %r1, [%x];
        mad.lo.u32 %r0, %r0, 10000, %r1; st.global.u32 [%y], %r0;";
    let (seen, used) = pair.second(body);
    assert_eq!(seen, all(|i| 10_000 + 100 + i));
    assert_eq!(used, GridDependency { triggered: false, waited: true, waited_first: true });
}

#[test]
fn a_launch_that_does_not_wait_gets_old_bytes_only() {
    let mut pair = first(PRODUCE);
    let (seen, used) = pair.second("ld.global.u32 %r0, [%x]; st.global.u32 [%y], %r0;");
    assert_eq!((seen, used), (all(|_| 1), GridDependency::default()));
}

#[test]
fn stores_before_the_wait_stay() {
    // The odd threads overwrite what the first launch wrote; all read it back before and after the wait.
    let mut pair = first(PRODUCE);
    let body = "and.b32 %r0, %t, 1; setp.ne.u32 %p, %r0, 0; @%p st.global.u32 [%x], %i; ld.global.u32 %r1, [%x];
        griddepcontrol.wait; ld.global.u32 %r2, [%x]; mad.lo.u32 %r1, %r1, 10000, %r2; st.global.u32 [%y], %r1;";
    let (seen, _) = pair.second(body);
    assert_eq!(seen, all(|i| if i % 2 == 1 { i * 10_001 } else { 10_000 + 100 + i }));
}

#[test]
fn atomic_operations_before_the_wait_use_current_bytes() {
    for atomic in ["red.global.add.u32 [%a], 1;", "atom.global.add.u32 %r0, [%a], 1;"] {
        let body = format!("griddepcontrol.launch_dependents; {atomic}");
        let mut pair = first(&body);
        pair.second(&format!("{body} griddepcontrol.wait; {atomic}"));
        assert_eq!(pair.device.read(&pair.a).unwrap()[0], 1 + 3 * BLOCKS * THREADS);
    }
}

#[test]
fn a_thread_may_wait_for_the_block() {
    // Warp 0 waits, and warp 1 polls shared memory until warp 0 has waited; then a barrier.
    let mut pair = first(PRODUCE);
    let body = "setp.eq.u32 %p, %t, 0; mov.u32 %r0, 0; @%p st.shared.u32 [cell], %r0; bar.sync 0;
        setp.ge.u32 %p, %t, 32; @%p bra poll; griddepcontrol.wait; mov.u32 %r0, 1; st.volatile.shared.u32 [cell], %r0; bra on;
        poll: ld.volatile.shared.u32 %r0, [cell]; setp.eq.u32 %p, %r0, 0; @%p bra poll;
        on: bar.sync 0; ld.global.u32 %r1, [%x]; st.global.u32 [%y], %r1;";
    assert_eq!(pair.second(body).0, all(|i| 100 + i));
}

#[test]
fn a_wait_under_a_guard_and_in_divergent_lanes() {
    let mut pair = first(PRODUCE);
    let body = "ld.global.u32 %r0, [%x]; and.b32 %r1, %t, 3; setp.eq.u32 %p, %r1, 0; @%p griddepcontrol.wait;
        @!%p bra skip; griddepcontrol.wait; skip: bar.warp.sync 0xffffffff; ld.global.u32 %r1, [%x];
        mad.lo.u32 %r0, %r0, 10000, %r1; st.global.u32 [%y], %r0;";
    assert_eq!(pair.second(body).0, all(|i| 10_000 + 100 + i));
}

#[test]
fn without_prerequisites_a_wait_waits_for_nothing() {
    let mut device = Device::new();
    let (a, b) = (device.upload(&vec![5u32; COUNT]).unwrap(), device.upload(&vec![0u32; COUNT]).unwrap());
    let body = "griddepcontrol.wait; griddepcontrol.launch_dependents; ld.global.u32 %r0, [%x]; st.global.u32 [%y], %r0;";
    let kernel = kernel(&mut device, body);
    let launch = kernel.launch().grid(BLOCKS).block(THREADS).arg(a).arg(b);
    let checked = device.check(&launch, &Settings::default());
    assert!(checked.findings.is_empty() && checked.outcome.stop.is_none());
    assert_eq!(device.read(&b).unwrap(), all(|_| 5));
    assert!(checked.outcome.dependency.waited_first && checked.outcome.earlier.is_none());
}

/// The words of `%a` that a launch accesses before it waits: read, written and updated.
fn early(body: &str) -> [usize; 3] {
    let mut device = Device::new();
    let (a, b) = (device.upload(&vec![1u32; COUNT]).unwrap(), device.upload(&vec![0u32; COUNT]).unwrap());
    let kernel = kernel(&mut device, body);
    let launch = kernel.launch().grid(2).block(THREADS).arg(a).arg(b);
    let settings = Settings {
        checks: vec![Check::Race],
        touched: true,
        overlap: Some(Dependent::Yes),
        ..Settings::default()
    };
    let checked = device.check(&launch, &settings);
    assert!(checked.outcome.stop.is_none());
    let early = checked.overlap.unwrap().early;
    let words = |list: &[std::ops::Range<u64>]| {
        let bytes: u64 = list.iter().map(|range| range.end - range.start).sum();
        usize::try_from(bytes / 4).unwrap()
    };
    if let Some(first) = early.read.first() {
        assert!(early.place(TouchKind::Read, first).is_some());
    }
    [words(&early.read), words(&early.written), words(&early.strong)]
}

#[test]
fn accesses_before_the_wait_are_recorded() {
    let load = "ld.global.u32 %r0, [%x];";
    assert_eq!(early(load), [128, 0, 0]);
    assert_eq!(early(&format!("griddepcontrol.wait; {load}")), [0; 3]);
    assert_eq!(early(&format!("{load} griddepcontrol.wait; st.global.u32 [%x], %r0;")), [128, 0, 0]);
    assert_eq!(early("st.global.u32 [%x], %i; griddepcontrol.wait;"), [0, 128, 0]);
    assert_eq!(early("red.global.add.u32 [%x], 1; griddepcontrol.wait;"), [0, 0, 128]);
}

#[test]
fn a_wait_of_another_thread_counts_if_it_happens_before() {
    let load = "ld.global.u32 %r0, [%x];";
    let one = "setp.eq.u32 %p, %t, 0; @%p griddepcontrol.wait;";
    assert_eq!(early(&format!("{one} bar.sync 0; {load}")), [0; 3]);
    // In each of two blocks, 63 threads have not waited.
    assert_eq!(early(&format!("{one} {load}")), [126, 0, 0]);
    // The lanes of the first warp have synchronized with the thread that waited.
    assert_eq!(early(&format!("{one} bar.warp.sync 0xffffffff; {load}")), [64, 0, 0]);
    // A flag of the first launch may order the two.
    assert_eq!(early(&format!("ld.acquire.gpu.global.u32 %r1, [%b]; {load}")), [0, 0, 1]);
}
