//! A block's shared memory.

use crate::simd::{Half, Simd};

/// Bytes of the largest shared memory any supported target gives a block, rounded up to a power of two.
pub const MAX_SHARED: usize = 256 * 1024;
const WORDS: usize = MAX_SHARED / 4;

/// Shared memory as 32-bit words. The array has a fixed power-of-two size, so a masked index needs no bounds check; the
/// bounds of the launch are checked once per warp access.
#[derive(Debug)]
pub struct SharedMemory {
    words: Box<[u32; WORDS]>,
    size: u32,
}

impl SharedMemory {
    /// Zeroed memory of `size` bytes.
    pub fn new(size: u32) -> SharedMemory {
        // The length is that of the array, so the conversion cannot fail.
        let words: Box<[u32]> = vec![0; WORDS].into();
        match words.try_into() {
            Ok(words) => SharedMemory { words, size },
            Err(_) => unreachable!("a vector of WORDS words"),
        }
    }

    /// Prepares it for another block: `size` bytes, zeroed.
    pub fn reset(&mut self, size: u32) {
        let used = usize::try_from(self.size.max(size)).unwrap_or(MAX_SHARED).min(MAX_SHARED);
        self.words[..used.div_ceil(4)].fill(0);
        self.size = size;
    }

    /// Bytes the block may use.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The word at a word index; indices past the end wrap, so callers check bounds first.
    #[inline(always)]
    #[expect(clippy::as_conversions, reason = "masked to the array's size")]
    pub fn word(&self, index: u32) -> u32 {
        self.words[index as usize & (WORDS - 1)]
    }

    /// Sixteen words from a word index on; `None` at the end of the array.
    #[inline(always)]
    pub fn words(&self, index: u32) -> Option<&[u32; 16]> {
        self.words.get(crate::machine::at(index)..).and_then(<[u32]>::first_chunk)
    }

    /// The words at word indices, one for each lane.
    #[inline(always)]
    pub fn gather<I: Simd>(&self, index: &[u32; 32]) -> [u32; 32] {
        I::gather(&self.words, index)
    }

    /// As [`gather`](Self::gather), for indices whose halves lie so.
    #[inline(always)]
    pub fn gather_halves<I: Simd>(&self, index: &[u32; 32], halves: [Half; 2]) -> [u32; 32] {
        if halves.contains(&Half::Mixed) {
            return self.gather::<I>(index);
        }
        let mut out = [0; 32];
        let (low, high) = out.split_at_mut(16);
        low.copy_from_slice(&self.half(index[0], halves[0]));
        high.copy_from_slice(&self.half(index[16], halves[1]));
        out
    }

    /// Sixteen words from a word index on, or the word there in all lanes.
    #[inline(always)]
    pub fn half(&self, index: u32, half: Half) -> [u32; 16] {
        match (half, self.words(index)) {
            (Half::Run, Some(words)) => *words,
            _ => [self.word(index); 16],
        }
    }

    /// As [`scatter`](Self::scatter), for indices whose halves lie so.
    #[inline(always)]
    pub fn scatter_halves<I: Simd>(&mut self, index: &[u32; 32], halves: [Half; 2], values: &[u32; 32]) {
        if halves != [Half::Run; 2] {
            return self.scatter::<I>(index, values);
        }
        for (half, values) in values.as_chunks::<16>().0.iter().enumerate() {
            let rest = self.words.get_mut(crate::machine::at(index[16 * half])..);
            if let Some(words) = rest.and_then(<[u32]>::first_chunk_mut) {
                *words = *values;
            }
        }
    }

    /// Stores a word per lane at word indices; of lanes with the same index, the last one wins.
    #[inline(always)]
    pub fn scatter<I: Simd>(&mut self, index: &[u32; 32], values: &[u32; 32]) {
        I::scatter(&mut self.words, index, values);
    }

    /// The word at a word index, to write.
    #[inline(always)]
    #[expect(clippy::as_conversions, reason = "masked to the array's size")]
    pub fn word_mut(&mut self, index: u32) -> &mut u32 {
        &mut self.words[index as usize & (WORDS - 1)]
    }

    /// Reads `N` bytes at a byte offset that was checked to be in bounds.
    #[inline]
    pub fn read<const N: usize>(&self, offset: u32) -> [u8; N] {
        let mut out = [0; N];
        let (words, rest) = out.as_chunks_mut::<4>();
        if rest.is_empty() && offset.is_multiple_of(4) {
            for (index, word) in (offset / 4..).zip(words) {
                *word = self.word(index).to_le_bytes();
            }
            return out;
        }
        for (at, byte) in (offset..).zip(&mut out) {
            *byte = self.word(at / 4).to_le_bytes()[byte_of(at)];
        }
        out
    }

    /// Writes `N` bytes at a byte offset that was checked to be in bounds.
    #[inline]
    pub fn write<const N: usize>(&mut self, offset: u32, bytes: [u8; N]) {
        let (words, rest) = bytes.as_chunks::<4>();
        if rest.is_empty() && offset.is_multiple_of(4) {
            for (index, word) in (offset / 4..).zip(words) {
                *self.word_mut(index) = u32::from_le_bytes(*word);
            }
            return;
        }
        for (at, byte) in (offset..).zip(bytes) {
            let word = self.word_mut(at / 4);
            let mut parts = word.to_le_bytes();
            parts[byte_of(at)] = byte;
            *word = u32::from_le_bytes(parts);
        }
    }
}

#[inline]
#[expect(clippy::as_conversions, reason = "two bits")]
fn byte_of(offset: u32) -> usize {
    (offset & 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    fn lanes_reach_their_words<I: Simd>() {
        let shapes: [fn(u32) -> u32; 8] = [
            |lane| lane,
            |lane| lane % 16,
            |lane| lane % 8 + 5,
            |lane| 16 + lane / 16,
            |_| 7,
            |lane| if lane < 16 { lane } else { 3 },
            |lane| lane * 33 % 64,
            |lane| 65_535 - 31 + lane,
        ];
        for (shape, place) in shapes.iter().enumerate() {
            let index: [u32; 32] = std::array::from_fn(|lane| place(at(lane)));
            let mut shared = SharedMemory::new(262_144);
            (0..64).chain(65_500..65_536).for_each(|at| *shared.word_mut(at) = at * 3 + 1);
            assert_eq!(shared.gather::<I>(&index), index.map(|at| at * 3 + 1), "shape {shape}");
            let values: [u32; 32] = std::array::from_fn(|lane| 1000 + at(lane));
            shared.scatter::<I>(&index, &values);
            for at in index {
                let last = index.iter().rposition(|other| *other == at).unwrap();
                assert_eq!(shared.word(at), values[last], "shape {shape}");
            }
        }
        // Past the end the index wraps, on every path.
        let shared = SharedMemory::new(64);
        assert_eq!(shared.gather::<I>(&std::array::from_fn(|lane| u32::MAX - 31 + at(lane))), [0; 32]);
    }

    fn at(lane: usize) -> u32 {
        u32::try_from(lane).unwrap()
    }

    /// For any pattern of the lanes' indices, at every level.
    #[test]
    fn every_lane_reaches_its_word() {
        lanes_reach_their_words::<crate::simd::Portable>();
        if Level::V3.available() {
            lanes_reach_their_words::<crate::simd::V3>();
        }
        if Level::V4.available() {
            lanes_reach_their_words::<crate::simd::V4>();
        }
    }

    #[test]
    fn bytes_and_words_are_the_same_memory() {
        let mut shared = SharedMemory::new(64);
        shared.write(5, [1, 2, 3, 4]);
        assert_eq!(shared.word(1), 0x0302_0100);
        assert_eq!(shared.read::<2>(8), [4, 0]);
        shared.reset(64);
        assert_eq!(shared.word(1), 0);
    }
}
