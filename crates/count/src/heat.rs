//! The number of atomic operations per word of device memory: operations at one word are serialized regardless of caches.
//!
//! Counts are kept for the launch as a whole, in pages of 2 KiB of memory. Blocks that take turns add to them directly; blocks
//! that run at the same time keep theirs until they end, so that what is not tracked at the memory limit depends on the order
//! of blocks only. At the limit, no further page is tracked and a flag is set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

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

/// Where a block's operations are counted.
pub(crate) enum BlockHeat {
    /// With those of all blocks, which take turns.
    Launch(Arc<Mutex<Heat>>),
    /// In a list of its own.
    Block(Operations),
}

impl Default for BlockHeat {
    fn default() -> BlockHeat {
        BlockHeat::Block(Operations::new(0))
    }
}

impl BlockHeat {
    /// Adds operations at words: the first address, and each word's distance from it and operations.
    pub(crate) fn add(&mut self, first: u64, words: &[(u64, u32)]) {
        let words = words.iter().map(|(distance, count)| (first.wrapping_add(*distance), u64::from(*count)));
        match self {
            BlockHeat::Launch(heat) => {
                if let Ok(mut heat) = heat.lock() {
                    words.for_each(|(address, operations)| heat.add(address, operations));
                }
            }
            BlockHeat::Block(own) => words.for_each(|(address, operations)| own.add(address, operations)),
        }
    }
}

/// The operations of one block by word.
pub(crate) struct Operations {
    /// Words and operations; a word may occur several times.
    list: Vec<(u64, u64)>,
    limit: usize,
    incomplete: bool,
}

impl Operations {
    /// An empty list with a memory budget in bytes.
    pub(crate) fn new(memory: u64) -> Operations {
        let entry = u64::try_from(size_of::<(u64, u64)>()).unwrap_or(16);
        let limit = usize::try_from(memory / entry).unwrap_or(usize::MAX);
        Operations { list: Vec::new(), limit, incomplete: false }
    }

    fn add(&mut self, address: u64, operations: u64) {
        let word = address / WORD;
        match self.list.last_mut() {
            Some((last, count)) if *last == word => *count += operations,
            _ if self.incomplete => {}
            _ => self.list.push((word, operations)),
        }
        if !self.incomplete && self.list.len() >= self.limit.max(1) {
            self.sum();
            // Otherwise it would be sorted again and again.
            self.incomplete |= self.list.len() > self.limit / 2;
        }
    }

    /// Adds up the operations of each word.
    fn sum(&mut self) {
        self.list.sort_unstable_by_key(|(word, _)| *word);
        self.list.dedup_by(|later, first| {
            let same = later.0 == first.0;
            first.1 += if same { later.1 } else { 0 };
            same
        });
    }

    /// Adds the operations of the block, which has ended, to those of the launch.
    pub(crate) fn merge_into(mut self, heat: &mut Heat) {
        self.sum();
        heat.incomplete |= self.incomplete;
        for (word, operations) in self.list {
            heat.add(word * WORD, operations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_block_are_those_of_the_launch() {
        let mut heat = Heat::new(1 << 20);
        for block in 0..3u64 {
            let mut own = Operations::new(64);
            for i in 0..100 {
                own.add(0x1000 + 4 * (i % 2), 1 + block);
            }
            own.merge_into(&mut heat);
        }
        assert_eq!((heat.hottest, heat.incomplete), (50 * (1 + 2 + 3), false));
        let mut own = Operations::new(64);
        (0..100).for_each(|i| own.add(0x1000 + 4 * i, 1));
        assert!(own.list.len() <= 4);
        own.merge_into(&mut heat);
        assert_eq!((heat.hottest, heat.incomplete), (301, true));
    }

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
