//! Blocks that communicate only by atomic operations whose results are unused run on all cores, with one outcome.

use warpproof_check::{CheckLaunch, Settings};
use warpproof_count::{CountLaunch, CountSettings};
use warpproof_sim::program::Communication;
use warpproof_sim::schedule::{Blocks, Schedule};
use warpproof_sim::{Device, Launch, Module};

/// A kernel of many blocks whose threads do `body` on the cells at `%cell`; `%g` is the number of the thread.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
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
        assert_eq!(communication(&body), Communication::Reductions, "{body}");
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
    assert_eq!(communication(&body), Communication::Reductions);
    outcome(&body, 3, Schedule::default());
}

/// What depends on the order of blocks is done in their order, whatever the number of cores.
#[test]
fn reductions_whose_order_matters_are_done_in_block_order() {
    for body in [
        "cvt.rn.f32.u32 %f1, %g; div.rn.f32 %f1, %f1, 0f40400000; red.global.add.f32 [%cell], %f1;",
        "cvt.rn.f32.u32 %f1, %g; sqrt.rn.f32 %f1, %f1; atom.global.add.f32 %f2, [%cell], %f1;",
        "cvt.rn.f64.u32 %x1, %g; div.rn.f64 %x1, %x1, 0d4008000000000000; red.global.add.f64 [%cell], %x1;",
        "red.global.add.noftz.f16x2 [%cell], %g; red.global.add.noftz.bf16x2 [%cell+4], %g;",
        "mov.b32 {%h1, %h2}, %g; red.global.add.noftz.f16 [%cell+2], %h1;",
        "atom.global.exch.b32 %r1, [%cell], %g; atom.global.exch.b64 %d1, [%out], 5;",
        "atom.global.inc.u32 %r1, [%cell], %g; red.global.dec.u32 [%cell+4], %b;",
        "red.global.add.u32 [%cell], %g; red.global.max.u32 [%cell], 3000; atom.global.exch.b32 %r1, [%cell+4], %g;",
    ] {
        let body = format!(".reg .b16 %h<4>; .reg .f64 %x<4>; {body}");
        assert_eq!(communication(&body), Communication::Reductions, "{body}");
        // A schedule of blocks runs them on the memory itself, here one after the other.
        let one = Blocks::Interleaved { seed: 1, together: 1, turn: 1 << 20 };
        let in_order = Schedule { blocks: Blocks::InOrder, ..Schedule::default() };
        let alone = outcome(&body, 1, in_order);
        assert_ne!(
            alone,
            outcome(&body, 1, Schedule { blocks: one, ..in_order }),
            "the order matters: {body}"
        );
        for threads in [2, 8] {
            assert_eq!(alone, outcome(&body, threads, in_order), "{body}");
        }
    }
}

/// Sums of one cell, rounded after each addition: block by block, and in a block warp by warp and lane by lane.
#[test]
fn sums_of_floats_are_rounded_in_block_order() {
    let body = "and.b32 %r1, %b, 1; setp.eq.u32 %p1, %r1, 0; @%p1 red.global.add.f32 [%out], 0f4b800000;\n\
                @!%p1 red.global.add.f32 [%out], 0f3f99999a; red.global.add.f32 [%out+4], 0f3dcccccd;";
    let body = format!(".reg .pred %p1; {body}");
    let (mut big, mut small) = (f32::from_bits(7), f32::from_bits(0));
    for block in 0..BLOCKS {
        for _ in 0..THREADS {
            // Subnormal numbers are flushed: `red.global.add.f32`.
            let before = if big.is_subnormal() { 0.0 } else { big };
            big = before + if block % 2 == 0 { f32::from_bits(0x4b80_0000) } else { 1.2 };
            small += 0.1;
        }
    }
    for threads in [1, 2, 8] {
        let cell = outcome(&body, threads, Schedule::default())[0];
        assert_eq!(cell, u64::from(small.to_bits()) << 32 | u64::from(big.to_bits()));
    }
}

/// A way to execute a launch.
type Way<'a> = &'a dyn Fn(&mut Device, &Launch);

/// The blocks of a wave do not see each other's reductions, only their own: that distinguishes waves from turns.
#[test]
fn blocks_run_in_waves_with_and_without_observers() {
    let body = "bar.sync 0; red.global.add.f32 [%out], 0f3f800000; bar.sync 0; ld.global.f32 %f1, [%out];\n\
                mul.wide.u32 %d1, %g, 4; add.u64 %d1, %out, %d1; st.global.f32 [%d1+8], %f1;";
    let counts = |how: Way<'_>| -> Vec<u32> {
        let mut device = Device::new().with_threads(2);
        let module = device.load(&kernel(body)).unwrap();
        let out = device.alloc::<u32>(2 + 100 * 32).unwrap();
        how(&mut device, &module.kernel("k").unwrap().launch().grid(100).block(32).arg(out));
        device.read(&out).unwrap()
    };
    let (own, wave) = (32.0f32, 64.0 * 32.0);
    let expected = |cell: usize| (if cell < 64 * 32 { own } else { wave + own }).to_bits();
    let run = |device: &mut Device, launch: &Launch| launch.run(device).map(drop).unwrap();
    let count = |device: &mut Device, launch: &Launch| drop(device.count(launch, &CountSettings::default()));
    let check = |device: &mut Device, launch: &Launch| drop(device.check(launch, &Settings::default()));
    let ways: [Way<'_>; 3] = [&run, &count, &check];
    for how in ways {
        let cells = counts(how);
        assert_eq!(cells[0], 3200f32.to_bits());
        assert!((0..3200).all(|cell| cells[2 + cell] == expected(cell)));
    }
}

/// A fault in a reduction ends the launch, and what earlier blocks did is done.
#[test]
fn a_fault_in_a_reduction_stops_all_later_blocks() {
    let body = "setp.eq.u32 %p1, %g, 2777; @%p1 red.global.add.f32 [%out+4096], 0f3f800000;\n\
                red.global.add.f32 [%out], 0f3f800000; red.global.add.u32 [%out+4], 1;";
    let body = format!(".reg .pred %p1; {body}");
    let stopped = |threads| {
        let mut device = Device::new().with_threads(threads);
        let module = device.load(&kernel(&body)).unwrap();
        let out = device.upload(&[0u64; 16]).unwrap();
        let launch = module.kernel("k").unwrap().launch().grid(BLOCKS).block(THREADS).arg(out);
        let stop = launch.run(&mut device).unwrap_err();
        assert_eq!((stop.block, stop.thread), (Some([69, 0, 0]), Some([17, 0, 0])));
        (stop.to_string(), device.read(&out).unwrap())
    };
    let first = stopped(1);
    let sum = first.1[0];
    assert_eq!((f32::from_bits(u32::try_from(sum & 0xffff_ffff).unwrap()), sum >> 32), (2760.0, 2760));
    assert!([2, 8].iter().all(|threads| stopped(*threads) == first));
}

#[test]
fn bulk_reductions_of_several_blocks_add_up() {
    let ptx = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {\n\
         .reg .b64 %out; .reg .b32 %t, %s, %v; .reg .pred %q; .shared .align 16 .b8 tile[512];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %v, tile; mad.lo.u32 %s, %t, 4, %v;\n\
         st.shared.f32 [%s], 0f3f000000; fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %q, %t, 0;\n\
         @%q cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%out], [%v], 512;\n\
         @%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0;\nret;\n}\n";
    for threads in [1, 2, 8] {
        let mut device = Device::new().with_threads(threads);
        let module = device.load(ptx).unwrap();
        let kernel = module.kernel("k").unwrap();
        assert_eq!(kernel.program().communication, Communication::Reductions);
        let out = device.alloc::<f32>(128).unwrap();
        let launch = kernel.launch().grid(150).block(128).arg(out);
        launch.run(&mut device).unwrap();
        assert_eq!(device.read(&out).unwrap(), [75.0; 128]);
        let checked = device.check(&launch, &Settings::default());
        assert_eq!((checked.findings.len(), device.read(&out).unwrap()[127]), (0, 150.0));
    }
}

#[test]
fn what_returns_a_value_or_orders_accesses_runs_in_turns() {
    for body in [
        "atom.global.add.u32 %r1, [%cell], 1; add.u32 %r2, %r1, 1;",
        "atom.global.add.f32 %f1, [%cell], 0f3f800000; add.f32 %f2, %f1, %f1;",
        "atom.global.cas.b32 %r1, [%cell], 0, 1;",
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
        Communication::Reductions
    );
}

/// Operations that are kept take memory. Blocks for which it is not enough run on the memory itself.
#[test]
fn too_many_kept_operations_are_done_in_turns() {
    let body = "mov.u32 %r1, 0; LOOP: cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%cell], %f1; add.u32 %r1, %r1, 1;\n\
                add.u32 %r2, %b, 30; setp.lt.u32 %p1, %r1, %r2; @%p1 bra LOOP;";
    let body = format!(".reg .pred %p1; {body}");
    let sums = |threads, memory| {
        let mut device = Device::new().with_threads(threads);
        device.limits.memory = memory;
        let module = device.load(&kernel(&body)).unwrap();
        let out = device.upload(&[7u64; 16]).unwrap();
        let launch = module.kernel("k").unwrap().launch().grid(BLOCKS).block(THREADS).arg(out);
        let counted = device.count(&launch, &CountSettings::default());
        assert!(counted.outcome.stop.is_none(), "{:?}", counted.outcome.stop);
        (device.read(&out).unwrap(), counted.outcome.instructions, counted.counters)
    };
    let roomy = sums(1, 1 << 30);
    // Some blocks of the second wave have more than the share of a block, and all of the third.
    for memory in [13 << 20, 8 << 20] {
        assert!([1, 2, 8].iter().all(|threads| sums(*threads, memory) == roomy));
    }
}
