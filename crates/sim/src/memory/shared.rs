//! A block's shared memory.

use crate::simd::Isa;

/// Bytes of the largest shared memory any supported target gives a block, rounded up to a power of two.
pub const MAX_SHARED: usize = 256 * 1024;
const WORDS: usize = MAX_SHARED / 4;
/// Lanes in half a warp, which is the width of a tile in many kernels.
const HALF: usize = 16;

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

    /// Makes it ready for another block: `size` bytes, zeroed.
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

    /// The words at word indices, one for each lane. Half a warp nearly always reads one word after another, or all the
    /// same one, and a gather costs several times as much as that.
    #[inline(always)]
    pub fn gather<I: Isa>(&self, index: &[u32; 32]) -> [u32; 32] {
        let mut out = [0; 32];
        for (from, to) in index.as_chunks::<HALF>().0.iter().zip(out.as_chunks_mut::<HALF>().0) {
            let first = from[0];
            if consecutive(from)
                && let Some(run) = self.run(first)
            {
                *to = *run;
            } else if same(from) {
                *to = [self.word(first); HALF];
            } else {
                return I::gather(&self.words, index);
            }
        }
        out
    }

    /// Stores a word per lane at word indices; of lanes with the same index the last one counts.
    #[inline(always)]
    pub fn scatter(&mut self, index: &[u32; 32], values: &[u32; 32]) {
        for (to, from) in index.as_chunks::<HALF>().0.iter().zip(values.as_chunks::<HALF>().0) {
            if consecutive(to)
                && let Some(run) = self.run_mut(to[0])
            {
                *run = *from;
            } else {
                for (at, value) in to.iter().zip(from) {
                    *self.word_mut(*at) = *value;
                }
            }
        }
    }

    /// The words from an index on, where that does not pass the end.
    #[inline(always)]
    fn run(&self, first: u32) -> Option<&[u32; HALF]> {
        self.words.get(crate::machine::at(first)..)?.first_chunk()
    }

    #[inline(always)]
    fn run_mut(&mut self, first: u32) -> Option<&mut [u32; HALF]> {
        self.words.get_mut(crate::machine::at(first)..)?.first_chunk_mut()
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
        for (at, byte) in (offset..).zip(&mut out) {
            *byte = self.word(at / 4).to_le_bytes()[byte_of(at)];
        }
        out
    }

    /// Writes `N` bytes at a byte offset that was checked to be in bounds.
    #[inline]
    pub fn write<const N: usize>(&mut self, offset: u32, bytes: [u8; N]) {
        for (at, byte) in (offset..).zip(bytes) {
            let word = self.word_mut(at / 4);
            let mut parts = word.to_le_bytes();
            parts[byte_of(at)] = byte;
            *word = u32::from_le_bytes(parts);
        }
    }
}

/// Whether every index is one more than that of the lane before. Without an early end, so that it becomes vector code.
#[inline(always)]
fn consecutive(index: &[u32; HALF]) -> bool {
    let mut gaps = 0;
    for (lane, at) in (0u32..).zip(index) {
        gaps |= at ^ index[0].wrapping_add(lane);
    }
    gaps == 0
}

/// Whether all indices are the same.
#[inline(always)]
fn same(index: &[u32; HALF]) -> bool {
    index.iter().fold(0, |gaps, at| gaps | (at ^ index[0])) == 0
}

#[inline]
#[expect(clippy::as_conversions, reason = "two bits")]
fn byte_of(offset: u32) -> usize {
    (offset & 3) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the lanes' indices lie to each other, every lane gets its own word.
    #[test]
    fn runs_repeats_and_scatterings_give_every_lane_its_word() {
        let shapes: [fn(u32) -> u32; 7] = [
            |lane| lane,
            |lane| lane % 16,
            |lane| 16 + lane / 16,
            |_| 7,
            |lane| if lane < 16 { lane } else { 3 },
            |lane| lane * 33 % 64,
            |lane| 65_535 - 31 + lane,
        ];
        for shape in shapes {
            let index: [u32; 32] = std::array::from_fn(|lane| shape(u32::try_from(lane).unwrap()));
            let mut shared = SharedMemory::new(262_144);
            (0..64).chain(65_500..65_536).for_each(|at| *shared.word_mut(at) = at * 3 + 1);
            assert_eq!(shared.gather::<crate::simd::Portable>(&index), index.map(|at| at * 3 + 1));
            let values: [u32; 32] = std::array::from_fn(|lane| 1000 + u32::try_from(lane).unwrap());
            shared.scatter(&index, &values);
            for (lane, at) in index.iter().enumerate() {
                let last = index.iter().rposition(|other| other == at).unwrap();
                assert_eq!(shared.word(*at), values[last], "lane {lane}");
            }
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
