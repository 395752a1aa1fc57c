//! The counters, on kernels small enough to count by hand: the comment at each number derives it.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod atomics;
mod barrier;
mod bulk;
mod control;
#[path = "../../examples/count.rs"]
mod example;
mod global;
mod matrix;
mod mbarrier;
mod names;
mod same;
mod sample;
mod shared;
mod tensor;

use warpproof_count::{CountLaunch, Counted, Counters, Instruction, MemoryOp, Totals, Traffic};
use warpproof_sim::memory::Space;
use warpproof_sim::{Device, Launch};

#[test]
fn the_example_runs() {
    example::main().unwrap();
}

/// A kernel: its body, one instruction per line, and an offset in bytes for each thread of a block.
struct Case<'a> {
    /// The body finds the address of a buffer in `%data`, the same plus the thread's offset in `%g`, the thread's offset
    /// into shared memory in `%s`, the offset itself in `%off`; the thread's number in `%t`, its lane in `%lane`, its
    /// block in `%cta`.
    body: &'a str,
    target: &'a str,
    grid: u32,
    block: u32,
    offsets: Vec<u64>,
    threads: usize,
}

/// Instructions before the body, and the one after it.
const HEAD: u64 = 12;
const TAIL: u64 = 1;
/// Lines before the body.
const LINES: u32 = 11;

impl<'a> Case<'a> {
    /// One block of this number of threads, each with its offset.
    fn new(body: &'a str, block: u32, offset: impl Fn(u64) -> u64) -> Case<'a> {
        let offsets = (0..u64::from(block)).map(offset).collect();
        Case { body, target: "sm_89", grid: 1, block, offsets, threads: 1 }
    }

    fn text(&self) -> String {
        let head = format!(
            ".version 8.7\n.target {}\n.address_size 64\n\
             .visible .entry k(.param .u64 data, .param .u64 table) {{\n\
             .reg .b64 %data, %g, %x, %off; .reg .b32 %t, %lane, %cta, %s, %base; .reg .b16 %h<8>;\n\
             .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %d<16>; .reg .f32 %f<64>; .reg .f64 %e<16>;\n\
             .shared .align 128 .b8 tile[49152]; .local .align 16 .b8 frame[128];\n\
             ld.param.u64 %data, [data]; ld.param.u64 %x, [table]; mov.u32 %t, %tid.x; mov.u32 %lane, %laneid;\n\
             mov.u32 %cta, %ctaid.x; mul.wide.u32 %off, %t, 8; add.u64 %x, %x, %off;\n\
             ld.global.u64 %off, [%x]; add.u64 %g, %data, %off; cvt.u32.u64 %s, %off; mov.u32 %base, tile;\n\
             add.u32 %s, %s, %base;\n",
            self.target
        );
        assert_eq!(head.lines().count(), usize::try_from(LINES).unwrap());
        format!("{head}{}\nret;\n}}\n", self.body.trim_start_matches('\n'))
    }

    /// The device and the launch.
    fn prepare(&self) -> (Device, Launch) {
        let mut device = Device::new().with_threads(self.threads);
        device.limits.instructions = 10_000_000;
        let module = device.load(&self.text()).unwrap_or_else(|stop| panic!("{}: {stop}", self.text()));
        let data = device.alloc::<u64>(1 << 16).unwrap();
        assert_eq!(data.address() % 128, 0, "counts of sectors assume it");
        let table = device.upload(&self.offsets).unwrap();
        let launch =
            module.kernel("k").unwrap().launch().grid(self.grid).block(self.block).arg(data).arg(table);
        (device, launch)
    }

    fn run(&self) -> Counted {
        let (mut device, launch) = self.prepare();
        device.count(&launch, &warpproof_count::CountSettings::default())
    }

    /// The counters of a launch that succeeds. For any kernel, the counts of instructions add up.
    fn count(&self) -> Counters {
        let counted = self.run();
        assert!(counted.outcome.stop.is_none(), "{}", counted.outcome.stop.unwrap());
        let counters = counted.counters;
        assert_eq!(counters.totals.issued.executions, counted.outcome.instructions);
        assert_eq!(counters.blocks, u64::from(self.grid));
        let sum: u64 = counters.totals.pipes.values().map(|pipe| pipe.executions).sum();
        assert_eq!(sum, counters.totals.issued.executions);
        counters
    }
}

/// The instruction on a line of the body, from 1.
fn on_line(counters: &Counters, line: u32) -> &Instruction {
    counters.instructions.iter().find(|instruction| instruction.ptx_line == LINES + line).unwrap()
}

/// The requests of the instruction on a line of the body to a space.
fn traffic(counters: &Counters, line: u32, space: Space, op: MemoryOp) -> Traffic {
    on_line(counters, line).memory.get(&(space, op)).copied().unwrap()
}

/// Requests, sectors and lines of global or local memory.
fn sectors(traffic: &Traffic) -> (u64, u64, u64) {
    (traffic.requests, traffic.sectors, traffic.lines)
}

/// Requests, passes through the banks, and passes beyond the minimum.
fn passes(traffic: &Traffic) -> (u64, u64, u64) {
    (traffic.requests, traffic.wavefronts, traffic.conflicts())
}

/// Executions, lanes at the instruction, lanes that executed it, executions by no lane.
fn issued(instruction: &Instruction) -> (u64, u64, u64, u64) {
    let issued = instruction.issued;
    (issued.executions, issued.lanes, issued.lanes_on, issued.passed)
}

/// Totals of a line of the body.
fn line_totals(counters: &Counters, line: u32) -> Totals {
    let lines = counters.by_line();
    let (_, totals) = lines.iter().find(|(key, _)| key.file.is_none() && key.line == LINES + line).unwrap();
    totals.clone()
}
