//! Blocks that communicate: one outcome, with any number of threads, counted, checked and neither.

use warpproof_check::{CheckLaunch, Settings};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_sim::program::Communication;
use warpproof_sim::{Device, Launch, Stop};

/// A kernel whose threads do `body`; `%b` is the number of the block, `%t` of the thread, `%to` the address of the thread's own
/// word behind the first 1024 words at `%out`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to; .reg .b32 %t, %b; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .pred %p<8>; .reg .f32 %f<4>;\n\
         .shared .u32 mine[64];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %r0, %b, 64, %t;\n\
         mul.wide.u32 %to, %r0, 4; add.u64 %to, %to, %out; add.u64 %to, %to, 4096; setp.eq.u32 %p0, %t, 0;\n\
         {body}\nret;\n}}\n"
    )
}

const BLOCKS: u32 = 150;
const WORDS: usize = 1024 + 64 * 150;

struct Ended {
    words: Vec<u32>,
    instructions: u64,
    stop: Option<Box<Stop>>,
    counters: Option<Counters>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Run,
    Count,
    Check,
}

fn run(body: &str, threads: usize, how: How, instructions: u64) -> Ended {
    let mut device = Device::new().with_threads(threads);
    device.limits.instructions = instructions;
    let module = device.load(&kernel(body)).unwrap();
    let out = device.alloc::<u32>(WORDS).unwrap();
    let launch: Launch = module.kernel("k").unwrap().launch().grid(BLOCKS).block(64).arg(out);
    assert_eq!(launch.program().communication, Communication::Any);
    let (outcome, counters) = match how {
        How::Run => (device.run(&launch), None),
        How::Count => {
            let counted = device.count(&launch, &CountSettings::default());
            (counted.outcome, Some(counted.counters))
        }
        How::Check => (device.check(&launch, &Settings::default()).outcome, None),
    };
    let words = device.read(&out).unwrap();
    Ended { words, instructions: outcome.instructions, stop: outcome.stop, counters }
}

/// The outcome, which must be the same for any number of threads, with and without counters.
fn same(body: &str, instructions: u64) -> Ended {
    let first = run(body, 1, How::Run, instructions);
    let counted = run(body, 1, How::Count, instructions);
    for threads in [1, 2, 8] {
        for how in [How::Run, How::Count] {
            let other = run(body, threads, how, instructions);
            assert!(other.words == first.words, "{threads} threads, {how:?}: {body}");
            assert_eq!(other.instructions, first.instructions, "{threads} threads, {how:?}: {body}");
            let text = |stop: &Option<Box<Stop>>| stop.as_ref().map(|stop| format!("{stop:?}"));
            assert_eq!(text(&other.stop), text(&first.stop), "{threads} threads, {how:?}: {body}");
            assert!(how == How::Run || other.counters == counted.counters, "{threads} threads: {body}");
        }
    }
    first
}

/// Adds up numbers in shared memory, takes a ticket, and the last block adds up the sums of all blocks.
const LAST_BLOCK: &str = "mov.u32 %r1, mine; mad.lo.u32 %r2, %t, 4, %r1; mul.lo.u32 %r3, %r0, 7; st.shared.u32 [%r2], %r3;\n\
    bar.sync 0; @!%p0 bra WAIT; mov.u32 %r4, 0; mov.u32 %r5, 0;\n\
    SUM: ld.shared.u32 %r6, [%r1]; add.u32 %r4, %r4, %r6; add.u32 %r1, %r1, 4; add.u32 %r5, %r5, 1;\n\
    setp.lt.u32 %p1, %r5, 64; @%p1 bra SUM; st.global.u32 [%to], %r4; membar.gl;\n\
    atom.global.add.u32 %r7, [%out], 1; st.shared.u32 [mine], %r7;\n\
    WAIT: bar.sync 0; ld.shared.u32 %r7, [mine]; st.global.u32 [%to+4], %r7; setp.ne.u32 %p2, %r7, 149; @%p2 ret; @!%p0 ret;\n\
    membar.gl; mov.u32 %r8, 0; mov.u32 %r9, 0; add.u64 %d1, %out, 4096;\n\
    ALL: ld.global.u32 %r10, [%d1]; add.u32 %r9, %r9, %r10; add.u64 %d1, %d1, 256; add.u32 %r8, %r8, 1;\n\
    setp.lt.u32 %p3, %r8, 150; @%p3 bra ALL; st.global.u32 [%out+8], %r9;";

#[test]
fn the_last_block_sees_what_all_others_stored() {
    let ended = same(LAST_BLOCK, 1 << 30);
    let all = (0..BLOCKS * 64).fold(0u32, |sum, i| sum.wrapping_add(i * 7));
    assert_eq!((ended.words[0], ended.words[2]), (BLOCKS, all));
    // Tickets are taken in block order, as if each block ran alone.
    let tickets: Vec<u32> = (0..150).map(|block| ended.words[1024 + 64 * block + 1]).collect();
    assert!(tickets.iter().zip(0..BLOCKS - 1).all(|(ticket, block)| *ticket == block));
    assert_eq!(run(LAST_BLOCK, 2, How::Check, 1 << 30).words, ended.words);
}

/// Blocks wait for blocks after and before them, by polling.
#[test]
fn blocks_that_wait_for_each_other_end() {
    let chain = "@!%p0 ret; setp.gt.u32 %p5, %b, 70; @%p5 ret; setp.eq.u32 %p1, %b, 0; mul.wide.u32 %d1, %b, 4; add.u64 %d1, %d1, %out; @%p1 bra GO;\n\
                 SPIN: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;\n\
                 GO: add.u32 %r2, %r1, 3; membar.gl; st.volatile.global.u32 [%d1+4], %r2;";
    assert_eq!(same(chain, 1 << 30).words[71], 213);
    let later = "@!%p0 ret; setp.gt.u32 %p5, %b, 12; @%p5 ret; mul.wide.u32 %d1, %b, 4; add.u64 %d1, %d1, %out; st.volatile.global.u32 [%d1], 1;\n\
                 setp.eq.u32 %p1, %b, 12; @%p1 ret;\n\
                 SPIN: ld.volatile.global.u32 %r1, [%d1+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;\n\
                 st.global.u32 [%to], 5;";
    assert_eq!(same(later, 1 << 30).words[1024 + 64 * 11], 5);
}

#[test]
fn faults_and_limits_are_those_of_blocks_in_turns() {
    let ticket = "@%p0 atom.global.add.u32 %r2, [%out], 1; @%p0 st.global.u32 [%to], %r2;";
    // Before the block communicates, in the operation by which it does, and after.
    for fault in ["ld.global.u32 %r3, [%out+1];", "atom.global.add.u32 %r3, [%out+100000], 1;"] {
        for body in [format!("@%p1 {fault} {ticket}"), format!("{ticket} @%p1 {fault}")] {
            let ended = same(&format!("setp.eq.u32 %p1, %b, 70; {body}"), 1 << 30);
            assert_eq!(ended.stop.unwrap().block, Some([70, 0, 0]));
            assert!(ended.words[0] == 70 || ended.words[0] == 71);
        }
    }
    // A loop before the block communicates that exceeds the limit, and a turn.
    let slow = format!(
        "setp.gt.u32 %p5, %b, 12; @%p5 ret; mov.u32 %r4, 0; LOOP: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 12000; @%p2 bra LOOP; {ticket}"
    );
    let ended = same(&slow, 600_000);
    assert!(ended.stop.unwrap().to_string().contains("more than 600000 warp instructions"));
    assert_eq!(run(&slow, 2, How::Run, 1 << 40).words, run(&slow, 1, How::Count, 1 << 40).words);
}
