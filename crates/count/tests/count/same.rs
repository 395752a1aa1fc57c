//! The counters are the same in every run and for any number of threads; differences between two kernels; launches that
//! stop.

use crate::{Case, LINES, on_line, traffic};
use warpproof_count::{CountLaunch, CountSettings, LineKey, MemoryOp, diff};
use warpproof_sim::memory::Space;
use warpproof_sim::schedule::Order;

/// A mix of all kinds of instructions, in blocks that differ.
const MIXED: &str = "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nadd.u32 %r2, %lane, %cta;\nand.b32 %r2, %r2, 7;\n\
    setp.le.u32 %p1, %r1, %r2;\n@%p1 bra LOOP;\nst.shared.u32 [%s], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [%s];\n\
    mul.wide.u32 %d1, %cta, 64;\nadd.u64 %d1, %g, %d1;\nst.global.u32 [%d1], %r3;\nld.global.u32 %r4, [%g];";

#[test]
fn ten_runs_and_any_number_of_threads() {
    for talk in ["", "\nred.global.add.u32 [%data], 1;"] {
        let body = format!("{MIXED}{talk}");
        let case = |threads| Case { grid: 150, threads, ..Case::new(&body, 128, |t| t * 36 % 8192) };
        let first = case(1).count();
        assert_eq!(first.blocks, 150);
        for threads in [1, 2, 4, 1, 2, 4, 3, 7, 1, 2] {
            assert_eq!(case(threads).count(), first, "{threads} threads");
        }
    }
}

#[test]
fn the_order_of_warps_changes_nothing_but_who_comes_last() {
    let case = Case { grid: 3, ..Case::new(MIXED, 128, |t| t * 36 % 8192) };
    let counters = case.count();
    let (mut device, launch) = case.prepare();
    device.schedule.order = Order::Random(5);
    device.schedule.quantum = 7;
    let other = device.count(&launch, &CountSettings::default()).counters;
    assert_eq!(other.totals, counters.totals);
}

#[test]
fn counting_changes_no_outcome() {
    let case = Case { grid: 3, ..Case::new(MIXED, 128, |t| t * 36 % 8192) };
    let (mut device, launch) = case.prepare();
    let plain = device.run(&launch);
    let counted = device.count(&launch, &CountSettings::default());
    assert_eq!(plain.instructions, counted.outcome.instructions);
}

#[test]
fn a_difference_names_lines() {
    let load =
        |stride: u64| Case::new("add.u32 %r1, %t, 1;\nld.global.u32 %r2, [%g];", 32, move |t| 4 * stride * t);
    let (before, after) = (load(1).count(), load(2).count());
    assert_eq!(diff(&before, &before), []);
    let changes = diff(&before, &after);
    let of = |line: Option<LineKey>| -> Vec<(&str, u64, u64)> {
        let of_line = changes.iter().filter(|change| change.line == line);
        of_line.map(|change| (change.counter.as_str(), change.before, change.after)).collect()
    };
    let line = LineKey { file: None, line: LINES + 2 };
    // Twice the stride: eight sectors instead of four, two lines instead of one.
    let expected =
        [("global.ld.first_sectors", 4, 8), ("global.ld.lines", 1, 2), ("global.ld.sectors", 4, 8)];
    assert_eq!(of(Some(line)), expected);
    // Including the head's load of 8 sectors in two lines.
    let expected = [
        ("first_sectors.block_cached", 12, 16),
        ("first_sectors.block_loaded", 12, 16),
        ("first_sectors.grid_loaded", 12, 16),
        ("first_sectors.grid_touched", 12, 16),
        ("global.ld.first_sectors", 12, 16),
        ("global.ld.lines", 3, 4),
        ("global.ld.sectors", 12, 16),
    ];
    assert_eq!(of(None), expected);
    assert_eq!(changes.len(), 10);
}

#[test]
fn a_line_that_is_gone_differs_too() {
    let before = Case::new("add.u32 %r1, %t, 1;\nex2.approx.ftz.f32 %f1, %f2;", 32, |_| 0).count();
    let after = Case::new("add.u32 %r1, %t, 1;", 32, |_| 0).count();
    let changes = diff(&before, &after);
    let gone = changes.iter().find(|change| change.counter == "pipe.xu" && change.line.is_some()).unwrap();
    assert_eq!((gone.before, gone.after), (1, 0));
}

#[test]
fn a_launch_that_stops_is_counted_up_to_there() {
    // Block 70 traps: blocks 0 to 70 are counted, regardless of which blocks ran at the same time.
    let body = "setp.eq.u32 %p1, %cta, 70;\n@%p1 trap;\nadd.u32 %r1, %t, 1;";
    let mut first = None;
    for threads in [1, 2, 5] {
        let counted = Case { grid: 200, threads, ..Case::new(body, 32, |_| 0) }.run();
        assert!(counted.outcome.stop.is_some());
        let counters = counted.counters;
        assert_eq!(counters.blocks, 71);
        assert_eq!(on_line(&counters, 3).issued.executions, 70);
        let trap = on_line(&counters, 2).issued;
        assert_eq!((trap.executions, trap.passed), (71, 70));
        assert_eq!(*first.get_or_insert_with(|| counters.clone()), counters);
    }
}

#[test]
fn a_limit_that_blocks_exceed_together_ends_the_counts_at_one_block() {
    let mut first = None;
    for threads in [1, 2, 5] {
        let case = Case { grid: 200, threads, ..Case::new(MIXED, 128, |t| t * 36 % 8192) };
        let (mut device, launch) = case.prepare();
        device.limits.instructions = 30_000;
        let counted = device.count(&launch, &CountSettings::default());
        assert!(counted.outcome.stop.is_some());
        assert!((65..200).contains(&counted.counters.blocks), "{}", counted.counters.blocks);
        assert_eq!(*first.get_or_insert_with(|| counted.counters.clone()), counted.counters);
    }
}

#[test]
fn little_memory_is_said_and_changes_no_exact_count() {
    let case = Case::new("ld.global.u32 %r1, [%g];", 32, |t| t * 8192);
    let (mut device, launch) = case.prepare();
    let all = device.count(&launch, &CountSettings::default()).counters;
    let little = device.count(&launch, &CountSettings { memory: 0, ..CountSettings::default() }).counters;
    assert!(little.compulsory.incomplete && !all.compulsory.incomplete);
    assert_eq!(little.compulsory.grid_loaded, 0);
    let (mut a, b) =
        (traffic(&all, 1, Space::Global, MemoryOp::Load), traffic(&little, 1, Space::Global, MemoryOp::Load));
    assert_eq!((a.sectors, a.first_sectors, b.first_sectors), (32, 32, 0));
    a.first_sectors = 0;
    assert_eq!(a, b);
}
