//! Chains of carries, compared with 128-bit arithmetic.
#![expect(
    clippy::as_conversions,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "words of long numbers"
)]

use crate::harness::{Column, check, pairs, patterns};
use crate::int::{bits, cut, number};

const TYPES: [&str; 4] = ["u32", "s32", "u64", "s64"];

fn words() -> [Column; 4] {
    let (a, b) = pairs(&patterns(32), &patterns(32));
    let shifted = |column: &Column, by: usize| {
        let mut column = column.clone();
        column.rotate_left(by);
        column
    };
    [shifted(&a, 77), shifted(&b, 5), a, b]
}

/// A number from two words of `n` bits.
fn join(n: u32, low: u64, high: u64) -> u128 {
    let word = |w: u64| u128::from(w) & ((1 << n) - 1);
    word(low) | word(high) << n
}

#[test]
fn sums_and_differences_of_several_words() {
    for ty in TYPES {
        let [a0, a1, b0, b1] = words();
        let n = bits(ty);
        let mask = (1u128 << n) - 1;
        let body = format!(
            "add.cc.{ty} %d0, %s0, %s2; addc.cc.{ty} %d1, %s1, %s3; addc.{ty} %d2, 0, 0;
             sub.cc.{ty} %d3, %s0, %s2; subc.cc.{ty} %d4, %s1, %s3; subc.{ty} %d5, 0, 0;"
        );
        check(&body, &[ty; 6], &[(ty, a0), (ty, a1), (ty, b0), (ty, b1)], |s| {
            let (a, b) = (join(n, s[0], s[1]), join(n, s[2], s[3]));
            let (sum, carry) = a.overflowing_add(b);
            let carry = carry || (n == 32 && sum >> 64 != 0);
            let difference = a.wrapping_sub(b);
            let word = |v: u128, i: u32| (v >> (n * i) & mask) as u64;
            let borrow = if a < b { mask as u64 } else { 0 };
            vec![
                word(sum, 0),
                word(sum, 1),
                u64::from(carry),
                word(difference, 0),
                word(difference, 1),
                borrow,
            ]
        });
    }
}

#[test]
fn an_instruction_without_cc_keeps_the_carry() {
    let [a, _, b, _] = words();
    let body = "add.cc.u32 %d0, %s0, %s1; addc.u32 %d1, -1, -1; addc.u32 %d2, 0, 0;";
    check(body, &["b32"; 3], &[("b32", a), ("b32", b)], |s| {
        let sum = (s[0] & 0xffff_ffff) + (s[1] & 0xffff_ffff);
        vec![sum & 0xffff_ffff, 0xffff_fffe + (sum >> 32), sum >> 32]
    });
}

#[test]
fn a_guarded_instruction_sets_the_carry_of_its_lanes_only() {
    let flags: Column = (0..256).map(|i| i % 3 % 2).collect();
    let body = "mov.b32 %d0, 0; add.cc.u32 %d1, -1, 1; @%s0 add.cc.u32 %d0, 5, 6; addc.u32 %d1, 0, 0;";
    check(body, &["b32"; 2], &[("pred", flags)], |s| if s[0] == 0 { vec![0, 1] } else { vec![11, 0] });
}

#[test]
fn products_added_with_carry() {
    for ty in TYPES {
        let [a, b, c, d] = words();
        let n = bits(ty);
        // The carry into `madc` is that of `a + d`.
        let body = format!(
            "mad.lo.cc.{ty} %d0, %s0, %s1, %s2; addc.{ty} %d1, 0, 0;
             mad.hi.cc.{ty} %d2, %s0, %s1, %s2; addc.{ty} %d3, 0, 0;
             add.cc.{ty} %d4, %s0, %s3; madc.lo.{ty} %d4, %s0, %s1, %s2; madc.hi.{ty} %d5, %s0, %s1, %s2;
             madc.lo.cc.{ty} %d6, %s0, %s1, %s2; addc.{ty} %d7, 0, 0;
             add.cc.{ty} %d8, %s0, %s3; madc.hi.cc.{ty} %d8, %s0, %s1, %s2; addc.{ty} %d9, 0, 0;"
        );
        check(&body, &[ty; 10], &[(ty, a), (ty, b), (ty, c), (ty, d)], |s| {
            let mask = (1u128 << n) - 1;
            let product = (number(ty, s[0]) as u128).wrapping_mul(number(ty, s[1]) as u128);
            let (low, high) = (product & mask, product >> n & mask);
            let word = |i: usize| u128::from(s[i]) & mask;
            let carry = (word(0) + word(3)) >> n;
            let sum = |part: u128, carry: u128| {
                let sum = part + word(2) + carry;
                [cut(ty, (sum & mask) as i128), (sum >> n) as u64]
            };
            let (first, second) = (sum(low, 0), sum(high, 0));
            let (third, fourth) = (sum(low, carry), sum(high, carry));
            vec![
                first[0], first[1], second[0], second[1], third[0], fourth[0], third[0], third[1], fourth[0],
                fourth[1],
            ]
        });
    }
}
