//! Types that buffers hold and that kernels take as arguments: integers, floating-point numbers, and the narrow formats that
//! Rust has no type for.

use crate::device::Buffer;
use warpproof_num::Rounding;
use warpproof_num::convert::{cvt_bf16_f32, cvt_f16_f32, cvt_f32_bf16, cvt_f32_f16};
use warpproof_num::fp8::{Fp8, cvt_f32_fp8, cvt_fp8_f32};

/// A type that can be copied to and from device memory.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// Bytes of one value.
    const BYTES: usize;
    /// Appends the little-endian bytes.
    fn store(self, out: &mut Vec<u8>);
    /// Converts from [`BYTES`](Self::BYTES) little-endian bytes.
    fn load(bytes: &[u8]) -> Self;
}

/// A value that can be passed to a kernel.
pub trait Argument {
    /// Its bytes as they lie in parameter memory.
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();
            fn store(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn load(bytes: &[u8]) -> Self {
                bytes.try_into().map_or_else(|_| Self::default(), <$type>::from_le_bytes)
            }
        }
        impl Argument for $type {
            fn bytes(&self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )*};
}

element!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl<T> Argument for Buffer<T> {
    fn bytes(&self) -> Vec<u8> {
        self.address().to_le_bytes().to_vec()
    }
}

impl Argument for Vec<u8> {
    fn bytes(&self) -> Vec<u8> {
        self.clone()
    }
}

impl<A: Argument + ?Sized> Argument for &A {
    fn bytes(&self) -> Vec<u8> {
        (**self).bytes()
    }
}

macro_rules! narrow {
    ($($(#[$about:meta])* $name:ident($bits:ty): $narrow:expr, $widen:expr;)*) => {$(
        $(#[$about])*
        ///
        /// Two values are equal if their bits are: NaN equals itself, and the two zeros differ.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($bits);

        impl $name {
            /// The value with these bits.
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// Its bits.
            pub const fn to_bits(self) -> $bits {
                self.0
            }

            #[doc = concat!("The nearest ", stringify!($name), ", as `cvt.rn` computes it; ties go to the even one.")]
            pub fn from_f32(value: f32) -> Self {
                Self($narrow(value.to_bits()))
            }

            /// Its value, which is exact. A NaN becomes the canonical NaN of f32.
            pub fn to_f32(self) -> f32 {
                f32::from(self)
            }
        }

        impl From<$name> for f32 {
            fn from(value: $name) -> f32 {
                let value = f32::from_bits($widen(value.0));
                if value.is_nan() { f32::from_bits(warpproof_num::float::NAN_F32) } else { value }
            }
        }

        impl Element for $name {
            const BYTES: usize = <$bits as Element>::BYTES;
            fn store(self, out: &mut Vec<u8>) {
                self.0.store(out);
            }
            fn load(bytes: &[u8]) -> Self {
                Self(Element::load(bytes))
            }
        }

        impl Argument for $name {
            fn bytes(&self) -> Vec<u8> {
                self.0.bytes()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )*};
}

narrow! {
    /// A half-precision number: `__half` of CUDA, `.f16` of PTX. A number beyond 65504 becomes infinity.
    F16(u16): |bits| cvt_f16_f32(bits, Rounding::Rn, false), cvt_f32_f16;
    /// A bfloat16: `__nv_bfloat16` of CUDA, `.bf16` of PTX. It has the range of f32 and 8 bits of precision.
    Bf16(u16): |bits| cvt_bf16_f32(bits, Rounding::Rn, false), cvt_f32_bf16;
    /// An 8-bit number with 4 exponent bits: `__nv_fp8_e4m3` of CUDA, `.e4m3` of PTX. It has no infinity: a number beyond
    /// 448 becomes 448, as with `.satfinite`.
    E4m3(u8): |bits| cvt_fp8_f32(Fp8::E4m3, bits, false), |bits| cvt_f32_fp8(Fp8::E4m3, bits);
    /// An 8-bit number with 5 exponent bits: `__nv_fp8_e5m2` of CUDA, `.e5m2` of PTX. A number beyond 57344, also infinity,
    /// becomes 57344, as with `.satfinite`.
    E5m2(u8): |bits| cvt_fp8_f32(Fp8::E5m2, bits, false), |bits| cvt_f32_fp8(Fp8::E5m2, bits);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code of a format survives the way to f32 and back, except NaN, which becomes the canonical one, and the
    /// infinities of E5m2, which saturate.
    #[test]
    fn narrow_values_survive_f32() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (F16::from_bits(bits), Bf16::from_bits(bits));
            assert!(half.to_f32().is_nan() || F16::from_f32(half.to_f32()) == half, "{bits:#x}");
            assert!(brain.to_f32().is_nan() || Bf16::from_f32(brain.to_f32()) == brain, "{bits:#x}");
        }
        for bits in 0..=u8::MAX {
            let (four, five) = (E4m3::from_bits(bits), E5m2::from_bits(bits));
            assert!(four.to_f32().is_nan() || E4m3::from_f32(four.to_f32()) == four, "{bits:#x}");
            assert!(!five.to_f32().is_finite() || E5m2::from_f32(five.to_f32()) == five, "{bits:#x}");
        }
    }

    #[test]
    fn narrow_values_are_rounded_and_limited() {
        assert_eq!((F16::from_f32(1.0).to_bits(), F16::from_f32(1e6).to_bits()), (0x3c00, 0x7c00));
        assert_eq!(Bf16::from_f32(1.0 + 1.0 / 256.0).to_bits(), 0x3f80);
        assert_eq!(Bf16::from_f32(1.0 + 3.0 / 256.0).to_bits(), 0x3f82);
        assert_eq!(Bf16::from_bits(0xffff).to_f32().to_bits(), warpproof_num::float::NAN_F32);
        let shown = |value: &dyn std::fmt::Display| value.to_string();
        assert_eq!(
            [1e6, -1e6, f32::INFINITY].map(|value| shown(&E4m3::from_f32(value))),
            ["448", "-448", "448"]
        );
        assert_eq!([0.5, f32::INFINITY].map(|value| shown(&E5m2::from_f32(value))), ["0.5", "57344"]);
        assert!(E4m3::from_f32(f32::NAN).to_f32().is_nan() && E5m2::from_f32(f32::NAN).to_f32().is_nan());
        assert_eq!(format!("{:?}", F16::from_f32(2.0)), "2.0");
    }
}
