//! The register file of a warp: every register is a row of 32 lanes.
//!
//! Rows are typed by width, so that a routine borrows exactly the rows it computes on and the compiler vectorizes it.
//! Immediates, symbol addresses and the constant special registers are rows too (filled once when the warp starts), so a
//! source operand is always a row index and a routine need not distinguish kinds of operands.

/// Lanes in a warp.
pub const LANES: usize = 32;

/// One register of all 32 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Row<T>(pub [T; LANES]);

impl<T: Copy> Row<T> {
    /// The same value in every lane.
    #[inline]
    pub fn splat(value: T) -> Self {
        Row([value; LANES])
    }
}

impl Row<u32> {
    /// The same values with 64 bits.
    #[inline]
    pub fn widened(&self) -> Row<u64> {
        let mut out = Row([0; LANES]);
        for (wide, narrow) in out.0.iter_mut().zip(self.0) {
            *wide = u64::from(narrow);
        }
        out
    }
}

/// All registers of a warp.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// Registers of up to 32 bits; narrower ones use the low bits, the rest is zero.
    pub w32: Vec<Row<u32>>,
    /// 64-bit registers.
    pub w64: Vec<Row<u64>>,
    /// 128-bit registers.
    pub w128: Vec<Row<u128>>,
    /// Predicates: one bit per lane.
    pub preds: Vec<u32>,
}

impl Registers {
    /// Becomes a copy of `other`, reusing its own memory.
    pub fn copy_from(&mut self, other: &Registers) {
        self.w32.clone_from(&other.w32);
        self.w64.clone_from(&other.w64);
        self.w128.clone_from(&other.w128);
        self.preds.clone_from(&other.preds);
    }
}

/// A storage width: the file of [`Registers`] that holds a value.
pub trait Lane: Copy + Default + Send + Sync + 'static {
    /// The width of the file.
    const WIDTH: Width;
    /// A row to read.
    fn row(registers: &Registers, index: u32) -> &Row<Self>;
    /// A row to write.
    fn row_mut(registers: &mut Registers, index: u32) -> &mut Row<Self>;
    /// `a` if the lane's bit of `mask` is set, else `b`: with a mask and not a branch, so that a loop over lanes compiles
    /// to a blend.
    fn select(mask: u32, lane: usize, a: Self, b: Self) -> Self;
}

/// The file that holds a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// Predicates.
    Pred,
    /// 8-, 16- and 32-bit registers.
    W32,
    /// 64-bit registers.
    W64,
    /// 128-bit registers.
    W128,
}

macro_rules! lane {
    ($type:ty, $width:ident, $file:ident) => {
        impl Lane for $type {
            const WIDTH: Width = Width::$width;

            #[inline(always)]
            fn row(registers: &Registers, index: u32) -> &Row<Self> {
                &registers.$file[at(index)]
            }

            #[inline(always)]
            fn row_mut(registers: &mut Registers, index: u32) -> &mut Row<Self> {
                &mut registers.$file[at(index)]
            }

            #[inline(always)]
            fn select(mask: u32, lane: usize, a: Self, b: Self) -> Self {
                let keep = <$type>::MIN.wrapping_sub(<$type>::from(mask) >> lane & 1);
                a & keep | b & !keep
            }
        }
    };
}

lane!(u32, W32, w32);
lane!(u64, W64, w64);
lane!(u128, W128, w128);

/// A 32-bit index as a `usize`: lossless on every platform this crate builds for.
#[inline(always)]
#[expect(clippy::as_conversions, reason = "usize is at least 32 bits wide on every supported target")]
pub const fn at(index: u32) -> usize {
    index as usize
}

/// A value type of the ISA and its representation in a row.
pub trait Scalar: Copy + Send + Sync + 'static {
    /// The row type that holds it.
    type Store: Lane;
    /// The PTX type that an immediate operand of this type is read as.
    const TYPE: Type;
    /// From the bits of a register.
    fn of(bits: Self::Store) -> Self;
    /// To the bits of a register.
    fn bits(self) -> Self::Store;
}

macro_rules! scalar {
    ($($type:ty, $store:ty, $ptx:ident, |$b:ident| $of:expr, |$v:ident| $bits:expr;)*) => {$(
        impl Scalar for $type {
            type Store = $store;
            const TYPE: Type = Type::$ptx;
            #[inline(always)]
            #[expect(clippy::as_conversions, clippy::allow_attributes, reason = "a register's bits, reinterpreted at its width")]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap, clippy::cast_lossless, clippy::unnecessary_cast,
                reason = "a register's bits, reinterpreted at its width")]
            fn of($b: $store) -> Self { $of }
            #[inline(always)]
            #[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap, clippy::cast_lossless, clippy::unnecessary_cast, clippy::allow_attributes,
                reason = "a register's bits, reinterpreted at its width")]
            fn bits(self) -> $store { let $v = self; $bits }
        }
    )*};
}

scalar! {
    u8, u32, U8, |b| b as u8, |v| u32::from(v);
    i8, u32, S8, |b| b as u8 as i8, |v| u32::from(v as u8);
    u16, u32, U16, |b| b as u16, |v| u32::from(v);
    i16, u32, S16, |b| b as u16 as i16, |v| u32::from(v as u16);
    u32, u32, U32, |b| b as u32, |v| v;
    i32, u32, S32, |b| b as i32, |v| v as u32;
    u64, u64, U64, |b| b as u64, |v| v;
    i64, u64, S64, |b| b as i64, |v| v as u64;
    u128, u128, B128, |b| b as u128, |v| v;
}

impl Scalar for f32 {
    type Store = u32;
    const TYPE: Type = Type::F32;
    #[inline(always)]
    fn of(bits: u32) -> Self {
        f32::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Scalar for f64 {
    type Store = u64;
    const TYPE: Type = Type::F64;
    #[inline(always)]
    fn of(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// The scalar types of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    E4M3,
    E5M2,
    E4M3x2,
    E5M2x2,
    E3M2,
    E2M3,
    E2M1,
    E3M2x2,
    E2M3x2,
    E2M1x2,
    UE8M0x2,
    S2F6x2,
    F32x2,
    F32,
    F64,
    Pred,
}

impl Type {
    /// The type a modifier such as `u32` names.
    pub fn parse(name: &str) -> Option<Type> {
        Some(match name {
            "b8" => Type::B8,
            "b16" => Type::B16,
            "b32" => Type::B32,
            "b64" => Type::B64,
            "b128" => Type::B128,
            "u8" => Type::U8,
            "u16" => Type::U16,
            "u32" => Type::U32,
            "u64" => Type::U64,
            "s8" => Type::S8,
            "s16" => Type::S16,
            "s32" => Type::S32,
            "s64" => Type::S64,
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::BF16,
            "bf16x2" => Type::BF16x2,
            "tf32" => Type::TF32,
            "e4m3" => Type::E4M3,
            "e5m2" => Type::E5M2,
            "e4m3x2" => Type::E4M3x2,
            "e5m2x2" => Type::E5M2x2,
            "e3m2" => Type::E3M2,
            "e2m3" => Type::E2M3,
            "e2m1" => Type::E2M1,
            "e3m2x2" => Type::E3M2x2,
            "e2m3x2" => Type::E2M3x2,
            "e2m1x2" => Type::E2M1x2,
            "ue8m0x2" => Type::UE8M0x2,
            "s2f6x2" => Type::S2F6x2,
            "f32x2" => Type::F32x2,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "pred" => Type::Pred,
            _ => return None,
        })
    }

    /// Bytes in memory; a predicate has none.
    pub fn bytes(self) -> u32 {
        match self {
            Type::Pred => 0,
            Type::B8
            | Type::U8
            | Type::S8
            | Type::E4M3
            | Type::E5M2
            | Type::E3M2
            | Type::E2M3
            | Type::E2M1
            | Type::E2M1x2 => 1,
            Type::B16
            | Type::U16
            | Type::S16
            | Type::F16
            | Type::BF16
            | Type::E4M3x2
            | Type::E5M2x2
            | Type::E3M2x2
            | Type::E2M3x2
            | Type::UE8M0x2
            | Type::S2F6x2 => 2,
            Type::B32 | Type::U32 | Type::S32 | Type::F16x2 | Type::BF16x2 | Type::TF32 | Type::F32 => 4,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 | Type::F32x2 => 8,
            Type::B128 => 16,
        }
    }

    /// The register file that holds a value of this type.
    pub fn width(self) -> Width {
        match self.bytes() {
            0 => Width::Pred,
            1..=4 => Width::W32,
            8 => Width::W64,
            _ => Width::W128,
        }
    }

    /// Whether the type is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// Whether the type is a floating-point format of 32 or 64 bits, for which decimal immediates make sense.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::BF16 | Type::F32 | Type::F64 | Type::TF32)
    }
}
