//! Arrays of the types that kernels work on, as bits, as integers and as f64.

use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
}

impl Type {
    /// The type with this name in `//@launch:` lines.
    pub(crate) fn named(name: &str) -> Type {
        match name {
            "i8" => Type::I8,
            "u8" => Type::U8,
            "i16" => Type::I16,
            "u16" => Type::U16,
            "i32" => Type::I32,
            "u32" => Type::U32,
            "i64" => Type::I64,
            "u64" => Type::U64,
            "f16" => Type::F16,
            "bf16" => Type::Bf16,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "e4m3" => Type::E4m3,
            "e5m2" => Type::E5m2,
            _ => panic!("unknown type {name}"),
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Type::I8 | Type::U8 | Type::E4m3 | Type::E5m2 => 1,
            Type::I16 | Type::U16 | Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    fn is_signed(self) -> bool {
        matches!(self, Type::I8 | Type::I16 | Type::I32 | Type::I64)
    }

    pub(crate) fn is_float(self) -> bool {
        self.fraction_bits().is_some()
    }

    /// Fraction bits of a floating-point format: rounding to nearest errs by at most 2^-(these + 1), relatively.
    pub(crate) fn fraction_bits(self) -> Option<i32> {
        match self {
            Type::F16 => Some(10),
            Type::Bf16 => Some(7),
            Type::F32 => Some(23),
            Type::F64 => Some(52),
            Type::E4m3 => Some(3),
            Type::E5m2 => Some(2),
            _ => None,
        }
    }

    /// The exponent of the smallest normal number.
    pub(crate) fn least_exponent(self) -> i32 {
        match self {
            Type::F16 | Type::E5m2 => -14,
            Type::Bf16 | Type::F32 => -126,
            Type::F64 => -1022,
            Type::E4m3 => -6,
            _ => 0,
        }
    }

    /// Half a unit in the last place at the largest and at the smallest numbers: the rounding error is at
    /// most the first times the magnitude, or the second if that is larger.
    pub(crate) fn rounding(self) -> (f64, f64) {
        let fraction = self.fraction_bits().unwrap_or(52);
        (exp2(-fraction - 1), exp2(self.least_exponent() - fraction - 1))
    }
}

pub(crate) fn exp2(exponent: i32) -> f64 {
    2.0f64.powi(exponent)
}

/// A floating-point number's value.
pub(crate) fn decode(ty: Type, bits: u64) -> f64 {
    match ty {
        Type::F64 => return f64::from_bits(bits),
        Type::F32 => return f64::from(f32::from_bits(bits as u32)),
        _ => {}
    }
    let width = ty.size() * 8;
    let fraction_bits = ty.fraction_bits().unwrap();
    let fraction = bits & ((1 << fraction_bits) - 1);
    let exponent_bits = width as i32 - 1 - fraction_bits;
    let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let top = (1 << exponent_bits) - 1;
    let magnitude = match ty {
        Type::E4m3 if bits & 0x7f == 0x7f => f64::NAN,
        Type::F16 | Type::Bf16 | Type::E5m2 if exponent == top && fraction == 0 => f64::INFINITY,
        Type::F16 | Type::Bf16 | Type::E5m2 if exponent == top => f64::NAN,
        _ if exponent == 0 => fraction as f64 * exp2(ty.least_exponent() - fraction_bits),
        _ => {
            (fraction | 1 << fraction_bits) as f64 * exp2(ty.least_exponent() + exponent - 1 - fraction_bits)
        }
    };
    if bits >> (width - 1) & 1 == 1 { -magnitude } else { magnitude }
}

/// A value rounded to a format, by an independent soft-float. 8-bit formats saturate, like conversions to
/// them.
pub(crate) fn encode(ty: Type, value: f64, round: Round) -> u64 {
    fn narrow<T: Float>(value: Double, round: Round) -> u64
    where
        Double: FloatConvert<T>,
    {
        let mut loses = false;
        let narrowed: T = value.convert_r(round, &mut loses).value;
        narrowed.to_bits() as u64
    }
    let exact = Double::from_bits(u128::from(value.to_bits()));
    match ty {
        Type::F64 => value.to_bits(),
        Type::F32 => narrow::<Single>(exact, round),
        Type::F16 => narrow::<Half>(exact, round),
        Type::Bf16 => narrow::<BFloat>(exact, round),
        Type::E4m3 | Type::E5m2 => {
            let largest = if ty == Type::E4m3 { 448.0 } else { 57344.0 };
            let clamped = Double::from_bits(u128::from(value.clamp(-largest, largest).to_bits()));
            match ty {
                Type::E4m3 => narrow::<Float8E4M3FN>(clamped, round),
                _ => narrow::<Float8E5M2>(clamped, round),
            }
        }
        _ => panic!("{ty:?} holds integers"),
    }
}

/// A value rounded to nearest even, as a value.
pub(crate) fn rounded(ty: Type, value: f64) -> f64 {
    decode(ty, encode(ty, value, Round::NearestTiesToEven))
}

const UNWRITTEN: u8 = 0xa5;

/// An array in its memory layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) ty: Type,
    pub(crate) bytes: Vec<u8>,
}

impl Data {
    pub(crate) fn of_bits(ty: Type, values: impl IntoIterator<Item = u64>) -> Data {
        let bytes =
            values.into_iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(ty.size())).collect();
        Data { ty, bytes }
    }

    /// Rounded to nearest even.
    pub(crate) fn of_floats(ty: Type, values: impl IntoIterator<Item = f64>) -> Data {
        Data::of_bits(ty, values.into_iter().map(|value| encode(ty, value, Round::NearestTiesToEven)))
    }

    /// Floats or integers, by the type.
    pub(crate) fn of_values(ty: Type, values: impl IntoIterator<Item = f64>) -> Data {
        if ty.is_float() {
            Data::of_floats(ty, values)
        } else {
            Data::of_bits(ty, values.into_iter().map(|value| value as i64 as u64))
        }
    }

    /// An unwritten array: a pattern that differs from every plausible result.
    pub(crate) fn unwritten(ty: Type, count: usize) -> Data {
        Data { ty, bytes: vec![UNWRITTEN; count * ty.size()] }
    }

    /// Whether it is an unwritten array.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == UNWRITTEN)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.ty.size()
    }

    pub(crate) fn bits(&self) -> Vec<u64> {
        let extend = |chunk: &[u8]| chunk.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        self.bytes.chunks_exact(self.ty.size()).map(extend).collect()
    }

    /// The integers, sign-extended where the type has one.
    pub(crate) fn integers(&self) -> Vec<i64> {
        let unused = 64 - 8 * self.ty.size() as u32;
        let extend =
            |bits: u64| if self.ty.is_signed() { (bits << unused) as i64 >> unused } else { bits as i64 };
        self.bits().into_iter().map(extend).collect()
    }

    /// The values.
    pub(crate) fn floats(&self) -> Vec<f64> {
        if self.ty.is_float() {
            self.bits().into_iter().map(|bits| decode(self.ty, bits)).collect()
        } else {
            self.integers().into_iter().map(|value| value as f64).collect()
        }
    }
}

#[test]
fn formats_are_decoded_as_the_soft_float_encodes_them() {
    for ty in [Type::F16, Type::Bf16, Type::E4m3, Type::E5m2] {
        for bits in 0..1u64 << (8 * ty.size()) {
            let value = decode(ty, bits);
            if value.is_finite() {
                assert_eq!(encode(ty, value, Round::NearestTiesToEven), bits, "{ty:?} {bits:#x}");
            }
        }
    }
}
