//! Control flow: calls, recursion, calls through pointers, printf, assertions, divergence, switches, hand-written PTX.

use rustc_apfloat::Round;

use super::Check;
use crate::data::{Type, decode, encode};
use crate::launch::Launched;
use crate::reference::{close, equal, exact, gamma};

fn ackermann(m: i64, n: i64) -> i64 {
    match (m, n) {
        (0, _) => n + 1,
        (_, 0) => ackermann(m - 1, 1),
        _ => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

pub(super) fn device_functions() -> Vec<Check> {
    vec![
        ("call_structs", |run| {
            let cross = |v: &[f64]| {
                let component = |p: f64, q: f64| (2.0 * (p - q), 2.0 * gamma(2) * (p.abs() + q.abs()));
                [
                    component(2.0 * v[2], 3.0 * v[1]),
                    component(3.0 * v[0], 1.0 * v[2]),
                    component(1.0 * v[1], 2.0 * v[0]),
                ]
            };
            close(run, "out", run.floats("in").chunks(3).flat_map(cross));
        }),
        ("recursive_fibonacci", |run| {
            let numbers = std::iter::successors(Some((0, 1)), |(a, b)| Some((*b, a + b)));
            equal(run, "out", numbers.map(|(a, _)| a).take(16));
        }),
        ("mutual_recursion", |run| equal(run, "out", (0..64).map(|i| i64::from(i % 2 == 0)))),
        ("recursive_ackermann", |run| equal(run, "out", (0..12).map(|i| ackermann(i / 4, i % 4)))),
        ("recursive_quicksort", |run| {
            let mut data = run.integers("data");
            data.chunks_mut(64).for_each(<[i64]>::sort_unstable);
            equal(run, "data", data);
        }),
    ]
}

pub(super) fn virtual_calls() -> Vec<Check> {
    vec![
        ("virtual_area", |run| {
            let area = |(i, s): (usize, f64)| {
                let s = s as f32;
                // The f32 nearest to the 3.14159265f of the source.
                let pi = std::f32::consts::PI;
                f64::from(match i % 3 {
                    0 => pi * s * s,
                    1 => s * s,
                    _ => s * (s + 1.0),
                })
            };
            exact(run, "out", run.floats("in").into_iter().enumerate().map(area));
        }),
        ("virtual_bases", |run| equal(run, "out", (0..32).map(|i| 10 * i + 1))),
    ]
}

pub(super) fn function_pointers() -> Vec<Check> {
    vec![
        ("dispatch", |run| {
            let apply = |x: i64| match x % 4 {
                0 => x + x + 1,
                1 => -1,
                2 => x * (x + 1),
                _ => x,
            };
            equal(run, "out", (0..64).map(apply));
        }),
        ("callback", |run| equal(run, "out", [(0..64).sum()])),
        ("members", |run| equal(run, "out", (0..64).map(|x| if x % 2 == 0 { x + 5 } else { x * 5 }))),
    ]
}

pub(super) fn printf_output() -> Vec<Check> {
    vec![
        ("say", |run| {
            let lines: Vec<&str> = run.effects.output.lines().collect();
            let place = |line: &str| {
                lines.iter().position(|l| *l == line).unwrap_or_else(|| panic!("{line}: {lines:?}"))
            };
            for thread in 0..4 {
                place(&format!("thread {thread} of 4: {thread}.000000"));
            }
            assert!(place("thread 0 of 4: 0.000000") < place("done"), "{lines:?}");
            assert_eq!(lines.len(), 5);
        }),
        // printf gives the number of its arguments.
        ("formats", |run| {
            assert_eq!(
                run.effects.output,
                "-7    42|42   |00042 ff FF 10 q %\n\
                 18446744073709551615 -1 0xffffffffffffffff odd\n\
                 3.142 1.500000e+10 0.0001    -2.50|\n\n1\n"
            );
        }),
    ]
}

pub(super) fn assertions() -> Vec<Check> {
    vec![
        // sqrtf is correctly rounded.
        ("checked_sqrt", |run| exact(run, "out", run.floats("in").into_iter().map(f64::sqrt))),
        ("trap_on_zero", |run| equal(run, "out", run.integers("in").into_iter().map(|x| 1000 / x))),
    ]
}

fn collatz(start: i64) -> i64 {
    let next = |n: &i64| (*n != 1).then_some(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(start), next).count() as i64 - 1
}

pub(super) fn divergence() -> Vec<Check> {
    vec![
        ("collatz", |run| equal(run, "out", (1..=256).map(collatz))),
        ("nested", |run| {
            let branch = |x: i64| match x {
                7 => 777,
                _ if x < 0 && x % 2 == 0 => 1,
                _ if x < -16 => 2,
                _ if x < 0 => 3,
                _ => 10 + (0..x.min(20)).filter(|i| *i != 5).sum::<i64>(),
            };
            equal(run, "out", run.integers("in").into_iter().map(branch));
        }),
        ("turns", |run| {
            equal(run, "out", 0..32);
            equal(run, "turn", [32]);
        }),
    ]
}

pub(super) fn switch_table() -> Vec<Check> {
    vec![
        ("opcode_table", |run| {
            let case = |(i, x): (usize, u64)| {
                let x = x as u32;
                i64::from(match i % 12 {
                    0 => x.wrapping_mul(3),
                    1 => x.count_ones(),
                    2 => x.leading_zeros(),
                    3 => x.reverse_bits(),
                    4 => x / 7,
                    5 => x % 13,
                    6 => !x,
                    7 => x.rotate_left(5),
                    8 => {
                        if x == 0 {
                            0
                        } else {
                            x.trailing_zeros() + 1
                        }
                    }
                    9 => (x & x.wrapping_sub(1)) ^ 0x5a5a_5a5a,
                    10 => x ^ 0x5a5a_5a5a,
                    _ => 0,
                })
            };
            equal(run, "out", run.given("in").bits().into_iter().enumerate().map(case));
        }),
        ("interpreter", |run| equal(run, "out", (0..32).map(|t| ((t + 3) * 4 - t) ^ 5))),
        ("jump_table", |run| equal(run, "out", run.integers("in").into_iter().map(|x| 10 * (x % 4 + 1)))),
    ]
}

fn modifier_order(run: &Launched<'_>) {
    let input: Vec<f32> = run.floats("in").into_iter().map(|x| x as f32).collect();
    let truncated_sum = |x: f32| decode(Type::F32, encode(Type::F32, f64::from(x) + 1.0, Round::TowardZero));
    let wanted = input
        .iter()
        .map(|x| f64::from(x.mul_add(*x, *x)))
        .chain(input.iter().map(|x| f64::from((x * x).min(1.0))))
        .chain(input.iter().map(|x| truncated_sum(*x)))
        .chain(input.iter().map(|x| f64::from(x.round_ties_even()) + 0.0))
        .chain((0..64).map(|i| f64::from(input[i] + input[i ^ 1])));
    exact(run, "out", wanted);
}

pub(super) fn inline_ptx() -> Vec<Check> {
    vec![
        ("modifier_order", modifier_order),
        ("scoped_blocks", |run| equal(run, "out", (1..=64).map(|n| 3 * collatz(n)))),
        ("vectors_and_addresses", |run| {
            equal(run, "out", run.integers("in").chunks(4).flat_map(|four| four.iter().rev().copied()));
        }),
        ("special_registers", |run| {
            let word = |i: i64| {
                let (block, thread) = (i / 64, i % 64);
                (thread % 32) | ((thread / 32) << 8) | ((thread % 8) << 16) | (block << 24)
            };
            equal(run, "out", (0..256).map(word));
        }),
        ("literals", |run| {
            let float = i64::from(42.0f32.to_bits());
            equal(run, "out", [42, 42, 42, 42, 42, -42, float, float, 42, 42, 0, 0x4045_0000]);
        }),
        ("predicates", |run| {
            let word = |i: i64| {
                let (outside, fourth) = (!(10..=50).contains(&i), i % 4 == 0);
                i64::from(outside) | i64::from(fourth) << 1 | i64::from(outside && fourth) << 2
            };
            equal(run, "out", (0..64).map(word));
        }),
    ]
}
