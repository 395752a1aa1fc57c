//! Integer and bit operations compared with wide arithmetic, and with the manual's own bit-by-bit definitions.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "registers are reinterpreted on purpose"
)]

use proptest::prelude::*;
use warpproof_num::bits::{self, Beyond, Permute};
use warpproof_num::int;

/// Positions and lengths: mostly near the register's width, sometimes arbitrary.
fn amount() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..70, 250u32..260, any::<u32>()]
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        Just(0u32),
        Just(u32::MAX),
        Just(i32::MIN as u32),
        Just(i32::MAX as u32),
        0u32..4
    ]
}

fn long() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(0u64),
        Just(u64::MAX),
        Just(i64::MIN as u64),
        Just(i64::MAX as u64),
        0u64..4
    ]
}

/// `bfe` as the manual's loop.
fn manual_bfe(a: u64, b: u32, c: u32, width: u32, signed: bool) -> u64 {
    let msb = width - 1;
    let (pos, len) = (b & 0xff, c & 0xff);
    let sign = if !signed || len == 0 { 0 } else { a >> (pos + len - 1).min(msb) & 1 };
    (0..width).fold(0, |d, i| d | if i < len && pos + i <= msb { a >> (pos + i) & 1 } else { sign } << i)
}

fn manual_bfi(a: u64, b: u64, c: u32, d: u32, width: u32) -> u64 {
    let (pos, len) = (c & 0xff, d & 0xff);
    (0..len).take_while(|i| pos + i < width).fold(b, |f, i| f & !(1 << (pos + i)) | (a >> i & 1) << (pos + i))
}

fn manual_bfind(a: u64, width: u32, signed: bool, shiftamt: bool) -> u32 {
    let msb = width - 1;
    let a = if signed && a >> msb & 1 == 1 { !a } else { a };
    match (0..width).rev().find(|i| a >> i & 1 == 1) {
        None => u32::MAX,
        Some(i) if shiftamt => msb - i,
        Some(i) => i,
    }
}

fn manual_fns(mask: u32, base: u32, offset: i32) -> u32 {
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut position = i64::from(base);
    let mut count = i64::from(offset).abs() - 1;
    while (0..32).contains(&position) {
        if mask >> position & 1 == 1 {
            if count == 0 {
                return position as u32;
            }
            count -= 1;
        }
        position += i64::from(offset.signum());
    }
    u32::MAX
}

fn manual_szext(a: u32, b: u32, signed: bool, clamp: bool) -> u32 {
    let b1 = b & 31;
    let too_large = b >= 32 && clamp;
    let mask = if too_large { 0 } else { u32::MAX << b1 };
    let sign = !(b1 == 0 || too_large || !signed) && a >> ((b1.wrapping_sub(1)) & 31) & 1 == 1;
    (a & !mask) | if sign { mask } else { 0 }
}

fn manual_bmsk(a: u32, b: u32, clamp: bool) -> u32 {
    let (a1, b1) = (a & 31, b & 31);
    let sum = a1 + b1;
    let (mut mask0, mut mask1) = (u32::MAX << a1, u32::MAX.checked_shl(sum).unwrap_or(0));
    let position = clamp && a >= 32;
    if position {
        mask0 = 0;
    }
    if sum >= 32 || position || (clamp && b >= 32) {
        mask1 = 0;
    } else if b1 == 0 {
        mask1 = u32::MAX;
    }
    mask0 & !mask1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn products(a in long(), b in long()) {
        let (x, y) = (a as u32, b as u32);
        prop_assert_eq!(int::mul_hi_u32(x, y), ((x as u128 * y as u128) >> 32) as u32);
        prop_assert_eq!(int::mul_hi_s32(x, y), ((x as i32 as i128 * y as i32 as i128) >> 32) as u32);
        prop_assert_eq!(int::mul_hi_u64(a, b), ((a as u128 * b as u128) >> 64) as u64);
        prop_assert_eq!(int::mul_hi_s64(a, b), ((a as i64 as i128 * b as i64 as i128) >> 64) as u64);
        let (h, k) = (a as u16, b as u16);
        prop_assert_eq!(int::mul_hi_u16(h, k), ((h as u64 * k as u64) >> 16) as u16);
        prop_assert_eq!(int::mul_hi_s16(h, k), ((h as i16 as i64 * k as i16 as i64) >> 16) as u16);
        let (u, v) = ((x & 0xff_ffff) as u128, (y & 0xff_ffff) as u128);
        prop_assert_eq!(int::mul24_lo_u32(x, y), (u * v) as u32);
        prop_assert_eq!(int::mul24_hi_u32(x, y), ((u * v) >> 16) as u32);
        let low = |x: u32| i128::from(x & 0xff_ffff) - if x >> 23 & 1 == 1 { 1 << 24 } else { 0 };
        prop_assert_eq!(int::mul24_lo_s32(x, y), (low(x) * low(y)) as u32);
        prop_assert_eq!(int::mul24_hi_s32(x, y), ((low(x) * low(y)) >> 16) as u32);
    }

    #[test]
    fn sums(a in long(), b in long(), c in long(), carry: bool) {
        let (x, y, z) = (a as u32, b as u32, c as u32);
        let exact = i64::from(x as i32) + i64::from(y as i32);
        prop_assert_eq!(int::add_sat_s32(x, y), exact.clamp(i32::MIN as i64, i32::MAX as i64) as u32);
        let exact = i64::from(x as i32) - i64::from(y as i32);
        prop_assert_eq!(int::sub_sat_s32(x, y), exact.clamp(i32::MIN as i64, i32::MAX as i64) as u32);
        prop_assert_eq!(int::sad_u32(x, y, z), (i128::from(z) + (i128::from(x) - i128::from(y)).abs()) as u32);
        prop_assert_eq!(int::sad_s32(x, y, z), (z as i128 + (x as i32 as i128 - y as i32 as i128).abs()) as u32);
        prop_assert_eq!(int::sad_u64(a, b, c), (c as i128 + (a as i128 - b as i128).abs()) as u64);
        prop_assert_eq!(int::sad_s64(a, b, c), (c as i128 + (a as i64 as i128 - b as i64 as i128).abs()) as u64);
        let (h, k) = (a as u16, b as u16);
        prop_assert_eq!(int::sad_u16(h, k, 7), (7 + (h as i32 - k as i32).abs()) as u16);
        prop_assert_eq!(int::sad_s16(h, k, 7), (7 + (h as i16 as i32 - k as i16 as i32).abs()) as u16);
        let wide = a as u128 + b as u128 + carry as u128;
        prop_assert_eq!(int::addc_b64(a, b, carry), (wide as u64, wide >> 64 != 0));
        let wide = x as u64 + y as u64 + carry as u64;
        prop_assert_eq!(int::addc_b32(x, y, carry), (wide as u32, wide >> 32 != 0));
        let wide = a as i128 - b as i128 - carry as i128;
        prop_assert_eq!(int::subc_b64(a, b, carry), (wide as u64, wide < 0));
        let wide = x as i64 - y as i64 - carry as i64;
        prop_assert_eq!(int::subc_b32(x, y, carry), (wide as u32, wide < 0));
    }

    #[test]
    fn quotients(a in long(), b in long()) {
        let (x, y) = (a as u32, b as u32);
        if y != 0 {
            prop_assert_eq!(int::div_u32(x, y), x / y);
            prop_assert_eq!(int::rem_u32(x, y), x % y);
            prop_assert_eq!(int::div_s32(x, y), (x as i32 as i64 / y as i32 as i64) as u32);
            prop_assert_eq!(int::rem_s32(x, y), (x as i32 as i64 % y as i32 as i64) as u32);
        }
        if b != 0 {
            prop_assert_eq!(int::div_u64(a, b), a / b);
            prop_assert_eq!(int::rem_u64(a, b), a % b);
            prop_assert_eq!(int::div_s64(a, b), (a as i64 as i128 / b as i64 as i128) as u64);
            prop_assert_eq!(int::rem_s64(a, b), (a as i64 as i128 % b as i64 as i128) as u64);
        }
        let (h, k) = (a as u16, b as u16);
        if k != 0 {
            prop_assert_eq!(int::div_s16(h, k), (h as i16 as i32 / k as i16 as i32) as u16);
            prop_assert_eq!(int::rem_u16(h, k), h % k);
        }
        prop_assert_eq!(int::div_s32(x, 0), u32::MAX);
        prop_assert_eq!(int::div_u64(a, 0), u64::MAX);
        prop_assert_eq!(int::rem_s64(a, 0), a);
        prop_assert_eq!(int::rem_u32(x, 0), x);
    }

    #[test]
    fn dot_products(a in word(), b in word(), c in word()) {
        let byte = |x: u32, i: u32, signed: bool| {
            let raw = i64::from(x >> (8 * i) & 0xff);
            if signed && raw > 127 { raw - 256 } else { raw }
        };
        let half = |x: u32, i: u32, signed: bool| {
            let raw = i64::from(x >> (16 * i) & 0xffff);
            if signed && raw > 32767 { raw - 65536 } else { raw }
        };
        for p in [false, true] {
            for q in [false, true] {
                let sum: i64 = (0..4).map(|i| byte(a, i, p) * byte(b, i, q)).sum();
                prop_assert_eq!(int::dp4a(a, p, b, q, c), (i64::from(c) + sum) as u32);
                for high in [false, true] {
                    let first = if high { 2 } else { 0 };
                    let sum: i64 = (0..2).map(|i| half(a, i, p) * byte(b, first + i, q)).sum();
                    prop_assert_eq!(int::dp2a(a, p, b, q, c, high), (i64::from(c) + sum) as u32);
                }
            }
        }
    }

    #[test]
    fn fields(a in long(), b in long(), pos in amount(), len in amount()) {
        let (x, y) = (a as u32, b as u32);
        prop_assert_eq!(bits::bfe_u32(x, pos, len) as u64, manual_bfe(x as u64, pos, len, 32, false));
        prop_assert_eq!(bits::bfe_s32(x, pos, len) as u64, manual_bfe(x as u64, pos, len, 32, true));
        prop_assert_eq!(bits::bfe_u64(a, pos, len), manual_bfe(a, pos, len, 64, false));
        prop_assert_eq!(bits::bfe_s64(a, pos, len), manual_bfe(a, pos, len, 64, true));
        prop_assert_eq!(bits::bfi_b32(x, y, pos, len) as u64, manual_bfi(x as u64, y as u64, pos, len, 32));
        prop_assert_eq!(bits::bfi_b64(a, b, pos, len), manual_bfi(a, b, pos, len, 64));
        for shiftamt in [false, true] {
            prop_assert_eq!(bits::bfind_u32(x, shiftamt), manual_bfind(x as u64, 32, false, shiftamt));
            prop_assert_eq!(
                bits::bfind_s32(x, shiftamt),
                manual_bfind(if (x as i32) < 0 { !x } else { x } as u64, 32, false, shiftamt)
            );
            prop_assert_eq!(bits::bfind_u64(a, shiftamt), manual_bfind(a, 64, false, shiftamt));
            prop_assert_eq!(bits::bfind_s64(a, shiftamt), manual_bfind(a, 64, true, shiftamt));
        }
        for (beyond, clamp) in [(Beyond::Clamp, true), (Beyond::Wrap, false)] {
            prop_assert_eq!(bits::szext(x, pos, true, beyond), manual_szext(x, pos, true, clamp));
            prop_assert_eq!(bits::szext(x, pos, false, beyond), manual_szext(x, pos, false, clamp));
            prop_assert_eq!(bits::bmsk(pos, len, beyond), manual_bmsk(pos, len, clamp));
        }
    }

    #[test]
    fn nth_set_bit(mask in word(), base in 0u32..32, offset in prop_oneof![-40i32..40, any::<i32>()]) {
        prop_assert_eq!(bits::fns(mask, base, offset), manual_fns(mask, base, offset));
    }

    #[test]
    fn shifts(a in long(), b in word(), n in amount()) {
        let x = a as u32;
        let n64 = n.min(127);
        prop_assert_eq!(bits::shl_b32(x, n), ((x as u128) << n.min(32)) as u32);
        prop_assert_eq!(bits::shr_u32(x, n), ((x as u128) >> n64) as u32);
        prop_assert_eq!(bits::shr_s32(x, n), ((x as i32 as i128) >> n64) as u32);
        prop_assert_eq!(bits::shl_b64(a, n), ((a as u128) << n.min(64)) as u64);
        prop_assert_eq!(bits::shr_u64(a, n), ((a as u128) >> n64) as u64);
        prop_assert_eq!(bits::shr_s64(a, n), ((a as i64 as i128) >> n64) as u64);
        let h = a as u16;
        prop_assert_eq!(bits::shl_b16(h, n), ((h as u128) << n.min(16)) as u16);
        prop_assert_eq!(bits::shr_u16(h, n), ((h as u128) >> n64) as u16);
        prop_assert_eq!(bits::shr_s16(h, n), ((h as i16 as i128) >> n64) as u16);
        let both = (b as u128) << 32 | x as u128;
        for (beyond, n) in [(Beyond::Clamp, n.min(32)), (Beyond::Wrap, n % 32)] {
            prop_assert_eq!(bits::shf_l(x, b, if n == 32 { 77 } else { n }, beyond), (both << n >> 32) as u32);
            prop_assert_eq!(bits::shf_r(x, b, if n == 32 { 77 } else { n }, beyond), (both >> n) as u32);
        }
    }

    #[test]
    fn three_input_logic(a in word(), b in word(), c in word(), lut: u8) {
        let want = (0..32).fold(0u32, |d, i| {
            let row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
            d | u32::from(lut >> row & 1) << i
        });
        prop_assert_eq!(bits::lop3(a, b, c, lut), want);
        prop_assert_eq!(bits::lop3(a, b, c, 0x1a), (a & b | c) ^ a);
    }

    #[test]
    fn permutes(a in word(), b in word(), c in word()) {
        let byte = |i: u32| (((b as u64) << 32 | a as u64) >> (8 * (i & 7))) as u8;
        let want = (0..4).fold(0u32, |d, i| {
            let selector = c >> (4 * i) & 15;
            let value = byte(selector);
            let value = if selector < 8 { value } else if value >> 7 == 1 { 0xff } else { 0 };
            d | u32::from(value) << (8 * i)
        });
        prop_assert_eq!(bits::prmt(a, b, c, Permute::Generic), want);
    }
}

/// The manual's table of the special permutes: for each mode and each value of the selector, the bytes from the top down.
#[test]
fn permute_modes() {
    let table = [
        (Permute::F4e, [0x3210u32, 0x4321, 0x5432, 0x6543]),
        (Permute::B4e, [0x5670, 0x6701, 0x7012, 0x0123]),
        (Permute::Rc8, [0x0000, 0x1111, 0x2222, 0x3333]),
        (Permute::Ecl, [0x3210, 0x3211, 0x3222, 0x3333]),
        (Permute::Ecr, [0x0000, 0x1110, 0x2210, 0x3210]),
        (Permute::Rc16, [0x1010, 0x3232, 0x1010, 0x3232]),
    ];
    let (a, b) = (0x8382_8180, 0x8786_8584);
    for (mode, selectors) in table {
        for (c, selector) in selectors.into_iter().enumerate() {
            let want = (0..4).fold(0u32, |d, i| d | (0x80 + (selector >> (4 * i) & 7)) << (8 * i));
            assert_eq!(bits::prmt(a, b, c as u32 | 0xfff0, mode), want, "{mode:?} {c}");
        }
    }
}

#[test]
fn manual_examples() {
    assert_eq!(bits::fns(0xaaaa_aaaa, 3, 1), 3);
    assert_eq!(bits::fns(0xaaaa_aaaa, 3, -1), 3);
    assert_eq!(bits::fns(0xaaaa_aaaa, 2, 1), 3);
    assert_eq!(bits::fns(0xaaaa_aaaa, 2, -1), 1);
    assert_eq!(bits::fns(u32::MAX, 40, 1), u32::MAX);
    assert_eq!(bits::bmsk(1, 2, Beyond::Wrap), 6);
    assert_eq!(bits::szext(u32::MAX, 0, false, Beyond::Wrap), 0);
    assert_eq!(int::div_s32(i32::MIN as u32, u32::MAX), i32::MIN as u32);
    assert_eq!(int::rem_s32(i32::MIN as u32, u32::MAX), 0);
}
