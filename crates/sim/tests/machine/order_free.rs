//! Blocks that communicate only by operations whose order does not matter run on all cores, with one outcome.

use warpproof_sim::program::Communication;
use warpproof_sim::schedule::{Blocks, Schedule};
use warpproof_sim::{Device, Module};

/// A kernel of many blocks whose threads do `body` on the cells at `%cell`; `%g` is the number of the thread.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %cell; .reg .b32 %t, %g, %b, %n; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .f32 %f<4>;\n\
         .shared .u32 sums[4];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x;\n\
         mad.lo.u32 %g, %b, %n, %t; and.b32 %r0, %g, 15; mul.wide.u32 %cell, %r0, 8; add.u64 %cell, %cell, %out;\n\
         {body}\nret;\n}}\n"
    )
}

const BLOCKS: u32 = 150;
const THREADS: u32 = 40;

fn outcome(body: &str, threads: usize, schedule: Schedule) -> Vec<u64> {
    let mut device = Device::new().with_threads(threads);
    device.schedule = schedule;
    let module = device.load(&kernel(body)).unwrap();
    let out = device.upload(&[7u64; 16]).unwrap();
    module.kernel("k").unwrap().launch().grid(BLOCKS).block(THREADS).arg(out).run(&mut device).unwrap();
    device.read(&out).unwrap()
}

fn communication(body: &str) -> Communication {
    let module: Module = Device::new().load(&kernel(body)).unwrap();
    module.kernel("k").unwrap().program().communication
}

/// Blocks in random turns, on the memory itself.
fn in_turns() -> Schedule {
    Schedule { blocks: Blocks::Interleaved { seed: 1, together: 3, turn: 200 }, ..Schedule::default() }
}

#[test]
fn every_operation_gives_on_all_cores_what_it_gives_on_one() {
    for body in [
        "red.global.add.u32 [%cell], %g;",
        "red.global.add.u64 [%cell], 4294967295;",
        "red.global.max.s32 [%cell], -3; red.global.min.u32 [%cell+4], %g;",
        "red.global.and.b32 [%cell], %g; red.global.or.b32 [%cell+4], %g;",
        "red.global.xor.b64 [%cell], 81985529216486895;",
        "atom.global.add.u32 %r1, [%cell], %g; atom.add.u32 %r2, [%cell], 1;",
        "cvt.u64.u32 %d1, %g; red.global.relaxed.gpu.max.u64 [%cell], %d1;",
        "@%p1 red.global.add.u32 [%cell], 1;",
    ] {
        let body = format!(".reg .pred %p1; setp.gt.u32 %p1, %g, 100; {body}");
        assert_eq!(communication(&body), Communication::OrderFree, "{body}");
        let alone = outcome(&body, 1, Schedule::default());
        assert_eq!(alone, outcome(&body, 1, in_turns()), "{body}");
        for threads in [2, 5] {
            assert_eq!(alone, outcome(&body, threads, Schedule::default()), "{body}");
        }
    }
}

#[test]
fn a_sum_is_complete() {
    let sums = outcome("red.global.add.u32 [%out], 1;", 4, Schedule::default());
    assert_eq!(sums[0], u64::from(7 + BLOCKS * THREADS));
}

#[test]
fn a_block_reads_its_own_sum() {
    let body = "red.global.add.u32 [%cell], 1; ld.global.u32 %r1, [%cell]; \
                setp.eq.u32 %p1, %r1, 7; @%p1 trap;";
    let body = format!(".reg .pred %p1; {body}");
    assert_eq!(communication(&body), Communication::OrderFree);
    outcome(&body, 3, Schedule::default());
}

#[test]
fn what_depends_on_the_order_runs_in_turns() {
    for body in [
        "red.global.add.f32 [%cell], 0f3f800000;",
        "atom.global.add.u32 %r1, [%cell], 1; add.u32 %r2, %r1, 1;",
        "atom.global.exch.b32 %r1, [%cell], %g;",
        "atom.global.cas.b32 %r1, [%cell], 0, 1;",
        "atom.global.inc.u32 %r1, [%cell], 9;",
        "red.release.gpu.global.add.u32 [%cell], 1;",
        "red.global.add.u32 [%cell], 1; membar.gl;",
        "red.global.add.u32 [%cell], 1; ld.volatile.global.u32 %r1, [%cell];",
    ] {
        assert_eq!(communication(body), Communication::Any, "{body}");
    }
    let of_the_block = "atom.shared.add.u32 %r1, [sums], 1; add.u32 %r2, %r1, 1;";
    assert_eq!(communication(of_the_block), Communication::None);
    assert_eq!(
        communication(&format!("{of_the_block} red.global.add.u32 [%cell], %r2;")),
        Communication::OrderFree
    );
}

/// Operations that are kept take memory, which has a limit like all stores.
#[test]
fn too_many_kept_operations_stop_the_launch() {
    let body = "LOOP: red.global.add.u32 [%cell], 1; red.global.max.u32 [%cell], 1; bra LOOP;";
    let mut device = Device::new().with_threads(2);
    device.limits.memory = 64 << 20;
    device.limits.instructions = 100_000_000;
    let module = device.load(&kernel(body)).unwrap();
    let out = device.upload(&[7u64; 16]).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(BLOCKS).block(THREADS).arg(out);
    let stop = launch.run(&mut device).unwrap_err();
    assert!(stop.to_string().contains("stores"), "{stop}");
}
