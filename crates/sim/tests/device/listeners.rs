//! Observers are returned in block order, independent of the order in which blocks end, and also for blocks that a stop
//! interrupts.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::mpsc::{Sender, channel};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::{Device, StopKind};

/// Sends its block and the number of instructions it observed when it is dropped.
struct Counter(u32, u64, Sender<(u32, u64)>);

impl Observer for Counter {
    fn issue(&mut self, _: &Issue<'_>) {
        self.1 += 1;
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.2.send((self.0, self.1)).unwrap();
    }
}

/// The blocks whose observers were returned, in order, and the kind of the stop.
fn collected(body: &str, blocks: u32, threads: usize) -> (Vec<u32>, Option<StopKind>) {
    let text = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.global .u32 flag;\n.visible .entry k() {{\n\
         .reg .b32 %r<4>; .reg .pred %p; mov.u32 %r0, %ctaid.x;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(threads);
    device.limits.instructions = 10_000_000;
    let module = device.load(&text).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(blocks).block(32);
    let (sender, receiver) = channel();
    let mut back: Vec<Box<dyn Observer>> = Vec::new();
    let outcome = device.run_observed(
        &launch,
        &|block| Some(Box::new(Counter(block, 0, sender.clone()))),
        &mut |observer| back.push(observer),
    );
    // Observers that were not returned have been dropped by now; discard their messages.
    while receiver.try_recv().is_ok() {}
    let mut order = Vec::new();
    for observer in back {
        drop(observer);
        order.extend(receiver.try_recv().ok().filter(|(_, seen)| *seen > 0).map(|(block, _)| block));
    }
    (order, outcome.stop.map(|stop| stop.kind))
}

/// All blocks before the last one wait for the last one.
const BACKWARDS: &str = "setp.eq.u32 %p, %r0, 7; @%p bra LAST; W: ld.volatile.global.u32 %r1, [flag];\n\
    setp.le.u32 %p, %r1, %r0; @%p bra W; ret; LAST: st.volatile.global.u32 [flag], 99;";

#[test]
fn blocks_that_end_backwards_are_collected_in_order() {
    assert_eq!(collected(BACKWARDS, 8, 1), ((0..8).collect(), None));
    // Odd blocks end immediately, even ones only after the last block has started.
    let odd = format!(
        "and.b32 %r2, %r0, 1; setp.eq.u32 %p, %r2, 1; @%p bra ODD; {BACKWARDS} ret; ODD: setp.eq.u32 %p, %r0, 7; @%p bra LAST;"
    );
    assert_eq!(collected(&odd, 8, 1), ((0..8).collect(), None));
}

#[test]
fn a_stop_hands_over_the_running_blocks() {
    // Block 3 traps while those before it wait.
    let trap = BACKWARDS
        .replace("99;", "99; ret; T: trap;")
        .replace("setp.eq.u32 %p, %r0, 7;", "setp.eq.u32 %p, %r0, 3; @%p bra T; setp.eq.u32 %p, %r0, 7;");
    assert_eq!(collected(&trap, 8, 1), ((0..4).collect(), Some(StopKind::Trap)));
}

#[test]
fn a_stop_in_a_wave_hands_over_the_blocks_up_to_it() {
    for threads in [1, 2, 5] {
        let trap = "setp.eq.u32 %p, %r0, 70; @%p trap;";
        assert_eq!(collected(trap, 200, threads), ((0..71).collect(), Some(StopKind::Trap)), "{threads}");
    }
}
