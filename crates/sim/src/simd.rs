//! Runtime-detected SIMD: the same safe routine compiled for several instruction sets of the host.
//!
//! A routine over 32 lanes is written once, in plain Rust that the compiler vectorizes, and is instantiated for each
//! [`Simd`]. All instantiations share one source, so they compute the same bits; only the speed differs. This is the only
//! module of the crate that needs `unsafe`: for calling a function that was compiled for more than the baseline.

// Other architectures have the portable routines only.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "calling a function compiled for a detected CPU feature is unsafe by definition"
    )
)]

use std::sync::OnceLock;

/// An instruction set of the host that lane routines are compiled for.
pub trait Simd: Copy + Send + Sync + 'static {
    /// The index of this set in the table of instantiations.
    const LEVEL: Level;

    /// Runs `f`, compiled for this instruction set. `f` is a closure, because it must be inlined to have an effect.
    fn vectorize<R>(f: impl FnOnce() -> R) -> R;

    /// Runs a computation that is too large for the compiler to inline its closure by default.
    #[inline(always)]
    fn run<V: Vectorized>(computation: V) -> V::Output {
        computation.run()
    }

    /// `words[index]` for every lane; an index past the end wraps around. `N` is a power of two. The compiler does not
    /// generate gathers from a loop, and a warp's read of shared memory is a gather.
    #[inline(always)]
    fn gather<const N: usize>(words: &[u32; N], index: &[u32; 32]) -> [u32; 32] {
        let mut out = [0; 32];
        for lane in 0..32 {
            out[lane] = words[wrapped::<N>(index[lane])];
        }
        out
    }

    /// `words[index] = value` for every lane, in the order of the lanes; an index past the end wraps around.
    #[inline(always)]
    fn scatter<const N: usize>(words: &mut [u32; N], index: &[u32; 32], values: &[u32; 32]) {
        for lane in 0..32 {
            words[wrapped::<N>(index[lane])] = values[lane];
        }
    }

    /// The low halves of addresses, and the bits that any of the high halves has.
    #[inline(always)]
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the high half is returned")]
    fn narrow(addresses: &[u64; 32]) -> ([u32; 32], u32) {
        let any = addresses.iter().fold(0, |any, address| any | address);
        (addresses.map(|address| address as u32), (any >> 32) as u32)
    }

    /// How addresses lie. The compiler generates no vector instructions for that.
    #[inline(always)]
    fn extent(addresses: &[u32; 32]) -> Extent {
        let half = |i: usize| {
            let addresses = &addresses[16 * i..16 * i + 16];
            let distance = |lane: usize| addresses[lane].wrapping_sub(addresses[0]);
            if (0..16).all(|lane| distance(lane) == STEPS[lane].cast_unsigned()) {
                Half::Run
            } else if (0..16).all(|lane| distance(lane) == 0) {
                Half::Same
            } else {
                Half::Mixed
            }
        };
        Extent {
            lowest: addresses.iter().copied().fold(u32::MAX, u32::min),
            highest: addresses.iter().copied().fold(0, u32::max),
            bits: addresses.iter().fold(0, |bits, address| bits | address),
            halves: [half(0), half(1)],
        }
    }
}

/// How the addresses of a warp lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The lowest address.
    pub lowest: u32,
    /// The highest one.
    pub highest: u32,
    /// The bits that any of them has.
    pub bits: u32,
    /// Of the first 16 lanes, and of the others.
    pub halves: [Half; 2],
}

/// How the addresses of half a warp lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Consecutive words.
    Run,
    /// One word.
    Same,
    /// In another way.
    Mixed,
}

/// The distances of consecutive words.
const STEPS: [i32; 16] = [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60];

#[inline(always)]
#[expect(clippy::as_conversions, reason = "masked to the array's size")]
fn wrapped<const N: usize>(index: u32) -> usize {
    const { assert!(N.is_power_of_two() && N <= 1 << 31) };
    index as usize & (N - 1)
}

/// The instance of a generic function for a level, or for the fastest level below it that the machine supports.
#[macro_export]
macro_rules! at_level {
    ($level:expr, $function:ident) => {
        match $level.or_below() {
            $crate::simd::Level::Portable => $function::<$crate::simd::Portable>,
            $crate::simd::Level::V3 => $function::<$crate::simd::V3>,
            $crate::simd::Level::V4 => $function::<$crate::simd::V4>,
        }
    };
}

pub use at_level;

/// A computation that [`Level::run`] compiles for each level. That covers only inlined code, so `run` and the functions it
/// calls are `#[inline(always)]`.
pub trait Vectorized {
    /// Its result type.
    type Output;

    /// Computes it.
    fn run(self) -> Self::Output;
}

/// The instruction sets, from slowest to fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The baseline of the target: any machine.
    Portable,
    /// x86-64-v3: AVX2, FMA, BMI2, F16C.
    V3,
    /// x86-64-v4: AVX-512 F, BW, DQ, VL.
    V4,
}

/// The baseline of the target.
#[derive(Clone, Copy)]
pub struct Portable;

impl Simd for Portable {
    const LEVEL: Level = Level::Portable;

    #[inline(always)]
    fn vectorize<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// x86-64-v3. Bound only after [`Level::detect`] has found the features.
#[derive(Clone, Copy)]
pub struct V3;

/// x86-64-v4. Bound only after [`Level::detect`] has found the features.
#[derive(Clone, Copy)]
pub struct V4;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Extent, Half, Level, STEPS, Simd, V3, V4, Vectorized};
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastd_epi32,
        _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cvtsi256_si32, _mm256_i32gather_epi32,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_storeu_si256,
        _mm512_add_epi32, _mm512_and_si512, _mm512_broadcastd_epi32, _mm512_castsi512_si128,
        _mm512_cmpeq_epi32_mask, _mm512_cvtepi64_epi32, _mm512_cvtsi512_si32, _mm512_i32gather_epi32,
        _mm512_loadu_si512, _mm512_max_epu32, _mm512_min_epu32, _mm512_or_si512, _mm512_reduce_max_epu32,
        _mm512_reduce_min_epu32, _mm512_reduce_or_epi32, _mm512_reduce_or_epi64, _mm512_set1_epi32,
        _mm512_setr_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    /// The pattern of the indices of some lanes. Neighboring lanes almost always read consecutive words or one word, and
    /// a gather costs several times as much as that.
    struct Shape {
        first: usize,
        consecutive: bool,
        same: bool,
    }

    #[expect(
        clippy::as_conversions,
        clippy::cast_sign_loss,
        reason = "masked to below 2^30, so not negative"
    )]
    fn index(first: i32) -> usize {
        first as usize
    }

    #[target_feature(enable = "avx2")]
    fn shape8(at: __m256i) -> Shape {
        let first = _mm256_broadcastd_epi32(_mm256_castsi256_si128(at));
        let run = _mm256_add_epi32(first, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        Shape {
            first: index(_mm256_cvtsi256_si32(at)),
            consecutive: _mm256_movemask_epi8(_mm256_cmpeq_epi32(at, run)) == -1,
            same: _mm256_movemask_epi8(_mm256_cmpeq_epi32(at, first)) == -1,
        }
    }

    #[target_feature(enable = "avx512f")]
    fn half(addresses: __m512i, steps: __m512i) -> Half {
        let first = _mm512_broadcastd_epi32(_mm512_castsi512_si128(addresses));
        if _mm512_cmpeq_epi32_mask(addresses, _mm512_add_epi32(first, steps)) == u16::MAX {
            Half::Run
        } else if _mm512_cmpeq_epi32_mask(addresses, first) == u16::MAX {
            Half::Same
        } else {
            Half::Mixed
        }
    }

    #[target_feature(enable = "avx512f")]
    fn shape16(at: __m512i) -> Shape {
        let first = _mm512_broadcastd_epi32(_mm512_castsi512_si128(at));
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        Shape {
            first: index(_mm512_cvtsi512_si32(at)),
            consecutive: _mm512_cmpeq_epi32_mask(at, _mm512_add_epi32(first, lanes)) == u16::MAX,
            same: _mm512_cmpeq_epi32_mask(at, first) == u16::MAX,
        }
    }

    /// The largest index, as the vector instructions take it.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "N is a power of two of at most 2^30"
    )]
    const fn mask<const N: usize>() -> i32 {
        const { assert!(N.is_power_of_two() && N <= 1 << 30) };
        (N - 1) as i32
    }

    impl Simd for V3 {
        const LEVEL: Level = Level::V3;

        #[inline(always)]
        fn vectorize<R>(f: impl FnOnce() -> R) -> R {
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt")]
            fn enter<R>(f: impl FnOnce() -> R) -> R {
                f()
            }
            // SAFETY: routines for V3 are bound only at a level that `Level::available` allows, which checks every
            // feature named above on this CPU.
            unsafe { enter(f) }
        }

        #[inline(always)]
        fn run<V: Vectorized>(computation: V) -> V::Output {
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt")]
            fn enter<V: Vectorized>(computation: V) -> V::Output {
                computation.run()
            }
            // SAFETY: as above.
            unsafe { enter(computation) }
        }

        #[inline(always)]
        fn gather<const N: usize>(words: &[u32; N], index: &[u32; 32]) -> [u32; 32] {
            #[target_feature(enable = "avx2")]
            fn enter<const N: usize>(words: &[u32; N], index: &[u32; 32]) -> [u32; 32] {
                let mut out = [0u32; 32];
                let wrap = _mm256_set1_epi32(mask::<N>());
                for (from, to) in index.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
                    // SAFETY: `from` is eight words.
                    let at = unsafe { _mm256_and_si256(_mm256_loadu_si256(from.as_ptr().cast()), wrap) };
                    let shape = shape8(at);
                    if let (true, Some(run)) =
                        (shape.consecutive, words.get(shape.first..).and_then(<[u32]>::first_chunk))
                    {
                        *to = *run;
                    } else if shape.same {
                        *to = [words[shape.first & (N - 1)]; 8];
                    } else {
                        // SAFETY: `to` is eight words; every index is masked to below N, so the gather stays inside
                        // `words`.
                        unsafe {
                            let value = _mm256_i32gather_epi32::<4>(words.as_ptr().cast(), at);
                            _mm256_storeu_si256(to.as_mut_ptr().cast(), value);
                        }
                    }
                }
                out
            }
            // SAFETY: as above.
            unsafe { enter(words, index) }
        }

        #[inline(always)]
        fn scatter<const N: usize>(words: &mut [u32; N], index: &[u32; 32], values: &[u32; 32]) {
            #[target_feature(enable = "avx2")]
            fn enter<const N: usize>(words: &mut [u32; N], index: &[u32; 32], values: &[u32; 32]) {
                let wrap = _mm256_set1_epi32(mask::<N>());
                for (to, from) in index.as_chunks::<8>().0.iter().zip(values.as_chunks::<8>().0) {
                    // SAFETY: `to` is eight words.
                    let shape =
                        shape8(unsafe { _mm256_and_si256(_mm256_loadu_si256(to.as_ptr().cast()), wrap) });
                    if let (true, Some(run)) =
                        (shape.consecutive, words.get_mut(shape.first..).and_then(<[u32]>::first_chunk_mut))
                    {
                        *run = *from;
                    } else {
                        for (to, from) in to.iter().zip(from) {
                            words[super::wrapped::<N>(*to)] = *from;
                        }
                    }
                }
            }
            // SAFETY: as above.
            unsafe { enter(words, index, values) }
        }
    }

    impl Simd for V4 {
        const LEVEL: Level = Level::V4;

        #[inline(always)]
        fn vectorize<R>(f: impl FnOnce() -> R) -> R {
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt"
            )]
            fn enter<R>(f: impl FnOnce() -> R) -> R {
                f()
            }
            // SAFETY: as for V3.
            unsafe { enter(f) }
        }

        #[inline(always)]
        fn run<V: Vectorized>(computation: V) -> V::Output {
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt"
            )]
            fn enter<V: Vectorized>(computation: V) -> V::Output {
                computation.run()
            }
            // SAFETY: as for V3.
            unsafe { enter(computation) }
        }

        #[inline(always)]
        fn gather<const N: usize>(words: &[u32; N], index: &[u32; 32]) -> [u32; 32] {
            #[target_feature(enable = "avx512f")]
            fn enter<const N: usize>(words: &[u32; N], index: &[u32; 32]) -> [u32; 32] {
                let mut out = [0u32; 32];
                let wrap = _mm512_set1_epi32(mask::<N>());
                for (from, to) in index.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0) {
                    // SAFETY: `from` is sixteen words.
                    let at = unsafe { _mm512_and_si512(_mm512_loadu_si512(from.as_ptr().cast()), wrap) };
                    let shape = shape16(at);
                    if let (true, Some(run)) =
                        (shape.consecutive, words.get(shape.first..).and_then(<[u32]>::first_chunk))
                    {
                        *to = *run;
                    } else if shape.same {
                        *to = [words[shape.first & (N - 1)]; 16];
                    } else {
                        // SAFETY: `to` is sixteen words; every index is masked to below N, so the gather stays inside
                        // `words`.
                        unsafe {
                            let value = _mm512_i32gather_epi32::<4>(at, words.as_ptr().cast());
                            _mm512_storeu_si512(to.as_mut_ptr().cast(), value);
                        }
                    }
                }
                out
            }
            // SAFETY: as for V3.
            unsafe { enter(words, index) }
        }

        #[inline(always)]
        fn scatter<const N: usize>(words: &mut [u32; N], index: &[u32; 32], values: &[u32; 32]) {
            #[target_feature(enable = "avx512f")]
            fn enter<const N: usize>(words: &mut [u32; N], index: &[u32; 32], values: &[u32; 32]) {
                let wrap = _mm512_set1_epi32(mask::<N>());
                for (to, from) in index.as_chunks::<16>().0.iter().zip(values.as_chunks::<16>().0) {
                    // SAFETY: `to` is sixteen words.
                    let shape =
                        shape16(unsafe { _mm512_and_si512(_mm512_loadu_si512(to.as_ptr().cast()), wrap) });
                    if let (true, Some(run)) =
                        (shape.consecutive, words.get_mut(shape.first..).and_then(<[u32]>::first_chunk_mut))
                    {
                        *run = *from;
                    } else {
                        for (to, from) in to.iter().zip(from) {
                            words[super::wrapped::<N>(*to)] = *from;
                        }
                    }
                }
            }
            // SAFETY: as for V3.
            unsafe { enter(words, index, values) }
        }

        #[inline(always)]
        fn narrow(addresses: &[u64; 32]) -> ([u32; 32], u32) {
            #[target_feature(enable = "avx512f")]
            #[expect(clippy::as_conversions, reason = "shifted to 32 bits")]
            fn enter(addresses: &[u64; 32]) -> ([u32; 32], u32) {
                let (mut out, mut any) = ([0u32; 32], _mm512_setzero_si512());
                for (from, to) in addresses.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
                    // SAFETY: `from` is eight double words, and `to` eight words.
                    unsafe {
                        let eight = _mm512_loadu_si512(from.as_ptr().cast());
                        any = _mm512_or_si512(any, eight);
                        _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(eight));
                    }
                }
                (out, (_mm512_reduce_or_epi64(any).cast_unsigned() >> 32) as u32)
            }
            // SAFETY: as for V3.
            unsafe { enter(addresses) }
        }

        #[inline(always)]
        fn extent(addresses: &[u32; 32]) -> Extent {
            #[target_feature(enable = "avx512f")]
            fn enter(addresses: &[u32; 32]) -> Extent {
                // SAFETY: there are 32 addresses and 16 steps.
                let [low, high, steps] = unsafe {
                    [
                        _mm512_loadu_si512(addresses[..16].as_ptr().cast()),
                        _mm512_loadu_si512(addresses[16..].as_ptr().cast()),
                        _mm512_loadu_si512(STEPS.as_ptr().cast()),
                    ]
                };
                Extent {
                    lowest: _mm512_reduce_min_epu32(_mm512_min_epu32(low, high)),
                    highest: _mm512_reduce_max_epu32(_mm512_max_epu32(low, high)),
                    bits: _mm512_reduce_or_epi32(_mm512_or_si512(low, high)).cast_unsigned(),
                    halves: [half(low, steps), half(high, steps)],
                }
            }
            // SAFETY: as for V3.
            unsafe { enter(addresses) }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::{Level, Simd, V3, V4};

    impl Simd for V3 {
        const LEVEL: Level = Level::V3;

        #[inline(always)]
        fn vectorize<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
    }

    impl Simd for V4 {
        const LEVEL: Level = Level::V4;

        #[inline(always)]
        fn vectorize<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
    }
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::V3, Level::V4];

    /// Whether this machine has the instructions of the level.
    pub fn available(self) -> bool {
        match self {
            Level::Portable => true,
            Level::V3 | Level::V4 if cfg!(any(not(feature = "simd"), test)) => false,
            #[cfg(target_arch = "x86_64")]
            Level::V3 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Level::V4 => {
                Level::V3.available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Level::V3 | Level::V4 => false,
        }
    }

    /// The fastest level of this machine; looked up once.
    pub fn detect() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            Level::ALL.into_iter().rev().find(|level| level.available()).unwrap_or(Level::Portable)
        })
    }

    /// The fastest available level that is not above `self`.
    #[must_use]
    pub fn or_below(self) -> Level {
        Level::ALL
            .into_iter()
            .rev()
            .find(|level| *level <= self && level.available())
            .unwrap_or(Level::Portable)
    }

    /// Runs a computation compiled for this level, or for the fastest level below it that the machine supports.
    pub fn run<V: Vectorized>(self, computation: V) -> V::Output {
        match self.or_below() {
            Level::Portable => Portable::run(computation),
            Level::V3 => V3::run(computation),
            Level::V4 => V4::run(computation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Half, Level, Portable, Simd, V3, V4};

    fn agrees<I: Simd>(addresses: &[u64; 32]) -> [Half; 2] {
        let (row, high) = I::narrow(addresses);
        assert_eq!((row, high), Portable::narrow(addresses));
        let extent = I::extent(&row);
        assert_eq!(extent, Portable::extent(&row));
        assert_eq!((extent.lowest, extent.highest), (*row.iter().min().unwrap(), *row.iter().max().unwrap()));
        extent.halves
    }

    #[test]
    fn rows_lie_as_the_portable_form_finds() {
        let row = |at: fn(u64) -> u64| std::array::from_fn(|lane| at(u64::try_from(lane).unwrap()));
        let cases: [([u64; 32], [Half; 2]); 6] = [
            (row(|lane| 256 + 4 * lane), [Half::Run; 2]),
            (row(|lane| 64 + lane / 16 * 1024), [Half::Same; 2]),
            (row(|lane| if lane < 16 { 4 * lane } else { 7 }), [Half::Run, Half::Same]),
            (row(|lane| 8 * lane), [Half::Mixed; 2]),
            (row(|lane| 4 * lane + u64::from(lane == 31) * (1 << 32)), [Half::Run; 2]),
            (row(|lane| u64::from(u32::MAX) - 3 + 4 * (lane % 16)), [Half::Run; 2]),
        ];
        for (addresses, halves) in &cases {
            assert_eq!(agrees::<Portable>(addresses), *halves);
            if Level::V3.available() {
                assert_eq!(agrees::<V3>(addresses), *halves);
            }
            if Level::V4.available() {
                assert_eq!(agrees::<V4>(addresses), *halves);
            }
        }
    }
}
