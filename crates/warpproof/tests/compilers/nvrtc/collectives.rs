//! Collective operations: groups, atomics, barriers, votes and shuffles.

use super::Check;
use crate::data::{Data, Type};
use crate::launch::Launched;
use crate::reference::{equal, exact, same_bits};

pub(super) fn cooperative_groups() -> Vec<Check> {
    vec![
        ("cg_block_sum", |run| equal(run, "out", [run.integers("in").iter().sum()])),
        ("cg_tile_sums", |run| {
            let input = run.integers("in");
            equal(run, "by32", input.chunks(32).map(|tile| tile.iter().sum()));
            equal(run, "by8", input.chunks(8).map(|tile| *tile.iter().max().unwrap()));
        }),
        ("cg_filter", |run| {
            let mut positive: Vec<i64> = run.integers("in").into_iter().filter(|x| *x > 0).collect();
            equal(run, "count", [positive.len() as i64]);
            let out = run.after("out").integers();
            let (kept, rest) = out.split_at(positive.len());
            let mut kept = kept.to_vec();
            kept.sort_unstable();
            positive.sort_unstable();
            assert_eq!(kept, positive);
            assert_eq!(
                rest,
                &run.integers("out")[kept.len()..],
                "beyond the kept elements nothing is written"
            );
        }),
        ("cg_tile_scan", |run| {
            let input = run.integers("in");
            equal(run, "out", (0..64).map(|i| input[i / 16 * 16..=i].iter().sum()));
        }),
        ("cg_labels", |run| {
            let input = run.integers("in");
            let peers = |i: usize| input[i / 32 * 32..][..32].iter().filter(|x| **x == input[i]).count();
            equal(run, "out", (0..64).map(|i| peers(i) as i64));
        }),
    ]
}

/// A result that depends on the order of threads, but is one of these.
fn one_of(run: &Launched<'_>, name: &str, index: usize, allowed: std::ops::RangeInclusive<i64>) -> i64 {
    let value = run.after(name).integers()[index];
    assert!(allowed.contains(&value), "{}: {name}[{index}] = {value}", run.case.kernel);
    value
}

pub(super) fn atomics() -> Vec<Check> {
    vec![
        ("atomics_32", |run| {
            let exchanged = one_of(run, "cells", 11, 0..=255);
            let all = 0xffff_ffff;
            equal(
                run,
                "cells",
                [256, -(0..256).sum::<i64>(), 255, 0, 0, all, 0, 56, 44, 127, -128, exchanged],
            );
            let mut seen = run.after("seen").integers();
            seen.sort_unstable();
            assert_eq!(seen, (0..256).collect::<Vec<_>>());
        }),
        ("atomics_64", |run| {
            let exchanged = one_of(run, "cells", 6, 0..=255);
            equal(run, "cells", [(0..256).map(|i| i * i).sum(), 255 << 40, 0, -1, 0, 0, exchanged, -200]);
        }),
        ("atomics_float", |run| {
            exact(run, "f", [(0..256).map(f64::from).sum()]);
            exact(run, "d", [(0..256).map(|i| f64::from(i) * 0.5).sum()]);
            exact(
                run,
                "h",
                [(0..256).map(|i| f64::from(i % 4)).sum(), (0..256).map(|i| f64::from(i % 3)).sum()],
            );
        }),
        ("atomics_shared", |run| {
            // The first to add found 0; if it was thread 0, which adds 0, then so did the second.
            let found_zero = one_of(run, "out", 5, 1..=2);
            let xor = (0..256).fold(0, |x, t| x ^ (t * 7));
            equal(run, "out", [(0..256).sum(), 255 * 3, 0x1ff, xor, 256 % 10, found_zero]);
        }),
        ("atomics_cas", |run| {
            equal(run, "lock", [0]);
            equal(run, "counter", [256]);
            // The same factor each time: the order of threads does not matter.
            exact(run, "product", [f64::from((0..256).fold(1.0f32, |p, _| p * 1.01))]);
            equal(run, "halves", [128, 128]);
        }),
    ]
}

pub(super) fn atomic_ref() -> Vec<Check> {
    vec![
        ("counters", |run| equal(run, "out", [256, 255, 256])),
        ("message", |run| equal(run, "out", (0..32).map(|i| i * 3))),
    ]
}

pub(super) fn barriers() -> Vec<Check> {
    vec![
        ("split_barrier", |run| {
            let input = run.floats("in");
            exact(run, "out", (0..256).map(|i| input[i / 128 * 128 + (i + 1) % 128] * 2.0));
        }),
        ("barrier_copy", |run| exact(run, "out", run.floats("in").into_iter().rev())),
        // A thread may read after the others of the last round have all added: no thread adds after the
        // last wait.
        ("parity_rounds", |run| equal(run, "out", [5 * 128; 128])),
        ("primitives", |run| {
            let input = run.floats("in");
            exact(run, "out", (0..128).map(|t| input[(t + 32) % 128]));
        }),
    ]
}

pub(super) fn named_barriers() -> Vec<Check> {
    vec![
        ("votes", |run| {
            let positive = run.integers("in").into_iter().filter(|x| *x > 0).count() as i64;
            equal(run, "out", [positive, i64::from(positive == 128), i64::from(positive > 0)]);
        }),
        ("producer", |run| equal(run, "out", (0..128).map(|t| 2 * t))),
        ("half_warp", |run| equal(run, "out", run.integers("in").chunks(16).map(|half| half.iter().sum()))),
    ]
}

/// The mask of the lanes for which `holds` is true.
fn ballot(holds: impl Fn(usize) -> bool) -> i64 {
    (0..32).filter(|lane| holds(*lane)).map(|lane| 1 << lane).sum()
}

pub(super) fn warp_votes() -> Vec<Check> {
    vec![
        ("vote_and_match", |run| {
            let x = run.integers("in");
            let mut wanted = vec![ballot(|lane| x[lane] > 1); 32];
            wanted.extend([1; 32]);
            wanted.extend([i64::from(x.contains(&3)); 32]);
            wanted.extend((0..32).map(|lane| ballot(|other| x[other] == x[lane])));
            // All ones and agreement, which is 1: the sum wraps around.
            wanted.extend([0; 32]);
            let odd_twos = ballot(|lane| x[lane] == 2 && lane % 2 == 1);
            wanted.extend((0..32).map(|lane| if x[lane] == 2 { odd_twos } else { 0 }));
            equal(run, "out", wanted);
        }),
        ("shuffles", |run| {
            let from = |source: fn(i64) -> i64| (0..32).map(source);
            let wanted = from(|_| 5)
                .chain(from(|lane| if lane < 3 { lane } else { lane - 3 }))
                .chain(from(|lane| if lane < 29 { lane + 3 } else { lane }))
                .chain(from(|lane| lane ^ 8))
                .chain(from(|lane| lane / 8 * 8 + (lane + 1) % 8))
                .chain(from(|lane| if lane % 16 == 0 { lane } else { lane - 1 }));
            equal(run, "out", wanted);
        }),
        ("shuffle_wide", |run| exact(run, "out", run.floats("in").into_iter().rev())),
        ("compact", |run| {
            let (mut wanted, mut counts) = (Vec::new(), Vec::new());
            for warp in run.integers("in").chunks(32) {
                let mut kept: Vec<i64> = warp.iter().copied().filter(|x| *x > 0).collect();
                counts.push(kept.len() as i64);
                kept.resize(32, 0);
                wanted.extend(kept);
            }
            equal(run, "out", wanted);
            equal(run, "count", counts);
        }),
    ]
}

pub(super) fn redux() -> Vec<Check> {
    vec![("redux", |run| {
        let input = run.integers("in");
        let words: Vec<u32> = input.iter().map(|x| *x as u32).collect();
        let reductions: [fn(&[u32]) -> u32; 8] = [
            |w| w.iter().fold(0, |a, b| a.wrapping_add(*b)),
            |w| w.iter().map(|x| *x as i32).min().unwrap() as u32,
            |w| w.iter().map(|x| *x as i32).max().unwrap() as u32,
            |w| *w.iter().min().unwrap(),
            |w| *w.iter().max().unwrap(),
            |w| w.iter().fold(u32::MAX, |a, b| a & b),
            |w| w.iter().fold(0, |a, b| a | b),
            |w| w.iter().fold(0, |a, b| a ^ b),
        ];
        let mut wanted: Vec<u64> = Vec::new();
        for reduce in reductions {
            wanted.extend((0..64).map(|i| u64::from(reduce(&words[i / 32 * 32..][..32]))));
        }
        let same_parity = |i: usize| (i / 32 * 32..).take(32).filter(move |j| j % 2 == i % 2);
        wanted.extend((0..64).map(|i| same_parity(i).map(|j| input[j]).sum::<i64>() as u64));
        same_bits("redux", run.after("out"), &Data::of_bits(Type::I32, wanted));
    })]
}
