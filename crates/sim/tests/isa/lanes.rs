//! `shfl`, `vote`, `match`, `redux` and similar instructions.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::harness::{Column, eval};
use crate::sync::Grid;
use warpproof_num::random::SplitMix;
use warpproof_sim::StopKind;

fn random(count: usize, seed: u64) -> Column {
    let mut random = SplitMix(seed);
    (0..count).map(|_| random.next() & 0xffff_ffff).collect()
}

/// The warp-wide reference: for each lane of each warp, `f(lane, values of the warp)`.
fn by_warp(column: &[u64], f: impl Fn(usize, &[u64]) -> u64) -> Column {
    column.chunks(32).flat_map(|warp| (0..warp.len()).map(|lane| f(lane, warp)).collect::<Vec<_>>()).collect()
}

/// The manual's own pseudocode, in signed arithmetic.
fn source(mode: &str, lane: i64, b: u64, c: u64) -> Option<i64> {
    let bit = |v: u64, shift: u32| i64::try_from(v >> shift & 31).unwrap();
    let (bval, cval, segment) = (bit(b, 0), bit(c, 0), bit(c, 8));
    let max = lane & segment | cval & !segment;
    let min = lane & segment;
    let (j, good) = match mode {
        "up" => (lane - bval, lane - bval >= max),
        "down" => (lane + bval, lane + bval <= max),
        "bfly" => (lane ^ bval, lane ^ bval <= max),
        _ => (min | bval & !segment, min | bval & !segment <= max),
    };
    good.then_some(j)
}

#[test]
fn shfl_moves_values_between_lanes() {
    let a = random(512, 1);
    let b = random(512, 2);
    // Clamps and segments as compilers emit them, and arbitrary ones.
    let mut c = random(512, 3);
    for (i, c) in c.iter_mut().enumerate().filter(|(i, _)| i % 3 != 0) {
        let width = 1u64 << (i / 32 % 6);
        *c = (32 - width) << 8 | if i % 2 == 0 { 31 } else { 0 };
    }
    for mode in ["up", "down", "bfly", "idx"] {
        for body in [
            format!(
                "shfl.sync.{mode}.b32 %d0|%d1, %s0, %s1, %s2, 0xffffffff; shfl.sync.{mode}.b32 %d2, %s0, %s1, %s2, -1;"
            ),
            format!("shfl.{mode}.b32 %d0|%d1, %s0, %s1, %s2; shfl.{mode}.b32 %d2, %s0, %s1, %s2;"),
        ] {
            let sources = [("b32", a.clone()), ("b32", b.clone()), ("b32", c.clone())];
            let got = eval(&body, &["b32", "pred", "b32"], &sources);
            for t in 0..512 {
                let lane = t % 32;
                let from = source(mode, i64::try_from(lane).unwrap(), b[t], c[t]);
                let wanted = from.map_or(a[t], |j| a[t - lane + usize::try_from(j).unwrap()]);
                assert_eq!(
                    (got[0][t], got[1][t], got[2][t]),
                    (wanted, u64::from(from.is_some()), wanted),
                    "{body} thread {t}"
                );
            }
        }
    }
}

#[test]
fn shfl_into_its_own_source() {
    let a = random(256, 4);
    let got =
        eval("mov.u32 %d0, %s0; shfl.sync.idx.b32 %d0, %d0, 5, 31, -1;", &["b32"], &[("b32", a.clone())]);
    assert_eq!(got[0], by_warp(&a, |_, warp| warp[5]));
}

#[test]
fn shfl_under_a_branch_and_after_it() {
    // A reduction by halves on one side of a branch, with the mask of that side; then lanes of both sides together.
    let body = ".reg .pred %q; .reg .b32 %v; mov.u32 %d0, %t;
        setp.ge.u32 %q, %lane, 16; @%q bra HIGH;
        shfl.sync.bfly.b32 %v, %d0, 8, 31, 0xffff; add.u32 %d0, %d0, %v;
        shfl.sync.bfly.b32 %v, %d0, 4, 31, 0xffff; add.u32 %d0, %d0, %v;
        shfl.sync.bfly.b32 %v, %d0, 2, 31, 0xffff; add.u32 %d0, %d0, %v;
        shfl.sync.bfly.b32 %v, %d0, 1, 31, 0xffff; add.u32 %d0, %d0, %v;
        bra MEET;
        HIGH: mul.lo.u32 %d0, %d0, 2;
        MEET: shfl.sync.bfly.b32 %v, %d0, 16, 31, 0xffffffff; mad.lo.u32 %d0, %d0, 1000, %v;";
    let got = Grid::block(32).column(body);
    let (low, high) = (120, |lane: u64| 2 * lane);
    for (lane, value) in (0..32u64).zip(got) {
        let expected = if lane < 16 { low * 1000 + high(lane + 16) } else { high(lane) * 1000 + low };
        assert_eq!(value, expected, "lane {lane}");
    }
}

#[test]
fn groups_of_one_warp_go_on_without_each_other() {
    // One instruction, two groups: the low half arrives long after the high half, which must not wait for it, because the
    // low half waits for a flag that the high half sets after its shuffle.
    let body =
        ".shared .b32 flag; .reg .pred %q; .reg .b32 %f, %m, %v; mov.u32 %f, flag; mov.u32 %m, 0xffff0000;
        setp.ge.u32 %q, %lane, 16; @%q bra SHUFFLE;
        mov.u32 %m, 0xffff;
        setp.ne.u32 %q, %lane, 3; @%q bra SHUFFLE;
        SPIN: ld.volatile.shared.u32 %v, [%f]; setp.eq.u32 %q, %v, 0; @%q bra SPIN;
        SHUFFLE: shfl.sync.bfly.b32 %d0, %t, 1, 31, %m;
        st.volatile.shared.u32 [%f], 1;";
    assert_eq!(Grid::block(32).column(body), (0..32).map(|t| t ^ 1).collect::<Column>());
}

#[test]
fn exited_lanes_count_as_arrived_and_absent_callers_are_reported() {
    let body = ".reg .pred %q; setp.ge.u32 %q, %lane, 20; @%q exit; redux.sync.add.u32 %d0, %t, 0xffffffff;";
    assert_eq!(
        Grid::block(32).column(body),
        (0..32).map(|t| if t < 20 { 190 } else { 0 }).collect::<Column>()
    );
    for instruction in [
        "shfl.sync.idx.b32 %d0, %t, 0, 31, 0xfff0;",
        "vote.sync.ballot.b32 %d0, %q, 0xfff0;",
        "redux.sync.add.u32 %d0, %t, 0xfff0;",
        "match.any.sync.b32 %d0, %t, 0xfff0;",
    ] {
        let body = format!(".reg .pred %q; setp.ge.u32 %q, %lane, 20; {instruction}");
        assert_eq!(Grid::block(32).stop(&body), StopKind::Lanes, "{instruction}");
    }
    // Lanes that never arrive: the two sides of a branch wait for each other in different shuffles.
    let body =
        ".reg .pred %q; setp.ge.u32 %q, %lane, 20; @%q bra A; shfl.sync.idx.b32 %d0, %t, 0, 31, -1; bra B;
        A: shfl.sync.bfly.b32 %d0, %t, 0, 31, -1; B:";
    assert_eq!(Grid::block(32).stop(body), StopKind::Deadlock);
}

/// The result of a vote.
type Rule = fn(&[u64]) -> bool;

#[test]
fn votes() {
    // Warps of all false, all true, one false, one true, and random predicates.
    let mut p = random(512, 5);
    for (i, p) in p.iter_mut().enumerate() {
        *p = match i / 32 {
            0 => 0,
            1 => 1,
            2 => u64::from(i % 32 != 7),
            3 => u64::from(i % 32 == 9),
            _ => *p & 1,
        };
    }
    let masks: Column = (0..512u64).map(|t| if t % 32 < 12 { 0xfff } else { 0xffff_f000 }).collect();
    let group = |lane: usize, warp: &[u64]| -> Vec<u64> {
        if lane < 12 { warp[..12].to_vec() } else { warp[12..].to_vec() }
    };
    let rules: [(&str, Rule); 3] = [
        ("all", |p| p.iter().all(|p| *p == 1)),
        ("any", |p| p.contains(&1)),
        ("uni", |p| p.iter().all(|q| *q == p[0])),
    ];
    for (mode, rule) in rules {
        let body = format!(
            "vote.sync.{mode}.pred %d0, %s0, %s1; vote.sync.{mode}.pred %d1, !%s0, 0xffffffff; vote.{mode}.pred %d2, %s0;"
        );
        let got = eval(&body, &["pred", "pred", "pred"], &[("pred", p.clone()), ("b32", masks.clone())]);
        let inverse: Column = p.iter().map(|p| 1 - p).collect();
        assert_eq!(got[0], by_warp(&p, |lane, warp| u64::from(rule(&group(lane, warp)))), "{mode}");
        assert_eq!(got[1], by_warp(&inverse, |_, warp| u64::from(rule(warp))), "{mode}");
        assert_eq!(got[2], by_warp(&p, |_, warp| u64::from(rule(warp))), "{mode}");
    }
    let ballot = |warp: &[u64]| warp.iter().enumerate().fold(0, |bits, (lane, p)| bits | p << lane);
    let body =
        "vote.sync.ballot.b32 %d0, %s0, %s1; vote.sync.ballot.b32 %d1, !%s0, -1; vote.ballot.b32 %d2, %s0;";
    let got = eval(body, &["b32", "b32", "b32"], &[("pred", p.clone()), ("b32", masks)]);
    assert_eq!(got[0], by_warp(&p, |lane, warp| ballot(warp) & if lane < 12 { 0xfff } else { 0xffff_f000 }));
    assert_eq!(got[1], by_warp(&p, |_, warp| !ballot(warp) & 0xffff_ffff));
    assert_eq!(got[2], by_warp(&p, |_, warp| ballot(warp)));
}

#[test]
fn votes_without_sync_see_the_active_lanes() {
    let body = ".reg .pred %q; .reg .b32 %m; setp.lt.u32 %q, %lane, 10; mov.u32 %d0, 0;
        @%q activemask.b32 %d0; @!%q vote.ballot.b32 %d0, %q; @%q vote.ballot.b32 %m, %q; @%q mad.lo.u32 %d0, %m, 2, %d0;";
    let expected = (0..32).map(|lane| if lane < 10 { 0x3ff * 3 } else { 0 }).collect::<Column>();
    assert_eq!(Grid::block(32).column(body), expected);
}

#[test]
fn matches_compare_values_across_lanes() {
    let mut a: Column = random(512, 6).iter().map(|v| (v % 3) << 40 | v >> 8 & 1).collect();
    a[32..64].fill(7);
    a[64..96].fill(7 << 40);
    a[70] = 1;
    let equal = |lane: usize, warp: &[u64], cut: u64| {
        warp.iter().enumerate().fold(0, |bits, (i, v)| bits | u64::from(v & cut == warp[lane] & cut) << i)
    };
    for (ty, cut) in [("b32", 0xffff_ffff), ("b64", u64::MAX)] {
        let body = format!(
            "match.any.sync.{ty} %d0, %s0, -1; match.all.sync.{ty} %d1|%d2, %s0, -1; match.all.sync.{ty} %d3, %s0, -1;"
        );
        let got = eval(&body, &["b32", "b32", "pred", "b32"], &[(ty, a.clone())]);
        assert_eq!(got[0], by_warp(&a, |lane, warp| equal(lane, warp, cut)));
        let all = |lane, warp: &[u64]| if equal(lane, warp, cut) == 0xffff_ffff { 0xffff_ffff } else { 0 };
        assert_eq!(got[1], by_warp(&a, all));
        assert_eq!(got[2], by_warp(&a, |lane, warp| all(lane, warp) & 1));
        assert_eq!(got[3], got[1]);
    }
    // Within the groups of two masks.
    let body = ".reg .pred %q; .reg .b32 %m, %v; setp.lt.u32 %q, %lane, 8; selp.u32 %m, 0xff, 0xffffff00, %q; selp.u32 %v, 1, %lane, %q;
        match.any.sync.b32 %d0, %v, %m; match.all.sync.b32 %v, %v, %m; add.u32 %d0, %d0, %v;";
    let expected = (0..32u64).map(|lane| if lane < 8 { 0x1fe } else { 1 << lane }).collect::<Column>();
    assert_eq!(Grid::block(32).column(body), expected);
}

/// How two lanes are combined.
type Fold = fn(u32, u32) -> u32;

#[test]
fn redux_combines_the_lanes_of_a_mask() {
    let a = random(512, 7);
    let masks: Column = (0..512u64).map(|t| if t % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa }).collect();
    let operators: [(&str, Fold); 9] = [
        ("add.u32", u32::wrapping_add),
        ("add.s32", u32::wrapping_add),
        ("min.u32", u32::min),
        ("max.u32", u32::max),
        ("min.s32", |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned()),
        ("max.s32", |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned()),
        ("and.b32", |a, b| a & b),
        ("or.b32", |a, b| a | b),
        ("xor.b32", |a, b| a ^ b),
    ];
    for (op, fold) in operators {
        let body = format!("redux.sync.{op} %d0, %s0, -1; redux.sync.{op} %d1, %s0, %s1;");
        let got = eval(&body, &["b32", "b32"], &[("b32", a.clone()), ("b32", masks.clone())]);
        let over = |lanes: &mut dyn Iterator<Item = &u64>| {
            u64::from(lanes.map(|v| u32::try_from(*v).unwrap()).reduce(fold).unwrap())
        };
        assert_eq!(got[0], by_warp(&a, |_, warp| over(&mut warp.iter())), "{op}");
        assert_eq!(
            got[1],
            by_warp(&a, |lane, warp| over(&mut warp.iter().skip(lane % 2).step_by(2))),
            "{op}"
        );
    }
}

#[test]
fn elect_names_the_lowest_lane() {
    let body = ".reg .pred %q, %r; .reg .b32 %m, %v; setp.lt.u32 %q, %lane, 8; selp.u32 %m, 0xff, 0xffffff00, %q;
        elect.sync %d0|%r, %m; selp.u32 %v, 100, 0, %r; add.u32 %d0, %d0, %v; elect.sync _|%r, -1; @%r add.u32 %d0, %d0, 1000;";
    let expected = (0..32).map(|lane| match lane {
        0 => 1100,
        1..8 => 0,
        8 => 108,
        _ => 8,
    });
    assert_eq!(Grid::hopper(32).column(body), expected.collect::<Column>());
}
