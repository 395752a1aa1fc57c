//! Explanations of rungs of the attention ladder. They need NVIDIA's compiler.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use warpproof_explain::{Explanation, Offer, Scheduled, text};
use warpproof_kernels::ladder::rung;
use warpproof_kernels::problem::Shape;
use warpproof_ladder::explain_rung;
use warpproof_model::{Device, Resource};
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

fn explained(name: &str, shape: &Shape) -> Explanation {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12));
    let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let l4 = Device::named("l4").unwrap();
    let mut all = explain_rung(rung(name).unwrap(), shape, l4, &toolchain, true).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The stage-2 kernel of the project's history: 2 KB less shared memory was expected to make it faster.
#[test]
fn toolchain_two_kilobytes_less_change_nothing_for_h2() {
    let h2 = explained("h2", &Shape::equal(2, 8, 256, 64));
    assert_eq!(h2.subject.block, [128, 1, 1]);
    assert_eq!(h2.subject.grid.iter().product::<u32>(), 128);
    assert!((64..=96).contains(&h2.subject.registers), "{} registers", h2.subject.registers);
    let shared = h2.subject.static_shared + h2.subject.dynamic_shared;
    assert!((36_864..=38_912).contains(&shared), "{shared} bytes");
    let occupancy = &h2.predicted.bounds.occupancy;
    assert_eq!((occupancy.blocks_per_sm, occupancy.warps), (2, 8));
    assert!((occupancy.percent - 100.0 / 6.0).abs() < 1e-9);
    assert_eq!(occupancy.limiters, [Resource::SharedMemory]);
    let offer = |which: Offer| h2.predicted.purchases.iter().find(|one| one.offer == which).unwrap();
    let less = offer(Offer::LessShared);
    assert_eq!(less.verdict, "nothing");
    assert_eq!(less.blocks_per_sm, (2, 2));
    assert!(less.cold.gain().abs() < f64::EPSILON);
    assert!(less.warm.gain().abs() < f64::EPSILON);
    // Registers do not limit it, so halving them has no effect either.
    assert_eq!(offer(Offer::HalveRegisters).verdict, "nothing");
    let text = text::text(&h2, false);
    assert!(text.contains("16.7 %: 2 blocks per SM, 8 of 48 warps"), "{text}");
    assert!(text.contains("limited by      shared memory\n"), "{text}");
    assert!(text.contains("2,048 bytes less of shared memory\n      nothing"), "{text}");
}

/// A change with an effect: the predicted gain equals the conflicts that the counters report.
#[test]
fn toolchain_conflicts_that_are_counted_are_offered() {
    let h0 = explained("h0", &Shape::equal(1, 1, 64, 64));
    let lost: u64 = h0.conflicts.iter().map(|one| one.wavefronts - one.ideal).sum();
    let flat = |name: &str| h0.counted.totals.get(name).copied().unwrap_or(0);
    assert_eq!(lost, flat("shared.ld.conflicts") + flat("shared.st.conflicts"));
    // The lines contain every counted execution exactly once.
    let lines: u64 = h0.lines.iter().map(|line| line.counted.executions).sum();
    assert_eq!(lines, flat("executions"));
    let shares: f64 = h0.lines.iter().map(|line| line.share).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    assert_eq!(h0.predicted.purchases.len(), 5);
}

/// A schedule includes everything that the bounds count, so it is never shorter than one of them.
#[test]
fn toolchain_no_schedule_of_a_rung_is_below_a_bound() {
    for name in ["h0", "n2", "n3", "n4"] {
        let one = explained(name, &Shape::equal(1, 2, 128, 64));
        let Scheduled::Known(timed) = &one.predicted.schedule else { panic!("{name} has no schedule") };
        for (run, shares) in
            [(&timed.cold, &one.predicted.bounds.cold), (&timed.warm, &one.predicted.bounds.warm)]
        {
            for share in shares {
                assert!(run.us >= share.us, "{name}: {} us, but {share:?}", run.us);
            }
            // Slots that issued, that were lost, and those of sub-cores that had ended, add up to all slots.
            let lost: f64 = run.lost.iter().map(|stall| stall.share).sum();
            assert!(run.issue_active + lost <= 1.0 + 1e-9, "{name}: {run:?}");
        }
    }
}

/// The fast rungs do no more multiply-adds than attention needs, without bank conflicts or uncoalesced
/// accesses.
#[test]
fn toolchain_the_fast_rungs_do_the_least() {
    for (name, heads, rows, dim) in [
        ("n5", 16, 256, 64),
        ("n6", 16, 256, 64),
        ("n7", 16, 256, 64),
        ("n8", 8, 1024, 64),
        ("n8", 8, 512, 128),
        ("n9", 8, 2048, 64),
    ] {
        let one = explained(name, &Shape::equal(1, heads, rows, dim));
        let at = format!("{name}, {heads} heads of {rows} × {dim}");
        let least = u64::try_from(2 * heads * rows * rows * dim).unwrap();
        let multiplied: u64 = one.counted.work.tensor.iter().map(|(_, fma)| fma).sum();
        assert_eq!(multiplied, least, "{at}");
        assert!(one.conflicts.is_empty(), "{at}: {:?}", one.conflicts);
        assert!(one.uncoalesced.is_empty(), "{at}: {:?}", one.uncoalesced);
        assert_eq!(one.subject.spills, 0, "{at}");
    }
}
