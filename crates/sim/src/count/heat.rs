//! The number of atomic operations per word of device memory: operations at one word are serialized regardless of caches.
//!
//! Counts are kept for the launch as a whole, in pages of 2 KiB of memory. The sums do not depend on the order of blocks.
//! At the memory limit, no further page is tracked and a flag is set.

use std::collections::HashMap;

/// Bytes of a word.
pub(crate) const WORD: u64 = 4;
/// Words of a page.
const PAGE_WORDS: usize = 512;
/// Bytes that tracking a page takes, including its index entry.
const PAGE_BYTES: u64 = 8 * 512 + 64;

/// Atomic operations by word.
pub(crate) struct Heat {
    pages: Vec<Box<[u64; PAGE_WORDS]>>,
    index: HashMap<u64, usize>,
    /// The page accessed last.
    recent: Option<(u64, usize)>,
    limit: usize,
    /// Operations at the word with the most operations.
    pub hottest: u64,
    /// Whether some operations were not tracked.
    pub incomplete: bool,
}

impl Heat {
    /// An empty counter with a memory budget in bytes.
    pub(crate) fn new(memory: u64) -> Heat {
        Heat {
            pages: Vec::new(),
            index: HashMap::new(),
            recent: None,
            limit: usize::try_from(memory / PAGE_BYTES).unwrap_or(usize::MAX),
            hottest: 0,
            incomplete: false,
        }
    }

    fn page(&mut self, number: u64) -> Option<usize> {
        if let Some((recent, place)) = self.recent
            && recent == number
        {
            return Some(place);
        }
        let place = match self.index.get(&number) {
            Some(place) => *place,
            None if self.pages.len() < self.limit => {
                self.pages.push(Box::new([0; PAGE_WORDS]));
                self.index.insert(number, self.pages.len() - 1);
                self.pages.len() - 1
            }
            None => {
                self.incomplete = true;
                return None;
            }
        };
        self.recent = Some((number, place));
        Some(place)
    }

    /// Adds operations at the word that contains an address.
    pub(crate) fn add(&mut self, address: u64, operations: u64) {
        let word = address / WORD;
        let words = u64::try_from(PAGE_WORDS).unwrap_or(u64::MAX);
        let Some(place) = self.page(word / words) else { return };
        let within = usize::try_from(word % words).unwrap_or(0);
        if let Some(count) = self.pages.get_mut(place).and_then(|page| page.get_mut(within)) {
            *count += operations;
            self.hottest = self.hottest.max(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_word_is_that_with_the_most() {
        let mut heat = Heat::new(1 << 20);
        heat.add(0x1000, 3);
        heat.add(0x1004, 5);
        heat.add(0x9000, 4);
        heat.add(0x1002, 1);
        assert_eq!(heat.hottest, 5);
        // Addresses in the other half of a word belong to the same word.
        heat.add(0x1002, 2);
        assert_eq!((heat.hottest, heat.incomplete), (6, false));
    }

    #[test]
    fn a_full_memory_says_so() {
        let mut heat = Heat::new(PAGE_BYTES);
        heat.add(0, 1);
        heat.add(1 << 20, 7);
        assert_eq!((heat.hottest, heat.incomplete), (1, true));
        heat.add(0, 1);
        assert_eq!(heat.hottest, 2);
    }
}
