//! Counters of a sample of the blocks: exact where blocks are alike, within their margins where they are not, and refused
//! where blocks depend on each other.

use crate::Case;
use warpproof_count::{CountLaunch, CountSettings, Counted, Counters, SampleSize};
use warpproof_sim::{Blame, StopKind};

fn sampled(case: &Case<'_>, size: SampleSize) -> Counted {
    let (mut device, launch) = case.prepare();
    device.count(&launch, &CountSettings { sample: Some(size), ..CountSettings::default() })
}

/// The counters of a sample, and of all blocks.
fn both(case: &Case<'_>, blocks: u64) -> (Counters, Counters) {
    let counted = sampled(case, SampleSize::Blocks(blocks));
    assert!(counted.outcome.stop.is_none(), "{:?}", counted.outcome.stop);
    let sampling = counted.counters.sampled.as_ref().unwrap();
    assert_eq!((sampling.blocks, sampling.of), (blocks, u64::from(case.grid)));
    assert_eq!(counted.counters.blocks, u64::from(case.grid));
    // Fewer instructions were executed than are reported.
    assert!(counted.outcome.instructions < counted.counters.totals.issued.executions);
    (counted.counters, case.count())
}

/// Each thread adds one to an element of its block; `%off` is four times the thread's number.
const ADD: &str = "mul.wide.u32 %d1, %cta, 512;\nadd.u64 %d1, %g, %d1;\nld.global.u32 %r1, [%d1];\nadd.u32 %r1, %r1, 1;\n\
    st.shared.u32 [%s], %r1;\nbar.sync 0;\nld.shared.u32 %r2, [%s];\nst.global.u32 [%d1], %r2;";

#[test]
fn equal_blocks_are_counted_exactly() {
    let case = Case { grid: 500, ..Case::new(ADD, 128, |t| 4 * t) };
    for blocks in [4, 7, 64, 300, 499] {
        let (mut sample, full) = both(&case, blocks);
        let sampling = sample.sampled.take().unwrap();
        assert!(sampling.margins.is_empty(), "{:?}", sampling.margins);
        // Blocks share the table of offsets, 32 sectors, which is accessed completely. Of the 16,384 sectors of the other
        // buffer, each has 16 of its own.
        assert_eq!((full.compulsory.grid_loaded, full.compulsory.grid_stored), (32 + 8000, 8000));
        assert_eq!(sampling.at_least.loaded, 32 + 16 * blocks);
        assert_eq!(sampling.at_least.stored, 16 * blocks);
        assert_eq!(sample, full);
    }
}

#[test]
fn the_last_block_is_always_counted() {
    // The last block does less: all of its threads leave early.
    let body = format!("setp.eq.u32 %p1, %cta, 499;\n@%p1 ret;\n{ADD}");
    let (sample, full) = both(&Case { grid: 500, ..Case::new(&body, 128, |t| 4 * t) }, 16);
    assert_eq!(sample.totals, full.totals);
    assert_eq!(sample.instructions, full.instructions);
}

#[test]
fn borders_of_a_grid_are_counted_exactly() {
    // Blocks at the end of a row or a column loop once more for each border.
    let body = "mov.u32 %r1, %nctaid.x;\nsub.u32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r1, %cta;\n@%p1 add.u32 %r2, %r2, 1;\n\
        @!%p1 bra DOWN;\nadd.u32 %r3, %r3, 1;\nDOWN:\nmov.u32 %r4, %ctaid.y;\nsetp.eq.u32 %p2, %r4, 29;\n\
        @!%p2 bra END;\nadd.u32 %r5, %r5, 1;\nadd.u32 %r5, %r5, 1;\nEND:";
    let case = Case::new(body, 32, |_| 0);
    let count = |sample| {
        let (mut device, launch) = case.prepare();
        device.count(&launch.grid((20, 30)), &CountSettings { sample, ..CountSettings::default() }).counters
    };
    let (sample, full) = (count(Some(SampleSize::Blocks(28))), count(None));
    assert_eq!(sample.sampled.as_ref().unwrap().strata.len(), 9);
    assert_eq!(sample.totals, full.totals);
    assert!(sample.sampled.unwrap().margins.is_empty());
}

/// Each block loops as often as its number.
const TRIANGLE: &str = "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nld.global.u32 %r2, [%g];\nsetp.le.u32 %p1, %r1, %cta;\n\
    @%p1 bra LOOP;\nst.global.u32 [%g], %r2;";

#[test]
fn margins_cover_the_truth_of_unequal_blocks() {
    let case = Case { grid: 600, ..Case::new(TRIANGLE, 64, |t| 4 * t) };
    let mut widest = f64::MAX;
    for blocks in [8, 16, 40, 120] {
        let (sample, full) = both(&case, blocks);
        let sampling = sample.sampled.as_ref().unwrap();
        let (estimates, truths) = (sample.totals.flat(), full.totals.flat());
        assert!(estimates.keys().eq(truths.keys()));
        for (name, truth) in &truths {
            let margin = sampling.margins.get(name).copied().unwrap_or(0);
            assert!(estimates[name].abs_diff(*truth) <= margin, "{blocks} {name}: {truth} ± {margin}");
        }
        // A margin that covers everything would be worthless: it shrinks with the sample.
        let percent = sampling.percent("executions", sample.totals.issued.executions).unwrap();
        assert!(percent > 0.0 && percent < widest, "{blocks}: {percent}");
        widest = percent;
        // The store is executed once by each warp of each block.
        assert!(!sampling.margins.contains_key("opcode.st.global.u32"));
        // Sums over instructions still agree.
        let sum: u64 = sample.instructions.iter().map(|one| one.issued.executions).sum();
        assert_eq!(sum, sample.totals.issued.executions);
        let branches = sample.totals.branches;
        let loops = sample.totals.opcodes["bra"].executions;
        assert_eq!(branches.taken + branches.not_taken + branches.divergent, loops);
    }
    assert!(widest < 15.0, "{widest}");
}

#[test]
fn any_number_of_threads_counts_the_same() {
    for talk in ["", "\nred.global.add.u32 [%data], 1;"] {
        let body = format!("{TRIANGLE}{talk}");
        let case = |threads| Case { grid: 900, threads, ..Case::new(&body, 64, |t| 36 * t) };
        let first = sampled(&case(1), SampleSize::Millionths(150_000)).counters;
        assert_eq!(first.sampled.as_ref().unwrap().blocks, 135);
        for threads in [2, 8, 1, 8] {
            assert_eq!(sampled(&case(threads), SampleSize::Millionths(150_000)).counters, first);
        }
    }
}

#[test]
fn a_sampled_launch_leaves_memory_as_it_is() {
    let body = format!("{ADD}\nred.global.add.u32 [%g], 1;");
    let case = Case { grid: 100, ..Case::new(&body, 128, |t| 4 * t) };
    let (mut device, launch) = case.prepare();
    let contents = |device: &warpproof_sim::Device| -> Vec<Vec<u8>> {
        device.heap().allocations().iter().map(|one| one.bytes.to_vec()).collect()
    };
    let before = contents(&device);
    let settings = CountSettings { sample: Some(SampleSize::Blocks(70)), ..CountSettings::default() };
    assert!(device.count(&launch, &settings).outcome.stop.is_none());
    assert_eq!(contents(&device), before);
    assert!(device.run(&launch).stop.is_none());
    assert_ne!(contents(&device), before);
}

#[test]
fn the_hottest_address_has_limits() {
    // Every warp adds 32 lanes to one word; ptxas merges them into one operation.
    let (sample, full) =
        both(&Case { grid: 200, ..Case::new("red.global.add.u32 [%data], 1;", 64, |_| 0) }, 20);
    assert_eq!(full.hottest.operations, 400);
    assert_eq!((sample.hottest.operations, sample.hottest.incomplete), (40, true));
    assert_eq!(sample.sampled.unwrap().hottest_at_most, 400);
    assert_eq!(sample.totals, full.totals);
}

#[test]
fn a_sample_of_all_blocks_is_the_launch() {
    let case = Case { grid: 9, ..Case::new(ADD, 128, |t| 4 * t) };
    for size in [SampleSize::Blocks(9), SampleSize::Blocks(1000), SampleSize::Millionths(1_000_000)] {
        assert_eq!(sampled(&case, size).counters, case.count());
    }
    // Blocks that communicate are refused even so: the answer must not depend on the size of the grid.
    let body = "atom.global.add.u32 %r1, [%data], 1;\nst.global.u32 [%g], %r1;";
    let counted = sampled(&Case { grid: 2, ..Case::new(body, 32, |_| 0) }, SampleSize::Blocks(64));
    assert!(counted.outcome.stop.is_some());
}

#[test]
fn blocks_that_depend_on_each_other_are_refused() {
    let used = "atom.global.add.u32 %r1, [%data], 1;\nst.global.u32 [%g], %r1;";
    for (body, target, cluster, cooperative, why) in [
        (used, "sm_89", 1, false, "may communicate"),
        ("ld.volatile.global.u32 %r1, [%g];", "sm_89", 1, false, "may communicate"),
        (ADD, "sm_89", 1, true, "cooperative"),
        (ADD, "sm_90", 2, false, "cluster"),
    ] {
        let case = Case { target, grid: 64, ..Case::new(body, 32, |t| 4 * t) };
        let (mut device, launch) = case.prepare();
        let launch = launch.cooperative(cooperative).cluster(cluster);
        let settings = CountSettings { sample: Some(SampleSize::Blocks(8)), ..CountSettings::default() };
        let counted = device.count(&launch, &settings);
        let stop = counted.outcome.stop.unwrap();
        assert_eq!((stop.blame, stop.kind, stop.exit_code()), (Blame::Gap, StopKind::Unsupported, 3));
        assert!(stop.sentence.contains(why), "{}", stop.sentence);
        assert_eq!(counted.counters, Counters::default());
    }
}

#[test]
fn a_sample_that_stops_says_so() {
    // The last block is in every sample.
    let body = "setp.eq.u32 %p1, %cta, 199;\n@%p1 trap;\nadd.u32 %r1, %t, 1;";
    let counted = sampled(&Case { grid: 200, ..Case::new(body, 32, |_| 0) }, SampleSize::Blocks(10));
    assert_eq!(counted.outcome.stop.unwrap().block, Some([199, 0, 0]));
    // A sample has a maximum.
    let huge = Case { grid: 1 << 30, ..Case::new(body, 32, |_| 0) };
    let stop = sampled(&huge, SampleSize::Millionths(500_000)).outcome.stop.unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Limit, StopKind::Limit));
}
