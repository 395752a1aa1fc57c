//! Blocks that wait for other blocks: the launch ends if those can be resident at the same time; otherwise it stops as a
//! deadlock.

use warpproof_sim::{Blame, Device, Outcome, StopKind};

const HEAD: &str = ".version 8.7\n.target sm_89\n.address_size 64\n.global .u32 g;\n";

/// Each block arrives, then its first thread waits until `count` blocks have arrived.
fn barrier(count: u32, pause: &str) -> String {
    format!(
        "{HEAD}.entry k() {{ .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;
        mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE; mov.u64 %rd1, %globaltimer;
        atom.global.add.u32 %r2, [g], 1;
        L: ld.volatile.global.u32 %r3, [g]; {pause} setp.lt.u32 %p2, %r3, {count}; @%p2 bra L;
        DONE: bar.sync 0; ret; }}"
    )
}

/// Library code for waiting: it increases the sleep time while it waits.
const BACK_OFF: &str = "mov.u64 %rd2, %globaltimer; sub.u64 %rd3, %rd2, %rd1; shr.u64 %rd3, %rd3, 2;
    setp.lt.u64 %p3, %rd3, 1000000; mov.u32 %r4, 1000000; cvt.u32.u64 %r5, %rd3; selp.b32 %r4, %r5, %r4, %p3; nanosleep.u32 %r4;";

fn run(module: &str, grid: u32, block: u32) -> Outcome {
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = 100_000_000;
    device.limits.memory = 1 << 30;
    let module = device.load(module).unwrap_or_else(|stop| panic!("{stop}"));
    let kernel = module.kernel("k").unwrap_or_else(|stop| panic!("{stop}"));
    device.run(&kernel.launch().grid(grid).block(block))
}

#[test]
fn a_barrier_of_more_blocks_than_any_device_holds_is_a_deadlock() {
    for pause in ["", "nanosleep.u32 100;", BACK_OFF] {
        let outcome = run(&barrier(100_000, pause), 100_000, 256);
        let stop = outcome.stop.unwrap_or_else(|| panic!("it ends: {pause}"));
        assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Deadlock), "{stop}");
        assert_eq!(stop.sentence, "deadlock: blocks wait for blocks that cannot start");
        assert!(stop.notes.iter().any(|note| note.starts_with("98720 blocks have not started")), "{stop}");
        assert!(
            stop.notes.iter().any(|note| note.contains("runs more than 1280 blocks of 256 threads")),
            "{stop}"
        );
        assert!(stop.help.as_ref().is_some_and(|help| help.contains("cudaOccupancy")), "{stop}");
        assert!(outcome.instructions < 60_000_000, "{}", outcome.instructions);
    }
}

#[test]
fn a_barrier_of_blocks_that_run_together_is_passed() {
    for pause in ["", BACK_OFF] {
        for (grid, block) in [(2, 64), (300, 256), (1000, 32)] {
            let outcome = run(&barrier(grid, pause), grid, block);
            assert!(outcome.stop.is_none(), "{grid} blocks of {block}: {}", outcome.stop.unwrap());
        }
    }
}

#[test]
fn waiting_for_a_later_block_is_served_where_both_can_run() {
    // Every block except the last waits until the last has arrived.
    let module = |last: u32| {
        format!(
            "{HEAD}.entry k() {{ .reg .b32 %r<4>; .reg .pred %p<2>; mov.u32 %r1, %ctaid.x;
            setp.eq.u32 %p1, %r1, {last}; @%p1 st.volatile.global.u32 [g], 1; @%p1 bra DONE;
            L: ld.volatile.global.u32 %r2, [g]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;
            DONE: ret; }}"
        )
    };
    assert!(run(&module(700), 701, 64).stop.is_none());
    let stop = run(&module(1_999_999), 2_000_000, 64).stop.unwrap();
    assert_eq!(stop.kind, StopKind::Deadlock, "{stop}");
    // Waiting for an earlier block always succeeds, for any number of blocks.
    let chain = format!(
        "{HEAD}.entry k() {{ .reg .b32 %r<4>; .reg .pred %p<2>; mov.u32 %r1, %ctaid.x;
        L: ld.volatile.global.u32 %r2, [g]; setp.ne.u32 %p1, %r2, %r1; @%p1 bra L;
        add.u32 %r2, %r2, 1; st.volatile.global.u32 [g], %r2; ret; }}"
    );
    assert!(run(&chain, 10_000, 32).stop.is_none());
}

#[test]
fn a_loop_that_gives_up_by_the_clock_ends() {
    // It waits for an event that never happens, at most 2^28 ticks, and each iteration also waits for 1000 ticks of a
    // 32-bit clock.
    let module = format!(
        "{HEAD}.entry k() {{ .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<3>; mov.u64 %rd1, %globaltimer;
        L: mov.u32 %r1, %clock;
        D: mov.u32 %r2, %clock; sub.u32 %r2, %r2, %r1; setp.lt.s32 %p1, %r2, 1000; @%p1 bra D;
        mov.u64 %rd2, %globaltimer; sub.u64 %rd2, %rd2, %rd1; setp.gt.u64 %p1, %rd2, 268435456; @%p1 bra DONE;
        ld.volatile.global.u32 %r3, [g]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;
        DONE: ret; }}"
    );
    let outcome = run(&module, 4, 32);
    assert!(outcome.stop.is_none(), "{}", outcome.stop.unwrap());
    // Without a timeout it never ends, even if it reads the clock.
    let forever = module.replace("@%p1 bra DONE;", "");
    let stop = run(&forever, 4, 32).stop.unwrap();
    assert_eq!(stop.kind, StopKind::Deadlock, "{stop}");
}
