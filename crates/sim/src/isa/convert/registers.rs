//! Registers that are wider than the types of their instruction.
#![expect(clippy::inline_always, reason = "only code inlined into a routine is compiled for its vector unit")]

use crate::isa::map::map1;
use crate::isa::{Bound, Refusal, Slot, Spec};
use crate::machine::{Flow, LANES, Lane, Row, Scalar, Type, Width};
use crate::simd::Simd;

/// A type of a conversion: its width and sign, and its conversion to and from a 64-bit word.
pub(super) trait Value: Scalar {
    const BITS: u32;
    const SIGNED: bool;
    /// From the low bits of a register.
    fn from_word(word: u64) -> Self;
    /// Extended by its sign.
    fn word(self) -> u64;
}

macro_rules! value {
    ($($type:ty, $signed:literal, |$w:ident| $from:expr, |$v:ident| $word:expr;)*) => {$(
        impl Value for $type {
            const BITS: u32 = <$type>::BITS;
            const SIGNED: bool = $signed;
            fn from_word($w: u64) -> Self { $from }
            fn word(self) -> u64 { let $v = self; $word }
        }
    )*};
}

value! {
    u8, false, |w| truncate(w).to_le_bytes()[0], |v| u64::from(v);
    u16, false, |w| truncate16(truncate(w)), |v| u64::from(v);
    u32, false, |w| truncate(w), |v| u64::from(v);
    u64, false, |w| w, |v| v;
    i8, true, |w| truncate(w).to_le_bytes()[0].cast_signed(), |v| i64::from(v).cast_unsigned();
    i16, true, |w| truncate16(truncate(w)).cast_signed(), |v| i64::from(v).cast_unsigned();
    i32, true, |w| truncate(w).cast_signed(), |v| i64::from(v).cast_unsigned();
    i64, true, |w| w.cast_signed(), |v| v.cast_unsigned();
}

#[inline(always)]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "only the low half is needed")]
pub(super) fn truncate(word: u64) -> u32 {
    word as u32
}

#[inline(always)]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "only the low half is needed")]
pub(super) fn truncate16(word: u32) -> u16 {
    word as u16
}

/// The register file of a register.
pub(super) fn file(bits: u32) -> Width {
    match bits {
        0..=1 => Width::Pred,
        2..=32 => Width::W32,
        33..=64 => Width::W64,
        _ => Width::W128,
    }
}

/// The untyped type of a register.
fn untyped(bits: u32) -> Type {
    match file(bits) {
        Width::Pred => Type::Pred,
        Width::W32 => Type::B32,
        Width::W64 => Type::B64,
        Width::W128 => Type::B128,
    }
}

/// Ones in the lowest bits, at most 64.
pub(super) fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64u32.saturating_sub(bits)).unwrap_or(0)
}

/// Bits of the register at an operand position that holds a type of `ty` bits. An immediate has the type's own width. So
/// does a register of a narrower file, because the decoder rejects it.
pub(super) fn register_bits(spec: &Spec<'_>, operand: usize, ty: u32) -> Result<u32, Refusal> {
    match spec.bits(operand) {
        Some(bits) if bits < ty && file(bits) == file(ty) => {
            Err(Refusal::Malformed(format!("a register of {bits} bits for a type of {ty}")))
        }
        bits => Ok(bits.unwrap_or(ty).max(ty)),
    }
}

/// `d = f(a)`, for any register widths.
pub(super) fn converted<I: Simd, D: Value, A: Value>(
    spec: &Spec<'_>,
    f: impl Fn(A) -> D + Copy + Send + Sync + 'static,
) -> Result<Bound, Refusal> {
    let target = register_bits(spec, 0, D::BITS)?;
    let source = register_bits(spec, 1, A::BITS)?;
    // An unsigned value in a wider register of the same file is already zero-extended.
    let extends = target > D::BITS && (D::SIGNED || file(target) != D::Store::WIDTH);
    if extends || file(source) != A::Store::WIDTH {
        return Ok(widened(target, source, D::SIGNED, Box::new(move |a| f(A::from_word(a)).word())));
    }
    Ok(map1::<I, D, A>(f))
}

/// `d = f(a)` between registers of any width. `f` takes a word whose low bits are the source and returns a word that is
/// already extended; lanes are computed one at a time.
pub(super) fn widened(
    target: u32,
    source: u32,
    signed: bool,
    f: Box<dyn Fn(u64) -> u64 + Send + Sync>,
) -> Bound {
    let mask = u128::MAX.checked_shr(128u32.saturating_sub(target)).unwrap_or(0);
    Bound::new([Slot::Dst(file(target)), Slot::Src(untyped(source))], move |w, args| {
        let a = w.get_row(file(source), args.o[1]);
        let mut d = Row([0u128; LANES]);
        for (d, a) in d.0.iter_mut().zip(a.0) {
            let word = f(u64::try_from(a & u128::from(u64::MAX)).unwrap_or(0));
            let wide = if signed { i128::from(word.cast_signed()).cast_unsigned() } else { u128::from(word) };
            *d = wide & mask;
        }
        w.put_row(file(target), args.o[0], &d);
        Flow::Next
    })
}
