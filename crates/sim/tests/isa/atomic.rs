//! `atom` and `red`.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::harness::{Column, check, eval, pairs, patterns};
use crate::sync::Grid;
use warpproof_num::compare::Extremum;
use warpproof_num::half;
use warpproof_sim::StopKind;

/// Code that sets `%p` to the address of the thread's own cell in a memory space, initialized with `%s0`.
fn cell(space: &str) -> &'static str {
    match space {
        "global" | "generic" => "ld.param.u64 %p, [in0]; add.u64 %p, %p, %o;",
        _ => {
            ".shared .align 16 .b8 cells[2048]; .reg .b32 %i; .reg .b64 %w; mov.u32 %i, %tid.x; mul.wide.u32 %w, %i, 8;
             mov.u64 %p, cells; add.u64 %p, %p, %w; st.shared.b64 [%p], %s2;"
        }
    }
}

fn bits_of(ty: &str) -> u32 {
    match ty {
        "f16x2" | "bf16x2" => 32,
        _ => ty.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap(),
    }
}

/// Checks `atom` and `red` with one operator and type in each memory; `f(old, b, shared)` is the new value.
fn operator(op: &str, ty: &str, f: impl Fn(u64, u64, bool) -> u64) {
    operator_on("sm_89", op, ty, &pairs(&patterns(17), &patterns(17)), f);
}

fn operator_on(
    target: &'static str,
    op: &str,
    ty: &str,
    (a, b): &(Column, Column),
    f: impl Fn(u64, u64, bool) -> u64,
) {
    let bits = bits_of(ty);
    let register = format!("b{bits}");
    let cut = u64::MAX >> (64 - bits);
    let threads = a.len().next_multiple_of(128);
    let pad = |column: &Column| -> Column { column.iter().cycle().take(threads).copied().collect() };
    let (a, b) = (pad(a), pad(b));
    let grid = Grid { target, blocks: u32::try_from(threads / 128).unwrap(), ..Grid::block(128) };
    let sources = [("b64", a.clone()), (register.as_str(), b.clone()), ("b64", a.clone())];
    let spaces = ["global", "shared", "generic", "shared::cta"];
    let qualifiers = ["", ".relaxed.gpu", ".release.sys", ".relaxed.cta"];
    for (space, qualifier) in spaces.into_iter().zip(qualifiers) {
        let dotted = if space == "generic" { String::new() } else { format!(".{space}") };
        let shared = space.starts_with("shared");
        let load = if shared { "shared" } else { "global" };
        let new: Column =
            a.iter().zip(&b).map(|(a, b)| a & !cut | f(a & cut, b & cut, shared) & cut).collect();
        let old: Column = a.iter().map(|a| a & cut).collect();
        let compare = |body: &str, results: &[&str], expected: &[&Column]| {
            let got = grid.run(body, results, &sources).unwrap_or_else(|stop| panic!("{body}: {stop}"));
            for t in 0..threads {
                for (got, expected) in got.iter().zip(expected) {
                    assert_eq!(
                        got[t], expected[t],
                        "{body} of {:#x} and {:#x}: {:#x} for {:#x}",
                        a[t], b[t], got[t], expected[t]
                    );
                }
            }
        };
        let body = format!(
            "{} atom{qualifier}{dotted}.{op}.{ty} %d0, [%p], %s1; ld.{load}.b64 %d1, [%p];",
            cell(space)
        );
        compare(&body, &[&register, "b64"], &[&old, &new]);
        if op != "exch" {
            let body = format!(
                "{} red{qualifier}{dotted}.{op}.{ty} [%p], %s1; ld.{load}.b64 %d0, [%p];",
                cell(space)
            );
            compare(&body, &["b64"], &[&new]);
        }
    }
}

#[test]
fn bitwise_operators() {
    for ty in ["b32", "b64"] {
        operator("and", ty, |a, b, _| a & b);
        operator("or", ty, |a, b, _| a | b);
        operator("xor", ty, |a, b, _| a ^ b);
        operator("exch", ty, |_, b, _| b);
    }
}

#[test]
fn integer_operators() {
    let s32 = |v: u64| i64::from(u32::try_from(v).unwrap().cast_signed());
    for ty in ["u32", "s32", "u64", "s64"] {
        operator("add", ty, |a, b, _| a.wrapping_add(b));
    }
    operator("min", "u32", |a, b, _| a.min(b));
    operator("max", "u64", |a, b, _| a.max(b));
    operator("min", "s32", |a, b, _| s32(a).min(s32(b)).cast_unsigned());
    operator("max", "s32", |a, b, _| s32(a).max(s32(b)).cast_unsigned());
    operator("min", "s64", |a, b, _| a.cast_signed().min(b.cast_signed()).cast_unsigned());
    operator("max", "s64", |a, b, _| a.cast_signed().max(b.cast_signed()).cast_unsigned());
    operator("inc", "u32", |a, b, _| if a >= b { 0 } else { a + 1 });
    operator("dec", "u32", |a, b, _| if a == 0 || a > b { b } else { a - 1 });
}

/// The host's sum, with the canonical NaN.
fn sum_f32(a: u64, b: u64, flush: bool) -> u64 {
    let value = |v: u64| {
        let v = f32::from_bits(u32::try_from(v).unwrap());
        if flush && v.is_subnormal() { 0f32.copysign(v) } else { v }
    };
    let sum = value(a) + value(b);
    let sum = if flush && sum.is_subnormal() { 0f32.copysign(sum) } else { sum };
    u64::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
}

#[test]
fn floating_point_addition() {
    let f32s: Column =
        [0, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0xbf80_0000, 0x3f80_0001]
            .into_iter()
            .chain([
                0x7f7f_ffff,
                0x7f80_0000,
                0xff80_0000,
                0x7fc0_0000,
                0x4049_0fdb,
                0x0080_0001,
                0x8080_0000,
            ])
            .collect();
    operator_on("sm_89", "add", "f32", &pairs(&f32s, &f32s), |a, b, shared| sum_f32(a, b, !shared));
    let f64s: Column =
        [0.0, -0.0, 1.0, -1.5, 1e300, 1e308, -1e308, 5e-324, f64::MIN_POSITIVE, f64::INFINITY, 0.1]
            .map(f64::to_bits)
            .to_vec();
    // The tests of the arithmetic cover opposite infinities.
    operator_on("sm_89", "add", "f64", &pairs(&f64s, &f64s), |a, b, _| {
        (f64::from_bits(a) + f64::from_bits(b)).to_bits()
    });
    let halves = pairs(&patterns(20), &patterns(20));
    let low = |v: u64| u16::try_from(v & 0xffff).unwrap();
    let both = |a: u64, b: u64, f: fn(u16, u16) -> u16| {
        u64::from(f(low(a), low(b))) | u64::from(f(low(a >> 16), low(b >> 16))) << 16
    };
    let f16: fn(u16, u16) -> u16 = |a, b| half::add_f16(a, b, false);
    operator_on("sm_89", "add.noftz", "f16", &halves, |a, b, _| u64::from(f16(low(a), low(b))));
    operator_on("sm_89", "add.noftz", "f16x2", &halves, |a, b, _| both(a, b, f16));
    operator_on("sm_90", "add.noftz", "bf16", &halves, |a, b, _| u64::from(half::add_bf16(low(a), low(b))));
    operator_on("sm_90", "add.noftz", "bf16x2", &halves, |a, b, _| both(a, b, half::add_bf16));
}

/// Checks `atom` and `red` of a vector in global memory; `f(old, b)` is the new value of each scalar element of `scalar` bits.
fn vector(op: &str, (count, ty): (usize, &str), scalar: u32, f: impl Fn(u64, u64) -> u64) {
    const THREADS: usize = 64;
    let bits = bits_of(ty);
    let (each, cut) = (64 / usize::try_from(bits).unwrap(), u64::MAX >> (64 - scalar));
    let (cells, operands) = (patterns(2 * THREADS), patterns(5 * THREADS)[THREADS..3 * THREADS].to_vec());
    let group = |name: &str, word: usize| {
        let names: Vec<String> = (0..each).map(|i| format!("%{name}{}", word * each + i)).collect();
        format!("{{{}}}", names.join(", "))
    };
    let list = |name: &str| {
        let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    // A thread has 16 bytes; what the vector leaves of them must stay.
    let prepare = format!(
        ".reg .b{bits} %b<16>; .reg .b{bits} %v<16>; ld.param.u64 %p, [in0]; mad.lo.u64 %p, %o, 2, %p; \
         mov.b64 {}, 0; mov.b64 {}, 0; mov.b64 {}, %s1; mov.b64 {}, %s2;",
        group("v", 0),
        group("v", 1),
        group("b", 0),
        group("b", 1)
    );
    let sources = [
        ("b64", cells.clone()),
        ("b64", operands[..THREADS].to_vec()),
        ("b64", operands[THREADS..].to_vec()),
    ];
    let bytes = count * usize::try_from(bits / 8).unwrap();
    let combine = |old: u64, b: u64, from: usize| -> (u64, u64) {
        let (mut new, mut kept) = (old, 0);
        for at in (0..64).step_by(usize::try_from(scalar).unwrap()) {
            if from + at / 8 < bytes {
                let mask = cut << at;
                new = new & !mask | (f(old >> at & cut, b >> at & cut) & cut) << at;
                kept |= old & mask;
            }
        }
        (new, kept)
    };
    let (registers, operand) = (list("v"), list("b"));
    for (space, qualifier) in [(".global", ".relaxed.gpu"), ("", ""), (".global", ".release.sys")] {
        let atom = format!(
            "{prepare} atom{qualifier}{space}.{op}.v{count}.{ty} {registers}, [%p], {operand}; mov.b64 %d0, {}; \
             mov.b64 %d1, {}; ld.global.b64 %d2, [%p]; ld.global.b64 %d3, [%p+8];",
            group("v", 0),
            group("v", 1)
        );
        let got = Grid::hopper(64)
            .run(&atom, &["b64"; 4], &sources)
            .unwrap_or_else(|stop| panic!("{atom}: {stop}"));
        let red = format!(
            "{prepare} red{qualifier}{space}.{op}.v{count}.{ty} [%p], {operand}; ld.global.b64 %d0, [%p]; \
             ld.global.b64 %d1, [%p+8];"
        );
        let reduced =
            Grid::hopper(64).run(&red, &["b64"; 2], &sources).unwrap_or_else(|stop| panic!("{red}: {stop}"));
        for t in 0..THREADS {
            let low = combine(cells[2 * t], operands[t], 0);
            let high = combine(cells[2 * t + 1], operands[THREADS + t], 8);
            let row: Vec<u64> = got.iter().map(|column| column[t]).collect();
            assert_eq!(row, [low.1, high.1, low.0, high.0], "thread {t}: {atom}");
            assert_eq!([reduced[0][t], reduced[1][t]], [low.0, high.0], "thread {t}: {red}");
        }
    }
}

#[test]
fn vectors() {
    let low = |v: u64| u16::try_from(v).unwrap();
    for count in [2, 4] {
        vector("add", (count, "f32"), 32, |a, b| sum_f32(a, b, true));
    }
    for (ty, counts) in [("f16", &[2, 4, 8][..]), ("f16x2", &[2, 4])] {
        for &count in counts {
            vector("add.noftz", (count, ty), 16, |a, b| u64::from(half::add_f16(low(a), low(b), false)));
            vector("min.noftz", (count, ty), 16, |a, b| {
                u64::from(half::minmax_f16(Extremum::Min, low(a), low(b), false, false, false))
            });
        }
    }
    for (ty, counts) in [("bf16", &[2, 4, 8][..]), ("bf16x2", &[2, 4])] {
        for &count in counts {
            vector("add.noftz", (count, ty), 16, |a, b| u64::from(half::add_bf16(low(a), low(b))));
            vector("max.noftz", (count, ty), 16, |a, b| {
                u64::from(half::minmax_bf16(Extremum::Max, low(a), low(b), false, false))
            });
        }
    }
}

#[test]
fn vectors_in_shared_memory_are_reported() {
    let body = ".shared .align 16 .b8 c[16]; .reg .f32 %f<2>; mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; \
                mov.u64 %p, c; cvta.shared.u64 %p, %p; red.add.v2.f32 [%p], {%f0, %f1};";
    assert_eq!(Grid::hopper(32).stop(body), StopKind::Bounds);
    let body = ".reg .f32 %f<2>; mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; ld.param.u64 %p, [out0]; \
                red.global.add.v2.f32 [%p+4], {%f0, %f1};";
    assert_eq!(Grid::hopper(32).stop(body), StopKind::Alignment);
}

#[test]
fn compare_and_swap() {
    let few: Column = vec![0, 1, 0xffff, 0xffff_ffff, u64::MAX, 0x1234_5678_9abc_def0];
    let (a, b) = pairs(&few, &few);
    for ty in ["b16", "b32", "b64"] {
        let cut = u64::MAX >> (64 - bits_of(ty));
        for space in ["global", "shared", "generic"] {
            let dotted = if space == "generic" { String::new() } else { format!(".{space}") };
            let load = if space == "shared" { "shared" } else { "global" };
            let body = format!(
                "{} atom.acq_rel.gpu{dotted}.cas.{ty} %d0, [%p], %s1, %s3; ld.{load}.b64 %d1, [%p];",
                cell(space)
            );
            let swap: Column = (0..36u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let sources = [("b64", a.clone()), (ty, b.clone()), ("b64", a.clone()), (ty, swap)];
            check(&body, &[ty, "b64"], &sources, |s| {
                let new = if s[0] & cut == s[1] & cut { s[3] & cut } else { s[0] & cut };
                vec![s[0] & cut, s[0] & !cut | new]
            });
        }
    }
    // An immediate of 16 bits that would be negative.
    let body = format!("{} atom.shared.cas.b16 %d0, [%p], -1, 7; ld.shared.b64 %d1, [%p];", cell("shared"));
    let sources = [("b64", vec![0xffff; 32]), ("b64", vec![0; 32]), ("b64", vec![0xffff; 32])];
    check(&body, &["b16", "b64"], &sources, |_| vec![0xffff, 7]);
}

#[test]
fn cells_of_128_bits() {
    let body = ".shared .align 16 .b8 cells[512]; .reg .b32 %a; .reg .b128 %old, %q, %r, %z; mov.u32 %a, cells; mad.lo.u32 %a, %t, 16, %a;
        mov.b128 %q, {%s0, %s1}; mov.b128 %r, {%s1, %s0}; mov.b128 %z, {%s2, %s2};
        atom.shared.exch.b128 %old, [%a], %q; mov.b128 {%d0, %d1}, %old;
        atom.shared.cas.b128 %old, [%a], %z, %r; atom.shared.cas.b128 %old, [%a], %q, %r; mov.b128 {%d2, %d3}, %old;
        ld.shared.b64 %d4, [%a]; ld.shared.b64 %d5, [%a+8];";
    let sources = [("b64", patterns(32)), ("b64", patterns(64)[32..].to_vec()), ("b64", vec![0x5555; 32])];
    let got = Grid::hopper(32).run(body, &["b64"; 6], &sources).unwrap();
    for t in 0..32 {
        let (a, b) = (sources[0].1[t], sources[1].1[t]);
        let row: Vec<u64> = got.iter().map(|column| column[t]).collect();
        assert_eq!(row, [0, 0, a, b, b, a], "thread {t}");
    }
}

#[test]
fn contended_cells_are_updated_one_lane_after_another() {
    // A ticket from a shared and from a global counter: every number occurs once.
    let body = ".shared .b32 count; .reg .b32 %c; mov.u32 %c, count; atom.shared.add.u32 %d0, [%c], 1;
        ld.param.u64 %p, [in0]; atom.global.inc.u32 %d1, [%p], 0xffffffff; atom.add.u64 %d2, [%p+8], 3;
        atom.global.add.L2::cache_hint.u32 %d3, [%p+16], %t, %o; red.global.add.L2::cache_hint.u32 [%p+16], 1, %o;";
    let types = ["b32", "b32", "b64", "b32"];
    let got = Grid { blocks: 3, ..Grid::block(96) }.run(body, &types, &[("b64", vec![0; 288])]).unwrap();
    for block in 0..3 {
        let mut tickets = got[0][block * 96..][..96].to_vec();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..96).collect::<Column>());
    }
    let mut tickets = got[1].clone();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..288).collect::<Column>());
    let mut tickets = got[2].clone();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..288).map(|i| 3 * i).collect::<Column>());
}

#[test]
fn results_may_be_thrown_away() {
    let sources = [("b64", patterns(64)), ("b32", patterns(64)), ("b64", patterns(64))];
    let body = format!("{} atom.global.add.u32 _, [%p], %s1; ld.global.b32 %d0, [%p];", cell("global"));
    let got = eval(&body, &["b32"], &sources);
    let expected: Column = patterns(64).iter().map(|v| v.wrapping_add(*v) & 0xffff_ffff).collect();
    assert_eq!(got[0], expected);
}

#[test]
fn atomics_on_memory_they_cannot_reach_are_reported() {
    assert_eq!(Grid::block(32).stop("atom.global.add.u32 %d0, [%o], 1;"), StopKind::Bounds);
    assert_eq!(
        Grid::block(32).stop("ld.param.u64 %p, [out0]; atom.global.add.u32 %d0, [%p+2], 1;"),
        StopKind::Alignment
    );
    assert_eq!(
        Grid::block(32).stop(".shared .b32 c; mov.u32 %x, c; atom.shared.add.u32 %d0, [%x+4], 1;"),
        StopKind::Bounds
    );
    let body = ".local .b32 mine; mov.u64 %p, mine; cvta.local.u64 %p, %p; atom.add.u32 %d0, [%p], 1;";
    assert_eq!(Grid::block(32).stop(body), StopKind::Bounds);
}

/// Asynchronous reductions in global memory.
#[test]
fn reductions_without_an_mbarrier() {
    for (head, ty) in [
        ("red.async.release.gpu", "u32"),
        ("red.async.release.sys.global", "s32"),
        ("red.async.mmio.release.sys", "u64"),
        ("red.async.release.gpu.global", "s64"),
    ] {
        let bits = bits_of(ty);
        let (a, b) = pairs(&patterns(16), &patterns(16));
        let register = format!("b{bits}");
        let body = format!("{} {head}.add.{ty} [%p], %s1; ld.global.b64 %d0, [%p];", cell("global"));
        let cut = u64::MAX >> (64 - bits);
        check(&body, &["b64"], &[("b64", a), (&register, b)], |row| {
            vec![row[0] & !cut | row[0].wrapping_add(row[1]) & cut]
        });
    }
}
