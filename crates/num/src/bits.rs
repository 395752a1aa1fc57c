//! Bit fields, shifts, permutations and logic.

/// How a bit position or count beyond the register width is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// `.clamp`: it is limited to the width.
    Clamp,
    /// `.wrap`: it is taken modulo the width.
    Wrap,
}

macro_rules! shift {
    ($($shl:ident $shr_u:ident $shr_s:ident, $bits:ty, $value:ty, $size:literal;)*) => {$(
        #[doc = concat!("`shl.b", $size, "`: amounts beyond the width give 0.")]
        #[inline(always)]
        pub fn $shl(a: $bits, b: u32) -> $bits {
            if b < <$bits>::BITS { a << b } else { 0 }
        }

        #[doc = concat!("`shr.u", $size, "`: amounts beyond the width give 0.")]
        #[inline(always)]
        pub fn $shr_u(a: $bits, b: u32) -> $bits {
            if b < <$bits>::BITS { a >> b } else { 0 }
        }

        #[doc = concat!("`shr.s", $size, "`: amounts beyond the width give copies of the sign.")]
        #[inline(always)]
        pub fn $shr_s(a: $bits, b: u32) -> $bits {
            ((a as $value) >> b.min(<$bits>::BITS - 1)) as $bits
        }
    )*};
}

shift! {
    shl_b16 shr_u16 shr_s16, u16, i16, "16";
    shl_b32 shr_u32 shr_s32, u32, i32, "32";
    shl_b64 shr_u64 shr_s64, u64, i64, "64";
}

#[inline(always)]
fn funnel_amount(c: u32, beyond: Beyond) -> u32 {
    match beyond {
        Beyond::Clamp => c.min(32),
        Beyond::Wrap => c & 31,
    }
}

/// `shf.l`: the upper half of `b:a` shifted left.
#[inline(always)]
pub fn shf_l(a: u32, b: u32, c: u32, beyond: Beyond) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    ((both << funnel_amount(c, beyond)) >> 32) as u32
}

/// `shf.r`: the lower half of `b:a` shifted right.
#[inline(always)]
pub fn shf_r(a: u32, b: u32, c: u32, beyond: Beyond) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    (both >> funnel_amount(c, beyond)) as u32
}

/// `lop3`: `lut` is the truth table; its bit 4·a + 2·b + c is the result for those input bits.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, lut: u8) -> u32 {
    let mut result = 0;
    for row in 0..8 {
        let x = if row & 4 != 0 { a } else { !a };
        let y = if row & 2 != 0 { b } else { !b };
        let z = if row & 1 != 0 { c } else { !c };
        let selected = if lut >> row & 1 != 0 { u32::MAX } else { 0 };
        result |= x & y & z & selected;
    }
    result
}

macro_rules! fields {
    ($($bfe_u:ident $bfe_s:ident $bfi:ident $bfind_u:ident $bfind_s:ident, $bits:ty, $value:ty, $size:literal;)*) => {$(
        #[doc = concat!("`bfe.u", $size, "`: `len` bits starting at bit `pos`, zero-extended. Only the low 8 bits of both count.")]
        #[inline(always)]
        pub fn $bfe_u(a: $bits, pos: u32, len: u32) -> $bits {
            let (pos, len) = (pos & 0xff, len & 0xff);
            let field = if pos < <$bits>::BITS { a >> pos } else { 0 };
            if len < <$bits>::BITS { field & ((1 << len) - 1) } else { field }
        }

        #[doc = concat!("`bfe.s", $size, "`: as unsigned, but extended by the field's top bit, or by that of `a` if the field")]
        /// reaches beyond it.
        #[inline(always)]
        pub fn $bfe_s(a: $bits, pos: u32, len: u32) -> $bits {
            let (pos, len) = (pos & 0xff, len & 0xff);
            let field = (a as $value) >> pos.min(<$bits>::BITS - 1);
            let unused = <$bits>::BITS - len.clamp(1, <$bits>::BITS);
            let extended = ((field << unused) >> unused) as $bits;
            if len == 0 { 0 } else { extended }
        }

        #[doc = concat!("`bfi.b", $size, "`: the low `len` bits of `a` inserted into `b` at bit `pos`.")]
        #[inline(always)]
        pub fn $bfi(a: $bits, b: $bits, pos: u32, len: u32) -> $bits {
            let (pos, len) = (pos & 0xff, len & 0xff);
            let low = if len < <$bits>::BITS { (1 << len) - 1 } else { <$bits>::MAX };
            let (mask, field) = if pos < <$bits>::BITS { (low << pos, a << pos) } else { (0, 0) };
            (b & !mask) | (field & mask)
        }

        #[doc = concat!("`bfind.u", $size, "`: the position of the topmost 1, or its distance from the top; all ones if none.")]
        #[inline(always)]
        pub fn $bfind_u(a: $bits, shiftamt: bool) -> u32 {
            let zeros = a.leading_zeros();
            let found = if shiftamt { zeros } else { (<$bits>::BITS - 1).wrapping_sub(zeros) };
            if a == 0 { u32::MAX } else { found }
        }

        #[doc = concat!("`bfind.s", $size, "`: the position of the topmost bit that differs from the sign.")]
        #[inline(always)]
        pub fn $bfind_s(a: $bits, shiftamt: bool) -> u32 {
            $bfind_u(a ^ ((a as $value) >> (<$bits>::BITS - 1)) as $bits, shiftamt)
        }
    )*};
}

fields! {
    bfe_u32 bfe_s32 bfi_b32 bfind_u32 bfind_s32, u32, i32, "32";
    bfe_u64 bfe_s64 bfi_b64 bfind_u64 bfind_s64, u64, i64, "64";
}

/// `fns`: the position of the n-th set bit of `mask` starting at bit `base`, upward for a positive `offset` and downward
/// for a negative one; all ones if there is none. A base above 31, which the manual leaves undefined, finds nothing.
#[inline]
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 != 0 { base } else { u32::MAX };
    }
    let wanted = offset.unsigned_abs();
    let mut left = if offset > 0 {
        mask & (u32::MAX << base)
    } else {
        (mask & (u32::MAX >> (31 - base))).reverse_bits()
    };
    if left.count_ones() < wanted {
        return u32::MAX;
    }
    for _ in 1..wanted {
        left &= left - 1;
    }
    let position = left.trailing_zeros();
    if offset > 0 { position } else { 31 - position }
}

/// `szext`: the low `b` bits of `a`, sign- or zero-extended.
#[inline(always)]
pub fn szext(a: u32, b: u32, signed: bool, beyond: Beyond) -> u32 {
    if beyond == Beyond::Clamp && b >= 32 {
        return a;
    }
    let width = b & 31;
    if width == 0 {
        return 0;
    }
    let unused = 32 - width;
    if signed { ((a << unused) as i32 >> unused) as u32 } else { (a << unused) >> unused }
}

/// `bmsk`: `b` ones starting at bit `a`.
#[inline(always)]
pub fn bmsk(a: u32, b: u32, beyond: Beyond) -> u32 {
    let clamp = beyond == Beyond::Clamp;
    if clamp && a >= 32 {
        return 0;
    }
    let start = a & 31;
    let ones = if clamp && b >= 32 { u32::MAX } else { (1u32 << (b & 31)) - 1 };
    ones << start
}

/// How `prmt` chooses the four bytes of its result from the eight of `b:a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permute {
    /// No mode: four 4-bit selectors; the top bit of one replicates the sign of its byte.
    Generic,
    /// `.f4e`: four bytes forward from the selected one.
    F4e,
    /// `.b4e`: four bytes backward from the selected one.
    B4e,
    /// `.rc8`: the selected byte four times.
    Rc8,
    /// `.ecl`: edge clamp left.
    Ecl,
    /// `.ecr`: edge clamp right.
    Ecr,
    /// `.rc16`: the selected 16-bit half twice.
    Rc16,
}

/// `prmt.b32`
#[inline(always)]
pub fn prmt(a: u32, b: u32, c: u32, mode: Permute) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let s = c & 3;
    let mut result = 0;
    for i in 0..4u32 {
        let selector = match mode {
            Permute::Generic => c >> (4 * i) & 15,
            Permute::F4e => s + i,
            Permute::B4e => s.wrapping_sub(i) & 7,
            Permute::Rc8 => s,
            Permute::Ecl => i.max(s),
            Permute::Ecr => i.min(s),
            Permute::Rc16 => (s & 1) * 2 + (i & 1),
        };
        let byte = (bytes >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 != 0 { (byte as i8 >> 7) as u8 } else { byte };
        result |= u32::from(byte) << (8 * i);
    }
    result
}
