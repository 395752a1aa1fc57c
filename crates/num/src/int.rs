//! Integer arithmetic beyond plain operators: halves of products, saturation, carries, dot products, division.

/// A 32-bit operand of `mul24`/`mad24`: its low 24 bits, sign-extended.
#[inline(always)]
fn low24_s32(a: u32) -> i64 {
    i64::from((a << 8) as i32 >> 8)
}

#[inline(always)]
fn low24_u32(a: u32) -> u64 {
    u64::from(a & 0x00ff_ffff)
}

/// `mul.hi.s32`
#[inline(always)]
pub fn mul_hi_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
}

/// `mul.hi.u32`
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// `mul.hi.s64`
#[inline(always)]
pub fn mul_hi_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

/// `mul.hi.u64`
#[inline(always)]
pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `mul.hi.s16`
#[inline(always)]
pub fn mul_hi_s16(a: u16, b: u16) -> u16 {
    ((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16
}

/// `mul.hi.u16`
#[inline(always)]
pub fn mul_hi_u16(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

/// `mul24.hi.s32`: bits 47..16 of the product of two signed 24-bit numbers.
#[inline(always)]
pub fn mul24_hi_s32(a: u32, b: u32) -> u32 {
    ((low24_s32(a) * low24_s32(b)) >> 16) as u32
}

/// `mul24.hi.u32`
#[inline(always)]
pub fn mul24_hi_u32(a: u32, b: u32) -> u32 {
    ((low24_u32(a) * low24_u32(b)) >> 16) as u32
}

/// `mul24.lo.s32`
#[inline(always)]
pub fn mul24_lo_s32(a: u32, b: u32) -> u32 {
    (low24_s32(a) * low24_s32(b)) as u32
}

/// `mul24.lo.u32`
#[inline(always)]
pub fn mul24_lo_u32(a: u32, b: u32) -> u32 {
    (low24_u32(a) * low24_u32(b)) as u32
}

/// `add.sat.s32`, and the addition of `mad.hi.sat.s32` and `mad24.hi.sat.s32`
#[inline(always)]
pub fn add_sat_s32(a: u32, b: u32) -> u32 {
    (a as i32).saturating_add(b as i32) as u32
}

/// `sub.sat.s32`
#[inline(always)]
pub fn sub_sat_s32(a: u32, b: u32) -> u32 {
    (a as i32).saturating_sub(b as i32) as u32
}

macro_rules! sad {
    ($($name:ident, $bits:ty, $value:ty, $doc:literal;)*) => {$(
        #[doc = concat!("`", $doc, "`: c + |a − b|, wrapping.")]
        #[inline(always)]
        pub fn $name(a: $bits, b: $bits, c: $bits) -> $bits {
            c.wrapping_add((a as $value).abs_diff(b as $value))
        }
    )*};
}

sad! {
    sad_u16, u16, u16, "sad.u16";
    sad_s16, u16, i16, "sad.s16";
    sad_u32, u32, u32, "sad.u32";
    sad_s32, u32, i32, "sad.s32";
    sad_u64, u64, u64, "sad.u64";
    sad_s64, u64, i64, "sad.s64";
}

macro_rules! divide {
    ($($div:ident $rem:ident, $bits:ty, $value:ty, $type:literal;)*) => {$(
        #[doc = concat!("`div.", $type, "`. The result of a division by zero is machine-specific: all bits set, as on NVIDIA GPUs.")]
        /// A quotient that does not fit wraps.
        #[inline(always)]
        pub fn $div(a: $bits, b: $bits) -> $bits {
            if b == 0 { <$bits>::MAX } else { (a as $value).wrapping_div(b as $value) as $bits }
        }

        #[doc = concat!("`rem.", $type, "`: has the sign of the dividend. The remainder of a division by zero is the dividend.")]
        #[inline(always)]
        pub fn $rem(a: $bits, b: $bits) -> $bits {
            if b == 0 { a } else { (a as $value).wrapping_rem(b as $value) as $bits }
        }
    )*};
}

divide! {
    div_u16 rem_u16, u16, u16, "u16";
    div_s16 rem_s16, u16, i16, "s16";
    div_u32 rem_u32, u32, u32, "u32";
    div_s32 rem_s32, u32, i32, "s32";
    div_u64 rem_u64, u64, u64, "u64";
    div_s64 rem_s64, u64, i64, "s64";
}

macro_rules! carry {
    ($($add:ident $sub:ident, $bits:ty, $size:literal;)*) => {$(
        #[doc = concat!("`addc.cc` on ", $size, " bits: the sum and the carry out. `add.cc` has no carry in.")]
        #[inline(always)]
        pub fn $add(a: $bits, b: $bits, carry: bool) -> ($bits, bool) {
            let (sum, first) = a.overflowing_add(b);
            let (sum, second) = sum.overflowing_add(<$bits>::from(carry));
            (sum, first | second)
        }

        #[doc = concat!("`subc.cc` on ", $size, " bits: the difference and the borrow out. `sub.cc` has no borrow in.")]
        #[inline(always)]
        pub fn $sub(a: $bits, b: $bits, borrow: bool) -> ($bits, bool) {
            let (difference, first) = a.overflowing_sub(b);
            let (difference, second) = difference.overflowing_sub(<$bits>::from(borrow));
            (difference, first | second)
        }
    )*};
}

carry! {
    addc_b32 subc_b32, u32, "32";
    addc_b64 subc_b64, u64, "64";
}

/// Byte `i` of `a`, sign- or zero-extended.
#[inline(always)]
fn byte(a: u32, i: u32, signed: bool) -> i32 {
    let raw = (a >> (8 * i)) as u8;
    if signed { i32::from(raw as i8) } else { i32::from(raw) }
}

/// `dp4a`: c plus the dot product of four bytes, wrapping.
#[inline(always)]
pub fn dp4a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    let mut sum = c as i32;
    for i in 0..4 {
        sum = sum.wrapping_add(byte(a, i, a_signed) * byte(b, i, b_signed));
    }
    sum as u32
}

/// `dp2a`: c plus the dot product of two 16-bit halves of `a` and two bytes of `b`, the upper pair if `high`; wrapping.
#[inline(always)]
pub fn dp2a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32, high: bool) -> u32 {
    let first = if high { 2 } else { 0 };
    let mut sum = c as i32;
    for i in 0..2 {
        let raw = (a >> (16 * i)) as u16;
        let half = if a_signed { i32::from(raw as i16) } else { i32::from(raw) };
        sum = sum.wrapping_add(half * byte(b, first + i, b_signed));
    }
    sum as u32
}
