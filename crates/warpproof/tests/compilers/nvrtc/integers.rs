//! Integers and bits, 64-bit and wider, and doubles in every rounding.

use rustc_apfloat::ieee::Double;
use rustc_apfloat::{Float, Round};

use super::Check;
use crate::data::{Data, Type};
use crate::reference::same_bits;

fn bytes(x: u32) -> [u32; 4] {
    x.to_le_bytes().map(u32::from)
}

fn by_bytes(x: u32, y: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    (0..4).map(|i| (f(bytes(x)[i], bytes(y)[i]) & 0xff) << (8 * i)).sum()
}

fn field(x: u32, position: u32, length: u32) -> u64 {
    u64::from(x) >> position & ((1 << length) - 1)
}

/// `bfe.s32`: beyond bit 31 there is the sign; a field of no bits is 0, and a field is extended by its own top bit.
fn signed_field(x: u32, position: u32, length: u32) -> u32 {
    if length == 0 {
        return 0;
    }
    let wide = i64::from(x as i32) >> position;
    // The field's sign bit stands at min(position + length - 1, 31).
    let kept = length.min(32 - position);
    ((wide << (64 - kept)) >> (64 - kept)) as u32
}

/// The functions of `bit_mix`, in its order, of x, y and the thread.
const BIT_MIX: [fn(u32, u32, u32) -> u32; 20] = [
    |x, _, _| x.count_ones(),
    |x, _, _| x.leading_zeros(),
    |x, _, _| if x == 0 { 0 } else { x.trailing_zeros() + 1 },
    |x, _, _| x.reverse_bits(),
    |x, y, i| {
        let (pool, selector) = (u64::from(y) << 32 | u64::from(x), i.wrapping_mul(0x1235) & 0x7777);
        (0..4).map(|n| ((pool >> (8 * (selector >> (4 * n) & 7))) as u32 & 0xff) << (8 * n)).sum()
    },
    |x, y, i| ((u64::from(y) << 32 | u64::from(x)) << (i % 32) >> 32) as u32,
    |x, y, i| ((u64::from(y) << 32 | u64::from(x)) >> i.min(32)) as u32,
    |x, _, i| field(x, i % 32, 7) as u32,
    |x, _, i| signed_field(x, 3, i % 32),
    |x, y, i| {
        let mask = (0x1fu64 << (i % 32)) as u32;
        y & !mask | ((u64::from(x) << (i % 32)) as u32 & mask)
    },
    |x, y, i| x ^ y ^ i,
    |x, _, _| x.checked_ilog2().unwrap_or(u32::MAX),
    |x, _, _| {
        let magnitude = if x >> 31 == 1 { !x } else { x };
        magnitude.checked_ilog2().map_or(u32::MAX, |bit| 31 - bit)
    },
    |x, y, i| {
        let signed = |byte: u32| i32::from(byte as u8 as i8);
        (0..4).fold(i as i32, |sum, n| sum + signed(bytes(x)[n]) * signed(bytes(y)[n])) as u32
    },
    |x, y, i| (x & 0xffff) * bytes(y)[2] + (x >> 16) * bytes(y)[3] + i,
    |x, y, _| by_bytes(x, y, |a, b| a + b),
    |x, y, _| by_bytes(x, y, u32::abs_diff),
    |x, y, i| x.abs_diff(y).wrapping_add(i),
    |x, y, _| {
        let low = (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff);
        low.wrapping_add(((u64::from(x) * u64::from(y)) >> 32) as u32)
    },
    |x, y, _| {
        let unsigned = ((u64::from(x) + u64::from(y)) >> 1) as u32;
        let rounded = (i64::from(x as i32) + i64::from(y as i32) + 1) >> 1;
        unsigned ^ rounded as u32
    },
];

pub(super) fn bit_operations() -> Vec<Check> {
    vec![
        ("bit_mix", |run| {
            let (x, y) = (run.given("x").bits(), run.given("y").bits());
            let mut wanted = Vec::new();
            for f in BIT_MIX {
                wanted.extend((0..64).map(|i| u64::from(f(x[i] as u32, y[i] as u32, i as u32))));
            }
            same_bits("bit_mix", run.after("out"), &Data::of_bits(Type::U32, wanted));
        }),
        ("bit_mix_64", |run| {
            let x = run.given("x").bits();
            let functions: [fn(u64) -> u64; 4] = [
                |x| u64::from(x.count_ones()),
                |x| u64::from(x.leading_zeros()),
                |x| if x == 0 { 0 } else { u64::from(x.trailing_zeros()) + 1 },
                |x| x.reverse_bits() >> 17,
            ];
            let wanted = functions.iter().flat_map(|f| x.iter().map(|x| f(*x)));
            same_bits("bit_mix_64", run.after("out"), &Data::of_bits(Type::U32, wanted));
        }),
        ("bit_hash", |run| {
            let hash = |bytes: &[u8]| {
                let fnv = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
                let mut hash = bytes.iter().fold(2_166_136_261, fnv);
                hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
                hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
                u64::from(hash ^ hash >> 16)
            };
            let wanted = run.given("in").bytes.chunks(16).map(hash);
            same_bits("bit_hash", run.after("out"), &Data::of_bits(Type::U32, wanted));
        }),
        ("bit_crc", |run| {
            let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            let crc = |bytes: &[u8]| {
                let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
                u64::from(!bytes.iter().fold(u32::MAX, byte))
            };
            let wanted = run.given("in").bytes.chunks(64).map(crc);
            same_bits("bit_crc", run.after("out"), &Data::of_bits(Type::U32, wanted));
        }),
    ]
}

/// The functions of `int64_mix`, in its order.
const INT64_MIX: [fn(i64, i64, u32) -> i64; 8] = [
    |x, y, _| x.wrapping_add(y),
    |x, y, _| x.wrapping_sub(y),
    |x, y, _| x.wrapping_mul(y),
    |x, y, _| (x as u64 / y as u64) as i64,
    |x, y, _| x.wrapping_rem(y),
    |x, _, i| x >> i,
    |x, _, i| x << i,
    |x, y, _| ((i128::from(x) * i128::from(y)) >> 64) as i64,
];

pub(super) fn wide_arith() -> Vec<Check> {
    vec![
        ("int64_mix", |run| {
            let (a, b) = (run.integers("a"), run.integers("b"));
            let mut wanted = Vec::new();
            for f in INT64_MIX {
                wanted.extend((0..64).map(|i| f(a[i], b[i] | 1, i as u32) as u64));
            }
            same_bits("int64_mix", run.after("out"), &Data::of_bits(Type::I64, wanted));
        }),
        ("multiply_128", |run| {
            let product = |(a, b): (u64, u64)| {
                let product = u128::from(a) * u128::from(b);
                [product as u64, (product >> 64) as u64]
            };
            let wanted = run.given("a").bits().into_iter().zip(run.given("b").bits()).flat_map(product);
            same_bits("multiply_128", run.after("out"), &Data::of_bits(Type::U64, wanted));
        }),
        ("add_256", |run| {
            let (a, b) = (run.given("a").bits(), run.given("b").bits());
            let mut wanted = Vec::new();
            for (a, b) in a.chunks(8).zip(b.chunks(8)) {
                let mut carry = 0;
                for (a, b) in a.iter().zip(b) {
                    let sum = a + b + carry;
                    wanted.push(sum & 0xffff_ffff);
                    carry = sum >> 32;
                }
            }
            same_bits("add_256", run.after("out"), &Data::of_bits(Type::U32, wanted));
        }),
        ("double_roundings", |run| {
            let soft = |name| -> Vec<Double> {
                run.given(name).bits().into_iter().map(|bits| Double::from_bits(bits.into())).collect()
            };
            let (a, b) = (soft("a"), soft("b"));
            let roundings =
                [Round::NearestTiesToEven, Round::TowardZero, Round::TowardPositive, Round::TowardNegative];
            let operations: [fn(Double, Double, Round) -> Double; 3] = [
                |x, y, round| x.add_r(y, round).value,
                |x, y, round| x.mul_r(y, round).value,
                |x, y, round| x.mul_add_r(y, x, round).value,
            ];
            let mut wanted = Vec::new();
            for operation in operations {
                for round in roundings {
                    wanted.extend((0..64).map(|i| operation(a[i], b[i], round).to_bits() as u64));
                }
            }
            let (x, y) = (run.floats("a"), run.floats("b"));
            wanted.extend((0..64).map(|i| (x[i] / y[i]).to_bits()));
            wanted.extend((0..64).map(|i| x[i].abs().sqrt().to_bits()));
            same_bits("double_roundings", run.after("out"), &Data::of_bits(Type::F64, wanted));
        }),
        ("double_convert", |run| {
            let x: Vec<f64> = run.floats("a").into_iter().map(|x| x * 1000.0).collect();
            let functions: [fn(f64) -> u64; 5] = [
                |x| x.trunc() as i64 as u64,
                |x| x.floor() as i64 as u64,
                |x| x.ceil() as i64 as u64,
                |x| x.round_ties_even() as i64 as u64,
                f64::to_bits,
            ];
            let wanted = functions.iter().flat_map(|f| x.iter().map(|x| f(*x)));
            same_bits("double_convert", run.after("out"), &Data::of_bits(Type::I64, wanted));
        }),
    ]
}
