//! The choices that the generator of kernels makes: pseudorandom, or by the bytes of a fuzzer as long as there are any.

use warpproof_num::random::SplitMix;

/// A source of choices.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    random: SplitMix,
}

impl<'a> Choices<'a> {
    /// Choices by bytes, and pseudorandom ones from a seed when they are used up.
    pub(crate) fn new(bytes: &'a [u8], seed: u64) -> Choices<'a> {
        Choices { bytes, random: SplitMix(seed) }
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        let number = match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                u64::from(*first) % u64::from(limit.max(1))
            }
            None => self.random.below(u64::from(limit)),
        };
        u32::try_from(number).unwrap_or(0)
    }

    /// Whether one of `limit` equally likely things happens.
    pub(crate) fn one_in(&mut self, limit: u32) -> bool {
        self.below(limit) == 0
    }

    /// One of several values.
    pub(crate) fn of<T: Copy>(&mut self, values: &[T]) -> T {
        let index = self.below(u32::try_from(values.len()).unwrap_or(u32::MAX));
        values[usize::try_from(index).unwrap_or(0)]
    }
}
